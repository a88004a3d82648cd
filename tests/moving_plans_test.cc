// Whole training steps whose parameters and optimizer state live in slow memory and whose
// activations go there and come back: every result, in every step, has the bits of the unplanned
// step.
//
// ResNet-50 once, from files; with LOWTIDE_LONG U-Net and GPT-2, from host memory and from files.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/compare.h"
#include "api/state.h"
#include "lowtide/api.h"
#include "support/long_checks.h"
#include "support/moving_plan.h"

namespace lowtide::moving_plans_test {
namespace {

struct Case {
  const char* model;
  std::map<std::string, int64_t, std::less<>> dims;
  bool files = false;  // two of them; else host memory
};

std::vector<Case> cases() {
  if (!long_checks()) return {{"resnet50", {{"batch", 1}}, true}};
  std::vector<Case> all;
  for (const bool files : {false, true}) {
    all.push_back({"unet", {{"batch", 1}}, files});
    all.push_back({"gpt2", {{"batch", 1}, {"seq", 16}}, files});
  }
  return all;
}

class MovingPlans : public testing::TestWithParam<Case> {
 protected:
  static plan::Plan make_plan(int32_t tiers) {
    const std::string path =
        std::string(LOWTIDE_SOURCE_DIR "/models/") + GetParam().model + ".onnx";
    auto model = Model::read(path, {.dims = GetParam().dims, .training = true});
    EXPECT_TRUE(model.has_value()) << model.error().message;
    auto plan = Plan::make(*model, {.train = true});
    EXPECT_TRUE(plan.has_value()) << plan.error().message;
    return MovingPlan(plan->state().plan, 6, tiers).make();
  }
  static void expect_equal(const plan::Plan& plan, const std::string& folder) {
    CompareOptions options;
    options.steps = 1;
    options.compare = true;
    options.slow_tier_folder = folder;
    const auto report = run_plan(plan, options);
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_GT(report->values_compared, 0);
    EXPECT_EQ(report->values_different, 0) << report->first_different;
    EXPECT_GT(report->transfers.stored_bytes, 0);
    EXPECT_GT(report->transfers.loaded_bytes, 0);
    EXPECT_LE(report->arena_touched_bytes, plan.arena_bytes);
    std::fputs(print(*report).c_str(), stdout);
  }
};

TEST_P(MovingPlans, GiveTheBitsOfTheUnplannedStep) {
  expect_equal(make_plan(GetParam().files ? 2 : 1), GetParam().files ? testing::TempDir() : "");
}

INSTANTIATE_TEST_SUITE_P(Models, MovingPlans, testing::ValuesIn(cases()), [](const auto& instance) {
  return instance.param.model + std::string(instance.param.files ? "_files" : "_memory");
});

}  // namespace
}  // namespace lowtide::moving_plans_test
