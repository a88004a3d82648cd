// Kernels of ops along one axis, and of ops that read or write at places given by data; what they
// ask of their operands.
//
// Tests: kernel_test.cc, every_type_test.cc.
#pragma once

#include <span>

#include "exec/cpu/build.h"

namespace lowtide::exec_cpu {

std::span<const Entry> along_axis_kernels();
std::span<const Entry> indexing_kernels();

// Error unless every present operand and output lies in row-major order.
Status check_row_major(const OpDesc& op);

}  // namespace lowtide::exec_cpu
