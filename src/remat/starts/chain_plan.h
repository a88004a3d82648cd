// Dynamic programming over the stages of a chain (chain.h): the best way to go back along it within
// so many bytes. It is what Rotor does for sequential networks (Beaumont, Eyraud-Dubois, Herrmann,
// Joly, Shilova 2019), with several options for each stage as in Rockmate (Zhao et al. 2023), which
// goes back to Griewank and Walther's revolve (2000).
//
// The question of the recursion: stages a to b have to be run forward and then back, the input of
// stage a is in memory, and so many bytes are free; what is the least time? It is that of the
// better of two ways:
//
//   keep        Stage a runs and keeps its output and what one of its options keeps (an option says
//               which values stay and which are made again for the backward part, chain.h). Stages
//               a+1 to b are done in the bytes that are left, and the backward part of a is last.
//   checkpoint  Stages a to j-1 run and keep nothing but the input of a later stage j. Stages j to
//               b are done; then stages a to j-1, from their input, which is still there.
//
// It is answered for every a and b, shortest first, and every number of free bytes. Bytes are
// counted in equal grains and rounded up, so that what fits in grains fits in bytes.
//
// Only what stays between the stages is counted. What else lives across them (a skip connection) is
// not, so the runs of a plan may need more than it says, or less: plans are made for fewer bytes
// and for more until one fits best.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "remat/starts/chain.h"

namespace lowtide::remat {

// One step of the plan: the forward part of a stage runs, or its backward part after the reruns of
// an option.
struct ChainStep {
  size_t stage = 0;
  bool forward = true;
  size_t option = 0;  // of a backward part
};

struct ChainPlan {
  std::vector<ChainStep> steps;  // empty: nothing fits
  int64_t extra_cost = 0;
  int64_t units = 0;
};

// `grains`: into so many equal parts the bytes are divided.
ChainPlan plan_chain(const Chain& chain, double bytes, int grains);

struct ChainStart {
  std::vector<SchedOpId> sequence;  // correct, it need not fit; empty: there is no chain or no plan
  int64_t units = 0;
};

// `order`: each op once, correct.
ChainStart chain_start(const ActionTable& table, std::span<const SchedOpId> order);

}  // namespace lowtide::remat
