#include "pipeline/write_plan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/describe.h"
#include "analysis/integer_limits.h"
#include "base/bytes.h"

namespace lowtide::pipeline {
namespace {

using plan::BufferId;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using plan::SchedOpId;
using plan::SchedValueId;

// Ids of the plan are those of the graph: ops, values and storages are written in the graph's
// order.
PlanOpId plan_id(ir::OpId id) {
  return id.valid() ? PlanOpId(id.index()) : PlanOpId::none();
}
PlanValueId plan_id(ir::ValueId id) {
  return id.valid() ? PlanValueId(id.index()) : PlanValueId::none();
}
PlanStorageId plan_id(ir::StorageId id) {
  return PlanStorageId(id.index());
}

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
      out.bytes = align_up(*ir::size_bytes(root).constant(), in_.alignment_bytes);
      out.category = root.category;
      out.resident = !root.producer.valid();
      if (out.resident) {
        out.address = resident_bytes_;
        resident_bytes_ += out.bytes;
      }
      plan_.storages.push_back(out);
    }
    places_ = IdVector<PlanStorageId, plan::Placement>(plan_.storages.size());
    for (SchedValueId v : in_.view.problem.values.ids()) {
      const PlanStorageId s = plan_id(in_.view.storage[v]);
      places_[s] = {.storage = s,
                    .address = resident_bytes_ + in_.packing.offsets[in_.buffers.of_value[v]]};
    }
    for (const plan::InPlacePair& pair : in_.profile.reused)
      places_[plan_id(in_.view.storage[pair.output])].reuses =
          plan_id(in_.view.storage[pair.input]);
  }

  Status write_ops() {
    for (ir::OpId id : graph_.ops()) {
      const ir::Op& op = graph_.op(id);
      plan::PlanOp out;
      out.kind = op.kind;
      out.name = op.name;
      out.module = op.module;
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

  void write_steps() {
    // Views by the op after which they run; those of resident bases come first.
    IdVector<ir::OpId, std::vector<ir::OpId>> views_after(graph_.op_count());
    for (ir::OpId id : graph_.ops()) {
      if (!analysis::is_view_op(graph_, id)) continue;
      const ir::OpId made = analysis::version_producer(graph_, graph_.op(id).outputs[0]);
      if (made.valid())
        views_after[made].push_back(id);
      else
        add_compute(id, 0);
    }
    IdVector<SchedValueId, size_t> unread(in_.view.problem.values.size());
    for (SchedValueId v : unread.ids()) unread[v] = in_.view.problem.values[v].readers.size();
    IdVector<SchedValueId, char> taken_over(unread.size(), 0);
    for (const plan::InPlacePair& pair : in_.profile.reused) taken_over[pair.input] = 1;
    const auto inputs = values_by_reader();
    const auto outputs = values_by_producer();
    for (SchedOpId sched : in_.sequence) {
      const BufferId workspace = in_.buffers.of_workspace[sched];
      add_compute(in_.view.op[sched],
                  workspace.valid() ? resident_bytes_ + in_.packing.offsets[workspace] : 0);
      for (ir::OpId view : views_after[in_.view.op[sched]]) add_compute(view, 0);
      for (SchedValueId v : inputs[sched])
        if (--unread[v] == 0 && !taken_over[v]) add_free(v);
      for (SchedValueId v : outputs[sched])
        if (in_.view.problem.values[v].readers.empty()) add_free(v);
    }
  }

  void add_compute(ir::OpId op, int64_t workspace_address) {
    plan::Step step;
    step.op = plan_id(op);
    step.workspace_address = workspace_address;
    for (ir::ValueId output : graph_.op(op).outputs)
      if (graph_.value(output).alias == ir::Alias::kOwn)
        step.makes.push_back(places_[plan_id(graph_.value(output).storage)]);
    plan_.steps.push_back(step);
  }

  void add_free(SchedValueId v) {
    if (in_.view.problem.values[v].is_output) return;
    plan::Step step;
    step.kind = plan::Step::Kind::kFree;
    step.storage = plan_id(in_.view.storage[v]);
    plan_.steps.push_back(step);
  }

  IdVector<SchedOpId, std::vector<SchedValueId>> values_by_reader() const {
    IdVector<SchedOpId, std::vector<SchedValueId>> result(in_.view.problem.ops.size());
    for (SchedValueId v : in_.view.problem.values.ids())
      for (SchedOpId reader : in_.view.problem.values[v].readers) result[reader].push_back(v);
    return result;
  }

  IdVector<SchedOpId, std::vector<SchedValueId>> values_by_producer() const {
    IdVector<SchedOpId, std::vector<SchedValueId>> result(in_.view.problem.ops.size());
    for (SchedValueId v : in_.view.problem.values.ids())
      result[in_.view.problem.values[v].producer].push_back(v);
    return result;
  }

  const PlanInputs& in_;
  const ir::Graph& graph_;
  plan::Plan plan_;
  int64_t resident_bytes_ = 0;
  IdVector<PlanStorageId, plan::Placement> places_;
};

}  // namespace

