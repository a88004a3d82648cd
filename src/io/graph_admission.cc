#include "io/graph_admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "base/printable.h"
#include "io/graph_claims.h"
#include "ir/bind.h"
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
  for (const auto& [symbol, number] : graph.bindings)
    if (number < 1)
      return error(ErrorCode::kInput, fmt::format("{}: the size '{}' is bound to {}; a size is at "
                                                  "least 1",
                                                  origin, printable(symbol), number));
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
  std::string types, aliases, layouts;
  ir::Dims ranks, dims, offsets;
  bool strided = false;
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
    layouts += (layouts.empty() ? "" : " ") + print(output.layout);
    strided |= output.layout.strided();
    offsets.push_back(output.alias == ir::Alias::kView ? offset : sym::Expr(0));
  }
  ir::Attrs attrs = {{"types", types},
                     {"ranks", ranks},
                     {"dims", dims},
                     {"aliases", aliases},
                     {"offsets", offsets}};
  if (strided) attrs.emplace("layouts", layouts);
  return attrs;
}

// Whether its kernel reads strided views; what makes no sense, the op table refuses.
bool reads_strided(const ir::Attrs& attrs) {
  const auto found = attrs.find("strided");
  if (found == attrs.end()) return false;
  const auto* number = std::get_if<int64_t>(&found->second);
  return number == nullptr || *number != 0;
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
  switch (alias) {
    case ir::Alias::kOwn:
      return "own";
    case ir::Alias::kView:
      return "view";
    case ir::Alias::kUpdate:
      return "update";
    case ir::Alias::kPieces:
      return "pieces";
  }
  return "";
}

// The graph again, op by op as the op table says it: what opaque ops leave to their `out` lines is
// in their attributes, effects have their order, every output was held against its declaration, and
// strided views are copied for opaque ops that do not read them. Without such copies, ids stay.
class Rebuild {
 public:
  Rebuild(const ir::Graph& declared, const std::string& origin, const GraphPlaces& places)
      : declared_(declared), origin_(origin), places_(places), made_(declared) {}

  Result<ir::Rewritten> run() {
    for (const ir::GraphItem item : ir::in_id_order(declared_)) {
      if (item.given.valid())
        made_.give(item.given, declared_.value(item.given));
      else
        LT_RETURN_IF_ERROR(add(item.op));
    }
    return std::move(made_);
  }

 private:
  Status add(ir::OpId id) {
    const ir::Op& op = declared_.op(id);
    const ops::Row* row = ops::find(op.kind);
    if (row == nullptr)
      return refuse(id,
                    "the op table has no such kind; what it does not know is written as kind "
                    "\"Opaque\" with the attribute \"op\"");
    ir::Attrs attrs = op.attrs;
    ops::AppendOptions options = {
        .name = op.name, .module = op.module, .source = op.source, .phase = op.phase};
    options.control = made_.now(op.control);
    std::vector<ir::ValueId> inputs = made_.now(op.inputs);
    for (ir::ValueId output : op.outputs)
      options.output_names.push_back(declared_.value(output).name);
    if (ops::traits(*row).opaque) {
      for (ir::ValueId output : op.outputs)
        if (declared_.value(output).alias == ir::Alias::kPieces)
          return refuse(id, "its outputs are own, view or update; pieces are joined by a Join");
      if (!attrs.contains("types"))
        for (auto& [name, value] : attrs_of_outputs(declared_, op))
          attrs.insert_or_assign(name, std::move(value));
      if (ops::traits(*row).has_effect) follow_last_effect(options.control);
      if (!reads_strided(attrs)) LT_RETURN_IF_ERROR(copy_strided(op, inputs));
    }
    const auto made = ops::append(graph_, op.kind, std::move(inputs), std::move(attrs), options);
    if (!made) return fail(id, made.error());
    if (ops::traits(*row).has_effect && ops::traits(*row).opaque) last_effect_ = *made;
    LT_RETURN_IF_ERROR(take_outputs(id, graph_.op(*made).outputs));
    made_.note(id, op.outputs, *made);
    return {};
  }

  void follow_last_effect(std::vector<ir::OpId>& control) const {
    const bool ordered = std::find(control.begin(), control.end(), last_effect_) != control.end();
    if (last_effect_.valid() && !ordered) control.push_back(last_effect_);
  }

