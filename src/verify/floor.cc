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

}  // namespace

int64_t floor_bytes(const Precedence& precedence) {
  const Facts& facts = precedence.facts;
  const bool all_stay = facts.plan.slow_tiers.empty();
  int64_t floor = facts.resident_bytes;
  for (PlanStorageId s : facts.plan.storages.ids())
    if (precedence.may_move(s)) floor -= facts.plan.storages[s].bytes;
  struct Candidate {
    int64_t most;
    PlanOpId op;
  };
  std::vector<Candidate> candidates;
  for (PlanOpId o : facts.plan.ops.ids()) {
    if (facts.is_view_op[o]) continue;
    const FloorOfOp of_op(precedence, o);
    floor = std::max(floor, of_op.present_bytes());
    if (all_stay) candidates.push_back({of_op.present_bytes() + of_op.last_resort_bytes(), o});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.most > b.most; });
  for (const Candidate& c : candidates) {
    if (c.most <= floor) break;
    const FloorOfOp of_op(precedence, c.op);
    floor = std::max(floor, of_op.present_bytes() + of_op.least_bytes());
  }
  return floor;
}

}  // namespace lowtide::verify
