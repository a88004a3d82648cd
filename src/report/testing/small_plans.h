// Plans by hand, of a few ops.
#pragma once

#include <string>
#include <utility>

#include "plan/plan.h"
#include "report/profile.h"

namespace lowtide::report {

using plan::Plan;
using plan::PlanAlias;
using plan::PlanOp;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;

// Each op runs once, in the order in which it is added; values of 64 bytes at address 0.
class PlanMaker {
 public:
  PlanValueId given(std::string name, Category category) {
    return own(std::move(name), category, PlanOpId::none());
  }
  PlanValueId op(PlanOp op, Category category) {
    const PlanOpId id(plan.ops.size());
    const PlanValueId made = own("out/" + op.name, category, id);
    op.outputs = {made};
    add(std::move(op));
    return made;
  }
  PlanValueId alias_op(PlanOp op, PlanAlias alias, PlanValueId base) {
    const PlanOpId id(plan.ops.size());
    const PlanValueId made = plan.values.push_back({.name = "out/" + op.name,
                                                    .type = {DType::kF32, {16}, {}},
                                                    .alias = alias,
                                                    .base = base,
                                                    .storage = plan.values[base].storage,
                                                    .producer = id});
    op.outputs = {made};
    add(std::move(op));
    return made;
  }
  Plan plan;

 private:
  PlanValueId own(std::string name, Category category, PlanOpId producer) {
    const PlanValueId v(plan.values.size());
    const PlanStorageId s = plan.storages.push_back(
        {.root = v, .bytes = 64, .category = category, .resident = !producer.valid()});
    return plan.values.push_back({.name = std::move(name),
                                  .type = {DType::kF32, {16}, {}},
                                  .storage = s,
                                  .producer = producer});
  }
  void add(PlanOp op) {
    plan::Step step{.op = PlanOpId(plan.ops.size())};
    for (PlanValueId v : op.outputs)
      if (plan.values[v].alias == PlanAlias::kOwn)
        step.makes.push_back({.storage = plan.values[v].storage});
    plan.steps.push_back(std::move(step));
    plan.ops.push_back(std::move(op));
  }
};

// A product with a parameter in another layout, its gradient, its update.
inline Plan training_plan() {
  PlanMaker make;
  const auto x = make.given("x", Category::kInput), w = make.given("w", Category::kParameter),
             m = make.given("m", Category::kOptimizerState);
  const auto flat =
      make.alias_op({.kind = "Reshape", .name = "flat", .inputs = {w}}, PlanAlias::kView, w);
  const auto blocked =
      make.op({.kind = "Reorder", .name = "blocked", .inputs = {flat}}, Category::kActivation);
  make.op({.kind = "MatMul",
           .name = "product",
           .module = "block.fc",
           .source = "net/model.py:12",
           .inputs = {x, blocked}},
          Category::kActivation);
  const auto g = make.op({.kind = "MatMul",
                          .name = "gradient",
                          .module = "block.fc",
                          .phase = Phase::kBackward,
                          .inputs = {x, x}},
                         Category::kTemporary);
  const auto plain =
      make.op({.kind = "Reorder", .name = "plain", .phase = Phase::kBackward, .inputs = {g}},
              Category::kGradient);
  make.alias_op(
      {.kind = "SgdUpdate", .name = "update", .phase = Phase::kUpdate, .inputs = {w, plain, m}},
      PlanAlias::kUpdate, w);
  make.plan.claims.peak_bytes = profile_planned(make.plan).peak_bytes;
  make.plan.claims.peak_before_bytes = make.plan.claims.peak_bytes;
  return make.plan;
}

// The same with addresses, times and the product run twice: x, w, m at 0, 64, 128 and what ops make
// behind them.
inline Plan plan_with_a_rerun() {
  Plan plan = training_plan();
  int64_t address = 0;
  for (plan::PlanStorage& storage : plan.storages)
    if (storage.resident) storage.address = std::exchange(address, address + 64);
  for (plan::Step& step : plan.steps)
    for (plan::Placement& made : step.makes) made.address = std::exchange(address, address + 64);
  plan.arena_bytes = address + 64;
  for (PlanOp& op : plan.ops)
    if (op.kind == "MatMul") op.predicted_seconds = 0.25;
  plan::Step free_product;
  free_product.kind = plan::Step::Kind::kFree;
  free_product.storage = PlanStorageId(4);
  plan::Step again = plan.steps[2];
  again.makes[0].address = address;
  plan.steps.insert(plan.steps.begin() + 4, again);
  plan.steps.insert(plan.steps.begin() + 3, free_product);
  return plan;
}

}  // namespace lowtide::report
