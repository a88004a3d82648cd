// Random networks whose ops have many orders, for searches that take one after another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "support/graph_writer.h"

namespace lowtide {

// Rows through weights that are used again and again, some of them as they were before: orders of
// ops that matter, and other ones of parts.
inline ir::Graph tangled(uint64_t seed) {
  GraphWriter net;
  Rng rng(seed);
  std::vector<ir::ValueId> made = {net.given("x", {256, 8})};
  for (int op = 0; op < 14; ++op) {
    const ir::ValueId x = made[made.size() - 1 - rng.below(std::min<size_t>(made.size(), 4))];
    const int64_t from = *net.graph().value(x).dims[1].constant();
    const int64_t to = int64_t{8} << rng.below(4);
    const ir::ValueId w = net.given("w", {from, to}, Category::kParameter);
    made.push_back(net.op(rng.below(2) == 0 ? "Tanh" : "Exp", {net.op("MatMul", {x, w})}));
  }
  for (const ir::ValueId v : made)
    if (net.graph().value(v).producer.valid() && net.graph().readers(v).empty()) net.result(v);
  return net.with_one_result();
}

}  // namespace lowtide
