// What benchmarks of edits do to a training step, and how they measure it.
#pragma once

#include <cstddef>
#include <vector>

#include "analysis/view_edit.h"
#include "ir/edit.h"

namespace lowtide::bench {

inline constexpr size_t kRegion = 20;

// Runs kRegion ops of the forward pass again, from the given one on, right before the backward pass
// begins, for its readers there.
void recompute_region(ir::GraphEdit& edit, size_t first);

// Every op takes as long, and no workspace.
Result<analysis::OpCost> no_cost(const ir::GraphEdit& graph, ir::OpId op);

// Of this thread: what else the machine does is not counted.
double cpu_seconds();

double median(std::vector<double>& seconds);

}  // namespace lowtide::bench
