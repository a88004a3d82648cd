// Rows of the ops that look along one axis (the place of the largest element, the largest few,
// running sums) and of those that read or write at places which are data themselves.
//
// Where a dimension is chosen by data, all of it is needed and it cannot be split; so is what an
// index runs over when it writes, because two indices may name one place. Dimensions in which the
// operands walk along with each other split freely: of GatherElements and ScatterElements those of
// equal extent, of GatherND and ScatterND the batch and what is behind the index tuple.
#include "ops/rows_indexing.h"

#include <fmt/format.h>

#include <vector>

namespace lowtide::ops {
namespace {

// ---- limits of attributes ----

// The dims of an input that must be there.
Result<ir::Dims> dims_of_input(const Instance& instance, size_t i) {
  if (i < instance.inputs.size() && instance.inputs[i]) return instance.inputs[i]->dims;
  return refuse(instance, fmt::format("input {} is missing", i));
}

Result<size_t> axis_in(const Instance& instance, size_t rank) {
  LT_ASSIGN(const int64_t axis, int_attr(instance, "axis"));
  if (axis < 0 || axis >= static_cast<int64_t>(rank))
    return refuse(instance, fmt::format("axis = {} is outside of rank {}", axis, rank));
  return static_cast<size_t>(axis);
}

// The largest of no elements has no place.
Status check_search(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, dims_of_input(instance, 0));
  LT_ASSIGN(const size_t axis, axis_in(instance, dims.size()));
  if (dims[axis] == sym::Expr(0))
    return refuse(instance, fmt::format("dim {} of {} has no elements", axis, print(dims)));
  return {};
}

Status check_top_k(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, dims_of_input(instance, 0));
  LT_ASSIGN(const size_t axis, axis_in(instance, dims.size()));
  LT_ASSIGN(const int64_t count, int_attr(instance, "count"));
  const auto extent = dims[axis].constant();
  if (count < 0 || (extent && count > *extent))
    return refuse(instance, fmt::format("count = {} of dim {} of {}", count, axis, print(dims)));
  return {};
}

Status check_one_hot(const Instance& instance) {
  LT_ASSIGN(const int64_t depth, int_attr(instance, "depth"));
  LT_ASSIGN(const ir::Dims values, dims_of_input(instance, 1));
  if (depth < 0) return refuse(instance, fmt::format("depth = {}", depth));
  if (values.size() != 1 || !(values[0] == sym::Expr(2)))
    return refuse(instance, fmt::format("input 1 is {}, wanted [2]: off, on", print(values)));
  return {};
}

Status check_reduction(const Instance& instance) {
  LT_ASSIGN(const std::string reduction, word_attr(instance, "reduction", "none"));
  bool known = false;
  for (std::string_view word : {"none", "add", "mul", "max", "min"}) known |= reduction == word;
  if (!known)
    return refuse(instance,
                  fmt::format("reduction = {}; it is none, add, mul, max or min", reduction));
  if (reduction != "none" && !instance.inputs.empty() && instance.inputs[0] &&
      instance.inputs[0]->dtype == DType::kBool)
    return refuse(instance, fmt::format("reduction = {} of truth values", reduction));
  return {};
}

// ---- one index per element ----

// Which axes walk the operands of GatherElements and ScatterElements. Along a dimension where there
// are fewer indices than data, the first ones are meant.
struct ElementAxes {
  OperandIndex data, indices;
};

DimIndex walked(int axis) {
  return {.axes = {axis}};
}

Result<ElementAxes> element_axes(const Instance& instance, Signature& signature, bool writes) {
  LT_ASSIGN(const ir::Dims data, dims_of_input(instance, 0));
  LT_ASSIGN(const ir::Dims indices, dims_of_input(instance, 1));
  LT_ASSIGN(const size_t along, axis_in(instance, data.size()));
  if (indices.size() != data.size())
    return refuse(instance, fmt::format("indices {} and data {} must have one rank", print(indices),
                                        print(data)));
  ElementAxes made;
  for (size_t d = 0; d < data.size(); ++d) {
    const bool chosen = d == along, fewer = !chosen && !(indices[d] == data[d]);
    const auto most = data[d].constant(), count = indices[d].constant();
    if (fewer && most && count && *count > *most)
      return refuse(instance,
                    fmt::format("{} indices for the {} elements of dim {}", *count, *most, d));
    const int axis = signature.add_axis({.name = fmt::format("a{}", d),
                                         .coupled = writes && (chosen || fewer),
                                         .extent = indices[d]});
    made.indices.push_back(walked(axis));
    if (chosen) {
      const int v = signature.add_axis({.name = "v", .chosen = true, .extent = data[d]});
      made.data.push_back({.form = LinkKind::kChosen, .axes = {v}});
    } else if (!fewer) {
      made.data.push_back(walked(axis));
    } else if (writes) {
      const int whole =
          signature.add_axis({.name = fmt::format("d{}", d), .coupled = true, .extent = data[d]});
      made.data.push_back(walked(whole));
    } else {
      made.data.push_back({.form = LinkKind::kShift, .axes = {axis}, .pads = false});
    }
  }
  return made;
}

