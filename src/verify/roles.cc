// What each storage is for, derived from the plan: the category that reports count it under.
//
//   there before the step: updated by an op as the first of what it updates: a parameter; updated
//       as another: optimizer state; fed: an input. Other given contents (weights that no op
//       updates, constants) may be a parameter or an input, but seeded f32 is always a parameter:
//       constants are never drawn.
//   made by the step: the forward pass makes activations, the update temporaries. The backward pass
//       makes gradients, that is what the gradient operand of an update shows, directly or through
//       views and changes of layout, and else temporaries. In between are pieces and partial sums
//       of a gradient (operands of an addition, or of an accumulation, that ends in one), copies
//       made where a view was not possible, and further layouts of a gradient: either word is
//       right.
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "verify/facts.h"

namespace lowtide::verify {
namespace {

using Roles = uint32_t;  // a bit per category that is right
constexpr Roles role(Category category) {
  return Roles{1} << static_cast<unsigned>(category);
}

class RoleFinder {
 public:
  explicit RoleFinder(const Facts& facts)
      : facts_(facts),
        plan_(facts.plan),
        first_updated_(plan_.storages.size(), 0),
        updated_(plan_.storages.size(), 0),
        gradient_(plan_.storages.size(), 0),
        partial_(plan_.storages.size(), 0) {
    // Whoever reads comes later in the given order, so one pass backwards sees all that an op
    // feeds.
    for (size_t i = plan_.ops.size(); i-- > 0;) {
      find_updates(plan_.ops[PlanOpId(i)]);
      trace_back(PlanOpId(i));
    }
    for (const plan::PlanOp& op : plan_.ops)
      if (op.kind == "Reorder" && op.inputs.size() == 1 && op.outputs.size() == 1 &&
          op.inputs[0].valid() && flows_into_gradient(storage_of(op.inputs[0])))
        partial_[storage_of(op.outputs[0])] = 1;
  }

  Roles of(PlanStorageId s) const {
    if (!facts_.maker[s].valid()) return of_given(s);
    switch (plan_.ops[facts_.maker[s]].phase) {
      case Phase::kForward:
        return role(Category::kActivation);
      case Phase::kUpdate:
        return role(Category::kTemporary);
      case Phase::kBackward:
        break;
    }
    if (gradient_[s]) return role(Category::kGradient);
    return role(Category::kTemporary) | (partial_[s] ? role(Category::kGradient) : 0);
  }

 private:
  PlanStorageId storage_of(PlanValueId v) const { return plan_.values[v].storage; }
  bool flows_into_gradient(PlanStorageId s) const { return gradient_[s] || partial_[s]; }

  Roles of_given(PlanStorageId s) const {
    if (first_updated_[s]) return role(Category::kParameter);
    if (updated_[s]) return role(Category::kOptimizerState);
    const plan::PlanValue& value = plan_.values[plan_.storages[s].root];
    if (value.initial.kind == plan::PlanInitial::Kind::kFed) return role(Category::kInput);
    const bool drawn =
        value.initial.kind == plan::PlanInitial::Kind::kSeeded && is_float(value.type.dtype);
    return role(Category::kParameter) | (drawn ? 0 : role(Category::kInput));
  }

  // The operands that the op overwrites, and the gradient by which it does.
  void find_updates(const plan::PlanOp& op) {
    bool updates = false;
    for (PlanValueId input : op.inputs) {
      if (!input.valid()) continue;
      const bool overwritten =
          std::any_of(op.outputs.begin(), op.outputs.end(), [&](PlanValueId output) {
            return plan_.values[output].alias == plan::PlanAlias::kUpdate &&
                   plan_.values[output].base == input;
          });
      if (!overwritten) continue;
      (updates ? updated_ : first_updated_)[storage_of(input)] = 1;
      updates = true;
    }
    if (updates && op.phase == Phase::kUpdate && op.inputs.size() > 1 && op.inputs[1].valid())
      gradient_[storage_of(op.inputs[1])] = 1;
  }

  // What the op hands on of a gradient, from its result to its operands.
  void trace_back(PlanOpId id) {
    const plan::PlanOp& op = plan_.ops[id];
    if (ops::find(op.kind) != nullptr)
      for (const auto& [input, output] : ops::accumulators(facts_.instance(id)))
        trace_back(op, static_cast<size_t>(input), static_cast<size_t>(output));
    if (op.outputs.empty() || op.inputs.empty() || !op.inputs[0].valid()) return;
    const PlanStorageId made = storage_of(op.outputs[0]);
    if (!flows_into_gradient(made) || facts_.maker[made] != id) return;
    if (op.kind == "Join") {
      for (PlanValueId input : op.inputs) partial_[storage_of(input)] = 1;
    } else if (op.kind == "Reorder") {
      const bool is_whole = gradient_[made] && !op.attrs.contains("into");  // else it is a slice
      (is_whole ? gradient_ : partial_)[storage_of(op.inputs[0])] = 1;
    } else if (op.kind == "Reshape" || op.kind == "Slice" || op.kind == "Cast") {
      partial_[storage_of(op.inputs[0])] = 1;
    } else if (op.kind == "Add") {
      for (PlanValueId input : op.inputs)
        if (input.valid()) partial_[storage_of(input)] = 1;
    }
  }

  // An op adds into `input`, and `output` is the sum.
  void trace_back(const plan::PlanOp& op, size_t input, size_t output) {
    if (input >= op.inputs.size() || output >= op.outputs.size() || !op.inputs[input].valid())
      return;
    if (flows_into_gradient(storage_of(op.outputs[output])))
      partial_[storage_of(op.inputs[input])] = 1;
  }

  using Mark = IdVector<PlanStorageId, char>;
  const Facts& facts_;
  const plan::Plan& plan_;
  Mark first_updated_, updated_;
  Mark gradient_, partial_;
};

std::string words(Roles roles) {
  std::string text;
  for (int c = 0; c < kCategories; ++c)
    if (roles & role(static_cast<Category>(c)))
      text += fmt::format("{}{}", text.empty() ? "" : " or ", name(static_cast<Category>(c)));
  return text;
}

}  // namespace

void check_roles(const Facts& facts, Findings& findings) {
  const RoleFinder finder(facts);
  for (PlanStorageId s : facts.plan.storages.ids()) {
    if (facts.is_whole[s]) continue;
    const Category called = facts.plan.storages[s].category;
    if (const Roles right = finder.of(s); !(right & role(called)))
      findings.add(Violation::kCategory,
                   fmt::format("the storage of '{}' is called {}, its use makes it {}",
                               facts.storage_name(s), name(called), words(right)));
  }
}

}  // namespace lowtide::verify
