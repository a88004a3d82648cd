// The structural check of a Plan: its ids refer to what they should, its numbers are in range.
// Whoever holds a plan that passed may follow ids and add sizes without looking. Whether the plan
// is right (lives, addresses, claims) is src/verify's to say.
//
// Tests: plan_text_test.cc.
#pragma once

#include "base/result.h"
#include "plan/plan.h"

namespace lowtide::plan {

inline constexpr int kMostThreads = 1024;  // that a plan may be made for

// Demands: ids in range; values, ops and storages agree about who made what and who lies where; ops
// are in a valid order (what an op reads, waits for or makes views of exists before it); every
// compute step places exactly the storages that its op's outputs own; what moves has a slot; names
// unique; sizes, addresses and times not negative; all bytes together at most 2^62, each time at
// most kMaxSeconds, links of at least a byte per second; the alignment a power of two; at most
// kMostThreads. Error: kInput, naming the value, op, storage or step.
Status check(const Plan& plan);

}  // namespace lowtide::plan
