// The label search against all labels there are: of small steps every number of parts of the whole
// class and, within it, every number of parts behind every head that has a region, each judged by
// the same judge as the search's own states. What the search finds takes no longer than the best of
// them, and no plan of the best of them is faster than what is handed out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "fission/labels.h"
#include "pipeline/label_judge.h"
#include "pipeline/label_problem.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/prepare.h"
#include "pipeline/step_variants.h"
#include "pipeline/take_rewrites.h"
#include "support/graph_writer.h"

namespace lowtide::label_oracle_test {
namespace {

using fission::Labels;
using ir::ValueId;
using pipeline::LabelState;

class Networks : private GraphWriter {
 public:
  ir::Graph images() {
    ValueId x = given("x", {6, 3, 8, 8});
    x = op("Tanh", {conv(x, 3, 6)});
    x = op("Sigmoid", {conv(x, 6, 3)});
    x = op("Reshape", {x}, {{"shape", ir::Dims{6, 3 * 64}}});
    return finished(product(x, 3 * 64, 2));
  }
  ir::Graph joined() {
    const ValueId x = given("x", {6, 2, 8, 8});
    const ValueId a = op("Tanh", {conv(x, 2, 4)});
    const ValueId b = op("Sigmoid", {conv(a, 4, 4)});
    const ValueId both = op("Concat", {a, b}, {{"axis", int64_t{1}}});
    return finished(op("Add", {conv(op("Tanh", {both}), 8, 2), x}));
  }
  ir::Graph words() {
    const ValueId hidden = op("Gelu", {product(op("Tanh", {given("x", {16, 4})}), 4, 6)});
    return finished(product(hidden, 6, 32));
  }
  ir::Graph attention() {
    const ValueId x = given("x", {4, 16, 4});
    const ValueId q = product(x, 4, 4), k = product(x, 4, 4), v = product(x, 4, 4);
    const ValueId scores = op("MatMul", {q, k}, {{"trans_b", int64_t{1}}});
    const ValueId weights = op("Softmax", {scores}, {{"axis", int64_t{2}}});
    return finished(op("Add", {x, op("MatMul", {weights, v})}));
  }

 private:
  ValueId conv(ValueId x, int64_t from, int64_t to) {
    return op("Conv", {x, given("w", {to, from, 3, 3}, Category::kParameter)},
              {{"pads", ir::Dims{1, 1, 1, 1}}});
  }
  ValueId product(ValueId x, int64_t from, int64_t to) {
    return op("MatMul", {x, given("w", {from, to}, Category::kParameter)});
  }
  ir::Graph finished(ValueId made) {
    result(made);
    return graph();
  }
};

// By a roofline, of ops that are too small to be launched several times; with little work.
pipeline::OptimizeOptions quick_options(autodiff::LossKind loss) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("rtx3090").value();
  options.device.launch_seconds = 0;
  options.training.emplace();
  options.training->loss.kind = loss;
  options.training->optimizer.kind = autodiff::OptimizerKind::kSgd;
  options.schedule.remat.limits.max_units = 1'000'000;
  options.order.limits.max_units = options.pack.limits.max_units = 2'000'000;
  options.find_smallest = false;
  return options;
}

struct Estimate {
  Labels labels;
  double seconds = 0;
};

// All labels of a step with one level at most.
class AllLabels {
 public:
  AllLabels(const ir::Graph& step, const pipeline::OptimizeOptions& options)
      : options_(options),
        posed_(pipeline::LabelProblem::make(step, options, tuning_.order_units).value(), 0, options,
               tuning_) {
    const fission::AxisClass& axis_class = of().axis_class();
    const auto dominators = fission::immediate_dominators(step, axis_class);
    int64_t most_of_level = 0;
    for (const fission::ClassAxis& axis : axis_class.axes)
      most_of_level = std::max(most_of_level, std::min(axis.extent, tuning_.most_parts));
    for (int64_t parts = 1; parts <= posed_.most_parts(); ++parts) {
      all_.push_back({.parts = parts});
      for (const fission::ClassAxis& axis : axis_class.axes) {
        if (fission::region_of(step, axis_class, dominators, axis.op).empty()) continue;
        for (int64_t inner = 2 * parts; inner <= most_of_level; inner += parts)
          all_.push_back({parts, {{step.op(axis.op).name, inner}}});
      }
    }
  }

  // Each op once, without those that cut nothing.
  std::vector<Estimate> once() const {
    std::vector<Estimate> all;
    for (const Labels& labels : all_) {
      const auto cut = of().cut(labels);
      EXPECT_TRUE(cut.has_value());
      if (*cut) all.push_back({labels, (*cut)->once_seconds});
    }
    return all;
  }

  // Those that keep the budget, the fastest first. Where each op once is too much, a search says
  // what they take; it is spared where its bound is no less than `enough_seconds`.
  std::vector<Estimate> within_budget(double enough_seconds) {
    const pipeline::LabelJudge judge(options_, tuning_);
    const pipeline::LabelJudge::Seen seen;
    std::set<uint64_t> cuts;
    std::vector<Estimate> found;
    for (const Labels& labels : all_) {
      const auto judged = judge.judge({.posed = &posed_,
                                       .candidate = {.labels = labels},
                                       .order = of().given(),
                                       .below_seconds = pipeline::kAnyTime},
                                      seen);
      EXPECT_TRUE(judged.has_value());
      if (!*judged || !cuts.insert((*judged)->hash).second) continue;
      LabelState state = *(*judged)->bounded;
      if (!state.candidate.fits) {
        if (!state.may_fit || state.least_seconds >= enough_seconds) continue;
        ++searched;
        auto made = judge.search(of(), labels, {}, {.units = tuning_.closer_units});
        EXPECT_TRUE(made.has_value());
        if (!made->schedule) continue;
        state.take(std::move(*made->schedule));
      }
      found.push_back({labels, state.candidate.seconds});
    }
    judged_count = static_cast<int>(cuts.size());
    std::stable_sort(found.begin(), found.end(),
                     [](const Estimate& a, const Estimate& b) { return a.seconds < b.seconds; });
    return found;
  }

