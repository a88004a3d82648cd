// Does a plan whose sums were put in the order in which their shares come still compute the same?
// The plan alone cannot say: a sum that lost a share, or whose reader comes too early, is right by
// its own graph. Held beside the graph from before, with the same ops by name:
//
//   one for one  each op of the graph is there once, of its kind and with its attributes, and none
//                besides; it waits for whom it waited for; what no op makes is what it was;
//   sums         a value is the set of the shares that were added up to it: of an op that adds into
//                an operand, what that operand is and its own share; of any other op, itself. As
//                each op is there once, no share is in a sum twice;
//   the same     each operand that is not added into, and each result of the step, is the same set
//                in both.
//
// So every share is there, once, and who reads a sum finds all that it found before. The pass that
// orders sums (rewrite/sums.h) is not asked. Where ops were cut as well, verify_parts (parts.h)
// says more.
//
// Tests: tests/verify_sums_test.cc.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/plan.h"

namespace lowtide::verify {

// One line for each finding, with names; empty: it is the same step. `before`: with the types and
// layouts of the plan. The plan has passed plan::check. Near-linear in ops, and in the shares of a
// sum for each of its readers.
std::vector<std::string> verify_sums(const plan::Plan& plan, const ir::Graph& before);

}  // namespace lowtide::verify
