// The prices of a multi-cut's transfers, by cases and (for residents) dynamic programming: what
// storages cost between the cuts of a time certificate (time_bound.cc): where each is at the
// beginning and the end of a segment, and what it takes to get there.
//
// A cut is the moment at which its op first runs. A storage that an op makes is then gone (not
// there, and it never left for slow memory), present (there, likewise), kept (there, and a copy of
// it is in slow memory) or away (not there, but its copy is). Whoever is on the way back is away
// until something waited for it. While its maker does not run it can be dropped, leave memory for
// the price of a store, or come back for that of a load; a gone one stays gone. If it runs, coming
// back costs nothing. Who has left before never pays for a store again.
//
// A store's time on the link lies between the first segment in which the storage can have been made
// and the one that it leaves in; a load's between the one that it begins in and the one that it is
// first used in, and if these differ it takes memory at the cuts between. The share of the least
// weight among those segments counts.
//
// A resident that moves is away at both ends of the step. If ops write it, at least one store
// follows the first write, before the first cut at which the written resident is away, or before
// the end.
//
// Tests: time_bound_test.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/tick_scale.h"

namespace lowtide::verify {

inline constexpr int64_t kUnit = plan::kTickParts;  // one, in fixed point
inline constexpr int64_t kNever = int64_t{1} << 60;

// x * y in fixed point; y may say "per unit".
int64_t times(int64_t x, int64_t y, bool up = false);

// By segment, in fixed point: how far its time is bounded by stores and by loads.
struct Weights {
  std::vector<int64_t> store, load;
  int64_t of_ops(size_t k) const { return kUnit - store[k] - load[k]; }
  // The run of the op of the cut between k - 1 and k.
  int64_t of_cut_op(size_t k) const;
};

// Ticks of all the bytes on the link, and of the compute time that a copy takes.
struct Transfer {
  int64_t out = 0, in = 0, copying = 0;
  int64_t store(const Weights& weights, size_t first, size_t last) const;
  // `at_cut[k]`: the cost of being in memory at the cut before segment k; kNever: impossible.
  int64_t load(const Weights& weights, const std::vector<int64_t>& at_cut, size_t first,
               size_t last) const;
};

enum Place : size_t { kGone, kPresent, kKept, kAway, kPlaces };
using ByPlace = std::array<int64_t, kPlaces>;

// One storage in one segment.
struct Passage {
  ByPlace begin{};         // what it costs to begin there; kNever: impossible
  ByPlace end{};           // what it is worth to end there
  int64_t store = kNever;  // kNever: nothing can move
  int64_t load = kNever;

  // The least cost if its maker runs or not, and if a run needs it or not; kNever: impossible.
  int64_t least(bool made, bool needed) const;

 private:
  int64_t change(Place from, Place to, bool made, bool needed) const;
};

// What a resident can do in all segments together.
struct ResidentPassage {
  Transfer transfer;
  std::vector<int64_t> at_cut;  // by segment that follows; kNever where the cut's op reads it
  std::vector<char> needed;     // by segment: some op that surely runs there reads it
  bool written = false;
  size_t written_after = 0;   // no write before this segment
  size_t written_before = 0;  // one in this segment, at the latest
  int64_t least(const Weights& weights) const;
};

}  // namespace lowtide::verify
