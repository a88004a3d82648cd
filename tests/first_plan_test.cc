// What there is before the search for a split begins: a plan of even parts, each op once; where
// none keeps the budget so, a rough one with reruns, for who does not wait. It is a plan like any
// other: verified, run with the whole step's results, and handed out where a search that was ended
// has nothing better.
#include "pipeline/first_plan.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "base/result.h"
#include "exec/cpu/cpu.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/planning_time.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/trials.h"
#include "pipeline/try_splits.h"
#include "support/coupled_heads.h"
#include "support/run_against_reference.h"
#include "support/split_plans.h"
#include "verify/verify.h"

namespace lowtide::first_plan_test {
namespace {

using pipeline::Candidate;

Result<pipeline::FirstPlan> first_plan_of(const ir::Graph& graph,
                                          const pipeline::OptimizeOptions& options) {
  pipeline::PlanningTime time;
  return pipeline::first_plan(graph, options, time);
}

// Of two samples, in a part of the memory of the given order.
class FirstPlanTest : public ::testing::Test {
 protected:
  FirstPlanTest() : options_(options_with(*kernels_)) {
    options_.find_smallest = false;
    options_.device.launch_seconds = 0;
    spend_little(options_);
    options_.split = {.parts = 0};
    step_ = pipeline::step_to_cut(graph_, options_).value();
    peak_ = pipeline::peak_as_given(step_, options_.device.alignment_bytes).value();
  }
  void keep_within(int64_t percent) { options_.budget_bytes = peak_ * percent / 100; }

