// The packing questions that a schedule leaves: where its buffers lie in the arena, and where the
// slots lie in each slow tier.
//
// Arena: one buffer for all instances that took it over one from the other, one per workspace of a
// run. Pieces of a whole are tied for as long as somebody reads it. Residents that stay are not
// among them: they live throughout, so they lie below everything else and cost no search. Slow
// tiers: one slot per value that is stored and per resident that moves. Times are positions of the
// sequence.
//
// Tests: optimize_test.cc, tests/pieces_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/schedule_view.h"
#include "plan/pack_problem.h"
#include "plan/sequence_simulator.h"

namespace lowtide::pipeline {

struct TierSlot {
  uint8_t tier = 0;
  plan::BufferId buffer{};  // in the tier's problem; none: no slot
  bool valid() const { return buffer.valid(); }
};

struct BufferView {
  plan::PackProblem problem;                 // the arena above the residents that stay
  std::vector<plan::BufferId> of_instance;   // of each of the profile's instances
  std::vector<plan::BufferId> of_workspace;  // of each action; none where there is no workspace
  std::vector<plan::PackProblem> slots;      // by tier
  IdVector<plan::SchedValueId, TierSlot> slot_of_value;        // none: never stored
  IdVector<plan::SchedResidentId, TierSlot> slot_of_resident;  // none: never moved
  bool moves = false;                                          // there is a slot
  // Not empty: the ties ask for two buffers in one place, and no packing exists. That can come
  // about where a piece is made twice, each time in the buffer of a dying input. One line for
  // people.
  std::string clash;
};

// `profile` is that of `sequence`.
BufferView make_buffer_view(const analysis::ScheduleView& view,
                            std::span<const plan::SchedAction> sequence,
                            const plan::SequenceProfile& profile);

}  // namespace lowtide::pipeline
