// Concat without a copy along any dimension: the ops that make its operands write them where they
// belong in the result, with its strides (ops/destinations.h). Where pieces lie one behind the
// other they need not (pieces.h, which comes first): these interleave, so their bytes are there
// together or not at all. The first op of the chain makes the storage of the whole, each further
// one takes it over; a plan with them is one of ops like any other.
//
//   Concat(Relu(a), b, Relu(c))  =  Copy(b, Relu(c, Relu(a; into 0..); into 2..); into 1..)
//
// An operand is *written* by its producer if that makes nothing else, the Concat alone reads it,
// and a kernel takes the destination's strides. The others are copied, each by an op of the chain.
// A Concat becomes a chain where one operand is written at least, and
//
//   - no schedule needs more memory. Any schedule with the copy gives one of the chain: whenever
//     the Concat ran, the chain runs in its place, and what the producers read is kept until then
//     instead of what they made. That is no more if it can be charged to the operands, the bytes of
//     each storage to those who read it in proportion to their size, so that none is charged with
//     more than its own bytes: whatever part of them has run, less is kept than was. Then, while
//     the Concat ran, all operands and the result were there; while the chain runs, the result,
//     what the ops still to run read, and the workspace of one;
//   - the ops of the chain take less time together than producers and copy did.
//
// Layouts must have been chosen. Tests: destinations_test.cc, tests/destinations_test.cc.
#pragma once

#include <functional>

#include "base/result.h"
#include "ir/graph.h"
#include "plan/kernel_catalog.h"

namespace lowtide::rewrite {

struct DestinationsOptions {
  // Of one run of a kernel.
  std::function<Result<double>(const plan::OpDesc&)> seconds;
  int64_t alignment_bytes = 64;
  // Residents may be away from memory: what they occupy while they are read counts then.
  bool residents_move = false;
};

struct DestinationsReport {
  ir::Graph graph;
  int chains = 0;   // Concats that are none any more
  int written = 0;  // operands that are copied no more
  int copied = 0;   // the others of these Concats
  bool changed() const { return chains > 0; }
};

// All dims must be constant. Names, order, phases and control edges of the other ops stay.
Result<DestinationsReport> write_into_wholes(const ir::Graph& graph,
                                             const plan::KernelCatalog& catalog,
                                             const DestinationsOptions& options);

}  // namespace lowtide::rewrite
