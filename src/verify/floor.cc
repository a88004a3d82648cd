// The least memory of any schedule, whatever runs again or moves. When an op runs for the first
// time, its inputs, outputs and workspace are there, less what it reuses in place, and the
// residents that cannot be elsewhere. Without a slow tier so is, for everything that is wanted
// later, it or what it is made of again, down to what cannot be made again: the least bytes that
// separate what descendants and the step's end want from the ops that can no longer run. A minimum
// cut:
//
//     source --unlimited--> storage       wanted by a descendant or at the end
//     storage --bytes--> its maker        it stays
//     op --unlimited--> what it reads, and ops that come after all its runs
//     op that can run no more --unlimited--> sink
//
// A cut for every op would take time by the square of the ops. What an op needs at most is known
// for all ops after one pass over the plan (AtMost), and only ops for which that is above the floor
// found so far are looked at.
#include <algorithm>
#include <numeric>

#include "verify/min_cut.h"
#include "verify/precedence.h"

namespace lowtide::verify {
namespace {

class FloorOfOp {
 public:
  FloorOfOp(const Precedence& precedence, PlanOpId op)
      : precedence_(precedence), facts_(precedence.facts), moment_(precedence, op) {}

  int64_t present_bytes() const { return moment_.present_bytes; }

  // What stays if everything that can be made again is: the least bytes are at most that.
  int64_t last_resort_bytes() const {
    IdVector<PlanStorageId, char> seen(facts_.plan.storages.size(), 0);
    std::vector<PlanStorageId> open;
    const auto want = [&](PlanStorageId s) {
      if (concerns(s) && !seen[s]) seen[s] = 1, open.push_back(s);
    };
    for (PlanStorageId s : facts_.plan.storages.ids())
      if (wanted(s)) want(s);
    int64_t bytes = 0;
    Precedence::Mark runs(facts_.plan.ops.size(), 0);
    std::vector<PlanOpId> next;
    while (!open.empty()) {
      const PlanStorageId s = open.back();
      open.pop_back();
      const PlanOpId maker = facts_.maker[s];
      if (moment_.locked(maker)) {
        bytes += moment_.stay_bytes(s);
        continue;
      }
      for (next.assign(1, maker); !next.empty();) {
        const PlanOpId o = next.back();
        next.pop_back();
        if (runs[o] || moment_.after[o]) continue;
        runs[o] = 1;
        for (PlanStorageId input : precedence_.inputs[o]) want(input);
        for (PlanOpId follower : precedence_.followers[o]) next.push_back(follower);
      }
    }
    return bytes;
  }

  int64_t least_bytes() const {
    const size_t ops = facts_.plan.ops.size();
    const size_t source = ops + facts_.plan.storages.size(), sink = source + 1;
    MinCut cut(sink + 1);
    int64_t constant = 0;
    for (PlanStorageId s : facts_.plan.storages.ids()) {
      if (!concerns(s)) continue;
      const PlanOpId maker = facts_.maker[s];
      if (wanted(s) && moment_.locked(maker)) {
        constant += moment_.stay_bytes(s);
        continue;
      }
      if (wanted(s)) cut.add_arc(source, ops + s.index(), MinCut::kUnlimited);
      cut.add_arc(ops + s.index(), moment_.locked(maker) ? sink : maker.index(),
                  moment_.stay_bytes(s));
      for (PlanOpId reader : facts_.readers[s])
        if (may_follow(reader)) cut.add_arc(reader.index(), ops + s.index(), MinCut::kUnlimited);
    }
    for (PlanOpId o : facts_.plan.ops.ids())
      for (PlanOpId follower : precedence_.followers[o])
        if (may_follow(o) && may_follow(follower))
          cut.add_arc(o.index(), follower.index(), MinCut::kUnlimited);
    return constant + cut.run(source, sink);
  }

 private:
  // It may be there already when the op runs.
  bool concerns(PlanStorageId s) const {
    const PlanOpId maker = facts_.maker[s];
    return maker.valid() && maker != moment_.op && !moment_.after[maker];
  }
  bool wanted(PlanStorageId s) const {
    const auto& readers = facts_.readers[s];
    return facts_.is_output[s] || std::any_of(readers.begin(), readers.end(),
                                              [&](PlanOpId r) { return moment_.after[r] != 0; });
  }
  // An op that may run after this one without having to.
  bool may_follow(PlanOpId o) const {
    return o != moment_.op && !moment_.after[o] && !moment_.locked(o);
  }

  const Precedence& precedence_;
  const Facts& facts_;
  const Moment moment_;
};

// More than enough for each op: what is there if so far exactly the ops before it in the plan's
// list have run, all that may run again and stands before `border` is made again, and of the rest
// everything stays that is still wanted. With `last`, ops that nobody waits for (updates, as a
// rule) have not run yet, and so rule out no rerun but those that they themselves do. Several
// borders are tried, with and without: any of them is true.
class AtMost {
 public:
  explicit AtMost(const Precedence& precedence)
      : precedence_(precedence),
        facts_(precedence.facts),
        waited_for_(facts_.plan.ops.size(), 0),
        bytes_(facts_.plan.ops.size(), 0) {
    for (PlanOpId o : facts_.plan.ops.ids())
      for (PlanOpId before : precedence.predecessors[o]) waited_for_[before] = 1;
    if (facts_.plan.slow_tiers.empty()) find_staying();  // else everything may be elsewhere
    add_own();
  }

