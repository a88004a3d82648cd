// The portfolio of the retention search, our own: simulated annealing (anneal.h) from several
// starts, with restarts from the best results.
//
// A *round* is a few annealing runs with the same work and temperature, one after the other or on
// several threads. A *series* is up to three rounds: the first begins with the given starts, each
// later one at a lower temperature with fewer runs, which go on from the best results of the round
// before (the survivors); the last also from the best schedule ever found. The first series is
// short, each further one four times as long, until the work is spent: easy problems end early, and
// hard ones get annealing that is slow enough. All results are taken in a fixed order, so the
// answer does not depend on the threads.
//
// Tests: src/remat/remat_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/work.h"
#include "remat/search/anneal.h"

namespace lowtide::remat {

struct PortfolioOptions {
  ProposalOptions proposals;      // whose blocks are found here
  bool restarts = true;           // several seeds and cooler rounds; off: one long annealing
  Limits limits{.max_units = 0};  // by the caller's clock
  uint64_t seed = 1;
  int threads = 1;  // the answer does not depend on it
};

struct PortfolioResult {
  std::vector<SchedOpId> sequence;  // empty: nothing that fits was found
  int64_t extra_cost = 0;
  int64_t units = 0, edits = 0;
  bool cut_short = false;  // by the clock or the cancel flag
};

// What is called between rounds: the best so far (its sequence is empty if nothing fits yet) and
// the share of the work that is done.
using PortfolioReport = std::function<void(const Found& best, double share)>;

// `starts`: correct sequences of runs, at least one; those that do not fit are good starts too.
// `bound_cost`: extra cost that no schedule is below; where it is reached the search ends.
PortfolioResult search(const ActionTable& table, const std::vector<std::vector<SchedOpId>>& starts,
                       int64_t bound_cost, const PortfolioOptions& options, WorkBudget& clock,
                       const PortfolioReport& report);

}  // namespace lowtide::remat
