// Part by part: the order of ops in which the first part of everything runs through before the
// second begins, as micro-batches do. What lives between forward and backward pass is then that of
// one part; in the order that expand makes, op by op, it is that of all.
//
// A topological sort (Kahn's algorithm) with a queue: the ready op of the earliest part comes
// first, of one part the first in the old order. Where a part begins is counted as a share of its
// op's loop, so parts of other counts keep pace, and parts of a part lie within it. An op that is
// no part belongs to the latest part that it needs, or, if none of them, to the first that needs
// it.
//
// Tests: tests/parts_test.cc.
#pragma once

#include "fission/expand.h"

namespace lowtide::fission {

Expanded part_by_part(const Expanded& expanded);

}  // namespace lowtide::fission
