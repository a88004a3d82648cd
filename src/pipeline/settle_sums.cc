#include "pipeline/settle_sums.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/schedule_simulator.h"
#include "rewrite/sums.h"

namespace lowtide::pipeline {
namespace {

using plan::BufferId;
using plan::SchedAction;
using plan::SchedOpId;
using plan::SchedResidentId;
using plan::SchedValueId;

// The sums with their contributions as they run.
std::vector<analysis::Sum> as_they_run(const analysis::ScheduleView& view,
                                       const std::vector<SchedAction>& sequence) {
  IdVector<SchedOpId, size_t> at(view.problem.ops.size(), 0);
  for (size_t i = 0; i < sequence.size(); ++i)
    if (sequence[i].kind == SchedAction::Kind::kRun) at[sequence[i].op] = i;
  std::vector<analysis::Sum> sums;
  for (const analysis::SumInProblem& in : view.sums) {
    sums.push_back(in.sum);
    std::sort(sums.back().contributions.begin(), sums.back().contributions.end(),
              [&](const analysis::Contribution& a, const analysis::Contribution& b) {
                return at[view.sched_op[a.op]] < at[view.sched_op[b.op]];
              });
  }
  return sums;
}

// What the ids of one problem are in the other.
class Translation {
 public:
  Translation(const Prepared& from, const ir::Rewritten& chained, const analysis::ScheduleView& to)
      : from_(from), chained_(chained), to_(to), sum_of_(from.view.problem.values.size(), kNone) {
    for (const SchedValueId v : to.problem.values.ids()) value_at_[to.storage[v]] = v;
    for (const SchedResidentId r : to.problem.residents.ids()) resident_at_[to.resident[r]] = r;
    const auto& sums = from.view.sums;
    for (size_t s = 0; s < sums.size(); ++s) {
      sum_of_[sums[s].value] = s;
      std::vector<ir::ValueId>& versions = versions_.emplace_back();
      for (const analysis::Contribution& c : sums[s].sum.contributions) {
        versions.push_back(from.graph.op(c.op).outputs[c.output]);
        adds_[from.view.sched_op[c.op]].push_back(s);
      }
    }
  }

  // Without what begins a sum, and without moves of a sum that has nothing in it yet. `kept` gets
  // the position of each action that stays.
  std::vector<SchedAction> sequence(const std::vector<SchedAction>& old,
                                    std::vector<size_t>& kept) const {
    std::vector<size_t> added(versions_.size(), 0);  // contributions so far
    std::vector<SchedAction> made;
    for (size_t at = 0; at < old.size(); ++at) {
      SchedAction action = old[at];
      if (action.kind == SchedAction::Kind::kRun) {
        const ir::OpId op = from_.view.op[action.op];
        if (!op.valid()) continue;
        if (const auto adds = adds_.find(action.op); adds != adds_.end())
          for (const size_t s : adds->second) ++added[s];
        action.op = to_.sched_op[chained_.op[op]];
      } else if (action.value.valid()) {
        const size_t s = sum_of_[action.value];
        if (s != kNone && added[s] == 0) continue;
        action.value = value(action.value, s == kNone ? 0 : added[s] - 1);
      } else {
        action.resident = resident(action.resident);
      }
      made.push_back(action);
      kept.push_back(at);
    }
    return made;
  }

  // Where the first contribution of each sum runs: until then it has nothing in it. 0 of all other
  // values.
  IdVector<SchedValueId, size_t> filled(const std::vector<SchedAction>& old) const {
    IdVector<SchedValueId, size_t> at(from_.view.problem.values.size(), 0);
    for (size_t i = old.size(); i-- > 0;) {
      if (old[i].kind != SchedAction::Kind::kRun) continue;
      const auto adds = adds_.find(old[i].op);
      if (adds == adds_.end()) continue;
      for (const size_t s : adds->second) at[from_.view.sums[s].value] = i;
    }
    return at;
  }

