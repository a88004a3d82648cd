// Proposals: the random changes that the retention search tries, each a short chain of insertions
// and removals of runs.
//
//   drop      a value leaves memory in a gap between two of its uses: its producer runs again
//   before
//             the second. Inputs that are not there then live longer or are made anew as well.
//   keep      a rerun goes, so the value stays through; what it alone needed goes too.
//   move      a run takes place elsewhere, as far as its inputs, readers and control let it.
//   drop block   a stretch of runs is done again, once, before the first later use of anything it
//             makes: all its inner values leave memory together.
//   keep block   a stretch of reruns goes.
//   exchange  a rerun goes, and where memory overflows then, other values are dropped.
//   copy      what one block does about its values, another does too (blocks.h): its own reruns
//             go, and those of the first are made for it at the same places.
//
// Half of the drops are aimed: at a value that is present, but idle, where memory overflows. None
// of them is judged here; the caller compares the state before and after and may undo.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "remat/blocks.h"
#include "remat/sequence_state.h"

namespace lowtide::remat {

struct ProposalOptions {
  bool order_moves = true;
  bool block_moves = true;
  bool exchanges = true;
  bool aimed = true;
  int longest_block = 48;
  const Blocks* blocks = nullptr;  // of the problem; nullptr: nothing is copied between them
};

class Proposals {
 public:
  Proposals(SequenceState& state, const ProposalOptions& options, Rng& rng)
      : state_(&state), table_(&state.table()), options_(options), rng_(&rng) {
    if (options.blocks == nullptr) return;
    block_copy_.emplace(state, *options.blocks);
    copies_ = static_cast<uint64_t>(kMostCopies * options.blocks->share());
  }

  // Makes one random change. False: nothing came of it; the caller undoes what is left of it.
  bool make();
  // The kind of the last change, for statistics: index into kNames.
  int kind() const { return kind_; }
  static constexpr const char* kNames[] = {"drop",       "keep",     "move", "drop block",
                                           "keep block", "exchange", "copy"};

  // Deterministic parts, for greedy planners. Drops `value` before the node `use`, which reads it.
  bool drop_before(int value, int use);
  bool keep(int node);

 private:
  bool drop();
  bool keep_any();
  bool move();
  bool move_to(int node, int previous);
  bool drop_block();
  bool keep_block();
  bool exchange();
  bool copy_block();
  bool aimed_gap(int at, int& value, int& use);
  bool random_gap(int& value, int& use);
  bool run_before(int action, int node, int depth);
  int random_node();
  int random_rerun();

  SequenceState* state_;
  const ActionTable* table_;
  ProposalOptions options_;
  Rng* rng_;
  int kind_ = 0;
  std::vector<int> block_, useless_;
  static constexpr double kMostCopies = 50;  // of a thousand proposals, where all is blocks
  uint64_t copies_ = 0;
  std::optional<BlockCopy> block_copy_;
};

}  // namespace lowtide::remat
