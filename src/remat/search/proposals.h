// Proposals, our own: the neighbourhood in which the retention search anneals. Random changes, each
// of a few insertions and removals of runs.
//
//   drop          a value leaves memory in an idle span, between two of its uses: its producer runs
//                 again before the second. Inputs that are not there then live longer or are made
//                 anew.
//   keep          a rerun goes, so the value stays through; what it alone needed goes too.
//   move          a run takes place elsewhere, as far as its inputs, readers and control let it
//                 (order_moves.h).
//   drop stretch  a stretch of runs is done again, once, before the first later use of anything it
//                 makes: all its inner values leave memory together.
//   keep stretch  a stretch of reruns goes.
//   exchange      a rerun goes, and where memory overflows then, other values are dropped or runs
//                 moved.
//   copy block    what one block does about its values, another does too (blocks.h): its own reruns
//                 go, and those of the first are made for it at the same places.
//
// Each kind has a weight. A kind that is off is left out, and the others keep their proportions.
// Half of the drops are aimed: at a value that is present, but idle, where memory overflows. Some
// of the moves take bytes away from such a place, too, or, where nothing overflows, from the
// fullest. Runs that neither read nor make bytes are left alone. No proposal is judged here; the
// caller compares the state before and after and may undo. What would cost more than the caller
// could accept is not even begun.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "remat/search/blocks.h"
#include "remat/search/order_moves.h"
#include "remat/search/sequence_state.h"

namespace lowtide::remat {

struct ProposalOptions {
  bool order_moves = true;
  bool stretch_moves = true;
  bool exchanges = true;
  bool keeps = true;  // of one and of stretches
  bool aimed = true;  // drops
  bool aimed_moves = true;
  bool copies = true;              // between blocks
  const Blocks* blocks = nullptr;  // of the problem; nullptr: it has none
};

enum class ProposalKind : uint8_t {
  kDrop,
  kKeep,
  kMove,
  kDropStretch,
  kKeepStretch,
  kExchange,
  kCopyBlock,
};
constexpr size_t kProposalKinds = 7;

class Proposals {
 public:
  static constexpr int64_t kAnyCost = std::numeric_limits<int64_t>::max() / 2;

  Proposals(SequenceState& state, const ProposalOptions& options, Rng& rng);

  // Makes one random change. False: nothing came of it; the caller undoes what is left of it.
  // `most_cost`: changes that lead to more extra cost than this would not be accepted.
  bool make(int64_t most_cost = kAnyCost);
  ProposalKind kind() const { return kind_; }  // of the last change

 private:
  ProposalKind choose();
  bool try_kind();
  bool affordable(int64_t more) const { return state_->extra_cost() <= most_cost_ - more; }
  bool makes_only(NodeId maker, SchedValueId value) const;
  bool drop_before(SchedValueId value, NodeId use);
  bool keep(NodeId node);
  bool drop();
  bool keep_any();
  bool move();
  NodeId overflowing_node();
  NodeId full_node();
  bool drop_stretch();
  bool keep_stretch();
  bool exchange();
  bool copy_block();
  bool aimed_span(NodeId at, SchedValueId& value, NodeId& use);
  bool random_span(SchedValueId& value, NodeId& use);
  bool run_before(SchedOpId action, NodeId node);
  NodeId random_node();
  SchedValueId random_value();
  void find_chances();
  NodeId random_rerun();

  SequenceState* state_;
  const ActionTable* table_;
  ProposalOptions options_;
  Rng* rng_;
  OrderMoves order_moves_;
  ProposalKind kind_ = ProposalKind::kDrop;
  int64_t most_cost_ = 0;
  std::array<uint32_t, kProposalKinds> weights_{};  // where memory does not overflow
  std::vector<SchedValueId> droppable_;
  IdVector<SchedOpId, char> inert_;  // of actions: it weighs nothing
  std::vector<NodeId> stretch_, useless_;
  std::optional<BlockCopy> block_copy_;
};

}  // namespace lowtide::remat
