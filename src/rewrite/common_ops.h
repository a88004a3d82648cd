// Equal ops merged (common subexpressions, by value numbering): where two ops compute the same from
// the same, the first one's results are read in place of the second one's, which goes, together
// with whatever only it has read. So do constants with equal contents.
//
// Two ops are equal when they are of one kind, with equal attributes, and their operands are the
// same values or results of equal ops; so where each of twelve layers makes its mask anew, all are
// found to be one value although no two of their ops share an operand. Numbers are equal when their
// bits are. Left alone: what draws random numbers, has an effect or says that it does not run
// again, results of the step, storages that are overwritten, and ops that control edges name.
//
// A merged result can live longer than each of the two did, so ops are merged only where no
// schedule can need more memory, whichever of them it runs first:
//   - the results are views, of the same base; or
//   - in every schedule both results are there at the same time: each has a reader that runs behind
//     the op that makes the other, or is kept to the end. The merged one is there while either was,
//     and what could work in place on one of them had the other beside it; or
//   - the ops read the same operands, which nobody else reads and which have at least as many bytes
//     as the results: what waited for the second op now goes with the first.
// A schedule of the old graph that runs ops again is one of the new graph as well. Time only falls.
// Cost: near-linear for the numbers, and one walk over what runs behind them for each pair of equal
// ops; the walks end with a work limit, and pairs that are left stay two ops.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::rewrite {

struct CommonOpsOptions {
  int64_t alignment_bytes = 1;            // to which storages are rounded
  bool even_if_longer = false;            // merges all: less time, and maybe more memory
  int64_t max_visits = int64_t{1} << 26;  // of ops, by the walks
};

struct CommonOpsReport {
  ir::Graph graph;
  int64_t merged = 0;     // pairs of equal ops
  int64_t removed = 0;    // ops: the merged ones, and those that nobody reads any more
  int64_t constants = 0;  // that were merged
  bool changed() const { return removed + constants > 0; }
};

// All dims must be constant. Names, order, phases and control edges of what stays stay. A graph
// with wholes (Join) is given back as it was. Error: kInput, where what was made fails ir::check.
Result<CommonOpsReport> merge_common_ops(const ir::Graph& graph,
                                         const CommonOpsOptions& options = {});

}  // namespace lowtide::rewrite
