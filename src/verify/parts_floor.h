// The claimed floor of a step in whatever parts (plan::PartsFloor): residents that cannot be
// elsewhere, and beside them one part of what one op makes.
//
// It is recomputed from three things that hold for every labelling. The op is a product or a
// convolution in f32: no view, no type that a kernel may want smaller, so what it makes is there
// when it ends. An op runs in parts along two axes at most. And the op table says of each axis
// whether it can be cut at all, and whether the parts are then parts of the result or shares of a
// sum, each as large as the result: so the op runs in at most as many parts as the two longest axes
// of the first sort have elements together, and one of so many makes at least the result's bytes
// divided by them.
//
// The step in one part says all of it. A plan alone does where it runs the op whole. Of an op that
// it runs in parts it only says what the claim cannot be: fewer parts than these, where none adds
// into another's sum, or than two axes of one of them have elements; more bytes than all of them
// make together.
//
// Tests: parts_floor_test.cc, violations_test.cc, tests/verify_parts_test.cc.
#pragma once

#include <string>

#include "ir/graph.h"
#include "plan/plan.h"
#include "verify/precedence.h"

namespace lowtide::verify {

struct PartsFloorVerdict {
  std::string finding;  // what is wrong, the first of it; empty: nothing
  std::string open;     // what the plan alone cannot say
};

// Of a plan that claims such a floor.
PartsFloorVerdict check_parts_floor(const Precedence& precedence);

// The same beside the step in one part; empty where it is right.
std::string wrong_parts_floor(const plan::PartsFloor& claimed, const ir::Graph& whole);

}  // namespace lowtide::verify
