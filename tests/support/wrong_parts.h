// Steps in parts of which one op is wrong, and whether the verifier knows the step all the same.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "ir/id_order.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "support/quick_plans.h"
#include "verify/parts.h"

namespace lowtide {

// The graph again with one op changed: `change` gets its operands and attributes, and says whether
// its first operand stands for it.
template <class Change>
std::optional<ir::Graph> changed(const ir::Graph& graph, ir::OpId wrong, const Change& change) {
  ir::Rewritten made(graph);
  for (const ir::GraphItem& item : ir::in_id_order(graph)) {
    if (item.given.valid()) {
      made.give(item.given, graph.value(item.given));
      continue;
    }
    const ir::Op& op = graph.op(item.op);
    std::vector<ir::ValueId> inputs = made.now(op.inputs);
    ir::Attrs attrs = op.attrs;
    if (item.op == wrong && change(inputs, attrs)) {
      made.value[op.outputs[0]] = inputs[0];
      continue;
    }
    if (!ops::append_again(made, graph, item.op, std::move(inputs), std::move(attrs)))
      return std::nullopt;
  }
  return std::move(made.graph);
}

inline bool is_known(const std::optional<ir::Graph>& parts, const ir::Graph& step) {
  EXPECT_TRUE(parts.has_value());
  const auto plan = pipeline::optimize(*parts, quick(nullptr));
  EXPECT_TRUE(plan.has_value()) << plan.error().message;
  return verify::verify_parts(plan->plan, step).ok();
}

}  // namespace lowtide
