// The door for graphs that are data already: the text form of ir/graph_text.h, as another front end
// writes it and as bug reports hold it ("Graph text" in docs/formats.md).
//
// A graph from outside is believed in nothing: every op is inferred again from the op table, and an
// output that is declared otherwise is refused. What the table does not know is written as an
// opaque op (ops/rows_opaque.h), whose types are read from its `out` lines where its attributes do
// not say them. Opaque ops with an effect keep their order: each gets a control edge from the one
// before. A strided view is copied by a Reorder for opaque ops whose kernels do not say that they
// read it, so what comes out may have more ops than the text.
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

// Whether a path is of this door: it ends with ".graph".
bool is_graph_path(std::string_view path);

}  // namespace lowtide::io
