// Model-local functions, expanded: every call is replaced by the function's nodes, until no calls
// are left.
//
// Tests: onnx_branches_test.cc, node_cases_test.cc.
#pragma once

#include "base/result.h"
#include "io/onnx_model.h"

namespace lowtide::io {

// Replaces model.nodes by the expanded list. Inner values are renamed "<call>/<name>", inner nodes
// likewise; attribute references take the call's value, the function's default, or vanish when
// neither is given. A function's key is (domain, name, overload). Error: kInput: two functions of
// one key, a call that nests deeper than 64, more than 2^20 nodes in all, a call with more inputs
// or outputs than the function has.
Status expand_functions(OnnxModel& model);

}  // namespace lowtide::io
