// The JSON form of a graph, for front ends in other languages: what the text form (ir/graph_text.h)
// holds, in the words of plan files ("Graph JSON" in docs/formats.md).
//
//   {"format": "lowtide-graph", "version": 1, "name": "mlp", "producer": "by hand",
//    "values": [
//      {"name": "x", "dtype": "f32", "dims": ["batch", 784], "category": "input",
//       "initial": {"kind": "fed"}},
//      {"name": "y", "dtype": "f32", "dims": ["batch", 784], "category": "activation",
//       "is_output": true}],
//    "ops": [{"kind": "Relu", "name": "act", "inputs": [0], "outputs": [1]}]}
//
// Ids are positions in their array. Values stand in the order in which they come to be: those that
// the ops make in the order of the ops, the others wherever no op before them reads them. Storages
// follow from `alias` and `base`; where a value says its `storage` all the same, it is compared.
//
// A graph with 10^5 ops takes about a second. Depth is limited to 16, a file to 1 GiB.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"
#include "sym/expr.h"

namespace lowtide::io {

inline constexpr std::string_view kGraphFormat = "lowtide-graph";
inline constexpr int64_t kGraphVersion = 1;

// parse_graph_json(print_graph_json(g)) == g, to the bit; the same graph gives the same bytes.
std::string print_graph_json(const ir::Graph& graph);

// The structure alone: what kinds of ops mean is not asked. Error: kInput, one line with `origin`,
// the path of the member (ops[3].inputs[0]), what was expected and what was found. Survives any
// text.
Result<ir::Graph> parse_graph_json(std::string_view text, const std::string& origin);

// Through the door (graph_admission.h). `bindings`: numbers for symbols; the others stay. Error: as
// above; kUsage: a binding of a symbol that the graph does not have, or of a number below 1.
Result<ir::Graph> read_graph_json(std::string_view text, const std::string& origin,
                                  const sym::Bindings& bindings = {});

}  // namespace lowtide::io
