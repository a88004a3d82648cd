// A graph of one drawn op, its operands given, or views of what is given; what the reference
// executor makes of such a graph in double precision; and whether two such results are equal.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/element.h"
#include "base/rng.h"
#include "exec/ref/interpreter.h"
#include "ops/op_table.h"
#include "ops/testing/random_instance.h"

namespace lowtide {

using NamedTensors = std::map<std::string, ref::Tensor>;

struct DrawnOp {
  ir::Graph graph;
  ref::Named given;
  ir::OpId op;      // called "drawn"
  int strided = 0;  // of its operands
};

enum class Operands : uint8_t { kGiven, kStrided };

inline ref::Tensor drawn_tensor(const ops::Type& type, const ops::InputValues& values, Rng& rng) {
  ref::Sizes sizes;
  for (const sym::Expr& dim : type.dims) sizes.push_back(*dim.constant());
  ref::Tensor tensor = ref::Tensor::zeros(type.dtype, sizes);
  const std::vector<double> drawn = ops::random_values(values, tensor.count(), rng);
  for (size_t e = 0; e < drawn.size(); ++e) {
    if (tensor.real()) tensor.f[e] = rounded(type.dtype, drawn[e]);
    if (!tensor.real()) tensor.i[e] = static_cast<int64_t>(drawn[e]);
  }
  return tensor;
}

inline ir::ValueId give_tensor(DrawnOp& drawn, const std::string& name, ref::Tensor tensor) {
  ir::Value value;
  value.name = name;
  value.dtype = tensor.dtype;
  value.dims = ir::Dims(tensor.dims.begin(), tensor.dims.end());
  value.category = Category::kInput;
  drawn.given[name] = std::move(tensor);
  return drawn.graph.add_value(std::move(value));
}

// Gives what holds the elements of `tensor` at strides, with NaN (or a number that is no position)
// between them, and is the view of it that shows the tensor: a transposed one, or a slice.
inline ir::ValueId give_strided(DrawnOp& drawn, const std::string& name, const ref::Tensor& tensor,
                                Rng& rng) {
  const size_t rank = tensor.dims.size();
  ref::Sizes stored = tensor.dims, perm, starts(rank, 0), steps(rank, 1);
  for (size_t d = 0; d < rank; ++d)
    perm.insert(perm.begin() + static_cast<int64_t>(rng.below(d + 1)), static_cast<int64_t>(d));
  const bool slice = rank < 2 || rng.below(2) == 0;
  if (slice) {
    std::sort(perm.begin(), perm.end());
    const size_t d = rng.below(rank);
    starts[d] = rng.between(0, 1);
    steps[d] = rng.between(1, 2);
    stored[d] = starts[d] + steps[d] * tensor.dims[d] + 1;
  }
  for (size_t d = 0; !slice && d < rank; ++d) stored[static_cast<size_t>(perm[d])] = tensor.dims[d];
  ref::Tensor lies = ref::Tensor::zeros(tensor.dtype, stored);
  std::fill(lies.f.begin(), lies.f.end(), std::numeric_limits<double>::quiet_NaN());
  if (tensor.dtype != DType::kBool) std::fill(lies.i.begin(), lies.i.end(), 99);
  const ref::Sizes strides = ref::row_major_strides(stored);
  for (ref::Odometer at(tensor.dims); at.live(); at.next()) {
    int64_t to = 0;
    for (size_t d = 0; d < rank; ++d)
      to += strides[static_cast<size_t>(perm[d])] * (starts[d] + steps[d] * at[d]);
    ref::copy_element(lies, to, tensor, at.flat());
  }
  const auto dims = [](const ref::Sizes& sizes) { return ir::Dims(sizes.begin(), sizes.end()); };
  ir::Attrs attrs = {{"perm", dims(perm)}, {"view", int64_t{1}}};
  if (slice)
    attrs = {{"starts", dims(starts)},
             {"sizes", dims(tensor.dims)},
             {"steps", dims(steps)},
             {"view", int64_t{1}}};
  const ir::ValueId from = give_tensor(drawn, name, std::move(lies));
  const auto view = ops::append(drawn.graph, slice ? "Slice" : "Transpose", {from}, attrs);
  EXPECT_TRUE(view.has_value()) << (view ? "" : view.error().message);
  if (!view) return from;
  const ir::ValueId shown = drawn.graph.op(*view).outputs[0];
  drawn.strided += drawn.graph.value(shown).layout.strided();
  return shown;
}

// Strided operands: one, or all but what an op adds into, which the op table does not let be so.
inline DrawnOp graph_of(const ops::RandomInstance& made, Rng& rng,
                        Operands operands = Operands::kGiven) {
  DrawnOp drawn;
  std::vector<ir::ValueId> inputs;
  const bool strided = operands == Operands::kStrided && !made.inputs.empty();
  const bool all = strided && rng.below(2) == 0;
  const size_t chosen = strided ? rng.below(made.inputs.size()) : 0;
  const auto accumulators = ops::accumulators(made.instance());
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    inputs.emplace_back();
    if (!made.inputs[i]) continue;
    const bool added = std::any_of(accumulators.begin(), accumulators.end(), [&](const auto& pair) {
      return pair.first == static_cast<int>(i);
    });
    ref::Tensor tensor = drawn_tensor(*made.inputs[i], made.values[i], rng);
    const std::string name = "in" + std::to_string(i);
    const bool apart = strided && (all || i == chosen) && !added && !tensor.dims.empty();
    inputs.back() = apart ? give_strided(drawn, name, tensor, rng)
                          : give_tensor(drawn, name, std::move(tensor));
  }
  const auto op = ops::append(drawn.graph, made.kind, inputs, made.attrs, {.name = "drawn"});
  EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
  if (!op) return drawn;
  drawn.op = *op;
  for (const ir::ValueId output : drawn.graph.op(*op).outputs) drawn.graph.set_output(output, true);
  return drawn;
}

inline NamedTensors results(const ir::Graph& graph, const ref::Named& given) {
  ref::Context context;
  context.precision = ref::Precision::kF64;
  const auto values = ref::interpret(graph, given, context);
  EXPECT_TRUE(values.has_value()) << (values ? "" : values.error().message);
  NamedTensors all;
  if (values)
    for (const ir::ValueId v : graph.outputs()) all[graph.value(v).name] = values->at(v);
  return all;
}

// Integers are equal, floats within `tolerance` of themselves and 1: a sum in another order differs
// in the last bits.
inline void expect_equal(const NamedTensors& got, const NamedTensors& wanted,
                         double tolerance = 1e-11) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, exact] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name;
    const ref::Tensor& ours = got.at(name);
    ASSERT_EQ(ours.dims, exact.dims) << name;
    ASSERT_EQ(ours.i, exact.i) << name;
    ASSERT_EQ(ours.f.size(), exact.f.size()) << name;
    for (size_t e = 0; e < exact.f.size(); ++e) {
      if (std::isnan(exact.f[e]) && std::isnan(ours.f[e])) continue;
      if (ours.f[e] == exact.f[e]) continue;  // infinite, too
      ASSERT_NEAR(ours.f[e], exact.f[e], tolerance * (1 + std::abs(exact.f[e])))
          << name << "[" << e << "]";
    }
  }
}

}  // namespace lowtide
