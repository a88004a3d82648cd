// Matrix products by own loops: those with an extent of one or zero (matrix times vector, outer
// products, decoding one token), for which oneDNN has only its reference implementation, and those
// of types that it does not multiply. Each element of the result is summed in the order of the
// summed extent, so its bits do not depend on threads. Integers wrap around.
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

// c = a b (+ bias on each row) (+ accumulator), all of one type that is f32, f64 or an integer of
// at least 32 bits. The three have the same number of dims. Error: another type.
Result<Built> make_own_product(const OpDesc& op, StridedMatrix a, StridedMatrix b, StridedMatrix c);

}  // namespace lowtide::exec_cpu