BufferView make_buffer_view(const analysis::ScheduleView& view, std::span<const SchedOpId> sequence,
                            const plan::ScheduleProfile& profile) {
  const plan::ScheduleProblem& problem = view.problem;
  IdVector<SchedOpId, int64_t> when(problem.ops.size());
  for (size_t i = 0; i < sequence.size(); ++i) when[sequence[i]] = static_cast<int64_t>(i);
  const auto end = static_cast<int64_t>(sequence.size());
  BufferView buffers;
  buffers.of_value = IdVector<SchedValueId, BufferId>(problem.values.size());
  buffers.of_workspace = IdVector<SchedOpId, BufferId>(problem.ops.size());
  const auto last_use = [&](const plan::SchedValue& value) {
    if (value.is_output) return end;
    int64_t last = when[value.producer];
    for (SchedOpId reader : value.readers) last = std::max(last, when[reader]);
    return last + 1;
  };
  IdVector<SchedValueId, SchedValueId> heir_of(problem.values.size());
  for (const plan::InPlacePair& pair : profile.reused) heir_of[pair.output] = pair.input;
  // In order of time, so that a chain's head has its buffer before its heirs ask for it.
  std::vector<SchedValueId> by_time;
  for (SchedValueId v : problem.values.ids()) by_time.push_back(v);
  std::stable_sort(by_time.begin(), by_time.end(), [&](SchedValueId a, SchedValueId b) {
    return when[problem.values[a].producer] < when[problem.values[b].producer];
  });
  for (SchedValueId v : by_time) {
    const plan::SchedValue& value = problem.values[v];
    if (heir_of[v].valid()) {
      const BufferId buffer = buffers.of_value[v] = buffers.of_value[heir_of[v]];
      Interval& live = buffers.problem.buffers[buffer].live;
      live.end = std::max(live.end, last_use(value));
      continue;
    }
    buffers.of_value[v] = buffers.problem.buffers.push_back(
        {value.name, Interval{when[value.producer], last_use(value)}, value.bytes, 1,
         std::nullopt});
  }
  for (SchedOpId op : problem.ops.ids())
    if (problem.ops[op].workspace_bytes > 0)
      buffers.of_workspace[op] = buffers.problem.buffers.push_back(
          {problem.ops[op].name + "/workspace", Interval{when[op], when[op] + 1},
           problem.ops[op].workspace_bytes, 1, std::nullopt});
  return buffers;
}

Result<plan::Plan> write_plan(const PlanInputs& inputs) {
  return Writer(inputs).write();
}

plan::BoundCertificate write_certificate(const ir::Graph& graph, const analysis::ScheduleView& view,
                                         const plan::CutCertificate& cut) {
  IdVector<ir::OpId, char> ran(graph.op_count(), 0);
  for (SchedOpId op : cut.prefix) ran[view.op[op]] = 1;
  for (ir::OpId id : graph.ops()) {
    if (!analysis::is_view_op(graph, id)) continue;
    const ir::OpId made = analysis::version_producer(graph, graph.op(id).outputs[0]);
    ran[id] = !made.valid() || ran[made];
  }
  plan::BoundCertificate certificate;
  certificate.op = plan_id(view.op[cut.op]);
  certificate.value_bytes = cut.value_bytes;
  for (ir::OpId id : graph.ops())
    if (ran[id]) certificate.prefix.push_back(plan_id(id));
  return certificate;
}

}  // namespace lowtide::pipeline
