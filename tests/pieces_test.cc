// Values made in pieces, from graph to run: random networks that join and cut rows all the time,
// planned without a budget, under one, and with a slow tier. Every plan passes the verifier (the
// gate) and the naive judge, which also agree on changed copies of it; it runs in an arena of the
// planned size, poisoned, and its results and parameters are what the reference executor computes
// of the graph as it was before anything was joined.
#include "rewrite/pieces.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "support/graph_writer.h"
#include "support/judge_plan.h"
#include "support/long_checks.h"
#include "support/run_against_reference.h"

namespace lowtide::pieces_test {
namespace {

using ir::ValueId;

constexpr int64_t kWidth = 16;  // a row of floats is 64 bytes, the alignment

class Network : public GraphWriter {
 public:
  Network(uint64_t seed, int ops) : rng_(seed) {
    graph_.name = "pieces";
    pool_.push_back(given("x", {4, kWidth}, Category::kInput));
    pool_.push_back(op("Tanh", {pool_[0]}));
    for (int i = 0; i < ops; ++i) grow(i);
    // What nobody reads is a result; so are some that are read.
    for (ValueId v : graph_.values())
      if (graph_.value(v).producer.valid() && (graph_.readers(v).empty() || rng_.below(8) == 0))
        graph_.set_output(v, true);
  }

 private:
  int64_t rows(ValueId v) const { return *graph_.value(v).dims[0].constant(); }
  int64_t size(ValueId v) const { return *ir::element_count(graph_.value(v)).constant(); }
  ValueId any() {
    const size_t recent = std::min<size_t>(pool_.size(), 8);
    return pool_[pool_.size() - 1 - rng_.below(recent)];
  }

  void grow(int i) {
    const ValueId x = any();
    switch (rng_.below(7)) {
      case 0:
        return pool_.push_back(op("Relu", {x}));
      case 1: {
        const ValueId w = given("w" + std::to_string(i), {kWidth, kWidth}, Category::kParameter);
        return pool_.push_back(op("MatMul", {x, w, ValueId::none(), ValueId::none()},
                                  {{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}}));
      }
      case 2:
        return pool_.push_back(op("Mul", {x, op("Sigmoid", {x})}));
      case 3: {
        if (rows(x) < 2) return;
        const int64_t begin = static_cast<int64_t>(rng_.below(static_cast<size_t>(rows(x))));
        return pool_.push_back(
            op("Slice", {x},
               {{"starts", ir::Dims{begin, 0}}, {"sizes", ir::Dims{rows(x) - begin, kWidth}}}));
      }
      default: {
        std::vector<ValueId> parts = {x, any()};
        if (rng_.below(2) == 0) parts.push_back(any());
        int64_t all = 0;
        for (ValueId part : parts) all += rows(part);
        if (all > 64) return;
        return pool_.push_back(op("Concat", parts, {{"axis", int64_t{0}}}));
      }
    }
  }