  const std::unique_ptr<runtime::KernelFactory> kernels_ =
      exec_cpu::make_cpu_kernels({.threads = 1});
  pipeline::OptimizeOptions options_;
  const ir::Graph graph_ = coupled_heads(2);
  ir::Graph step_;
  int64_t peak_ = 0;
};

TEST_F(FirstPlanTest, IsOfEvenPartsWhereTheyFitEachOpOnce) {
  keep_within(80);
  const auto first = first_plan_of(graph_, options_);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ASSERT_TRUE(first->trials.best.has_value());
  EXPECT_FALSE(first->rough.has_value());
  const plan::Claims& claims = first->trials.best->plan.claims;
  EXPECT_DOUBLE_EQ(claims.predicted_seconds, claims.once_seconds);
}

// Who waits need not wait for a plan of many ops.
TEST_F(FirstPlanTest, IsOfTheWholeStepBeforePartsOfManyOps) {
  keep_within(80);
  std::vector<double> told;
  options_.progress = [&](const plan::Progress& progress) { told.push_back(progress.seconds); };
  pipeline::PlanningTime time;
  const auto first = pipeline::first_plan(graph_, options_, time, {.many_ops = 1});
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ASSERT_TRUE(first->rough.has_value() && first->trials.best.has_value());
  EXPECT_TRUE(first->rough->split.whole());
  EXPECT_FALSE(first->trials.best->split.whole());
  const plan::Claims& claims = first->rough->plan.claims;
  EXPECT_EQ(told, (std::vector{claims.predicted_seconds, first->trials.seconds()}));
  EXPECT_GT(claims.predicted_seconds, claims.once_seconds);
  EXPECT_LE(first->rough->plan.arena_bytes, *options_.budget_bytes);
  EXPECT_TRUE(verify::verify(first->rough->plan).ok());
  const ir::Graph step = autodiff::make_training_graph(graph_, *options_.training).value();
  expect_right_results(first->rough->plan, step, *kernels_);
  told.clear();
  EXPECT_FALSE(first_plan_of(graph_, options_)->rough.has_value());
  EXPECT_EQ(told, std::vector{first->trials.seconds()});
  options_.schedule.recompute = false;
  EXPECT_FALSE(pipeline::first_plan(graph_, options_, time, {.many_ops = 1})->rough.has_value());
}

TEST_F(FirstPlanTest, HasRerunsWhereNoEvenPartsFitEachOpOnce) {
  keep_within(43);
  ASSERT_EQ(pipeline::even_candidates(step_, options_, 100)->size(), 1U);
  int told = 0;
  double seconds = 0;
  options_.progress = [&](const plan::Progress& progress) {
    ++told, seconds = progress.seconds;
    EXPECT_LE(progress.peak_bytes, *options_.budget_bytes);
  };
  const auto first = first_plan_of(graph_, options_);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  EXPECT_FALSE(first->trials.best.has_value()) << "the search goes on as if there were none";
  EXPECT_TRUE(first->trials.tried.empty());
  ASSERT_TRUE(first->rough.has_value());
  const plan::Claims& claims = first->rough->plan.claims;
  EXPECT_EQ(told, 1);
  EXPECT_EQ(seconds, claims.predicted_seconds);
  EXPECT_LE(first->rough->plan.arena_bytes, *options_.budget_bytes);
  EXPECT_GT(claims.predicted_seconds, claims.once_seconds);
  EXPECT_LE(claims.lower_bound_seconds, claims.predicted_seconds);
  EXPECT_TRUE(verify::verify(first->rough->plan).ok());
  const ir::Graph step = autodiff::make_training_graph(graph_, *options_.training).value();
  expect_right_results(first->rough->plan, step, *kernels_);
  options_.schedule.recompute = false;
  EXPECT_FALSE(first_plan_of(graph_, options_)->rough.has_value());
}

// A link is there for the search behind it; the plan keeps the budget with it or without.
TEST_F(FirstPlanTest, IsRightWithALink) {
  options_.slow_tiers = {{"host", {.bytes_per_second_out = 1e9, .bytes_per_second_in = 1e9}}};
  options_.schedule.transfers = true;
  keep_within(43);
  const auto first = first_plan_of(graph_, options_);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ASSERT_TRUE(first->rough.has_value());
  const plan::Claims& claims = first->rough->plan.claims;
  EXPECT_LE(first->rough->plan.arena_bytes, *options_.budget_bytes);
  EXPECT_GT(claims.predicted_seconds, claims.once_seconds);
  EXPECT_TRUE(verify::verify(first->rough->plan).ok());
  const ir::Graph step = autodiff::make_training_graph(graph_, *options_.training).value();
  expect_right_results(first->rough->plan, step, *kernels_);
}

// The whole step is among what is tried, and what is said of each is an estimate of a schedule that
// keeps the budget.
TEST_F(FirstPlanTest, TriesTheWholeStepAndEvenParts) {
  int whole_ones = 0;
  for (const int64_t percent : {43, 50, 60}) {
    keep_within(percent);
    const auto within = pipeline::rough_within(step_, options_);
    ASSERT_TRUE(within.has_value()) << within.error().message;
    ASSERT_FALSE(within->empty());
    for (size_t k = 0; k < within->size(); ++k) {
      const Candidate& one = (*within)[k];
      EXPECT_TRUE(one.fits && one.labels.nests.empty() && !one.has_moves());
      EXPECT_FALSE(one.starts.empty());
      EXPECT_LE(one.peak_bytes, *options_.budget_bytes);
      if (k > 0) {
        EXPECT_LE((*within)[k - 1].seconds, one.seconds);
      }
      whole_ones += one.labels.whole();
      // Planned in these parts from that schedule alone, it keeps the budget.
      pipeline::OptimizeOptions planned = pipeline::with(options_, one);
      planned.schedule.remat.limits.max_units = 1;
      const auto plan = pipeline::optimize(graph_, planned);
      ASSERT_TRUE(plan.has_value()) << percent << ": " << plan.error().message;
      EXPECT_LT(plan->plan.claims.predicted_seconds, 1.1 * one.seconds) << percent;
    }
  }
  EXPECT_GT(whole_ones, 0);
}

// Layers with large weights and small results, so that the sums of gradients of even parts, which
// are all there until the last part, need as much as the weights; and between them products of each
// sample with itself, which are large and have no weights.
ir::Graph squares_between_layers() {
  constexpr int64_t kSamples = 16, kWide = 256;
  constexpr int kLayers = 6;
  GraphWriter net;
  ir::ValueId x = net.given("x", {kSamples, 1, kWide});
  const auto add_layers = [&] {
    for (int k = 0; k < kLayers; ++k) {
      x = net.op("MatMul", {x, net.given("w", {kWide, kWide}, Category::kParameter)});
      x = net.op("Tanh", {x});
    }
  };
  add_layers();
  x = net.op("MatMul", {x, x}, {{"trans_a", int64_t{1}}});
  for (const char* kind : {"Sigmoid", "Tanh", "Sigmoid"}) x = net.op(kind, {x});
  x = net.op("ReduceSum", {x}, {{"axes", ir::Dims{1}}, {"keepdims", int64_t{1}}});
  add_layers();
  net.result(x);
  return net.graph();
}

TEST(FirstPlan, HasLevelsWhereNoEvenPartsFitAtAll) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const ir::Graph graph = squares_between_layers();
  pipeline::OptimizeOptions options = options_with(*kernels);
  spend_little(options);
  options.split = {.parts = 0};
  const ir::Graph step = pipeline::step_to_cut(graph, options).value();
  const int64_t peak = pipeline::peak_as_given(step, options.device.alignment_bytes).value();
  options.budget_bytes = peak * 28 / 100;
  ASSERT_EQ(pipeline::even_candidates(step, options, 100)->size(), 1U);
  const auto within = pipeline::rough_within(step, options);
  ASSERT_TRUE(within.has_value()) << within.error().message;
  ASSERT_EQ(within->size(), 1U);
  EXPECT_EQ(within->front().labels.parts, 1);
  EXPECT_FALSE(within->front().labels.nests.empty());
  const auto first = first_plan_of(graph, options);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  ASSERT_TRUE(first->rough.has_value());
  EXPECT_LE(first->rough->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify(first->rough->plan).ok());
  const ir::Graph whole = autodiff::make_training_graph(graph, *options.training).value();
  expect_right_results(first->rough->plan, whole, *kernels);
}

// Convolutions with batch norm, the first half of them read again by the second: parts wait for the
// statistics of each other, and what lies between is there for all of them.
ir::Graph normed_with_skips() {
  constexpr int64_t kSamples = 4, kChannels = 8, kSize = 12;
  constexpr int kLayers = 4;
  GraphWriter net;
  ir::ValueId x = net.given("x", {kSamples, kChannels, kSize, kSize});
  const auto add_layer = [&](int64_t channels) {
    x = net.op("Conv", {x, net.given("w", {kChannels, channels, 3, 3}, Category::kParameter)},
               {{"pads", ir::Dims{1, 1, 1, 1}}});
    x = net.op("BatchNormTrain",
               {x, net.given("scale", {kChannels}, Category::kParameter),
                net.given("shift", {kChannels}, Category::kParameter)},
               {{"epsilon", 1e-3}});
    x = net.op("Relu", {x});
  };
  std::vector<ir::ValueId> skips;
  for (int k = 0; k < kLayers; ++k) {
    add_layer(kChannels);
    skips.push_back(x);
  }
  for (; !skips.empty(); skips.pop_back()) {
    x = net.op("Concat", {x, skips.back()}, {{"axis", int64_t{1}}});
    add_layer(2 * kChannels);
  }
  net.result(x);
  return net.graph();
}

// Whether the schedule of one part keeps the budget when all parts follow it.
bool fits_mirrored(const ir::Graph& graph, const ir::Graph& step,
                   const pipeline::OptimizeOptions& options) {
  const auto within = pipeline::rough_within(step, options);
  if (!within || within->empty()) return false;
  pipeline::OptimizeOptions planned = pipeline::with(options, within->front());
  remat::RematOptions& remat = planned.schedule.remat;
  remat.order_start = remat.cut_start = remat.greedy_start = remat.chain_start = false;
  remat.limits.max_units = 1;
  return pipeline::optimize(graph, planned).has_value();
}

TEST(FirstPlan, IsMadeOfAllPartsWhereOneSaysTooLittle) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const ir::Graph graph = normed_with_skips();
  pipeline::OptimizeOptions options = options_with(*kernels);
  spend_little(options);
  options.find_smallest = false;
  options.split = {.parts = 0};
  const ir::Graph step = pipeline::step_to_cut(graph, options).value();
  const int64_t peak = pipeline::peak_as_given(step, options.device.alignment_bytes).value();
  bool any = false;
  for (int64_t percent = 44; percent <= 56 && !any; percent += 4) {
    options.budget_bytes = peak * percent / 100;
    const auto first = first_plan_of(graph, options);
    ASSERT_TRUE(first.has_value()) << first.error().message;
    if (!first->rough) continue;
    EXPECT_LE(first->rough->plan.arena_bytes, *options.budget_bytes);
    EXPECT_TRUE(verify::verify(first->rough->plan).ok()) << percent;
    if (fits_mirrored(graph, step, options)) continue;
    any = true;
    const ir::Graph whole = autodiff::make_training_graph(graph, *options.training).value();
    expect_right_results(first->rough->plan, whole, *kernels);
  }
  EXPECT_TRUE(any);
}

