// Products with an extent of one or zero (matrix times vector, outer products, decoding one token),
// for which oneDNN has only its reference implementation. They read each element of the larger
// operand once, so plain strided loops are as good as any.
#pragma once

#include <cstdint>
#include <span>

#include "exec/cpu/build.h"

namespace lowtide::exec_cpu {

// One operand: batch dims, then rows and columns; a batch dim of extent 1 is broadcast. Strides in
// elements.
struct StridedMatrix {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
};

// True when rows, columns or the summed extent is at most one.
bool is_thin(const StridedMatrix& a, const StridedMatrix& c);

// c = a b (+ bias on each row) (+ accumulator), all f32. The three have the same number of dims.
Built make_thin_product(const OpDesc& op, StridedMatrix a, StridedMatrix b, StridedMatrix c);

}  // namespace lowtide::exec_cpu
