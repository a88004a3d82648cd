#include "pipeline/buffer_view.h"

#include <algorithm>
#include <string>

namespace lowtide::pipeline {
namespace {

using plan::BufferId;
using plan::SchedAction;
using plan::SchedInstance;
using plan::SchedOpId;
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

// A slot is occupied from the first store until the stay that its last load began, or that its last
// store ended, is over.
class Slots {
 public:
  Slots(const plan::ScheduleProblem& problem, std::span<const SchedAction> sequence,
        const plan::SequenceProfile& profile, BufferView& view)
      : problem_(problem), sequence_(sequence), profile_(profile), view_(view) {
    view.slot_of_value = IdVector<SchedValueId, BufferId>(problem.values.size());
    view.slot_of_resident = IdVector<SchedResidentId, BufferId>(problem.residents.size());
  }

  void make() {
    IdVector<SchedValueId, const SchedInstance*> present(problem_.values.size(), nullptr);
    size_t next = 0;
    for (size_t at = 0; at < sequence_.size(); ++at) {
      for (; next < profile_.instances.size() && profile_.instances[next].birth == at; ++next)
        if (const SchedInstance& born = profile_.instances[next]; born.value.valid())
          present[born.value] = &born;
      const SchedAction& action = sequence_[at];
      if (action.kind == SchedAction::Kind::kRun) continue;
      if (action.resident.valid())
        move(action.resident);
      else if (action.kind != SchedAction::Kind::kDrop)
        move(action.value, at, *present[action.value]);
    }
  }

 private:
  void move(SchedResidentId r) {
    if (view_.slot_of_resident[r].valid()) return;
    const plan::SchedResident& resident = problem_.residents[r];
    view_.slot_of_resident[r] = view_.slots.buffers.push_back(
        {resident.name, Interval{0, std::ssize(sequence_)}, resident.bytes, 1, std::nullopt});
  }

  void move(SchedValueId v, size_t at, const SchedInstance& stay) {
    BufferId& slot = view_.slot_of_value[v];
    const Interval live{static_cast<int64_t>(at), positions(stay).end};
    if (!slot.valid()) {
      const plan::SchedValue& value = problem_.values[v];
      slot = view_.slots.buffers.push_back({value.name, live, value.bytes, 1, std::nullopt});
    }
    Interval& whole = view_.slots.buffers[slot].live;
    whole.end = std::max(whole.end, live.end);
  }

  const plan::ScheduleProblem& problem_;
  const std::span<const SchedAction> sequence_;
  const plan::SequenceProfile& profile_;
  BufferView& view_;
};

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
  Slots(problem, sequence, profile, result).make();
  return result;
}

}  // namespace lowtide::pipeline
