// Rescheduled orders against a DP over the sets of ops that an interval can have run: the peak is
// never above the inherited one, and below it exactly where some order of the interval allows it.
#include "order/waist.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "order/interval_problem.h"
#include "order/order.h"
#include "order/testing/random_order.h"
#include "order/testing/subset_dp_oracle.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

using plan::ProblemIndex;
using plan::SchedOpId;
using plan::ScheduleProblem;
using plan::SchedValueId;

const RandomShape kWaistShapes[] = {
    {.output_rate = 0.02},
    {.reader_rate = 0.12, .output_rate = 0.02},
    {.max_bytes = 3, .window = 4, .reader_rate = 0.4},
    {.max_bytes = 60, .reader_rate = 0.2, .output_rate = 0, .in_place_rate = 0.9},
    {.extra_value_rate = 0.9, .in_place_rate = 0.8, .control_rate = 0.1},
    {.reader_rate = 0.15, .workspace_rate = 0.5, .in_place_rate = 0.9, .source_rate = 0.4},
};

ProfiledOrder profiled(const ScheduleProblem& problem, std::vector<SchedOpId> sequence) {
  auto profile = plan::simulate(problem, sequence);
  LT_CHECK(profile.has_value(), "the test's order is valid");
  return {std::move(sequence), *std::move(profile)};
}

std::vector<SchedOpId> all_ops(const ScheduleProblem& problem) {
  std::vector<SchedOpId> ops;
  for (const SchedOpId op : problem.ops.ids()) ops.push_back(op);
  return ops;
}

WaistOutcome reschedule_all(const ScheduleProblem& problem, const ProfiledOrder& inherited,
                            const WaistOptions& options = {}) {
  return reschedule(problem, ProblemIndex(problem), inherited, all_ops(problem), options);
}

// An order with its profile, not above the inherited one; that itself unless it is below.
void expect_sound(const ScheduleProblem& problem, const ProfiledOrder& inherited,
                  const WaistOutcome& outcome) {
  const ProfiledOrder& order = outcome.order;
  const auto profile = plan::simulate(problem, order.sequence);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(order.profile.peak_bytes, profile->peak_bytes);
  EXPECT_EQ(order.profile.peak_step, profile->peak_step);
  EXPECT_EQ(order.profile.step_bytes, profile->step_bytes);
  EXPECT_EQ(order.profile.after_bytes, profile->after_bytes);
  EXPECT_EQ(order.profile.reused, profile->reused);
  EXPECT_LE(profile->peak_bytes, inherited.profile.peak_bytes);
  const bool is_lower = profile->peak_bytes < inherited.profile.peak_bytes;
  EXPECT_TRUE(is_lower || order.sequence == inherited.sequence);
}

// Least peak inside over all orders of the ops in the interval.
int64_t least_inside(const SubsetDp& dp, const std::vector<SchedOpId>& sequence,
                     Interval interval) {
  uint32_t from = 0, to = 0;
  for (int64_t at = 0; at < interval.end; ++at)
    (at < interval.begin ? from : to) |= 1u << sequence[at].index();
  to |= from;
  std::map<uint32_t, int64_t> best = {{from, 0}};  // ascending, so subsets come first
  for (auto at = best.begin(); at != best.end(); ++at)
    for (size_t v = 0; v < sequence.size(); ++v) {
      if (!(to >> v & 1) || !dp.can_run(at->first, v)) continue;
      const int64_t peak = std::max(at->second, dp.step_peak(at->first, v));
      const auto [next, is_new] = best.emplace(at->first | 1u << v, peak);
      if (!is_new) next->second = std::min(next->second, peak);
    }
  return best.at(to);
}

// The interval of this reach around the peak: fewest bytes alive on either side, and as wide as
// that allows.
Interval waists_of(const ScheduleProblem& problem, const ProfiledOrder& order, int64_t reach) {
  const int64_t step = order.profile.peak_step, n = order.sequence.size();
  const auto alive = [&](int64_t at) {
    return at == 0 ? problem.resident_bytes : order.profile.after_bytes[at - 1];
  };
  std::vector<std::pair<int64_t, int64_t>> before, behind;
  for (int64_t at = 0; at <= step; ++at)
    if (at + reach >= step) before.emplace_back(alive(at), at);
  for (int64_t at = step + 1; at <= n; ++at)
    if (at <= step + 1 + reach) behind.emplace_back(alive(at), n - at);
  return {std::min_element(before.begin(), before.end())->second,
          n - std::min_element(behind.begin(), behind.end())->second};
}

