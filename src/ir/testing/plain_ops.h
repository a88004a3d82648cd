// Graphs of ops that mean nothing, for tests of what holds for any graph.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace lowtide::ir::testing {

inline const sym::Expr batch = sym::Expr::symbol("batch");

inline Value value(std::string name, Dims dims) {
  Value v;
  v.name = std::move(name);
  v.dims = std::move(dims);
  return v;
}

inline Value alias_of(ValueId base, Alias alias, std::string name, Dims dims,
                      sym::Expr offset = 0) {
  Value v = value(std::move(name), std::move(dims));
  v.alias = alias;
  v.base = base;
  v.offset_bytes = std::move(offset);
  return v;
}

inline Op op(std::string name, std::vector<ValueId> inputs) {
  Op o;
  o.kind = "Any";
  o.name = std::move(name);
  o.inputs = std::move(inputs);
  return o;
}

inline ValueId add(Graph& graph, Op o, Value out) {
  return graph.op(graph.add_op(std::move(o), {std::move(out)})).outputs[0];
}

}  // namespace lowtide::ir::testing
