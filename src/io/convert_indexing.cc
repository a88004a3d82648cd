// Ops that search or sum along an axis, and ops that read or write at places given by data. Indices
// that are known while the file is read are held against the dimension that they lie in; what data
// says when it runs cannot be, and an index outside reads zeros and writes nothing.
#include "io/convert_indexing.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/host_eval.h"
#include "io/onnx_attrs.h"
#include "io/shape_rules.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;

int64_t number(size_t value) {
  return static_cast<int64_t>(value);
}

// The one number of an input that must be known: an axis, a count.
Result<int64_t> known_number(NodeCall& call, size_t i, std::string_view what) {
  LT_ASSIGN(const std::vector<int64_t> values, call.integers(i));
  if (values.size() == 1) return values[0];
  return error(ErrorCode::kInput,
               fmt::format("input {} ({}) has {} elements, not 1", i, what, values.size()));
}

// Indices as i64 or i32, which the ops read.
Result<ValueId> index_value(NodeCall& call, size_t i) {
  LT_ASSIGN(const ValueId indices, call.value(i));
  if (call.dtype(i) == DType::kI64 || call.dtype(i) == DType::kI32) return indices;
  return call.emit("Cast", {indices}, {{"to", word(lowtide::name(DType::kI64))}});
}

// The places where a known condition holds; how many they are decides the result's shape.
Status compress(NodeCall& call) {
  if (call.host(1) == nullptr)
    return error(ErrorCode::kInput,
                 fmt::format("its condition '{}' is computed from data; it must be known when the "
                             "model is read",
                             call.node().inputs[1]));
  LT_ASSIGN(const std::vector<int64_t> holds, call.integers(1));
  const ir::Dims from = call.dims(0);
  LT_ASSIGN(ValueId x, call.value(0));
  size_t axis = 0;
  Expr extent = product(from);
  if (has_attr(call.node(), "axis")) {
    LT_ASSIGN(axis, normal_axis(int_attr(call.node(), "axis", 0), from.size()));
    extent = from[axis];
  } else if (from.size() != 1) {
    LT_ASSIGN(x, call.emit("Reshape", {x}, {{"shape", list(std::vector<Expr>{extent})}}));
  }
  const auto most = extent.constant();
  if (most && number(holds.size()) > *most)
    return error(ErrorCode::kInput,
                 fmt::format("a condition of {} elements on {}", holds.size(), *most));
  std::vector<Expr> kept;
  for (size_t i = 0; i < holds.size(); ++i)
    if (holds[i] != 0) kept.emplace_back(number(i));
  LT_ASSIGN(const ValueId places, call.inline_constant(host_vector(std::move(kept)), "places"));
  return call.result("Gather", {x, places}, {{"axis", number(axis)}});
}

// ---- along one axis ----

Status arg_extreme(NodeCall& call) {
  ir::Dims dims = call.dims(0);
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", 0), dims.size()));
  const ir::Attrs attrs = {{"axis", number(axis)},
                           {"last", int64_t{int_attr(call.node(), "select_last_index", 0) != 0}}};
  LT_ASSIGN(const ValueId x, call.value(0));
  if (int_attr(call.node(), "keepdims", 1) == 0)
    return call.result(call.node().op_type, {x}, attrs);
  LT_ASSIGN(const ValueId places, call.emit(call.node().op_type, {x}, attrs));
  dims[axis] = 1;
  return call.result("Reshape", {places}, {{"shape", list(std::move(dims))}});
}

