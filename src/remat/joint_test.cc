#include "remat/joint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/few_tries.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::SchedOpId;
using plan::ScheduleProblem;

ScheduleProblem random_problem(Rng& rng, double link_rate) {
  plan::RandomSchedule shape;
  shape.min_ops = 8, shape.max_ops = 16;
  shape.reader_rate = 0.15;
  shape.link_rate = link_rate;
  shape.resident_rate = 0.2;
  shape.moved_parts_rate = 0.2;
  ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
  std::vector<SchedAction> runs;
  for (SchedOpId op : problem.ops.ids()) runs.push_back(SchedAction::run(op));
  const auto whole = plan::simulate_sequence(problem, runs);
  problem.budget_bytes = whole->peak_bytes - rng.between(0, whole->peak_bytes / 2);
  return problem;
}

constexpr int64_t kQuickUnits = 4'000'000;

JointOptions quick() {
  JointOptions options;
  options.remat.limits.max_units = kQuickUnits;
  options.swap.limits.max_units = 50'000;
  options.tries = 4;
  return options;
}

TEST(Joint, NeverWorseThanEitherWayAlone) {
  Rng rng(11);
  int both_better = 0, found = 0;
  for (int i = 0; i < 150; ++i) {
    const ScheduleProblem problem = random_problem(rng, 1);
    JointOptions all = quick();
    if (i % 2 == 1) all.remat.limits.max_units = 20'000;  // rounds of a joint search are short then
    const RematOutcome both = solve_joint(problem, all);
    JointOptions swap = all, recompute = all;
    swap.recompute = false;
    recompute.transfers = false;
    const RematOutcome swapped = solve_joint(problem, swap);
    if (!both.sequence.empty()) {
      ++found;
      const auto profile = plan::simulate_sequence(problem, both.sequence);
      ASSERT_TRUE(profile) << profile.error().message;
      EXPECT_LE(profile->peak_bytes, *problem.budget_bytes);
      EXPECT_DOUBLE_EQ(profile->seconds, both.seconds);
      EXPECT_GE(both.seconds, both.lower_bound_seconds * (1 - 1e-9));
    }
    if (!swapped.sequence.empty()) {
      ASSERT_FALSE(both.sequence.empty());
      EXPECT_LE(both.seconds, swapped.seconds * (1 + kJoint.loose));
      const auto profile = plan::simulate_sequence(problem, swapped.sequence);
      ASSERT_TRUE(profile);
      EXPECT_EQ(profile->reruns, 0);
      both_better += both.seconds < swapped.seconds * (1 - 1e-9);
    }
    const RematOutcome rerun = solve_joint(problem, recompute);
    for (const SchedAction& action : rerun.sequence)
      EXPECT_EQ(action.kind, SchedAction::Kind::kRun);
    if (!rerun.sequence.empty()) {
      ASSERT_FALSE(both.sequence.empty());
      EXPECT_LE(both.seconds, rerun.seconds * (1 + kJoint.loose));
    }
  }
  EXPECT_GT(found, 60);
  EXPECT_GT(both_better, 3);
}

TEST(Joint, TheUnitLimitIsThatOfAllTriesTogether) {
  Rng rng(14);
  int runs = 0, transfers = 0;
  for (int i = 0; i < 10; ++i) {
    const ScheduleProblem problem = random_problem(rng, 1);
    JointOptions options = quick();
    double share = 0;
    std::set<plan::SearchStage> stages;
    options.remat.progress = [&](const plan::Progress& progress) {
      EXPECT_GE(progress.share, share);
      EXPECT_LE(progress.share, 1);
      EXPECT_EQ(progress.budget_bytes, *problem.budget_bytes);
      share = progress.share;
      stages.insert(progress.stage);
    };
    // Both together, each lever alone, and once more from recompute alone with a quarter of it.
    EXPECT_LT(solve_joint(problem, options).work.units, 13 * kQuickUnits / 4 + 1'000'000);
    EXPECT_FALSE(stages.contains(plan::SearchStage::kProof));
    runs += stages.contains(plan::SearchStage::kRuns);
    transfers += stages.contains(plan::SearchStage::kTransfers);
  }
  EXPECT_GT(runs, 1);  // few are not answered by all states
  EXPECT_GT(transfers, 5);
}

TEST(Joint, TheBoundIsHandedOnToWhoWantsToClaimIt) {
  Rng rng(16);
  int proven = 0;
  for (int i = 0; i < 60; ++i) {
    const ScheduleProblem problem = random_problem(rng, 1);
    JointOptions options = quick();
    const TimeBoundOptions wanted{.multipliers = true};
    options.remat.limits.max_units = 50'000;
    if (i < 5) {
      EXPECT_FALSE(solve_joint(problem, options).bound);
    }
    options.remat.bound = wanted;
    const RematOutcome outcome = solve_joint(problem, options);
    ASSERT_TRUE(outcome.bound) << i;
    const TimeBound asked = time_bound(problem, wanted);
    EXPECT_EQ(outcome.bound->bound_ticks, asked.bound_ticks) << i;
    EXPECT_EQ(outcome.lower_bound_seconds, asked.lower_bound_seconds) << i;
    proven += asked.several.has_value();
    options.transfers = options.recompute = false;
    EXPECT_FALSE(solve_joint(problem, options).bound) << "it would speak of few schedules";
  }
  EXPECT_GT(proven, 3);
}

