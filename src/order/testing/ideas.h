// The ideas of the order solver, one for each switch of its options, for tests that go through all.
#pragma once

#include <tuple>
#include <vector>

#include "base/testing/ideas.h"
#include "order/order.h"

namespace lowtide::order {

inline std::vector<Idea<OrderOptions>> all_ideas() {
  return {
      {"decompose", [](OrderOptions& o) { o.decompose = !o.decompose; }},
      {"list_rules", [](OrderOptions& o) { o.list_rules = !o.list_rules; }},
      {"post_orders", [](OrderOptions& o) { o.post_orders = !o.post_orders; }},
      {"closure_greedy", [](OrderOptions& o) { o.closure_greedy = !o.closure_greedy; }},
      {"random_restarts", [](OrderOptions& o) { o.random_restarts = 0; }},
      {"safe_moves", [](OrderOptions& o) { o.safe_moves = !o.safe_moves; }},
      {"excursions", [](OrderOptions& o) { o.excursions = !o.excursions; }},
      {"cut_bound", [](OrderOptions& o) { o.cut_bound = !o.cut_bound; }},
      {"exact_search", [](OrderOptions& o) { o.exact_search = !o.exact_search; }},
      {"beam", [](OrderOptions& o) { o.beam = !o.beam; }},
  };
}

inline auto fields_of(const OrderOptions& options) {
  const auto& [decompose, list_rules, post_orders, closure_greedy, random_restarts, safe_moves,
               excursions, cut_bound, exact_search, beam, limits, idle_units, seed, threads] =
      options;
  return std::tie(decompose, list_rules, post_orders, closure_greedy, random_restarts, safe_moves,
                  excursions, cut_bound, exact_search, beam, limits, idle_units, seed, threads);
}

}  // namespace lowtide::order
