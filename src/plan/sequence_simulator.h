// The one simulator that scores every schedule under a budget, whichever solver made it: recomputed
// ops, transfers, and time. By definition, in two passes (see SchedAction in schedule_problem.h).
//
// Memory follows from the sequence alone. Every action has a position. A value appears (an
// *instance* is born) when its producer runs or its load begins, and the instance ends after its
// drop or, if there is none, after the last action that uses it (a run that reads it, or its birth)
// before the next birth; the last instance of an output of the step stays to the end. Bytes present
// at a position: all instances that cover it, residents that never move, workspace of the op that
// runs, less what is reused in place: a pair (op, input, output) is taken when this run is the end
// of the input's instance, the sizes are equal, input is no output of the step, and no earlier pair
// of the op took either of them.
//
// Contents. The slow tier keeps what was stored last; a run that writes a value or resident makes
// that stale, another run of the producer does not (it gives the same bits). Only what is not stale
// can be loaded, or dropped. The copy of a resident that moves is there before the step, and not
// stale after it.
//
// Time: one compute stream and one stream per link and direction, each in the order of the
// sequence. A store begins when the compute stream has reached its position, what it copies has
// arrived, and the link is free; a drop makes compute wait for it. A load begins likewise. The
// first run that reads the instance waits for it, and so does its drop. A transfer takes latency +
// bytes / bandwidth. The step ends when all streams have ended, and later by the compute time that
// the copies of all bytes take from the device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule_problem.h"

namespace lowtide::plan {

// One stay of a value or a moving resident in device memory. Positions count actions.
struct SchedInstance {
  SchedValueId value{};  // one of these two
  SchedResidentId resident{};
  size_t birth = 0;     // run of the producer, or load
  size_t end = 0;       // the last position at which it is present (inclusive)
  int32_t reuses = -1;  // index of the instance whose buffer it takes over at birth, or -1
  bool operator==(const SchedInstance&) const = default;
};

// What a slow tier keeps for a value or resident: from its first store to the end of the stay that
// its last load began or its last store ended. A resident's slot is its home, so it has it always.
struct SchedSlot {
  SchedValueId value{};  // one of these two
  SchedResidentId resident{};
  uint8_t tier = 0;
  size_t begin = 0, end = 0;  // positions [begin, end)
  bool operator==(const SchedSlot&) const = default;
};

struct SequenceProfile {
  int64_t peak_bytes = 0;             // resident bytes included
  std::vector<int64_t> action_bytes;  // bytes present during each action, resident bytes included
  std::vector<SchedInstance> instances;  // by birth, then by value
  std::vector<SchedSlot> slots;          // by first move
  double seconds = 0;                    // the whole step, all streams
  double run_seconds = 0;                // sum over all runs
  double once_seconds = 0;               // sum over ops, each once: what no schedule can avoid
  double transfer_seconds = 0;           // sum over stores and loads
  double exposed_seconds = 0;            // seconds - run_seconds: what transfers add
  int64_t reruns = 0, stored_bytes = 0, loaded_bytes = 0;
};

// `problem` must pass plan::check. Error: kInput, naming position, op and value: an op that may not
// run twice does, or never runs; a run before its inputs are present or before a control
// predecessor's first run or after a control successor's; a store or drop of what is not there; a
// store without a drop, or of what is being stored already; a write while a store is under way; a
// drop or load of what was never stored or is stale; a load that nothing uses; an output or a
// changed resident that the step leaves in the wrong place; transfers without a link, or to a tier
// other than before. What a tier has room for is not looked at: see most_held.
Result<SequenceProfile> simulate_sequence(const ScheduleProblem& problem,
                                          std::span<const SchedAction> sequence);

// The most bytes that the slots of a tier hold at once, and the first position at which they do.
struct Held {
  int64_t bytes = 0;
  size_t at = 0;
};
Held most_held(const ScheduleProblem& problem, std::span<const SchedSlot> slots, uint8_t tier);

}  // namespace lowtide::plan
