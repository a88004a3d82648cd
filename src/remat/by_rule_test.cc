// Schedules by published rules on random problems: the simulator scores them, they keep what the
// options forbid, and no answer of the joint search is slower.
#include "remat/by_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::ScheduleProblem;

// With a link and a budget below what the order that came in needs.
ScheduleProblem with_a_link(Rng& rng) {
  plan::RandomSchedule shape;
  shape.min_ops = 8, shape.max_ops = 16;
  shape.reader_rate = 0.15;
  shape.link_rate = 1;
  shape.resident_rate = 0.2;
  ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
  problem.link->latency_seconds = 0;
  problem.link->bytes_per_second_in *= 4, problem.link->bytes_per_second_out *= 4;
  std::vector<SchedAction> runs;
  for (const plan::SchedOpId op : problem.ops.ids()) runs.push_back(SchedAction::run(op));
  const int64_t peak = plan::simulate_sequence(problem, runs)->peak_bytes;
  problem.budget_bytes = peak - rng.between(1, std::max<int64_t>(1, peak / 3));
  return problem;
}

JointOptions with_little_work() {
  JointOptions options;
  options.remat.limits.max_units = 200'000;
  options.swap.limits.max_units = 50'000;
  options.tries = 4;
  return options;
}

constexpr Limits kEnoughForRules{.max_units = 10'000'000};

TEST(ByRule, KeepsTheBudgetAndWhatIsForbidden) {
  Rng rng(3);
  int found = 0, reruns = 0, moves = 0;
  for (int i = 0; i < 300; ++i) {
    const ScheduleProblem problem = with_a_link(rng);
    for (const auto method : {baselines::Method::kXla, baselines::Method::kPofo}) {
      JointOptions options = with_little_work();
      options.recompute = i % 2 == 0;
      options.swap.spans.values = i % 3 != 0;
      options.remat.reorder = i % 5 != 0;
      const ByRule made = by_rule(problem, method, options, kEnoughForRules);
      if (made.sequence.empty()) continue;
      ++found;
      const auto profile = plan::simulate_sequence(problem, made.sequence);
      ASSERT_TRUE(profile) << profile.error().message;
      EXPECT_LE(profile->peak_bytes, *problem.budget_bytes);
      EXPECT_TRUE(options.recompute || profile->reruns == 0);
      EXPECT_TRUE(options.swap.spans.values || profile->stored_bytes == 0);
      EXPECT_EQ(plan::runs_of(made.sequence), made.runs);
      ScheduleProblem without_link = problem;
      plan::forbid_transfers(without_link);
      EXPECT_GE(plan::simulate_sequence(without_link, made.runs)->peak_bytes, profile->peak_bytes);
      reruns += profile->reruns > 0;
      moves += profile->stored_bytes > 0;
    }
  }
  EXPECT_GT(found, 50);
  EXPECT_GT(reruns, 5);
  EXPECT_GT(moves, 10);
}

TEST(ByRule, IsNeverFasterThanTheJointSearch) {
  Rng rng(4);
  int faster = 0, compared = 0;
  for (int i = 0; i < 100; ++i) {
    const ScheduleProblem problem = with_a_link(rng);
    for (const bool recompute : {true, false}) {
      JointOptions options = with_little_work();
      options.recompute = recompute;
      const RematOutcome found = solve_joint(problem, options);
      for (const auto method : {baselines::Method::kXla, baselines::Method::kPofo}) {
        const bool is_first = method == baselines::Method::kXla;
        if (!is_first && !recompute) continue;
        const ByRule made = by_rule(problem, method, options, options.remat.limits);
        if (made.sequence.empty()) continue;
        ++compared;
        ASSERT_FALSE(found.sequence.empty()) << i;
        const double seconds = plan::simulate_sequence(problem, made.sequence)->seconds;
        EXPECT_LE(found.seconds, seconds * (1 + (is_first ? 1e-9 : kJoint.loose))) << i;
        faster += found.seconds < seconds;
      }
    }
  }
  EXPECT_GT(compared, 30);
  EXPECT_GT(faster, 10);
}

}  // namespace
}  // namespace lowtide::remat
