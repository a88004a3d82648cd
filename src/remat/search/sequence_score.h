// What a sequence of runs is worth, from the sequence alone: for who has many and edits none. The
// same numbers as sequence_state.h, by the same rules, in two passes and without its lists.
//
// Tests: sequence_state_test.cc.
#pragma once

#include <cstdint>
#include <span>

#include "remat/search/action_table.h"

namespace lowtide::remat {

struct SequenceScore {
  double overflow = 0;     // over the capacity, summed over the runs and the borders of the step
  int64_t extra_cost = 0;  // of all runs beyond each op once
};

// `sequence`: runs of ops, correct.
SequenceScore score_of(const ActionTable& table, std::span<const SchedOpId> sequence);

}  // namespace lowtide::remat
