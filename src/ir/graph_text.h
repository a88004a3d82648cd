// The text form of a Graph: for bug reports, goldens and tests. parse(print(g)) == g.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace lowtide::ir {

std::string print(const Graph& graph);
// Error: kInput, naming origin, line and what was expected. Survives any input.
Result<Graph> parse_graph(std::string_view text, std::string_view origin);

}  // namespace lowtide::ir
