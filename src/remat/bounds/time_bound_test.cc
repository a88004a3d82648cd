// The one entry to the bounds: what it hands on is what the cuts find one after the other, each as
// far as it was asked for.
#include "remat/bounds/time_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/testing/cut_test_problems.h"

namespace lowtide::remat {
namespace {

using plan::RandomSchedule;
using plan::ScheduleProblem;

constexpr int kProblems = 400;
constexpr int64_t kLittleWork = 20'000;  // for several moments

ScheduleProblem some_problem(Rng& rng, bool link) {
  RandomSchedule shape{.min_ops = 5, .max_ops = 14, .reader_rate = 0.3, .rerun_rate = 1};
  if (link) shape.link_rate = 1, shape.resident_rate = 0.2;
  ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
  problem.budget_bytes = some_budget(problem, rng);
  return problem;
}

// A valid order other than the given one, where there is another: of the ops that are ready the
// last one runs.
std::vector<SchedOpId> latest_first(const ScheduleProblem& problem) {
  const StepGraph graph(problem);
  std::vector<SchedOpId> order;
  IdVector<SchedOpId, size_t> waits(graph.size(), 0);
  std::vector<SchedOpId> ready;
  for (SchedOpId op : problem.ops.ids())
    if ((waits[op] = graph.preds[op].size()) == 0) ready.push_back(op);
  while (!ready.empty()) {
    const auto last = std::max_element(ready.begin(), ready.end());
    order.push_back(*last);
    ready.erase(last);
    for (SchedOpId next : graph.succs[order.back()])
      if (--waits[next] == 0) ready.push_back(next);
  }
  return order;
}

TEST(TimeBound, IsTheHighestThatOneMomentAndSeveralProve) {
  Rng rng(31);
  int several = 0, infeasible = 0;
  for (int i = 0; i < kProblems; ++i) {
    const ScheduleProblem problem = some_problem(rng, i % 2 == 1);
    const TimeBound bound = time_bound(problem, {.limits = {.max_units = kLittleWork}});
    const CutBoundResult single = closure_cut(problem);
    ASSERT_EQ(bound.feasible, single.feasible) << i;
    EXPECT_EQ(bound.by_order.bound_ticks, single.bound_ticks) << i;
    EXPECT_EQ(bound.single_work, single.work) << i;
    infeasible += !single.feasible;
    double highest = single.lower_bound_seconds;
    ASSERT_EQ(bound.several.has_value(), single.feasible && single.op.has_value()) << i;
    if (bound.several) {
      const MultiCutResult more =
          multi_cut(problem, single, {.order = {}, .limits = {.max_units = kLittleWork}});
      EXPECT_EQ(bound.several->bound_ticks, more.bound_ticks) << i;
      EXPECT_LE(bound.several_work, kLittleWork) << i;
      EXPECT_GE(bound.bound_ticks, more.bound_ticks) << i;
      highest = std::max(highest, more.lower_bound_seconds);
      several += more.certificate.time->cuts.size() > 1;
    }
    EXPECT_EQ(bound.lower_bound_seconds, highest) << i;
  }
  EXPECT_GT(several, 0);
  EXPECT_GT(infeasible, 0);
}

TEST(TimeBound, AnotherOrderOnlyAddsToWhatTheGivenOneShows) {
  Rng rng(32);
  int other = 0;
  for (int i = 0; i < 4 * kProblems; ++i) {
    const ScheduleProblem problem = some_problem(rng, i % 2 == 1);
    const std::vector<SchedOpId> order = latest_first(problem);
    const TimeBound both =
        time_bound(problem, {.order = order, .given_order_too = true, .several = false});
    const CutBoundResult by_order = closure_cut(problem, {.order = order});
    const CutBoundResult given = closure_cut(problem);
    EXPECT_EQ(both.by_order.bound_ticks, by_order.bound_ticks) << i;
    EXPECT_EQ(both.single.bound_ticks, std::max(by_order.bound_ticks, given.bound_ticks)) << i;
    EXPECT_EQ(both.single_work, by_order.work + given.work) << i;
    other += given.bound_ticks > by_order.bound_ticks;
  }
  RecordProperty("given order higher", other);
}

TEST(TimeBound, SeveralMomentsAreAskedWhereTheyAreWanted) {
  Rng rng(33);
  int checked = 0, spared = 0;
  for (int i = 0; i < kProblems; ++i) {
    const ScheduleProblem problem = some_problem(rng, i % 2 == 1);
    const TimeBound one = time_bound(problem, {.several = false});
    EXPECT_FALSE(one.several) << i;
    EXPECT_EQ(one.several_work, 0) << i;
    if (!one.feasible || !one.single.op) continue;
    ++checked;
    const MultiCutResult words = as_several(problem, one.single);
    const TimeBound written = time_bound(problem, {.several = false, .multipliers = true});
    ASSERT_TRUE(written.several) << i;
    EXPECT_EQ(written.several->bound_ticks, words.bound_ticks) << i;
    EXPECT_EQ(written.several->certificate, words.certificate) << i;
    const TimeBound enough = time_bound(problem, {.multipliers = true, .enough_ticks = 0});
    EXPECT_EQ(enough.several->bound_ticks, words.bound_ticks) << i;
    EXPECT_EQ(enough.several_work, 0) << i;
    const TimeBound more =
        time_bound(problem, {.multipliers = true, .limits = {.max_units = kLittleWork}});
    EXPECT_GE(more.bound_ticks, enough.bound_ticks) << i;
    spared += more.several_work > 0;
  }
  EXPECT_GT(checked, 50);
  EXPECT_GT(spared, 50);
}

TEST(TimeBound, ASearchAsksInFullForWhoClaimsIt) {
  const std::atomic<bool> cancel = false;
  const Limits of_search{1'000'000, 100, &cancel};
  const TimeBoundOptions own = asked_by_search({}, of_search);
  EXPECT_EQ(own.limits.max_units, 100'000);
  EXPECT_EQ(own.limits.max_units, bound_units(of_search));
  EXPECT_EQ(own.limits.max_seconds, 100);
  EXPECT_EQ(own.limits.cancel, &cancel);
  const TimeBoundOptions wanted{.given_order_too = true, .multipliers = true};
  const TimeBoundOptions asked = asked_by_search(wanted, of_search);
  EXPECT_EQ(asked.limits.max_units, wanted.limits.max_units);
  EXPECT_EQ(asked.limits.max_seconds, 25);
  EXPECT_EQ(asked.limits.cancel, &cancel);
  EXPECT_TRUE(asked.given_order_too && asked.multipliers);
  const Limits large = of_search.with_units(int64_t{1} << 50);
  EXPECT_EQ(bound_units(large), wanted.limits.max_units) << "more is never asked for";
}

TEST(TimeBound, TheFlagEndsIt) {
  Rng rng(34);
  const std::atomic<bool> cancel = true;
  for (int i = 0; i < 50; ++i) {
    const ScheduleProblem problem = some_problem(rng, false);
    const TimeBound stopped = time_bound(problem, {.limits = {.cancel = &cancel}});
    EXPECT_LE(stopped.lower_bound_seconds,
              time_bound(problem, {.limits = {.max_units = kLittleWork}}).lower_bound_seconds)
        << i;
  }
}

}  // namespace
}  // namespace lowtide::remat
