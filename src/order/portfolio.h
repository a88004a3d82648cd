// An algorithm portfolio for one part: heuristics, bound, greedy, exact search and beam, in the
// order in which they pay.
//
// Tests: order_options_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/work.h"
#include "order/cut_bound.h"
#include "order/order.h"
#include "order/order_graph.h"

namespace lowtide::order {

struct PartAnswer {
  std::vector<OpId> sequence;
  int64_t peak_bytes = 0;
  int64_t lower_bound_bytes = 0;
  std::optional<OpCut> cut;
  int64_t units = 0;
  bool exhausted = false;
  bool timed_out = false;

  bool optimal() const { return peak_bytes == lower_bound_bytes; }
};

PartAnswer solve_part(const OrderGraph& graph, const OrderOptions& options);

}  // namespace lowtide::order