// One that is slower than what is asked for is none.
TEST_F(FirstPlanTest, IsHandedOutOnlyWithinTheTime) {
  keep_within(43);
  const auto first = first_plan_of(graph_, options_);
  ASSERT_TRUE(first.has_value() && first->rough.has_value());
  const double seconds = first->rough->plan.claims.predicted_seconds;
  std::atomic<bool> cancel = false;
  options_.progress = [&](const plan::Progress&) { cancel = true; };
  options_.schedule.remat.limits.cancel = &cancel;
  for (const double share : {0.7, 1.1}) {
    cancel = false;
    options_.most_seconds = share * seconds;
    const auto made = pipeline::optimize(graph_, options_);
    EXPECT_EQ(made.has_value(), share > 1);
    if (made) {
      EXPECT_LE(made->plan.claims.predicted_seconds, *options_.most_seconds);
      EXPECT_TRUE(made->plan.claims.parts_floor.has_value());
    }
  }
}

// Where nothing fits, whoever ends the search is told so at once, with a link or without: no plan
// of what has missed already is begun.
TEST_F(FirstPlanTest, IsNoneWhereTheSearchIsEndedBeforeAnythingFits) {
  keep_within(22);
  std::atomic<bool> cancel = false;
  int told = 0;
  options_.progress = [&](const plan::Progress& progress) {
    EXPECT_EQ(progress.seconds, 0) << "something fits";
    cancel = ++told >= 3;
  };
  for (Limits* limits : {&options_.schedule.remat.limits, &options_.order.limits,
                         &options_.pack.limits, &options_.schedule.swap.limits})
    limits->cancel = &cancel;
  for (const bool link : {false, true}) {
    cancel = false, told = 0;
    options_.schedule.transfers = link;
    if (link)
      options_.slow_tiers = {{"host", {.bytes_per_second_out = 1e3, .bytes_per_second_in = 1e3}}};
    const auto made = pipeline::optimize(graph_, options_);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, ErrorCode::kLimit);
    EXPECT_NE(made.error().message.find("was stopped before any schedule within it was found ("),
              std::string::npos)
        << made.error().message;
    EXPECT_NE(made.error().message.find(" tried; in whatever parts every schedule needs at least"),
              std::string::npos)
        << made.error().message;
    EXPECT_GE(told, 3);
  }
}

