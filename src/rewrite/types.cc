#include "rewrite/types.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "analysis/describe.h"
#include "analysis/schedule_view.h"
#include "ir/id_order.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

// Another type for each type; itself where it stays.
using Widening = DType (*)(DType);

DType floats_as_f32(DType type) {
  return type == DType::kF16 || type == DType::kBF16 ? DType::kF32 : type;
}
DType integers_as_i32(DType type) {
  return is_integer(type) && size_bytes(type) < 4 ? DType::kI32 : type;
}
DType integers_as_i64(DType type) {
  return is_integer(type) && size_bytes(type) <= 4 ? DType::kI64 : type;
}
constexpr std::array<Widening, 3> kWidenings = {floats_as_f32, integers_as_i32, integers_as_i64};

bool has_wider(DType type) {
  return std::any_of(kWidenings.begin(), kWidenings.end(),
                     [&](Widening widen) { return widen(type) != type; });
}

class TypePass {
 public:
  TypePass(const ir::Graph& graph, const plan::KernelCatalog& catalog)
      : old_(graph), catalog_(catalog), made_(graph) {}

  Result<TypeReport> run() {
    for (const ir::GraphItem item : ir::in_id_order(old_)) {
      if (item.given.valid())
        made_.give(item.given, old_.value(item.given));
      else
        LT_RETURN_IF_ERROR(convert(item.op));
    }
    LT_RETURN_IF_ERROR(ir::check(graph_));
    return TypeReport{std::move(graph_), casts_};
  }

