// A graph in parts and nothing else: no plan, no rewrites. For who has kernels of his own and runs
// the parts himself: a front end hands over its step, most of it as rows of the op table, and reads
// from the answer which op is a part of which, and what slices and sums join them (expand.h).
//
// What is cut, part by part, are the axis classes of samples, which walk the first dimension of
// something that is fed (a table of positions that is fed has such a dimension, too). There are
// several where ops couple samples (a batch norm: a class before it, one behind it) and where
// gradients of batches accumulate; levels of labels are those of the largest. Where nothing can be
// cut so, as for a single sample, the graph comes back as it was.
//
// Tests: tests/graph_in_parts_test.cc, tests/python/test_torch_samples.py.
#pragma once

#include "base/result.h"
#include "fission/labels.h"
#include "ir/graph.h"

namespace lowtide::pipeline {

// Error: kUsage for labels that are to be chosen, and for a graph with symbolic sizes; kInput as of
// fission::levels_of.
Result<ir::Graph> graph_in_parts(const ir::Graph& graph, const fission::Labels& labels);

}  // namespace lowtide::pipeline
