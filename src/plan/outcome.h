// What a solver answers, whatever the question. Infeasible and out-of-limit are answers, not
// errors.
//
// Tests: src/order/order_options_test.cc.
#pragma once

#include <cstdint>
#include <string_view>

namespace lowtide::plan {

enum class SolveStatus {
  kOptimal,     // a solution whose value equals the proven bound
  kFeasible,    // a solution and a bound below it; the search stopped by choice
  kInfeasible,  // proven: no solution exists (within the budget or capacity of the problem)
  kLimit,       // the work or time limit ended the search; a solution may or may not be present
};

// "optimal", "feasible", "infeasible", "limit": the words of the command line and of JSON.
constexpr std::string_view name(SolveStatus status) {
  switch (status) {
    case SolveStatus::kOptimal:
      return "optimal";
    case SolveStatus::kFeasible:
      return "feasible";
    case SolveStatus::kInfeasible:
      return "infeasible";
    case SolveStatus::kLimit:
      return "limit";
  }
  return "?";
}

// Counters of one solve. `units` is deterministic; `seconds` and `timed_out` are for people and
// never reach a plan.
struct SolveWork {
  int64_t units = 0;
  double seconds = 0;
  bool timed_out = false;
};

}  // namespace lowtide::plan
