// Dynamic programming over the stages of a chain (chain.h): the best way to go back along it within
// so many bytes. It is what Rotor does for sequential networks (Beaumont, Eyraud-Dubois, Herrmann,
// Joly, Shilova 2019), with several options for each stage as in Rockmate (Zhao et al. 2023), which
// goes back to Griewank and Walther's revolve (2000).
//
// Stages a..b have to be run forward and back, and the input of stage a is there. Either stage a
// runs, keeps what one of its options keeps and its output, stages a+1..b follow, and it is gone
// back through at the end. Or stages a..j-1 run and keep only the input of stage j; j..b are done;
// then a..j-1 are done from the beginning. The least time for every a, b and number of bytes left,
// which is counted in equal units, rounded so that what fits in units fits in bytes.
//
// What stays in memory between the stages is all that is counted; what lives across them otherwise
// is not. So a plan is made for fewer bytes, or for more, until its runs fit best.
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

// `grains`: units into which the bytes are divided.
ChainPlan plan_chain(const Chain& chain, double bytes, int grains);

struct ChainStart {
  std::vector<SchedOpId> sequence;  // correct, it need not fit; empty: there is no chain or no plan
  int64_t units = 0;
};

// `order`: each op once, correct.
ChainStart chain_start(const ActionTable& table, std::span<const SchedOpId> order);

}  // namespace lowtide::remat
