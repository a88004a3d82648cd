// Sizes for symbols: the graph of one batch size out of the graph of all of them.
#pragma once

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::ir {

// Replaces bound symbols everywhere (dims, attributes, offsets) and records them; ids stay. Error:
// kInput when a dim becomes negative or a size exceeds 2^62 bytes.
Result<Graph> bind(const Graph& graph, const sym::Bindings& bindings);

}  // namespace lowtide::ir
