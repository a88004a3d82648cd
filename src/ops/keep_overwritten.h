// What is read after it was overwritten, kept.
//
// An update takes the place of what it updates, so a step may read the old contents only before. A
// door and the backward pass do not see to that: a running statistic that the network also reads as
// data (m in y = norm(x) with statistics m, v; z = x * m) is overwritten where the norm stands, and
// the gradient of the product wants what it was. keep_overwritten() puts a Copy before such an
// update, and who reads the old contents later reads the copy:
//
//   y = norm(x)                         y = norm(x)
//   z = x * m                           z = x * m
//   m' = RunningUpdate(m, mean)         k = Copy(m)
//   dx = dz * m      <- refused         m' = RunningUpdate(m, mean)
//                                       dx = dz * k
//
// Only such reads are touched: the update stays where it was, and what reads the new contents (m')
// goes on to do so. A view of the old contents that is made after the update becomes one of the
// copy.
#pragma once

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::ops {

// The graph itself where nothing is read too late. What updates contents that were overwritten
// already stays as it is: ir::check refuses it.
Result<ir::Graph> keep_overwritten(ir::Graph graph);

}  // namespace lowtide::ops
