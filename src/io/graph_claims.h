// What a graph from outside claims of its values beyond their types: what they are for (category),
// that an op overwrites them (alias update), which of them are results, how many bytes of contents
// there are. Reports count by categories, training asks them what to train, and the verifier of
// plans holds each claim against how the step uses the buffer (verify/roles.cc, semantics.cc). A
// text that claims wrongly would be planned in vain, so the door asks first, on the graph itself
// and by a walk of its own; the verifier stays the judge of the plan.
//
//   there before the step: what an op overwrites is a parameter, if it is the first that this op
//       overwrites, and else an optimizer_state; what is fed an input; what is drawn as floats a
//       parameter; the rest a parameter or an input. Contents have as many bytes as the value
//   made by the step: forward an activation, by an update a temporary; backward a gradient, if an
//       update takes it as such, and else a temporary. Summands and pieces of a gradient are either
//   overwritten: the whole of a parameter or state that is there before the step and not fed;
//       nothing twice by one op, and a state by one op only
//   results: nothing overwrites them before the end
//
// A view is called what its storage may be called; in the backward pass also a temporary.
//
// Tests: tests/graph_refusals_test.cc.
#pragma once

#include <optional>
#include <string>

#include "ir/graph.h"

namespace lowtide::io {

struct WrongClaim {
  ir::ValueId value;  // of which it is claimed
  std::string why;    // one line: value, op, what it is, what would be right
};

// The first wrong claim: of updates, then of all else, by rising id; none: the graph is right.
// Sizes with symbols may be right and are. The graph has passed ir::check, and all its ops are of
// the table. Linear in the graph but for storages with many versions.
std::optional<WrongClaim> find_wrong_claim(const ir::Graph& graph);

}  // namespace lowtide::io
