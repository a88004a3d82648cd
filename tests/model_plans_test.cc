// Plans of the models: sound, verified, read back as they were, and every wrong copy of them
// refused. Each plan is changed hundreds of times by a seeded mutation; a second, naive judge
// (verify/testing/definition.h) says which changes left it valid.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "api/state.h"
#include "lowtide/api.h"
#include "plan/plan_text.h"
#include "verify/testing/mutate.h"
#include "verify/verify.h"

namespace lowtide::model_plans_test {
namespace {

struct Case {
  const char* model;
  std::map<std::string, int64_t, std::less<>> dims;
};

const Case kCases[] = {{"unet", {{"batch", 1}}},
                       {"resnet50", {{"batch", 1}}},
                       {"gpt2", {{"batch", 1}, {"seq", 64}}},
                       {"bert", {{"batch", 1}, {"seq", 128}}}};

class ModelPlans : public testing::TestWithParam<Case> {
 protected:
  static Result<Plan> make(const PlanOptions& options) {
    const std::string path =
        std::string(LOWTIDE_SOURCE_DIR "/models/") + GetParam().model + ".onnx";
    auto model = Model::read(path, {.dims = GetParam().dims, .training = options.train});
    if (!model) return tl::unexpected<Error>(model.error());
    return Plan::make(*model, options);
  }
};

TEST_P(ModelPlans, TrainingIsSoundAndVerified) {
  const auto plan = make({.train = true});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Status verified = plan->verify();
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
  EXPECT_LE(plan->lower_bound_bytes(), plan->peak_bytes());
  EXPECT_LE(plan->peak_bytes(), plan->peak_before_bytes());
  EXPECT_EQ(plan->arena_bytes(), plan->peak_bytes()) << "no fragmentation";
  EXPECT_LE(static_cast<double>(plan->peak_bytes()),
            1.01 * static_cast<double>(plan->lower_bound_bytes()));
}

// Small and large batches of all: near the bound, without fragmentation.
TEST(ModelPlanSizes, EveryTrainingStepIsWithinOnePercentOfItsBound) {
  const Case cases[] = {{"gpt2", {{"batch", 1}, {"seq", 64}}},
                        {"gpt2", {{"batch", 1}, {"seq", 256}}},
                        {"gpt2", {{"batch", 32}, {"seq", 64}}},
                        {"gpt2", {{"batch", 32}, {"seq", 256}}},
                        {"bert", {{"batch", 1}, {"seq", 128}}},
                        {"bert", {{"batch", 32}, {"seq", 128}}},
                        {"resnet50", {{"batch", 1}}},
                        {"resnet50", {{"batch", 32}}},
                        {"unet", {{"batch", 1}}},
                        {"unet", {{"batch", 32}}}};
  for (const Case& c : cases) {
    std::string label = c.model;
    for (const auto& [dim, size] : c.dims) label += "_" + dim + std::to_string(size);
    SCOPED_TRACE(label);
    const std::string path = std::string(LOWTIDE_SOURCE_DIR "/models/") + c.model + ".onnx";
    const auto model = Model::read(path, {.dims = c.dims, .training = true});
    ASSERT_TRUE(model.has_value()) << model.error().message;
    const auto plan = Plan::make(*model, {.train = true});
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const Status verified = plan->verify();
    EXPECT_TRUE(verified.has_value()) << verified.error().message;
    EXPECT_EQ(plan->arena_bytes(), plan->peak_bytes());
    EXPECT_LE(static_cast<double>(plan->peak_bytes()),
              1.01 * static_cast<double>(plan->lower_bound_bytes()));
    const double seconds = plan->state().facts.planning_seconds;
    testing::Test::RecordProperty(label + "_planning_seconds", std::to_string(seconds));
    std::printf("%s: planned in %.3f s\n", label.c_str(), seconds);
  }
}

TEST_P(ModelPlans, InferenceIsSoundAndVerified) {
  const auto plan = make({.train = false});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const Status verified = plan->verify();
  EXPECT_TRUE(verified.has_value()) << verified.error().message;
}

TEST_P(ModelPlans, TheFileReadsBackAsTheSamePlan) {
  const auto plan = make({.train = true});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const std::string text = plan::print_plan(plan->state().plan);
  const auto read = plan::read_plan(text, "test");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_TRUE(*read == plan->state().plan);
  EXPECT_EQ(plan::print_plan(*read), text);
}

// Wrong plans of each model; LOWTIDE_MUTATIONS=1000 and more is the long check.
int mutations() {
  const char* wanted = std::getenv("LOWTIDE_MUTATIONS");
  return wanted != nullptr ? std::atoi(wanted) : 30;
}

TEST_P(ModelPlans, MutationsAreJudgedRight) {
  const int count = mutations();
  ASSERT_GT(count, 0);
  const auto plan = make({.train = true});
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const verify::Agreement agreement = verify::compare_on_mutations(plan->state().plan, count, 1);
  for (const std::string& disagreement : agreement.disagreements) ADD_FAILURE() << disagreement;
  EXPECT_EQ(agreement.valid + agreement.wrong, count);
  EXPECT_GT(agreement.wrong, count / 2);
  std::printf("%s: %d mutations refused, %d left the plan valid\n", GetParam().model,
              agreement.wrong, agreement.valid);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelPlans, testing::ValuesIn(kCases),
                         [](const auto& instance) { return std::string(instance.param.model); });

}  // namespace
}  // namespace lowtide::model_plans_test