Result<Signature> gather_elements_axes(const Instance& instance) {
  Signature signature;
  LT_ASSIGN(ElementAxes made, element_axes(instance, signature, false));
  signature.outputs = {made.indices};
  signature.inputs = {std::move(made.data), std::move(made.indices)};
  return signature;
}

Result<Signature> scatter_elements_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims updates, dims_of_input(instance, 2));
  Signature signature;
  LT_ASSIGN(ElementAxes made, element_axes(instance, signature, true));
  if (updates.size() != made.indices.size())
    return refuse(instance, fmt::format("updates {} and indices {} must have one rank",
                                        print(updates), print(instance.inputs[1]->dims)));
  signature.outputs = {made.data};
  signature.inputs = {std::move(made.data), made.indices, made.indices};
  return signature;
}

// ---- one tuple of indices per block ----

// Data is "B.. v.. c..", indices "B.. i.. [k]" with a tuple of one index per v in the last dim, and
// what is read or written "B.. i.. c..".
struct TupleAxes {
  OperandIndex data, indices, blocks;
};

Result<TupleAxes> tuple_axes(const Instance& instance, Signature& signature, bool writes) {
  LT_ASSIGN(const ir::Dims data, dims_of_input(instance, 0));
  LT_ASSIGN(const ir::Dims indices, dims_of_input(instance, 1));
  LT_ASSIGN(const int64_t batch_dims, int_attr(instance, "batch_dims", 0));
  const auto rank = static_cast<int64_t>(data.size());
  const int64_t lead = static_cast<int64_t>(indices.size()) - 1;
  const auto width = indices.empty() ? std::nullopt : indices.back().constant();
  if (!width || batch_dims < 0 || batch_dims > lead || *width < 1 || batch_dims + *width > rank)
    return refuse(instance, fmt::format("tuples in the last dim of indices {} do not fit data {} "
                                        "with {} batch dims",
                                        print(indices), print(data), batch_dims));
  TupleAxes made;
  for (int64_t d = 0; d < lead; ++d) {
    const bool batch = d < batch_dims;
    const int axis = signature.add_axis({.name = fmt::format("{}{}", batch ? 'b' : 'i', d),
                                         .coupled = writes && !batch,
                                         .extent = indices[static_cast<size_t>(d)]});
    made.indices.push_back(walked(axis));
    if (batch) made.data.push_back(walked(axis));
  }
  made.blocks = made.indices;
  made.indices.push_back(
      walked(signature.add_axis({.name = "k", .coupled = true, .extent = indices.back()})));
  for (int64_t d = batch_dims; d < rank; ++d) {
    const bool chosen = d < batch_dims + *width;
    const int axis =
        signature.add_axis({.name = fmt::format("{}{}", chosen ? 'v' : 'c', d - batch_dims),
                            .chosen = chosen,
                            .extent = data[static_cast<size_t>(d)]});
    DimIndex dim = walked(axis);
    if (chosen) dim.form = LinkKind::kChosen;
    made.data.push_back(dim);
    if (!chosen) made.blocks.push_back(dim);
  }
  return made;
}

Result<Signature> gather_nd_axes(const Instance& instance) {
  Signature signature;
  LT_ASSIGN(TupleAxes made, tuple_axes(instance, signature, false));
  signature.outputs = {std::move(made.blocks)};
  signature.inputs = {std::move(made.data), std::move(made.indices)};
  return signature;
}

Result<Signature> scatter_nd_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims updates, dims_of_input(instance, 2));
  Signature signature;
  LT_ASSIGN(TupleAxes made, tuple_axes(instance, signature, true));
  if (updates.size() != made.blocks.size())
    return refuse(instance, fmt::format("updates {} have rank {}, wanted {}", print(updates),
                                        updates.size(), made.blocks.size()));
  signature.outputs = {made.data};
  signature.inputs = {std::move(made.data), std::move(made.indices), std::move(made.blocks)};
  return signature;
}