// Whoever ends the search as soon as there is a plan gets that one; who waits, one that is no
// slower.
TEST_F(FirstPlanTest, IsHandedOutWhereTheSearchIsEnded) {
  keep_within(43);
  const auto waited = pipeline::optimize(graph_, options_);
  ASSERT_TRUE(waited.has_value()) << waited.error().message;
  std::atomic<bool> cancel = false;
  double told = 0;
  options_.progress = [&](const plan::Progress& progress) {
    if (progress.seconds == 0 || cancel) return;
    told = progress.seconds;
    cancel = true;
  };
  for (Limits* limits : {&options_.schedule.remat.limits, &options_.order.limits,
                         &options_.pack.limits, &options_.schedule.swap.limits})
    limits->cancel = &cancel;
  const auto ended = pipeline::optimize(graph_, options_);
  ASSERT_TRUE(ended.has_value()) << ended.error().message;
  EXPECT_GT(told, 0);
  EXPECT_LE(ended->plan.claims.predicted_seconds, told);
  EXPECT_TRUE(ended->cut_short);
  EXPECT_LE(ended->plan.arena_bytes, *options_.budget_bytes);
  EXPECT_TRUE(verify::verify(ended->plan).ok());
  EXPECT_LE(waited->plan.claims.predicted_seconds, told);
}

// A limit that is over when the first plan is there ends everything: no trial, the whole step's
// neither, and no last plan is begun.
TEST_F(FirstPlanTest, IsHandedOutWhereNoTimeIsLeft) {
  for (const int64_t percent : {80, 43}) {
    keep_within(percent);
    options_.schedule.remat.limits.max_seconds = 0;
    pipeline::PlanningTime time;
    auto first = pipeline::first_plan(graph_, options_, time);
    ASSERT_TRUE(first.has_value()) << first.error().message;
    ASSERT_TRUE(first->trials.best || first->rough);
    EXPECT_TRUE(time.has_plan());
    EXPECT_FALSE(time.was_late());
    pipeline::Trials trials = std::move(first->trials);
    const size_t count = trials.count;
    ASSERT_TRUE(pipeline::try_labels(graph_, options_, first->whole, time, trials).has_value());
    ASSERT_TRUE(pipeline::try_more_cuts(graph_, options_, time, trials).has_value());
    ASSERT_TRUE(pipeline::try_more_rewrites(graph_, options_, time, trials).has_value());
    EXPECT_EQ(trials.count, count) << percent;
    EXPECT_TRUE(time.was_late());
    const auto made = pipeline::optimize(graph_, options_);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const pipeline::Optimized& known = first->rough ? *first->rough : *trials.best;
    EXPECT_EQ(made->plan.claims.predicted_seconds, known.plan.claims.predicted_seconds);
    EXPECT_TRUE(made->cut_short);
    EXPECT_TRUE(verify::verify(made->plan).ok());
  }
}

}  // namespace
}  // namespace lowtide::first_plan_test
