// Small training steps, cuts of their ops and what they compute, for tests of steps in parts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "fission/expand.h"
#include "ops/op_table.h"
#include "support/compare_effects.h"
#include "support/graph_writer.h"
#include "support/run_against_reference.h"
#include "support/shared_weights.h"

namespace lowtide {

// A small network of images: convolutions, pools, a norm, a product; or attention over rows.
class Steps : private GraphWriter {
 public:
  explicit Steps(Rng& rng) : rng_(rng) {}

  ir::Graph images() {
    ir::ValueId x = given("x", {4, 3, 8, 8}, Category::kInput);
    const ir::Attrs same = {{"strides", ir::Dims{1, 1}}, {"pads", ir::Dims{1, 1, 1, 1}}};
    const ir::ValueId shared = given("shared", {6, 6, 3, 3}, Category::kParameter);
    x = op("Conv", {x, given("w", {6, 3, 3, 3}, Category::kParameter), vector("b", 6)}, same);
    x = op("Relu", {op("Conv", {op("Tanh", {x}), shared}, same)});
    if (rng_.below(2) == 0) x = op("Add", {x, op("Sigmoid", {op("Conv", {x, shared}, same)})});
    const ir::Attrs halves = {{"kernel", ir::Dims{2, 2}},
                              {"strides", ir::Dims{2, 2}},
                              {"pads", ir::Dims{0, 0, 0, 0}},
                              {"dilations", ir::Dims{1, 1}},
                              {"ceil_mode", int64_t{0}}};
    x = op(rng_.below(2) == 0 ? "MaxPool" : "AvgPool", {x}, halves);
    x = op("Reshape", {x}, {{"shape", ir::Dims{4, 96}}});
    const ir::ValueId mean =  // whose gradient has the same kind of op as its parts' weights
        op("ReduceMean", {x}, {{"axes", ir::Dims{0}}, {"keepdims", int64_t{1}}});
    x = op("Sub", {x, mean});
    return finished(
        op("MatMul", {x, given("head", {96, 5}, Category::kParameter), vector("c", 5)}));
  }

  ir::Graph attention() {
    const ir::ValueId rows = given("x", {2, 6, 16}, Category::kInput);
    const ir::ValueId normal = op("LayerNorm", {rows, vector("s", 16), vector("t", 16)},
                                  {{"axis", int64_t{2}}, {"epsilon", 1e-3}});
    const auto heads = [&](const std::string& name) {
      const ir::ValueId y = op("MatMul", {normal, given(name, {16, 16}, Category::kParameter)});
      return op("Transpose", {op("Reshape", {y}, {{"shape", ir::Dims{2, 6, 4, 4}}})},
                {{"perm", ir::Dims{0, 2, 1, 3}}});
    };
    const ir::ValueId q = heads("q"), k = heads("k"), v = heads("v");
    const ir::ValueId scores =
        op("Softmax", {op("MatMul", {q, k}, {{"trans_b", int64_t{1}}})}, {{"axis", int64_t{3}}});
    ir::ValueId y =
        op("Transpose",
           {op("MatMul", {op("Dropout", {scores}, {{"ratio", 0.25}, {"stream", int64_t{3}}}), v})},
           {{"perm", ir::Dims{0, 2, 1, 3}}});
    y = op("Reshape", {y}, {{"shape", ir::Dims{2, 6, 16}}});
    return finished(op("Add", {rows, op("Tanh", {y})}));
  }

 private:
  ir::Graph finished(ir::ValueId result) {
    graph_.set_output(result, true);
    return std::move(graph_);
  }
  ir::ValueId vector(std::string name, int64_t size) {
    return given(std::move(name), {size}, Category::kParameter);
  }

  Rng& rng_;
};

inline ir::Graph network(uint64_t seed, Rng& rng) {
  switch (seed % 3) {
    case 0:
      return Steps(rng).images();
    case 1:
      return Steps(rng).attention();
    default:
      return SharedWeights(seed, 8).graph();
  }
}

inline ir::Graph training_step_of(const ir::Graph& network) {
  autodiff::TrainingOptions training;
  training.loss.kind = autodiff::LossKind::kMeanSquaredError;
  training.optimizer.kind = autodiff::OptimizerKind::kSgd;
  auto step = autodiff::make_training_graph(network, training);
  EXPECT_TRUE(step.has_value()) << (step ? "" : step.error().message);
  return std::move(*step);
}

inline ir::Graph training_step(uint64_t seed, Rng& rng) {
  return training_step_of(network(seed, rng));
}

inline bool overwrites(const ir::Graph& graph, ir::OpId id) {
  const auto& outputs = graph.op(id).outputs;
  return std::any_of(outputs.begin(), outputs.end(), [&](ir::ValueId output) {
    return graph.value(output).alias == ir::Alias::kUpdate;
  });
}

// The axes along which the op can be cut in these places.
struct Choice {
  ir::OpId op;
  fission::Cut cut;
  std::string axis;
};

inline bool can_cut(const ops::Instance& instance, const fission::Cut& cut) {
  for (size_t k = 0; k + 1 < cut.bounds.size(); ++k)
    if (!ops::part(instance, cut.axis, cut.bounds[k], cut.bounds[k + 1])) return false;
  return true;
}

inline std::vector<Choice> choices(const ir::Graph& graph, ir::OpId id, Rng& rng) {
  std::vector<Choice> found;
  const ops::Instance instance = ops::instance_of(graph, id);
  const auto map = ops::axis_map(instance);
  if (!map || overwrites(graph, id)) return found;
  for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis) {
    const int64_t extent = *map->axes[static_cast<size_t>(axis)].extent.constant();
    if (extent < 2 || !ops::can_split(*map, axis)) continue;
    std::vector<int64_t> bounds = {0, rng.between(1, extent - 1), extent};
    if (const int64_t more = rng.between(1, extent - 1); more != bounds[1])
      bounds.insert(bounds.begin() + (more < bounds[1] ? 1 : 2), more);
    if (rng.below(2) == 0 && extent % 2 == 0) bounds = {0, extent / 2, extent};
    fission::Cut cut{axis, std::move(bounds)};
    if (can_cut(instance, cut))
      found.push_back({id, std::move(cut), map->axes[static_cast<size_t>(axis)].name});
  }
  return found;
}

// Integers that are fed are below the limit.
inline ref::Values values_of(const ir::Graph& graph, int64_t integer_limit = 1) {
  ref::Context context;
  context.seed = kSeed;
  context.precision = ref::Precision::kF64;
  context.integer_limit = integer_limit;
  context.seed_missing_inputs = true;
  auto values = ref::interpret(graph, {}, context);
  EXPECT_TRUE(values.has_value()) << (values ? "" : values.error().message);
  return std::move(*values);
}

// Results of the step and what parameters are after it, by name.
inline Effects effects(const ir::Graph& graph, int64_t integer_limit = 1) {
  const ref::Values values = values_of(graph, integer_limit);
  Effects all;
  for (ir::ValueId v : graph.outputs()) all[graph.value(v).name] = values.at(v).f;
  for (ir::ValueId v : graph.values())
    if (graph.value(v).alias == ir::Alias::kUpdate) all[graph.value(v).name] = values.at(v).f;
  return all;
}

// Of results and parameters after the step.
inline void expect_equal_effects(const ir::Graph& parts, const ir::Graph& step) {
  ASSERT_EQ(difference(effects(parts), effects(step)), "");
}

}  // namespace lowtide
