// Strided views, from graph text to run: random networks full of slices, transposes, expansions and
// reshapes that copy nothing, and views of those. Every plan passes the verifier (the gate) and the
// naive judge, which also agree on changed copies of it; it runs in an arena of the planned size,
// poisoned, and its results are what the reference executor computes, which knows no layouts. Then
// the pass that makes such views: never worse than copies.
#include "rewrite/strided_views.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "io/graph_file.h"
#include "ir/graph_text.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "support/graph_writer.h"
#include "support/judge_plan.h"
#include "support/long_checks.h"
#include "support/run_against_reference.h"

namespace lowtide::strided_views_test {
namespace {

using ir::ValueId;
using Index = std::vector<int64_t>;

constexpr int64_t kMostElements = 1500;

// Whether the network asks for views, or is to be given them by the pass.
enum class Views : uint8_t { kAsked, kLeftToThePass };

class Network : public GraphWriter {
 public:
  Network(uint64_t seed, int ops, Views views) : rng_(seed), views_(views) {
    graph_.name = "strided";
    pool_.push_back(given("x", {6, 8}, Category::kInput));
    pool_.push_back(given("w", {8, 5}, Category::kParameter));
    pool_.push_back(op("Tanh", {pool_[0]}));
    pool_.push_back(op("Exp", {given("y", {2, 3, 4}, Category::kInput)}));
    for (int i = 0; i < ops; ++i) grow(i);
    for (ValueId v : graph_.values())
      if (graph_.value(v).producer.valid() && (graph_.readers(v).empty() || rng_.below(8) == 0))
        graph_.set_output(v, true);
  }

 private:
  Index dims(ValueId v) const {
    Index result;
    for (const sym::Expr& dim : graph_.value(v).dims) result.push_back(*dim.constant());
    return result;
  }
  ValueId any() { return pool_[pool_.size() - 1 - rng_.below(std::min<size_t>(pool_.size(), 10))]; }
  int64_t drawn(int64_t most) { return rng_.between(1, most); }

  void keep(ValueId v) {
    if (ir::element_count(graph_.value(v)).constant().value_or(0) <= kMostElements)
      pool_.push_back(v);
  }
  void view(std::string_view kind, ValueId x, ir::Attrs attrs) {
    if (views_ == Views::kAsked && rng_.below(5) != 0) attrs["view"] = int64_t{1};
    // A Reshape of what has strides is a view or an error.
    const auto made = ops::append(graph_, kind, {x}, std::move(attrs));
    if (made) keep(graph_.op(*made).outputs[0]);
  }

