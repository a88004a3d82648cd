// Rows of the ops that move data. Most of their signatures depend on more than ranks and are built
// from shapes and attributes.
//
// Reshape: two shapes with the same row-major element order. Cut both into the shortest runs with
// equal products. In each run, the sizes of the blocks that the dimensions of both sides step over
// ({6, 1} for [4, 6], {3, 1} for [8, 3]) together name the axes, provided that each divides the
// next: here 24 | 6 | 3 | 1 gives axes of 4, 2 and 3, so [4, (2 3)] -> [(4 2), 3]. Where they do
// not divide, no axis walks through and the run is coupled.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "ops/row.h"
#include "sym/product.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

// The one input whose dimensions the builders below need.
Result<ir::Dims> input_dims(const Instance& instance) {
  if (instance.inputs.size() == 1 && instance.inputs[0]) return instance.inputs[0]->dims;
  return error(ErrorCode::kInput,
               fmt::format("{}: {} inputs given, wanted 1", instance.kind, instance.inputs.size()));
}

const ir::Dims& list_of(const Instance& instance, std::string_view name) {
  return std::get<ir::Dims>(instance.attrs->find(name)->second);
}

int entry(size_t i) {
  return static_cast<int>(i);
}

// ---- Reshape ----

Expr product(const ir::Dims& dims, size_t begin, size_t end) {
  return sym::product(std::span(dims).subspan(begin, end - begin));
}

class ReshapeAxes {
 public:
  ReshapeAxes(const ir::Dims& from, const ir::Dims& to) : from_(from), to_(to) {
    signature_.inputs.push_back(OperandIndex(from.size(), one()));
    signature_.outputs.push_back(OperandIndex(to.size(), one()));
    for (size_t d = 0; d < to.size(); ++d) {
      out()[d].extent = to[d];
      out()[d].extent_source = AttrRef{"shape", entry(d)};
    }
  }

  Signature run() {
    size_t i = 0, j = 0;
    while (true) {
      while (i < from_.size() && from_[i] == Expr(1)) ++i;
      while (j < to_.size() && to_[j] == Expr(1)) ++j;
      if (i == from_.size() && j == to_.size()) break;
      const auto [i_end, j_end] = shortest_run(i, j);
      if (!refine(i, i_end, j, j_end)) couple(i, i_end, j, j_end);
      i = i_end;
      j = j_end;
    }
    return std::move(signature_);
  }

 private:
  static DimIndex one() { return {.form = LinkKind::kBroadcast}; }
  OperandIndex& in() { return *signature_.inputs[0]; }
  OperandIndex& out() { return signature_.outputs[0]; }

  // The ends of the shortest runs of dimensions with equal products; all that is left where there
  // are none.
  std::pair<size_t, size_t> shortest_run(size_t i, size_t j) const {
    const size_t left = from_.size() - i, right = to_.size() - j;
    for (size_t total = 2; total <= left + right; ++total)
      for (size_t a = 1; a < total && a <= left; ++a) {
        const size_t b = total - a;
        if (b <= right && product(from_, i, i + a) == product(to_, j, j + b)) return {i + a, j + b};
      }
    return {from_.size(), to_.size()};
  }

  // Axes for a run; false when the blocks of both sides do not nest.
  bool refine(size_t i, size_t i_end, size_t j, size_t j_end) {
    if (!(product(from_, i, i_end) == product(to_, j, j_end))) return false;
    if (i_end - i == 1 || j_end - j == 1) {
      const bool split = i_end - i == 1;
      for (size_t d = split ? j : i; d < (split ? j_end : i_end); ++d) {
        const Expr& extent = split ? to_[d] : from_[d];
        if (extent == Expr(1)) continue;
        add_block(extent, split ? i : d, split ? d : j);
      }
      return true;
    }
    std::vector<int64_t> from_steps, to_steps;
    if (!steps(from_, i, i_end, from_steps) || !steps(to_, j, j_end, to_steps)) return false;
    std::vector<int64_t> all = from_steps;
    all.insert(all.end(), to_steps.begin(), to_steps.end());
    std::sort(all.rbegin(), all.rend());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    const auto whole = product(from_, i, i_end).constant();
    int64_t outer = *whole;
    for (int64_t step : all) {
      if (outer % step != 0) return false;
      outer = step;
    }
    outer = *whole;
    for (int64_t step : all) {
      add_block(outer / step, owner(from_steps, step, i), owner(to_steps, step, j));
      outer = step;
    }
    return true;
  }

