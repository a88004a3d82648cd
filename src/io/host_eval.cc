#include "io/host_eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/onnx_attrs.h"

namespace lowtide::io {
namespace {

constexpr int64_t kLargeElements = 4096;

std::array<std::span<const HostRow>, 5> families() {
  return {host_math_rows(), host_bits_rows(), host_move_rows(), host_join_rows(), host_scan_rows()};
}

const HostRow* find_row(std::string_view op_type) {
  for (const std::span<const HostRow> family : families())
    for (const HostRow& row : family)
      if (row.op_type == op_type) return &row;
  return nullptr;
}

struct Word {
  char type = '*';
  bool optional = false, repeats = false;
};

std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '?')
      words.back().optional = true;
    else if (text[at] == '.')
      words.back().repeats = true;
    else if (text[at] != ' ')
      words.push_back({.type = text[at]});
  }
  return words;
}

std::string_view wanted(char type) {
  switch (type) {
    case 'f':
      return "a float type";
    case 'i':
      return "an integer type";
    case 'b':
      return "bool";
    default:
      return "a number";
  }
}

bool is_of(char type, DType dtype) {
  const bool is_number = is_float(dtype) || is_integer(dtype);
  switch (type) {
    case 'f':
      return is_float(dtype);
    case 'i':
      return is_integer(dtype);
    case 'b':
      return dtype == DType::kBool;
    case 'n':
      return is_number;
    default:
      return is_number || dtype == DType::kBool;
  }
}

Status check_operands(const HostRow& row, const HostCall& call) {
  const std::vector<Word> words = words_of(row.operands);
  const size_t count = std::max(words.size(), call.inputs.size());
  const HostValue* first = nullptr;  // of those of one type
  for (size_t i = 0; i < count; ++i) {
    if (i >= words.size() && !words.back().repeats)
      return error(ErrorCode::kInput, fmt::format("{} inputs given, at most {} are taken",
                                                  call.inputs.size(), words.size()));
    const Word& word = words[std::min(i, words.size() - 1)];
    if (!call.has(i)) {
      if (word.optional) continue;
      return error(ErrorCode::kInput, fmt::format("input {} is missing", i));
    }
    const HostValue& value = call.in(i);
    if (!is_of(word.type, value.dtype))
      return error(ErrorCode::kInput, fmt::format("input {} has type {}, wanted {}", i,
                                                  name(value.dtype), wanted(word.type)));
    if (word.type == 'T' && first != nullptr && first->dtype != value.dtype)
      return error(ErrorCode::kInput, fmt::format("input {} has type {}, another one has {}", i,
                                                  name(value.dtype), name(first->dtype)));
    if (word.type == 'T' && first == nullptr) first = &value;
    LT_RETURN_IF_ERROR(check_elements(value));
  }
  return {};
}

}  // namespace

bool is_folded(std::string_view op_type) {
  return find_row(op_type) != nullptr;
}

std::vector<std::string_view> folded_ops() {
  std::vector<std::string_view> names;
  for (const std::span<const HostRow> family : families())
    for (const HostRow& row : family) names.push_back(row.op_type);
  return names;
}

HostResult evaluate(const HostCall& call) {
  const HostRow* row = find_row(call.node.op_type);
  if (row == nullptr) return error(ErrorCode::kInput, "is not folded");
  LT_RETURN_IF_ERROR(check_operands(*row, call));
  HostResult made = row->function(call);
  if (made)
    for (const HostValue& value : *made) LT_RETURN_IF_ERROR(check_elements(value));
  return made;
}

HostResult single(Result<HostValue> value) {
  if (!value) return tl::unexpected<Error>(value.error());
  std::vector<HostValue> outputs;
  outputs.push_back(std::move(*value));
  return outputs;
}

Result<std::optional<std::vector<size_t>>> axes_of(const HostCall& call, size_t input,
                                                   size_t rank) {
  std::optional<std::vector<int64_t>> axes = ints_attr(call.node, "axes");
  if (call.has(input)) {
    LT_ASSIGN(axes, host_constants(call.in(input)));
  }
  if (!axes) return std::optional<std::vector<size_t>>();
  LT_ASSIGN(std::vector<size_t> normal, normal_axes(*axes, rank));
  return std::optional(std::move(normal));
}

std::vector<Affine> index_tuple(const HostValue& indices, size_t rank) {
  std::vector<Affine> tuple;
  const size_t lead = indices.dims.size() - 1;
  std::vector<Affine> inner;
  for (size_t d = 0; d < lead; ++d) inner.push_back(along(d, rank));
  inner.push_back(flat(0, rank));
  if (indices.form == HostValue::Form::kColumns)
    for (const Cell& column : indices.columns)
      tuple.push_back(compose(column.integer, inner, rank));
  if (indices.form == HostValue::Form::kIndexed) {
    const auto width = indices.dims.back().constant();
    for (int64_t k = 0; width && k < *width; ++k) {
      inner.back().base = k;
      tuple.push_back(compose(indices.cell.integer, inner, rank));
    }
  }
  return tuple;
}

bool is_large(const ir::Dims& dims) {
  const auto count = constant_count(dims);
  return !count || *count > kLargeElements;
}

std::vector<Affine> broadcast_map(const ir::Dims& from, size_t rank) {
  std::vector<Affine> inner;
  for (size_t d = 0; d < from.size(); ++d)
    inner.push_back(from[d] == sym::Expr(1) ? flat(0, rank) : along(rank - from.size() + d, rank));
  return inner;
}

Result<HostValue> remap(const HostValue& value, ir::Dims dims, const std::vector<Affine>& inner) {
  if (value.form == HostValue::Form::kUnknown)
    return host_unknown(value.dtype, std::move(dims), value.reason);
  const bool formula = value.form == HostValue::Form::kIndexed || is_large(dims);
  if (const auto indexed = formula ? as_indexed(value) : std::nullopt) {
    HostValue result = *indexed;
    result.cell = compose(indexed->cell, inner, dims.size());
    result.dims = std::move(dims);
    return result;
  }
  const auto dense = densify(value);
  const auto count = constant_count(dims);
  if (!dense || !count)
    return host_unknown(value.dtype, std::move(dims),
                        (dense ? count.error() : dense.error()).message);
  LT_ASSIGN(const std::vector<int64_t> extents, constant_dims(dims));
  LT_ASSIGN(const std::vector<int64_t> from, constant_dims(dense->dims));
  HostValue result;
  result.dtype = value.dtype;
  result.dims = std::move(dims);
  std::vector<int64_t> index(extents.size());
  for (int64_t i = 0; i < *count; ++i, next_index(index, extents)) {
    int64_t source = 0;
    for (size_t d = 0; d < from.size(); ++d) {
      const sym::Expr place = at(inner[d], index);
      if (!place.constant() || *place.constant() < 0 || *place.constant() >= from[d])
        return error(ErrorCode::kInput,
                     fmt::format("an index outside dim {} of {} elements", d, from[d]));
      source = source * from[d] + *place.constant();
    }
    if (is_float(value.dtype))
      result.reals.push_back(dense->reals[static_cast<size_t>(source)]);
    else
      result.ints.push_back(dense->ints[static_cast<size_t>(source)]);
  }
  return result;
}

}  // namespace lowtide::io