  void transpose(ValueId x) {
    ir::Dims perm;
    for (size_t d = 0; d < dims(x).size(); ++d)
      perm.insert(perm.begin() + static_cast<int64_t>(rng_.below(perm.size() + 1)),
                  static_cast<int64_t>(d));
    view("Transpose", x, {{"perm", perm}});
  }
  void slice(ValueId x) {
    ir::Dims starts, sizes, steps;
    for (int64_t dim : dims(x)) {
      const int64_t start = static_cast<int64_t>(rng_.below(static_cast<uint64_t>(dim + 1) / 2));
      const int64_t step = rng_.below(4) == 0 ? 2 : 1;
      starts.emplace_back(start);
      sizes.emplace_back((dim - start + step - 1) / step);
      steps.emplace_back(step);
    }
    view("Slice", x, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
  }
  void expand(ValueId x) {
    ir::Dims shape;
    if (dims(x).size() < 3) shape.emplace_back(drawn(3));
    for (int64_t dim : dims(x)) shape.emplace_back(dim == 1 ? drawn(4) : dim);
    view("Expand", x, {{"shape", shape}});
  }
  void reshape(ValueId x) {
    ir::Dims shape;
    const Index from = dims(x);
    for (size_t d = 0; d < from.size(); ++d) {
      const bool joins = d + 1 < from.size() && rng_.below(2) == 0;
      const int64_t dim = joins ? from[d] * from[d + 1] : from[d];
      d += joins;
      if (dim % 2 == 0 && from.size() < 4) shape.emplace_back(2);
      shape.emplace_back(dim % 2 == 0 && from.size() < 4 ? dim / 2 : dim);
    }
    view("Reshape", x, {{"shape", shape}});
  }
  void product(ValueId x, int i) {
    const Index from = dims(x);
    if (from.size() < 2) return;
    const bool transposed = rng_.below(2) == 0;
    const int64_t k = from.back(), n = drawn(9);
    ValueId w = given("w" + std::to_string(i), transposed ? ir::Dims{n, k} : ir::Dims{k, n},
                      Category::kParameter);
    if (transposed)
      w = op("Transpose", {w},
             {{"perm", ir::Dims{1, 0}}, {"view", int64_t{views_ == Views::kAsked}}});
    keep(op("MatMul", {x, w, ValueId::none(), ValueId::none()}));
  }
  void gram(ValueId x) {
    const Index from = dims(x);
    if (from.size() < 2) return;
    ir::Dims perm;
    for (size_t d = 0; d < from.size(); ++d) perm.emplace_back(static_cast<int64_t>(d));
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    const ValueId other =
        op("Transpose", {x}, {{"perm", perm}, {"view", int64_t{views_ == Views::kAsked}}});
    keep(op("MatMul", {x, other, ValueId::none(), ValueId::none()}));
  }
  void pair(ValueId x) {
    ValueId other = op("Sigmoid", {x});
    for (ValueId each : pool_)
      if (dims(each) == dims(x) && rng_.below(2) == 0) other = each;
    keep(op(rng_.below(2) == 0 ? "Add" : "Mul", {x, other}));
  }

  void grow(int i) {
    const ValueId x = any();
    const ir::Attrs last = {{"axis", static_cast<int64_t>(dims(x).size()) - 1}};
    switch (rng_.below(14)) {
      case 0:
      case 1:
      case 2:
        return transpose(x);
      case 3:
      case 4:
        return slice(x);
      case 5:
        return expand(x);
      case 6:
        return reshape(x);
      case 7:
      case 8:
        return product(x, i);
      case 9:
        return gram(x);
      case 10:
        return keep(op("Tanh", {x}));
      case 11:
        return keep(dims(x).empty() ? op("Tanh", {x}) : op("Softmax", {x}, last));
      case 12:
        return keep(dims(x).empty()
                        ? op("Tanh", {x})
                        : op("ReduceSum", {x}, {{"axes", ir::Dims{0}}, {"keepdims", int64_t{1}}}));
      default:
        return pair(x);
    }
  }

  Rng rng_;
  Views views_;
  std::vector<ValueId> pool_;
};

struct Seen {
  int strided = 0, expanded = 0, chained = 0, copies = 0, budgets = 0, refused_copies = 0;
};

void look_at(const plan::Plan& plan, uint64_t seed, Seen& seen) {
  for (const plan::PlanValue& value : plan.values) {
    const std::vector<int64_t>& strides = value.type.layout.strides;
    if (strides.empty()) continue;
    ++seen.strided;
    for (size_t d = 0; d < strides.size(); ++d)
      if (strides[d] == 0 && value.type.dims[d] > 1) {
        ++seen.expanded;
        break;
      }
    seen.chained += plan.values[value.base].type.layout.strided();
  }
  for (const plan::PlanOp& op : plan.ops)
    seen.copies += op.kind == "Reorder" && plan.values[op.inputs[0]].type.layout.strided();
  seen.refused_copies += judged(plan, some_of(400, 10), seed);
}

pipeline::OptimizeOptions options_with(const plan::KernelCatalog& kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = &kernels;
  options.find_smallest = false;
  return options;
}

void check_plans(const ir::Graph& graph, const ir::Graph& whole, pipeline::OptimizeOptions options,
                 const runtime::KernelFactory& kernels, uint64_t seed, Seen& seen) {
  options.order.limits.max_units = 3'000'000;  // what is right does not hang on the order
  const auto free = pipeline::optimize(graph, options);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  look_at(free->plan, seed, seen);
  expect_right_results(free->plan, whole, kernels);
  options.schedule.remat.limits.max_units = options.schedule.swap.limits.max_units = 1'000'000;
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

// The graph as its text says it, read by the door that believes nothing.
ir::Graph from_text(const ir::Graph& graph) {
  const std::string text = ir::print(graph);
  auto read = io::read_graph_text(text, "drawn");
  EXPECT_TRUE(read.has_value()) << read.error().message;
  if (read) {
    EXPECT_EQ(ir::print(*read), text);
  }
  return read ? std::move(*read) : graph;
}

TEST(StridedViews, ArePlannedProvenAndRun) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  Seen seen;
  const int seeds = some_of(40, 2);
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(seeds); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Network network(seed, 26, Views::kAsked);
    const bool results = seed % 4 == 0;  // which stay to the end and leave a budget little to do
    const ir::Graph graph = from_text(results ? network.graph() : network.with_one_result());
    check_plans(graph, graph, options_with(*kernels), *kernels, seed, seen);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(seen.strided, 10 * seeds);
  EXPECT_GT(seen.expanded, 5 * seeds / 4);
  EXPECT_GT(seen.chained, 5 * seeds / 4);
  EXPECT_GT(seen.copies, 3 * seeds / 4);
  EXPECT_GT(seen.budgets, seeds / 2);
  EXPECT_GT(seen.refused_copies, 25 * seeds / 2);
}

TEST(StridedViews, Train) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  Seen seen;
  for (uint64_t seed = 100; seed < 112; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Network network(seed, 12, Views::kAsked);
    auto options = options_with(*kernels);
    options.training.emplace();
    options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
    const ir::Graph& forward = network.with_one_result();
    const auto step = autodiff::make_training_graph(forward, *options.training);
    if (!step) {
      EXPECT_EQ(step.error().message, "the loss of 'strided' depends on no parameter");
      continue;
    }
    check_plans(forward, *step, options, *kernels, seed, seen);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(seen.strided, 50);
  EXPECT_GT(seen.budgets, 5);
}

// Not worse than the same network with copies: time, peak, bound and floor.
TEST(StridedViews, OfThePassAreNeverWorseThanCopies) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  int strided = 0, lower = 0, faster = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(48, 2)); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Network network(seed, 20, Views::kLeftToThePass);
    const ir::Graph& graph = seed % 4 == 0 ? network.graph() : network.with_one_result();
    auto options = options_with(*kernels);
    const auto views = pipeline::optimize(graph, options);
    const auto floor = pipeline::least_bytes(graph, options);
    options.strided_views = false;
    const auto copies = pipeline::optimize(graph, options);
    const auto floor_of_copies = pipeline::least_bytes(graph, options);
    ASSERT_TRUE(views && copies && floor && floor_of_copies);
    for (const plan::PlanValue& value : views->plan.values) strided += value.type.layout.strided();
    for (const plan::PlanValue& value : copies->plan.values)
      EXPECT_FALSE(value.type.layout.strided());
    EXPECT_LE(views->plan.claims.predicted_seconds, copies->plan.claims.predicted_seconds);
    EXPECT_LE(views->plan.claims.lower_bound_bytes, copies->plan.claims.lower_bound_bytes);
    EXPECT_LE(views->plan.claims.peak_bytes, copies->plan.claims.peak_bytes);
    if (*floor > *floor_of_copies) {  // proven of these only: nothing is found for copies either
      options.budget_bytes = *floor - 1;
      EXPECT_FALSE(pipeline::optimize(graph, options).has_value());
    }
    lower += views->plan.claims.peak_bytes < copies->plan.claims.peak_bytes;
    faster += views->plan.claims.predicted_seconds < copies->plan.claims.predicted_seconds;
    expect_right_results(views->plan, graph, *kernels);
    if (HasFailure()) return;
  }
  EXPECT_GT(lower, some_of(6, 2));
  EXPECT_GT(strided, some_of(30, 2));
  EXPECT_GT(faster, some_of(20, 2));
}

