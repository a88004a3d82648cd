// Small graphs and options that the tests of this folder share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/op_table.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

inline OptimizeOptions options_on_cpu() {
  OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  return options;
}

inline ir::ValueId add_value(ir::Graph& graph, std::string name, ir::Dims dims, Category category) {
  ir::Value value;
  value.name = std::move(name);
  value.dims = std::move(dims);
  value.category = category;
  if (category == Category::kParameter) value.initial.kind = ir::InitialValue::Kind::kSeeded;
  return graph.add_value(std::move(value));
}

inline ir::ValueId apply(ir::Graph& graph, std::string_view kind, std::vector<ir::ValueId> inputs,
                         ir::Attrs attrs = {}) {
  const auto op = ops::append(graph, kind, std::move(inputs), std::move(attrs));
  EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
  return graph.op(*op).outputs[0];
}

// Layers of MatMul and Relu, batch x width.
inline ir::Graph mlp(int layers, int64_t batch, int64_t width) {
  ir::Graph graph;
  graph.name = "mlp";
  ir::ValueId x = add_value(graph, "x", {batch, width}, Category::kInput);
  for (int i = 0; i < layers; ++i) {
    const auto w = add_value(graph, "w" + std::to_string(i), {width, width}, Category::kParameter);
    x = apply(graph, "MatMul", {x, w, ir::ValueId::none(), ir::ValueId::none()},
              {{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}});
    if (i + 1 < layers) x = apply(graph, "Relu", {x});
  }
  graph.set_output(x, true);
  return graph;
}

}  // namespace lowtide::pipeline
