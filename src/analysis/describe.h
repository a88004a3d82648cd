// Graph ops as concrete plain data: the form in which kernels are asked about and plans are
// written.
//
// Tests: src/rewrite/layouts_test.cc, src/pipeline/optimize_test.cc.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "plan/op_desc.h"

namespace lowtide::analysis {

// Error: kInput, naming the value or attribute that is still symbolic.
Result<plan::TensorDesc> describe(const ir::Value& value);
Result<plan::Attrs> describe(const ir::Attrs& attrs, std::string_view op_name);
Result<plan::OpDesc> describe(const ir::Graph& graph, ir::OpId op);

}  // namespace lowtide::analysis
