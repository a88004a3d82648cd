// Rows of images in parts: windows that reach beyond a part's own rows, in what is read (of a
// convolution, a pool) and in what is made (of their gradients). Networks of one image each, cut
// along its rows at random places: the reference executor gets the same results in double
// precision, the verifier finds the same step in their plans and none where something of what
// overlaps is lost, and no image is ever there whole where nobody needs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/part_order.h"
#include "fission/rules.h"
#include "ir/id_order.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "pipeline/take_rewrites.h"
#include "support/long_checks.h"
#include "support/quick_plans.h"
#include "support/run_against_reference.h"
#include "support/small_steps.h"
#include "verify/parts.h"

namespace lowtide::windows_test {
namespace {

using fission::Windows;

class Image : private GraphWriter {
 public:
  // A chain of convolutions over one large image.
  ir::Graph chain(int layers) {
    ir::ValueId x = given("image", {1, 4, 64, 64}, Category::kInput);
    const ir::Attrs same = {{"strides", ir::Dims{1, 1}}, {"pads", ir::Dims{1, 1, 1, 1}}};
    for (int k = 0; k < layers; ++k) {
      const std::string name = "w" + std::to_string(k);
      x = op("Relu", {op("Conv", {x, given(name, {4, 4, 3, 3}, Category::kParameter)}, same)});
    }
    x = op("ReduceMean", {x}, {{"axes", ir::Dims{2, 3}}, {"keepdims", int64_t{1}}});
    graph_.set_output(x, true);
    return std::move(graph_);
  }

  // Everything that has windows, of one image: strides, gaps between windows, averages that leave
  // padding out, an upward convolution with a bias.
  ir::Graph of_all_kinds(Rng& rng) {
    const auto drawn = [&] { return rng.below(2) == 0; };
    const int64_t rows = 8 * rng.between(2, 4);
    ir::ValueId x = given("image", {1, 3, rows, 6});
    x = op("Tanh", {conv(x, 3, 4, 3, 1, 1)});
    x = drawn() ? op("AvgPool", {x}, window(3, 1, 1)) : conv(x, 4, 4, 5, 1, 2);
    x = op("Relu", {drawn() ? conv(x, 4, 4, 3, 2, 1) : conv(x, 4, 4, 1, 2, 0)});
    if (drawn()) x = op("MaxPool", {x}, window(3, 1, 1));
    if (drawn()) x = op("AvgPool", {x}, window(2, 2, 0));
    const ir::ValueId low = op("Tanh", {x});
    const ir::Dims dims = graph_.value(low).dims;
    const ir::Dims twice = {dims[2] * 2, dims[3] * 2};
    x = op("ConvDataGrad", {low, weight({4, 3, 2, 2}), weight({3})},
           {{"strides", ir::Dims{2, 2}}, {"output_spatial", twice}});
    x = op("ConvDataGrad", {op("Tanh", {x}), weight({3, 2, 3, 3}), weight({2})},
           {{"pads", ir::Dims{1, 1, 1, 1}}, {"output_spatial", twice}});
    result(x);
    return std::move(graph_);
  }