  // Of a sum, its version.
  SchedValueId value(SchedValueId old, size_t version = 0) const {
    const size_t s = sum_of_[old];
    return value_at_.at(storage_of(s == kNone ? from_.graph.storage(from_.view.storage[old]).root
                                              : versions_[s][version]));
  }
  SchedResidentId resident(SchedResidentId old) const {
    return resident_at_.at(storage_of(from_.graph.storage(from_.view.resident[old]).root));
  }

  // The old value of each new one: of versions, their sum.
  IdVector<SchedValueId, SchedValueId> old_values() const {
    IdVector<SchedValueId, SchedValueId> old(to_.problem.values.size());
    for (const SchedValueId v : from_.view.problem.values.ids()) {
      const size_t s = sum_of_[v];
      for (size_t k = 0; k < (s == kNone ? 1 : versions_[s].size()); ++k) old[value(v, k)] = v;
    }
    return old;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  ir::StorageId storage_of(ir::ValueId old) const {
    return chained_.graph.value(chained_.value[old]).storage;
  }

  const Prepared& from_;
  const ir::Rewritten& chained_;
  const analysis::ScheduleView& to_;
  std::map<ir::StorageId, SchedValueId> value_at_;
  std::map<ir::StorageId, SchedResidentId> resident_at_;
  IdVector<SchedValueId, size_t> sum_of_;
  std::vector<std::vector<ir::ValueId>> versions_;  // by sum; old values
  std::map<SchedOpId, std::vector<size_t>> adds_;
};

// Gives buffers the addresses that they had: of each value (or resident) the buffers come in the
// same order, and so do the runs with workspace. A sum that left while there was nothing in it had
// buffers that the chain does not need.
class Addresses {
 public:
  Addresses(const Solution& old, const Translation& ids, Solution& made)
      : old_(old), ids_(ids), made_(made) {}

  Status take(const std::vector<size_t>& kept, const analysis::ScheduleView& view) {
    const auto old_value = ids_.old_values();
    const auto filled = ids_.filled(old_.sequence);
    collect(
        old_.profile, old_.buffers, [](SchedValueId v) { return v; },
        [&](const plan::SchedInstance& instance) {
          return instance.value.valid() && instance.end < filled[instance.value];
        },
        old_births_);
    std::map<Key, std::vector<BufferId>> births;
    collect(
        made_.profile, made_.buffers, [&](SchedValueId v) { return old_value[v]; },
        [](const plan::SchedInstance&) { return false; }, births);
    made_.packing = old_.packing;
    made_.packing.offsets =
        IdVector<BufferId, int64_t>(made_.buffers.problem.buffers.size(), int64_t{-1});
    for (const auto& [key, buffers] : births) {
      const std::vector<BufferId>& had = old_births_[key];
      if (had.size() != buffers.size()) return differ();
      for (size_t k = 0; k < had.size(); ++k) give(buffers[k], had[k]);
    }
    for (size_t at = 0; at < kept.size(); ++at)
      if (const BufferId buffer = made_.buffers.of_workspace[at]; buffer.valid()) {
        if (!old_.buffers.of_workspace[kept[at]].valid()) return differ();
        give(buffer, old_.buffers.of_workspace[kept[at]]);
      }
    for (const int64_t offset : made_.packing.offsets)
      if (offset < 0) return differ();
    take_slots(old_value, view);
    made_.arena_bytes = old_.arena_bytes;
    return {};
  }

 private:
  using Key = std::pair<SchedValueId, SchedResidentId>;

  static Status differ() {
    return error(ErrorCode::kInternal, "the chained sums need other buffers than the sums did");
  }

  template <class Old, class IsEmpty>
  static void collect(const plan::SequenceProfile& profile, const BufferView& buffers,
                      const Old& old, const IsEmpty& is_empty,
                      std::map<Key, std::vector<BufferId>>& births) {
    for (size_t i = 0; i < profile.instances.size(); ++i) {
      const plan::SchedInstance& instance = profile.instances[i];
      if (instance.reuses >= 0 || is_empty(instance)) continue;
      const SchedValueId value = instance.value.valid() ? old(instance.value) : instance.value;
      births[{value, instance.resident}].push_back(buffers.of_instance[i]);
    }
  }

