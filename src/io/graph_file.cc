#include "io/graph_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/file.h"
#include "ir/bind.h"
#include "ir/graph_text.h"
#include "ir/id_order.h"
#include "ops/op_table.h"

namespace lowtide::io {
namespace {

std::string print_dims(const ir::Dims& dims) {
  std::string text;
  for (const sym::Expr& dim : dims) text += (text.empty() ? "" : ", ") + sym::print(dim);
  return "[" + text + "]";
}

Status check_bindings(const ir::Graph& graph, const std::string& origin,
                      const sym::Bindings& bindings) {
  const std::vector<std::string> symbols = ir::free_symbols(graph);
  for (const auto& [symbol, number] : bindings) {
    if (number < 1)
      return error(ErrorCode::kUsage,
                   fmt::format("{}: --dim {}={}: a size is at least 1", origin, symbol, number));
    if (!std::binary_search(symbols.begin(), symbols.end(), symbol))
      return error(
          ErrorCode::kUsage,
          fmt::format(
              "{}: --dim {}={}: the graph has no such symbol{}", origin, symbol, number,
              symbols.empty() ? std::string() : fmt::format(", but {}", fmt::join(symbols, ", "))));
  }
  return {};
}

// What the `out` lines of an opaque op say, as the attributes that its row reads.
ir::Attrs attrs_of_outputs(const ir::Graph& graph, const ir::Op& op) {
  std::string types, aliases;
  ir::Dims ranks, dims, offsets;
  for (ir::ValueId id : op.outputs) {
    const ir::Value& output = graph.value(id);
    types += fmt::format("{}{}", types.empty() ? "" : " ", name(output.dtype));
    ranks.emplace_back(static_cast<int64_t>(output.dims.size()));
    dims.insert(dims.end(), output.dims.begin(), output.dims.end());
    std::string alias = "own";
    sym::Expr offset = 0;
    if (output.alias != ir::Alias::kOwn) {
      const auto at = std::find(op.inputs.begin(), op.inputs.end(), output.base);
      alias = fmt::format("{}:{}", output.alias == ir::Alias::kView ? "view" : "update",
                          at - op.inputs.begin());
      offset = output.offset_bytes - graph.value(output.base).offset_bytes;
    }
    aliases += (aliases.empty() ? "" : " ") + alias;
    offsets.push_back(output.alias == ir::Alias::kView ? offset : sym::Expr(0));
  }
  return {{"types", types},
          {"ranks", ranks},
          {"dims", dims},
          {"aliases", aliases},
          {"offsets", offsets}};
}

bool is_opaque(const ir::Op& op) {
  const ops::Row* row = ops::find(op.kind);
  return row != nullptr && ops::traits(*row).opaque;
}

// The same graph with what its opaque ops leave to their `out` lines, and their order.
ir::Graph complete(const ir::Graph& graph) {
  ir::Graph result = ir::empty_like(graph);
  ir::OpId last_effect;
  for (const ir::GraphItem item : ir::in_id_order(graph)) {
    if (item.given.valid()) {
      result.add_value(graph.value(item.given));
      continue;
    }
    ir::Op op = graph.op(item.op);
    if (is_opaque(op) && !op.attrs.contains("types"))
      for (auto& [name, value] : attrs_of_outputs(graph, op))
        op.attrs.insert_or_assign(name, std::move(value));
    if (is_opaque(op) && ops::traits(*ops::find(op.kind)).has_effect) {
      const bool ordered =
          std::find(op.control.begin(), op.control.end(), last_effect) != op.control.end();
      if (last_effect.valid() && !ordered) op.control.push_back(last_effect);
      last_effect = item.op;
    }
    std::vector<ir::Value> outputs;
    for (ir::ValueId output : op.outputs) outputs.push_back(graph.value(output));
    result.add_op(std::move(op), std::move(outputs));
  }
  return result;
}

// Sizes that still have symbols may turn out equal; numbers are compared.
bool may_be_equal(const sym::Expr& a, const sym::Expr& b) {
  return a == b || !a.constant() || !b.constant();
}

bool may_be_equal(const ir::Dims& a, const ir::Dims& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const sym::Expr& x, const sym::Expr& y) { return may_be_equal(x, y); });
}

