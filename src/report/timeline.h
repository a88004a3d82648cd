// When everything happens by the plan's own times: ops one after another, and beside them one
// stream per slow tier and direction; a transfer begins when the ops before it and the stream's
// earlier transfers have ended, and a wait holds up the ops. What copies keep the processor from
// computing has no place on the line: the step's predicted time is the line's end and that.
//
// The same rules as plan/sequence_simulator.h and the verifier's.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

struct Moment {
  double begin = 0, end = 0;  // seconds from the beginning of the step
};

// A store or a load.
struct Transfer {
  plan::PlanStorageId storage{};
  bool out = false;    // a store
  Moment when = {};    // on its link
  double seconds = 0;  // that it takes there
  size_t begin_step = 0,
         wait_step = 0;        // wait_step: the number of steps where nothing waits for it
  double waited_seconds = 0;   // how long ops waited for it
  double copying_seconds = 0;  // that it keeps the processor from computing
};

struct Timeline {
  std::vector<Moment> steps;  // of ops: while they run; of waits: while ops wait; of others a point
  std::vector<Transfer> transfers;  // by begin_step
  double end_seconds = 0;           // of the last step and the last transfer
  double copying_seconds = 0;       // of all transfers
};

Timeline timeline_of(const plan::Plan& plan);

}  // namespace lowtide::report
