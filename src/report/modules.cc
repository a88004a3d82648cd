#include "report/modules.h"

#include <algorithm>

namespace lowtide::report {
namespace {

using plan::PlanStorageId;
using plan::PlanValueId;

class ModuleFinder {
 public:
  explicit ModuleFinder(const plan::Plan& plan)
      : plan_(plan), module_(plan.storages.size()), source_(plan.storages.size()) {}

  IdVector<PlanStorageId, std::string> run() {
    for (PlanStorageId s : plan_.storages.ids()) {
      const plan::PlanOpId maker = plan_.values[plan_.storages[s].root].producer;
      if (maker.valid()) module_[s] = plan_.ops[maker].module;
    }
    for (const plan::PlanOp& op : plan_.ops) note_layout(op);
    for (const plan::PlanOp& op : plan_.ops)
      if (op.phase == Phase::kForward && op.kind != "Reorder" && !only_views(op)) give(op);
    for (const plan::PlanOp& op : plan_.ops)  // what no such op reads
      if (op.phase != Phase::kUpdate) give(op);
    for (const plan::PlanOp& op : plan_.ops)
      if (op.phase == Phase::kUpdate) spread(op);
    return std::move(module_);
  }

 private:
  PlanStorageId storage_of(PlanValueId v) const { return plan_.values[v].storage; }

  bool only_views(const plan::PlanOp& op) const {
    return std::all_of(op.outputs.begin(), op.outputs.end(),
                       [this](PlanValueId v) { return plan::is_view(plan_.values[v].alias); });
  }

  void note_layout(const plan::PlanOp& op) {
    if (op.kind == "Reorder" && op.inputs[0].valid())
      source_[storage_of(op.outputs[0])] = storage_of(op.inputs[0]);
  }

  // The op's module to what it reads.
  void give(const plan::PlanOp& op) {
    for (PlanValueId input : op.inputs) {
      if (!input.valid()) continue;
      PlanStorageId s = storage_of(input);
      while (source_[s].valid()) s = source_[s];
      if (module_[s].empty()) module_[s] = op.module;
    }
  }

  // The parameter's module to what it is updated with.
  void spread(const plan::PlanOp& op) {
    if (op.inputs.empty() || !op.inputs[0].valid()) return;
    const std::string& module = module_[storage_of(op.inputs[0])];
    for (PlanValueId input : op.inputs)
      if (input.valid() && module_[storage_of(input)].empty()) module_[storage_of(input)] = module;
  }

  const plan::Plan& plan_;
  IdVector<PlanStorageId, std::string> module_;
  IdVector<PlanStorageId, PlanStorageId> source_;  // of a copy in another layout
};

}  // namespace

IdVector<PlanStorageId, std::string> modules_of(const plan::Plan& plan) {
  return ModuleFinder(plan).run();
}

}  // namespace lowtide::report
