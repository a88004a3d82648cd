#include "io/onnx_attrs.h"

#include <fmt/format.h>

#include <algorithm>

namespace lowtide::io {
namespace {

const OnnxAttr* find(const OnnxNode& node, std::string_view name) {
  const auto found = node.attrs.find(name);
  return found == node.attrs.end() ? nullptr : &found->second;
}

}  // namespace

bool has_attr(const OnnxNode& node, std::string_view name) {
  return find(node, name) != nullptr;
}

int64_t int_attr(const OnnxNode& node, std::string_view name, int64_t otherwise) {
  const OnnxAttr* attr = find(node, name);
  return attr && attr->integer ? *attr->integer : otherwise;
}

// What a file says is a float; so a default counts as the float nearest to it.
double real_attr(const OnnxNode& node, std::string_view name, double otherwise) {
  const OnnxAttr* attr = find(node, name);
  if (attr && attr->real) return *attr->real;
  return attr && attr->integer ? static_cast<double>(*attr->integer)
                               : static_cast<float>(otherwise);
}

std::string word_attr(const OnnxNode& node, std::string_view name, std::string_view otherwise) {
  const OnnxAttr* attr = find(node, name);
  return attr && attr->word ? *attr->word : std::string(otherwise);
}

std::optional<std::vector<int64_t>> ints_attr(const OnnxNode& node, std::string_view name) {
  const OnnxAttr* attr = find(node, name);
  if (!attr || attr->integer || attr->real || attr->word || attr->tensor) return std::nullopt;
  return attr->integers;
}

Result<size_t> normal_axis(int64_t axis, size_t rank) {
  const int64_t extent = static_cast<int64_t>(rank);
  if (axis < -extent || axis >= extent)
    return error(ErrorCode::kInput, fmt::format("axis {} of a tensor of rank {}", axis, rank));
  return static_cast<size_t>(axis < 0 ? axis + extent : axis);
}

Result<std::vector<size_t>> normal_axes(const std::vector<int64_t>& axes, size_t rank) {
  std::vector<size_t> result;
  for (int64_t axis : axes) {
    LT_ASSIGN(const size_t normal, normal_axis(axis, rank));
    if (std::find(result.begin(), result.end(), normal) != result.end())
      return error(ErrorCode::kInput, fmt::format("axis {} is named twice", axis));
    result.push_back(normal);
  }
  return result;
}

}  // namespace lowtide::io
