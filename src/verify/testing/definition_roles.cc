// The roles of storages once more (roles.cc says what they are), for the naive judge: sets that
// grow while any op adds to them, whatever the order of the ops.
#include <set>

#include "ir/graph.h"
#include "ops/op_table.h"
#include "verify/testing/definition.h"
#include "verify/testing/definition_parts.h"

namespace lowtide::verify {
namespace {

using plan::Plan;
using plan::PlanAlias;
using plan::PlanOp;
using plan::PlanStorageId;
using plan::PlanValueId;
using StorageSet = std::set<PlanStorageId>;

bool updates(const Plan& p, const PlanOp& op, size_t input) {
  for (PlanValueId output : op.outputs)
    if (p.values[output].alias == PlanAlias::kUpdate && p.values[output].base == op.inputs[input])
      return true;
  return false;
}

// Parameters and optimizer states, gradients as updates read them.
struct Updates {
  StorageSet first, others, gradients;
};
Updates updates_of(const Plan& p) {
  Updates result;
  for (const PlanOp& op : p.ops) {
    int seen = 0;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i].valid() && updates(p, op, i))
        (seen++ == 0 ? result.first : result.others).insert(p.values[op.inputs[i]].storage);
    if (seen > 0 && op.phase == Phase::kUpdate && op.inputs.size() > 1 && op.inputs[1].valid())
      result.gradients.insert(p.values[op.inputs[1]].storage);
  }
  return result;
}

// What accumulators the op has, as (operand, sum).
std::vector<std::pair<PlanValueId, PlanValueId>> added_into(const Plan& p, plan::PlanOpId id) {
  const PlanOp& op = p.ops[id];
  const plan::OpDesc desc = describe(p, id);
  ir::Attrs attrs;  // where an accumulator stands is no matter of attributes
  ops::Instance instance{desc.kind, &attrs, {}};
  for (const auto& input : desc.inputs) {
    instance.inputs.emplace_back();
    if (input)
      instance.inputs.back() =
          ops::Type{input->dtype, ir::Dims(input->dims.begin(), input->dims.end()), input->layout};
  }
  std::vector<std::pair<PlanValueId, PlanValueId>> pairs;
  for (const auto& [input, output] : ops::accumulators(instance))
    if (static_cast<size_t>(output) < op.outputs.size())
      pairs.emplace_back(op.inputs[static_cast<size_t>(input)],
                         op.outputs[static_cast<size_t>(output)]);
  return pairs;
}

// The operands whose sum or copy the op's first result is.
std::vector<PlanValueId> summands(const Plan& p, plan::PlanOpId id) {
  const PlanOp& op = p.ops[id];
  if (op.kind == "Join") return op.inputs;
  if (op.outputs.empty() || p.values[op.outputs[0]].alias != PlanAlias::kOwn) return {};
  if (op.kind == "Add") return op.inputs;
  if (op.kind == "Reorder" || op.kind == "Reshape" || op.kind == "Slice" || op.kind == "Cast")
    return {op.inputs[0]};
  return {};
}

void follow_layouts(const Plan& p, StorageSet& gradients) {
  for (size_t before = 0; before != gradients.size();) {
    before = gradients.size();
    for (const PlanOp& op : p.ops)
      if (op.kind == "Reorder" && !op.attrs.contains("into") &&
          gradients.contains(p.values[op.outputs[0]].storage))
        gradients.insert(p.values[op.inputs[0]].storage);
  }
}

StorageSet parts_of(const Plan& p, const StorageSet& gradients) {
  StorageSet parts = gradients;
  for (size_t before = 0; before != parts.size();) {
    before = parts.size();
    for (plan::PlanOpId id : p.ops.ids()) {
      for (const auto& [operand, sum] : added_into(p, id))
        if (parts.contains(p.values[sum].storage)) parts.insert(p.values[operand].storage);
      if (p.ops[id].outputs.empty() || !parts.contains(p.values[p.ops[id].outputs[0]].storage))
        continue;
      for (PlanValueId v : summands(p, id))
        if (v.valid()) parts.insert(p.values[v].storage);
    }
  }
  for (const PlanOp& op : p.ops)
    if (op.kind == "Reorder" && parts.contains(p.values[op.inputs[0]].storage))
      parts.insert(p.values[op.outputs[0]].storage);
  return parts;
}

bool given_role_is_right(const Plan& p, PlanStorageId s, const Updates& all) {
  const Category c = p.storages[s].category;
  if (all.first.contains(s)) return c == Category::kParameter;
  if (all.others.contains(s)) return c == Category::kOptimizerState;
  const plan::PlanValue& value = p.values[p.storages[s].root];
  if (value.initial.kind == plan::PlanInitial::Kind::kFed) return c == Category::kInput;
  if (c == Category::kParameter) return true;
  const bool drawn =
      value.initial.kind == plan::PlanInitial::Kind::kSeeded && is_float(value.type.dtype);
  return c == Category::kInput && !drawn;
}

}  // namespace

bool roles_by_definition(const Plan& p) {
  Updates all = updates_of(p);
  follow_layouts(p, all.gradients);
  const StorageSet parts = parts_of(p, all.gradients);
  for (PlanStorageId s : p.storages.ids()) {
    if (is_whole(p, s)) continue;
    const plan::PlanOpId maker = p.values[p.storages[s].root].producer;
    const Category c = p.storages[s].category;
    bool right = false;
    if (!maker.valid())
      right = given_role_is_right(p, s, all);
    else if (p.ops[maker].phase == Phase::kForward)
      right = c == Category::kActivation;
    else if (p.ops[maker].phase == Phase::kUpdate)
      right = c == Category::kTemporary;
    else if (all.gradients.contains(s))
      right = c == Category::kGradient;
    else
      right = c == Category::kTemporary || (c == Category::kGradient && parts.contains(s));
    if (!right) return false;
  }
  return true;
}

}  // namespace lowtide::verify