  void give(BufferId buffer, BufferId had) {
    made_.packing.offsets[buffer] = old_.packing.offsets[had];
  }

  void take_slots(const IdVector<SchedValueId, SchedValueId>& old_value,
                  const analysis::ScheduleView& view) {
    made_.slots = old_.slots;
    for (size_t tier = 0; tier < made_.slots.size(); ++tier)
      made_.slots[tier].offsets =
          IdVector<BufferId, int64_t>(made_.buffers.slots[tier].buffers.size(), 0);
    const auto take = [&](const TierSlot& slot, const TierSlot& had) {
      if (slot.valid())
        made_.slots[slot.tier].offsets[slot.buffer] = old_.slots[had.tier].offsets[had.buffer];
    };
    for (const SchedValueId v : view.problem.values.ids())
      take(made_.buffers.slot_of_value[v], old_.buffers.slot_of_value[old_value[v]]);
    for (const SchedResidentId r : old_.buffers.slot_of_resident.ids())
      take(made_.buffers.slot_of_resident[ids_.resident(r)], old_.buffers.slot_of_resident[r]);
  }

  const Solution& old_;
  const Translation& ids_;
  Solution& made_;
  std::map<Key, std::vector<BufferId>> old_births_;
};

// A proof that speaks of the chained graph; its search is the minimum cut alone.
plan::ScheduleOutcome prove_again(const Prepared& ready, const analysis::ScheduleView& view,
                                  const OptimizeOptions& options) {
  order::OrderOptions cut = options.order;
  cut.list_rules = cut.post_orders = cut.closure_greedy = cut.exact_search = cut.beam = false;
  cut.random_restarts = 0;
  plan::ScheduleOutcome outcome = order::solve(view.problem, cut);
  outcome.status = ready.order.status;
  outcome.peak_bytes = ready.order.peak_bytes;
  outcome.lower_bound_bytes = std::max(outcome.lower_bound_bytes, ready.order.lower_bound_bytes);
  outcome.work = ready.order.work;
  return outcome;
}

}  // namespace

Result<Prepared> settle_sums(const Prepared& ready, const Solution& solution,
                             const OptimizeOptions& options) {
  Prepared settled;
  settled.forward = ready.forward;
  settled.whole = ready.whole;
  settled.in_any_order = std::make_shared<ir::Graph>(ready.graph);
  settled.stages = ready.stages;
  settled.rewrites = ready.rewrites;
  settled.notes = ready.notes;
  settled.ops_in_parts = ready.ops_in_parts;
  settled.whole_seconds = ready.whole_seconds;
  settled.unsplit = ready.unsplit;
  settled.floor = ready.floor;
  settled.sums_are_settled = true;
  LT_ASSIGN(ir::Rewritten chained,
            rewrite::order_sums(ready.graph, as_they_run(ready.view, solution.sequence)));
  LT_ASSIGN(settled.costs, op_costs(chained.graph, options, settled.coverage));
  LT_ASSIGN(settled.view, make_view(chained.graph, settled.costs, options));
  const Translation ids(ready, chained, settled.view);
  std::vector<size_t> kept;
  LT_ASSIGN(settled.unlimited, unpacked(settled.view, ids.sequence(solution.sequence, kept)));
  LT_RETURN_IF_ERROR(Addresses(solution, ids, settled.unlimited).take(kept, settled.view));
  const auto given = settled.view.problem.ops.ids();
  LT_ASSIGN(const plan::ScheduleProfile before,
            plan::simulate(settled.view.problem, std::vector<SchedOpId>(given.begin(), given.end()),
                           /*in_place=*/false));
  settled.peak_before_bytes = before.peak_bytes;
  settled.order = prove_again(ready, settled.view, options);
  settled.graph = std::move(chained.graph);
  return settled;
}

}  // namespace lowtide::pipeline
