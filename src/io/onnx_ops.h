// The registry: for each ONNX op the function that converts a node of it. Each family is one
// convert_*.cc file.
//
// Tests: convert_test.cc, node_cases_test.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/onnx_model.h"

namespace lowtide::io {

class NodeCall;
using Convert = Status (*)(NodeCall&);

struct ConvertRow {
  std::string_view op_type;
  size_t min_inputs;
  Convert convert;
};

std::span<const ConvertRow> elementwise_conversions();
std::span<const ConvertRow> activation_conversions();
std::span<const ConvertRow> product_conversions();
std::span<const ConvertRow> network_conversions();
std::span<const ConvertRow> window_conversions();
std::span<const ConvertRow> reduction_conversions();
std::span<const ConvertRow> movement_conversions();
std::span<const ConvertRow> resampling_conversions();
std::span<const ConvertRow> attention_conversions();
std::span<const ConvertRow> loss_conversions();
std::span<const ConvertRow> quantized_conversions();
std::span<const ConvertRow> exported_conversions();

// All families.
std::vector<std::span<const ConvertRow>> conversion_families();
// null when no family has it. Names of the domain "lowtide" are made by onnx_peephole.
const ConvertRow* find_conversion(std::string_view op_type);
// Whether the door takes this node at all: converts it, or folds it when its inputs are known.
bool is_taken(const OnnxNode& node);
// "Loop 1 (again: its body runs many times)", for messages: how often the op is there, nodes
// of it, and the reason: the given one, or that of ONNX's op.
std::string print_refused(std::string_view op_type, int64_t count,
                          std::span<const std::string> nodes, std::string_view reason = {});
// Every op is taken, and every node is one that its op allows (onnx_signatures.h). Error: kInput:
// all ops that are not taken at once, with counts and node names; or the first ill-formed node.
Status check_ops(const OnnxModel& model);

}  // namespace lowtide::io
