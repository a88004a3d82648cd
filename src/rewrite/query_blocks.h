// Attention in blocks of queries, each with the keys that its mask lets it see.
//
//     softmax(Q K^T * s + M) V      for each block of rows [a, b):
//                                   softmax(Q[a:b] K[:e]^T * s + M[a:b, :e]) V[:e]
//
// e is b where M is the mask of causal attention, and the number of keys otherwise. A causal mask
// is Trilu of a Fill that is very negative: what lies right of the diagonal is exactly zero after
// the softmax, so leaving it out changes no bit of a sum but its order. In n blocks such attention
// takes (n + 1) / 2n of the time and writes as much less; in any case a block has 1/n of the bytes
// of scores, which grow with the square of the sequence. Each block is ops of its own, forward and,
// as this comes before there are gradients, backward, so that a planner may keep the scores of some
// and make those of others again (what FlashAttention does inside of a kernel, Dao et al. 2022;
// gradients of causal blocks: StreamBP, Luo et al. 2025).
//
// The keys of a block are a slice of those of the next one, not of all of them: so the gradients of
// K and V grow block by block, where slices of the whole would each be padded to the size of the
// whole.
//
// Tests: tests/query_blocks_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::rewrite {

struct QueryBlocksReport {
  ir::Graph graph;
  int64_t ops = 0;         // that gave way; 0: the graph is as it was
  int64_t attentions = 0;  // that are in blocks now
  int64_t causal = 0;      // of them, with fewer keys
  int64_t most_rows = 0;   // of one of them
  // Of each of them the two products, by name: queries with keys, and what they mix of values. The
  // rows of both are queries.
  std::vector<std::string> products = {};
};

// Every attention of a forward graph in so many blocks, or one row each where it has fewer; blocks
// differ by a row at most, the larger ones first. Found are products of a softmax over the last
// axis, of a product, with scaling by numbers, added masks and biases, and dropout in between, all
// read once; not one whose queries are a slice of rows: it is a block already. `blocks` >= 2.
// Error: as apply_rules.
Result<QueryBlocksReport> attention_in_blocks(const ir::Graph& graph, int64_t blocks);

}  // namespace lowtide::rewrite