std::string_view word(ir::Alias alias) {
  return alias == ir::Alias::kOwn ? "own" : alias == ir::Alias::kView ? "view" : "update";
}

// How a declared output differs from what the op makes; empty: not at all.
std::string difference(const ir::Graph& graph, const ir::Op& op, const ir::Value& output,
                       const ops::OutputType& made) {
  if (output.dtype != made.type.dtype || !may_be_equal(output.dims, made.type.dims))
    return fmt::format("is declared {} {}, and the op makes {} {}", name(output.dtype),
                       print_dims(output.dims), name(made.type.dtype), print_dims(made.type.dims));
  if (!(output.layout == made.type.layout))
    return fmt::format("is declared with layout {}, and the op makes {}", print(output.layout),
                       print(made.type.layout));
  if (output.alias != made.alias)
    return fmt::format("is declared '{}', and is '{}' by the op table", word(output.alias),
                       word(made.alias));
  if (output.alias == ir::Alias::kOwn) return {};
  const ir::ValueId base = op.inputs[static_cast<size_t>(made.base_input)];
  if (output.base != base)
    return fmt::format("is declared on '{}', and lies in '{}'", graph.value(output.base).name,
                       graph.value(base).name);
  const sym::Expr offset = graph.value(base).offset_bytes + made.offset_bytes;
  if (may_be_equal(output.offset_bytes, offset)) return {};
  return fmt::format("is declared at byte {} of its storage, and lies at {}",
                     sym::print(output.offset_bytes), sym::print(offset));
}

Status check_op(const ir::Graph& graph, ir::OpId id, const std::string& origin) {
  const ir::Op& op = graph.op(id);
  const auto refuse = [&](const std::string& why) {
    return error(ErrorCode::kInput,
                 fmt::format("{}: op '{}' ({}): {}", origin, op.name, op.kind, why));
  };
  if (ops::find(op.kind) == nullptr)
    return refuse(
        "the op table has no such kind; what it does not know is written as kind \"Opaque\" with "
        "the attribute \"op\"");
  const auto made = ops::infer(ops::instance_of(graph, id));
  if (!made) return refuse(made.error().message);
  if (made->size() != op.outputs.size())
    return refuse(
        fmt::format("{} outputs are declared, and it has {}", op.outputs.size(), made->size()));
  for (size_t o = 0; o < made->size(); ++o) {
    const ir::Value& output = graph.value(op.outputs[o]);
    const std::string why = difference(graph, op, output, (*made)[o]);
    if (!why.empty()) return refuse(fmt::format("output '{}' {}", output.name, why));
  }
  return {};
}

}  // namespace

Result<ir::Graph> read_graph_text(std::string_view text, const std::string& origin,
                                  const sym::Bindings& bindings) {
  LT_ASSIGN(ir::Graph graph, ir::parse_graph(text, origin));
  LT_RETURN_IF_ERROR(check_bindings(graph, origin, bindings));
  auto bound = ir::bind(graph, bindings);
  if (!bound)
    return error(bound.error().code, fmt::format("{}: {}", origin, bound.error().message));
  for (const auto& [symbol, number] : graph.bindings) bound->bindings.emplace(symbol, number);
  graph = complete(*bound);
  for (ir::OpId id : graph.ops()) LT_RETURN_IF_ERROR(check_op(graph, id, origin));
  return graph;
}

Result<ir::Graph> read_graph_file(const std::string& path, const sym::Bindings& bindings) {
  LT_ASSIGN(const std::string text, read_file(path));
  return read_graph_text(text, path, bindings);
}

bool is_graph_path(std::string_view path) {
  return path.ends_with(".graph");
}

}  // namespace lowtide::io
