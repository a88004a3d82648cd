// Data-flow analysis, backwards: how large the integers of a value may be for its readers to make
// sense of them: rows of a table, classes of a loss, yes or no of a mask. What is drawn from a seed
// for an input that nobody gave stays below.
#pragma once

#include "ir/graph.h"

namespace lowtide::analysis {

// Per value, the least extent that its elements are positions in, among all readers and through
// ops that only carry elements on; 2 where they become truth values; 0 where nothing bounds them.
// Symbolic extents bound nothing.
IdVector<ir::ValueId, int64_t> integer_limits(const ir::Graph& graph);

}  // namespace lowtide::analysis
