#include "pipeline/buffer_view.h"

#include <algorithm>
#include <string>

namespace lowtide::pipeline {
namespace {

using plan::BufferId;
using plan::SchedAction;
using plan::SchedInstance;
using plan::SchedResidentId;
using plan::SchedValueId;

Interval positions(const SchedInstance& instance) {
  return {static_cast<int64_t>(instance.birth), static_cast<int64_t>(instance.end) + 1};
}

// By op, then by position: buffers of plans without reruns are numbered by ops.
std::vector<size_t> positions_with_workspace(const plan::ScheduleProblem& problem,
                                             std::span<const SchedAction> sequence) {
  std::vector<size_t> result;
  for (size_t at = 0; at < sequence.size(); ++at)
    if (sequence[at].kind == SchedAction::Kind::kRun &&
        problem.ops[sequence[at].op].workspace_bytes > 0)
      result.push_back(at);
  std::stable_sort(result.begin(), result.end(),
                   [&](size_t a, size_t b) { return sequence[a].op < sequence[b].op; });
  return result;
}

void add_slots(const plan::ScheduleProblem& problem, const plan::SequenceProfile& profile,
               BufferView& view) {
  view.slots.resize(plan::links_of(problem).size());
  view.slot_of_value = IdVector<SchedValueId, TierSlot>(problem.values.size());
  view.slot_of_resident = IdVector<SchedResidentId, TierSlot>(problem.residents.size());
  view.moves = !profile.slots.empty();
  const auto add = [&](const plan::SchedSlot& slot, const auto& what) {
    const Interval live{static_cast<int64_t>(slot.begin), static_cast<int64_t>(slot.end)};
    return TierSlot{slot.tier, view.slots[slot.tier].buffers.push_back(
                                   {what.name, live, what.bytes, 1, std::nullopt})};
  };
  for (const plan::SchedSlot& slot : profile.slots)
    if (slot.value.valid())
      view.slot_of_value[slot.value] = add(slot, problem.values[slot.value]);
    else
      view.slot_of_resident[slot.resident] = add(slot, problem.residents[slot.resident]);
}

}  // namespace

BufferView make_buffer_view(const analysis::ScheduleView& view,
                            std::span<const SchedAction> sequence,
                            const plan::SequenceProfile& profile) {
  const plan::ScheduleProblem& problem = view.problem;
  BufferView result;
  for (const SchedInstance& instance : profile.instances) {
    if (instance.reuses >= 0) {  // whose buffer was born earlier
      const BufferId buffer = result.of_instance[static_cast<size_t>(instance.reuses)];
      Interval& live = result.problem.buffers[buffer].live;
      live.end = std::max(live.end, positions(instance).end);
      result.of_instance.push_back(buffer);
      continue;
    }
    const bool is_value = instance.value.valid();
    const auto& name =
        is_value ? problem.values[instance.value].name : problem.residents[instance.resident].name;
    const int64_t bytes = is_value ? problem.values[instance.value].bytes
                                   : problem.residents[instance.resident].bytes;
    result.of_instance.push_back(
        result.problem.buffers.push_back({name, positions(instance), bytes, 1, std::nullopt}));
  }
  result.of_workspace.assign(sequence.size(), BufferId::none());
  for (size_t at : positions_with_workspace(problem, sequence)) {
    const plan::SchedOp& op = problem.ops[sequence[at].op];
    const auto now = static_cast<int64_t>(at);
    result.of_workspace[at] = result.problem.buffers.push_back(
        {op.name + "/workspace", Interval{now, now + 1}, op.workspace_bytes, 1, std::nullopt});
  }
  add_slots(problem, profile, result);
  return result;
}

}  // namespace lowtide::pipeline