// The peak as low as orders of the interval can make it; more than that where a step elsewhere is
// as high.
void expect_lowest(const ScheduleProblem& problem, const ProfiledOrder& order, int64_t reach) {
  const Interval interval = waists_of(problem, order, reach);
  for (size_t at = 0; at < order.sequence.size(); ++at)
    if (!interval.contains(static_cast<int64_t>(at)) &&
        order.profile.step_bytes[at] == order.profile.peak_bytes)
      return;
  const int64_t least = least_inside(SubsetDp(problem), order.sequence, interval);
  EXPECT_GE(std::max(least, problem.resident_bytes), order.profile.peak_bytes);
}

TEST(Reschedule, IsAsLowAsAnyOrderInReach) {
  Rng rng(41);
  int lowered = 0, optimal = 0;
  for (int i = 0; i < 4000; ++i) {
    ScheduleProblem problem = random_problem(kWaistShapes[i % 6], rng);
    if (i % 5 == 0) add_sums(problem, 0.5, rng);
    const ProfiledOrder inherited = profiled(problem, random_order(problem, rng));
    WaistOptions options;
    if (i % 2 == 1) options.first_reach = options.most_reach = 1 + rng.below(4);
    const WaistOutcome outcome = reschedule_all(problem, inherited, options);
    expect_sound(problem, inherited, outcome);
    expect_lowest(problem, outcome.order, options.most_reach);
    lowered += outcome.order.profile.peak_bytes < inherited.profile.peak_bytes;
    if (i % 2 == 0) optimal += outcome.order.profile.peak_bytes == SubsetDp(problem).optimum();
    if (HasFailure()) FAIL() << "problem " << i << "\n" << plan::print(problem);
  }
  EXPECT_GT(lowered, 1500);
  EXPECT_GT(optimal, 1900);  // of 2000 with all in reach; outputs can make an early waist
}

// What was touched: a value of some ops, in a problem whose order was the best.
TEST(Reschedule, KeepsWhatIsNotTouched) {
  Rng rng(43);
  int lowered = 0, kept = 0;
  for (int i = 0; i < 1500; ++i) {
    ScheduleProblem problem = random_problem(kWaistShapes[i % 6], rng);
    const ProfiledOrder inherited = profiled(problem, solve(problem).sequence);
    const SchedValueId changed(rng.below(problem.values.size()));
    const int64_t bytes = problem.values[changed].bytes;
    problem.values[changed].bytes += rng.between(1, 40);
    std::vector<SchedOpId> touched = problem.values[changed].readers;
    touched.push_back(problem.values[changed].producer);
    const ProfiledOrder now = profiled(problem, inherited.sequence);
    const WaistOutcome outcome =
        reschedule(problem, ProblemIndex(problem), now, touched, {.first_reach = 2});
    expect_sound(problem, now, outcome);
    // By all that are in reach at least; and no op but these was worth a look.
    expect_lowest(problem, outcome.order, 128);
    lowered += outcome.order.profile.peak_bytes < now.profile.peak_bytes;
    kept += outcome.intervals == 0;
    problem.values[changed].bytes = bytes;
    const WaistOutcome untouched = reschedule(problem, ProblemIndex(problem), inherited, {});
    EXPECT_EQ(untouched.order.sequence, inherited.sequence);
    EXPECT_EQ(untouched.cuts, 0);
    if (HasFailure()) FAIL() << "problem " << i << "\n" << plan::print(problem);
  }
  EXPECT_GT(lowered, 60);
  EXPECT_GT(kept, 1000);
}

