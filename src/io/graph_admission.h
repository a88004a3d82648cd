// What a graph that another program wrote goes through before it is one of ours, whatever form it
// came in (text: graph_file.h, JSON: graph_json.h).
//
// A graph from outside is believed in nothing: every op is inferred again from the op table, and an
// output that is declared otherwise is refused. What the table does not know is written as an
// opaque op (ops/rows_opaque.h), whose types are read from its declared outputs where its
// attributes do not say them. Opaque ops with an effect keep their order: each gets a control edge
// from the one before. A strided view is copied by a Reorder for opaque ops whose kernels do not
// say that they read it, so what comes out may have more ops than what was declared.
//
// Tests: graph_file_test.cc.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "sym/expr.h"

namespace lowtide::io {

// Where the form that was read says something, as messages name it: a line, or a path of members.
struct GraphPlaces {
  std::function<std::string(ir::ValueId)> of_value;
  std::function<std::string(ir::OpId)> of_op;  // "" where the op's name is enough
};

// `declared` has passed ir::check. `bindings`: numbers for symbols; the others stay. Error: kInput,
// naming `origin`, the place, and the op and the output with what is declared and what the table
// says. kUsage: a binding of a symbol that the graph does not have, or of a number below 1.
Result<ir::Graph> admit_graph(const ir::Graph& declared, const std::string& origin,
                              const sym::Bindings& bindings, const GraphPlaces& places);

}  // namespace lowtide::io
