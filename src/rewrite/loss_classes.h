// Cross-entropy over its classes in parts: what makes a vocabulary an axis that can be cut.
//
//     loss, s = CrossEntropy(x, labels)       s = ReduceLogSumExp(x)
//                                             t = LabelLogits(x, labels)
//                                             loss = CrossEntropyMean(s, t, labels)
//
// One op that takes the log-sum-exp of all classes and uses it couples them. Each of these can be
// cut along them, or does not have them: log-sum-exps of parts are put together by their own
// (ops::Merge), the logit of a label is in one part, zero in all others, and the mean is over
// labels. The gradient is element by element along the classes once the log-sum-exp is there, so
// logits, their gradient and the gradients of what they are made of are in one axis class
// (fission/classes.h), whose ops run in two passes (fission/passes.h): the gradient waits for the
// log-sum-exp of all parts, as whoever shards a vocabulary over devices exchanges it (Megatron-LM's
// vocabulary-parallel cross-entropy).
//
// Without a cut it computes the same but for rounding, and takes one small op more: the logit of
// each label is read again. So it is made for whoever asks, and where a search tries what a cut
// along the classes would come to (Rewrite::frees_axis). Chunks of rows (chunked_loss.h) come
// first, where both are asked for; then the loss of each is taken apart. Labels that are ignored
// count as before, and those that are neither that nor classes are refused as before. A loss of
// log-probabilities (LogSoftmax; class weights, no mean) is another op, and stays whole along its
// classes.
//
// Tests: loss_classes_test.cc, tests/rewrites_test.cc.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::rewrite {

struct LossClassesReport {
  ir::Graph graph;
  int64_t ops = 0;  // CrossEntropy that gave way; 0: the graph is a copy
};

// A loss without classes, or of a number of them that is not constant, stays. Results keep their
// names, and the op that makes the loss that of the op that gave way. Error: as ops::append.
Result<LossClassesReport> loss_by_classes(const ir::Graph& graph);

}  // namespace lowtide::rewrite
