// A few tries on random problems: schedules that the simulator scores alike, above what is proven,
// never worse than reruns alone, and with transfers alone where nothing may run again.
#include "remat/few_tries.h"

#include <gtest/gtest.h>

#include <vector>

#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/closure_cut.h"
#include "remat/bounds/floor.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::ScheduleProblem;

constexpr int64_t kUnits = 20'000;

struct Drawn {
  ScheduleProblem problem;
  std::vector<plan::SchedOpId> order;
};

// With a link and a budget below what its order needs.
Drawn drawn(Rng& rng) {
  plan::RandomSchedule shape;
  shape.min_ops = 6, shape.max_ops = 14;
  shape.reader_rate = 0.2;
  shape.link_rate = 1;
  shape.resident_rate = 0.2;
  shape.moved_parts_rate = 0.2;
  Drawn made{plan::random_schedule_problem(shape, rng), {}};
  made.problem.link->latency_seconds = 0;
  made.problem.link->bytes_per_second_in *= 4, made.problem.link->bytes_per_second_out *= 4;
  made.order.assign(made.problem.ops.ids().begin(), made.problem.ops.ids().end());
  std::vector<SchedAction> runs;
  for (const plan::SchedOpId op : made.order) runs.push_back(SchedAction::run(op));
  const int64_t peak = plan::simulate_sequence(made.problem, runs)->peak_bytes;
  made.problem.budget_bytes = peak - rng.between(1, std::max<int64_t>(1, peak / 2));
  return made;
}

JointOptions options_for(const Drawn& drawn) {
  JointOptions options;
  options.remat.limits.max_units = kUnits;
  options.remat.cut_bound = options.remat.exact_small = false;
  options.remat.least_peak_order = drawn.order;
  return options;
}

void expect_right(const ScheduleProblem& problem, const RematOutcome& found) {
  const auto profile = plan::simulate_sequence(problem, found.sequence);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_LE(profile->peak_bytes, *problem.budget_bytes);
  EXPECT_DOUBLE_EQ(profile->seconds, found.seconds);
  EXPECT_GE(found.seconds, closure_cut(problem).lower_bound_seconds * (1 - 1e-9));
}

TEST(FewTries, AreNeverWorseThanRerunsAlone) {
  Rng rng(3);
  int found = 0, faster = 0, only_moved = 0;
  for (int i = 0; i < 400; ++i) {
    const Drawn one = drawn(rng);
    const RematOutcome both = solve_in_few_tries(one.problem, options_for(one));
    JointOptions alone = options_for(one);
    alone.transfers = false;
    const RematOutcome reruns = solve_in_few_tries(one.problem, alone);
    if (!reruns.sequence.empty()) {
      ASSERT_FALSE(both.sequence.empty()) << i;
      EXPECT_LE(both.seconds, reruns.seconds) << i;
      faster += both.seconds < reruns.seconds;
    }
    if (both.sequence.empty()) continue;
    ++found;
    only_moved += reruns.sequence.empty();
    expect_right(one.problem, both);
  }
  EXPECT_GT(found, 150);
  EXPECT_GT(faster, 10);
  EXPECT_GT(only_moved, 10);
}

// Where reruns cannot keep the budget, they keep what they can, and transfers bring out the rest.
TEST(FewTries, BeginAtTheLeastBudgetThatRerunsCanKeep) {
  Rng rng(5);
  int found = 0, differ = 0;
  for (int i = 0; i < 200; ++i) {
    const Drawn one = drawn(rng);
    ScheduleProblem runs_only = one.problem;
    plan::forbid_transfers(runs_only);
    const JointOptions options = options_for(one);
    const RematOutcome other = solve_in_few_tries(one.problem, options);
    const int64_t floor = floor_of(runs_only, {}).bytes;
    const RematOutcome made = solve_in_few_tries(one.problem, options, floor);
    if (floor <= *one.problem.budget_bytes) {
      EXPECT_EQ(made.sequence, other.sequence) << i;
      continue;
    }
    if (made.sequence.empty()) continue;
    ++found;
    differ += made.sequence != other.sequence;
    expect_right(one.problem, made);
  }
  EXPECT_GT(found, 20);
  EXPECT_GT(differ, 5);
}

TEST(FewTries, WithoutRecomputeRunEachOpOnce) {
  Rng rng(4);
  int found = 0;
  for (int i = 0; i < 200; ++i) {
    const Drawn one = drawn(rng);
    JointOptions options = options_for(one);
    options.recompute = false;
    const RematOutcome moved = solve_in_few_tries(one.problem, options);
    if (moved.sequence.empty()) continue;
    ++found;
    EXPECT_EQ(plan::runs_of(moved.sequence).size(), one.problem.ops.size());
    expect_right(one.problem, moved);
    options.transfers = false;
    EXPECT_TRUE(solve_in_few_tries(one.problem, options).sequence.empty());
  }
  EXPECT_GT(found, 30);
}

}  // namespace
}  // namespace lowtide::remat
