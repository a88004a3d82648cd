// Which slow tier what moves goes to, by a greedy rule of our own. Tiers are ordered by preference,
// the first is the best; each may have room for so many bytes only (Link::bytes). What a tier must
// hold is known once it is known what moves when: a slot is occupied from the first store to the
// end of the stay that the last load began (plan::SchedSlot).
//
// So room is found after the fact. All begin in the first tier, unless another link makes the step
// shorter (swap.h). Where a tier would hold too much, what can best live with a slower one goes to
// the next, until what is left has room: of those that occupy the tier when it is fullest the one
// whose transfers, at the next tier's speed, take the smallest part of the time for which it is
// away. A buffer that this schedule does not move is given the next tier as well: if a later change
// of the schedule moves it, the full tier would have no room for it.
//
// Tests: swap_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/schedule_problem.h"
#include "plan/sequence_simulator.h"
#include "remat/transfers/idle_spans.h"
#include "remat/transfers/swap_timing.h"

namespace lowtide::remat {

// A slow tier without room for all that had to move, and what would have been needed at least there
// in the best of all tries.
struct CrowdedTier {
  uint8_t tier = 0;
  int64_t needed_bytes = 0;
};

// Whether a tier has less than unlimited room.
bool any_limit(std::span<const plan::Link> links);

// Whether each tier has room for the slots in it.
bool keeps_room(const plan::ScheduleProblem& problem, std::span<const plan::SchedSlot> slots);

// Gives movables of `view` other tiers so that each has room for `slots`, which are those of the
// schedule that `away` makes. The last tier's shortage, if even that has too little.
std::optional<CrowdedTier> shift_tiers(const plan::ScheduleProblem& problem,
                                       std::vector<plan::SchedSlot> slots, const Moves& away,
                                       IdleSpanView& view);

}  // namespace lowtide::remat
