// What an update may overwrite. The plans here are right in everything else, so that what is found
// is found by this alone: a training step that updates a copy would run, and learn nothing.
#include <gtest/gtest.h>

#include <functional>

#include "ops/op_table.h"
#include "verify/testing/definition.h"
#include "verify/testing/example_plans.h"
#include "verify/testing/mutate.h"
#include "verify/verify.h"

namespace lowtide::verify {
namespace {

using ir::ValueId;

class DrawnStep {
 public:
  ValueId given(std::string name, Category category,
                ir::InitialValue::Kind kind = ir::InitialValue::Kind::kSeeded) {
    ir::Value value;
    value.name = std::move(name);
    value.dims = {4, 8};
    value.category = category;
    value.initial.kind = kind;
    return graph_.add_value(std::move(value));
  }
  ValueId add(std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs = {},
              Phase phase = Phase::kBackward) {
    ops::AppendOptions options;
    options.phase = phase;
    options.category = Category::kTemporary;
    const auto op = ops::append(graph_, kind, std::move(inputs), std::move(attrs), options);
    EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
    return graph_.op(*op).outputs[0];
  }
  ValueId gradient(ValueId of) {
    const ValueId made = add("Exp", {of});
    graph_.set_category(made, Category::kGradient);
    return made;
  }
  void sgd(ValueId parameter, ValueId by) {
    add("SgdUpdate", {parameter, by}, {{"learning_rate", 0.5}}, Phase::kUpdate);
  }
  // With momentum; its new version.
  ValueId sgd_with(ValueId parameter, ValueId by, ValueId momentum) {
    ops::AppendOptions options;
    options.phase = Phase::kUpdate;
    const auto op = ops::append(graph_, "SgdUpdate", {parameter, by, momentum},
                                {{"learning_rate", 0.5}, {"momentum", 0.9}}, options);
    EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
    return graph_.op(*op).outputs[1];
  }
  void adam(ValueId parameter, ValueId by, ValueId m, ValueId v) {
    add("AdamWUpdate", {parameter, by, m, v},
        {{"learning_rate", 0.5}, {"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-3}},
        Phase::kUpdate);
  }
  plan::Plan plan() const {
    Rng rng(1);
    LowerOptions options;
    options.plain = true;
    return lower(graph_, rng, options);
  }

 private:
  ir::Graph graph_;
};

// Both judges, and what is found if anything is.
void expect_refused(const plan::Plan& plan, std::string_view message) {
  const Report report = verify(plan);
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, Violation::kUpdateTarget);
  EXPECT_NE(report.findings[0].message.find(message), std::string::npos)
      << report.findings[0].message;
  std::string why;
  EXPECT_FALSE(valid_by_definition(plan, &why));
  EXPECT_EQ(why, "updates");
}

TEST(UpdateTest, AParameterAndItsStates) {
  DrawnStep step;
  const ValueId x = step.given("x", Category::kInput, ir::InitialValue::Kind::kFed);
  const ValueId gradient = step.gradient(x);
  step.sgd(step.given("w", Category::kParameter), gradient);
  step.adam(step.given("u", Category::kParameter), gradient,
            step.given("m", Category::kOptimizerState), step.given("v", Category::kOptimizerState));
  const Report report = verify(step.plan());
  EXPECT_TRUE(report.ok()) << report.findings[0].message;
  EXPECT_TRUE(valid_by_definition(step.plan()));
}

TEST(UpdateTest, ACopyOfTheParameterIsRefused) {
  DrawnStep step;
  const ValueId x = step.given("x", Category::kInput, ir::InitialValue::Kind::kFed);
  const ValueId w = step.given("w", Category::kParameter);
  const ValueId copy = step.add("Reorder", {w}, {{"layout", std::string("perm:10")}});
  const ValueId turned =
      step.add("Reorder", {step.gradient(x)}, {{"layout", std::string("perm:10")}});
  step.sgd(copy, turned);
  plan::Plan plan = step.plan();
  plan.storages[plan.values[plan.ops[plan::PlanOpId(1)].outputs[0]].storage].category =
      Category::kGradient;
  expect_refused(plan, "the step makes it itself");
}

TEST(UpdateTest, WhatIsFedIsRefused) {
  DrawnStep step;
  const ValueId x = step.given("x", Category::kInput, ir::InitialValue::Kind::kFed);
  step.sgd(step.given("w", Category::kParameter, ir::InitialValue::Kind::kFed), step.gradient(x));
  expect_refused(step.plan(), "overwrites 'w': it is fed");
}

TEST(UpdateTest, APartIsRefused) {
  DrawnStep step;
  const ValueId x = step.given("x", Category::kInput, ir::InitialValue::Kind::kFed);
  const ir::Attrs rows = {
      {"starts", ir::Dims{2, 0}}, {"sizes", ir::Dims{2, 8}}, {"steps", ir::Dims{1, 1}}};
  const ValueId part = step.add("Slice", {step.given("w", Category::kParameter)}, rows);
  step.sgd(part, step.add("Slice", {step.gradient(x)}, rows));
  expect_refused(step.plan(), "overwrites 'w': only a part of it");
}

TEST(UpdateTest, AViewOfAllOfItIsNoPart) {
  DrawnStep step;
  const ValueId x = step.given("x", Category::kInput, ir::InitialValue::Kind::kFed);
  const ir::Attrs flat = {{"shape", ir::Dims{32}}};
  step.sgd(step.add("Reshape", {step.given("w", Category::kParameter)}, flat),
           step.add("Reshape", {step.gradient(x)}, flat));
  const Report report = verify(step.plan());
  EXPECT_TRUE(report.ok()) << report.findings[0].message;
  EXPECT_TRUE(valid_by_definition(step.plan()));
}

TEST(UpdateTest, OneStorageTwiceIsRefused) {
  DrawnStep step;
  const ValueId x = step.given("x", Category::kInput, ir::InitialValue::Kind::kFed);
  const ValueId m = step.given("m", Category::kOptimizerState);
  step.adam(step.given("w", Category::kParameter), step.gradient(x), m, m);
  const Report report = verify(step.plan());
  EXPECT_TRUE(report.has(Violation::kUpdateTarget));
  EXPECT_FALSE(valid_by_definition(step.plan()));
}

TEST(UpdateTest, AStateOfTwoParametersIsRefused) {
  DrawnStep step;
  const ValueId x = step.given("x", Category::kInput, ir::InitialValue::Kind::kFed);
  const ValueId m = step.given("m", Category::kOptimizerState);
  const ValueId gradient = step.gradient(x);
  const ValueId newer = step.sgd_with(step.given("w", Category::kParameter), gradient, m);
  step.sgd_with(step.given("u", Category::kParameter), gradient, newer);
  expect_refused(step.plan(), "overwrites 'm': a state that another op keeps for itself");
}

// Redirected updates are among the changes that are tried on every plan, and nearly all are wrong.
TEST(UpdateTest, RedirectedUpdatesAreRefused) {
  DrawnStep step;
  const ValueId x = step.given("x", Category::kInput, ir::InitialValue::Kind::kFed);
  step.sgd(step.given("w", Category::kParameter), step.gradient(x));
  const plan::Plan plan = step.plan();
  int redirected = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    std::string what;
    const plan::Plan changed = mutate(plan, rng, &what);
    if (what != "update_another") continue;
    ++redirected;
    EXPECT_TRUE(verify(changed).has(Violation::kUpdateTarget)) << "seed " << seed;
    EXPECT_FALSE(valid_by_definition(changed)) << "seed " << seed;
  }
  EXPECT_GT(redirected, 10);
}

}  // namespace
}  // namespace lowtide::verify