  int64_t operator[](PlanOpId op) const { return bytes_[op]; }

 private:
  using Bytes = IdVector<PlanOpId, int64_t>;

  void find_staying() {
    bytes_ = beside(0, false);
    const size_t n = facts_.plan.ops.size();
    const auto fullest = std::max_element(bytes_.begin(), bytes_.end());
    for (size_t border : {size_t{0}, static_cast<size_t>(fullest - bytes_.begin()), n / 2, n})
      for (bool last : {false, true}) {
        const Bytes other = beside(border, last);
        for (PlanOpId o : facts_.plan.ops.ids()) bytes_[o] = std::min(bytes_[o], other[o]);
      }
  }

  // Without residents and what the op itself reads, makes and works in.
  Bytes beside(size_t border, bool last) const {
    const size_t n = facts_.plan.ops.size();
    IdVector<PlanOpId, size_t> gone(n);  // from then on it makes nothing again
    IdVector<PlanStorageId, size_t> wanted(facts_.plan.storages.size(), 0);  // until then
    for (size_t i = n; i-- > 0;) {
      const PlanOpId o(i);
      const bool waits = last && !waited_for_[o];
      gone[o] = waits || (precedence_.may_rerun[o] && i < border) ? n : i + 1;
      for (PlanOpId follower : precedence_.followers[o])
        if (!last || waited_for_[follower]) gone[o] = std::min(gone[o], size_t{follower.index()});
      size_t until = waits ? n : i;
      for (PlanStorageId s : facts_.makes[o]) {
        if (facts_.is_output[s]) wanted[s] = n;
        until = std::max(until, std::min(gone[o], wanted[s]));
      }
      for (PlanStorageId s : precedence_.inputs[o]) wanted[s] = std::max(wanted[s], until);
    }
    std::vector<int64_t> change(n + 1, 0);
    Bytes bytes(n, 0);
    for (PlanStorageId s : facts_.plan.storages.ids()) {
      const PlanOpId maker = facts_.maker[s];
      if (!maker.valid() || gone[maker] >= wanted[s]) continue;
      change[gone[maker]] += facts_.plan.storages[s].bytes;
      change[wanted[s]] -= facts_.plan.storages[s].bytes;
      for (PlanOpId reader : facts_.readers[s])
        if (gone[maker] <= reader.index() && reader.index() < wanted[s])
          bytes[reader] -= facts_.plan.storages[s].bytes;
    }
    int64_t now = 0;
    for (PlanOpId o : facts_.plan.ops.ids()) {
      bytes[o] += now += change[o.index()];
      for (PlanOpId follower : precedence_.followers[o])
        if (last && !waited_for_[follower])
          for (PlanStorageId s : facts_.makes[o]) bytes[follower] += facts_.plan.storages[s].bytes;
    }
    return bytes;
  }

  void add_own() {
    const plan::Plan& plan = facts_.plan;
    int64_t always = facts_.resident_bytes;
    for (PlanStorageId s : plan.storages.ids()) {
      const bool moves = precedence_.may_move(s);
      if (moves) always -= plan.storages[s].bytes;
      if (!moves && !facts_.maker[s].valid()) continue;
      for (PlanOpId reader : facts_.readers[s]) bytes_[reader] += plan.storages[s].bytes;
    }
    for (PlanOpId o : plan.ops.ids()) {
      bytes_[o] += always + plan.ops[o].workspace_bytes;
      for (PlanStorageId s : facts_.makes[o]) bytes_[o] += plan.storages[s].bytes;
    }
  }

  const Precedence& precedence_;
  const Facts& facts_;
  Precedence::Mark waited_for_;
  Bytes bytes_;
};

}  // namespace

int64_t floor_bytes(const Precedence& precedence, int64_t enough, PlanOpId first) {
  const Facts& facts = precedence.facts;
  int64_t floor = facts.resident_bytes;
  for (PlanStorageId s : facts.plan.storages.ids())
    if (precedence.may_move(s)) floor -= facts.plan.storages[s].bytes;
  const AtMost at_most(precedence);
  std::vector<PlanOpId> ops;
  for (PlanOpId o : facts.plan.ops.ids())
    if (!facts.is_view_op[o]) ops.push_back(o);
  std::stable_sort(ops.begin(), ops.end(),
                   [&](PlanOpId a, PlanOpId b) { return at_most[a] > at_most[b]; });
  const auto look_at = [&](PlanOpId o) {
    const FloorOfOp of_op(precedence, o);
    int64_t bytes = of_op.present_bytes();
    if (facts.plan.slow_tiers.empty()) {
      if (bytes + of_op.last_resort_bytes() <= floor) return;
      bytes += of_op.least_bytes();
    }
    floor = std::max(floor, bytes);
  };
  if (first.valid() && first.index() < facts.plan.ops.size() && !facts.is_view_op[first])
    look_at(first);
  for (PlanOpId o : ops) {
    if (at_most[o] <= floor || floor >= enough) break;
    look_at(o);
  }
  return floor;
}

}  // namespace lowtide::verify
