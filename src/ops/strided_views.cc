// Views with strides: what Transpose, Slice, Expand and Reshape make under the attribute `view`
// instead of a copy. Of the first three the signature says where element o of the result lies: it
// walks dimension d of the operand at stride * axis - pad_low, so the stride of the result's
// dimension with that axis is stride times the operand's, and what is subtracted moves the begin. A
// Reshape joins and splits dimensions. Neighbours can be joined where stepping over the outer one
// is stepping through all of the inner ones (as in numpy's reshape without a copy); splitting
// always goes. Views of views follow, since the operand's own strides are what is multiplied.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "ops/row.h"

namespace lowtide::ops {
namespace {

using sym::Expr;
using Numbers = std::vector<int64_t>;

Result<Numbers> numbers_of(const Instance& instance, const ir::Dims& dims) {
  Numbers numbers;
  for (const Expr& dim : dims) {
    if (!dim.constant())
      return refuse(instance, fmt::format("a strided view has no symbolic size, and {} has one; "
                                          "bind its symbols first",
                                          print(dims)));
    numbers.push_back(*dim.constant());
  }
  return numbers;
}

// Where the result's elements lie, in elements of the operand's storage from its first one.
struct StridedWalk {
  Numbers strides;
  int64_t begin = 0;
};

tl::unexpected<Error> too_far(const Instance& instance) {
  return refuse(instance, "a strided view reaches beyond 2^63 bytes");
}

Result<StridedWalk> walk_by_axes(const Bound& bound, const Instance& instance, const Numbers& dims,
                                 const Numbers& in) {
  const OperandIndex& from = *bound.signature.inputs[0];
  const OperandIndex& to = bound.signature.outputs[0];
  StridedWalk walk{.strides = Numbers(dims.size(), 0)};
  for (size_t d = 0; d < from.size(); ++d) {
    const auto step = from[d].stride.constant(), low = from[d].pad_low.constant();
    if (!step || !low || *step < 1)
      return refuse(instance, "a strided view has constant starts, and steps of at least 1");
    const auto skipped = checked_mul(-*low, in[d]), stride = checked_mul(*step, in[d]);
    const auto begin = skipped ? checked_add(walk.begin, *skipped) : std::nullopt;
    if (!begin || !stride) return too_far(instance);
    walk.begin = *begin;
    if (from[d].form == LinkKind::kBroadcast || from[d].axes.size() != 1) continue;
    for (size_t o = 0; o < to.size(); ++o)
      if (to[o].axes == from[d].axes) walk.strides[o] = *stride;
  }
  return walk;
}

// Of dimensions without those of one element; both lists have equal products.
std::optional<Numbers> regrouped(const Numbers& from, const Numbers& in, const Numbers& to) {
  Numbers strides(to.size());
  size_t i = 0, j = 0;
  while (i < from.size()) {
    size_t i_end = i + 1, j_end = j + 1;
    for (int64_t left = from[i], right = to[j]; left != right;)
      (left < right ? left *= from[i_end++] : right *= to[j_end++]);
    for (size_t d = i; d + 1 < i_end; ++d)
      if (in[d] != in[d + 1] * from[d + 1]) return std::nullopt;
    strides[j_end - 1] = in[i_end - 1];
    for (size_t d = j_end - 1; d > j; --d) strides[d - 1] = strides[d] * to[d];
    i = i_end;
    j = j_end;
  }
  return strides;
}

Numbers without_ones(const Numbers& dims, const Numbers& values) {
  Numbers kept;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1) kept.push_back(values[d]);
  return kept;
}

Result<StridedWalk> walk_by_order(const Instance& instance, const Numbers& from, const Numbers& in,
                                  const Numbers& to) {
  StridedWalk walk{.strides = Numbers(to.size(), 0)};
  if (std::find(to.begin(), to.end(), 0) != to.end()) return walk;
  const Numbers proper = without_ones(to, to);
  const auto strides = regrouped(without_ones(from, from), without_ones(from, in), proper);
  if (!strides)
    return refuse(instance,
                  fmt::format("{} with {} is no view as {}: its elements do not follow "
                              "each other evenly",
                              print(instance.inputs[0]->dims), print(instance.inputs[0]->layout),
                              print(ir::Dims(to.begin(), to.end()))));
  for (size_t d = 0, next = 0; d < to.size(); ++d)
    if (to[d] != 1) walk.strides[d] = (*strides)[next++];
  return walk;
}

}  // namespace

bool asks_view(const Row& row, const Instance& instance) {
  return row.strided_view && int_attr(instance, "view", 0).value_or(0) != 0;
}

Status make_strided_view(const Bound& bound, const Instance& instance, OutputType& view) {
  const Type& input = *instance.inputs[0];
  LT_ASSIGN(const Numbers from, numbers_of(instance, input.dims));
  LT_ASSIGN(const Numbers to, numbers_of(instance, view.type.dims));
  const Numbers in = strides_of(input.layout, from);
  LT_ASSIGN(const StridedWalk walk, bound.row->view == ViewRule::kAlways
                                        ? walk_by_order(instance, from, in, to)
                                        : walk_by_axes(bound, instance, to, in));
  if (!strided_span(to, walk.strides)) return too_far(instance);
  view.type.layout = layout_of_strides(to, walk.strides);
  const bool empty = std::find(to.begin(), to.end(), 0) != to.end();
  view.offset_bytes = empty ? Expr(0) : Expr(walk.begin) * size_bytes(input.dtype);
  view.alias = ir::Alias::kView;
  view.base_input = 0;
  return {};
}

}  // namespace lowtide::ops
