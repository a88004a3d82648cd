// The floor against its definition, a minimum cut for every op, on random problems with every
// feature; and a deep step, which has as many ops that could set it as layers.
#include "remat/bounds/floor.h"

#include <gtest/gtest.h>

#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/testing/cut_test_problems.h"

namespace lowtide::remat {
namespace {

using plan::RandomSchedule;
using plan::ScheduleProblem;

// What the op needs whatever the schedule.
int64_t least_of(const StepGraph& graph, SchedOpId op) {
  ClosureNetwork net(graph, op);
  CutChoice choice;
  return net.fixed_bytes() + (graph.problem->link ? 0 : net.least_bytes(choice));
}

int64_t by_definition(const ScheduleProblem& problem) {
  const StepGraph graph(problem);
  int64_t bytes = problem.resident_bytes;
  if (problem.link)
    for (const plan::SchedResident& r : problem.residents) bytes -= r.bytes;
  for (SchedOpId op : problem.ops.ids()) bytes = std::max(bytes, least_of(graph, op));
  return bytes;
}

TEST(Floor, IsTheMostThatAnyOpNeeds) {
  Rng rng(5);
  int64_t more_than_present = 0, moved = 0;
  for (int i = 0; i < 4000; ++i) {
    RandomSchedule shape{.min_ops = 3, .max_ops = 16, .reader_rate = 0.2};
    if (i % 4 == 1) shape.in_place_rate = 0.7;
    if (i % 4 == 2) shape.control_rate = 0.15, shape.rerun_rate = 0.5;
    if (i % 4 == 3) shape.link_rate = 1, shape.resident_rate = 0.3;
    const ScheduleProblem problem = random_schedule_problem(shape, rng);
    const Floor floor = cut_floor(problem);
    ASSERT_EQ(floor.bytes, by_definition(problem)) << "problem " << i;
    if (!floor.op.valid()) continue;
    const StepGraph graph(problem);
    EXPECT_EQ(least_of(graph, floor.op), floor.bytes) << "problem " << i;
    more_than_present += !floor.kept.empty();
    moved += problem.link.has_value();
  }
  EXPECT_GT(more_than_present, 500);
  EXPECT_GT(moved, 500);
}

// As far as a question goes, what is told is what the whole floor would tell.
TEST(Floor, AnswersWhatIsAskedOfIt) {
  Rng rng(6);
  int64_t lower = 0, above = 0, not_above = 0;
  for (int i = 0; i < 3000; ++i) {
    RandomSchedule shape{.min_ops = 3, .max_ops = 16, .reader_rate = 0.2};
    if (i % 4 == 1) shape.in_place_rate = 0.7;
    if (i % 4 == 2) shape.control_rate = 0.15, shape.rerun_rate = 0.5;
    if (i % 4 == 3) shape.link_rate = 1, shape.resident_rate = 0.3;
    const ScheduleProblem problem = random_schedule_problem(shape, rng);
    const auto near = [&](int64_t bytes) {
      return bytes / 4 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(bytes) + 1));
    };
    for (const auto& find : {cut_floor, floor_of}) {
      const int64_t whole = find(problem, {}).bytes;
      FloorQuestion question{.enough = near(whole), .first = SchedOpId(rng.below(3))};
      if (i % 2 == 0) question.budget = near(whole);
      const Floor told = find(problem, question);
      ASSERT_LE(told.bytes, whole) << "problem " << i;
      EXPECT_EQ(std::min(told.bytes, question.enough), std::min(whole, question.enough))
          << "problem " << i;
      EXPECT_EQ(told.bytes > question.budget, whole > question.budget) << "problem " << i;
      if (told.op.valid() && !told.way) {
        EXPECT_LE(told.bytes, least_of(StepGraph(problem), told.op)) << "problem " << i;
      }
      lower += told.bytes < whole;
      above += whole > question.budget;
      not_above += whole <= question.budget;
    }
  }
  EXPECT_GT(lower, 300);
  EXPECT_GT(above, 300);
  EXPECT_GT(not_above, 300);
}

TEST(Floor, OfADeepStepIsThatOfItsLastLayer) {
  // Only the first op of each layer may not run again, and its result is read at the way back: when
  // the last layer has run, all of those are present.
  constexpr int64_t kLayers = 3000;
  const ScheduleProblem problem = deep_step({.layers = kLayers, .first_may_rerun = false});
  const StepGraph graph(problem);
  const Floor floor = cut_floor(problem);
  EXPECT_GE(floor.bytes, kLayers * DeepStep().first_bytes);
  EXPECT_LE(floor.bytes, kLayers * DeepStep().first_bytes + 100);
  EXPECT_EQ(least_of(graph, floor.op), floor.bytes);
  for (size_t op = 0; op < graph.size(); op += 997)
    EXPECT_LE(least_of(graph, SchedOpId(op)), floor.bytes);
}

}  // namespace
}  // namespace lowtide::remat
