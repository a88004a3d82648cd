// Checkpoints at the borders of segments (Chen, Xu, Zhang, Guestrin 2016, "Training deep nets with
// sublinear memory cost", algorithm 3 and the budget search around it). The forward part is cut
// into segments. A value that is read behind its own segment's border, by the forward part, stays;
// all others of the segment leave after their last forward reader, and whatever of them the
// backward part reads runs again, together, right before its first such read. The last segment's
// backward part follows at once, so it keeps everything.
//
// Borders: walking forward, bytes made since the last border are added up; where they exceed the
// segment size there is the next one, or a little further on, where fewer bytes cross. The search
// goes through segment sizes and through how much further, and scores each schedule.
//
// Of n equal layers it needs about 2 sqrt(n) of them at once, for one more forward part. Cost: some
// 200 schedules, each linear in the problem.
#pragma once

#include "baselines/judge.h"

namespace lowtide::baselines {

// Scores the schedules of all segmentations that it tries. `forward`: 1 for ops of the forward
// part, or empty (forward.h).
void add_chen(const plan::ScheduleProblem& problem, const IdVector<SchedOpId, char>& forward,
              Judge& judge);

}  // namespace lowtide::baselines
