#include "rewrite/strided_views.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "analysis/describe.h"
#include "ir/id_order.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::StorageId;
using ir::ValueId;

// What would change with one more view: the types of what lies in it, the ops that make views, and
// the seconds of all that read it.
struct ViewTrial {
  std::map<ValueId, ops::Type> types;
  std::vector<OpId> views;
  std::set<OpId> open;  // reads what changed and was not looked at, in order
  int readers = 0;
  bool slower = false;    // one of them
  bool in_place = false;  // one could work in place on the copy
  double before = 0, after = 0;
};

class StridedViewsPass {
 public:
  StridedViewsPass(const ir::Graph& graph, const plan::KernelCatalog& catalog,
                   const StridedViewsOptions& options)
      : old_(graph),
        catalog_(catalog),
        options_(options),
        type_(graph.value_count()),
        storage_(graph.value_count()),
        view_(graph.op_count(), 0),
        ordered_(graph.op_count(), 0) {
    for (ValueId v : graph.values()) {
      const ir::Value& value = graph.value(v);
      type_[v] = {value.dtype, value.dims, value.layout};
      storage_[v] = value.storage;
    }
    for (OpId id : graph.ops())
      for (OpId before : graph.op(id).control) ordered_[id] = ordered_[before] = 1;
  }

  Result<StridedViewsReport> run() {
    StridedViewsReport report;
    for (OpId id : old_.ops()) {
      if (!saves_memory(id)) continue;
      ViewTrial trial;
      LT_ASSIGN(const bool better, try_view(id, trial));
      if (!better) continue;
      for (auto& [value, type] : trial.types) {
        type_[value] = std::move(type);
        storage_[value] = storage_[old_.op(id).inputs[0]];
      }
      for (OpId view : trial.views) view_[view] = 1;
      ++report.views;
    }
    if (report.views == 0) return report;
    LT_ASSIGN(report.graph, rebuild());
    return report;
  }

 private:
  // Whether the op copies, and no schedule needs more memory where it does not, as far as its
  // operand and result say.
  bool saves_memory(OpId id) const {
    const ir::Op& op = old_.op(id);
    const bool slices = op.kind == "Slice";
    if (!slices && op.kind != "Transpose" && op.kind != "Expand") return false;
    const ir::Value& result = old_.value(op.outputs[0]);
    if (result.alias != ir::Alias::kOwn || ordered_[id]) return false;
    const StorageId from = storage_[op.inputs[0]];
    const ir::Value& root = old_.value(old_.storage(from).root);
    if (root.alias == ir::Alias::kPieces || is_overwritten(from)) return false;
    for (ValueId member : old_.values_in(result.storage))
      if (old_.value(member).is_output || old_.value(member).alias == ir::Alias::kUpdate)
        return false;
    if (!root.producer.valid() && (!slices || options_.slices)) return true;
    const auto base = ir::size_bytes(root).constant(), copy = ir::size_bytes(result).constant();
    return base && copy && *copy >= *base;
  }

  bool is_overwritten(StorageId s) const {
    const auto members = old_.values_in(s);
    return std::any_of(members.begin(), members.end(), [&](ValueId member) {
      return old_.value(member).alias == ir::Alias::kUpdate;
    });
  }

  // Whether the op as a view is taken by all readers, and for less time.
  Result<bool> try_view(OpId id, ViewTrial& trial) const {
    LT_ASSIGN(trial.before, seconds(id, {}));
    if (!make_view(id, trial)) return false;
    while (!trial.open.empty()) {
      const OpId next = *trial.open.begin();
      trial.open.erase(trial.open.begin());
      if (old_.value(old_.op(next).outputs[0]).alias == ir::Alias::kView) {
        if (!make_view(next, trial)) return false;
        continue;
      }
      LT_ASSIGN(const bool taken, is_taken(next, trial));
      if (!taken) return false;
    }
    if (trial.readers > 1 && (trial.slower || trial.in_place)) return false;
    return trial.after < trial.before;
  }

  // The op's attributes as a maker of strided views.
  static ir::Attrs asking(const ir::Op& op) {
    ir::Attrs attrs = op.attrs;
    attrs.insert_or_assign("view", int64_t{1});
    return attrs;
  }

  bool make_view(OpId id, ViewTrial& trial) const {
    const ir::Op& op = old_.op(id);
    const ir::Attrs attrs = asking(op);
    const auto made = ops::infer(instance(id, attrs, trial.types));
    if (!made || made->size() != 1 || made->front().alias != ir::Alias::kView) return false;
    trial.views.push_back(id);
    trial.types[op.outputs[0]] = made->front().type;
    for (OpId reader : old_.readers(op.outputs[0])) trial.open.insert(reader);
    return true;
  }

