#include "pipeline/unsplit.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "plan/part_name.h"

namespace lowtide::pipeline {

using plan::PlanOpId;
using plan::PlanUnsplit;

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
    std::optional<plan::PartName> part;  // or a part of a part
    bool is_first = true;
    for (std::string_view name = op.name; found == unsplit.end();) {
      part = plan::part_name(name);
      if (!part) break;
      is_first &= part->part == 0;
      name = part->op;
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
