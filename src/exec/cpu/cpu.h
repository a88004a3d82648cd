// The CPU backend: oneDNN where it is fast, own kernels where it has none. The only public face of
// this folder.
//
// Tests: kernel_test.cc, operand_types_test.cc.
#pragma once

#include <memory>
#include <string>

#include "runtime/kernel.h"

namespace lowtide::exec_cpu {

struct CpuOptions {
  int threads = 0;  // 0: as many as the process may use, or OMP_NUM_THREADS
};

// Thread-safe for make(); kernels of one factory share its thread pool and run one at a time.
std::unique_ptr<runtime::KernelFactory> make_cpu_kernels(const CpuOptions& options = {});

// The libraries and loops that kernels are made of, with versions: what their times depend on.
std::string kernel_libraries();

// Which implementation runs an op: oneDNN's own name, or "own". For reports and benchmarks. Error:
// as workspace_bytes.
Result<std::string> implementation_name(const runtime::KernelFactory& factory,
                                        const plan::OpDesc& op);

}  // namespace lowtide::exec_cpu
