// The claimed floor of a step in whatever parts (plan::PartsFloor). An op of the step in one part
// runs in at most so many parts; then one of them makes at least the result's bytes divided by
// them, and while it runs that is there beside the residents that cannot be elsewhere.
//
// Where the plan runs that op whole, its own graph says how large the result is. Otherwise only the
// step in one part does. That no more parts are asked for is what the claim is about, not checked.
//
// Tests: violations_test.cc, tests/verify_parts_test.cc.
#pragma once

#include <string>

#include "ir/graph.h"
#include "plan/plan.h"
#include "verify/precedence.h"

namespace lowtide::verify {

struct PartsFloorVerdict {
  std::string finding;  // what is wrong; empty: nothing
  std::string open;     // what the plan alone cannot say
};

// Of a plan that claims such a floor.
PartsFloorVerdict check_parts_floor(const Precedence& precedence);

// The same beside the step in one part; empty where it is right.
std::string wrong_parts_floor(const plan::PartsFloor& claimed, const ir::Graph& whole);

}  // namespace lowtide::verify
