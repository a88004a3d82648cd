// The loss of a large vocabulary in chunks of rows, whatever the rest of the step does: of logits,
// log-softmax, loss and their gradients only one chunk is in memory at a time (Liger's kernels and
// PyTorch's linear_cross_entropy do so by hand).
//
//     logits = h W;  loss = mean(cross-entropy(logits));  dlogits;  dh = dlogits W^T;
//     dW = h^T dlogits
//
// becomes this for one chunk of rows after the other: dh in pieces, dW and the loss as sums. The
// region is what makes or reads values with as many elements as the logits, from the loss on; it
// is cut along the axis of the loss's rows that all of it walks (fission/classes.h), so that what
// is in it passes pieces on, and nothing else is touched. Labels (fission/labels.h) reach the same
// region as a level, in any number of parts.
//
// There are so many chunks that no chunk of logits is larger than the largest other value of the
// region, as a rule the weights of the vocabulary: fewer would still set the peak, more make
// products of few rows, which are slow. So a loss in chunks stays as it is, and so does one whose
// logits are no larger than what they are made from. Each chunk's gradient needs its logits
// alone, so no more is kept; sums round otherwise. Of a loss that leaves labels out (ignore_index)
// those that count are counted first (label_counts.h).
//
// Tests: chunked_loss_test.cc, tests/rewrites_test.cc.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::rewrite {

struct ChunkedLossReport {
  ir::Graph graph;
  int64_t ops = 0;  // that are in chunks now; 0: the graph is as it was
};

// All dims must be constant. Error: as fission::axis_classes and fission::expand.
Result<ChunkedLossReport> loss_in_chunks(const ir::Graph& graph);

}  // namespace lowtide::rewrite