TEST(Reschedule, StopsAtWhatIsEnoughAndAtTheLimit) {
  Rng rng(44);
  int different = 0;
  for (int i = 0; i < 600; ++i) {
    const ScheduleProblem problem = random_problem(kWaistShapes[i % 6], rng);
    const ProfiledOrder inherited = profiled(problem, random_order(problem, rng));
    const WaistOutcome best = reschedule_all(problem, inherited);
    const int64_t least = best.order.profile.peak_bytes, most = inherited.profile.peak_bytes;
    WaistOptions options;
    options.enough_bytes = least + (most - least) / 2;
    const WaistOutcome enough = reschedule_all(problem, inherited, options);
    expect_sound(problem, inherited, enough);
    EXPECT_LE(enough.order.profile.peak_bytes, options.enough_bytes);
    options.enough_bytes = most;
    EXPECT_EQ(reschedule_all(problem, inherited, options).cuts, 0);
    options = {};
    options.limits.max_units = rng.between(1, 4000);
    const WaistOutcome some = reschedule_all(problem, inherited, options);
    expect_sound(problem, inherited, some);
    EXPECT_EQ(some.order.sequence, reschedule_all(problem, inherited, options).order.sequence);
    different += some.order.profile.peak_bytes > least;
    if (HasFailure()) FAIL() << "problem " << i << "\n" << plan::print(problem);
  }
  EXPECT_GT(different, 50);
}

// ---- cases that it decides

// Links of a chain, each with two branches from one value: an op with much workspace that leaves
// little. In the best order the one with more workspace runs first.
struct Links {
  ProblemMaker make;
  std::vector<SchedOpId> second;  // of each link's branches

  explicit Links(size_t count) {
    SchedValueId x = make.value(make.op(), 50);
    for (size_t i = 0; i < count; ++i) {
      const SchedOpId one = make.op(100), other = make.op(60), join = make.op();
      for (const SchedOpId branch : {one, other}) {
        make.read(branch, x);
        make.read(join, make.value(branch, 10));
      }
      second.push_back(other);
      x = make.value(join, 50);
    }
  }
  SchedOpId touch(size_t link, int64_t workspace_bytes) {
    make.problem.ops[second[link]].workspace_bytes = workspace_bytes;
    return second[link];
  }
};

