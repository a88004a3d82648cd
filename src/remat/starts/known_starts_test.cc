// What is remembered against starts made anew, of random problems and of ones that differ from them
// in a single thing, each asked for twice.
#include "remat/starts/known_starts.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "plan/schedule_simulator.h"
#include "plan/testing/schedule_test_problems.h"

namespace lowtide::remat {
namespace {

using plan::ScheduleProblem;

ScheduleProblem random_problem(Rng& rng) {
  plan::RandomSchedule shape;
  shape.max_ops = 14;
  shape.in_place_rate = 0.4;
  shape.output_rate = 0.2;
  ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
  for (plan::SchedOp& op : problem.ops) {
    op.seconds = static_cast<double>(rng.between(1, 9));
    op.may_rerun = rng.below(4) > 0;
  }
  problem.budget_bytes = problem.resident_bytes + rng.between(0, 3 * shape.max_bytes);
  return problem;
}

// The same but for one thing.
ScheduleProblem changed(ScheduleProblem problem, uint64_t what) {
  switch (what) {
    case 0:
      *problem.budget_bytes += 1;
      break;
    case 1:
      problem.ops[SchedOpId(0)].seconds *= 3;
      break;
    case 2:
      problem.ops[SchedOpId(0)].may_rerun ^= true;
      break;
    case 3:
      problem.ops[SchedOpId(0)].workspace_bytes += 2;
      break;
    case 4:
      if (!problem.values.empty()) problem.values[SchedValueId(0)].bytes += 1;
      break;
    default:
      problem.in_place.clear();
  }
  return problem;
}

// Another order of the ops, of two that may change places; the same where none may.
std::vector<SchedOpId> another(const ScheduleProblem& problem,
                               const std::vector<SchedOpId>& order) {
  for (size_t k = 1; k < order.size(); ++k) {
    std::vector<SchedOpId> made = order;
    std::swap(made[k - 1], made[k]);
    if (plan::simulate(problem, made)) return made;
  }
  return order;
}

TEST(KnownStarts, HangOnTheOrder) {
  KnownStarts known;
  int differ = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    const ScheduleProblem problem = random_problem(rng);
    const ActionTable table(problem);
    const std::vector<SchedOpId> first(problem.ops.ids().begin(), problem.ops.ids().end());
    for (const auto& order : {first, another(problem, first)})
      EXPECT_EQ(known.greedy(table, order).sequence, greedy_start(table, order).sequence) << seed;
    differ += another(problem, first) != first ? 1 : 0;
  }
  EXPECT_GT(differ, 40);
}

TEST(KnownStarts, AreThoseMadeAnew) {
  KnownStarts known;
  int dropped = 0, differ = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Rng rng(seed);
    const ScheduleProblem problem = random_problem(rng);
    std::vector<SchedOpId> order(problem.ops.ids().begin(), problem.ops.ids().end());
    const GreedyStart as_given = greedy_start(ActionTable(problem), order);
    for (uint64_t what = 0; what <= 6; ++what) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", change " << what);
      const ActionTable table(what == 0 ? problem : changed(problem, what - 1));
      const GreedyStart anew = greedy_start(table, order);
      for (int asked = 0; asked < 2; ++asked) {
        const GreedyStart found = known.greedy(table, order);
        EXPECT_EQ(found.sequence, anew.sequence);
        EXPECT_EQ(found.units, anew.units);
      }
      dropped += anew.sequence.size() > order.size() ? 1 : 0;
      differ += anew.sequence != as_given.sequence ? 1 : 0;
    }
  }
  EXPECT_GT(dropped, 40);
  EXPECT_GT(differ, 4);
}

}  // namespace
}  // namespace lowtide::remat
