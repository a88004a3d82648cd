// A second judge of plans, deliberately naive, by brute force: the definitions of plan/plan.h and
// plan/schedule_problem.h turned into loops over positions, with no state carried along. It exists
// to test verify(): both must agree on every plan, right or wrong. It answers only yes or no.
#pragma once

#include <string>

#include "plan/plan.h"

namespace lowtide::verify {

// Whether the plan is right. `why`, if given, gets a hint for people when it is not. The least
// state of a certificate is found by trying all states where at most kMaxFreeOps ops are undecided,
// and by plain augmenting paths beyond. `known_good`, if given, must be a valid plan: where the
// certificate asks the same question of both, its answer is taken over.
bool valid_by_definition(const plan::Plan& plan, std::string* why = nullptr,
                         const plan::Plan* known_good = nullptr);
inline constexpr int kMaxFreeOps = 14;

// Whether every storage is called what it is for; the plan's ops must make their outputs.
bool roles_by_definition(const plan::Plan& plan);

// The cheapest state in which `op` can run, as a certificate. For building plans; exponential in
// the ops that are neither ancestors nor descendants of `op` up to kMaxFreeOps, and without an
// answer beyond. The plan must be valid otherwise.
bool find_certificate(const plan::Plan& plan, plan::PlanOpId op, plan::PeakCut& certificate);

// Peak of the given order, nothing reused, by summing what is alive at each op.
int64_t peak_before_by_definition(const plan::Plan& plan);

}  // namespace lowtide::verify
