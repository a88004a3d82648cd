// Which moves a step has, and what those that cut a second axis make of it.
#include "pipeline/step_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "fission/classes.h"
#include "fission/labels.h"
#include "pipeline/label_problem.h"
#include "pipeline/more_cuts.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/testing/layers.h"
#include "support/graph_writer.h"

namespace lowtide::pipeline {
namespace {

using HowMade = LabelledStep::Made;

// Layers on heads, samples, rows and columns, in that order or with samples first; what couples the
// heads leaves samples the largest class. A Reshape counts axes longer than 1 only, so heads in
// parts of one change the number of the axis of samples.
ir::Graph heads_first(bool heads_first) {
  constexpr int64_t kHeads = 4, kSamples = 6, kRows = 8, kWide = 16;
  GraphWriter net;
  ir::ValueId x = net.given("x", heads_first ? ir::Dims{kHeads, kSamples, kRows, kWide}
                                             : ir::Dims{kSamples, kHeads, kRows, kWide});
  for (int layer = 0; layer < 2; ++layer) {
    const ir::ValueId w = net.given("w", {kWide, kWide}, Category::kParameter);
    const ir::ValueId made = net.op("Tanh", {net.op("MatMul", {x, w})});
    const ir::Dims flat = heads_first ? ir::Dims{kHeads, kSamples, kRows * kWide}
                                      : ir::Dims{kSamples, kHeads, kRows * kWide};
    ir::ValueId rows = net.op("Tanh", {net.op("Reshape", {made}, {{"shape", flat}})});
    rows = net.op("Softmax", {rows}, {{"axis", int64_t{2}}});
    const ir::ValueId sum = net.op(
        "ReduceSum", {rows}, {{"axes", ir::Dims{heads_first ? 0 : 1}}, {"keepdims", int64_t{1}}});
    const ir::ValueId all = net.op("Add", {rows, sum});
    x = net.op("Reshape", {all}, {{"shape", net.graph().value(x).dims}});
  }
  net.result(net.op("Tanh", {x}));
  return net.graph();
}

std::vector<Candidate> with_cuts(const StepMoves& moves) {
  std::vector<Candidate> cuts = moves.moves;
  std::erase_if(cuts, [](const Candidate& move) { return move.cuts.empty(); });
  return cuts;
}

TEST(StepMoves, EachIsOneOfThreeKindsThatOptionsSwitchOff) {
  const ir::Graph net = heads_first(false);
  OptimizeOptions options = options_on_cpu();
  const auto counts = [&] {
    const StepMoves moves = step_moves(net, net, options).value();
    std::vector<size_t> made = {0, 0, 0};  // rewrites, blocks, cuts
    for (const Candidate& move : moves.moves) {
      EXPECT_EQ(move.rewrites.size() + (move.query_blocks > 0) + move.cuts.size(), 1U);
      made[0] += move.rewrites.size(), made[1] += move.query_blocks > 0;
      made[2] += move.cuts.size();
    }
    return made;
  };
  const std::vector<size_t> all = counts();
  EXPECT_EQ(all[0], open_rewrites(options).size());
  EXPECT_GT(all[0], 0U);
  EXPECT_EQ(all[1], 3U) << "2, 4 and 8";
  EXPECT_GT(all[2], 0U);
  options.ideas.more_cuts = false;
  EXPECT_EQ(counts(), (std::vector<size_t>{all[0], 3, 0}));
  options.query_blocks = 2;
  EXPECT_EQ(counts(), (std::vector<size_t>{all[0], 0, 0}));
  options.query_blocks = 0;
  options.rewrites.without = {"query-blocks"};
  EXPECT_EQ(counts()[1], 0U);
  options.rewrites.without = all_rewrites();
  EXPECT_EQ(counts()[0], 0U);
}

// Of the proposals, those that a plan would refuse within the labels' parts are left out.
TEST(StepMoves, CutsAreThoseThatGoWithinTheLabels) {
  for (const bool first : {false, true}) {
    const ir::Graph net = heads_first(first);
    OptimizeOptions options = options_on_cpu();
    const auto classes = classes_to_cut(net).value();
    const fission::Cuts labels = fission::cut_class(net, classes.front(), 2);
    std::vector<fission::CutRule> wanted = cuts_within(net, classes);
    std::erase_if(wanted, [&](const fission::CutRule& rule) {
      return !fission::cuts_of(net, std::vector{rule}, labels);
    });
    std::vector<fission::CutRule> got;
    for (const Candidate& move : with_cuts(step_moves(net, net, options).value()))
      got.push_back(move.cuts.front());
    EXPECT_EQ(got, wanted);
    EXPECT_FALSE(got.empty());
  }
}

// The labels' class is the same one, with the same elements; each op of the step is there whole or
// in parts, and what joins the parts is known as such.
TEST(StepMoves, AStepWithACutKeepsTheLabelsClass) {
  int64_t always = 0, of_one_sample = 0;
  for (const bool first : {false, true}) {
    const ir::Graph net = heads_first(first);
    OptimizeOptions options = options_on_cpu();
    const fission::AxisClass samples = fission::axis_classes(net).value().front();
    const StepMoves moves = step_moves(net, net, options).value();
    for (const Candidate& move : with_cuts(moves)) {
      const std::string said = fission::print(move.cuts.front());
      const auto made = moves.step(move);
      ASSERT_TRUE(made.has_value()) << said << ": " << made.error().message;
      ASSERT_TRUE(made->how.along.has_value()) << said;
      std::set<std::string> whole, parts;
      for (const ir::OpId op : made->graph.ops()) {
        const std::string& name = made->graph.op(op).name;
        if (made->how.made[op] == HowMade::kWhole) whole.insert(name);
        if (made->how.made[op] == HowMade::kPart) parts.insert(name.substr(0, name.rfind("/part")));
      }
      EXPECT_EQ(whole.size() + parts.size(), net.op_count()) << said;
      EXPECT_GT(parts.size(), 0U) << said;
      for (const fission::ViewInParts& view : made->how.views) {
        EXPECT_EQ(made->how.made[view.op], HowMade::kBetween) << said;
        EXPECT_TRUE(view.least_parts == 1 || view.least_parts == samples.least_extent) << said;
        ++(view.least_parts == 1 ? always : of_one_sample);
      }
      const auto problem = LabelProblem::make(made->graph, options, 1000, made->how).value();
      ASSERT_NE(problem, nullptr) << said;
      EXPECT_EQ(problem->axis_class().least_extent, samples.least_extent) << said;
      // The same ops, each whole or by its parts.
      std::set<std::string> of_step, of_parts;
      for (const fission::ClassAxis& axis : samples.axes) of_step.insert(net.op(axis.op).name);
      for (const fission::ClassAxis& axis : problem->axis_class().axes) {
        const std::string& name = made->graph.op(axis.op).name;
        if (made->how.made[axis.op] == HowMade::kWhole) of_parts.insert(name);
        if (made->how.made[axis.op] == HowMade::kPart)
          of_parts.insert(name.substr(0, name.rfind("/part")));
      }
      EXPECT_EQ(of_parts, of_step) << said;
    }
  }
  EXPECT_GT(always, 0);
  EXPECT_GT(of_one_sample, 0);
}

}  // namespace
}  // namespace lowtide::pipeline
