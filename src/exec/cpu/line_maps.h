// Runs a sparse matrix along each dimension of a tensor (base/axis_taps.h): resizing, padding with
// repeated elements, and the gradients of both, which are the same with transposed matrices.
//
// The operands lie in one order of dimensions, the result with holes where it is a slice. A row is
// a line along the innermost dimension that changes, or all that lies behind it: the rows it is
// made of are added up with their weights as whole vectors, and only a changing innermost dimension
// is walked tap by tap. Rows are shared out to threads; each has one owner, so results do not
// depend on their number.
//
// Tests: kernel_test.cc.
#pragma once

#include <optional>
#include <vector>

#include "base/axis_taps.h"
#include "exec/cpu/build.h"

namespace lowtide::exec_cpu {

// maps[d]: the matrix of logical dimension d; none where positions stay. `outside` fills elements
// that have no taps along some dimension. Error: kInput: orders of the operands that differ, a type
// that cannot be added up (any type can be copied).
Result<Built> build_line_maps(const OpDesc& op, std::vector<std::optional<AxisTaps>> maps,
                              double outside);

}  // namespace lowtide::exec_cpu
