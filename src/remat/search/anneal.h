// Simulated annealing (Kirkpatrick, Gelatt and Vecchi 1983) over sequences of runs: one annealing
// run of the retention search, from a given start.
//
// A change is a proposal (proposals.h) and is taken by Metropolis's rule. Energy = extra time /
// time of each op once + mu * sum over nodes of overflow / capacity. Early, mu is small: the walk
// leads through schedules that do not fit, which is how it gets around corners; mu grows until only
// schedules that fit are left. The temperature falls geometrically. Progress is measured in units
// of work, so the same limits give the same answer everywhere, and a run that is stopped early has
// walked the same way as far as it came.
//
// Tests: src/remat/remat_test.cc, src/remat/ideas_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "base/work.h"
#include "remat/search/proposals.h"
#include "remat/search/sequence_state.h"

namespace lowtide::remat {

struct AnnealOptions {
  double hot = 0, cold = 0;   // temperature from .. to, in shares of the step's time; above 0
  double loose = 0;           // mu at the beginning
  int64_t units = 1'000'000;  // of the whole schedule of temperature and mu
  ProposalOptions proposals;
};

// A sequence that fits, and its price.
struct Found {
  std::vector<SchedOpId> sequence;
  int64_t extra_cost = 0;
};

// What ends a run before its schedule does; looked at now and then.
struct AnnealWatch {
  Limits limits{};
  const WorkBudget* clock = nullptr;  // of the seconds; none: they are no limit
  bool stopped(int64_t units) const {
    return units >= limits.max_units ||
           (clock != nullptr ? limits.stop_after(clock->seconds()) : limits.cancelled());
  }
};

struct AnnealResult {
  std::optional<Found> best;  // that fits
  int64_t edits = 0, work = 0;
};

// Runs on `state`, which it leaves where it ended.
AnnealResult anneal(SequenceState& state, const AnnealOptions& options, Rng& rng,
                    const AnnealWatch& watch);

}  // namespace lowtide::remat
