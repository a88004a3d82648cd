// Local moves of runs in the order, our own: blind ones, anywhere that inputs, readers and control
// allow, and aimed ones, which take bytes away from a given moment.
//
// A value is present at a moment because its maker ran before it, or because its last reader did
// not yet. So either the maker is moved past the moment, to right before the first reader of
// anything it makes, or the last reader is moved before the moment. Moving the maker keeps its
// inputs longer; where one of them was made for it alone, its maker may go with it. Moving the
// reader needs its inputs sooner; makers that stand between go with it. Gradients are accumulated
// and parameters updated early that way, and reruns stand right before who needs them.
//
// Each takes no time and may raise memory elsewhere: that is for the caller to judge.
#pragma once

#include "base/rng.h"
#include "remat/search/sequence_state.h"

namespace lowtide::remat {

class OrderMoves {
 public:
  // Borrows both.
  OrderMoves(SequenceState& state, Rng& rng) : state_(&state), table_(&state.table()), rng_(&rng) {}

  // Each is false if nothing came of it; the caller undoes what is left of it.
  bool anywhere(NodeId node);
  bool relieve(NodeId moment);

 private:
  struct Range {
    SlotId lo, hi;  // after lo at the earliest, before hi at the latest
  };
  Range range_of(NodeId node) const;
  bool move_after(NodeId node, NodeId previous);
  bool try_value(SchedValueId value, NodeId moment, bool& moved);
  bool postpone(NodeId node, NodeId moment, NodeId target, int depth);
  bool advance(NodeId node, NodeId moment, int depth);
  NodeId first_reader(NodeId node) const;

  SequenceState* state_;
  const ActionTable* table_;
  Rng* rng_;
};

}  // namespace lowtide::remat
