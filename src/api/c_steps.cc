// The contents of a plan through the C ABI: plain numbers out of plan::Plan, no decision of its
// own.
#include <string>
#include <vector>

#include "api/c_handles.h"
#include "api/state.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "lowtide/steps.h"

namespace lowtide {
namespace {

template <class Id>
int64_t number(Id id) {
  return id.valid() ? static_cast<int64_t>(id.index()) : -1;
}

const plan::Plan& contents(const lowtide_plan* plan) {
  return plan->plan.state().plan;
}

// Fills `result` from the plan's item `index`, of which there are `count`.
template <class Out, class Fill>
lowtide_status fill(const lowtide_plan* plan, size_t index, size_t count, Out* result,
                    const Fill& write) {
  return guarded([&]() -> Status {
    if (plan == nullptr) return missing("plan");
    if (result == nullptr) return missing("the result");
    LT_RETURN_IF_ERROR(check_index(index, count));
    return write();
  });
}

lowtide_alias alias_of(plan::PlanAlias alias) {
  switch (alias) {
    case plan::PlanAlias::kOwn:
      return LOWTIDE_ALIAS_OWN;
    case plan::PlanAlias::kView:
      return LOWTIDE_ALIAS_VIEW;
    case plan::PlanAlias::kUpdate:
      return LOWTIDE_ALIAS_UPDATE;
    case plan::PlanAlias::kPieces:
      return LOWTIDE_ALIAS_PIECES;
  }
  return LOWTIDE_ALIAS_OWN;
}

// The value of one of an op's operands.
lowtide_status operand(const lowtide_plan* plan, size_t op,
                       std::vector<plan::PlanValueId> plan::PlanOp::*side, size_t index,
                       int64_t* value) {
  return fill(plan, op, lowtide_plan_op_count(plan), value, [&]() -> Status {
    const auto& operands = contents(plan).ops[plan::PlanOpId(op)].*side;
    LT_RETURN_IF_ERROR(check_index(index, operands.size()));
    *value = number(operands[index]);
    return {};
  });
}

}  // namespace
}  // namespace lowtide

using lowtide::Status;
using lowtide::plan::PlanOpId;
using lowtide::plan::PlanStorageId;
using lowtide::plan::PlanValueId;

extern "C" {

// ---- steps

size_t lowtide_plan_step_count(const lowtide_plan* plan) {
  return plan == nullptr ? 0 : lowtide::contents(plan).steps.size();
}

lowtide_status lowtide_plan_step(const lowtide_plan* plan, size_t index, lowtide_step* step) {
  return lowtide::fill(plan, index, lowtide_plan_step_count(plan), step, [&]() -> Status {
    using Kind = lowtide::plan::Step::Kind;
    const lowtide::plan::Step& from = lowtide::contents(plan).steps[index];
    const lowtide_step_kind kind = from.kind == Kind::kCompute ? LOWTIDE_STEP_COMPUTE
                                   : from.kind == Kind::kFree  ? LOWTIDE_STEP_FREE
                                   : from.kind == Kind::kStore ? LOWTIDE_STEP_STORE
                                   : from.kind == Kind::kLoad  ? LOWTIDE_STEP_LOAD
                                                               : LOWTIDE_STEP_WAIT;
    *step = {kind,         lowtide::number(from.op), lowtide::number(from.storage),
             from.address, from.workspace_address,   from.makes.size()};
    return {};
  });
}

lowtide_status lowtide_plan_step_make(const lowtide_plan* plan, size_t index, size_t make,
                                      lowtide_placement* placement) {
  return lowtide::fill(plan, index, lowtide_plan_step_count(plan), placement, [&]() -> Status {
    const auto& makes = lowtide::contents(plan).steps[index].makes;
    LT_RETURN_IF_ERROR(lowtide::check_index(make, makes.size()));
    *placement = {lowtide::number(makes[make].storage), makes[make].address,
                  lowtide::number(makes[make].reuses)};
    return {};
  });
}

// ---- ops

size_t lowtide_plan_op_count(const lowtide_plan* plan) {
  return plan == nullptr ? 0 : lowtide::contents(plan).ops.size();
}

lowtide_status lowtide_plan_op(const lowtide_plan* plan, size_t index, lowtide_plan_op_info* op) {
  return lowtide::fill(plan, index, lowtide_plan_op_count(plan), op, [&]() -> Status {
    const lowtide::plan::PlanOp& from = lowtide::contents(plan).ops[PlanOpId(index)];
    const std::string* foreign = lowtide::plan::foreign_name(from.attrs);
    *op = {
        from.kind.c_str(),     from.name.c_str(),   foreign == nullptr ? nullptr : foreign->c_str(),
        from.inputs.size(),    from.outputs.size(), from.workspace_bytes,
        from.predicted_seconds};
    return {};
  });
}

lowtide_status lowtide_plan_op_input(const lowtide_plan* plan, size_t index, size_t input,
                                     int64_t* value) {
  return lowtide::operand(plan, index, &lowtide::plan::PlanOp::inputs, input, value);
}

lowtide_status lowtide_plan_op_output(const lowtide_plan* plan, size_t index, size_t output,
                                      int64_t* value) {
  return lowtide::operand(plan, index, &lowtide::plan::PlanOp::outputs, output, value);
}

// ---- values and storages

size_t lowtide_plan_value_count(const lowtide_plan* plan) {
  return plan == nullptr ? 0 : lowtide::contents(plan).values.size();
}

lowtide_status lowtide_plan_value(lowtide_plan* plan, size_t index,
                                  lowtide_plan_value_info* value) {
  return lowtide::fill(plan, index, lowtide_plan_value_count(plan), value, [&]() -> Status {
    const auto& values = lowtide::contents(plan).values;
    if (plan->layouts.empty())
      for (const lowtide::plan::PlanValue& each : values)
        plan->layouts.push_back(lowtide::print(each.type.layout));
    const lowtide::plan::PlanValue& from = values[PlanValueId(index)];
    *value = {from.name.c_str(),
              lowtide::name(from.type.dtype).data(),  // a literal
              from.type.dims.data(),
              from.type.dims.size(),
              plan->layouts[index].c_str(),
              lowtide::alias_of(from.alias),
              lowtide::number(from.base),
              lowtide::number(from.storage),
              from.offset_bytes,
              lowtide::number(from.producer),
              from.is_output ? 1 : 0};
    return {};
  });
}

size_t lowtide_plan_storage_count(const lowtide_plan* plan) {
  return plan == nullptr ? 0 : lowtide::contents(plan).storages.size();
}

lowtide_status lowtide_plan_storage(const lowtide_plan* plan, size_t index,
                                    lowtide_plan_storage_info* storage) {
  return lowtide::fill(plan, index, lowtide_plan_storage_count(plan), storage, [&]() -> Status {
    const lowtide::plan::PlanStorage& from = lowtide::contents(plan).storages[PlanStorageId(index)];
    *storage = {from.bytes,
                lowtide::name(from.category).data(),  // a literal
                lowtide::number(from.root),
                from.resident ? 1 : 0,
                from.home_slow ? 1 : 0,
                from.address,
                from.slow_tier,
                from.slow_address};
    return {};
  });
}

}  // extern "C"
