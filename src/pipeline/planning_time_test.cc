// What a plan takes beside its search is kept back of a limit of time; by plans that say so, as no
// clock is asked.
#include "pipeline/planning_time.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {
namespace {

Optimized made_in(double planning, double searching, double checking) {
  Optimized made;
  made.planning_seconds = planning;
  made.fitting_seconds = searching;
  made.stages = {{"parts", 1},
                 {"schedule", searching},
                 {"plan", checking / 4},
                 {"verify", checking / 2},
                 {"addresses", checking / 4}};
  return made;
}

TEST(Reserve, IsWhatTheDearestPlanTookBesideItsSearch) {
  Reserve reserve;
  reserve.note(made_in(10, 4, 2));
  EXPECT_DOUBLE_EQ(reserve.plan, 6);
  EXPECT_GT(reserve.behind, 2) << "and the file";
  EXPECT_LT(reserve.behind, 3);
  const Reserve before = reserve;
  reserve.note(made_in(9, 8, 0.1));
  EXPECT_EQ(reserve.plan, before.plan);
  EXPECT_EQ(reserve.behind, before.behind);
  reserve.note(made_in(30, 1, 0.1));
  EXPECT_DOUBLE_EQ(reserve.plan, 29);
  EXPECT_EQ(reserve.behind, before.behind);
}

TEST(Reserve, NothingIsKeptBackBeforeThereIsAPlan) {
  const Reserve none;
  const Limits limits{.max_seconds = 60};
  EXPECT_EQ(none.kept_back(limits), 0);
  EXPECT_FALSE(none.is_late(limits, 60));
  EXPECT_TRUE(none.is_late(limits, 60.1));
}

TEST(Reserve, IsLateWhereLessIsLeftThanAPlanTakes) {
  Reserve reserve;
  reserve.plan = 6, reserve.behind = 2;
  const Limits limits{.max_seconds = 60};
  EXPECT_GE(reserve.kept_back(limits), 2);
  EXPECT_LT(reserve.kept_back(limits), 3);
  EXPECT_FALSE(reserve.is_late(limits, 51));
  EXPECT_TRUE(reserve.is_late(limits, 52.1));
  EXPECT_FALSE(reserve.is_late(Limits(), 1e8)) << "without a limit";
}

TEST(PlanningTime, LeavesSearchesWhatIsNotKeptBack) {
  OptimizeOptions options;
  PlanningTime time;
  Limits& limits = options.schedule.remat.limits;
  limits.max_seconds = 1000;
  const auto left = [](const OptimizeOptions& some) {
    return some.schedule.remat.limits.max_seconds;
  };
  EXPECT_NEAR(left(time.for_plan(options)), 1000, 60);
  EXPECT_FALSE(time.has_plan());
  time.note(made_in(500, 100, 200));
  EXPECT_TRUE(time.has_plan());
  EXPECT_NEAR(left(time.for_plan(options)), 740, 60);
  EXPECT_NEAR(left(time.before_plan(options)), 340, 60);
  EXPECT_FALSE(time.is_late(options));
  EXPECT_FALSE(time.was_late());
  limits.max_seconds = 600;
  EXPECT_EQ(left(time.before_plan(options)), 0);
  EXPECT_TRUE(time.is_late(options));
  EXPECT_TRUE(time.was_late());
}

// A share of a limit that is none is more than another one has.
TEST(PlanningTime, KeepsBackOfEachLimitByItself) {
  OptimizeOptions options;
  options.pack.limits.max_seconds = 1000;
  PlanningTime time;
  time.note(made_in(10, 4, 2));
  EXPECT_GT(time.for_plan(options).schedule.remat.limits.max_seconds, 9e8);
  EXPECT_NEAR(time.for_plan(options).pack.limits.max_seconds, 1000, 60);
}

}  // namespace
}  // namespace lowtide::pipeline
