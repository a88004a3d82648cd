// What ops of a step in parts are in the step in one part: the ops of both have names in common,
// parts that of their op with "/part" and a number behind it.
//
// Tests: unsplit_test.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "analysis/schedule_view.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace lowtide::pipeline {

struct UnsplitOp {
  plan::PlanUnsplit op;
  std::string module;
};
using UnsplitOps = std::map<std::string, UnsplitOp, std::less<>>;  // by name

// The ops of the step in one part. All sizes must be constant.
UnsplitOps unsplit_ops(const ir::Graph& graph, const analysis::OpCosts& costs,
                       int64_t alignment_bytes);

// PlanOp::unsplit of all ops, so that the seconds add up to those of the step in one part. An op
// that the plan has neither by name nor in parts (a batch norm that is taken apart, a conversion
// of a layout) is told of the first op whose name begins with its own and a slash, or of its
// module.
void tell_unsplit(const UnsplitOps& unsplit, plan::Plan& plan);

}  // namespace lowtide::pipeline