// How many: an attribute before opset 10.
Status top_k(NodeCall& call) {
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", -1), call.dims(0).size()));
  int64_t count = int_attr(call.node(), "k", -1);
  if (call.has(1)) {
    LT_ASSIGN(count, known_number(call, 1, "k"));
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("TopK", {x},
                     {{"axis", number(axis)},
                      {"count", count},
                      {"smallest", int64_t{int_attr(call.node(), "largest", 1) == 0}}},
                     2);
}

Status cumulate(NodeCall& call) {
  LT_ASSIGN(const int64_t given, known_number(call, 1, "axis"));
  LT_ASSIGN(const size_t axis, normal_axis(given, call.dims(0).size()));
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result(call.node().op_type, {x},
                     {{"axis", number(axis)},
                      {"exclusive", int64_t{int_attr(call.node(), "exclusive", 0) != 0}},
                      {"reverse", int64_t{int_attr(call.node(), "reverse", 0) != 0}}});
}

Status one_hot(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", -1), from.size() + 1));
  const auto depth = call.scalar(1);
  if (!depth) return error(ErrorCode::kInput, "input 1 (depth) must be a known number");
  LT_ASSIGN(const ValueId indices, index_value(call, 0));
  LT_ASSIGN(const ValueId values, call.value(2));
  return call.result("OneHot", {indices, values},
                     {{"axis", number(axis)}, {"depth", static_cast<int64_t>(*depth)}});
}

// 1 at the first of the largest, 0 elsewhere. Before opset 13 all dims from the axis on are one.
Status hardmax(NodeCall& call) {
  if (!is_float(call.dtype(0)))
    return error(ErrorCode::kInput, fmt::format("input 0 is {}, not floats", name(call.dtype(0))));
  const ir::Dims from = call.dims(0);
  const bool flattens = call.opset() < 13;
  LT_ASSIGN(size_t axis,
            normal_axis(int_attr(call.node(), "axis", flattens ? 1 : -1), from.size()));
  LT_ASSIGN(ValueId x, call.value(0));
  ir::Dims dims = from;
  if (flattens) {
    const std::span<const Expr> all(from);
    dims = {product(all.first(axis)), product(all.subspan(axis))};
    axis = 1;
    LT_ASSIGN(x, call.emit("Reshape", {x}, {{"shape", list(dims)}}));
  }
  const auto depth = dims[axis].constant();
  if (!depth) return error(ErrorCode::kInput, needs_number(dims[axis]));
  HostValue off_on;
  off_on.dtype = call.dtype(0);
  off_on.dims = {Expr(2)};
  off_on.reals = {0.0, 1.0};
  LT_ASSIGN(const ValueId values, call.inline_constant(off_on, "off_on"));
  LT_ASSIGN(const ValueId places, call.emit("ArgMax", {x}, {{"axis", number(axis)}}));
  const ir::Attrs attrs = {{"axis", number(axis)}, {"depth", *depth}};
  if (!flattens) return call.result("OneHot", {places, values}, attrs);
  LT_ASSIGN(const ValueId flat, call.emit("OneHot", {places, values}, attrs));
  return call.result("Reshape", {flat}, {{"shape", list(from)}});
}

// Ones of which all but one diagonal is cut away; of the input only the shape counts.
Status eye_like(NodeCall& call) {
  const ir::Dims dims = call.dims(0);
  if (dims.size() != 2)
    return error(ErrorCode::kInput, fmt::format("needs rank 2, not {}", dims.size()));
  const auto code = static_cast<int32_t>(int_attr(call.node(), "dtype", 0));
  const auto type = code == 0 ? std::optional(call.dtype(0)) : onnx_dtype(code);
  if (!type)
    return error(ErrorCode::kInput,
                 fmt::format("a result of {}, which is not computed with", onnx_type_name(code)));
  const int64_t k = int_attr(call.node(), "k", 0);
  LT_ASSIGN(
      const ValueId ones,
      call.emit("Fill", {},
                {{"shape", list(dims)}, {"value", 1.0}, {"dtype", word(lowtide::name(*type))}}));
  LT_ASSIGN(const ValueId upper, call.emit("Trilu", {ones}, {{"upper", int64_t{1}}, {"k", k}}));
  return call.result("Trilu", {upper}, {{"upper", int64_t{0}}, {"k", k}});
}

Status reverse_sequence(NodeCall& call) {
  const int64_t time = int_attr(call.node(), "time_axis", 0);
  const int64_t batch = int_attr(call.node(), "batch_axis", 1);
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId lengths, index_value(call, 1));
  return call.result("ReverseSequence", {x, lengths}, {{"time_axis", time}, {"batch_axis", batch}});
}

// ---- at places given by data ----

Status gather_elements(NodeCall& call) {
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", 0), call.dims(0).size()));
  LT_RETURN_IF_ERROR(check_places(call, 1, call.dims(0)[axis]));
  LT_ASSIGN(const ValueId data, call.value(0));
  LT_ASSIGN(const ValueId indices, index_value(call, 1));
  return call.result("GatherElements", {data, indices}, {{"axis", number(axis)}});
}

Status scatter_elements(NodeCall& call) {
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", 0), call.dims(0).size()));
  LT_RETURN_IF_ERROR(check_places(call, 1, call.dims(0)[axis]));
  LT_ASSIGN(const ValueId data, call.value(0));
  LT_ASSIGN(const ValueId indices, index_value(call, 1));
  LT_ASSIGN(const ValueId updates, call.value(2));
  return call.result(
      "ScatterElements", {data, indices, updates},
      {{"axis", number(axis)}, {"reduction", word_attr(call.node(), "reduction", "none")}});
}

