// Loop nests over plain operands: what elementwise ops, copies and reductions run on. A layout is a
// permutation or says strides, so every operand is a set of strides over the logical dims, 0 where
// it is broadcast. Ordering the loops by the first operand's strides and joining neighbours that
// are contiguous for everyone turns most tensors of any layout into one or two loops; broadcasts of
// a scalar, a row or a channel vector then need no case of their own.
//
// Tests: kernel_test.cc, strided_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/op_desc.h"

namespace lowtide::exec_cpu {

// Elements between neighbours along each logical dim. The layout must be plain.
std::vector<int64_t> strides_of(const plan::TensorDesc& type);

// strides_of, aligned to `dims` from the right; 0 where the operand has extent 1 or lacks the dim.
std::vector<int64_t> broadcast_strides(const plan::TensorDesc& type, std::span<const int64_t> dims);

// True when the elements of both lie in the same order in memory (dims must be equal), without
// holes: never of a strided view.
bool same_order(const plan::TensorDesc& a, const plan::TensorDesc& b);

struct Nest {
  std::vector<int64_t> dims;                  // outermost first; at least one
  std::vector<std::vector<int64_t>> strides;  // [operand][dim], in elements
};

// Loops over `dims`, ordered by falling strides of operand 0, dims of extent 1 left out, neighbours
// joined.
Nest make_nest(std::span<const int64_t> dims, std::vector<std::vector<int64_t>> strides);

// A dense tensor seen as [outer, extent, inner] around one axis in the order of memory.
struct AxisView {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
};
AxisView axis_view(const plan::TensorDesc& type, size_t axis);

// Where runs of elements that lie side by side (rows) begin: at any distances from each other.
class RowPlaces {
 public:
  // Of the dims that walk the rows, outermost first; strides in elements.
  RowPlaces(std::span<const int64_t> dims, std::span<const int64_t> strides);
  // The first element of row number `row`.
  int64_t at(int64_t row) const {
    int64_t place = row % dims_.back() * strides_.back();
    for (size_t d = dims_.size() - 1; d-- > 0;) {
      row /= dims_[d + 1];
      place += row % dims_[d] * strides_[d];
    }
    return place;
  }

 private:
  std::vector<int64_t> dims_, strides_;  // neighbours joined; at least one
};

// The rows that the dims from `axis` on make, in row-major order; nothing where one does not lie in
// row-major order without holes.
std::optional<RowPlaces> rows_from(const plan::TensorDesc& type, size_t axis);
// The rows along `axis`, in the order in which the dense value `like` of the same dims has its own;
// nothing where the elements of a row do not lie side by side.
std::optional<RowPlaces> rows_along(const plan::TensorDesc& type, size_t axis,
                                    const plan::TensorDesc& like);

// The type without one dim, in the order in which the remaining dims lie in memory.
plan::TensorDesc without_axis(const plan::TensorDesc& type, size_t axis);

}  // namespace lowtide::exec_cpu
