#include "rewrite/layouts.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/describe.h"
#include "ir/id_order.h"
#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

using Layouts = std::vector<Layout>;  // by operand

class LayoutPass {
 public:
  LayoutPass(const ir::Graph& graph, const plan::KernelCatalog& catalog)
      : old_(graph), catalog_(catalog), made_(graph) {}

  Result<LayoutReport> run() {
    for (const ir::GraphItem item : ir::in_id_order(old_)) {
      if (item.given.valid())
        made_.give(item.given, old_.value(item.given));
      else
        LT_RETURN_IF_ERROR(copy_op(item.op));
    }
    LT_RETURN_IF_ERROR(ir::check(graph_));
    return LayoutReport{std::move(graph_), reorders_};
  }

 private:
  Status copy_op(OpId id) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> inputs = made_.now(op.inputs);
    ir::Attrs attrs = op.attrs;
    const std::vector<char> updated = updated_inputs(op);
    LT_ASSIGN(const bool wished, grant_wish(op, attrs, inputs, updated));
    LT_RETURN_IF_ERROR(settle(op, attrs, inputs, updated, wished));
    return ops::append_again(made_, old_, id, std::move(inputs), std::move(attrs));
  }

  // Which operands the op overwrites. A copy of them in another layout would be overwritten in
  // their place, and what the step is to leave behind would never change.
  std::vector<char> updated_inputs(const ir::Op& op) const {
    std::vector<char> updated(op.inputs.size(), 0);
    for (ValueId output : op.outputs) {
      const ir::Value& value = old_.value(output);
      for (size_t i = 0; i < op.inputs.size(); ++i)
        updated[i] |= value.alias == ir::Alias::kUpdate && op.inputs[i] == value.base;
    }
    return updated;
  }

  // Brings the inputs to the layouts the kernel asks for; true if it asked for any.
  Result<bool> grant_wish(const ir::Op& op, ir::Attrs& attrs, std::vector<ValueId>& inputs,
                          const std::vector<char>& updated) {
    LT_ASSIGN(plan::OpDesc desc, describe(op, attrs, inputs));
    const plan::LayoutWish wish = catalog_.wish(desc);
    for (size_t i = 0; i < wish.inputs.size() && i < inputs.size(); ++i)
      if (!updated[i]) LT_RETURN_IF_ERROR(bring(inputs[i], wish.inputs[i], op));
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

  // Brings the operands to the first layouts in which the op table can type the op: those they
  // have; where they are of one shape but lie differently, that of the one that the op overwrites,
  // or else of the first permuted one; row-major. Layouts that nobody asked for must also have a
  // kernel, unless row-major has none either: a convolution without fast code for channels-last
  // data may follow one with. Where there are none, adding the op says why.
  Status settle(const ir::Op& op, const ir::Attrs& attrs, std::vector<ValueId>& inputs,
                const std::vector<char>& updated, bool wished) {
    Layouts present(inputs.size()), plain(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].valid()) continue;
      const Layout& layout = graph_.value(inputs[i]).layout;
      if (updated[i]) plain[i] = layout;
      if (updated[i] || wished || layout.blocked.empty()) present[i] = layout;
    }
    const Layouts followed = wished ? plain : all_as_one(inputs, updated, present);
    const Layouts* chosen = nullptr;
    const Layouts* const ways[] = {&present, &followed, &plain};
    for (const Layouts* layouts : ways) {
      const auto outputs = types(op, attrs, inputs, *layouts);
      if (!outputs) continue;
      if (chosen == nullptr) chosen = layouts;  // of those without a kernel the first
      const bool given = wished || (chosen == layouts && *layouts == Layouts(inputs.size()));
      if (!given) {
        LT_ASSIGN(const bool taken, has_kernel(op, attrs, inputs, *layouts, *outputs));
        if (!taken) continue;
      }
      chosen = layouts;
      break;
    }
    for (size_t i = 0; chosen != nullptr && i < inputs.size(); ++i)
      if (inputs[i].valid()) LT_RETURN_IF_ERROR(bring(inputs[i], (*chosen)[i], op));
    return {};
  }

  Layouts all_as_one(const std::vector<ValueId>& inputs, const std::vector<char>& updated,
                     const Layouts& present) const {
    const auto first = [&](const auto& leads) {
      size_t i = 0;
      while (i < inputs.size() && !(inputs[i].valid() && leads(i))) ++i;
      return i;
    };
    size_t leader = first([&](size_t i) { return updated[i] != 0; });
    if (leader == inputs.size())
      leader = first([&](size_t i) { return !present[i].row_major() && !present[i].strided(); });
    Layouts layouts = present;
    if (leader == inputs.size()) return layouts;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].valid() && !updated[i] &&
          graph_.value(inputs[i]).dims == graph_.value(inputs[leader]).dims)
        layouts[i] = present[leader];
    return layouts;
  }

  // The op's outputs on operands that lie so, if the op table can type it.
  Result<std::vector<ops::OutputType>> types(const ir::Op& op, const ir::Attrs& attrs,
                                             const std::vector<ValueId>& inputs,
                                             const Layouts& layouts) const {
    ops::Instance instance{op.kind, &attrs, {}};
    for (size_t i = 0; i < inputs.size(); ++i) {
      instance.inputs.emplace_back();
      if (!inputs[i].valid()) continue;
      const ir::Value& value = graph_.value(inputs[i]);
      instance.inputs.back() = ops::Type{value.dtype, value.dims, layouts[i]};
    }
    return ops::infer(instance);
  }

  Result<bool> has_kernel(const ir::Op& op, const ir::Attrs& attrs,
                          const std::vector<ValueId>& inputs, const Layouts& layouts,
                          const std::vector<ops::OutputType>& outputs) const {
    const auto is_view = [](const ops::OutputType& out) { return ir::is_view(out.alias); };
    if (std::all_of(outputs.begin(), outputs.end(), is_view)) return true;
    LT_ASSIGN(plan::OpDesc desc, describe(op, attrs, inputs));
    for (size_t i = 0; i < inputs.size(); ++i)
      if (desc.inputs[i]) desc.inputs[i]->layout = layouts[i];
    for (size_t o = 0; o < outputs.size(); ++o) desc.outputs[o].layout = outputs[o].type.layout;
    return catalog_.workspace_bytes(desc).has_value();
  }

  // Makes `input` its copy in another layout, if it lies otherwise.
  // NOLINTNEXTLINE(misc-no-recursion): once, to row-major
  Status bring(ValueId& input, const Layout& layout, const ir::Op& op) {
    if (!input.valid() || graph_.value(input).layout == layout) return {};
    // No kernel blocks a strided view.
    if (graph_.value(input).layout.strided() && !layout.blocked.empty())
      LT_RETURN_IF_ERROR(bring(input, {}, op));
    const ir::Value& source = graph_.value(input);
    const bool shared = source.category != Category::kParameter;
    const auto key = std::pair(input, print(layout));
    if (const auto known = reordered_.find(key); shared && known != reordered_.end()) {
      input = known->second;
      return {};
    }
    ops::AppendOptions options;
    options.output_names = {
        fresh_name(source.name + "/" + (layout.row_major() ? "row_major" : "reordered"))};
    options.name = fresh_name("reorder/" + options.output_names[0]);
    options.module = op.module;
    options.source = op.source;
    options.phase = op.phase == Phase::kUpdate ? Phase::kBackward : op.phase;
    options.category = op.phase == Phase::kForward ? Category::kActivation : Category::kTemporary;
    if (source.category == Category::kGradient) options.category = Category::kGradient;
    LT_ASSIGN(const OpId id,
              ops::append(graph_, "Reorder", {input}, {{"layout", print(layout)}}, options));
    input = graph_.op(id).outputs[0];
    if (shared) reordered_.emplace(key, input);
    ++reorders_;
    return {};
  }

  // A name that nobody has here, nor will have: those of the given values stay.
  std::string fresh_name(const std::string& wanted) const {
    std::string name = graph_.fresh_name(wanted);
    for (int n = 1; old_.fresh_name(name) != name || graph_.fresh_name(name) != name; ++n)
      name = fmt::format("{}.{}", wanted, n);
    return name;
  }

  const ir::Graph& old_;
  const plan::KernelCatalog& catalog_;
  ir::Rewritten made_;
  ir::Graph& graph_ = made_.graph;
  std::map<std::pair<ValueId, std::string>, ValueId> reordered_;
  int reorders_ = 0;
};

}  // namespace

Result<LayoutReport> choose_layouts(const ir::Graph& graph, const plan::KernelCatalog& catalog) {
  return LayoutPass(graph, catalog).run();
}

}  // namespace lowtide::rewrite