  // How many elements each dimension of a run steps over; false when one is symbolic or zero.
  static bool steps(const ir::Dims& dims, size_t begin, size_t end, std::vector<int64_t>& result) {
    for (size_t d = begin; d < end; ++d) {
      const auto step = product(dims, d + 1, end).constant(), size = dims[d].constant();
      if (!step || !size || *size < 1) return false;
      result.push_back(*step);
    }
    return true;
  }

  // The dimension that a block of `step` elements belongs to: the outermost one that steps over no
  // more. (Dimensions of extent 1 share their step with the next outer one, which is the owner.)
  static size_t owner(const std::vector<int64_t>& steps, int64_t step, size_t begin) {
    size_t d = 0;
    while (steps[d] > step) ++d;
    return begin + d;
  }

  void add_block(const Expr& extent, size_t from, size_t to) {
    const int axis =
        signature_.add_axis({.name = fmt::format("a{}", signature_.axes.size()), .extent = extent});
    append(in()[from], axis);
    append(out()[to], axis);
  }

  static void append(DimIndex& dim, int axis) {
    dim.axes.push_back(axis);
    dim.form = dim.axes.size() == 1 ? LinkKind::kDirect : LinkKind::kGroup;
  }

  void couple(size_t i, size_t i_end, size_t j, size_t j_end) {
    const auto add = [&](OperandIndex& operand, const ir::Dims& dims, size_t d) {
      const int axis = signature_.add_axis(
          {.name = fmt::format("a{}", signature_.axes.size()), .coupled = true, .extent = dims[d]});
      append(operand[d], axis);
    };
    for (size_t d = i; d < i_end; ++d) add(in(), from_, d);
    for (size_t d = j; d < j_end; ++d) add(out(), to_, d);
  }

  const ir::Dims& from_;
  const ir::Dims& to_;
  Signature signature_;
};

Result<Signature> reshape_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims from, input_dims(instance));
  const ir::Dims& to = list_of(instance, "shape");
  const Expr before = product(from, 0, from.size()), after = product(to, 0, to.size());
  if (before.is_constant() && after.is_constant() && !(before == after))
    return error(ErrorCode::kInput,
                 fmt::format("Reshape: {} has {} elements, {} has {}", print(from),
                             sym::print(before), print(to), sym::print(after)));
  return ReshapeAxes(from, to).run();
}

// ---- Transpose, Slice, Pad, Concat, Expand, Fill ----

Result<Signature> transpose_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, input_dims(instance));
  LT_ASSIGN(const ir::Dims perm, list_attr(instance, "perm", dims.size()));
  std::string in, out;
  std::vector<bool> seen(dims.size(), false);
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto from = perm[d].constant();
    if (!from || *from < 0 || *from >= static_cast<int64_t>(dims.size()) ||
        seen[static_cast<size_t>(*from)])
      return error(ErrorCode::kInput, fmt::format("Transpose: perm {} is no permutation of rank {}",
                                                  print(perm), dims.size()));
    seen[static_cast<size_t>(*from)] = true;
    in += fmt::format("a{} ", d);
    out += fmt::format("a{} ", *from);
  }
  LT_ASSIGN(const KnownPattern pattern,
            known_pattern(dims.empty() ? "() -> ()" : in + "-> " + out));
  return expand(*pattern, instance, false);
}

Result<Signature> slice_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, input_dims(instance));
  LT_ASSIGN(const ir::Dims starts, list_attr(instance, "starts", dims.size()));
  LT_ASSIGN(const ir::Dims sizes, list_attr(instance, "sizes", dims.size()));
  LT_ASSIGN(const ir::Dims steps, list_attr(instance, "steps", dims.size(), 1));
  Signature signature;
  signature.inputs.emplace_back(OperandIndex());
  signature.outputs.emplace_back();
  for (size_t d = 0; d < dims.size(); ++d) {
    const int axis = signature.add_axis(
        {.name = fmt::format("a{}", d), .extent = sizes[d], .source = AttrRef{"sizes", entry(d)}});
    const bool whole = starts[d] == Expr(0) && steps[d] == Expr(1) && sizes[d] == dims[d];
    signature.inputs[0]->push_back({.form = whole ? LinkKind::kDirect : LinkKind::kShift,
                                    .axes = {axis},
                                    .stride = steps[d],
                                    .pad_low = -starts[d],
                                    .pads = false,
                                    .low_source = AttrRef{"starts", entry(d)}});
    signature.outputs[0].push_back({.axes = {axis}});
  }
  return signature;
}

