// The address packer (dynamic storage allocation: MODeL section 4.3; minimalloc, Moffitt 2023), by
// list heuristics, backtracking search and bisection: gives every buffer of a PackProblem its
// offset in one arena, as low as it can, with a proof of how far from the best the answer is.
//
// Worked example. Four buffers, time to the right, address upwards; the max load is 4 and so is the
// height, so the packing is optimal and no search was needed:
//
//     4 |  . c c b b        a: [0,3) size 2     b: [3,5) size 3
//     3 |  . c c b b        c: [1,3) size 2     d: [3,5) size 1
//     2 |  a a a b b
//     1 |  a a a d d
//
// Stages: (1) exact simplifications (units, time-independent parts), (2) list heuristics, the
// incumbent, (3) max load, the bound, (4) a depth-first search that decides one capacity at a time,
// (5) bisection of the capacity with three-valued answers. The result never depends on the number
// of threads, nor on the clock unless `timed_out` is set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/limits.h"
#include "plan/pack_problem.h"

namespace lowtide::pack {

// One field per idea, so that each can be switched off and measured. Switching off never makes an
// answer wrong.
struct PackOptions {
  // Exact simplifications of the problem.
  // Divide sizes by their common divisor: fewer distinct heights to bisect.
  bool gcd_scaling = true;
  bool partition = true;  // solve parts that never coexist one by one

  // List heuristics: {size, area, duration, start} x {first fit, best fit}.
  bool order_by_size = true;
  bool order_by_area = true;
  bool order_by_duration = true;
  bool order_by_start = true;
  bool first_fit = true;
  bool best_fit = true;
  // First fit in many more orders: by drawn classes of size, then by life (list_order.h).
  bool class_orders = true;

  // The decision search and its inference rules (minimalloc's, except the last three).
  bool search = true;     // off: the heuristics' answer only
  bool sections = true;   // one constraint per maximal set of coexisting buffers; off: pairs only
  bool canonical = true;  // offsets never fall along a branch, so that each packing is met once
  bool dominance = true;  // no hole is left into which an unplaced buffer would fit
  // Floor + unplaced bytes of a section must stay within the capacity.
  bool section_inference = true;
  // Nothing comes below the last offset: it is a floor of every section.
  bool monotonic_floor = true;
  // The lowest legal offset of a section's unplaced buffers is its floor.
  bool unallocated_floor = true;
  bool dynamic_order = true;  // lowest legal offset first; off: static order only
  bool decomposition = true;  // split in time as soon as no unplaced buffer crosses a moment
  // Section inference at each level of lowest offsets, not only the least. Off: it costs more than
  // it saves.
  bool release_bound = false;
  bool memo = true;      // a refuted remainder is not searched again
  bool restarts = true;  // half of the work in short searches, each in a shuffled static order

  // The tightest-first search, which has two thirds of the work once the decision search has had
  // 6,400 units for each buffer (tightest.h). `sections`, `decomposition`, `memo` and `restarts`
  // (it starts over with what it has learnt) are ideas of it, too.
  bool tightest_first = true;
  bool section_weights = true;  // where it failed, it is tight
  bool not_first = true;        // who cannot come next in a section lies above one who can
  bool twins = true;            // of equal buffers one lies below the next one

  // Static orders, tried round-robin with doubling work. Letters, each descending: A area, C
  // sections, L lower, O overlaps, T largest section total, U upper, W width (life), Z size. Empty:
  // no search.
  std::vector<std::string> static_orders = {"TWA", "TAW", "WAT", "TCA", "TO"};

  Limits limits{.max_units = 2'000'000'000, .max_seconds = 60};
  int threads = 1;  // static orders in parallel; same answer for any number
};

// Packs `problem`, which must satisfy plan::check. Without a capacity: minimises the height;
// kOptimal if it equals the proven bound, else kLimit (or kFeasible if the search is switched off).
// With a capacity: decides whether all fits; stops at the first packing that does (kOptimal if it
// also equals the bound, else kFeasible); kInfeasible only with a proof; kLimit if undecided, with
// the best packing found, whose height is above the capacity. Fixed offsets are honoured; fixed
// buffers that overlap each other are kInfeasible. Whatever max_units: never higher than first fit
// by start, by size or by area (of groups that are tied: than theirs, up to 4,096 buffers); with
// the default limits never higher than any list heuristic that two fifths of them are enough for.
plan::PackOutcome solve(const plan::PackProblem& problem, const PackOptions& options = {});

}  // namespace lowtide::pack
