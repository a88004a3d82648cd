// The chain in a training step, found by a heuristic of our own: stages of ops that pass on one
// value each, and for each stage the part of the step that goes back through it.
//
// First an op in the middle is found, as a rule the loss: the one that most bytes pass by, in
// values that it or what it depends on makes and that ops read which depend on it. The op and all
// that it depends on are the *forward* part. A stage ends where, besides values too small to
// matter, just one value of the forward part is still to be read by that part: the next stages know
// nothing else of those before. All other ops, in their order, are the *backward* part; it comes
// back to a stage when it first reads something that the stage made.
//
// A value that a few cheap ops make from what is always there (a causal mask) is no end of a stage
// and stands in the way of none: it lives on, or is made anew, at next to no price.
//
// A stage has several *options*: which of the values that its backward part reads stay, and which
// are made again from those and from the stage's input, each right before it is first needed. They
// are found by greed, one value after another, that which saves the most bytes for the time of its
// rerun: first everything stays, last nothing that can be made again. In long stages a value has the
// time of its rerun where all others stay, in very long ones that of its own producer, and options
// are those at which half of the bytes stay, a quarter and so on. Bytes and peaks of an option follow
// from its runs, as everywhere; what is reused in place is not counted on.
//
// What makes nothing, as updates of weights, is done in the first backward part in which it can be,
// wherever the order has it: an order with the least peak need not care when.
//
// Tests: chain_plan_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "remat/search/action_table.h"

namespace lowtide::remat {

// One way to go back through a stage.
struct ChainOption {
  int64_t cost = 0;                 // of the reruns
  double kept_bytes = 0;            // between both parts, without the stage's input and output
  double forward_peak = 0;          // while the forward part runs; without the stage's input
  double backward_peak = 0;         // while reruns and backward part run; without the stage's input
  std::vector<SchedOpId> backward;  // the backward part, and the reruns in it
};

struct ChainStage {
  SchedValueId input;  // it begins with; or none
  double input_bytes = 0;
  int64_t forward_cost = 0;   // of one more run of the forward part
  double pass_peak = 0;       // while it runs and nothing but its output stays
  double gradient_bytes = 0;  // of later backward parts, needed at its own or before it
  std::vector<SchedOpId> forward, backward;
  std::vector<ChainOption> options;  // at least one; the dearer, the less they keep
};

struct Chain {
  std::vector<ChainStage> stages;  // empty: the step has no chain
  int64_t units = 0;               // the work of finding out
};

// `order`: each op once, correct.
Chain find_chain(const ActionTable& table, std::span<const SchedOpId> order);

}  // namespace lowtide::remat
