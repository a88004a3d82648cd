// Where every buffer lies and when: the stays of a plan (src/plan/plan.h) one by one, as the steps
// say them. A stay begins with the step that makes or loads the storage, or with the step 0 for
// what is there before; it ends with the free, with the step in which another storage takes over
// its buffer, or with the step's end.
//
// Pieces of a whole have their own stays, the whole has none. Of a plan that does not verify the
// stays are what its steps say, however wrong: a storage that is freed twice ends once, one that is
// made while it is there begins again.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

enum class StayBegin : uint8_t { kMade, kMadeAgain, kLoaded, kResident };

struct Stay {
  plan::PlanStorageId storage{};
  int64_t address = 0;
  size_t begin = 0, end = 0;  // steps [begin, end)
  StayBegin why = StayBegin::kMade;
  int32_t took_over = -1;  // the stay whose buffer this one took over, into the same list
  bool operator==(const Stay&) const = default;
};

// By begin; residents first, those of one step in the order in which the step names them. O(steps).
std::vector<Stay> stays_of(const plan::Plan& plan);

// Present while each step runs, workspace included; at a free what is left behind it.
std::vector<int64_t> bytes_of(const plan::Plan& plan, const std::vector<Stay>& stays);

}  // namespace lowtide::report
