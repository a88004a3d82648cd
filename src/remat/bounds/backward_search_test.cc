// The floor by backward search: never above the least peak of any schedule (the oracle tries all),
// equal to its definition by plain recursion over sets, and weaker, not wrong, where values are
// left out or the work ends early.
#include "remat/bounds/backward_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/testing/remat_oracle.h"

namespace lowtide::remat {
namespace {

using plan::RandomSchedule;
using plan::ScheduleProblem;
using Needed = std::set<SchedValueId>;

// Straight from the definition: rounds over all sets that were ever reached, until no peak falls.
class ByDefinition {
 public:
  ByDefinition(const ScheduleProblem& problem, int64_t least_bytes)
      : problem_(problem), least_bytes_(least_bytes) {}

  int64_t least_peak(SchedOpId goal) {
    std::map<Needed, int64_t> peaks;  // of the best way to a set
    const auto reach = [&](SchedOpId op, const Needed& after, int64_t peak_after) {
      Needed before;
      for (SchedValueId v : problem_.values.ids()) {
        const bool made = problem_.values[v].producer == op;
        if ((after.contains(v) && !made) ||
            (reads(op, v) && problem_.values[v].bytes >= least_bytes_))
          before.insert(v);
      }
      const int64_t peak = std::max(peak_after, present(op, after));
      const auto [at, is_new] = peaks.try_emplace(before, peak);
      const bool lower = is_new || peak < at->second;
      at->second = std::min(at->second, peak);
      return lower;
    };
    reach(goal, {}, 0);
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& [needed, peak] : std::map(peaks))
        for (SchedValueId v : needed) changed |= reach(problem_.values[v].producer, needed, peak);
    }
    const auto none = peaks.find({});
    return none == peaks.end() ? std::numeric_limits<int64_t>::max() : none->second;
  }

 private:
  bool reads(SchedOpId op, SchedValueId v) const {
    const auto& readers = problem_.values[v].readers;
    return std::binary_search(readers.begin(), readers.end(), op);
  }
  int64_t present(SchedOpId op, const Needed& after) const {
    int64_t bytes = problem_.resident_bytes + problem_.ops[op].workspace_bytes;
    for (SchedValueId v : problem_.values.ids())
      if (after.contains(v) || reads(op, v) || problem_.values[v].producer == op)
        bytes += problem_.values[v].bytes;
    std::vector<plan::InPlacePair> pairs;
    for (const plan::InPlacePair& pair : problem_.in_place)
      if (pair.op == op && !after.contains(pair.input)) pairs.push_back(pair);
    int64_t most = 0;
    for (uint32_t choice = 0; choice < 1u << pairs.size(); ++choice) {
      std::set<SchedValueId> used;
      int64_t saved = 0;
      bool clash = false;
      for (size_t i = 0; i < pairs.size(); ++i) {
        if ((choice >> i & 1u) == 0) continue;
        clash |= !used.insert(pairs[i].input).second || !used.insert(pairs[i].output).second;
        saved += problem_.values[pairs[i].output].bytes;
      }
      if (!clash) most = std::max(most, saved);
    }
    return bytes - most;
  }

  const ScheduleProblem& problem_;
  const int64_t least_bytes_;
};

RandomSchedule shape_of(int i) {
  RandomSchedule shape{.min_ops = 6, .max_ops = 11, .reader_rate = 0.45, .rerun_rate = 1};
  shape.output_rate = 0.02;
  if (i % 3 != 2) shape.writer_rate = shape.control_rate = 0;
  if (i % 3 == 1) shape.in_place_rate = 0.8;
  if (i % 3 == 2) shape.control_rate = 0.1, shape.writer_rate = 0.15;
  return shape;
}