TEST(Reschedule, TurnsTheBranchesOfTheLinkThatHasChanged) {
  Links links(500);
  const ScheduleProblem& problem = links.make.problem;
  const SchedOpId touched = links.touch(200, 150);
  const ProfiledOrder inherited = profiled(problem, all_ops(problem));
  const WaistOutcome outcome = reschedule(problem, ProblemIndex(problem), inherited, {{touched}});
  expect_sound(problem, inherited, outcome);
  EXPECT_EQ(inherited.profile.peak_bytes, 50 + 10 + 150 + 10);
  EXPECT_EQ(outcome.order.profile.peak_bytes, 50 + 150 + 10);
  EXPECT_EQ(outcome.intervals, 1);
  EXPECT_LT(outcome.units, 40'000);  // 1,501 ops in all
  std::vector<SchedOpId> expected = inherited.sequence;
  std::swap(expected[touched.index() - 1], expected[touched.index()]);
  const auto outside = [&](const std::vector<SchedOpId>& sequence) {
    std::vector<SchedOpId> ops(sequence.begin(), sequence.begin() + touched.index() - 33);
    ops.insert(ops.end(), sequence.begin() + touched.index() + 33, sequence.end());
    return ops;
  };
  EXPECT_EQ(outside(outcome.order.sequence), outside(inherited.sequence));
}

TEST(Reschedule, GoesOnWhereThePeakHasMoved) {
  Links links(250);
  const ScheduleProblem& problem = links.make.problem;
  const std::vector<SchedOpId> touched = {links.touch(20, 150), links.touch(200, 148)};
  const ProfiledOrder inherited = profiled(problem, all_ops(problem));
  const WaistOutcome outcome = reschedule(problem, ProblemIndex(problem), inherited, touched);
  expect_sound(problem, inherited, outcome);
  EXPECT_EQ(inherited.profile.peak_bytes, 220);
  EXPECT_EQ(outcome.order.profile.peak_bytes, 210);
  EXPECT_EQ(outcome.intervals, 2);
  // One of the two alone is not enough where both are as high.
  links.touch(200, 150);
  const ProfiledOrder alike = profiled(problem, all_ops(problem));
  const WaistOutcome both = reschedule(problem, ProblemIndex(problem), alike, touched);
  EXPECT_EQ(alike.profile.peak_bytes, 220);
  EXPECT_EQ(both.order.profile.peak_bytes, 210);
  const WaistOutcome one = reschedule(problem, ProblemIndex(problem), alike, {{touched[0]}});
  EXPECT_EQ(one.order.sequence, alike.sequence);
}

// 10 of 220 bytes may be won.
TEST(Reschedule, LeavesWhatIsNotWorthIt) {
  Links links(250);
  const ScheduleProblem& problem = links.make.problem;
  const SchedOpId touched = links.touch(200, 150);
  const ProfiledOrder inherited = profiled(problem, all_ops(problem));
  const auto peak_with = [&](const WaistOptions& options) {
    return reschedule(problem, ProblemIndex(problem), inherited, {{touched}}, options)
        .order.profile.peak_bytes;
  };
  EXPECT_EQ(peak_with({.worth = 0.04}), 210);
  EXPECT_EQ(peak_with({.worth = 0.05}), 220);
  EXPECT_EQ(peak_with({.enough_bytes = 209, .worth = 0.05}), 220);
  EXPECT_EQ(peak_with({.enough_bytes = 210, .worth = 0.05}), 210);
}

TEST(Reschedule, LeavesAPeakThatIsFarFromWhatWasTouched) {
  Links links(250);
  const ScheduleProblem& problem = links.make.problem;
  links.touch(20, 150);
  const SchedOpId touched = links.touch(200, 120);
  const ProfiledOrder inherited = profiled(problem, all_ops(problem));
  const WaistOutcome outcome = reschedule(problem, ProblemIndex(problem), inherited, {{touched}});
  EXPECT_EQ(outcome.order.sequence, inherited.sequence);
  EXPECT_EQ(outcome.units, 0);
}

// A large value waits for a reader that is far behind the peak: it must come before.
TEST(Reschedule, WidensTheIntervalUntilTheCureIsInReach) {
  ProblemMaker make;
  const SchedOpId source = make.op();
  const SchedValueId large = make.value(source, 100);
  SchedValueId x = make.value(source, 10);
  for (int i = 0; i < 40; ++i) {
    const SchedOpId op = make.op(i == 5 ? 30 : 0);
    make.read(op, x);
    x = make.value(op, 10);
  }
  const SchedOpId cure = make.op();
  make.read(cure, large);
  make.value(cure, 1, true);
  const ProfiledOrder inherited = profiled(make.problem, all_ops(make.problem));
  for (const int64_t most : {8, 16, 32, 64}) {
    const WaistOutcome outcome =
        reschedule_all(make.problem, inherited, {.first_reach = 4, .most_reach = most});
    expect_sound(make.problem, inherited, outcome);
    EXPECT_EQ(outcome.order.profile.peak_bytes, most < 64 ? 150 : 111) << "reach " << most;
  }
}

// Steps of a training graph, of which layers grow, from the best order of what they were.
TEST(Reschedule, IsNeverWorseOnTrainingSteps) {
  Rng rng(45);
  int lowered = 0, as_low_as_anew = 0;
  for (int i = 0; i < 24; ++i) {
    ScheduleProblem problem = i % 3 == 0   ? transformer_training(6, 64, 200)
                              : i % 3 == 1 ? converted_weights_training(30, 64, 200, rng)
                                           : random_dag(300, 30, 3, rng);
    OrderOptions quick;
    quick.exact_search = quick.beam = false;
    quick.limits.max_units = 1'000'000;
    const std::vector<SchedOpId> sequence = solve(problem, quick).sequence;
    const size_t first = rng.below(problem.values.size() * 3 / 4);
    std::vector<SchedOpId> touched;
    for (size_t v = first; v < first + problem.values.size() / 4; ++v) {
      plan::SchedValue& value = problem.values[SchedValueId(v)];
      value.bytes *= 4;
      touched.push_back(value.producer);
      touched.insert(touched.end(), value.readers.begin(), value.readers.end());
    }
    const ProfiledOrder inherited = profiled(problem, sequence);
    const WaistOutcome outcome = reschedule(problem, ProblemIndex(problem), inherited, touched);
    expect_sound(problem, inherited, outcome);
    EXPECT_LE(outcome.units, 500'000);  // the limit, and what was begun before it
    lowered += outcome.order.profile.peak_bytes < inherited.profile.peak_bytes;
    as_low_as_anew += outcome.order.profile.peak_bytes <= solve(problem, quick).peak_bytes;
    if (HasFailure()) FAIL() << "problem " << i;
  }
  EXPECT_GT(lowered, 8);
  EXPECT_GT(as_low_as_anew, 16);
}

}  // namespace
}  // namespace lowtide::order