 private:
  Status convert(OpId id) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> inputs = made_.now(op.inputs);
    LT_ASSIGN(const std::optional<Widening> widening, choose(id));
    if (!widening) return copy(id, std::move(inputs));
    for (ValueId& input : inputs)
      if (input.valid()) {
        LT_ASSIGN(input, in_type(input, (*widening)(graph_.value(input).dtype), op));
      }
    return compute_wide(id, std::move(inputs), *widening);
  }

  // The first widening that a kernel takes, for an op that none takes as it is.
  Result<std::optional<Widening>> choose(OpId id) const {
    const ir::Op& op = old_.op(id);
    if (ops::given_cost(op)) return std::nullopt;  // no kernel of ours
    bool widens = false, updates = false;
    for (const auto& values : {op.inputs, op.outputs})
      for (ValueId v : values) widens |= v.valid() && has_wider(old_.value(v).dtype);
    for (ValueId v : op.outputs) updates |= old_.value(v).alias == ir::Alias::kUpdate;
    if (!widens || updates || analysis::is_view_op(old_, id)) return std::nullopt;
    LT_ASSIGN(const plan::OpDesc desc, analysis::describe(old_, id));
    if (accepted(desc)) return std::nullopt;
    for (const Widening widening : kWidenings) {
      const auto wide = widened(id, desc, widening);
      if (wide && accepted(*wide)) return widening;
    }
    return std::nullopt;
  }

  // The op on wider operands; none where nothing gets wider or the op table does not allow it.
  std::optional<plan::OpDesc> widened(OpId id, plan::OpDesc desc, Widening widening) const {
    ops::Instance instance = ops::instance_of(old_, id);
    bool changed = false;
    for (size_t i = 0; i < instance.inputs.size(); ++i) {
      if (!instance.inputs[i]) continue;
      const DType wide = widening(instance.inputs[i]->dtype);
      changed |= wide != instance.inputs[i]->dtype;
      instance.inputs[i]->dtype = desc.inputs[i]->dtype = wide;
    }
    const auto outputs = ops::infer(instance);
    if (!changed || !outputs || outputs->size() != desc.outputs.size()) return std::nullopt;
    for (size_t o = 0; o < outputs->size(); ++o) desc.outputs[o].dtype = (*outputs)[o].type.dtype;
    return desc;
  }

  // Also in the layouts that the kernel would be given. Of what is strided a copy may be read.
  bool accepted(plan::OpDesc desc) const {
    for (auto& input : desc.inputs)
      if (input && input->layout.strided()) input->layout = {};
    if (catalog_.workspace_bytes(desc)) return true;
    const plan::LayoutWish wish = catalog_.wish(desc);
    if (wish.inputs.empty()) return false;
    for (size_t i = 0; i < wish.inputs.size() && i < desc.inputs.size(); ++i)
      if (desc.inputs[i]) desc.inputs[i]->layout = wish.inputs[i];
    for (size_t o = 0; o < wish.outputs.size() && o < desc.outputs.size(); ++o)
      desc.outputs[o].layout = wish.outputs[o];
    return catalog_.workspace_bytes(desc).has_value();
  }

  Status copy(OpId id, std::vector<ValueId> inputs) {
    ops::AppendOptions options = options_for(old_.op(id));
    options.name = old_.op(id).name;
    for (ValueId output : old_.op(id).outputs)
      options.output_names.push_back(old_.value(output).name);
    LT_RETURN_IF_ERROR(append(id, std::move(inputs), options));
    for (size_t o = 0; o < old_.op(id).outputs.size(); ++o)
      stand_in(old_.op(id).outputs[o], graph_.op(made_.op[id]).outputs[o]);
    return {};
  }

  Status compute_wide(OpId id, std::vector<ValueId> inputs, Widening widening) {
    const ir::Op& op = old_.op(id);
    ops::AppendOptions options = options_for(op);
    options.name = op.name;
    for (ValueId output : op.outputs) {
      const ir::Value& value = old_.value(output);
      const DType wide = widening(value.dtype);
      options.output_names.push_back(wide == value.dtype ? value.name : wide_name(value, wide));
    }
    LT_RETURN_IF_ERROR(append(id, std::move(inputs), options));
    const std::vector<ValueId> made = graph_.op(made_.op[id]).outputs;
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const ir::Value& value = old_.value(op.outputs[o]);
      ValueId result = made[o];
      if (graph_.value(result).dtype != value.dtype) {
        LT_ASSIGN(result, cast(result, value.dtype, op, value.name));
      }
      stand_in(op.outputs[o], result);
    }
    return {};
  }

  // The op on these inputs, where the old one's control edges lead.
  Status append(OpId id, std::vector<ValueId> inputs, const ops::AppendOptions& options) {
    const ir::Op& op = old_.op(id);
    LT_ASSIGN(made_.op[id], ops::append(graph_, op.kind, std::move(inputs), op.attrs, options));
    for (OpId before : op.control) graph_.add_control(made_.op[before], made_.op[id]);
    return {};
  }

  void stand_in(ValueId old, ValueId made) {
    const ir::Value& value = old_.value(old);
    graph_.set_category(made, value.category);
    graph_.keep_output(made, value);
    made_.value[old] = made;
  }

  static ops::AppendOptions options_for(const ir::Op& op) {
    ops::AppendOptions options;
    options.module = op.module;
    options.source = op.source;
    options.phase = op.phase;
    options.category = op.phase == Phase::kForward ? Category::kActivation : Category::kTemporary;
    return options;
  }

  // A name that neither graph has: what comes later keeps its own.
  std::string unused(const std::string& wanted) const {
    std::string made = wanted;
    for (int n = 1; graph_.fresh_name(made) != made || old_.fresh_name(made) != made; ++n)
      made = fmt::format("{}.{}", wanted, n);
    return made;
  }
  std::string wide_name(const ir::Value& value, DType type) const {
    return unused(fmt::format("{}/{}", value.name, name(type)));
  }

  Result<ValueId> in_type(ValueId value, DType type, const ir::Op& reader) {
    const ir::Value source = graph_.value(value);
    if (source.dtype == type) return value;
    const auto key = std::tuple(value, type, reader.phase);
    if (const auto known = cast_.find(key); known != cast_.end()) return known->second;
    LT_ASSIGN(cast_[key], cast(value, type, reader, wide_name(source, type)));
    return cast_[key];
  }

  Result<ValueId> cast(ValueId value, DType type, const ir::Op& for_op, const std::string& named) {
    ops::AppendOptions options = options_for(for_op);
    options.name = unused("cast/" + named);
    options.output_names = {named};
    LT_ASSIGN(const OpId made,
              ops::append(graph_, "Cast", {value}, {{"to", std::string(name(type))}}, options));
    ++casts_;
    return graph_.op(made).outputs[0];
  }

  const ir::Graph& old_;
  const plan::KernelCatalog& catalog_;
  ir::Rewritten made_;
  ir::Graph& graph_ = made_.graph;
  std::map<std::tuple<ValueId, DType, Phase>, ValueId> cast_;
  int casts_ = 0;
};

}  // namespace

Result<TypeReport> choose_types(const ir::Graph& graph, const plan::KernelCatalog& catalog) {
  return TypePass(graph, catalog).run();
}

}  // namespace lowtide::rewrite
