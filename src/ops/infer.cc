// Output types of an instance, and where their storage comes from. A view of a slice exists when
// the elements of the slice follow one another in the layout: from the innermost dimension that is
// cut, every dimension outside of it has one element left. Other views have strides, and are made
// where they are asked for (strided_views.cc).
#include <fmt/format.h>

#include <algorithm>

#include "ops/bind.h"
#include "ops/row.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

// Where a contiguous slice begins, in elements; nothing when the slice is not contiguous.
std::optional<Expr> contiguous_begin(const Type& input, const OperandIndex& index,
                                     const ir::Dims& sizes) {
  if (input.layout.strided()) return std::nullopt;
  const std::vector<size_t> order = order_of(input.layout, input.dims.size());
  size_t innermost_cut = 0;
  for (size_t p = 0; p < order.size(); ++p)
    if (!(sizes[order[p]] == input.dims[order[p]])) innermost_cut = p;
  Expr begin = 0, step = 1;
  for (size_t p = order.size(); p-- > 0;) {
    const DimIndex& dim = index[order[p]];
    const bool single = sizes[order[p]] == Expr(1);
    if (p < innermost_cut && !single) return std::nullopt;
    if (!single && !(dim.stride == Expr(1))) return std::nullopt;
    begin = begin - dim.pad_low * step;
    step = step * input.dims[order[p]];
  }
  return begin;
}

// Elements of pieces follow one another in the whole if every dimension outside of the one along
// which they are joined has one element.
Status check_pieces(const Instance& instance, const Type& whole) {
  const auto axis = static_cast<size_t>(int_attr(instance, "axis").value_or(0));
  for (const size_t d : order_of(whole.layout, whole.dims.size())) {
    if (d == axis) return {};
    if (!(whole.dims[d] == Expr(1)))
      return error(ErrorCode::kInput,
                   fmt::format("{}: axis {} of {} is not the outermost one in memory; Concat joins "
                               "along any",
                               instance.kind, axis, print(whole.dims)));
  }
  return {};
}

Status set_alias(const Bound& bound, const Instance& instance, std::vector<OutputType>& outputs) {
  for (const auto& [input, output] : words_of_row(*bound.row).updates) {
    if (static_cast<size_t>(output) >= outputs.size()) continue;
    outputs[static_cast<size_t>(output)].alias = ir::Alias::kUpdate;
    outputs[static_cast<size_t>(output)].base_input = input;
  }
  const ViewRule rule = bound.row->view;
  const bool asked = asks_view(*bound.row, instance);
  if (rule == ViewRule::kNone && !asked) return {};
  OutputType& view = outputs[0];
  if (rule == ViewRule::kPieces) {
    view.alias = ir::Alias::kPieces;
    return {};
  }
  const Type& input = *instance.inputs[0];
  bool dense = rule == ViewRule::kAlways && same_order(input.layout, {}, input.dims);
  if (rule == ViewRule::kWhenContiguous) {
    const auto begin = contiguous_begin(input, *bound.signature.inputs[0], view.type.dims);
    dense = begin.has_value();
    if (dense) view.offset_bytes = *begin * size_bytes(input.dtype);
  }
  if (!dense) return asked ? make_strided_view(bound, instance, view) : Status();
  view.alias = ir::Alias::kView;
  view.base_input = 0;
  return {};
}

}  // namespace

Result<std::vector<OutputType>> outputs_of(const Bound& bound, const Instance& instance) {
  if (bound.row->outputs != nullptr) {
    LT_RETURN_IF_ERROR(check_input_layouts(*bound.row, instance, bound.signature));
    return bound.row->outputs(instance);
  }
  const size_t count = bound.signature.outputs.size();
  LT_ASSIGN(const std::vector<DType> types, output_dtypes(*bound.row, instance, count));
  LT_ASSIGN(std::vector<Layout> layouts, output_layouts(*bound.row, instance, bound.signature));
  std::vector<OutputType> outputs(count);
  for (size_t i = 0; i < count; ++i) {
    outputs[i].type = {types[i], dims_of(bound.signature, bound.signature.outputs[i]),
                       std::move(layouts[i])};
  }
  if (bound.row->view == ViewRule::kPieces)
    LT_RETURN_IF_ERROR(check_pieces(instance, outputs[0].type));
  LT_RETURN_IF_ERROR(set_alias(bound, instance, outputs));
  for (OutputType& output : outputs)
    if (output.alias == ir::Alias::kUpdate) {
      const Type& base = *instance.inputs[static_cast<size_t>(output.base_input)];
      output.type.layout = base.layout;
    }
  return outputs;
}

