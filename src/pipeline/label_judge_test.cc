// What is found out about one state: bounds below what searches find, nothing for what is known or
// dominated, and the same by many threads at once.
#include "pipeline/label_judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "pipeline/testing/layers.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;

bool never() {
  return false;
}

class LabelJudgeTest : public testing::Test {
 protected:
  LabelJudgeTest() {
    options_.training.emplace();
    options_.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
    options_.device.launch_seconds = 0;
    step_ = autodiff::make_training_graph(mlp(8, 4096, 16), *options_.training).value();
    posed_ = posed();
    options_.budget_bytes = int64_t{1} << 60;
    const auto judged = LabelJudge(options_, tuning_).judge(ahead({}), seen_);
    EXPECT_TRUE(judged->value().bounded->candidate.fits);
    options_.budget_bytes = judged->value().bounded->candidate.peak_bytes * 6 / 10;
  }

  std::unique_ptr<PosedVariant> posed() const {
    auto problem = LabelProblem::make(step_, options_, 100'000).value();
    return std::make_unique<PosedVariant>(std::move(problem), 7, options_, tuning_);
  }
  LabelsAhead ahead(const Labels& labels) const {
    return {.posed = posed_.get(),
            .candidate = {.labels = labels},
            .order = posed_->problem().given(),
            .may_be_known = true,
            .below_seconds = kAnyTime};
  }
  LabelState state_of(const Labels& labels) const {
    return *LabelJudge(options_, tuning_).judge(ahead(labels), seen_)->value().bounded;
  }
  std::vector<ForecastLabels> forecast_from(const LabelState& state, double below_seconds) const {
    return LabelJudge(options_, tuning_)
        .forecast(*posed_, state, below_seconds, seen_, read_, never)
        .value();
  }

  OptimizeOptions options_ = options_on_cpu();
  const LabelSearchTuning tuning_;
  ir::Graph step_;
  std::unique_ptr<PosedVariant> posed_;
  LabelJudge::Seen seen_;
  LabelJudge::Read read_;
};

TEST_F(LabelJudgeTest, BoundsAreBelowWhatSearchesFind) {
  const LabelJudge judge(options_, tuning_);
  int found = 0;
  for (const int64_t parts : {1, 2, 3, 4, 8}) {
    const LabelState state = state_of({.parts = parts});
    EXPECT_GE(state.least_seconds, state.once_seconds);
    const auto searched = judge.search(posed_->problem(), state.candidate.labels, {},
                                       {.units = tuning_.closer_units});
    ASSERT_TRUE(searched.has_value());
    EXPECT_LE(searched->order_peak_bytes, state.once_peak_bytes);
    if (!searched->schedule) continue;
    ++found;
    EXPECT_TRUE(state.may_fit);
    EXPECT_GE(searched->schedule->seconds, state.least_seconds * (1 - 1e-9)) << parts;
    EXPECT_LE(searched->schedule->peak_bytes, *options_.budget_bytes);
  }
  EXPECT_GT(found, 3);
}

TEST_F(LabelJudgeTest, WhatIsKnownOrDominatedOrCutsNothingGetsNoBound) {
  const LabelJudge judge(options_, tuning_);
  LabelsAhead whole = ahead({});
  const JudgedLabels known = judge.judge(whole, seen_)->value();
  whole.below_seconds = known.once.once_seconds;
  EXPECT_FALSE(judge.judge(whole, seen_)->value().bounded.has_value());
  EXPECT_EQ(judge.judge(whole, seen_)->value().once.least_seconds, known.once.once_seconds);
  EXPECT_FALSE(judge.judge(ahead({.nests = {{"no such op", 2}}}), seen_)->has_value());
  seen_.insert({8, known.hash});  // of another step
  EXPECT_TRUE(judge.judge(whole, seen_)->has_value());
  seen_.insert({7, known.hash});
  EXPECT_FALSE(judge.judge(whole, seen_)->has_value());
  whole.may_be_known = false;
  EXPECT_TRUE(judge.judge(whole, seen_)->has_value());
}

TEST_F(LabelJudgeTest, WithoutCutsNothingIsProven) {
  LabelJudge judge(options_, tuning_);
  const int64_t budget = *options_.budget_bytes;
  judge.keep_within(budget / 2);
  EXPECT_EQ(judge.budget_bytes(), budget / 2);
  const LabelState state = *judge.judge(ahead({}), seen_)->value().bounded;
  EXPECT_FALSE(state.candidate.fits);
  EXPECT_TRUE(state.may_fit);
  EXPECT_EQ(state.least_seconds, state.once_seconds);
}

TEST_F(LabelJudgeTest, NeighboursAreForecastOnceUnlessTheyAreReadKnownOrDominated) {
  const LabelState whole = state_of({});
  const std::vector<ForecastLabels> all = forecast_from(whole, kAnyTime);
  ASSERT_GT(all.size(), 8U);
  const LabelProblem& of = posed_->problem();
  size_t forecast = 0;
  for (const ForecastLabels& one : all) {
    EXPECT_EQ(one.text, fission::print(one.labels));
    const auto same = [&](const ForecastLabels& other) { return other.text == one.text; };
    EXPECT_EQ(std::count_if(all.begin(), all.end(), same), 1);
    if (!one.hash || one.key == LabelKey()) continue;
    ++forecast;
    const CutStep cut = of.cut(one.labels).value().value();
    EXPECT_EQ(one.hash, cut.hash);
    EXPECT_EQ(std::get<1>(one.key), whole.forecast.seconds(of, cut));
  }
  EXPECT_GT(forecast, 8U);
  for (const ForecastLabels& one : forecast_from(whole, 0)) EXPECT_EQ(one.key, LabelKey());
  const auto late =
      LabelJudge(options_, tuning_).forecast(*posed_, whole, kAnyTime, seen_, read_, [] {
        return true;
      });
  EXPECT_TRUE(late->empty());
  seen_.insert({7, *all.front().hash});
  EXPECT_EQ(forecast_from(whole, kAnyTime).front().key, LabelKey());
  read_.insert({7, all.front().text});
  EXPECT_EQ(forecast_from(whole, kAnyTime).size(), all.size() - 1);
}

// From another step's runs by their names, too.
TEST_F(LabelJudgeTest, SearchesGoOnFromWhatTheyAreGiven) {
  const LabelJudge judge(options_, tuning_);
  const std::unique_ptr<PosedVariant> other = posed();
  const auto own = judge.search(posed_->problem(), {}, {}, {.units = tuning_.far_units});
  ASSERT_TRUE(own->schedule.has_value());
  for (const PosedVariant* from : {posed_.get(), std::as_const(other).get()}) {
    const auto on = judge.search(
        posed_->problem(), {}, {},
        {.of = {&from->problem()}, .runs = {own->schedule->runs}, .units = tuning_.remat_units});
    ASSERT_TRUE(on->schedule.has_value());
    EXPECT_LE(on->schedule->seconds, own->schedule->seconds);
  }
  const auto starts =
      judge.starts(posed_->problem(), {.labels = {.parts = 2}}, own->schedule->runs, true, {});
  ASSERT_TRUE(starts.has_value());
  EXPECT_EQ(starts->size(), 2U);
  EXPECT_EQ(judge.starts(posed_->problem(), {}, own->schedule->runs, false, {})->size(), 1U);
}

// Problems remember what they were asked; whoever asks first, the answers are the same.
TEST_F(LabelJudgeTest, ManyThreadsAtOnceComeToTheSame) {
  const LabelJudge judge(options_, tuning_);
  std::vector<Labels> labels;
  for (const ForecastLabels& one : forecast_from(state_of({}), kAnyTime))
    labels.push_back(one.labels);
  std::vector<std::pair<double, int64_t>> alone;
  for (const Labels& one : labels) {
    const auto judged = judge.judge(ahead(one), seen_).value();
    alone.emplace_back(judged ? judged->bounded->least_seconds : -1,
                       judged ? judged->bounded->once_peak_bytes : -1);
  }
  posed_ = posed();  // which remembers nothing
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < labels.size(); ++k) {
        const size_t at = (k + t * 7) % labels.size();
        const auto judged = judge.judge(ahead(labels[at]), seen_).value();
        EXPECT_EQ(judged ? judged->bounded->least_seconds : -1, alone[at].first);
        EXPECT_EQ(judged ? judged->bounded->once_peak_bytes : -1, alone[at].second);
      }
      EXPECT_FALSE(posed_->neighbours({})->empty());
    });
  for (std::thread& thread : threads) thread.join();
}

LabelSchedule schedule(double seconds, int64_t peak_bytes) {
  LabelSchedule made;
  made.seconds = seconds;
  made.peak_bytes = peak_bytes;
  return made;
}

TEST(LabelState, KeepsTheBetterSchedule) {
  LabelState made;
  EXPECT_TRUE(made.take(schedule(15, 900)));
  EXPECT_FALSE(made.take(schedule(15, 800)));
  EXPECT_EQ(made.candidate.peak_bytes, 900);
  EXPECT_TRUE(made.take(schedule(14, 950)));
  EXPECT_EQ(made.candidate.seconds, 14);
  EXPECT_TRUE(made.candidate.fits);
}

}  // namespace
}  // namespace lowtide::pipeline
