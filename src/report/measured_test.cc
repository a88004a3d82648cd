// A measured profile is read as it was written, and one of another plan is refused.
#include "report/measured.h"

#include <gtest/gtest.h>

#include "report/testing/small_plans.h"

namespace lowtide::report {
namespace {

MeasuredStep example(const Plan& plan) {
  MeasuredStep step;
  step.device = "a <b> \"c\"";
  step.steps = 3;
  step.step_seconds = 0.5;
  step.transfer_seconds = 0.25;
  step.exposed_seconds = 0.0625;
  step.ops = IdVector<PlanOpId, MeasuredOp>(plan.ops.size());
  for (const plan::Step& each : plan.steps)
    if (!plan::only_views(plan, each.op)) ++step.ops[each.op].runs;
  step.ops[PlanOpId(2)].seconds = 0.1;
  return step;
}

std::string refused(const std::string& text, const Plan& plan) {
  const auto read = read_measured(text, "p.json", plan);
  if (read) return "no error";
  EXPECT_EQ(read.error().code, ErrorCode::kInput);
  EXPECT_TRUE(read.error().message.starts_with("p.json: ")) << read.error().message;
  EXPECT_EQ(read.error().message.find('\n'), std::string::npos);
  return read.error().message;
}

TEST(Measured, ReadsWhatItPrints) {
  Plan plan = training_plan();
  plan.model = "net";
  const MeasuredStep step = example(plan);
  const std::string text = print_measured(plan, step);
  const auto read = read_measured(text, "p.json", plan);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->device, step.device);
  EXPECT_EQ(read->steps, 3);
  EXPECT_EQ(read->step_seconds, 0.5);
  EXPECT_EQ(read->hidden_seconds(), 0.1875);
  ASSERT_EQ(read->ops.size(), plan.ops.size());
  EXPECT_EQ(read->ops[PlanOpId(2)].runs, 1);
  EXPECT_EQ(read->ops[PlanOpId(2)].seconds, 0.1);
  EXPECT_EQ(read->ops[PlanOpId(0)].runs, 0);
  EXPECT_EQ(print_measured(plan, *read), text);
}

TEST(Measured, AnotherPlansIsRefused) {
  Plan plan = training_plan();
  plan.model = "net";
  const std::string text = print_measured(plan, example(plan));
  Plan other = plan;
  other.model = "other";
  EXPECT_NE(refused(text, other).find("measured of model \"net\", the plan is of 'other'"),
            std::string::npos);
  other = plan;
  other.ops.push_back({.kind = "Relu", .name = "more"});
  EXPECT_NE(refused(text, other).find("has 6 ops, the plan has 7"), std::string::npos);
  other = plan;
  other.ops[PlanOpId(2)].name = "renamed";
  EXPECT_NE(refused(text, other).find("op 2 is "), std::string::npos);
}

// The same model and the same ops: what differs is said in numbers.
TEST(Measured, AnotherPlanOfTheSameModelIsRefused) {
  Plan plan = training_plan();
  plan.model = "net";
  plan.bindings = {{"batch", 1}};
  plan.arena_bytes = 640;
  plan.claims.budget_bytes = 1024;
  const std::string text = print_measured(plan, example(plan));
  ASSERT_TRUE(read_measured(text, "p.json", plan));
  Plan other = plan;
  other.bindings["batch"] = 2;
  EXPECT_NE(refused(text, other).find("measured for batch=1, the plan is for batch=2: "),
            std::string::npos);
  other = plan;
  other.claims.budget_bytes.reset();
  EXPECT_NE(refused(text, other).find("(1024 bytes), that of the plan is none: "),
            std::string::npos);
  other = plan;
  other.arena_bytes = 704;
  EXPECT_NE(refused(text, other).find("(640 bytes), that of the plan is 704 B (704 bytes): "),
            std::string::npos)
      << refused(text, other);
  other = plan;
  other.steps.push_back(other.steps[2]);  // op 2 once more
  EXPECT_NE(refused(text, other).find("op 'product' ran 1 times in a step, in the plan's 2: "),
            std::string::npos)
      << refused(text, other);
}

// Members that are no sizes, and those that are absent.
TEST(Measured, WhatDoesNotSayOfWhichPlanItIsIsRefused) {
  const Plan plan = training_plan();
  const std::string text = print_measured(plan, example(plan));
  const auto with = [&](const std::string& member, const std::string& instead) {
    std::string changed = text;
    changed.replace(changed.find(member), member.size(), instead);
    return refused(changed, plan);
  };
  EXPECT_NE(with("\"dims\": {}", "\"dims\": [1]").find("measured for [1]"), std::string::npos);
  EXPECT_NE(with("\"dims\": {}", "\"dims\": {\"n\": 1.5}").find("1.5"), std::string::npos);
  EXPECT_NE(with("\"arena_bytes\"", "\"arena\"").find("unknown"), std::string::npos);
  EXPECT_NE(with("\"budget_bytes\": null", "\"budget_bytes\": 1e300").find("1e+300"),
            std::string::npos);
}

TEST(Measured, WhatIsNoProfileIsRefused) {
  const Plan plan = training_plan();
  EXPECT_NE(refused("{", plan).find("not JSON"), std::string::npos);
  EXPECT_NE(refused("[]", plan).find("not a measured profile"), std::string::npos);
  EXPECT_NE(refused("{\"format\": \"lowtide-profile\", \"version\": 1}", plan).find("version 2"),
            std::string::npos);
  std::string text = print_measured(plan, example(plan));
  text.replace(text.find("0.5"), 3, "-1");
  EXPECT_NE(refused(text, plan).find("'step_seconds' is -1"), std::string::npos);
}

}  // namespace
}  // namespace lowtide::report