  // Makes operands that are strided views their dense copies; but for what outputs lie in.
  Status copy_strided(const ir::Op& op, std::vector<ir::ValueId>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid() || !graph_.value(inputs[i]).layout.strided()) continue;
      const auto lies_in = [&](ir::ValueId output) {
        return declared_.value(output).base == op.inputs[i];
      };
      if (std::any_of(op.outputs.begin(), op.outputs.end(), lies_in)) continue;
      LT_ASSIGN(inputs[i], copy_of(inputs[i], op, is_gradient_of(op, i)));
    }
    return {};
  }

  // One copy for all who want it. A parameter's is not shared: it would be held from the forward
  // pass to the backward pass, as in rewrite/layouts.h.
  Result<ir::ValueId> copy_of(ir::ValueId view, const ir::Op& reader, bool is_gradient) {
    const ir::Value& source = graph_.value(view);
    const auto known = copies_.find(view);
    if (known != copies_.end() && !is_gradient) return known->second;
    ops::AppendOptions options = {
        .module = reader.module, .source = reader.source, .phase = reader.phase};
    if (reader.phase == Phase::kUpdate) options.phase = Phase::kBackward;
    options.output_names = {fresh_name(source.name + "/row_major")};
    options.name = fresh_name("copy/" + options.output_names[0]);
    const Category root = graph_.value(graph_.storage(source.storage).root).category;
    is_gradient |= root == Category::kGradient;
    options.category = reader.phase == Phase::kForward ? Category::kActivation
                       : is_gradient                   ? Category::kGradient
                                                       : Category::kTemporary;
    LT_ASSIGN(const ir::OpId made,
              ops::append(graph_, "Reorder", {view}, {{"layout", "row_major"}}, options));
    const ir::ValueId copy = graph_.op(made).outputs[0];
    if (root != Category::kParameter) copies_.emplace(view, copy);
    return copy;
  }

  // Whether an update takes the operand as its gradient (graph_claims.h).
  bool is_gradient_of(const ir::Op& op, size_t input) const {
    return input == 1 && op.phase == Phase::kUpdate &&
           std::any_of(op.outputs.begin(), op.outputs.end(), [&](ir::ValueId output) {
             return declared_.value(output).alias == ir::Alias::kUpdate;
           });
  }

  // A name that nothing has, nor will have.
  std::string fresh_name(const std::string& wanted) const {
    std::string name = wanted;
    for (int n = 1; declared_.fresh_name(name) != name || graph_.fresh_name(name) != name; ++n)
      name = fmt::format("{}.{}", wanted, n);
    return name;
  }

  Status take_outputs(ir::OpId id, const std::vector<ir::ValueId>& made) {
    const ir::Op& op = declared_.op(id);
    if (made.size() != op.outputs.size())
      return refuse(id, fmt::format("{} outputs are declared, and it has {}", op.outputs.size(),
                                    made.size()));
    for (size_t o = 0; o < made.size(); ++o) {
      const ir::Value& output = declared_.value(op.outputs[o]);
      const std::string why = difference(output, graph_.value(made[o]));
      if (!why.empty()) return refuse(id, fmt::format("output '{}' {}", output.name, why));
      graph_.set_category(made[o], output.category);
      graph_.keep_output(made[o], output);
    }
    return {};
  }

  // How a declared output differs from what the op makes; empty: not at all.
  std::string difference(const ir::Value& output, const ir::Value& made) const {
    if (output.dtype != made.dtype || !may_be_equal(output.dims, made.dims))
      return fmt::format("is declared {} {}, and the op makes {} {}", name(output.dtype),
                         print_dims(output.dims), name(made.dtype), print_dims(made.dims));
    if (!(output.layout == made.layout))
      return fmt::format("is declared with layout {}, and the op makes {}", print(output.layout),
                         print(made.layout));
    if (output.alias != made.alias)
      return fmt::format("is declared '{}', and is '{}' by the op table", word(output.alias),
                         word(made.alias));
    if (output.base.valid() && made_.value[output.base] != made.base)
      return fmt::format("is declared on '{}', and lies in '{}'", declared_.value(output.base).name,
                         graph_.value(made.base).name);
    if (may_be_equal(output.offset_bytes, made.offset_bytes)) return {};
    return fmt::format("is declared at byte {} of its storage, and lies at {}",
                       sym::print(output.offset_bytes), sym::print(made.offset_bytes));
  }

  tl::unexpected<Error> refuse(ir::OpId id, const std::string& why) const {
    const ir::Op& op = declared_.op(id);
    return fail(id, {ErrorCode::kInput, fmt::format("op '{}' ({}): {}", op.name, op.kind, why)});
  }
  // An error about an op that names it already.
  tl::unexpected<Error> fail(ir::OpId id, const Error& cause) const {
    const std::string place = places_.of_op(id);
    return error(cause.code, fmt::format("{}: {}{}{}", origin_, place, place.empty() ? "" : ": ",
                                         cause.message));
  }

  const ir::Graph& declared_;
  const std::string& origin_;
  const GraphPlaces& places_;
  ir::Rewritten made_;
  ir::Graph& graph_ = made_.graph;
  ir::OpId last_effect_;
  std::map<ir::ValueId, ir::ValueId> copies_;  // by view
};

}  // namespace

Result<ir::Graph> admit_graph(const ir::Graph& graph, const std::string& origin,
                              const sym::Bindings& bindings, const GraphPlaces& places) {
  LT_RETURN_IF_ERROR(check_bindings(graph, origin, bindings));
  auto bound = ir::bind(graph, bindings);
  if (!bound)
    return error(bound.error().code, fmt::format("{}: {}", origin, bound.error().message));
  for (const auto& [symbol, number] : graph.bindings) bound->bindings.emplace(symbol, number);
  LT_ASSIGN(ir::Rewritten rebuilt, Rebuild(*bound, origin, places).run());
  if (Status status = ir::check(rebuilt.graph); !status)
    return error(status.error().code, fmt::format("{}: {}", origin, status.error().message));
  if (const auto wrong = find_wrong_claim(rebuilt.graph)) {
    const auto declared = std::find(rebuilt.value.begin(), rebuilt.value.end(), wrong->value);
    const ir::ValueId id(static_cast<size_t>(declared - rebuilt.value.begin()));
    return error(ErrorCode::kInput,
                 fmt::format("{}:{}: {}", origin, places.of_value(id), wrong->why));
  }
  return std::move(rebuilt.graph);
}

}  // namespace lowtide::io
