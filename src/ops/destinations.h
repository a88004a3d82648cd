// Results that are slices of something larger. With the attribute `into` (a list: axis, begin, end,
// extent of the whole) an op computes a slice of a larger value along one axis and makes that
// value, its *destination*:
//
//   y = Relu(x)                      [2, 3, 5]
//   d = Relu(x, rest; into 1 4 7 8)  [2, 8, 5]: y at [:, 4:7, :], elsewhere what `rest` has there
//
// `rest` stands behind all operands of the row and its accumulators, and has the destination's type
// and layout. It and the destination are an in-place pair, so where it dies, which is where it has
// no other reader, only the slice is written. Without it, what lies beside the slice is undefined.
//
// A chain of such ops writes a Concat's result piece by piece, each where it belongs, and nothing
// is copied (rewrite/destinations.h). To the planners these are ops like any other: the first makes
// the storage of the whole, each further one takes it over. A chain may run again from its first
// op.
//
// Any row with one output that owns its storage can be written so. Tests: destinations_test.cc;
// kernels: exec/cpu/destination_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "ops/op_table.h"

namespace lowtide::ops {

struct Destination {
  size_t axis = 0;
  int64_t begin = 0, end = 0, extent = 0;  // of the slice, and of the whole along the axis
  size_t rest = 0;                         // where that operand stands, or would
  bool has_rest = false;
};

// Nothing where the op has none, or the op table refuses it.
std::optional<Destination> destination_of(const Instance& instance);

// The op that computes the slice alone.
struct SliceOp {
  ir::Attrs attrs;
  std::vector<std::optional<Type>> inputs;
  Instance instance(std::string_view kind) const {
    return {.kind = kind, .attrs = &attrs, .inputs = inputs};
  }
};
SliceOp slice_op(const Row& row, const Instance& instance);
// Where the operand `rest` of a row stands.
size_t rest_operand(const Row& row);

// Of a chain each part is written once, and nobody but its next op sees a destination before all
// of it is there. Error: kInput, naming the op and the elements.
Status check_destinations(const ir::Graph& graph);

}  // namespace lowtide::ops
