// Attention whose heads are summed up, so that they are an axis class of their own beside the
// samples. Of a few samples, scores are most of the memory: once there are no more samples to cut,
// heads are what is left.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "support/graph_writer.h"

namespace lowtide {

inline ir::Graph coupled_heads(int64_t samples, int layers = 2) {
  constexpr int64_t kHeads = 4, kRows = 32, kWide = 4;
  GraphWriter net;
  ir::ValueId x = net.given("x", {samples, kHeads, kRows, kWide});
  const auto projected = [&](ir::ValueId from) {
    return net.op("MatMul", {from, net.given("w", {kWide, kWide}, Category::kParameter)});
  };
  for (int layer = 0; layer < layers; ++layer) {
    ir::ValueId scores = net.op("MatMul", {projected(x), projected(x)}, {{"trans_b", int64_t{1}}});
    scores = net.op("Softmax", {net.op("Tanh", {scores})}, {{"axis", int64_t{3}}});
    const ir::ValueId made = net.op("MatMul", {scores, projected(x)});
    const ir::ValueId sum =
        net.op("ReduceSum", {made}, {{"axes", ir::Dims{1}}, {"keepdims", int64_t{1}}});
    x = net.op("Add", {x, sum});
  }
  net.result(x);
  return net.graph();
}

}  // namespace lowtide
