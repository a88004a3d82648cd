#include "pipeline/write_plan.h"

#include <string>
#include <vector>

#include "analysis/describe.h"
#include "analysis/integer_limits.h"
#include "base/bytes.h"
#include "pipeline/write_steps.h"

namespace lowtide::pipeline {
namespace {

using plan::PlanStorageId;
using plan::SchedOpId;
using plan::SchedResidentId;
using plan::SchedValueId;

class Writer {
 public:
  explicit Writer(const PlanInputs& in) : in_(in), graph_(in.graph) {}

  Result<plan::Plan> write() {
    plan_.model = graph_.name;
    plan_.bindings = {graph_.bindings.begin(), graph_.bindings.end()};
    plan_.alignment_bytes = in_.alignment_bytes;
    LT_RETURN_IF_ERROR(write_values());
    write_storages();
    LT_RETURN_IF_ERROR(write_ops());
    write_steps();
    plan_.arena_bytes = resident_bytes_ + in_.packing.height_bytes;
    return std::move(plan_);
  }

 private:
  Status write_values() {
    const auto limits = analysis::integer_limits(graph_);
    for (ir::ValueId id : graph_.values()) {
      const ir::Value& value = graph_.value(id);
      plan::PlanValue out;
      out.name = value.name;
      LT_ASSIGN(out.type, analysis::describe(value));
      out.alias = static_cast<plan::PlanAlias>(value.alias);
      out.base = plan_id(value.base);
      const auto offset = value.offset_bytes.constant();
      if (!offset)
        return error(ErrorCode::kInput, "the offset of view '" + value.name + "' is symbolic");
      out.offset_bytes = *offset;
      out.storage = plan_id(value.storage);
      out.producer = plan_id(value.producer);
      out.is_output = value.is_output;
      out.output_rank = value.output_rank;
      const ir::InitialValue& initial = value.initial;
      out.initial = {static_cast<plan::PlanInitial::Kind>(initial.kind), initial.bytes,
                     initial.file, initial.offset, initial.length};
      if (out.initial.kind == plan::PlanInitial::Kind::kFed && !value.producer.valid())
        out.initial.limit = limits[id];
      plan_.values.push_back(std::move(out));
    }
    return {};
  }

  void write_storages() {
    for (ir::StorageId id : graph_.storages()) {
      const ir::Value& root = graph_.value(graph_.storage(id).root);
      plan::PlanStorage out;
      out.root = plan_id(graph_.storage(id).root);
      out.bytes = root.alias == ir::Alias::kPieces
                      ? 0
                      : align_up(*ir::size_bytes(root).constant(), in_.alignment_bytes);
      out.category = root.category;
      out.resident = !root.producer.valid();
      plan_.storages.push_back(out);
    }
    write_slots();
    for (plan::PlanStorage& storage : plan_.storages) {
      if (!storage.resident || storage.home_slow) continue;
      storage.address = resident_bytes_;
      resident_bytes_ += storage.bytes;
    }
  }

  void write_slots() {
    if (!in_.buffers.moves) return;
    const std::vector<plan::Link> links = plan::links_of(in_.view.problem);
    for (size_t tier = 0; tier < links.size(); ++tier) {
      const plan::Link& link = links[tier];
      plan_.slow_tiers.push_back({in_.slow_tier_names[tier], in_.slots[tier].height_bytes,
                                  link.bytes_per_second_out, link.bytes_per_second_in,
                                  link.latency_seconds, link.compute_seconds_per_byte});
    }
    const auto give = [&](PlanStorageId s, const TierSlot& slot) {
      if (!slot.valid()) return;
      plan_.storages[s].slow_tier = slot.tier;
      plan_.storages[s].slow_address = in_.slots[slot.tier].offsets[slot.buffer];
      plan_.storages[s].home_slow = plan_.storages[s].resident;
    };
    for (SchedValueId v : in_.view.problem.values.ids())
      give(plan_id(in_.view.storage[v]), in_.buffers.slot_of_value[v]);
    for (SchedResidentId r : in_.view.problem.residents.ids())
      give(plan_id(in_.view.resident[r]), in_.buffers.slot_of_resident[r]);
  }

  Status write_ops() {
    for (ir::OpId id : graph_.ops()) {
      const ir::Op& op = graph_.op(id);
      plan::PlanOp out;
      out.kind = op.kind;
      out.name = op.name;
      out.module = op.module;
      out.source = op.source;
      out.phase = op.phase;
      LT_ASSIGN(out.attrs, analysis::describe(op.attrs, op.name));
      for (ir::ValueId input : op.inputs) out.inputs.push_back(plan_id(input));
      for (ir::ValueId output : op.outputs) out.outputs.push_back(plan_id(output));
      for (ir::OpId before : op.control) out.control.push_back(plan_id(before));
      out.workspace_bytes = align_up(in_.costs.workspace_bytes[id], in_.alignment_bytes);
      out.predicted_seconds = in_.costs.seconds[id];
      plan_.ops.push_back(std::move(out));
    }
    return {};
  }

  void write_steps() { plan_.steps = make_steps(in_, resident_bytes_); }

  const PlanInputs& in_;
  const ir::Graph& graph_;
  plan::Plan plan_;
  int64_t resident_bytes_ = 0;
};

}  // namespace

Result<plan::Plan> write_plan(const PlanInputs& inputs) {
  return Writer(inputs).write();
}

}  // namespace lowtide::pipeline
