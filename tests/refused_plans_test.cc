// Every door to a plan, with a packer that gives two living buffers one address: Plan::make, the
// C ABI, fronts, the largest size and each command. Whatever asks for a plan gets an error of ours
// (exit code 1) that names the overlap and a folder for the bug report, and no file. The gate
// itself: src/pipeline/gate_test.cc.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "api/largest.h"
#include "base/file.h"
#include "lowtide/api.h"
#include "lowtide/lowtide.h"

namespace lowtide {
namespace {

namespace fs = std::filesystem;

const std::string kModel = LOWTIDE_SOURCE_DIR "/models/unet.onnx";

class RefusedPlans : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              (std::string("refused_plans_") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  PlanOptions options() const {
    PlanOptions options;
    options.train = true;
    options.loss = "mse";
    options.threads = 1;
    options.effort = 0.1;
    options.dump_folder = folder_.string();
    return options;
  }
  static Result<Model> model(int64_t batch = 1) {
    return Model::read(kModel, {.dims = {{"batch", batch}}, .training = true});
  }
  std::string options_json() const {
    return R"({"train": true, "loss": "mse", "threads": 1, "effort": 0.1, "dump_folder": ")" +
           folder_.string() + "\"}";
  }

  // One line that says what is wrong and where to look; the folder holds the plan and the findings.
  void expect_refusal(const std::string& message) const {
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 0) << message;
    EXPECT_NE(message.find("unet.onnx: "), std::string::npos) << message;
    EXPECT_NE(message.find("refused by its verifier"), std::string::npos) << message;
    EXPECT_NE(message.find("overlap"), std::string::npos) << message;
    const size_t at = message.find(folder_.string());
    ASSERT_NE(at, std::string::npos) << message;
    const fs::path report = message.substr(at, message.find('\'', at) - at);
    const auto findings = read_file((report / "findings.txt").string());
    ASSERT_TRUE(findings.has_value()) << findings.error().message;
    EXPECT_NE(findings->find("overlap"), std::string::npos) << *findings;
    const auto plan = Plan::load((report / "plan.lt").string());
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    EXPECT_EQ(exit_code(plan->verify().error().code), 6);
    const std::string again = (folder_ / "again.lt").string();
    EXPECT_FALSE(plan->save(again).has_value()) << "what was refused is not written either";
    EXPECT_FALSE(fs::exists(again));
    EXPECT_FALSE(Session::open(*plan).has_value());
  }

  struct Ran {
    int code = 0;
    std::string said;
  };
  Ran program(const std::string& arguments) const {
    const std::string command = "TMPDIR='" + folder_.string() +
                                "' '" PROGRAM_WITH_WRONG_ADDRESSES "' " + arguments +
                                " 2>&1 >/dev/null";
    FILE* pipe = popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    Ran ran;
    std::array<char, 4096> part;
    while (const size_t count = std::fread(part.data(), 1, part.size(), pipe))
      ran.said.append(part.data(), count);
    ran.code = WEXITSTATUS(pclose(pipe));
    while (ran.said.ends_with('\n')) ran.said.pop_back();
    return ran;
  }

  fs::path folder_;
};

TEST_F(RefusedPlans, NeverLeavePlanMake) {
  for (const char* kind : {"training", "inference", "budget"}) {
    PlanOptions wanted = options();
    wanted.train = std::string(kind) != "inference";
    if (std::string(kind) == "budget") wanted.budget_bytes = int64_t{900} << 20;
    const auto read = model();
    ASSERT_TRUE(read.has_value()) << read.error().message;
    const auto plan = Plan::make(*read, wanted);
    ASSERT_FALSE(plan.has_value()) << kind;
    EXPECT_EQ(plan.error().code, ErrorCode::kInternal) << kind;
    expect_refusal(plan.error().message);
  }
}

TEST_F(RefusedPlans, NeverLeaveAFront) {
  const auto read = model();
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const auto front = Front::make(*read, options(), {.budgets = "80%,90%"});
  ASSERT_FALSE(front.has_value());
  EXPECT_EQ(front.error().code, ErrorCode::kInternal);
  expect_refusal(front.error().message);
}

TEST_F(RefusedPlans, AreNoSizeThatFits) {
  PlanOptions wanted = options();
  wanted.budget_bytes = int64_t{2} << 30;
  const auto largest = plan_largest([](int64_t size) { return model(size); }, wanted, {.most = 4});
  ASSERT_FALSE(largest.has_value());
  EXPECT_EQ(largest.error().code, ErrorCode::kInternal);
  expect_refusal(largest.error().message);
}

TEST_F(RefusedPlans, NeverCrossTheCInterface) {
  lowtide_model* model = nullptr;
  ASSERT_EQ(
      lowtide_model_read(kModel.c_str(), R"({"dims": {"batch": 1}, "training": true})", &model),
      LOWTIDE_OK)
      << lowtide_last_error();
  lowtide_plan* plan = nullptr;
  EXPECT_EQ(lowtide_plan_make(model, options_json().c_str(), &plan), LOWTIDE_INTERNAL);
  EXPECT_EQ(plan, nullptr);
  expect_refusal(lowtide_last_error());
  lowtide_front* front = nullptr;
  EXPECT_EQ(lowtide_front_make(model, options_json().c_str(), R"({"budgets": "90%"})", nullptr,
                               nullptr, nullptr, &front),
            LOWTIDE_INTERNAL);
  EXPECT_EQ(front, nullptr);
  expect_refusal(lowtide_last_error());
  lowtide_model_free(model);
}

TEST_F(RefusedPlans, EndEveryCommandWithCodeOneAndNoFile) {
  const std::string of = " " + kModel + " --train --loss mse --threads 1 ";
  const std::string to = " -o " + (folder_ / "p.lt").string();
  for (const std::string& arguments :
       {"plan" + of + "--dim batch=1" + to, "plan" + of + "--dim batch=1 --json" + to,
        "plan" + of + "--max dim=batch --budget 2GiB --effort 0.1" + to,
        "sweep" + of + "--dim batch=1 --budgets 90% --effort 0.1" + to}) {
    const Ran ran = program(arguments);
    EXPECT_EQ(ran.code, 1) << arguments << "\n" << ran.said;
    EXPECT_TRUE(ran.said.starts_with("lowtide: ")) << ran.said;
    expect_refusal(ran.said);
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_TRUE(entry.is_directory()) << arguments << " wrote " << entry.path();
  }
}

}  // namespace
}  // namespace lowtide
