// The doors to a plan, with passes that change what the step computes (support/wrong_passes.h): a
// plan whose sums were put in order by a wrong pass, or that a wrong pass has cut, is right by
// itself, and is refused all the same, without a budget, within one and in a front. The gate
// itself: src/pipeline/gate_test.cc.
#include "support/wrong_passes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/front.h"
#include "pipeline/optimize.h"
#include "support/graph_writer.h"

namespace lowtide {
namespace {

// Layers of square products; all but the last have one weight, so that its gradient is a sum.
class Layers : public GraphWriter {
 public:
  Layers() {
    ir::ValueId x = given("x", {16, 16}, Category::kInput);
    const ir::ValueId shared = given("w", {16, 16}, Category::kParameter);
    for (int i = 0; i < 4; ++i) x = op("Relu", {op("MatMul", {x, shared})});
    graph_.set_output(op("MatMul", {x, given("v", {16, 16}, Category::kParameter)}), true);
  }
};

class WrongPasses : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string("wrong_passes_") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    options_.device = cost::find_device("cpu").value();
    options_.dump_folder = folder_.string();
    options_.find_smallest = false;
    options_.training.emplace();
    options_.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
    options_.schedule.remat.limits.max_units = 1'000'000;
  }
  void TearDown() override {
    wrong_pass = WrongPass::kNone;
    std::filesystem::remove_all(folder_);
  }

  void expect_refusal(const std::string& word) {
    const auto refused = pipeline::optimize(layers_.graph(), options_);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInternal);
    EXPECT_NE(refused.error().message.find(word), std::string::npos) << refused.error().message;
    EXPECT_FALSE(std::filesystem::is_empty(folder_));
  }

  Layers layers_;
  pipeline::OptimizeOptions options_;
  std::filesystem::path folder_;
};

TEST_F(WrongPasses, SumsInOrderAreHeldAgainstTheSumsBefore) {
  ASSERT_TRUE(pipeline::optimize(layers_.graph(), options_).has_value());
  wrong_pass = WrongPass::kOrderSums;
  expect_refusal("sums: op");
}

TEST_F(WrongPasses, PartsAreHeldAgainstTheStepInOnePart) {
  options_.split.parts = 2;
  const auto right = pipeline::optimize(layers_.graph(), options_);
  ASSERT_TRUE(right.has_value()) << right.error().message;
  ASSERT_GT(right->ops_in_parts, 0);
  wrong_pass = WrongPass::kExpand;
  expect_refusal("parts: op");
  options_.budget_bytes = right->plan.arena_bytes;
  expect_refusal("parts: op");
}

TEST_F(WrongPasses, AFrontHasNoneOfThem) {
  options_.split.parts = 2;
  const auto choose = [](int64_t floor, int64_t unlimited) {
    return std::vector<int64_t>{unlimited, (floor + unlimited) / 2};
  };
  ASSERT_TRUE(pipeline::optimize_front(layers_.graph(), options_, choose).has_value());
  wrong_pass = WrongPass::kExpand;
  const auto refused = pipeline::optimize_front(layers_.graph(), options_, choose);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("parts: op"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace lowtide
