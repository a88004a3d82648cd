// Loop nests over plain operands: what elementwise ops, copies and reductions run on. A layout is a
// permutation or says strides, so every operand is a set of strides over the logical dims, 0 where
// it is broadcast. Ordering the loops by the first operand's strides and joining neighbours that are
// contiguous for everyone turns most tensors of any layout into one or two loops; broadcasts of a
// scalar, a row or a channel vector then need no case of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/op_desc.h"

namespace lowtide::exec_cpu {

// Elements between neighbours along each logical dim. The layout must be plain.
std::vector<int64_t> strides_of(const plan::TensorDesc& type);

// strides_of, aligned to `dims` from the right; 0 where the operand has extent 1 or lacks the dim.
std::vector<int64_t> broadcast_strides(const plan::TensorDesc& type, std::span<const int64_t> dims);

// True when the elements of both lie in the same order in memory (dims must be equal), without gaps:
// never of a strided view.
bool same_order(const plan::TensorDesc& a, const plan::TensorDesc& b);

struct Nest {
  std::vector<int64_t> dims;                  // outermost first; at least one
  std::vector<std::vector<int64_t>> strides;  // [operand][dim], in elements
};

// Loops over `dims`, ordered by falling strides of operand 0, dims of extent 1 dropped, neighbours
// joined.
Nest make_nest(std::span<const int64_t> dims, std::vector<std::vector<int64_t>> strides);

// A dense tensor seen as [outer, extent, inner] around one axis in the order of memory.
struct AxisView {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
};
AxisView axis_view(const plan::TensorDesc& type, size_t axis);

// The type without one dim, in the order in which the remaining dims lie in memory.
plan::TensorDesc without_axis(const plan::TensorDesc& type, size_t axis);

}  // namespace lowtide::exec_cpu
