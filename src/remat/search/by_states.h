// Shortest paths (Dijkstra 1959) over all states of a small problem without transfers: which
// schedule within the budget is fastest, or that there is none.
//
// A state says which ops have run and which values are present. Running an op leads to one state
// for each choice of what goes afterwards among the values it used and made (no others: a value
// that stayed until now without being used might as well have gone after its last use). The length
// of a path is the time of reruns, so a shortest path (among equals the most advanced state first)
// is a fastest schedule. States are few when ops are few or when the budget is tight; where they
// are too many for the limits nothing is said.
//
// Tests: src/remat/remat_oracle_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/limits.h"
#include "remat/search/action_table.h"

namespace lowtide::remat {

// Tuning; each value beside half and twice of it: docs/tuning.md. Problems with at most as many ops
// and values are looked at; a state has bits for 32 and 64.
struct ByStatesTuning {
  size_t most_ops = 24, most_values = 40;
};
inline constexpr ByStatesTuning kByStates;

struct ByStatesResult {
  bool complete = false;                       // false: too large, or a limit came first
  std::optional<std::vector<SchedOpId>> best;  // if complete and empty: nothing fits
  int64_t units = 0;
};

ByStatesResult solve_by_states(const ActionTable& table, const Limits& limits);

}  // namespace lowtide::remat
