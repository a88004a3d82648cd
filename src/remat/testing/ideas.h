// The ideas of the search under a budget, for tests that go through all: those that have a name for
// `--without` (remat/ideas.h), and the three switches that callers in the code alone turn over.
#pragma once

#include <tuple>
#include <vector>

#include "base/testing/ideas.h"
#include "remat/ideas.h"

namespace lowtide::remat {

inline std::vector<Idea<JointOptions>> all_ideas() {
  std::vector<Idea<JointOptions>> ideas;
  for (const NamedIdea& idea : kIdeas) ideas.push_back({idea.name, idea.switch_off});
  ideas.push_back({"reorder", [](JointOptions& o) { o.remat.reorder = false; }});
  ideas.push_back({"all-starts", [](JointOptions& o) { o.remat.all_starts ^= true; }});
  ideas.push_back({"mend-starts", [](JointOptions& o) { o.remat.mend_starts ^= true; }});
  return ideas;
}

inline auto fields_of(const RematOptions& options) {
  const auto& [reorder, order_moves, stretch_moves, exchanges, de_remat, repeats, aimed_drops,
               aimed_moves, cut_start, mixed_start, order_start, greedy_start, chain_start,
               all_starts, mend_starts, restarts, cut_bound, several_cuts, exact_small, bound,
               least_peak_order, limits, proof_units, seed, threads, progress, known_starts,
               starts] = options;
  return std::tie(reorder, order_moves, stretch_moves, exchanges, de_remat, repeats, aimed_drops,
                  aimed_moves, cut_start, mixed_start, order_start, greedy_start, chain_start,
                  all_starts, mend_starts, restarts, cut_bound, several_cuts, exact_small, bound,
                  least_peak_order, limits, proof_units, seed, threads, progress, known_starts,
                  starts);
}

inline auto fields_of(const SwapOptions& options) {
  const auto& [spans, local_search, de_swap, limits, tidy_units, seed, known] = options;
  const auto& [values, residents] = spans;
  return std::tie(values, residents, local_search, de_swap, limits, tidy_units, seed, known);
}

inline auto fields_of(const JointOptions& options) {
  const auto& [remat, swap, recompute, transfers, each_alone, rules, tries] = options;
  return std::tuple_cat(fields_of(remat), fields_of(swap),
                        std::tie(recompute, transfers, each_alone, rules, tries));
}

}  // namespace lowtide::remat
