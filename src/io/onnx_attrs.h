// Reading a node's attributes with the defaults of the specification.
//
// Tests: convert_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/onnx_model.h"

namespace lowtide::io {

bool has_attr(const OnnxNode& node, std::string_view name);
int64_t int_attr(const OnnxNode& node, std::string_view name, int64_t otherwise);
double real_attr(const OnnxNode& node, std::string_view name, double otherwise);
std::string word_attr(const OnnxNode& node, std::string_view name, std::string_view otherwise);
// none when absent or not a list of integers.
std::optional<std::vector<int64_t>> ints_attr(const OnnxNode& node, std::string_view name);

// axis in [0, rank), counting from the end when negative. Error: kInput.
Result<size_t> normal_axis(int64_t axis, size_t rank);
// The same for a list; no axis twice.
Result<std::vector<size_t>> normal_axes(const std::vector<int64_t>& axes, size_t rank);

}  // namespace lowtide::io
