// Graphs drawn from a seed that hold everything that the structure can hold, for tests of forms
// that write graphs and read them back.
#pragma once

#include <fmt/core.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "ir/graph.h"

namespace lowtide::ir::testing {

inline sym::Expr random_size(Rng& rng) {
  const sym::Expr n = sym::Expr::symbol("batch"), odd = sym::Expr::symbol("seq, \"x\" ]");
  switch (rng.below(5)) {
    case 0:
      return n;
    case 1:
      return n * 64 + 1;
    case 2:
      return sym::floordiv(n + odd, 2);
    case 3:
      return sym::min(odd, n * odd);
    default:
      return rng.between(0, 512);
  }
}

inline AttrValue random_attr(Rng& rng) {
  switch (rng.below(5)) {
    case 0:
      return static_cast<int64_t>(rng.next());
    case 1:
      return rng.uniform() * 1e-9;
    case 2:
      return rng.below(2) ? std::numeric_limits<double>::infinity() : -1.0;
    case 3:
      return std::string("word \"\\\n\x01 [");
    default: {
      Dims dims;
      for (uint64_t n = rng.below(4); n > 0; --n) dims.push_back(random_size(rng));
      return dims;
    }
  }
}

inline Value random_value(Rng& rng, std::string name) {
  Value value;
  value.name = std::move(name);
  value.dtype = static_cast<DType>(rng.below(8));
  for (uint64_t n = rng.below(4); n > 0; --n) value.dims.push_back(random_size(rng));
  value.category = static_cast<Category>(rng.below(kCategories));
  value.is_output = rng.below(4) == 0;
  if (value.is_output) value.output_rank = rng.between(0, 3);
  if (value.dims.size() == 3 && rng.below(2)) value.layout.order = {0, 2, 1};
  if (rng.below(9) == 0) value.layout = {{}, "aBc:16", 4096};
  return value;
}

// Kinds of ops mean nothing here; ir::check passes.
inline Graph random_graph(uint64_t seed) {
  Rng rng(seed);
  Graph graph;
  graph.name = "graph \"\\\t";
  graph.producer = rng.below(2) ? "" : "test 1";
  if (rng.below(2)) graph.bindings = {{"batch", 3}, {"odd name", -1}};
  for (int i = 0; i < 12; ++i) {
    if (graph.value_count() < 2 || rng.below(4) == 0) {
      Value value = random_value(rng, fmt::format("in put{}", i));
      value.initial.kind = static_cast<InitialValue::Kind>(rng.below(5));
      if (value.initial.kind == InitialValue::Kind::kInline)
        value.initial.bytes = std::string("\0\xFF\"x", rng.below(5));
      if (value.initial.kind == InitialValue::Kind::kExternal)
        value.initial = {value.initial.kind, "", "a \"b\".bin", 8, 16};
      graph.add_value(std::move(value));
      continue;
    }
    Op op;
    op.kind = "Kind";
    op.name = fmt::format("op{}", i);
    op.module = rng.below(2) ? "" : "blocks.0 \"a\"";
    op.source = rng.below(2) ? "" : "my folder/model \"b\".py:12";
    op.phase = static_cast<Phase>(rng.below(3));
    for (uint64_t n = rng.below(4); n > 0; --n)
      op.attrs[fmt::format("key {}", n)] = random_attr(rng);
    for (uint64_t n = rng.below(3); n > 0; --n)
      op.inputs.push_back(rng.below(5) == 0 ? ValueId::none()
                                            : ValueId(rng.below(graph.value_count())));
    for (uint64_t n = graph.op_count() > 0 ? rng.below(3) : 0; n > 0; --n)
      op.control.push_back(OpId(rng.below(graph.op_count())));
    std::vector<Value> outputs;
    for (uint64_t n = rng.below(3); n > 0; --n) {
      Value value = random_value(rng, fmt::format("out{}.{}", i, n));
      if (!op.inputs.empty() && op.inputs[0].valid() && rng.below(3) == 0) {
        value.alias = Alias::kView;
        value.base = op.inputs[0];
        value.dims = {0};
        value.layout = {};
      }
      outputs.push_back(std::move(value));
    }
    graph.add_op(std::move(op), std::move(outputs));
  }
  return graph;
}

}  // namespace lowtide::ir::testing
