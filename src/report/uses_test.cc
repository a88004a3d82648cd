// The ops that make and read each value, and how it is treated, in plans by hand.
#include "report/uses.h"

#include <gtest/gtest.h>

#include "report/testing/small_plans.h"

namespace lowtide::report {
namespace {

TEST(Uses, MakersReadersAndAliases) {
  const Plan plan = training_plan();
  const auto uses = uses_of(plan, timeline_of(plan));
  const StorageUse& w = uses[PlanStorageId(1)];
  EXPECT_FALSE(w.maker.valid());
  EXPECT_EQ(w.readers, (std::vector<PlanOpId>{PlanOpId(1), PlanOpId(5)}));  // by a view; updated
  ASSERT_EQ(w.aliases.size(), 2u);
  EXPECT_EQ(plan.values[w.aliases[0]].name, "out/flat");
  EXPECT_EQ(plan.values[w.aliases[1]].name, "out/update");
  EXPECT_EQ(uses[PlanStorageId(0)].readers, (std::vector<PlanOpId>{PlanOpId(2), PlanOpId(3)}));
  EXPECT_EQ(uses[PlanStorageId(4)].maker, PlanOpId(2));
  EXPECT_TRUE(uses[PlanStorageId(4)].readers.empty());
  for (const StorageUse& use : uses) EXPECT_EQ(use.policy, Policy::kKept);
}

TEST(Uses, WhatIsMadeAgainCosts) {
  const Plan plan = plan_with_a_rerun();
  const auto uses = uses_of(plan, timeline_of(plan));
  const StorageUse& product = uses[PlanStorageId(4)];
  EXPECT_EQ(product.policy, Policy::kRecomputed);
  EXPECT_EQ(product.reruns, 1);
  EXPECT_EQ(product.paid_seconds, 0.25);
  EXPECT_EQ(name(product.policy), "recomputed");
  EXPECT_EQ(uses[PlanStorageId(5)].policy, Policy::kKept);
}

TEST(Uses, AWholeIsReadThroughItsPieces) {
  Plan plan = training_plan();
  plan.values[PlanValueId(5)].is_output = true;  // what the product makes
  auto uses = uses_of(plan, timeline_of(plan));
  EXPECT_TRUE(uses[PlanStorageId(4)].output);
  EXPECT_FALSE(uses[PlanStorageId(4)].whole.valid());

  // "joined" is product and gradient, one behind the other.
  const PlanOpId join = PlanOpId(plan.ops.size());
  const PlanValueId product = plan.ops[PlanOpId(2)].outputs[0];
  const PlanValueId gradient = plan.ops[PlanOpId(3)].outputs[0];
  const PlanValueId joined(plan.values.size());
  const PlanStorageId whole = plan.storages.push_back({.root = joined});
  plan.values.push_back({.name = "joined",
                         .type = {DType::kF32, {32}, {}},
                         .alias = PlanAlias::kPieces,
                         .storage = whole,
                         .producer = join,
                         .is_output = true});
  plan.ops.push_back(
      {.kind = "Join", .name = "join", .inputs = {product, gradient}, .outputs = {joined}});
  uses = uses_of(plan, timeline_of(plan));
  for (uint32_t piece : {4u, 5u}) {
    EXPECT_EQ(uses[PlanStorageId(piece)].whole, whole);
    EXPECT_TRUE(uses[PlanStorageId(piece)].output);
  }
}

}  // namespace
}  // namespace lowtide::report