  int judged_count = 0, searched = 0;

 private:
  const pipeline::LabelProblem& of() const { return posed_.problem(); }

  const pipeline::OptimizeOptions& options_;
  const pipeline::LabelSearchTuning tuning_;
  const pipeline::PosedVariant posed_;
  std::vector<Labels> all_;
};

std::optional<double> planned_seconds(const ir::Graph& graph, pipeline::OptimizeOptions options,
                                      const Labels& labels) {
  options.split = labels;
  const auto made = pipeline::optimize(graph, options);
  EXPECT_TRUE(made.has_value() || pipeline::is_about_budget(made.error()));
  return made ? std::optional(made->plan.claims.predicted_seconds) : std::nullopt;
}

// Budgets are shares of what the whole step needs beside what is resident.
void expect_as_good_as_all(const ir::Graph& graph, pipeline::OptimizeOptions options,
                           const std::vector<int>& percents) {
  const ir::Graph step = autodiff::make_training_graph(graph, *options.training).value();
  const auto whole = pipeline::pose(graph, options);
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  const int64_t resident = whole->view.problem.resident_bytes;
  const int64_t peak = pipeline::peak_as_given(step, options.device.alignment_bytes).value();
  for (const int percent : percents) {
    SCOPED_TRACE(testing::Message() << percent << " %");
    options.budget_bytes = resident + (peak - resident) * percent / 100;
    const auto found = pipeline::label_candidates(step, options);
    ASSERT_TRUE(found.has_value() && !found->empty());
    const pipeline::Candidate& best = found->front();
    ASSERT_TRUE(best.fits);
    AllLabels all(step, options);
    const std::vector<Estimate> estimates = all.within_budget(best.seconds);
    std::printf("%d %%: %d labels, %d searched, %zu fit, the best %s; found %s\n", percent,
                all.judged_count, all.searched, estimates.size(),
                estimates.empty() ? "none" : fission::print(estimates[0].labels).c_str(),
                fission::print(best.labels).c_str());
    EXPECT_GT(all.judged_count, 20);
    if (estimates.empty()) continue;  // by their bounds none is better
    EXPECT_LE(best.seconds, estimates[0].seconds * (1 + 1e-9));
    const auto chosen = planned_seconds(graph, options, {.parts = 0});
    ASSERT_TRUE(chosen.has_value());
    for (size_t k = 0; k < std::min<size_t>(estimates.size(), 3); ++k) {
      const auto planned = planned_seconds(graph, options, estimates[k].labels);
      EXPECT_LE(*chosen, planned.value_or(pipeline::kAnyTime) * 1.01)
          << fission::print(estimates[k].labels);
    }
  }
}

// Labels take what their ops take in the graph that is in these parts.
void expect_seconds_of_graphs(const ir::Graph& graph, pipeline::OptimizeOptions options) {
  const ir::Graph step = autodiff::make_training_graph(graph, *options.training).value();
  options.budget_bytes = int64_t{1} << 40;
  options.sums = false;
  double most = 0;
  const std::vector<Estimate> all = AllLabels(step, options).once();
  for (const Estimate& estimate : all) {
    options.split = estimate.labels;
    const auto ready = pipeline::pose(graph, options);
    ASSERT_TRUE(ready.has_value()) << ready.error().message;
    double seconds = 0;
    for (const plan::SchedOp& op : ready->view.problem.ops) seconds += op.seconds;
    EXPECT_NEAR(estimate.seconds / seconds, 1, 1e-5) << fission::print(estimate.labels);
    most = std::max(most, std::abs(estimate.seconds / seconds - 1));
  }
  std::printf("%zu labels, off by %.5f at most\n", all.size(), most);
  EXPECT_GT(all.size(), 20U);
}

constexpr autodiff::LossKind kSquares = autodiff::LossKind::kMeanSquaredError;
constexpr autodiff::LossKind kClasses = autodiff::LossKind::kCrossEntropy;

TEST(LabelOracle, OfImages) {
  expect_as_good_as_all(Networks().images(), quick_options(kSquares), {85, 70, 55});
}

TEST(LabelOracle, OfAConcatAndASkip) {
  expect_as_good_as_all(Networks().joined(), quick_options(kSquares), {85, 70, 55});
}

TEST(LabelOracle, OfALossOverClasses) {
  expect_as_good_as_all(Networks().words(), quick_options(kClasses), {85, 75});
}

TEST(LabelOracle, OfAttention) {
  expect_as_good_as_all(Networks().attention(), quick_options(kSquares), {85, 55});
}

TEST(LabelOracle, EstimatesTakeWhatTheGraphsInPartsTake) {
  expect_seconds_of_graphs(Networks().images(), quick_options(kSquares));
  expect_seconds_of_graphs(Networks().joined(), quick_options(kSquares));
  expect_seconds_of_graphs(Networks().words(), quick_options(kClasses));
  expect_seconds_of_graphs(Networks().attention(), quick_options(kSquares));
}

}  // namespace
}  // namespace lowtide::label_oracle_test