Result<std::vector<OutputType>> infer(const Instance& instance, Facts* facts) {
  LT_ASSIGN(const auto bound, bind_instance(instance));
  if (facts != nullptr)
    for (const auto& fact : bound->facts)
      if (std::find(facts->begin(), facts->end(), fact) == facts->end()) facts->push_back(fact);
  return bound->outputs;
}

std::optional<Expr> position_limit(const Instance& instance, size_t input) {
  const Row* row = find(instance.kind);
  if (row == nullptr || row->positions.empty()) return {};
  const auto found = bind_instance(instance);
  if (!found) return {};
  const Bound& bound = **found;
  std::optional<Expr> limit;
  for (auto [operand, axis] : parse_positions(row->positions)) {
    if (static_cast<size_t>(operand) != input) continue;
    if (has_attr(instance, "classes"))
      if (const auto classes = int_attr(instance, "classes")) return Expr(*classes);
    const bool pack = axis.ends_with("..");
    if (pack) axis.remove_suffix(2);
    for (const SignatureAxis& each : bound.signature.axes)
      if (each.name == axis || (pack && each.chosen && each.name.starts_with(axis)))
        limit = limit ? min(*limit, *each.extent) : *each.extent;
  }
  return limit;
}

namespace {

Expr all_bytes(const Type& type) {
  Expr bytes = size_bytes(type.dtype);
  for (const Expr& dim : type.dims) bytes = bytes * dim;
  return bytes;
}

// What an opaque op says of itself; its row has checked that these are operands and outputs.
std::vector<std::pair<int, int>> given_in_place(const Instance& instance) {
  std::vector<std::pair<int, int>> pairs;
  const auto found = instance.attrs->find("in_place");
  if (found == instance.attrs->end()) return pairs;
  const auto& numbers = std::get<ir::Dims>(found->second);
  for (size_t k = 0; k + 1 < numbers.size(); k += 2)
    pairs.emplace_back(static_cast<int>(*numbers[k].constant()),
                       static_cast<int>(*numbers[k + 1].constant()));
  return pairs;
}

}  // namespace

std::vector<std::pair<int, int>> in_place_pairs(const Instance& instance) {
  const auto bound = bind_instance(instance);
  if (!bound || !(*bound)->outputs) return {};
  const std::vector<OutputType>& outputs = *(*bound)->outputs;
  if (const auto& to = (*bound)->destination) {  // the row's own pairs are of the slice
    if (!to->has_rest) return {};
    return {{static_cast<int>(to->rest), 0}};
  }
  const Row& row = *(*bound)->row;
  std::vector<std::pair<int, int>> candidates =
      row.traits.opaque ? given_in_place(instance) : words_of_row(row).in_place;
  const std::vector<std::pair<int, int>> into = accumulators(instance);
  candidates.insert(candidates.begin(), into.begin(), into.end());
  std::vector<std::pair<int, int>> pairs;
  for (const auto& [input, output] : candidates) {
    const auto i = static_cast<size_t>(input);
    if (i >= instance.inputs.size() || !instance.inputs[i]) continue;
    const Type& from = *instance.inputs[i];
    const Type& to = outputs[static_cast<size_t>(output)].type;
    if (from.layout.strided() || to.layout.strided()) continue;  // others may share its elements
    if (row.traits.opaque && all_bytes(from) == all_bytes(to)) pairs.emplace_back(input, output);
    if (row.traits.opaque) continue;  // its owner knows which elements it reads
    if (from.dims == to.dims && size_bytes(from.dtype) == size_bytes(to.dtype) &&
        same_order(from.layout, to.layout, to.dims))
      pairs.emplace_back(input, output);
  }
  return pairs;
}

}  // namespace lowtide::ops
