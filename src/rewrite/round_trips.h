// Values that are moved or cast there and back, or not at all, as exporters write them: dims are
// moved around a block, masks go from bool to integers to floats, shapes are set to what they are.
// The rules, and why none needs more memory or time in any schedule:
//
//   transpose-of-transpose  Transpose(Transpose(x)) -> Transpose(x), or x   nobody else reads the
//                           inner copy, which is as large: the new one runs where it was made
//   no-transpose            Transpose(x), all dims stay  -> x   x instead of its copy
//   no-expand, no-cast      Expand(x) to its own shape, Cast(x) to its own type  -> x   likewise
//   cast-back               Cast(Cast(x)) to x's type    -> x   the inner type holds all that x's
//   cast-of-cast            Cast(Cast(x))                -> Cast(x)   does, so it has as many bytes
//                           at least, and nobody else reads it. A result that is no larger than
//                           the inner one is made where that was; a larger one where it was made
//                           before, with x there instead of the inner one
//
// Where x is read in place of a copy, x keeps no more than itself, and nobody overwrites it: who
// reads it would have to run before that. Before there are gradients nobody overwrites a parameter
// yet, so a copy of one goes. In the step that is made of the rest, the update then waits for those
// who would have read the copy, and with it the parameter's gradient: it takes the bytes of what
// was kept for them, which was no smaller.
//
// The bits stay the same, but that a signalling NaN which is not cast stays one. Shapes that are
// views cost nothing, so that Reshape has no rule: what can be cut of a step depends on which there
// are.
//
// Tests: round_trips_test.cc, tests/rewrites_test.cc.
#pragma once

#include <span>

#include "rewrite/rules.h"

namespace lowtide::rewrite {

std::span<const Rule> round_trip_rules();

}  // namespace lowtide::rewrite
