// What a plan and the graph that it is held against must have in common, whatever was done to the
// ops between (parts.h, sums.h): attributes, what is there before the step, and which op waits for
// which.
//
// Tests: tests/verify_sums_test.cc, tests/verify_parts_test.cc.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/id.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace lowtide::verify {

// Reals that are no numbers are the same, whatever their bits: a plan's file has one word for all.
bool same_attr(const ir::AttrValue& a, const ir::AttrValue& b);
bool same_attrs(const ir::Attrs& a, const ir::Attrs& b);

// What differs of a value that no op makes: "its initial contents", "its category" and so on;
// empty: nothing does. Dims and name are not looked at.
std::string difference_of_given(const plan::Plan& plan, plan::PlanValueId value,
                                const ir::Value& was);

// Of pairs (waiting op, op that must run before it) those whose second does not come before the
// first by operands and waits of the plan, however many steps that takes.
std::vector<std::pair<plan::PlanOpId, plan::PlanOpId>> lost_waits(
    const plan::Plan& plan, const std::vector<std::pair<plan::PlanOpId, plan::PlanOpId>>& waits);

}  // namespace lowtide::verify
