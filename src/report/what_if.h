// What a plan would hold if some of its reruns and transfers were left out and what they bring back
// stayed in memory instead: the way to say what each of them is worth.
//
// A storage is there from its birth (a run that makes it, a load) to the last step before its next
// birth that reads, writes, stores or waits for it; an output of the step to the end. A birth that
// is left out joins two stays into one. Whatever only served the runs left out goes earlier. A
// buffer is still taken over where that remains right; no new takeover is looked for, so where a
// buffer would become free for one, the answer is a little above what a new plan would need.
//
// Tests: actions_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

// Bytes present at each step, everything on the device, workspace included. `left_out` has one
// entry per step; it may name repeated runs, and all transfers and waits of a storage.
std::vector<int64_t> bytes_without(const plan::Plan& plan, const std::vector<char>& left_out);

}  // namespace lowtide::report
