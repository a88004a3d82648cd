// Sums in another order: the chain of accumulators (analysis/sums.h) is made anew so that the
// contributions follow one another as they will run. The k-th one makes the k-th version, which
// keeps its name and what it is for; whoever comes first loses its accumulator, and the former
// first one gets one.
#pragma once

#include <vector>

#include "analysis/sums.h"
#include "base/result.h"
#include "ir/id_order.h"

namespace lowtide::rewrite {

// `sums`: as find_sums gives them, each with its contributions in the order wanted (one that is
// fixed still first). The other ops keep their order as far as the sums allow it. Error: kInput,
// when the order is none that the graph allows, naming an op. Versions are mapped by their place in
// the sum.
Result<ir::Rewritten> order_sums(const ir::Graph& graph, const std::vector<analysis::Sum>& sums);

}  // namespace lowtide::rewrite
