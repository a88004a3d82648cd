// Forecasts of labels by the prices of a cut: of the labels known they are what the cut proves, of
// others no less than the cut at the same op and price, and bytes that are freed there count.
#include "pipeline/label_forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "autodiff/training.h"
#include "pipeline/testing/layers.h"
#include "remat/bounds/closure_cut_network.h"
#include "remat/bounds/step_graph.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;

class LabelForecastTest : public testing::Test {
 protected:
  LabelForecastTest() {
    options_.training.emplace();
    options_.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
    options_.device.launch_seconds = 0;
    const auto step = autodiff::make_training_graph(mlp(8, 4096, 16), *options_.training).value();
    problem_ = LabelProblem::make(step, options_, 100'000).value();
    whole_ = problem_->cut({}).value().value();
    const fission::Scaled scaled = problem_->scaled(whole_, 0);
    peak_ =
        plan::simulate(scaled.problem, problem_->runs_in(scaled, problem_->given()))->peak_bytes;
  }
  CutStep cut(const Labels& labels) { return problem_->cut(labels).value().value(); }
  remat::CutBoundResult bound(const fission::Scaled& scaled) const {
    const auto order = problem_->runs_in(scaled, problem_->given());
    return remat::closure_cut(scaled.problem, {.order = order});
  }
  // By the least cut at an op of the whole step, at a price.
  double seconds_at(const CutStep& labels, int64_t budget, plan::SchedOpId op, int64_t per_byte) {
    const fission::Scaled scaled = problem_->scaled(labels, budget);
    const remat::StepGraph graph(scaled.problem);
    const auto at = std::find(scaled.op.begin(), scaled.op.end(), op);
    const plan::SchedOpId here(static_cast<size_t>(at - scaled.op.begin()));
    remat::ClosureNetwork net(graph, here);
    const remat::CutPrices prices{.per_byte = per_byte};
    remat::CutChoice choice;
    const int64_t ticks = net.bound(net.solve(prices, choice), prices, budget - net.fixed_bytes());
    return labels.once_seconds + graph.scale.seconds(std::max<int64_t>(ticks, 0));
  }

  OptimizeOptions options_ = options_on_cpu();
  std::unique_ptr<LabelProblem> problem_;
  CutStep whole_;
  int64_t peak_ = 0;
};

TEST_F(LabelForecastTest, OfTheSameLabelsIsWhatTheCutProves) {
  for (const int64_t percent : {90, 75, 60, 50}) {
    const fission::Scaled scaled = problem_->scaled(whole_, peak_ * percent / 100);
    const remat::CutBoundResult known = bound(scaled);
    ASSERT_TRUE(known.feasible && known.op) << percent;
    const LabelForecast forecast(*problem_, whole_, scaled, known);
    EXPECT_NEAR(forecast.seconds(*problem_, whole_), known.lower_bound_seconds,
                1e-3 * known.bound_seconds)
        << percent;
    EXPECT_EQ(forecast.over_bytes(), 0);
  }
}

// A choice that was best for other sizes is a choice all the same: no cheaper than the least cut.
TEST_F(LabelForecastTest, OfOtherLabelsIsNoLessThanTheirCutAtThatPrice) {
  int freed = 0;
  for (const int64_t percent : {75, 60, 50}) {
    const int64_t budget = peak_ * percent / 100;
    const fission::Scaled scaled = problem_->scaled(whole_, budget);
    const remat::CutBoundResult known = bound(scaled);
    ASSERT_TRUE(known.op.has_value());
    const LabelForecast forecast(*problem_, whole_, scaled, known);
    for (const char* head : {"Relu", "Relu.1", "Relu.2", "Relu.4", "Relu.5"})
      for (const int64_t parts : {2, 4}) {
        const CutStep labels = cut({.nests = {{head, parts}}});
        const double least =
            seconds_at(labels, budget, scaled.op[*known.op], known.prices.per_byte);
        const double said = forecast.seconds(*problem_, labels);
        EXPECT_GE(said, least * (1 - 1e-6)) << head << " " << parts << " within " << percent;
        freed += said < known.lower_bound_seconds;
      }
  }
  EXPECT_GT(freed, 5);  // bytes at the binding moment make labels better than the whole
}

// Where an op alone needs more than the budget, what counts is what is freed at that op.
TEST_F(LabelForecastTest, WhereNothingFitsBytesAtTheOpCount) {
  const int64_t budget = peak_ / 20;
  const fission::Scaled scaled = problem_->scaled(whole_, budget);
  const remat::CutBoundResult known = bound(scaled);
  ASSERT_FALSE(known.feasible);
  const LabelForecast forecast(*problem_, whole_, scaled, known);
  EXPECT_GT(forecast.over_bytes(), 0);
  EXPECT_EQ(forecast.over_bytes(*problem_, whole_), forecast.over_bytes());
  int64_t last = forecast.over_bytes();
  for (const int64_t parts : {2, 4, 8}) {
    const int64_t over = forecast.over_bytes(*problem_, cut({.parts = parts}));
    EXPECT_LT(over, last);
    last = over;
  }
  // With so much more memory these parts may fit.
  const int64_t more = forecast.over_bytes(*problem_, cut({.parts = 64}));
  const fission::Scaled within_more = problem_->scaled(whole_, budget + more);
  const LabelForecast then(*problem_, whole_, within_more, bound(within_more));
  EXPECT_GT(then.over_bytes(), 0);
  EXPECT_EQ(then.over_bytes(*problem_, cut({.parts = 64})), 0);
}

TEST_F(LabelForecastTest, WithoutACutIsEachOpOnce) {
  const LabelForecast nothing;
  EXPECT_EQ(nothing.seconds(*problem_, whole_), whole_.once_seconds);
  EXPECT_EQ(nothing.over_bytes(*problem_, whole_), 0);
}

}  // namespace
}  // namespace lowtide::pipeline
