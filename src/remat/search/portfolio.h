// The portfolio of the retention search, our own: several starts, and simulated annealing with
// restarts from the best, in series of rounds that get cooler.
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
