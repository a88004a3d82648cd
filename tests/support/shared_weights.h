// Random small networks that use a few weights again and again, so that their gradients are sums of
// many contributions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "ir/graph.h"
#include "support/graph_writer.h"

namespace lowtide {

// Rows that pass through shared weights, ending in their product with the table they began with.
class SharedWeights : public GraphWriter {
 public:
  static constexpr int64_t kWidth = 16;

  SharedWeights(uint64_t seed, int ops) : rng_(seed) {
    graph_.name = "sums";
    const ir::ValueId table = given("table", {12, kWidth}, Category::kParameter);
    const ir::ValueId rows = chosen_rows();
    for (const char* name : {"w0", "w1"})
      weights_.push_back(given(name, {kWidth, kWidth}, Category::kParameter));
    bias_ = given("bias", {kWidth}, Category::kParameter);
    scale_ = given("scale", {kWidth}, Category::kParameter);
    pool_.push_back(op("Gather", {table, rows}, {{"axis", int64_t{0}}}));
    for (int i = 0; i < ops; ++i) grow();
    ir::ValueId sum = any();
    for (ir::ValueId v : graph_.values())
      if (graph_.value(v).producer.valid() && graph_.readers(v).empty() && v != sum &&
          graph_.value(v).dims == graph_.value(sum).dims)
        sum = op("Add", {sum, v});
    const ir::ValueId logits = op("MatMul", {sum, table}, {{"trans_b", int64_t{1}}});
    graph_.set_output(op("Tanh", {logits}), true);
  }

 private:
  ir::ValueId any() {
    const size_t recent = std::min<size_t>(pool_.size(), 5);
    return pool_[pool_.size() - 1 - rng_.below(recent)];
  }
  ir::ValueId chosen_rows() {
    const int64_t rows[] = {3, 0, 11, 3, 7, 5};
    ir::Value value;
    value.name = "rows";
    value.dims = {6};
    value.dtype = DType::kI64;
    value.category = Category::kInput;
    value.initial.kind = ir::InitialValue::Kind::kInline;
    value.initial.bytes.assign(reinterpret_cast<const char*>(rows), sizeof rows);
    return graph_.add_value(std::move(value));
  }

  void grow() {
    const ir::ValueId x = any(), w = weights_[rng_.below(weights_.size())];
    switch (rng_.below(6)) {
      case 0:
        return pool_.push_back(op("Mul", {x, op("Sigmoid", {x})}));
      case 1:
        return pool_.push_back(
            op("LayerNorm", {x, scale_, bias_}, {{"axis", int64_t{1}}, {"epsilon", 1e-3}}));
      case 2:
        return pool_.push_back(op("Add", {x, any()}));
      case 3:
        return pool_.push_back(op("Add", {op("Tanh", {x}), bias_}));
      default:
        return pool_.push_back(op("Tanh", {op("MatMul", {x, w})}));
    }
  }

  Rng rng_;
  std::vector<ir::ValueId> pool_, weights_;
  ir::ValueId bias_, scale_;
};

}  // namespace lowtide
