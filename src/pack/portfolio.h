// Several static orders race for one decision: round-robin with doubling slices of work, in
// parallel if wanted. Which order wins, and so the packing, does not depend on the number of
// threads.
#pragma once

#include <cstdint>
#include <vector>

#include "pack/instance.h"
#include "pack/pack.h"
#include "pack/search.h"

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
  // Decides whether the part fits below `capacity` (in units of the part), within about `budget`
  // units of work.
  Decision decide(int64_t capacity, int64_t budget, const StopSignal& stop);

 private:
  std::vector<DecisionSearch> searches_;
  int64_t first_slice_;
  int threads_;
};

}  // namespace lowtide::pack