 private:
  ir::ValueId weight(ir::Dims dims) {
    return given("weight", std::move(dims), Category::kParameter);
  }
  static ir::Attrs window(int64_t size, int64_t stride, int64_t pad) {
    return {{"kernel", ir::Dims{size, size}},
            {"strides", ir::Dims{stride, stride}},
            {"pads", ir::Dims{pad, pad, pad, pad}}};
  }
  ir::ValueId conv(ir::ValueId x, int64_t from, int64_t to, int64_t size, int64_t stride,
                   int64_t pad) {
    ir::Attrs attrs = window(size, stride, pad);
    attrs.erase("kernel");
    return op("Conv", {x, weight({to, from, size, size}), weight({to})}, std::move(attrs));
  }
};

// Each op of the class of the image's rows that can be cut there, in two to four parts at places
// of its own.
fission::Cuts rows_at_random(const ir::Graph& step, Rng& rng) {
  fission::Cuts cuts(step.op_count());
  for (const ir::OpId id : step.ops())
    for (const Choice& choice : choices(step, id, rng)) {
      const auto map = ops::axis_map(ops::instance_of(step, id));
      const bool walks_rows =
          std::any_of(map->uses.begin(), map->uses.end(), [&](const ops::AxisUse& use) {
            return use.axis == choice.cut.axis && use.dim == 2 && use.outermost;
          });
      if (walks_rows && rng.below(8) != 0) cuts[id] = choice.cut;
    }
  return cuts;
}

bool is_helper_of_overlaps(const ir::Op& op) {
  return op.kind == "Add" && op.name.find("Grad/Add") != std::string::npos;
}

// The graph in which the op's first operand is read instead of what it makes.
ir::Graph without_op(const ir::Graph& graph, ir::OpId lost) {
  ir::Rewritten made(graph);
  for (const ir::GraphItem& item : ir::in_id_order(graph)) {
    if (item.given.valid()) {
      made.give(item.given, graph.value(item.given));
    } else if (item.op == lost) {
      made.value[graph.op(lost).outputs[0]] = made.now(graph.op(lost).inputs)[0];
    } else {
      const ir::Op& op = graph.op(item.op);
      EXPECT_TRUE(ops::append_again(made, graph, item.op, made.now(op.inputs), op.attrs));
    }
  }
  return std::move(made.graph);
}

// Of a plan, each part's padding and each Pad is changed in its turn, and the verifier held to it.
void expect_wrong_pads_found(const plan::Plan& plan, const ir::Graph& step, int& pads) {
  for (const plan::PlanOpId o : plan.ops.ids()) {
    const plan::PlanOp& op = plan.ops[o];
    const bool is_part = op.name.find("/part") != std::string::npos && op.attrs.contains("pads");
    if (!is_part && op.kind != "Pad") continue;
    plan::Plan wrong = plan;
    auto& attrs = wrong.ops[o].attrs;
    if (is_part) {
      std::get<std::vector<int64_t>>(attrs["pads"])[0] += 1;
    } else {  // the zeros to another side
      std::swap(attrs["begins"], attrs["ends"]);
      if (attrs == op.attrs) continue;
    }
    EXPECT_FALSE(verify::verify_parts(wrong, step).ok()) << op.name;
    ++pads;
  }
}

TEST(Windows, OfRandomRowsEqualTheStepAndAreKnownByTheVerifier) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  int cut = 0, windows = 0, overlaps = 0, found = 0, pads = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(400, 16)); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 7 + 2);
    const ir::Graph step = training_step_of(Image().of_all_kinds(rng));
    const fission::Cuts cuts = rows_at_random(step, rng);
    for (const ir::OpId id : step.ops()) cut += cuts[id].has_value();
    for (const Windows way : {Windows::kOfWholes, Windows::kOfPieces}) {
      const auto expanded = fission::expand(step, cuts, way);
      ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
      windows += static_cast<int>(expanded->windows);
      const auto by_part = fission::part_by_part(*expanded);
      expect_equal_effects(by_part.graph, step);
      const auto made = pipeline::optimize(by_part.graph, quick(kernels.get()));
      ASSERT_TRUE(made.has_value()) << made.error().message;
      expect_right_results(made->plan, step, *kernels);
      const verify::PartsReport same = verify::verify_parts(made->plan, step);
      ASSERT_TRUE(same.ok()) << same.findings.front();
      if (seed < 4) expect_wrong_pads_found(made->plan, step, pads);
      if (HasFailure()) return;
      // Of what overlaps, one share is left out: the results are others, and the verifier says so.
      for (const ir::OpId id : by_part.graph.ops()) {
        if (!is_helper_of_overlaps(by_part.graph.op(id)) || overlaps > 40) continue;
        ++overlaps;
        const auto wrong = pipeline::optimize(without_op(by_part.graph, id), quick(nullptr));
        ASSERT_TRUE(wrong.has_value()) << wrong.error().message;
        found += !verify::verify_parts(wrong->plan, step).ok();
      }
    }
  }
  std::printf("%d ops cut, %d windows, %d overlaps, %d pads\n", cut, windows, overlaps, pads);
  EXPECT_GT(pads, 20);
  EXPECT_GT(windows, 100);
  EXPECT_GT(overlaps, 10);
  EXPECT_EQ(found, overlaps);
}

