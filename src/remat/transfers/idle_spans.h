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

#include "base/id.h"
#include "plan/schedule_problem.h"

namespace lowtide::remat {

struct MovableTag;
struct IdleSpanTag;
struct RunTag;
struct MomentTag;
using MovableId = Id<MovableTag>;
using IdleSpanId = Id<IdleSpanTag>;
using RunId = Id<RunTag>;      // a run, by its place in the sequence of runs
using Moment = Id<MomentTag>;  // just before the run of the same number, or the end of the step

constexpr Moment just_before(RunId run) {
  return Moment(run.index());
}
constexpr Moment just_after(RunId run) {
  return Moment(run.index() + size_t{1});
}

// The runs between two moments, in their order.
struct RunRange {
  Moment from, to;
  using Iterator = IdRange<RunId>::Iterator;
  Iterator begin() const { return Iterator(from.index()); }
  Iterator end() const { return Iterator(to.index()); }
  bool has(RunId run) const { return from.index() <= run.index() && run.index() < to.index(); }
};

struct IdleSpan {
  MovableId movable;
  Moment from;      // just after the run that uses it last; 0: the span begins with the step
  Moment to;        // just before the run that uses it next; the number of runs: the step's end
  int version = 0;  // writers that ran up to `from`
  // When it has come back at `to`, it stays until this run has used it. The number of runs: to the
  // end of the step, or its home is the slow tier.
  RunId stays_until;

  bool begins_with_step() const { return from.index() == 0; }
  RunRange runs() const { return {from, to}; }
};

// A value or a resident with at least one idle span.
struct Movable {
  plan::SchedValueId value{};
  plan::SchedResidentId resident{};
  int64_t bytes = 0;
  int64_t moved_parts = 1;  // that a transfer stands for, each of so many bytes
  int64_t moved_bytes() const { return bytes * moved_parts; }
  uint8_t tier = 0;                        // where it goes; 0 as it is found
  double out_seconds = 0, in_seconds = 0;  // of one transfer on a free link of that tier
  std::vector<IdleSpanId> spans = {};      // ascending in time
};

struct IdleSpanView {
  IdVector<MovableId, Movable> movables;
  IdVector<IdleSpanId, IdleSpan> spans;
  IdVector<RunId, plan::SchedOpId> runs;
  IdVector<RunId, double> seconds;
  std::vector<plan::Link> links;        // by tier
  IdVector<RunId, int64_t> base_bytes;  // present during each run when nothing moves

  Moment end() const { return Moment(runs.size()); }
  const Movable& movable_of(IdleSpanId span) const { return movables[spans[span].movable]; }
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

// Of one transfer on a free link: all of its parts.
struct TransferSeconds {
  double out = 0, in = 0;
};
TransferSeconds transfer_seconds(const Movable& movable, const plan::Link& link);

// The movable goes to that tier.
void set_tier(IdleSpanView& view, Movable& movable, uint8_t tier);

}  // namespace lowtide::remat