  // Whether a kernel reads what changed as well as before.
  Result<bool> is_taken(OpId id, ViewTrial& trial) const {
    const ir::Op& op = old_.op(id);
    if (op.kind == "Concat" || op.kind == "Join" || ops::given_cost(op)) return false;
    const auto changed = [&](ValueId v) { return v.valid() && trial.types.contains(v); };
    for (const auto& [in, out] : ops::in_place_pairs(instance(id, op.attrs, {})))
      if (changed(op.inputs[static_cast<size_t>(in)])) trial.in_place = true;
    if (trial.in_place && !may_run_with_the_copy(id, trial)) return false;
    for (ValueId output : op.outputs)
      if (old_.value(output).alias == ir::Alias::kUpdate && changed(old_.value(output).base))
        return false;
    const auto made = ops::infer(instance(id, op.attrs, trial.types));
    if (!made) return false;
    for (size_t o = 0; o < made->size(); ++o)
      if ((*made)[o].type != type_[op.outputs[o]]) return false;
    LT_ASSIGN(const plan::OpDesc was, describe(id, {}));
    LT_ASSIGN(const plan::OpDesc is, describe(id, trial.types));
    const auto room_before = catalog_.workspace_bytes(was), room = catalog_.workspace_bytes(is);
    if (!room_before || !room || *room > *room_before) return false;
    if (trial.in_place && *room > 0) return false;
    const plan::LayoutWish wish = catalog_.wish(is);
    for (size_t i = 0; i < wish.inputs.size() && i < is.inputs.size(); ++i)
      if (is.inputs[i] && is.inputs[i]->layout.strided() && wish.inputs[i] != is.inputs[i]->layout)
        return false;
    LT_ASSIGN(const double before, options_.seconds(was));
    LT_ASSIGN(const double after, options_.seconds(is));
    trial.before += before;
    trial.after += after;
    trial.slower |= after > before;
    ++trial.readers;
    return true;
  }

  // Whether the op needs nothing but what changed and what is there before the step, and makes one
  // result: then it can run where the copy did, and its result takes the place of the copy.
  bool may_run_with_the_copy(OpId id, const ViewTrial& trial) const {
    const ir::Op& op = old_.op(id);
    if (op.outputs.size() != 1 || ordered_[id]) return false;
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](ValueId input) {
      return !input.valid() || trial.types.contains(input) ||
             !old_.value(old_.storage(storage_[input]).root).producer.valid();
    });
  }

  ops::Instance instance(OpId id, const ir::Attrs& attrs,
                         const std::map<ValueId, ops::Type>& changed) const {
    ops::Instance made{.kind = old_.op(id).kind, .attrs = &attrs, .inputs = {}};
    for (ValueId input : old_.op(id).inputs) {
      made.inputs.emplace_back();
      if (!input.valid()) continue;
      const auto now = changed.find(input);
      made.inputs.back() = now == changed.end() ? type_[input] : now->second;
    }
    return made;
  }

  Result<plan::OpDesc> describe(OpId id, const std::map<ValueId, ops::Type>& changed) const {
    LT_ASSIGN(plan::OpDesc desc, analysis::describe(old_, id));
    const ops::Instance now = instance(id, old_.op(id).attrs, changed);
    for (size_t i = 0; i < desc.inputs.size(); ++i)
      if (desc.inputs[i]) desc.inputs[i]->layout = now.inputs[i]->layout;
    return desc;
  }

  Result<double> seconds(OpId id, const std::map<ValueId, ops::Type>& changed) const {
    LT_ASSIGN(const plan::OpDesc desc, describe(id, changed));
    return options_.seconds(desc);
  }

  Result<ir::Graph> rebuild() const {
    ir::Rewritten made(old_);
    for (const ir::GraphItem item : ir::in_id_order(old_)) {
      if (item.given.valid()) {
        made.give(item.given, old_.value(item.given));
        continue;
      }
      const ir::Op& op = old_.op(item.op);
      LT_RETURN_IF_ERROR(ops::append_again(made, old_, item.op, made.now(op.inputs),
                                           view_[item.op] ? asking(op) : op.attrs));
    }
    LT_RETURN_IF_ERROR(ir::check(made.graph));
    return std::move(made.graph);
  }

  const ir::Graph& old_;
  const plan::KernelCatalog& catalog_;
  const StridedViewsOptions& options_;
  IdVector<ValueId, ops::Type> type_;     // with the views that were chosen
  IdVector<ValueId, StorageId> storage_;  // of the old graph, in which a value lies then
  IdVector<OpId, char> view_;             // is asked for a view
  IdVector<OpId, char> ordered_;          // stands at an end of a control edge
};

}  // namespace

Result<StridedViewsReport> make_strided_views(const ir::Graph& graph,
                                              const plan::KernelCatalog& catalog,
                                              const StridedViewsOptions& options) {
  return StridedViewsPass(graph, catalog, options).run();
}

}  // namespace lowtide::rewrite
