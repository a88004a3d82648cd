// Several ONNX nodes that spell one op, replaced by that op: exporters write GELU and SiLU out, and
// a memory planner should see one value instead of eight. Each rule has a name and keeps the
// result exact up to rounding.
//
//   silu          x * Sigmoid(x)                                          Silu(x)
//   gelu          0.5 x * (1 + Tanh(sqrt(2/pi) (x + 0.044715 x^3)))       Gelu(x), approximate=tanh
//                 0.5 x * (1 + Erf(x / sqrt(2))), in the orders seen      Gelu(x)
//   safe_softmax  Where(IsNaN(p), 0, p) with p = Softmax(x)               SafeSoftmax(x)
//
// The last is how PyTorch writes attention whose mask may forbid a query every key. As written its
// gradient is NaN for such a query, since it flows through the softmax all the same.
//
// A rule applies only where the inner values have no other reader.
//
// Tests: onnx_reader_test.cc.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "io/onnx_model.h"

namespace lowtide::io {

inline constexpr std::string_view kPeepholeDomain = "lowtide";
// What the door of exported programs writes beside ONNX's ops (pt2_lower.h): an op that the table
// does not know, and sizes as expressions.
inline constexpr std::string_view kOpaqueOp = "Opaque", kSizesOp = "Sizes";
// Ops of that domain alone: ONNX has none of these names.
inline constexpr std::array<std::string_view, 4> kPeepholeOps = {"Silu", "SafeSoftmax", kOpaqueOp,
                                                                 kSizesOp};

// Rewrites model.nodes in place, which must be in order; the order stays valid. Returns how often
// each rule applied.
std::map<std::string, int> apply_peepholes(OnnxModel& model);

}  // namespace lowtide::io
