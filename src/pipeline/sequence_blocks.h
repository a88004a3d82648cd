// Plans a long sequence in blocks of queries and parts that follow from sizes alone: for callers
// that ask whether any plan fits (the largest length, api/largest.h), not which is fastest. A
// search for labels (label_search.h) takes minutes for each length of a large model; this takes a
// short search for each number of blocks.
//
// Scores grow with the square of the length, so attention runs in blocks of queries: a power of
// two, the fewest with which a plan is found, unless the options say how many. What is cut beside
// it are ops that need more than any op of the blocks or outside of the largest class does: the
// head of a language model and its loss. Each runs in as many parts as there are blocks, with the
// region around it (fission/labels.h), so that its parts pass each other their pieces. Keys of a
// block are cut from all keys (the rewrite direct-slices): a slice of a slice takes all before it
// to be made again.
//
// Tests: tests/sequence_blocks_test.cc.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

struct InBlocks {
  bool is_sequence = false;            // attention's rows are what the largest class cuts
  std::optional<Optimized> made = {};  // in one part, if it is none
};

// `options` have a budget; their split is not looked at. The step in one part is tried first, where
// `least_blocks` is 1; a number of blocks in the options is the only one. Transfers, where they are
// allowed, come into it only where nothing fits without them. A plan is made as a trial
// is (trials.h), with all of the search's work. Error: what has nothing to do with the budget.
Result<InBlocks> plan_in_blocks(const ir::Graph& forward, const OptimizeOptions& options,
                                int64_t least_blocks = 1);

}  // namespace lowtide::pipeline
