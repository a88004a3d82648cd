// An algorithm portfolio with randomised restarts: several static orders race for one decision,
// round-robin with doubling slices of work, and beside them short searches in orders that were
// shuffled a little; in parallel if wanted. Which order wins, and so the packing, does not depend
// on the number of threads.
//
// Tests: pack_exhaustive_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "pack/instance.h"
#include "pack/pack.h"
#include "pack/search.h"
#include "pack/topology.h"

namespace lowtide::pack {

class StopSignal;

struct Decision {
  Verdict verdict = Verdict::kOpen;
  std::vector<int64_t> offsets;  // by item, if kFits
  int64_t units = 0;
};

class Portfolio {
 public:
  Portfolio(const Part& part, const PackOptions& options);
  Portfolio(const Portfolio&) = delete;
  Portfolio& operator=(const Portfolio&) = delete;
  // Decides whether the part fits below `capacity` (in units of the part), within about so many
  // units of work.
  Decision decide(int64_t capacity, int64_t units, const StopSignal& stop);

 private:
  // A static order and the search that follows it.
  struct Racer {
    std::vector<int32_t> order;
    std::unique_ptr<Decider> search;
  };
  bool race(std::vector<Racer>& racers, int64_t slice, const StopSignal& stop, Decision& decision);
  void shuffle(Racer& racer);

  Topology topology_;
  std::vector<Racer> fixed_;     // one for each static order
  std::vector<Racer> tightest_;  // one for each static order of theirs
  std::vector<Racer> shuffled_;  // get new orders all the time
  std::vector<int32_t> winner_;  // the order that fitted last; empty: none did
  Rng rng_;
  uint64_t shuffles_ = 0;
  int64_t turns_ = 0;  // of the shuffled ones
  int64_t units_ = 0;  // of all decisions
  int64_t first_slice_;
  int threads_;
};

}  // namespace lowtide::pack