// "t b x..", or "b t x..": the axes are the first two dims in either order.
Result<Signature> reverse_sequence_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, dims_of_input(instance, 0));
  LT_ASSIGN(const int64_t time, int_attr(instance, "time_axis"));
  LT_ASSIGN(const int64_t batch, int_attr(instance, "batch_axis"));
  if (dims.size() < 2 || time + batch != 1 || time * batch != 0)
    return refuse(instance,
                  fmt::format("time_axis = {} and batch_axis = {} of {}; they are 0 and 1 "
                              "in either order, of rank 2 or more",
                              time, batch, print(dims)));
  const std::string text = time == 0 ? "[t] b x.., b -> [t] b x.." : "b [t] x.., b -> b [t] x..";
  LT_ASSIGN(const KnownPattern pattern, known_pattern(text));
  return expand(*pattern, instance, false);
}

// ---- rows ----

void add_along_axis(std::vector<Row>& rows) {
  for (std::string_view kind : {"ArgMax", "ArgMin"})
    rows.push_back({.kind = kind,
                    .axes = "a..@axis [c] b.. -> a.. b..",
                    .types = "N -> l",
                    .layouts = "r -> r",
                    .attrs = "axis:int last:int?",
                    .flops = 1,
                    .check = check_search});
  rows.push_back({.kind = "TopK",
                  .axes = "a..@axis [c] b.. -> a.. [k:count] b.., a.. [k] b..",
                  .types = "N -> N l",
                  .layouts = "r -> r r",
                  .attrs = "axis:int count:int smallest:int?",
                  .flops = 1,
                  .check = check_top_k,
                  .traits = {.gradient = "TopK"}});
  rows.push_back({.kind = "CumSum",
                  .axes = "a..@axis [c] b.. -> a.. [c] b..",
                  .types = "N -> N",
                  .layouts = "r -> r",
                  .attrs = "axis:int exclusive:int? reverse:int?",
                  .in_place = "0<-0",
                  .flops = 1,
                  .traits = {.gradient = "CumSum"}});
  rows.push_back({.kind = "CumProd",
                  .axes = "a..@axis [c] b.. -> a.. [c] b..",
                  .types = "N -> N",
                  .layouts = "r -> r",
                  .attrs = "axis:int exclusive:int? reverse:int?",
                  .in_place = "0<-0",
                  .flops = 1});
  rows.push_back({.kind = "OneHot",
                  .axes = "a..@axis b.., [w] -> a.. {v:depth} b..",
                  .types = "i U -> U",
                  .layouts = "r r -> r",
                  .attrs = "axis:int depth:int",
                  .positions = "0:v",
                  .check = check_one_hot});
  rows.push_back({.kind = "ReverseSequence",
                  .compute = reverse_sequence_axes,
                  .types = "U i -> U",
                  .layouts = "r r -> r",
                  .attrs = "time_axis:int batch_axis:int",
                  .positions = "1:t",
                  .traits = {.gradient = "ReverseSequence"}});
}

void add_at_places(std::vector<Row>& rows) {
  rows.push_back({.kind = "GatherElements",
                  .compute = gather_elements_axes,
                  .types = "U i -> U",
                  .layouts = "r r -> r",
                  .attrs = "axis:int",
                  .positions = "1:v",
                  .traits = {.gradient = "GatherElements"}});
  rows.push_back({.kind = "ScatterElements",
                  .compute = scatter_elements_axes,
                  .types = "U i U -> U",
                  .layouts = "r r r -> r",
                  .attrs = "axis:int reduction:word?",
                  .in_place = "0<-0",
                  .positions = "1:v",
                  .check = check_reduction,
                  .traits = {.gradient = "ScatterElements"}});
  rows.push_back({.kind = "GatherND",
                  .compute = gather_nd_axes,
                  .types = "U i -> U",
                  .layouts = "r r -> r",
                  .attrs = "batch_dims:int?",
                  .positions = "1:v..",
                  .traits = {.gradient = "GatherND"}});
  rows.push_back({.kind = "ScatterND",
                  .compute = scatter_nd_axes,
                  .types = "U i U -> U",
                  .layouts = "r r r -> r",
                  .attrs = "batch_dims:int? reduction:word?",
                  .in_place = "0<-0",
                  .positions = "1:v..",
                  .check = check_reduction,
                  .traits = {.gradient = "ScatterND"}});
}

}  // namespace

std::span<const Row> indexing_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> made;
    add_along_axis(made);
    add_at_places(made);
    return made;
  }();
  return rows;
}

}  // namespace lowtide::ops
