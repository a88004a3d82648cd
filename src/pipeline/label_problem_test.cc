// A step posed for its labels: what they cut and take, which of them are the same, and schedules
// that go from one step to another by names. What is judged of them: tests/split_test.cc.
#include "pipeline/label_problem.h"

#include <gtest/gtest.h>

#include <vector>

#include "autodiff/training.h"
#include "pipeline/testing/layers.h"
#include "plan/sequence_simulator.h"
#include "rewrite/pieces.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;

constexpr int64_t kBudget = int64_t{1} << 20;

OptimizeOptions labelled_options() {
  OptimizeOptions options = options_on_cpu();
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  return options;
}

ir::Graph step_of(const ir::Graph& forward, const OptimizeOptions& options) {
  return autodiff::make_training_graph(forward, *options.training).value();
}

class LabelProblemTest : public testing::Test {
 protected:
  CutStep cut(const Labels& labels) { return problem_->cut(labels).value().value(); }

  const OptimizeOptions options_ = labelled_options();
  const std::unique_ptr<LabelProblem> problem_ =
      LabelProblem::make(step_of(mlp(5, 64, 8), options_), options_, 100'000).value();
};

TEST_F(LabelProblemTest, WithoutAClassThereIsNone) {
  ir::Graph graph;
  graph.set_output(apply(graph, "Tanh", {add_value(graph, "x", {}, Category::kInput)}), true);
  const auto made = LabelProblem::make(graph, options_, 1000);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(*made, nullptr);
}

TEST_F(LabelProblemTest, LabelsThatSayNothingAreNone) {
  EXPECT_FALSE(problem_->cut({.nests = {{"no such op", 2}}}).value().has_value());
  // As many parts as there are around it.
  EXPECT_FALSE(problem_->cut({.parts = 2, .nests = {{"Relu", 2}}}).value().has_value());
  EXPECT_TRUE(problem_->cut({.parts = 2, .nests = {{"Relu", 4}}}).value().has_value());
}

TEST_F(LabelProblemTest, TakesWhatItsOpsTake) {
  const CutStep whole = cut({});
  const auto order = problem_->best_order(problem_->scaled(whole, kBudget).problem);
  EXPECT_EQ(problem_->given(),
            LabelProblem::of_step(order.sequence, problem_->scaled(whole, kBudget)));
  double sum = 0;
  for (const plan::SchedOp& op : problem_->scaled(whole, kBudget).problem.ops) sum += op.seconds;
  EXPECT_NEAR(sum, whole.once_seconds, 1e-12 * sum);
  // Parts launch their kernels several times.
  EXPECT_GT(cut({.parts = 4}).once_seconds, whole.once_seconds);
}

// The hash is that of what is cut: equal where and only where cuts and levels are.
TEST_F(LabelProblemTest, AreKnownByWhatTheyCut) {
  std::vector<Labels> all = {{}, {.parts = 2}, {.parts = 4}};
  for (const char* head : {"Relu", "MatMul.1", "Relu.1", "MatMul.2", "Relu.2"})
    for (const int64_t parts : {2, 4, 8}) {
      all.push_back({.nests = {{head, parts}}});
      all.push_back({.parts = 2, .nests = {{head, parts}}});
    }
  const auto same = [](const CutStep& a, const CutStep& b) {
    bool is_same = a.cuts == b.cuts && a.levels.levels.size() == b.levels.levels.size();
    for (size_t k = 0; is_same && k < a.levels.levels.size(); ++k)
      is_same = a.levels.levels[k].parts == b.levels.levels[k].parts &&
                a.levels.levels[k].parent == b.levels.levels[k].parent;
    for (const ir::OpId op : a.cuts.ids())
      is_same = is_same && (!a.cuts[op] || a.level_of[op] == b.level_of[op]);
    return is_same;
  };
  int equal = 0, different = 0;
  for (const Labels& one : all)
    for (const Labels& other : all) {
      const auto a = problem_->cut(one).value(), b = problem_->cut(other).value();
      if (!a || !b) continue;
      EXPECT_EQ(a->hash == b->hash, same(*a, *b))
          << fission::print(one) << " and " << fission::print(other);
      (a->hash == b->hash ? equal : different) += 1;
    }
  EXPECT_GT(equal, 10);
  EXPECT_GT(different, 100);
}

TEST_F(LabelProblemTest, SchedulesComeBackFromTheScaledProblem) {
  for (const Labels& labels : {Labels{}, Labels{.parts = 4}, Labels{.nests = {{"Relu.1", 4}}}}) {
    const fission::Scaled scaled = problem_->scaled(cut(labels), kBudget);
    const auto sequence = problem_->runs_in(scaled, problem_->given());
    EXPECT_TRUE(plan::simulate(scaled.problem, sequence).has_value()) << fission::print(labels);
    EXPECT_EQ(LabelProblem::of_step(sequence, scaled), problem_->given());
  }
}

// By names a schedule goes over to a step with more ops, reruns included, and comes back.
TEST_F(LabelProblemTest, SchedulesGoOverByNames) {
  const auto deeper = LabelProblem::make(step_of(mlp(6, 64, 8), options_), options_, 100'000);
  ASSERT_TRUE(deeper.has_value());
  StepRuns runs = problem_->given();
  EXPECT_EQ(problem_->runs_named(problem_->names_of(runs)), runs);
  runs.insert(runs.begin() + 4, runs[2]);
  const StepRuns there = (*deeper)->runs_named(problem_->names_of(runs));
  EXPECT_GT(there.size(), runs.size());
  std::vector<plan::SchedAction> actions;
  for (const plan::SchedOpId op : there) actions.push_back(plan::SchedAction::run(op));
  const auto profile = plan::simulate_sequence((*deeper)->view().problem, actions);
  EXPECT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(std::count(there.begin(), there.end(), there[2]), 2);
}

// Halves of four rows, each by itself, and what they come to together.
ir::Graph in_halves(int64_t samples, int64_t width) {
  ir::Graph graph;
  const ir::ValueId x = add_value(graph, "x", {samples, 4, width}, Category::kInput);
  const ir::ValueId whole = apply(graph, "Tanh", {x});
  std::vector<ir::ValueId> halves;
  for (const int64_t row : {0, 2}) {
    const ir::ValueId half =
        apply(graph, "Slice", {whole},
              {{"starts", ir::Dims{0, row, 0}}, {"sizes", ir::Dims{samples, 2, width}}});
    halves.push_back(apply(graph, "Relu", {apply(graph, "Exp", {half})}));
  }
  const ir::ValueId joined = apply(graph, "Concat", halves, {{"axis", int64_t{1}}});
  graph.set_output(apply(graph, "Tanh", {apply(graph, "Exp", {joined})}), true);
  return graph;
}

// Of one sample with rows twice as long slices are views, and the join is made one: the same bytes.
TEST(LabelProblemViews, AreJudgedAsIfTheyCopiedNothing) {
  const OptimizeOptions options = options_on_cpu();
  const ir::Graph copied = in_halves(2, 64);
  const auto joined = rewrite::join_pieces(in_halves(1, 128), options.device.alignment_bytes,
                                           {.instead_of_in_place = true});
  ASSERT_EQ(joined->joined, 1);
  std::vector<fission::ViewInParts> views, in_two;
  for (const ir::OpId op : copied.ops()) {
    if (copied.op(op).kind != "Slice" && copied.op(op).kind != "Concat") continue;
    views.push_back({op});
    in_two.push_back({op, 2});
  }
  ASSERT_EQ(views.size(), 3U);
  const auto peak = [](const LabelProblem& of, const Labels& labels) {
    return of.best_order(of.scaled(of.cut(labels).value().value(), kBudget).problem).peak_bytes;
  };
  const auto judged = LabelProblem::make(copied, options, 100'000, {.views = views}).value();
  const auto truth = LabelProblem::make(joined->graph, options, 100'000).value();
  const auto as_copies = LabelProblem::make(copied, options, 100'000).value();
  EXPECT_EQ(peak(*judged, {}), peak(*truth, {}));
  const auto bytes = [](const LabelProblem& of, const Labels& labels) {
    const fission::Scaled scaled = of.scaled(of.cut(labels).value().value(), kBudget);
    int64_t sum = 0;
    for (const plan::SchedValue& value : scaled.problem.values)
      sum += value.is_output ? 0 : value.bytes;
    return sum;
  };
  EXPECT_EQ(bytes(*judged, {}), bytes(*truth, {}));
  EXPECT_LT(bytes(*judged, {}), bytes(*as_copies, {}));
  EXPECT_DOUBLE_EQ(judged->cut({}).value()->once_seconds, truth->cut({}).value()->once_seconds);
  EXPECT_LT(judged->cut({}).value()->once_seconds, as_copies->cut({}).value()->once_seconds);
  // A part of one sample is half of everything but what is handed out.
  EXPECT_EQ(2 * bytes(*judged, {.parts = 2}), bytes(*judged, {}));
  // What is a view in two parts only is a copy in one: with its bytes and its time.
  const auto later = LabelProblem::make(copied, options, 100'000, {.views = in_two}).value();
  EXPECT_EQ(bytes(*later, {}), bytes(*as_copies, {}));
  EXPECT_EQ(bytes(*later, {.parts = 2}), bytes(*judged, {.parts = 2}));
  const auto seconds = [](const LabelProblem& of, const Labels& labels) {
    return of.cut(labels).value()->once_seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(*later, {}), seconds(*as_copies, {}));
  EXPECT_DOUBLE_EQ(seconds(*later, {.parts = 2}), seconds(*judged, {.parts = 2}));
  EXPECT_GE(peak(*later, {}), peak(*as_copies, {})) << "its operand stays as long as it";
}

}  // namespace
}  // namespace lowtide::pipeline
