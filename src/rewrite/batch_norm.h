// Batch norm in its training form, in passes: statistics first, as sums over samples and positions,
// then what is done with them.
//
//     BatchNormTrain(x, scale, bias)          mean = BatchMean(x)
//                                             var  = BatchVariance(x, mean)
//                                             y    = BatchNormInference(x, scale, bias, mean, var)
//     BatchNormGrad(dy, x, scale, mean, var)  dscale, dbias = BatchNormGradSums(dy, x, mean, var)
//                                             dx = BatchNormGradData(dy, x, scale, mean, var,
//                                                                    dscale, dbias)
//
// One op that sums over the samples and uses the sum couples them: it cannot be cut along them, and
// no axis class of a step (fission/classes.h) goes through it. Each of these can be, since the
// number of elements of the whole is an attribute. The variance is that of two passes, of squares
// of x - mean, never a difference of large numbers.
//
// Of whole ops this is a loss: one more pass over x forward, one over x and dy backward. So it is
// made only where the samples are cut (pipeline/take_rewrites.h), or for whoever asks. What is
// computed stays the same to the last bit by definition; a kernel may take its sums in another
// order. Memory: the same values, each for as long; the operands of a pass are there together, and
// dx no longer comes with its sums.
//
// Tests: batch_norm_test.cc.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::rewrite {

struct BatchNormReport {
  ir::Graph graph;
  int64_t ops = 0;  // BatchNormTrain and BatchNormGrad that gave way; 0: the graph is a copy
};

// An op over a number of elements that is not constant stays. Results keep their names, and the ops
// that make y and dx those of the ops that gave way. Error: as ops::append.
Result<BatchNormReport> norm_in_passes(const ir::Graph& graph);

}  // namespace lowtide::rewrite
