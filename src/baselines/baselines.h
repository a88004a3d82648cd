// Published methods that keep a step within a byte budget, each by its own rules, so that what
// Lowtide's searches find stands beside what the literature finds under the same costs and in the
// same simulator (plan/sequence_simulator.h).
//
//   chen   Checkpoints at the borders of segments (Chen, Xu, Zhang, Guestrin 2016): chen.h
//   dtr    Dynamic tensor rematerialization (Kirisame et al., ICLR 2021): dtr.h
//   xla    The rematerialization pass of XLA, with host offloading (OpenXLA): xla.h
//   pofo   Rematerialization and offloading along a chain (Beaumont, Eyraud-Dubois, Shilova,
//          NeurIPS 2021): pofo.h
//
// All keep the order that came in: the first runs stand in it, reruns and moves are put between
// them. What fits as it came in is the answer without more. None proves anything: a budget that is
// not kept is kLimit, never kInfeasible. Same problem, same options: same answer.
//
// Tests: chen_test.cc, dtr_test.cc, xla_test.cc, pofo_test.cc, baselines_oracle_test.cc.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "plan/outcome.h"
#include "plan/schedule_problem.h"

namespace lowtide::baselines {

using plan::SchedAction;
using plan::SchedOpId;
using plan::SchedValueId;

enum class Method : uint8_t { kChen, kDtr, kXla, kPofo };

// Their words on the command line, in the order of Method.
inline constexpr std::array<std::string_view, 4> kMethodNames = {"chen", "dtr", "xla", "pofo"};

struct BaselineOptions {
  Limits limits{.max_units = 4'000'000'000};
  // Which ops are the forward part, for methods that tell it from the rest; empty: as forward_part
  // (forward.h) finds it.
  IdVector<SchedOpId, char> forward = {};
};

struct BaselineOutcome {
  plan::SolveStatus status = plan::SolveStatus::kLimit;
  std::vector<SchedAction> sequence;  // empty: none within the budget was found
  int64_t peak_bytes = 0;
  double seconds = 0;  // of the step
  plan::SolveWork work;

  bool found() const { return status != plan::SolveStatus::kLimit; }
};

// `problem` must pass plan::check; without a budget all of memory is there. What moves goes to the
// first link's tier. kOptimal: no longer than each op once.
BaselineOutcome solve(const plan::ScheduleProblem& problem, Method method,
                      const BaselineOptions& options = {});

}  // namespace lowtide::baselines
