// Does a plan in parts compute what the step in one part does? The plan alone cannot say: what it
// computes is right by its own graph. Held beside the step before anything was cut, each of its ops
// must be an op of that step, or a part of one, or hand parts on.
//
// By induction over the plan's ops, each value gets a composition (composition.h): which boxes of
// which values of the whole step it shows, or which part of a sum.
//
//   a part      the sizes of its axes say which axis was cut and where, or which two, one within
//               the other (nested_part.h); the parts of an op follow one another and are the whole
//               axis. Where sizes leave open which of two axes is the outer one, what the parts
//               read says it. Its operands show the slices that the op table
//               asks for (ops::part), its attributes are those of the part. Then its result is the
//               slice, or the share of the sum, that the op table says.
//   handing on  slices, joins, layouts, float types, reshapes of wholes; additions, maxima and
//               two shares that have no range in common; zeros around a share; a mean's weight.
//   at the end  every result is all of the whole step's result of that name, so all parts are
//               there, once, and all sums are complete; and every update happens, once, with
//               operands that are all of what they were.
//
// Also whether the claimed floor of any parts is that step's (parts_floor.h).
//
// Up to rounding: sums may be in another order, and float types between may be wider. Of the names
// of ops it only takes which op to compare with; a wrong name is found, nothing rests on it. The
// expansion (fission/expand.h) is not asked.
//
// Tests: tests/verify_parts_test.cc, tests/nested_parts_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"

namespace lowtide::verify {

struct PartsReport {
  // One line each: names and numbers; empty: it is the same step. What follows from one that is
  // listed is not.
  std::vector<std::string> findings;
  int64_t ops_in_parts = 0;  // of the whole step
  int64_t parts = 0;         // that they run in
  int64_t handing_on = 0;    // ops that only hand parts on

  bool ok() const { return findings.empty(); }
};

// `whole`: with constant dims, as it was before ops were cut, types and layouts chosen. The plan
// has passed plan::check. Near-linear in ops and parts.
PartsReport verify_parts(const plan::Plan& plan, const ir::Graph& whole);

}  // namespace lowtide::verify
