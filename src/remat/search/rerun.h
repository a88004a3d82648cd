// Recomputation of a value on demand, our own rules: a run of an op right before a given node, with
// what it needs. What the greedy start and the proposals both do to drop a value.
//
// Tests: proposals_test.cc.
#pragma once

#include "remat/search/sequence_state.h"

namespace lowtide::remat {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct RerunTuning {
  int deepest = 12;  // reruns that reruns need
};
inline constexpr RerunTuning kReruns;

// Runs `action` right before `node`. An input that is not there is made anew, in the same way,
// where its producer may run again, at most `depth` deep, and where anew(producer) says so;
// otherwise it lives longer. affordable(action) is asked before each run. False: it cannot be, and
// the caller undoes what is left of it.
template <class Anew, class Affordable>
// NOLINTNEXTLINE(misc-no-recursion): at most `depth` deep
bool rerun_before(SequenceState& state, SchedOpId action, NodeId node, int depth, const Anew& anew,
                  const Affordable& affordable) {
  const ActionTable& table = state.table();
  if (!affordable(action)) return false;
  for (const SchedValueId v : table.reads(action)) {
    if (state.alive_before(v, node)) continue;
    const SchedOpId producer = table.producer(v);
    if (depth == 0 || !table.may_rerun(producer) || !anew(producer)) continue;
    if (!rerun_before(state, producer, node, depth - 1, anew, affordable)) return false;
  }
  const NodeId previous = state.timeline().previous(node);
  if (!state.can_insert(action, previous)) return false;
  state.insert_after(previous, action);
  return true;
}

}  // namespace lowtide::remat