Result<Signature> pad_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, input_dims(instance));
  LT_ASSIGN(const ir::Dims begins, list_attr(instance, "begins", dims.size()));
  LT_ASSIGN(const ir::Dims ends, list_attr(instance, "ends", dims.size()));
  Signature signature;
  signature.inputs.emplace_back(OperandIndex());
  signature.outputs.emplace_back();
  for (size_t d = 0; d < dims.size(); ++d) {
    const int axis = signature.add_axis({.name = fmt::format("a{}", d)});
    const bool whole = begins[d] == Expr(0) && ends[d] == Expr(0);
    signature.inputs[0]->push_back({.form = whole ? LinkKind::kDirect : LinkKind::kShift,
                                    .axes = {axis},
                                    .pad_low = begins[d],
                                    .pad_high = ends[d],
                                    .low_source = AttrRef{"begins", entry(d)},
                                    .high_source = AttrRef{"ends", entry(d)}});
    signature.outputs[0].push_back({.axes = {axis}});
  }
  return signature;
}

Result<Signature> concat_axes(const Instance& instance) {
  if (instance.inputs.empty() || !instance.inputs[0])
    return error(ErrorCode::kInput, fmt::format("{}: wanted at least one input", instance.kind));
  const size_t rank = instance.inputs[0]->dims.size();
  LT_ASSIGN(const int64_t along, int_attr(instance, "axis"));
  if (along < 0 || along >= static_cast<int64_t>(rank))
    return error(ErrorCode::kInput,
                 fmt::format("{}: axis = {} is outside of rank {}", instance.kind, along, rank));
  Signature signature;
  signature.outputs.emplace_back();
  for (size_t d = 0; d < rank; ++d) {
    const bool joined = static_cast<int64_t>(d) == along;
    signature.outputs[0].push_back({.form = joined ? LinkKind::kPiece : LinkKind::kDirect});
    if (!joined)
      signature.outputs[0][d].axes = {signature.add_axis({.name = fmt::format("a{}", d)})};
  }
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    if (!instance.inputs[i] || instance.inputs[i]->dims.size() != rank)
      return error(ErrorCode::kInput, fmt::format("{}: input {} must be given and have rank {}",
                                                  instance.kind, i, rank));
    OperandIndex operand = signature.outputs[0];
    DimIndex& joined = operand[static_cast<size_t>(along)];
    joined.form = LinkKind::kDirect;
    joined.axes = {signature.add_axis({.name = fmt::format("p{}", i), .coupled = true})};
    signature.inputs.emplace_back(std::move(operand));
  }
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    DimIndex& joined = signature.outputs[0][static_cast<size_t>(along)];
    joined.axes.push_back((*signature.inputs[i])[static_cast<size_t>(along)].axes[0]);
  }
  return signature;
}

Result<Signature> expand_axes(const Instance& instance) {
  LT_ASSIGN(const ir::Dims dims, input_dims(instance));
  const ir::Dims& shape = list_of(instance, "shape");
  if (dims.size() > shape.size())
    return error(ErrorCode::kInput, fmt::format("Expand: {} has a higher rank than shape {}",
                                                print(dims), print(shape)));
  Signature signature;
  signature.inputs.emplace_back(OperandIndex());
  signature.outputs.emplace_back();
  for (size_t d = 0; d < shape.size(); ++d) {
    const int axis = signature.add_axis(
        {.name = fmt::format("a{}", d), .extent = shape[d], .source = AttrRef{"shape", entry(d)}});
    signature.outputs[0].push_back({.axes = {axis}});
    if (d + dims.size() >= shape.size())
      signature.inputs[0]->push_back({.axes = {axis}, .may_broadcast = true});
  }
  return signature;
}

