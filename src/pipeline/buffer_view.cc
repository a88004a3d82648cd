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

// Ties buffers: union-find with distances.
class Ties {
 public:
  explicit Ties(plan::PackProblem& problem)
      : problem_(problem), group_(problem.buffers.size()), members_(problem.buffers.size()) {
    for (BufferId b : group_.ids()) {
      group_[b] = b;
      members_[b] = {b};
    }
    at_ = IdVector<BufferId, int64_t>(problem.buffers.size(), 0);
  }

  // second lies `distance` bytes above first. False: they are tied otherwise already.
  bool tie(BufferId first, BufferId second, int64_t distance) {
    const BufferId group = group_[first], old = group_[second];
    const int64_t shift = at_[first] + distance - at_[second];
    if (group == old) return shift == 0;
    for (BufferId member : members_[old]) {
      at_[member] += shift;
      group_[member] = group;
      members_[group].push_back(member);
    }
    members_[old].clear();
    return true;
  }

  void write() {
    int32_t groups = 0;
    for (BufferId name : group_.ids()) {
      const std::vector<BufferId>& members = members_[name];
      if (members.size() < 2) continue;
      int64_t lowest = at_[members[0]];
      for (BufferId member : members) lowest = std::min(lowest, at_[member]);
      for (BufferId member : members)
        problem_.buffers[member].tie = plan::Tie{groups, at_[member] - lowest};
      ++groups;
    }
  }

 private:
  plan::PackProblem& problem_;
  IdVector<BufferId, BufferId> group_;
  IdVector<BufferId, std::vector<BufferId>> members_;
  IdVector<BufferId, int64_t> at_;
};

// Ties the buffers in which the pieces of a whole lie whenever it is read, and at the end where it
// is a result.
void add_ties(const analysis::ScheduleView& view, std::span<const SchedAction> sequence,
              const plan::SequenceProfile& profile, BufferView& result) {
  if (view.wholes.empty()) return;
  IdVector<plan::SchedOpId, std::vector<size_t>> read_by(view.problem.ops.size());
  for (size_t w = 0; w < view.wholes.size(); ++w)
    for (plan::SchedOpId reader : view.wholes[w].readers) read_by[reader].push_back(w);
  Ties ties(result.problem);
  IdVector<SchedValueId, BufferId> now(view.problem.values.size());
  const auto tie = [&](const analysis::Whole& whole) {
    const analysis::Whole::Piece& first = whole.pieces.front();
    for (const analysis::Whole::Piece& piece : whole.pieces)
      if (!ties.tie(now[first.value], now[piece.value], piece.offset_bytes - first.offset_bytes))
        result.clash = view.problem.values[piece.value].name;
  };
  size_t born = 0;
  for (size_t at = 0; at < sequence.size(); ++at) {
    if (sequence[at].kind == SchedAction::Kind::kRun)
      for (size_t w : read_by[sequence[at].op]) tie(view.wholes[w]);
    for (; born < profile.instances.size() && profile.instances[born].birth == at; ++born)
      if (profile.instances[born].value.valid())
        now[profile.instances[born].value] = result.of_instance[born];
  }
  for (const analysis::Whole& whole : view.wholes)
    if (whole.is_output) tie(whole);
  ties.write();
  if (const Status checked = plan::check(result.problem); !checked)
    result.clash = checked.error().message;
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
  add_ties(view, sequence, profile, result);
  return result;
}

}  // namespace lowtide::pipeline
