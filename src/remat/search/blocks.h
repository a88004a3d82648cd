// Repeated blocks, an idea of our own: which op of one block plays the role of which in another (an
// isomorphism grown from ops that are alike), and what one block does about its values done in
// another.
//
// Ops that are alike (repeats.h) say how many blocks there are. Each op belongs to the block whose
// anchor, one op of each block, is nearest; from the anchors of two neighbours an isomorphism grows
// along the values within the two blocks. What follows each other so from block to block plays one
// role, wherever the borders happen to lie.
//
// The retention search tries often to do in one block what it does in another (proposals.h): what
// was found out about one spreads to all where it is good there, and a deep network takes it little
// longer than a shallow one.
//
// Tests: repeats_test.cc.
#pragma once

#include <span>
#include <vector>

#include "remat/search/repeats.h"
#include "remat/search/sequence_state.h"

namespace lowtide::remat {

struct BlockTag;
struct RoleTag;
using BlockId = Id<BlockTag>;  // one of the repeated blocks, in their order
using RoleId = Id<RoleTag>;    // that an op plays in its block

// Repeated blocks side by side.
class Blocks {
 public:
  Blocks(const ActionTable& table, const Repeats& repeats);

  size_t count() const { return count_; }                      // 0: there are no repeated blocks
  BlockId block_of(SchedOpId op) const { return block_[op]; }  // none: of none
  double share() const;                                        // of all ops: those in blocks
  // The op of another block, `by` blocks further on; itself if it belongs to none; none: none
  // there.
  SchedOpId shifted(SchedOpId op, int by) const;
  // By role; none: it has none for this one.
  std::span<const SchedOpId> ops_of(BlockId block) const {
    return std::span(op_at_).subspan(block.index() * roles_, roles_);
  }

 private:
  void gather(const ActionTable& table, std::span<const SchedOpId> anchors);
  void match(const ActionTable& table, const Repeats& repeats, SchedOpId from, SchedOpId to);
  void name_roles();

  size_t count_ = 0, roles_ = 0;
  IdVector<SchedOpId, BlockId> block_;
  IdVector<SchedOpId, RoleId> role_;
  IdVector<SchedOpId, SchedOpId> next_;  // the like op of the next block, or none
  std::vector<SchedOpId> op_at_;         // by block, then role
};

// Copies the *pattern* of a block: which of its values are made again, and where.
class BlockCopy {
 public:
  // Borrows both.
  BlockCopy(SequenceState& state, const Blocks& blocks) : state_(&state), blocks_(&blocks) {}

  // The reruns of block `to` go, and those of `from` are made for it at the same places: before the
  // first run of the op that plays the same role. False: something stands against it; the caller
  // undoes what is left of it.
  bool copy(BlockId from, BlockId to);
  // Whether the last copy had any rerun to make.
  bool any() const { return !placed_.empty(); }

 private:
  SchedOpId place_of(NodeId node, int shift) const;

  struct Placed {
    NodeId node;
    SchedOpId action, before;
  };
  SequenceState* state_;
  const Blocks* blocks_;
  std::vector<Placed> placed_;
};

}  // namespace lowtide::remat
