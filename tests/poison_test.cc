// `run --poison`: a plan that frees a buffer one step too early gives the right results as long as
// nothing lies there yet, and only with freed memory overwritten do they differ. The session's own
// tests: src/runtime/session_moves_test.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "api/compare.h"
#include "api/state.h"
#include "lowtide/api.h"

namespace lowtide::poison_test {
namespace {

const char* const kStep = R"(graph "two products" "by hand"
given "x" f32 [32, 64] input fed
given "w" f32 [64, 64] parameter seeded
op "Sigmoid" "gate" "" forward v0
  out "h" f32 [32, 64] activation own
op "MatMul" "product" "" forward v2 v1 -
  out "y" f32 [32, 64] activation own output
)";

// The free of what the step before it reads last, and that step, in the other order.
bool free_too_early(plan::Plan& plan) {
  for (size_t t = 0; t + 1 < plan.steps.size(); ++t) {
    plan::Step &run = plan.steps[t], &freed = plan.steps[t + 1];
    if (run.kind != plan::Step::Kind::kCompute || freed.kind != plan::Step::Kind::kFree) continue;
    const auto& inputs = plan.ops[run.op].inputs;
    const auto reads = [&](plan::PlanValueId v) {
      return v.valid() && plan.values[v].storage == freed.storage;
    };
    if (!std::any_of(inputs.begin(), inputs.end(), reads)) continue;
    std::swap(run, freed);
    return true;
  }
  return false;
}

TEST(Poison, ShowsAReadOfFreedMemoryThatNothingElseShows) {
  const auto model = Model::parse(kStep, "kStep");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  PlanOptions options;
  options.threads = 1;
  const auto made = Plan::make(*model, options);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  plan::Plan plan = made->state().plan;
  const auto different = [&](bool poison) {
    const auto report =
        run_plan(plan, {.steps = 1, .compare = true, .poison = poison, .threads = 1});
    EXPECT_TRUE(report.has_value()) << report.error().message;
    return report ? report->values_different : -1;
  };
  EXPECT_EQ(different(true), 0) << "the plan as it was made";
  ASSERT_TRUE(free_too_early(plan));
  EXPECT_EQ(different(false), 0) << "the bytes are still there";
  EXPECT_GT(different(true), 0);
}

}  // namespace
}  // namespace lowtide::poison_test
