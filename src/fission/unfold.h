// From a schedule of one part of everything (scale.h) to one of the step in parts: loops instead of
// runs. All runs of a level follow each other once for each of its parts, those of a deeper level,
// once for each of theirs: a loop reaches from one of them to the last that reads what a part of
// the loop hands on to the same part, and then the next one begins. What runs within a loop of a
// deeper level but is none of its runs runs with its first part where it makes something for it,
// otherwise with its last one, as what was added up is complete then.
//
// Where an op waits for all parts of another (passes.h) and both are among the runs of one loop,
// the loop ends before it and the next begins.
//
// The result may be wrong: an op that needs a deeper level's results and makes something for it
// would have to run in the middle, so who starts from it must check it.
//
// Tests: scale_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "fission/labels.h"
#include "plan/schedule_problem.h"

namespace lowtide::fission {

struct PartRun {
  plan::SchedOpId op;
  int64_t part = 0;  // of the op; 0 where it runs whole
  bool operator==(const PartRun&) const = default;
};

// `level_of`: of each op, as it is cut; `waits_for`: whose parts must all have run before it
// (Scale::waits_for; may be empty). Empty where the runs of two levels beside each other mix.
std::vector<PartRun> unfold(
    const plan::ScheduleProblem& problem, const Levels& levels,
    const IdVector<plan::SchedOpId, int>& level_of, std::span<const plan::SchedOpId> runs,
    const IdVector<plan::SchedOpId, std::vector<plan::SchedOpId>>& waits_for = {});

}  // namespace lowtide::fission
