// Beam search: the anytime improver of orders for wide graphs, where exact search does not end.
//
// Prefixes are grouped by the number of ops they have run; of each group only the `width` with the
// least live bytes go on, and each is expanded by every ready op within the budget and the safe
// moves after it (Serenity, MLSys 2020, keeps all of them; HMCOS, DAC 2022, groups ops instead). It
// proves nothing: a wide beam finds good orders, a narrow one finds them soon.
//
// Tests: order_random_test.cc, order_ideas_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/work.h"
#include "order/order_graph.h"
#include "order/safe_moves.h"

namespace lowtide::order {

// An order whose peaks are at most the budget; empty if the beam found none or the work is spent.
std::vector<OpId> beam_search(const OrderGraph& graph, int64_t budget_bytes, size_t width,
                              const SafeMoveOptions& safe, WorkBudget& work);

}  // namespace lowtide::order
