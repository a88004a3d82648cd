// Concat without a copy: where the operands can lie one behind the other, each stays a value of its
// own and the result becomes a view on them (ir::Alias::kPieces, op Join). Saves the copy's time,
// and the moment at which operands and result are both there.
//
// A Concat becomes a Join where
//   - it joins along the outermost dimension in memory, and every operand but the last ends at a
//     multiple of the alignment;
//   - an op of the step makes each operand, which fills its storage and is never overwritten, nor
//     is the result;
//   - somebody reads the result and every view on it;
//   - nobody could have worked in place on the result or on an operand: what is a piece is taken
//     over by none. So no schedule needs more memory than with the copy;
//   - its distances agree with those of the wholes before it: a value may be a piece of several
//     (dense blocks join the same values again and again), but no two values may want one place.
// The last condition is a union-find with distances over storages.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::rewrite {

struct PiecesOptions {
  // Also where somebody could have worked in place: saves the copy, and may need more memory.
  bool instead_of_in_place = false;
};

struct PiecesReport {
  ir::Graph graph;
  int joined = 0;  // Concats that copy nothing any more
  bool changed() const { return joined > 0; }
};

// All dims must be constant. Names, order, phases and control edges stay. Error: kInput, naming a
// whole that the graph has already and whose distances contradict those of others.
Result<PiecesReport> join_pieces(const ir::Graph& graph, int64_t alignment_bytes,
                                 const PiecesOptions& options = {});

}  // namespace lowtide::rewrite
