// The labels of a loss counted first: what makes its rows an axis that can be cut where labels may
// be ignored (padding, words that are not masked; exporters of PyTorch's loss always say which).
//
//     loss, s = CrossEntropy(x, labels)           n = LabelCount(labels)
//     dx = CrossEntropyGrad(x, labels, s)         loss, s = CrossEntropy(x, labels, n)
//                                                 dx = CrossEntropyGrad(x, labels, s, n)
//
// The mean divides by how many labels of all rows count. One op that finds that number by itself
// needs all rows at once, and so does its gradient. With the number as an operand a part of the
// rows has its share of the loss, which adds up, and its part of the gradient. PyTorch's own ops
// pass it on likewise (`total_weight` of nll_loss). The count is of labels alone, eight bytes for
// the whole step: it stays one op, which runs before all parts.
//
// In one part the same bits come out. So this runs by default where a step is cut into parts or an
// op by somebody (Rewrite::in_parts, with_cuts); chunks of rows (chunked_loss.h) do it for
// themselves. A loss that ignores no label divides by its rows, as every label that is not ignored
// has to be a class (executors refuse others), and stays as it is.
//
// Tests: label_counts_test.cc, tests/rewrites_test.cc, tests/python/test_ignored_labels.py.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::rewrite {

struct LabelCountsReport {
  ir::Graph graph;
  int64_t ops = 0;  // that are told the number now; 0: the graph is a copy
};

// CrossEntropy, its gradient and CrossEntropyMean with ignore_index. One of a number of classes
// that is not constant stays. All names stay. Error: as ops::append.
Result<LabelCountsReport> count_labels_first(const ir::Graph& graph);

}  // namespace lowtide::rewrite
