#include "rewrite/taken_apart.h"

#include <fmt/format.h>

#include <utility>

#include "ops/op_table.h"

namespace lowtide::rewrite {

using ir::OpId;
using ir::ValueId;

TakenApart::TakenApart(const ir::Graph& graph) : old_(graph), made_(graph) {
  for (ValueId id : old_.values())
    if (!old_.value(id).producer.valid()) made_.give(id, old_.value(id));
}

Status TakenApart::keep(OpId id) {
  const ir::Op& op = old_.op(id);
  return ops::append_again(made_, old_, id, made_.now(op.inputs), op.attrs);
}

Status TakenApart::add(OpId of, std::string_view suffix, std::string_view kind,
                       std::vector<ValueId> inputs, ir::Attrs attrs,
                       const std::vector<ValueId>& results) {
  const ir::Op& op = old_.op(of);
  ops::AppendOptions options{.name = fmt::format("{}{}", op.name, suffix),
                             .module = op.module,
                             .source = op.source,
                             .phase = op.phase,
                             .control = made_.now(op.control)};
  for (ValueId result : results) options.output_names.push_back(old_.value(result).name);
  LT_ASSIGN(const OpId added,
            ops::append(made_.graph, kind, std::move(inputs), std::move(attrs), options));
  for (size_t i = 0; i < results.size(); ++i) {
    const ir::Value& was = old_.value(results[i]);
    const ValueId now = made_.graph.op(added).outputs[i];
    made_.value[results[i]] = now;
    made_.graph.keep_output(now, was);
    made_.graph.set_category(now, was.category);
  }
  made_.op[of] = added;
  last_ = made_.graph.op(added).outputs[0];
  return {};
}

Result<ir::Graph> TakenApart::graph() && {
  LT_RETURN_IF_ERROR(ir::check(made_.graph));
  return std::move(made_.graph);
}

}  // namespace lowtide::rewrite