TEST(Joint, MoreWorkIsNeverWorse) {
  Rng rng(15);
  int better = 0, found = 0;
  for (int i = 0; i < 12; ++i) {
    plan::RandomSchedule shape;
    shape.min_ops = shape.max_ops = i < 10 ? 30 : 150;
    shape.reader_rate = 2.0 / static_cast<double>(shape.max_ops);
    shape.link_rate = 1;
    shape.resident_rate = 0.2;
    ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    std::vector<SchedAction> runs;
    for (SchedOpId op : problem.ops.ids()) runs.push_back(SchedAction::run(op));
    problem.budget_bytes = plan::simulate_sequence(problem, runs)->peak_bytes * 3 / 5;
    RematOutcome before;
    for (const int64_t units : {1, 100'000, 300'000, 1'000'000, 3'000'000, 10'000'000}) {
      JointOptions options;
      options.remat.limits.max_units = units;
      RematOutcome outcome = solve_joint(problem, options);
      if (!before.sequence.empty()) {
        ASSERT_FALSE(outcome.sequence.empty());
        EXPECT_LE(outcome.seconds, before.seconds) << "problem " << i << ", " << units << " units";
        better += outcome.seconds < before.seconds;
      }
      before = std::move(outcome);
    }
    found += !before.sequence.empty();
  }
  EXPECT_GT(found, 6);
  EXPECT_GT(better, 2);
}

// Far above its bound it has at least what a few tries near the budget come to.
TEST(Joint, NeverWorseThanAFewTriesNearTheBudget) {
  Rng rng(17);
  int found = 0, far = 0;
  for (int i = 0; i < 100; ++i) {
    const ScheduleProblem problem = random_problem(rng, 1);
    const JointOptions all = quick();
    JointOptions few = all;
    few.remat.limits.max_units /= kJoint.share_of_last;
    const plan::ScheduleOutcome order = least_peak_order(problem, few.remat);
    few.remat.least_peak_order = order.sequence;
    const RematOutcome near = solve_in_few_tries(problem, few);
    if (near.sequence.empty()) continue;
    ++found;
    const RematOutcome both = solve_joint(problem, all);
    ASSERT_FALSE(both.sequence.empty());
    const double loose = both.lower_bound_seconds * (1 + kJoint.far);
    EXPECT_LE(both.seconds, std::max(near.seconds, loose) * (1 + 1e-9)) << i;
    far += both.seconds > loose;
  }
  EXPECT_GT(found, 30);
  EXPECT_GT(far, 5);
}

TEST(Joint, SeveralTiersKeepTheirRoomAndTheBound) {
  Rng rng(14);
  int found = 0, second_used = 0, better = 0;
  for (int i = 0; i < 100; ++i) {
    ScheduleProblem problem = random_problem(rng, 1);
    const RematOutcome single = solve_joint(problem, quick());
    problem.more_links = {plan::Link{1, 2, 0.5, 0.125 * static_cast<double>(rng.below(2))}};
    problem.link->bytes = rng.between(1, 12);
    const RematOutcome outcome = solve_joint(problem, quick());
    // What one link does, two do as fast, but for the room, which the bound leaves out.
    if (!single.sequence.empty()) {
      EXPECT_LE(outcome.lower_bound_seconds, single.seconds * (1 + 1e-9));
    }
    EXPECT_TRUE(single.sequence.empty() || !outcome.sequence.empty());
    if (outcome.sequence.empty()) continue;
    ++found;
    const auto profile = plan::simulate_sequence(problem, outcome.sequence);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_LE(profile->peak_bytes, *problem.budget_bytes);
    EXPECT_DOUBLE_EQ(profile->seconds, outcome.seconds);
    EXPECT_GE(outcome.seconds, outcome.lower_bound_seconds * (1 - 1e-9));
    EXPECT_LE(plan::most_held(problem, profile->slots, 0).bytes, problem.link->bytes);
    second_used += plan::most_held(problem, profile->slots, 1).bytes > 0;
    better += outcome.seconds < single.seconds * (1 - 1e-9);
  }
  EXPECT_GT(found, 40);
  EXPECT_GT(second_used, 10);
  EXPECT_GT(better, 0);
}

TEST(Joint, TheSameAnswerAtAnyThreadCount) {
  Rng rng(13);
  for (int i = 0; i < 10; ++i) {
    const ScheduleProblem problem = random_problem(rng, 1);
    JointOptions one = quick(), four = quick();
    four.remat.threads = 4;
    EXPECT_EQ(solve_joint(problem, one).sequence, solve_joint(problem, four).sequence);
  }
}

}  // namespace
}  // namespace lowtide::remat
