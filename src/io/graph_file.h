// The door for graphs that are data already: the text form of ir/graph_text.h, as another front end
// writes it and as bug reports hold it ("Graph text" in docs/formats.md), or the same as JSON.
//
// What such a graph goes through is in graph_admission.h. Text that begins with a brace is the JSON
// form (graph_json.h).
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"
#include "sym/expr.h"

namespace lowtide::io {

// `bindings`: numbers for symbols; the others stay. Error: kInput, naming `origin` and the line, or
// the op and the output, with what is declared and what the table says. kUsage: a binding of a
// symbol that the graph does not have, or of a number below 1. Survives any text.
Result<ir::Graph> read_graph_text(std::string_view text, const std::string& origin,
                                  const sym::Bindings& bindings = {});
Result<ir::Graph> read_graph_file(const std::string& path, const sym::Bindings& bindings = {});

// Whether a path is of this door: it ends with ".graph" or ".json".
bool is_graph_path(std::string_view path);

}  // namespace lowtide::io