TEST(BackwardSearch, IsItsDefinition) {
  Rng rng(3);
  int64_t compared = 0, higher = 0;
  for (int i = 0; i < 300; ++i) {
    const ScheduleProblem problem = random_schedule_problem(shape_of(i), rng);
    const StepGraph graph(problem);
    const int64_t least_bytes = rng.between(1, 6);
    for (SchedOpId goal : problem.ops.ids()) {
      const int64_t least = ByDefinition(problem, least_bytes).least_peak(goal);
      const int64_t above = rng.between(0, least + 3);
      WorkBudget work({.max_units = 1'000'000 * kUnitsPerSet});
      const auto found = backward_floor_of(graph, goal, least_bytes, above, work);
      ASSERT_EQ(found.has_value(), least > above) << "problem " << i << " op " << goal.index();
      ++compared;
      if (!found) continue;
      ASSERT_EQ(found->bytes, least) << "problem " << i << " op " << goal.index();
      higher += !found->waiting.empty();
      int64_t fullest = problem.resident_bytes + graph.own_bytes(found->op);
      for (SchedValueId v : found->waiting) fullest += problem.values[v].bytes;
      EXPECT_GE(fullest, found->bytes);  // less what is reused in place
    }
  }
  EXPECT_GT(compared, 2000);
  EXPECT_GT(higher, 50);
}

TEST(BackwardSearch, IsNeverAboveTheLeastPeakOfAnySchedule) {
  Rng rng(4);
  int raised = 0, tight = 0, checked = 0;
  for (int i = 0; i < 1500; ++i) {
    ScheduleProblem problem = random_schedule_problem(shape_of(i), rng);
    problem.budget_bytes.reset();
    RematOracle oracle(problem, {.max_states = 200'000});
    const auto least = oracle.least_peak();
    if (!oracle.complete() || !least) continue;
    ++checked;
    const Floor floor = floor_of(problem);
    ASSERT_LE(floor.bytes, least->peak_bytes) << "problem " << i;
    const int64_t by_cuts = cut_floor(problem).bytes;
    ASSERT_GE(floor.bytes, by_cuts);
    EXPECT_EQ(floor.way.has_value(), floor.bytes > by_cuts);
    raised += floor.bytes > by_cuts;
    tight += floor.bytes > by_cuts && floor.bytes == least->peak_bytes;
  }
  EXPECT_GT(checked, 1400);
  EXPECT_GT(raised, 40);
  EXPECT_GT(tight, 20);
  RecordProperty("raised", raised);
  RecordProperty("tight", tight);
}

TEST(BackwardSearch, ShowsLessWithoutSmallValuesAndWithLessWork) {
  constexpr int64_t kMany = 1'000'000 * kUnitsPerSet;
  Rng rng(5);
  int64_t weaker_by_size = 0, weaker_by_work = 0;
  for (int i = 0; i < 300; ++i) {
    const ScheduleProblem problem = random_schedule_problem(shape_of(i), rng);
    const StepGraph graph(problem);
    const auto bytes = [&](SchedOpId goal, int64_t least_bytes, int64_t units) {
      WorkBudget work({.max_units = units});
      const auto found = backward_floor_of(graph, goal, least_bytes, 0, work);
      return found ? found->bytes : 0;
    };
    for (SchedOpId goal : problem.ops.ids()) {
      const int64_t whole = bytes(goal, 1, kMany);
      for (int64_t least_bytes = 2; least_bytes < 10; ++least_bytes) {
        ASSERT_LE(bytes(goal, least_bytes, kMany), whole);
        weaker_by_size += bytes(goal, least_bytes, kMany) < whole;
      }
      int64_t before = 0;
      for (int64_t sets = 0; sets < 12; ++sets) {
        const int64_t now = bytes(goal, 1, sets * kUnitsPerSet);
        ASSERT_GE(now, before);
        ASSERT_LE(now, whole);
        weaker_by_work += now < whole;
        before = now;
      }
    }
  }
  EXPECT_GT(weaker_by_size, 1000);
  EXPECT_GT(weaker_by_work, 1000);
}

}  // namespace
}  // namespace lowtide::remat