// Each component of the tuples in known indices against its dimension.
Status check_tuples(NodeCall& call, int64_t batch_dims) {
  const HostValue* host = call.host(1);
  const ir::Dims data = call.dims(0);
  const ir::Dims indices = call.dims(1);
  if (host == nullptr || indices.empty()) return {};
  const auto known = host_constants(*host);
  const auto width = indices.back().constant();
  if (!known || !width || *width < 1) return {};
  for (size_t i = 0; i < known->size(); ++i) {
    const size_t d = static_cast<size_t>(batch_dims) + i % static_cast<size_t>(*width);
    const auto extent = d < data.size() ? data[d].constant() : std::nullopt;
    if (extent && ((*known)[i] < -*extent || (*known)[i] >= *extent))
      return error(ErrorCode::kInput,
                   fmt::format("input 1 ('{}') holds the index {} into dim {} of {}",
                               call.node().inputs[1], (*known)[i], d, *extent));
  }
  return {};
}

// A GatherND whose index tuples are positions of the result, each of another dim in order, only
// moves dims apart and repeats: result[b, 0, 0, s] = data[b, s] is how exporters index an attention
// mask. The dims of data when moved apart; none when the tuples are anything else.
std::optional<ir::Dims> moved_apart(const HostValue& indices, const ir::Dims& from) {
  const size_t lead = indices.dims.size() - 1;
  const std::vector<Affine> tuple = index_tuple(indices, lead);
  if (tuple.empty() || tuple.size() > from.size()) return std::nullopt;
  ir::Dims apart(lead, Expr(1));
  size_t next = 0;
  for (size_t k = 0; k < tuple.size(); ++k) {
    if (from[k] == Expr(1) && tuple[k].constant() == 0) continue;
    while (next < lead && !(tuple[k] == along(next, lead))) ++next;
    if (next == lead || !(indices.dims[next] == from[k])) return std::nullopt;
    apart[next++] = from[k];
  }
  apart.insert(apart.end(), from.begin() + static_cast<std::ptrdiff_t>(tuple.size()), from.end());
  return apart;
}

Status gather_nd(NodeCall& call) {
  const HostValue* indices = call.host(1);
  const ir::Dims from = call.dims(0);
  const int64_t batch_dims = int_attr(call.node(), "batch_dims", 0);
  if (indices != nullptr && !indices->dims.empty() && batch_dims == 0) {
    if (auto apart = moved_apart(*indices, from)) {
      const size_t lead = indices->dims.size() - 1;
      ir::Dims dims(indices->dims.begin(), indices->dims.end() - 1);
      dims.insert(dims.end(), apart->begin() + static_cast<std::ptrdiff_t>(lead), apart->end());
      LT_ASSIGN(const ValueId x, call.value(0));
      if (*apart == dims) return call.result("Reshape", {x}, {{"shape", list(std::move(dims))}});
      LT_ASSIGN(const ValueId spread,
                call.emit("Reshape", {x}, {{"shape", list(std::move(*apart))}}));
      return call.result("Expand", {spread}, {{"shape", list(std::move(dims))}});
    }
  }
  LT_RETURN_IF_ERROR(check_tuples(call, batch_dims));
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId tuples, index_value(call, 1));
  return call.result("GatherND", {x, tuples}, {{"batch_dims", batch_dims}});
}

Status scatter_nd(NodeCall& call) {
  LT_RETURN_IF_ERROR(check_tuples(call, 0));
  LT_ASSIGN(const ValueId data, call.value(0));
  LT_ASSIGN(const ValueId tuples, index_value(call, 1));
  LT_ASSIGN(const ValueId updates, call.value(2));
  return call.result("ScatterND", {data, tuples, updates},
                     {{"reduction", word_attr(call.node(), "reduction", "none")}});
}

constexpr ConvertRow kIndexingRows[] = {
    {"ArgMax", 1, arg_extreme},
    {"ArgMin", 1, arg_extreme},
    {"TopK", 1, top_k},
    {"CumSum", 2, cumulate},
    {"CumProd", 2, cumulate},
    {"OneHot", 3, one_hot},
    {"Hardmax", 1, hardmax},
    {"EyeLike", 1, eye_like},
    {"Compress", 2, compress},
    {"ReverseSequence", 2, reverse_sequence},
    {"GatherElements", 2, gather_elements},
    {"ScatterElements", 3, scatter_elements},
    {"Scatter", 3, scatter_elements},
    {"GatherND", 2, gather_nd},
    {"ScatterND", 3, scatter_nd},
};

}  // namespace

Status check_places(NodeCall& call, size_t input, const Expr& extent) {
  const HostValue* host = call.host(input);
  const auto most = extent.constant();
  if (host == nullptr || !most) return {};
  const auto known = host_constants(*host);
  if (!known) return {};
  for (const int64_t place : *known)
    if (place < -*most || place >= *most)
      return error(ErrorCode::kInput, fmt::format("input {} ('{}') holds the index {} into {}",
                                                  input, call.node().inputs[input], place, *most));
  return {};
}

std::span<const ConvertRow> indexing_conversions() {
  return kIndexingRows;
}

}  // namespace lowtide::io
