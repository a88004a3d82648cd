// Reachability: who comes before whom in every schedule, and what may run again: what the bounds on
// bytes and time under a budget rest on. Written down from the plan's ops alone.
//
// Tests: time_bound_test.cc.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "verify/facts.h"

namespace lowtide::verify {

struct Precedence {
  using Mark = IdVector<PlanOpId, char>;
  using Storages = IdVector<PlanStorageId, char>;

  explicit Precedence(const Facts& facts);

  // Ops that have run, and ops that have not, when `op` runs for the first time; without `op`.
  Mark ancestors(PlanOpId op) const;
  Mark descendants(PlanOpId op) const;
  bool reads(PlanOpId op, PlanStorageId s) const {
    return std::binary_search(inputs[op].begin(), inputs[op].end(), s);
  }
  // A resident that can be elsewhere while no op reads it: some op does, or the plan moves it, and
  // the step does not return it as it is. Only where there is a slow tier.
  bool may_move(PlanStorageId s) const { return movable_[s] != 0; }

  const Facts& facts;
  // Makers of inputs, and of the versions that they are of, control edges, and for an op that
  // overwrites a storage all who read what it destroys.
  IdVector<PlanOpId, std::vector<PlanOpId>> predecessors;
  // Those of them that make no mere views: all their runs come after all runs of the op. Who reads
  // a version that an op made by overwriting is one: there is no other time at which it could.
  IdVector<PlanOpId, std::vector<PlanOpId>> followers;
  Mark may_rerun;
  IdVector<PlanOpId, std::vector<PlanStorageId>> inputs;  // ascending; of ops that compute

 private:
  void add(PlanOpId before, PlanOpId after);
  void find_movable();
  Storages movable_;
};

// The moment at which an op runs for the first time: what is with it in memory, and what later ops
// will want.
struct Moment {
  Moment(const Precedence& precedence, PlanOpId op);

  // May not run again, or not first, after the op has run.
  bool locked(PlanOpId maker) const;
  // Of a storage that stays, beside what is present anyway.
  int64_t stay_bytes(PlanStorageId s) const;

  const Precedence& precedence;
  PlanOpId op;
  Precedence::Mark before, after;                              // ancestors; descendants
  Precedence::Storages is_input;                               // made by an op and read by this one
  std::vector<std::pair<PlanStorageId, PlanStorageId>> pairs;  // that it can reuse in place
  // Residents that cannot be elsewhere, inputs, outputs and workspace, less the most it reuses.
  int64_t present_bytes = 0;
};

// The first runs of several moments' ops, each after the one before in every schedule, cut every
// schedule into segments; k begins with the k-th.
struct Segments {
  Segments(const Precedence& precedence, const std::vector<Moment>& moments);

  // Is this the segment of the first run, whatever the schedule?
  bool forced(PlanOpId op, size_t k) const { return first[op] == k && latest[op] == k; }
  bool may_run(PlanOpId op, size_t k) const { return first[op] <= k && k <= last[op]; }

  IdVector<PlanOpId, size_t> first, latest;  // of the first run
  IdVector<PlanOpId, size_t> last;           // of any run
};

// No schedule needs less (floor.cc). The search ends where it has shown `enough`, and begins with
// `first`, if that is an op.
int64_t floor_bytes(const Precedence& precedence,
                    int64_t enough = std::numeric_limits<int64_t>::max(), PlanOpId first = {});
// A certificate that takes more sets of storages is refused; the search for them looks at fewer.
constexpr size_t kMostBackwardSets = 50'000;
// Does the certificate show that no schedule needs less than so many bytes (backward.cc)?
bool needs_backwards(const Precedence& precedence, const plan::BackwardWay& way, int64_t bytes,
                     size_t most_sets = kMostBackwardSets);

}  // namespace lowtide::verify