// One product with its transposed operand: the copy is what the peak consists of. In f64, whose
// kernel is our own: that of oneDNN may copy the operand into its workspace, on some processors.
TEST(StridedViews, LowerThePeakOfAProduct) {
  ir::Graph graph;
  ir::Value value;
  value.name = "x";
  value.dtype = DType::kF64;
  value.dims = {64, 64};
  value.category = Category::kInput;
  ValueId x = graph.add_value(value);
  const auto op = [&](std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    return graph.op(*ops::append(graph, kind, std::move(inputs), std::move(attrs))).outputs[0];
  };
  x = op("Exp", {x});
  const ValueId t = op("Transpose", {x}, {{"perm", ir::Dims{1, 0}}});
  graph.set_output(op("MatMul", {t, x, ValueId::none(), ValueId::none()}), true);
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto options = options_with(*kernels);
  const auto view = pipeline::optimize(graph, options);
  options.strided_views = false;
  const auto copy = pipeline::optimize(graph, options);
  ASSERT_TRUE(view && copy);
  EXPECT_EQ(copy->plan.claims.peak_bytes - view->plan.claims.peak_bytes, 64 * 64 * 8);
  EXPECT_TRUE(view->plan.claims.order_proven);
  expect_right_results(view->plan, graph, *kernels);
}

// Heads that were split off are read where they lie, by whatever walks whole rows.
TEST(StridedViews, AreReadByKernelsOfRows) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  for (const std::string_view kind : {"Softmax", "LogSoftmax", "Gather"}) {
    SCOPED_TRACE(kind);
    GraphWriter net;
    const ValueId x = net.op("Exp", {net.given("x", {2, 24, 6, 32})});
    std::vector<ValueId> inputs = {net.op("Transpose", {x}, {{"perm", ir::Dims{0, 2, 1, 3}}})};
    const ir::Attrs attrs = {{"axis", int64_t{kind == "Gather" ? 2 : 3}}};
    if (kind == "Gather") {
      const ValueId scores = net.given("scores", {20, 24});
      inputs.push_back(net.op("ArgMax", {scores}, {{"axis", int64_t{1}}}));
    }
    net.result(net.op(kind, std::move(inputs), attrs));
    auto options = options_with(*kernels);
    const auto view = pipeline::optimize(net.graph(), options);
    options.strided_views = false;
    const auto copy = pipeline::optimize(net.graph(), options);
    ASSERT_TRUE(view && copy);
    int strided = 0;
    for (const plan::PlanValue& value : view->plan.values) strided += value.type.layout.strided();
    EXPECT_EQ(strided, 1);
    EXPECT_LT(view->plan.claims.predicted_seconds, copy->plan.claims.predicted_seconds);
    EXPECT_LE(view->plan.claims.peak_bytes, copy->plan.claims.peak_bytes);
    expect_right_results(view->plan, net.graph(), *kernels);
  }
}

}  // namespace
}  // namespace lowtide::strided_views_test