Result<Signature> fill_axes(const Instance& instance) {
  if (!instance.inputs.empty()) return error(ErrorCode::kInput, "Fill: has no inputs");
  const ir::Dims& shape = list_of(instance, "shape");
  Signature signature;
  signature.outputs.emplace_back();
  for (size_t d = 0; d < shape.size(); ++d)
    signature.outputs[0].push_back(
        {.axes = {signature.add_axis({.name = fmt::format("a{}", d),
                                      .extent = shape[d],
                                      .source = AttrRef{"shape", entry(d)}})}});
  return signature;
}

// What can be a view with strides.
void add_walks(std::vector<Row>& rows) {
  rows.push_back({.kind = "Reshape",
                  .compute = reshape_axes,
                  .types = "U -> U",
                  .layouts = "r -> r",
                  .attrs = "shape:list view:int?",
                  .view = ViewRule::kAlways,
                  .strided_view = true,
                  .traits = {.carries = true, .gradient = "Reshape"}});
  rows.push_back({.kind = "Transpose",
                  .compute = transpose_axes,
                  .types = "U -> U",
                  .layouts = "r -> r",
                  .attrs = "perm:list view:int?",
                  .strided_view = true,
                  .traits = {.carries = true, .gradient = "Transpose"}});
  rows.push_back({.kind = "Slice",
                  .compute = slice_axes,
                  .types = "U -> U",
                  .layouts = "x -> x",
                  .attrs = "starts:list sizes:list steps:list? view:int?",
                  .view = ViewRule::kWhenContiguous,
                  .strided_view = true,
                  .traits = {.carries = true, .gradient = "Slice"}});
  rows.push_back({.kind = "Expand",
                  .compute = expand_axes,
                  .types = "U -> U",
                  .layouts = "r -> r",
                  .attrs = "shape:list view:int?",
                  .broadcast = true,
                  .strided_view = true,
                  .traits = {.carries = true, .gradient = "Expand"}});
}

void add_rearrangements(std::vector<Row>& rows) {
  rows.push_back({.kind = "Pad",
                  .compute = pad_axes,
                  .types = "U -> U",
                  .layouts = "x -> x",
                  .attrs = "begins:list ends:list value:real?",
                  .traits = {.carries = true, .gradient = "Pad"}});
  rows.push_back({.kind = "Concat",
                  .compute = concat_axes,
                  .types = "U -> U",
                  .layouts = "x -> x",
                  .attrs = "axis:int",
                  .traits = {.carries = true, .gradient = "Concat"}});
  rows.push_back({.kind = "Join",
                  .compute = concat_axes,
                  .types = "U -> U",
                  .layouts = "x -> x",
                  .attrs = "axis:int",
                  .view = ViewRule::kPieces,
                  .traits = {.carries = true}});
  rows.push_back({.kind = "Reorder",
                  .axes = "a.. -> a..",
                  .types = "U -> U",
                  .layouts = "w -> @layout",
                  .attrs = "layout:word",
                  .traits = {.carries = true, .gradient = "Reorder"}});
  rows.push_back({.kind = "Fill",
                  .compute = fill_axes,
                  .types = " -> @dtype",
                  .layouts = " -> r",
                  .attrs = "shape:list value:real dtype:word"});
}

void add_selections(std::vector<Row>& rows) {
  rows.push_back({.kind = "Gather",
                  .axes = "a..@axis {v} b.., i.. -> a.. i.. b..",
                  .types = "U i -> U",
                  .layouts = "r r -> r",
                  .attrs = "axis:int",
                  .positions = "1:v",
                  .traits = {.gradient = "Gather"}});
  rows.push_back({.kind = "GatherGrad",
                  .axes = "a..@axis i.. b.., i.. -> a.. {v:dim} b..",
                  .types = "T i -> T",
                  .layouts = "r r -> r",
                  .attrs = "axis:int dim:int",
                  .adds_into = "0",
                  .positions = "1:v",
                  .flops = 1});
  rows.push_back({.kind = "Trilu",
                  .axes = "a.. m n -> a.. m n",
                  .types = "U -> U",
                  .layouts = "x -> x",
                  .attrs = "upper:int? k:int?",
                  .in_place = "0<-0",
                  .part = PartRule::kTriangle,
                  .traits = {.carries = true, .gradient = "Trilu"}});
}

}  // namespace

std::span<const Row> movement_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> made;
    add_walks(made);
    add_rearrangements(made);
    add_selections(made);
    return made;
  }();
  return rows;
}

}  // namespace lowtide::ops
