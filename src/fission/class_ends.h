// Which ops end axis classes. An op whose axis is coupled (the samples of batch norm's statistics)
// or chosen by data needs all of a dimension at once: it cannot be cut along it, so what comes
// before it and what comes after it are in different classes. Found as the class that there would
// be if such axes could be cut too: its members that cannot are where classes end.
//
// Tests: labels_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "fission/classes.h"
#include "ir/graph.h"

namespace lowtide::fission {

struct ClassEnd {
  ir::OpId op;
  std::string axis;  // as the op's row names it
};

struct UnbrokenClass {
  int64_t bytes = 0;           // as AxisClass has it
  std::vector<ClassEnd> ends;  // in the order of the graph
};

// The largest such class in bytes; of no graph without classes of two ops. Error: as ops::axis_map.
Result<UnbrokenClass> unbroken_class(const ir::Graph& graph);

// Of all that ops make, but for what they overwrite: what AxisClass::bytes is a part of.
int64_t made_bytes(const ir::Graph& graph);

}  // namespace lowtide::fission
