// For tests: gradients against central finite differences, (f(x + h) - f(x - h)) / 2h, on the
// reference executor in double precision, where with h = 1e-5 both truncation and rounding stay
// near 1e-9 for functions of moderate slope.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "autodiff/gradient.h"
#include "exec/ref/interpreter.h"
#include "ops/op_table.h"

namespace lowtide::autodiff {

// Small graphs by hand.
class GraphWriter {
 public:
  ir::Graph graph;
  ref::Named given;

  // A float input, filled by a fixed wave so that no two elements are equal.
  ir::ValueId leaf(std::string name, ref::Sizes dims, Category category = Category::kParameter) {
    ref::Tensor tensor = ref::Tensor::zeros(DType::kF32, dims);
    for (size_t e = 0; e < tensor.f.size(); ++e)
      tensor.f[e] = std::sin(1.7 * static_cast<double>(e) + static_cast<double>(given.size()));
    return leaf(std::move(name), std::move(tensor), category);
  }
  ir::ValueId leaf(std::string name, ref::Tensor tensor, Category category = Category::kInput) {
    ir::Value value;
    value.name = name;
    value.dtype = tensor.dtype;
    value.dims.assign(tensor.dims.begin(), tensor.dims.end());
    value.category = category;
    given.insert_or_assign(std::move(name), std::move(tensor));
    return graph.add_value(std::move(value));
  }
  std::vector<ir::ValueId> ops(std::string_view kind, std::vector<ir::ValueId> inputs,
                               ir::Attrs attrs = {}, std::string name = "") {
    ops::AppendOptions options;
    options.name = std::move(name);
    const auto op = ops::append(graph, kind, std::move(inputs), std::move(attrs), options);
    EXPECT_TRUE(op.has_value()) << kind << ": " << (op ? "" : op.error().message);
    if (!op) return std::vector<ir::ValueId>(3);
    return graph.op(*op).outputs;
  }
  ir::ValueId op(std::string_view kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs = {},
                 std::string name = "") {
    return ops(kind, std::move(inputs), std::move(attrs), std::move(name))[0];
  }
  // The sum of a value's elements, each times a number of its own: a scalar whose gradient reaches
  // all of them.
  ir::ValueId scalarise(ir::ValueId value) {
    ref::Sizes dims;
    for (const sym::Expr& dim : graph.value(value).dims) dims.push_back(*dim.constant());
    ref::Tensor weights = ref::Tensor::zeros(graph.value(value).dtype, dims);
    for (size_t e = 0; e < weights.f.size(); ++e)
      weights.f[e] = 0.5 + std::cos(2.3 * static_cast<double>(e) + 0.4);
    const std::string name = graph.fresh_name("weights_of_the_sum");
    const ir::ValueId product = op("Mul", {value, leaf(name, std::move(weights))});
    if (dims.empty()) return product;
    ir::Dims axes;
    for (size_t d = 0; d < dims.size(); ++d) axes.push_back(static_cast<int64_t>(d));
    return op("ReduceSum", {product}, {{"axes", axes}, {"keepdims", int64_t{0}}});
  }
};

inline double scalar_of(const ir::Graph& graph, ir::ValueId value, const ref::Named& given) {
  const auto values = ref::interpret(graph, given, {.seed = 5, .precision = ref::Precision::kF64});
  EXPECT_TRUE(values.has_value()) << (values ? "" : values.error().message);
  return values ? values->at(value).f[0] : std::nan("");
}

// Compares `gradient` with differences of `loss` over at most 24 elements of the leaf `name`.
inline void expect_slope(const ir::Graph& forward, ir::ValueId loss, const ref::Named& given,
                         const std::string& name, const ref::Tensor& gradient) {
  constexpr double kStep = 1e-5;
  const size_t count = gradient.f.size();
  ASSERT_EQ(count, given.at(name).f.size()) << name;
  for (size_t e = 0; e < count; e += std::max<size_t>(1, count / 24)) {
    ref::Named moved = given;
    double& element = moved.at(name).f[e];
    const double at = element;
    element = at + kStep;
    const double above = scalar_of(forward, loss, moved);
    element = at - kStep;
    const double below = scalar_of(forward, loss, moved);
    const double slope = (above - below) / (2 * kStep);
    EXPECT_NEAR(gradient.f[e], slope, 2e-6 * std::max(1.0, std::abs(slope)))
        << name << " element " << e;
  }
}

// Appends gradients of `loss` for `wrt` to a copy of the graph and checks each; returns the copy.
inline ir::Graph expect_gradients(const GraphWriter& writer, ir::ValueId loss,
                                  const std::vector<ir::ValueId>& wrt,
                                  const GradientOptions& options = {}) {
  ir::Graph graph = writer.graph;
  const auto gradients = append_gradients(graph, loss, wrt, options);
  EXPECT_TRUE(gradients.has_value()) << (gradients ? "" : gradients.error().message);
  if (!gradients) return graph;
  const auto checked = ir::check(graph);
  EXPECT_TRUE(checked.has_value()) << (checked ? "" : checked.error().message);
  const auto values =
      ref::interpret(graph, writer.given, {.seed = 5, .precision = ref::Precision::kF64});
  EXPECT_TRUE(values.has_value()) << (values ? "" : values.error().message);
  if (!values) return graph;
  for (size_t i = 0; i < wrt.size(); ++i) {
    const std::string& name = graph.value(wrt[i]).name;
    EXPECT_TRUE((*gradients)[i].valid()) << "no gradient of " << name;
    if (!(*gradients)[i].valid()) continue;
    expect_slope(writer.graph, loss, writer.given, name, values->at((*gradients)[i]));
  }
  return graph;
}

inline int64_t count_kind(const ir::Graph& graph, std::string_view kind) {
  int64_t count = 0;
  for (const ir::OpId op : graph.ops()) count += graph.op(op).kind == kind;
  return count;
}

}  // namespace lowtide::autodiff
