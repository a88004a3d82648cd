// Next-use intervals of a schedule, as caching knows them: stretches of runs in which a buffer is
// present and nobody uses it, so that it could as well be in the slow tier. That of a value lies
// between two uses of one of its instances; a resident (which moves as a whole or not at all) also
// has one before its first use and one after its last. A buffer that was stored once need not be
// stored again as long as nobody writes into it; so each interval has a number that counts the
// writers before it, its version: intervals of one version share a store.
//
// Tests: swap_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/schedule_problem.h"

namespace lowtide::remat {

struct IdleSpan {
  int movable = 0;
  int before = 0;   // the run that uses it last; -1: the span begins with the step
  int after = 0;    // the run that uses it next; the number of runs: it ends with the step
  int version = 0;  // writers that ran up to `before`
  // When it has come back for `after`, it stays until this run has used it. The number of runs: to
  // the end of the step, or its home is the slow tier.
  int stays_until = 0;
};

// A value or a resident with at least one idle span.
struct Movable {
  plan::SchedValueId value{};
  plan::SchedResidentId resident{};
  int64_t bytes = 0;
  uint8_t tier = 0;                        // where it goes; 0 as it is found
  double out_seconds = 0, in_seconds = 0;  // of one transfer on a free link of that tier
  std::vector<int> spans;                  // ascending in time
};

struct IdleSpanView {
  std::vector<Movable> movables;
  std::vector<IdleSpan> spans;
  std::vector<plan::SchedOpId> runs;
  std::vector<double> seconds;      // of each run
  std::vector<plan::Link> links;    // by tier
  std::vector<int64_t> base_bytes;  // present during each run when nothing moves
};

struct IdleSpanOptions {
  bool values = true;     // activations and gradients may move
  bool residents = true;  // parameters and optimizer state may move
};

// `runs` must be a valid schedule without transfers (simulate_sequence accepts it), and the problem
// must have a link. Error: as simulate_sequence.
Result<IdleSpanView> find_idle_spans(const plan::ScheduleProblem& problem,
                                     std::span<const plan::SchedAction> runs,
                                     const IdleSpanOptions& options);

// The movable goes to that tier.
void set_tier(IdleSpanView& view, Movable& movable, uint8_t tier);

}  // namespace lowtide::remat
