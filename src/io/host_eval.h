// Host-side evaluation: ONNX nodes whose inputs are all known while the model is read.
//
// The answer keeps symbols. Where an op has an indexed form (host_value.h) and an input is indexed,
// or the result would be large or of symbolic size, the result is indexed; otherwise elements are
// computed one by one, floats rounded as their type demands. Where neither is possible because a
// symbol has no number, the result is `unknown` with its dims, if those are known.
//
// Tests: convert_test.cc, convert_indexing_test.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/host_value.h"
#include "io/onnx_model.h"

namespace lowtide::io {

struct HostCall {
  const OnnxNode& node;
  std::span<const HostValue* const> inputs;  // null for an absent one
  int64_t opset = 0;

  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  const HostValue& in(size_t i) const { return *inputs[i]; }
};

using HostResult = Result<std::vector<HostValue>>;
using HostFunction = HostResult (*)(const HostCall&);

// `operands` says what a function takes, one word for each; evaluate() holds every call against it,
// so no function sees an operand that is absent or of another type. The last word may end in "..":
// one or more of these.
//
//   T  one type, the same wherever it stands      f  a float    i  an integer    b  a truth value
//   n  a number, any but a truth value            *  any type   ?  behind a word: may be absent
struct HostRow {
  std::string_view op_type;
  std::string_view operands;
  HostFunction function;
};

// The families; each is one file.
std::span<const HostRow> host_math_rows();
std::span<const HostRow> host_bits_rows();
std::span<const HostRow> host_move_rows();
std::span<const HostRow> host_join_rows();
std::span<const HostRow> host_scan_rows();

bool is_folded(std::string_view op_type);
// All of them, by family.
std::vector<std::string_view> folded_ops();
// Error: kInput: what stands in the way (an operand that is absent or of a wrong type, an unbound
// symbol, an index out of range). The caller names the node.
HostResult evaluate(const HostCall& call);

// How a value looks along other dims: inner[d] is its index along d as a formula over the result's
// index. Shared by the families.
Result<HostValue> remap(const HostValue& value, ir::Dims dims, const std::vector<Affine>& inner);
// The formula that reads `value` under numpy's broadcast to `dims`.
std::vector<Affine> broadcast_map(const ir::Dims& from, size_t rank);
// The outputs of an op that has one.
HostResult single(Result<HostValue> value);
// Axes given as attribute (old opsets) or as this input (new ones); none when neither.
Result<std::optional<std::vector<size_t>>> axes_of(const HostCall& call, size_t input, size_t rank);
// The index tuple of a GatherND as formulas over the leading dims of a result of this rank; empty
// when the indices are not formulas.
std::vector<Affine> index_tuple(const HostValue& indices, size_t rank);
// Whether to prefer a formula over written-out elements for a result of these dims.
bool is_large(const ir::Dims& dims);

}  // namespace lowtide::io
