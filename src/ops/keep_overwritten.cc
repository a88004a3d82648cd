// One walk finds, for every update, the values that are read after it though it ended them; a
// second writes the graph again with a Copy of each before the update. Linear in operands.
#include "ops/keep_overwritten.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "ir/id_order.h"
#include "ops/op_table.h"

namespace lowtide::ops {
namespace {

using ir::OpId;
using ir::ValueId;

// The values of ended contents that somebody reads, by the op that ends them.
class LateReads {
 public:
  explicit LateReads(const ir::Graph& graph)
      : graph_(graph),
        current_(graph.storage_count()),
        ended_by_(graph.value_count()),
        of_copy_(graph.value_count()),
        kept_(graph.op_count()) {
    for (const ir::StorageId s : graph.storages()) current_[s] = graph.storage(s).root;
    for (const OpId op : graph.ops()) visit(op);
  }

  bool any() const { return any_; }
  const std::set<ValueId>& kept_before(OpId update) const { return kept_[update]; }

 private:
  // The value that brought the contents that `value` shows.
  ValueId version_of(ValueId value) const {
    while (graph_.value(value).alias == ir::Alias::kView) value = graph_.value(value).base;
    return value;
  }

  bool updates(const ir::Op& op, ValueId input) const {
    return std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId output) {
      const ir::Value& value = graph_.value(output);
      return value.alias == ir::Alias::kUpdate && value.base == input;
    });
  }

  void visit(OpId id) {
    const ir::Op& op = graph_.op(id);
    std::set<ValueId> copied;
    for (const ValueId input : op.inputs) {
      if (!input.valid()) continue;
      const ValueId version = version_of(input);
      if (of_copy_[input] != 0 || current_[graph_.value(input).storage] == version) continue;
      if (updates(op, input)) continue;  // for ir::check to tell
      kept_[ended_by_[version]].insert(input);
      copied.insert(input);
      any_ = true;
    }
    for (const ValueId output : op.outputs) {
      const ir::Value& value = graph_.value(output);
      if (value.alias == ir::Alias::kView)
        of_copy_[output] =
            static_cast<char>(of_copy_[value.base] != 0 || copied.contains(value.base));
      if (value.alias != ir::Alias::kUpdate) continue;
      ended_by_[current_[value.storage]] = id;
      current_[value.storage] = output;
    }
  }

  const ir::Graph& graph_;
  IdVector<ir::StorageId, ValueId> current_;
  IdVector<ValueId, OpId> ended_by_;
  IdVector<ValueId, char> of_copy_;  // views of what will be a copy
  IdVector<OpId, std::set<ValueId>> kept_;
  bool any_ = false;
};

class Rewrite {
 public:
  Rewrite(const ir::Graph& graph, const LateReads& late) : old_(graph), late_(late), made_(graph) {}

  Result<ir::Graph> run() {
    for (const ir::GraphItem item : ir::in_id_order(old_)) {
      if (item.given.valid())
        made_.give(item.given, old_.value(item.given));
      else
        LT_RETURN_IF_ERROR(add(item.op));
    }
    return std::move(made_.graph);
  }

 private:
  Status add(OpId id) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> inputs = made_.now(op.inputs);
    for (const ValueId kept : late_.kept_before(id)) {
      // For who comes after the update: its own inputs are settled above.
      LT_ASSIGN(made_.value[kept], keep(kept, op));
    }
    return append_again(made_, old_, id, std::move(inputs), op.attrs);
  }

  Result<ValueId> keep(ValueId kept, const ir::Op& update) {
    AppendOptions options;
    options.name = unused(old_.value(kept).name + "/kept");
    options.module = update.module;
    options.phase = update.phase;
    LT_ASSIGN(const OpId copy, append(made_.graph, "Copy", {made_.value[kept]}, {}, options));
    return made_.graph.op(copy).outputs[0];
  }

  // A name that neither graph has: what comes later keeps its own.
  std::string unused(const std::string& wanted) const {
    std::string made = wanted;
    for (int n = 1; made_.graph.fresh_name(made) != made || old_.fresh_name(made) != made; ++n)
      made = wanted + "." + std::to_string(n);
    return made;
  }

  const ir::Graph& old_;
  const LateReads& late_;
  ir::Rewritten made_;
};

}  // namespace

Result<ir::Graph> keep_overwritten(ir::Graph graph) {
  const LateReads late(graph);
  if (!late.any()) return graph;
  return Rewrite(graph, late).run();
}

}  // namespace lowtide::ops
