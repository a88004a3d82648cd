// Shape arithmetic of the ONNX specification on symbolic dims, shared by host folding and
// conversion.
//
// Tests: convert_test.cc, convert_indexing_test.cc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "sym/product.h"

namespace lowtide::io {

// Numpy's broadcast. Two different symbolic extents are taken to be equal, a symbolic one against a
// number > 1 takes the number (shape inference records such facts). Error: kInput: two different
// numbers, neither 1.
Result<ir::Dims> broadcast(const ir::Dims& a, const ir::Dims& b);

// The dims of Reshape(x, target): 0 copies a dim of x (unless allow_zero), one -1 takes what is
// left. Error: kInput: two -1, a number that does not divide, unequal element counts.
Result<ir::Dims> reshape_dims(const ir::Dims& from, std::span<const sym::Expr> target,
                              bool allow_zero);

// What Slice takes from each dim.
struct Cut {
  ir::Dims starts, sizes;
  std::vector<int64_t> steps;
};

// Slice with starts, ends, axes (empty: all, in order) and steps (empty: ones), clamped as the
// specification says. A symbolic end against a different dim is taken to be in range: the check
// comes when the symbols get numbers. Error: kInput: step 0, lists of different lengths, a symbolic
// start or end that would have to be clamped against a negative step.
Result<Cut> slice_cut(const ir::Dims& dims, std::span<const sym::Expr> starts,
                      std::span<const sym::Expr> ends, std::span<const size_t> axes,
                      std::span<const int64_t> steps);

// Product of dims.
using sym::product;

}  // namespace lowtide::io