  Rng rng_;
  std::vector<ValueId> pool_;
};

struct Seen {
  int wholes = 0, reruns = 0, moves = 0, budgets = 0, refused_copies = 0;
};

void look_at(const plan::Plan& plan, uint64_t seed, Seen& seen) {
  for (const plan::PlanValue& value : plan.values)
    seen.wholes += value.alias == plan::PlanAlias::kPieces;
  std::map<plan::PlanOpId, int> runs;
  for (const plan::Step& step : plan.steps) {
    seen.moves += step.kind == plan::Step::Kind::kLoad;
    if (step.kind == plan::Step::Kind::kCompute && !plan::only_views(plan, step.op))
      seen.reruns += runs[step.op]++ > 0;
  }
  seen.refused_copies += judged(plan, some_of(400, 10), seed);
}

// Also where somebody could have worked in place: the pass leaves most such Concats alone.
ir::Graph joined(const ir::Graph& graph) {
  auto report = rewrite::join_pieces(graph, 64, {.instead_of_in_place = true});
  EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
  return report ? std::move(report->graph) : graph;
}

void check_plans(const ir::Graph& given, const ir::Graph& whole, pipeline::OptimizeOptions options,
                 const runtime::KernelFactory& kernels, uint64_t seed, Seen& seen) {
  // Training differentiates the graph first, and Join has no gradient.
  const ir::Graph graph = options.training ? given : joined(given);
  options.order.limits.max_units = 3'000'000;  // what is right does not hang on the order
  const auto free = pipeline::optimize(graph, options);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  look_at(free->plan, seed, seen);
  expect_right_results(free->plan, whole, kernels);
  options.schedule.remat.limits.max_units = options.schedule.swap.limits.max_units = 2'000'000;
  options.find_smallest = false;
  for (const bool slow : {false, true}) {
    if (testing::Test::HasFailure()) return;
    if (slow) {
      plan::Link link;
      link.bytes_per_second_out = link.bytes_per_second_in = 1e9;
      options.slow_tiers = {{"host", link}};
    }
    const auto least = pipeline::least_bytes(graph, options);
    ASSERT_TRUE(least.has_value()) << least.error().message;
    options.budget_bytes = *least + (free->plan.arena_bytes - *least) / 2;
    const auto tight = pipeline::optimize(graph, options);
    if (!tight) {
      EXPECT_NE(tight.error().code, ErrorCode::kInternal) << tight.error().message;
      continue;
    }
    ++seen.budgets;
    look_at(tight->plan, seed, seen);
    expect_right_results(tight->plan, whole, kernels);
  }
}

pipeline::OptimizeOptions options_with(const plan::KernelCatalog& kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = &kernels;
  return options;
}

TEST(Pieces, ArePlannedProvenAndRun) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  Seen seen;
  const int seeds = some_of(40, 2);
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(seeds); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Network network(seed, 26);
    const bool results = seed % 4 == 0;  // which stay to the end and leave a budget little to do
    const ir::Graph& graph = results ? network.graph() : network.with_one_result();
    check_plans(graph, graph, options_with(*kernels), *kernels, seed, seen);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(seen.wholes, 5 * seeds / 2);
  EXPECT_GT(seen.budgets, seeds / 2);
  EXPECT_GT(seen.reruns, seeds / 2);
  EXPECT_GT(seen.moves, seeds / 2);
  EXPECT_GT(seen.refused_copies, 25 * seeds / 2);
}

TEST(Pieces, Train) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  Seen seen;
  for (uint64_t seed = 100; seed < 112; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Network network(seed, 12);
    auto options = options_with(*kernels);
    options.training.emplace();
    options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
    const ir::Graph& forward = network.with_one_result();
    const auto step = autodiff::make_training_graph(forward, *options.training);
    ASSERT_TRUE(step.has_value()) << step.error().message;
    check_plans(forward, *step, options, *kernels, seed, seen);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(seen.wholes, 15);
  EXPECT_GT(seen.budgets, 5);
}

// Not worse than the same network with copies: time, peak, bound and floor. (Under a budget two
// searches would be compared, not two networks.)
TEST(Pieces, AreNeverWorseThanCopies) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  int wholes = 0, lower = 0, faster = 0;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Network network(seed, 18);
    auto options = options_with(*kernels);
    options.find_smallest = false;
    const auto pieces = pipeline::optimize(network.graph(), options);
    const auto floor = pipeline::least_bytes(network.graph(), options);
    options.pieces = false;
    const auto copies = pipeline::optimize(network.graph(), options);
    const auto floor_of_copies = pipeline::least_bytes(network.graph(), options);
    ASSERT_TRUE(pieces && copies && floor && floor_of_copies);
    for (const plan::PlanValue& value : pieces->plan.values)
      wholes += value.alias == plan::PlanAlias::kPieces;
    EXPECT_LE(pieces->plan.claims.predicted_seconds, copies->plan.claims.predicted_seconds);
    EXPECT_LE(pieces->plan.claims.lower_bound_bytes, copies->plan.claims.lower_bound_bytes);
    EXPECT_LE(pieces->plan.claims.peak_bytes, copies->plan.claims.peak_bytes);
    EXPECT_LE(*floor, *floor_of_copies);
    lower += pieces->plan.arena_bytes < copies->plan.arena_bytes;
    faster += pieces->plan.claims.predicted_seconds < copies->plan.claims.predicted_seconds;
  }
  EXPECT_GT(wholes, 5);
  EXPECT_GT(faster, 3);
  EXPECT_GT(lower, 5);
}

// c = Concat(a, b); Add works in place on c beside another value that lives on.
TEST(Pieces, AConcatThatSomebodyWorksOnInPlaceIsCopied) {
  GraphWriter net;
  const ValueId in = net.given("x", {32, 16});
  const ir::Attrs rows = {{"axis", int64_t{0}}};
  const ValueId c = net.op("Concat", {net.op("Exp", {in}), net.op("Tanh", {in})}, rows);
  const ValueId other = net.op("Expand", {net.op("Reshape", {in}, {{"shape", ir::Dims{1, 512}}})},
                               {{"shape", ir::Dims{2, 512}}});
  const ValueId wide = net.op("Reshape", {other}, {{"shape", ir::Dims{64, 16}}});
  net.result(wide);
  net.result(net.op("Add", {c, wide}));
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto options = options_with(*kernels);
  const auto plan = pipeline::optimize(net.graph(), options);
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  options.pieces = false;
  EXPECT_EQ(plan->plan.arena_bytes, pipeline::optimize(net.graph(), options)->plan.arena_bytes);
  const ir::Graph forced = joined(net.graph());
  EXPECT_LT(plan->plan.arena_bytes, pipeline::optimize(forced, options)->plan.arena_bytes);
}

// Wholes that came in are held against each other, with and without the pass.
TEST(Pieces, DistancesThatContradictAreRefused) {
  GraphWriter net;
  const ValueId in = net.given("x", {4, 16});
  const ir::Attrs rows = {{"axis", int64_t{0}}};
  const ValueId a = net.op("Exp", {in}), b = net.op("Tanh", {in});
  net.result(net.op("Exp", {net.op("Join", {a, b}, rows)}));
  const GraphWriter concat = net;
  EXPECT_FALSE(ops::append(net.graph(), "Join", {a, a}, rows).has_value());
  net.result(net.op("Exp", {net.op("Join", {b, a}, rows)}));
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  for (const bool pieces : {false, true}) {
    auto options = options_with(*kernels);
    options.pieces = pieces;
    const auto refused = pipeline::optimize(net.graph(), options);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInput);
    EXPECT_NE(refused.error().message.find("other distances"), std::string::npos);
    // A Concat of a whole and one of its pieces copies.
    GraphWriter mixed = concat;
    const ValueId whole = *mixed.graph().find_value("Join");
    mixed.result(mixed.op("Exp", {mixed.op("Concat", {whole, b}, rows)}));
    const auto planned = pipeline::optimize(mixed.graph(), options);
    ASSERT_TRUE(planned.has_value()) << planned.error().message;
    expect_right_results(planned->plan, mixed.graph(), *kernels);
  }
}

}  // namespace
}  // namespace lowtide::pieces_test
