// Lagrangian relaxation of a multi-cut with a link (multi_cut.h), our own: where each value and
// resident is when several ops first run, and what it costs to get from one of these cuts to the
// next. Values by cases in the minimum cut of each segment; residents by dynamic programming from
// cut to cut.
//
// A value is, at each t_k, in one of four states instead of two: in memory or not, and with a copy
// in the slow tier or without. The state in which segment k leaves a value must be the one in which
// segment k+1 finds it; that is the constraint which is relaxed.
//
//   states    Each state of each value at each t_k has a multiplier for that constraint. It is
//             added to the cost of the segment that begins at t_k and taken off the segment that
//             ends there, so in a true schedule, where both see the same state, it cancels,
//             whatever its sign. Within one segment a value chooses its state at either end freely,
//             and the cheapest change of state depends only on whether its producer runs and
//             whether a run reads it: a minimum cut as before.
//   time      Ops, stores and loads run beside each other. A segment takes at least as long as each
//             of the three alone, and so as any weighted mean of the three; the weights (shares)
//             are multipliers too. Time for which a copy keeps the processor busy is added in full.
//   transfer  A copy that may lie in any of several segments is charged with the smallest share
//             among them, so that it never costs more than it does where it really lies.
//   links     Several links count as one that is as fast as all of them together.
//   residents Those that may move take the cheapest of all their ways through the segments.
//
// Even one such cut proves more than the closure cut with a link, which leaves out what residents
// do before t, what is stored after it, and the copies of both.
//
// At cut t_k a value is one of
//
//     gone      not there, and was never away before
//     present   there, and was never away before
//     kept      there, and the slow tier has a copy
//     away      not there (or on its way back), and the slow tier has a copy
//
// "There" means in memory while t_k runs. A value on its way back counts as there only once some
// action had to wait for its load: a run that reads it (t_k may be that run), or its next drop.
// "Was away" means that it was dropped after a store, before t_k. So in segment k, between the
// first runs of t_k and t_(k+1), a value changes
//
//     its maker does not run      gone -> gone;  present -> present, gone, or away for a store;
//                                 kept -> kept or away;  away -> away, or kept for a load
//     it runs                     as if it were there for free
//
// and a run in k that reads it finds it there only if it was there at t_k, is made in k, or is
// loaded with its first use in k. (Present to kept costs a store and a load.)
//
// Store. The first store lies between a time at which the value has been made and the drop, which
// waits for it. Made in segment f at the earliest and dropped in k, it takes its bytes over the
// link within segments f .. k. Load. One whose first use is in k and that begins in i takes its
// bytes over the link within i .. k and is in memory at t_(i+1), ..., t_k, though not there. Where
// the cheapest i is, the load costs least.
//
// A resident that moves is away when the step begins and when it ends. It is loaded before its
// readers, and at least once stored after it was written: before the first cut at which it is away
// though written, or by the end. Residents meet no op that may run or not, so the cheapest way
// through all segments is found at once. One that does not move is there at every cut.
//
// Tests: multi_cut_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "remat/bounds/step_graph.h"

namespace lowtide::remat {

inline constexpr int64_t kNoWay = std::numeric_limits<int64_t>::max() / 4;

// How the time of each segment is weighed, by segment, in 2^-20: a store's, a load's, and the
// ops', which get the rest. The run of a cut's op lies between two segments: it
// gives a store, or a load, the smaller of their two shares, and its time counts for the rest.
struct LinkShares {
  std::vector<int64_t> store, load;
  int64_t ops(size_t k) const { return kOne - store[k] - load[k]; }
  int64_t cut_op(size_t k) const {
    return kOne - std::min(store[k - 1], store[k]) - std::min(load[k - 1], load[k]);
  }
  bool operator==(const LinkShares&) const = default;
};

// The least share among segments from .. to, and a segment that has it.
struct LeastShare {
  int64_t share = 0;
  size_t segment = 0;
};
LeastShare least_share(const std::vector<int64_t>& shares, size_t from, size_t to);

// Ticks of the store of bytes that appear in segment `from` at the earliest and are dropped in
// `to`.
int64_t store_ticks(const LinkTicks& link, const LinkShares& shares, size_t from, size_t to);

// The cheapest load with its first use in segment `to`: it begins in `from`, not before `earliest`.
// `at_cut(k)`: what being in memory at the cut that begins segment k costs; kNoWay where it cannot
// be on its way then.
struct LoadWay {
  int64_t ticks = 0;
  size_t from = 0;
};
template <class AtCut>
LoadWay cheapest_load(const LinkTicks& link, const LinkShares& shares, const AtCut& at_cut,
                      size_t earliest, size_t to) {
  LoadWay best{kNoWay, to};
  int64_t share = kOne, in_memory = 0;
  for (size_t from = to;; --from) {
    share = std::min(share, shares.load[from]);
    const int64_t ticks = link.copy + scaled_down(link.in, share) + in_memory;
    if (ticks < best.ticks) best = {ticks, from};
    if (from <= earliest) return best;
    const int64_t more = at_cut(from);
    if (more == kNoWay) return best;
    in_memory += more;
  }
}

// One value in one segment. `worth` and `copy` are what it is worth to be there, and to have a copy
// (kept: the larger of the two).
struct ValueTerms {
  bool old = false;    // can be anything but gone at the beginning
  bool input = false;  // the cut's op reads it, so it is there; it may end with that op
  bool link = false;
  int64_t stay = 0;                         // what its bytes at the cut cost
  int64_t worth = 0, copy = 0;              // at the beginning: paid
  int64_t worth_after = 0, copy_after = 0;  // at the end: earned
  int64_t store = 0, load = 0;
};

struct ValueWay {
  int64_t ticks = kNoWay;
  bool starts_present = false, starts_copied = false;  // as potentials are paid
  bool stays = false;                                  // its bytes count at the cut
  bool ends_present = false, ends_copied = false;
  bool stored = false, loaded = false;
};

// The cheapest way through the segment. `made`: its maker runs; `needed`: some run reads it.
ValueWay cheapest_way(const ValueTerms& terms, bool made, bool needed);

// What is known of a resident before any price.
struct ResidentTerms {
  int64_t bytes = 0;
  LinkTicks link;
  std::vector<char> read_at_cut;  // by cut, from 0: its op reads it, so it is there for nothing
  std::vector<char> needed;       // by segment: some op that surely runs in it
  bool written = false;
  size_t written_from = 0, written_by = 0;  // segments: not before; surely by the end of
};

// The cheapest way through all segments, and what it uses.
struct ResidentWay {
  int64_t ticks = kNoWay;
  std::vector<char> there;     // by cut, from 0: its bytes count
  std::vector<LoadWay> loads;  // with its segment of first use in `load_to`
  std::vector<size_t> load_to;
  bool stored = false;
  size_t stored_by = 0;
};
ResidentWay cheapest_way(const ResidentTerms& terms, const LinkShares& shares,
                         const std::vector<int64_t>& price);

}  // namespace lowtide::remat