// No image is ever there as a whole but the one that comes in: rows and those around them pass from
// convolution to convolution.
TEST(Windows, OfPiecesNeedLessThanWholesWhereNobodyKeepsThem) {
  const ir::Graph net = Image().chain(5);
  const auto conv = std::find_if(net.ops().begin(), net.ops().end(),
                                 [&](ir::OpId id) { return net.op(id).kind == "Conv"; });
  const fission::CutRule rows{net.op(*conv).name, "o0", 8, /*whole_class=*/true};
  const auto cuts = fission::cuts_of(net, {&rows, 1});
  ASSERT_TRUE(cuts.has_value()) << cuts.error().message;
  const auto wholes = fission::expand(net, *cuts),
             pieces = fission::expand(net, *cuts, Windows::kOfPieces);
  ASSERT_TRUE(wholes.has_value() && pieces.has_value());
  EXPECT_GT(wholes->windows, 30);
  const int64_t of_wholes =
      pipeline::peak_as_given(fission::part_by_part(*wholes).graph, 64).value();
  const int64_t of_pieces =
      pipeline::peak_as_given(fission::part_by_part(*pieces).graph, 64).value();
  const int64_t image = 4 * 64 * 64 * 4;
  EXPECT_GE(of_wholes, 3 * image);  // what comes in, and two of the others
  EXPECT_LT(of_pieces, 2 * image + image / 2);
  // Within what wholes do not fit in, the plan has pieces; where they fit, it has none.
  pipeline::OptimizeOptions options = quick(nullptr);
  options.cuts = {rows};
  const auto free = pipeline::optimize(net, options);
  ASSERT_TRUE(free.has_value());
  options.schedule.recompute = false;
  options.budget_bytes = of_pieces + image / 8;
  const auto tight = pipeline::optimize(net, options);
  ASSERT_TRUE(tight.has_value()) << tight.error().message;
  EXPECT_LE(tight->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify_parts(tight->plan, net).ok());
  options.ideas.windows = false;
  EXPECT_FALSE(pipeline::optimize(net, options).has_value()) << "of wholes";
  options.ideas.windows = true;
  options.budget_bytes = of_wholes + image;
  const auto loose = pipeline::optimize(net, options);
  ASSERT_TRUE(loose.has_value()) << loose.error().message;
  EXPECT_LT(loose->plan.claims.predicted_seconds, tight->plan.claims.predicted_seconds)
      << "what windows reach is copied";
}

// Nor in training: gradients of windows are made by rows, too. In one part no schedule fits.
TEST(Windows, OfAStepThatTrainsKeepABudgetBelowTheFloorInOnePart) {
  const ir::Graph net = Image().chain(3);
  pipeline::OptimizeOptions options = quick(nullptr);
  options.training = autodiff::TrainingOptions{};
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.training->optimizer.kind = autodiff::OptimizerKind::kSgd;
  options.schedule.remat.limits.max_units = 100'000'000;
  const auto whole = pipeline::optimize(net, options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  options.budget_bytes = whole->plan.arena_bytes * 7 / 8;
  const auto tight = pipeline::optimize(net, options);
  ASSERT_TRUE(tight.has_value()) << tight.error().message;
  const int64_t floor = tight->plan.claims.floor_bytes.value();
  options.budget_bytes = floor * 3 / 4;
  ASSERT_FALSE(pipeline::optimize(net, options).has_value());
  const ir::OpId conv = *std::find_if(net.ops().begin(), net.ops().end(),
                                      [&](ir::OpId id) { return net.op(id).kind == "Conv"; });
  options.cuts = {{net.op(conv).name, "o0", 4, /*whole_class=*/true}};
  const auto made = pipeline::optimize(net, options);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_LE(made->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify_parts(made->plan, training_step_of(net)).ok());
}

}  // namespace
}  // namespace lowtide::windows_test
