#include "rewrite/layouts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/describe.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

class Pass {
 public:
  Pass(const ir::Graph& graph, const plan::KernelCatalog& catalog)
      : old_(graph), catalog_(catalog), value_(graph.value_count()), op_(graph.op_count()) {}

  Result<LayoutReport> run() {
    graph_.name = old_.name;
    graph_.producer = old_.producer;
    graph_.bindings = old_.bindings;
    size_t next_op = 0;
    for (ValueId v : old_.values()) {
      const ir::Value& value = old_.value(v);
      if (!value.producer.valid()) value_[v] = graph_.add_value(value);
      while (value.producer.valid() && next_op <= value.producer.index())
        LT_RETURN_IF_ERROR(copy_op(OpId(next_op++)));
    }
    while (next_op < old_.op_count()) LT_RETURN_IF_ERROR(copy_op(OpId(next_op++)));
    LT_RETURN_IF_ERROR(ir::check(graph_));
    return LayoutReport{std::move(graph_), reorders_};
  }

 private:
  Status copy_op(OpId id) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> inputs;
    for (ValueId input : op.inputs)
      inputs.push_back(input.valid() ? value_[input] : ValueId::none());
    ir::Attrs attrs = op.attrs;
    LT_ASSIGN(const bool wished, grant_wish(op, attrs, inputs));
    if (!wished) agree(op, attrs, inputs);
    auto types = infer(op, attrs, inputs);
    if (!types) {
      for (ValueId& input : inputs) input = in_layout(input, Layout{}, op);
      types = infer(op, attrs, inputs);
    }
    if (!types) return tl::unexpected<Error>(types.error());
    add(id, std::move(attrs), std::move(inputs), *types);
    return {};
  }

  // Brings the inputs to the layouts the kernel asks for; true if it asked for any.
  Result<bool> grant_wish(const ir::Op& op, ir::Attrs& attrs, std::vector<ValueId>& inputs) {
    LT_ASSIGN(plan::OpDesc desc, describe(op, attrs, inputs));
    const plan::LayoutWish wish = catalog_.wish(desc);
    for (size_t i = 0; i < wish.inputs.size() && i < inputs.size(); ++i)
      if (inputs[i].valid()) inputs[i] = in_layout(inputs[i], wish.inputs[i], op);
    const ops::Row* row = ops::find(op.kind);
    for (size_t i = 0; row != nullptr && i < wish.outputs.size(); ++i) {
      const std::string_view attr = ops::free_layout_attr(*row, i);
      if (!attr.empty() && !wish.outputs[i].row_major())
        attrs[std::string(attr)] = print(wish.outputs[i]);
    }
    return !wish.inputs.empty();
  }

  Result<plan::OpDesc> describe(const ir::Op& op, const ir::Attrs& attrs,
                                const std::vector<ValueId>& inputs) const {
    plan::OpDesc desc;
    desc.kind = op.kind;
    LT_ASSIGN(desc.attrs, analysis::describe(attrs, op.name));
    for (ValueId input : inputs) {
      if (!input.valid()) {
        desc.inputs.emplace_back();
        continue;
      }
      LT_ASSIGN(plan::TensorDesc type, analysis::describe(graph_.value(input)));
      desc.inputs.emplace_back(std::move(type));
    }
    for (ValueId output : op.outputs) {
      LT_ASSIGN(plan::TensorDesc type, analysis::describe(old_.value(output)));
      desc.outputs.push_back(std::move(type));
    }
    return desc;
  }

  // Operands of one rank but different layouts: all follow the first permuted one, if the op can be
  // typed so.
  void agree(const ir::Op& op, const ir::Attrs& attrs, std::vector<ValueId>& inputs) {
    for (ValueId& input : inputs)
      if (input.valid() && !graph_.value(input).layout.blocked.empty())
        input = in_layout(input, Layout{}, op);
    const auto permuted = std::find_if(inputs.begin(), inputs.end(), [&](ValueId input) {
      return input.valid() && !graph_.value(input).layout.row_major();
    });
    if (permuted == inputs.end() || infer(op, attrs, inputs)) return;
    const Layout layout = graph_.value(*permuted).layout;
    const ir::Dims dims = graph_.value(*permuted).dims;
    for (ValueId& input : inputs)
      if (input.valid() && graph_.value(input).dims == dims) input = in_layout(input, layout, op);
  }

  Result<std::vector<ops::OutputType>> infer(const ir::Op& op, const ir::Attrs& attrs,
                                             const std::vector<ValueId>& inputs) const {
    ops::Instance instance{op.kind, &attrs, {}};
    for (ValueId input : inputs) {
      if (!input.valid()) {
        instance.inputs.emplace_back();
        continue;
      }
      const ir::Value& value = graph_.value(input);
      instance.inputs.emplace_back(ops::Type{value.dtype, value.dims, value.layout});
    }
    auto types = ops::infer(instance);
    if (!types) types.error().message = fmt::format("op '{}': {}", op.name, types.error().message);
    return types;
  }

  ValueId in_layout(ValueId input, const Layout& layout, const ir::Op& op) {
    const ir::Value source = graph_.value(input);
    if (source.layout == layout) return input;
    const bool shared = source.category != Category::kParameter;
    const auto key = std::pair(input, print(layout));
    if (const auto known = reordered_.find(key); shared && known != reordered_.end())
      return known->second;
    ir::Attrs attrs{{"layout", print(layout)}};
    ir::Value made;
    made.name =
        graph_.fresh_name(source.name + "/" + (layout.row_major() ? "row_major" : "reordered"));
    made.dtype = source.dtype;
    made.dims = source.dims;
    made.layout = layout;
    made.category = op.phase == Phase::kForward ? Category::kActivation : Category::kTemporary;
    if (source.category == Category::kGradient) made.category = Category::kGradient;
    ir::Op reorder;
    reorder.kind = "Reorder";
    reorder.name = graph_.fresh_name("reorder/" + made.name);
    reorder.module = op.module;
    reorder.phase = op.phase == Phase::kUpdate ? Phase::kBackward : op.phase;
    reorder.attrs = std::move(attrs);
    reorder.inputs = {input};
    const OpId id = graph_.add_op(std::move(reorder), {std::move(made)});
    const ValueId result = graph_.op(id).outputs[0];
    if (shared) reordered_.emplace(key, result);
    ++reorders_;
    return result;
  }

  void add(OpId id, ir::Attrs attrs, std::vector<ValueId> inputs,
           const std::vector<ops::OutputType>& types) {
    const ir::Op& op = old_.op(id);
    ir::Op copy = op;
    copy.attrs = std::move(attrs);
    copy.inputs = inputs;
    for (OpId& before : copy.control) before = op_[before];
    std::vector<ir::Value> outputs;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      ir::Value value = old_.value(op.outputs[i]);
      value.layout = types[i].type.layout;
      // A slice that was a view may need a copy in another layout, or the reverse.
      value.alias = types[i].alias;
      value.base = value.alias == ir::Alias::kOwn
                       ? ValueId::none()
                       : inputs[static_cast<size_t>(types[i].base_input)];
      value.offset_bytes = types[i].offset_bytes;
      outputs.push_back(std::move(value));
    }
    op_[id] = graph_.add_op(std::move(copy), std::move(outputs));
    for (size_t i = 0; i < op.outputs.size(); ++i)
      value_[op.outputs[i]] = graph_.op(op_[id]).outputs[i];
  }

  const ir::Graph& old_;
  const plan::KernelCatalog& catalog_;
  ir::Graph graph_;
  IdVector<ValueId, ValueId> value_;
  IdVector<OpId, OpId> op_;
  std::map<std::pair<ValueId, std::string>, ValueId> reordered_;
  int reorders_ = 0;
};

}  // namespace

Result<LayoutReport> choose_layouts(const ir::Graph& graph, const plan::KernelCatalog& catalog) {
  return Pass(graph, catalog).run();
}

}  // namespace lowtide::rewrite
