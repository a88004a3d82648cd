// The floor: the least budget that any schedule can keep, and the op that sets it.
//
// While an op runs for the first time, its inputs, outputs and workspace are present, less what it
// reuses in place, beside the residents that cannot move. With a link that is all: everything else
// may be elsewhere, and so may residents that the op does not need. The floor is that of the op
// that needs most.
//
// Without a link, two bounds; the higher one counts:
//
//   minimum cuts      (maximum closure, Picard 1976; closure_cut_network.h, with reruns for free)
//                     Whatever is needed after the op and cannot come back is present, too: the
//                     least bytes that cut all its descendants' needs from the producers that may
//                     not run again. One cut for an op. The ops come in the order of what each may
//                     need at most, which is known of all together without a cut, until no other
//                     can be higher. Where the counted work ends before, what was found holds: a
//                     floor is the highest of many.
//   backward search   (Dijkstra's algorithm, backwards over sets of values; backward_search.h)
//                     What it takes that all inputs of an op come to be there together.
//
// Cost: a maximum flow for each op that is cut, at about 1 us for an op of its network. Of whole
// steps a handful is cut, in milliseconds; of steps in many parts, which need nearly alike, all
// that some 5 s allow. The backward search ends after a tenth of a second.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/bounds/step_graph.h"

namespace lowtide::remat {

struct Floor {
  int64_t bytes = 0;  // of the whole device
  SchedOpId op;       // that sets it; none if residents alone do
  // By backward search: whose inputs the op is on the way to, and what the verifier needs of it.
  std::optional<plan::BackwardWayOf<plan::ProblemIds>> way;
  int64_t resident_bytes = 0, workspace_bytes = 0;
  std::vector<SchedValueId> present;  // inputs and outputs of the op, ascending
  std::vector<SchedValueId> kept;     // must stay for later ops, ascending
};

// What is asked of the floor: how high it is as far as `enough`, and beyond that only whether it is
// above `budget`. An answer is a floor, too, but one of those that say so much need not be the
// highest.
struct FloorQuestion {
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  int64_t enough = kAny;
  int64_t budget = kAny;  // any: not asked
  SchedOpId first = {};   // an op that may well set it: looked at before all others
  // Whether a floor of so much answers it, if there is none above `most`.
  bool is_answered(int64_t bytes, int64_t most = kAny) const {
    return bytes >= most || (bytes >= enough && (bytes > budget || most <= budget));
  }
  // What a higher floor than `bytes` has to be above, to say more.
  int64_t to_exceed(int64_t bytes) const {
    return bytes >= enough && budget < kAny ? std::max(bytes, budget) : bytes;
  }
};

// `problem` passed plan::check; its budget is not looked at.
Floor floor_of(const plan::ScheduleProblem& problem, const FloorQuestion& question = {});
Floor cut_floor(const plan::ScheduleProblem& problem, const FloorQuestion& question = {});

}  // namespace lowtide::remat
