// Passes: where parts cannot mirror each other. An op of an axis class that needs all parts of
// another (the mean of a batch, when each part has added its share) waits for the last of them, and
// so does everything behind it: the step is no loop over parts but several, one behind the other.
// What is made in one and read in a later one is there in all of its parts in between.
//
// An op's pass is the largest number of such waits on a way to it. Ops of equal pass can run part
// by part. Accumulators are no wait: what adds up may come in any order.
//
// Tests: scale_test.cc.
#pragma once

#include <set>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "fission/classes.h"
#include "ir/graph.h"
#include "ops/op_table.h"

namespace lowtide::fission {

// Whether a part of the axis has its share of an operand or result, by number, and nothing of
// others'. A window that overlaps those of other parts reads its operand whole, as expand makes the
// whole for it.
bool has_share_of(const ops::AxisMap& map, int axis, int operand, bool is_output);

struct Passes {
  int count = 1;
  IdVector<ir::OpId, int> of;  // from 0, of the ops outside of the class, too
  // Ops of the class, none of them a view, all parts of which run before any of this op; those that
  // it only waits for behind others are left out.
  IdVector<ir::OpId, std::vector<ir::OpId>> waits_for;
};

// Error: as ops::axis_map.
Result<Passes> passes_of(const ir::Graph& graph, const AxisClass& axis_class);

// Ops of the class, views too, all parts of which some op waits for. Only those and their readers
// are looked at: a step has hundreds of classes. `maps`: of the class's ops at least.
std::set<ir::OpId> awaited_of(const ir::Graph& graph, const AxisClass& axis_class,
                              const IdVector<ir::OpId, ops::AxisMap>& maps);

}  // namespace lowtide::fission
