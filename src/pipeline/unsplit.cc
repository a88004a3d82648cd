#include "pipeline/unsplit.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "fission/expand.h"

namespace lowtide::pipeline {
namespace {

using plan::PlanOpId;
using plan::PlanUnsplit;

// "fc/part3" -> "fc" and 3, "fc/part0/part3" -> "fc/part0" and 3; of no part nothing.
std::optional<std::pair<std::string_view, size_t>> part_of(std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view op = name.substr(0, slash);
  size_t part = 0;
  for (char c : name.substr(std::min(name.find_last_not_of("0123456789") + 1, name.size())))
    part = std::min<size_t>(part * 10 + static_cast<size_t>(c - '0'), 1 << 30);
  if (fission::part_name(op, part) != name) return std::nullopt;
  return std::pair(op, part);
}

}  // namespace

UnsplitOps unsplit_ops(const ir::Graph& graph, const analysis::OpCosts& costs,
                       int64_t alignment_bytes) {
  UnsplitOps ops;
  for (ir::OpId id : graph.ops()) {
    PlanUnsplit& op = ops[graph.op(id).name].op;
    ops[graph.op(id).name].module = graph.op(id).module;
    op.seconds = costs.seconds[id];
    op.workspace_bytes = align_up(costs.workspace_bytes[id], alignment_bytes);
    for (ir::ValueId output : graph.op(id).outputs)
      op.output_bytes.push_back(
          align_up(ir::size_bytes(graph.value(output)).constant().value_or(0), alignment_bytes));
  }
  return ops;
}

void tell_unsplit(const UnsplitOps& unsplit, plan::Plan& plan) {
  std::set<std::string_view> told;
  for (plan::PlanOp& op : plan.ops) {
    auto found = unsplit.find(op.name);
    std::optional<std::pair<std::string_view, size_t>> part;
    bool is_first = true;
    for (std::string_view name = op.name; found == unsplit.end() && (part = part_of(name));) {
      is_first &= part->second == 0;
      name = part->first;
      found = unsplit.find(name);
    }
    op.unsplit = PlanUnsplit{};  // nothing
    if (found == unsplit.end() || !is_first) continue;
    told.insert(found->first);
    op.unsplit = found->second.op;
    if (op.unsplit->output_bytes.size() != op.outputs.size()) op.unsplit->output_bytes.clear();
    if (part) continue;
    op.unsplit->output_bytes.clear();
    if (op.unsplit->seconds == op.predicted_seconds) op.unsplit.reset();
  }
  std::map<std::string_view, plan::PlanOp*> by_name, by_module;
  for (plan::PlanOp& op : plan.ops) {
    by_name.emplace(op.name, &op);
    by_module.emplace(op.module, &op);
  }
  for (const auto& [name, left] : unsplit) {
    if (told.contains(name) || plan.ops.empty()) continue;
    const std::string start = name + "/";
    const auto first = by_name.lower_bound(start);
    const auto of_module = by_module.find(left.module);
    plan::PlanOp* op = first != by_name.end() && first->first.starts_with(start) ? first->second
                       : of_module != by_module.end()                            ? of_module->second
                                                      : &plan.ops[PlanOpId(0)];
    if (!op->unsplit) op->unsplit = PlanUnsplit{.seconds = op->predicted_seconds};
    op->unsplit->seconds += left.op.seconds;
  }
}

}  // namespace lowtide::pipeline
