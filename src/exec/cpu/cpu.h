// The CPU backend: oneDNN where it is fast, own kernels where it has none. The only public face of this folder.
#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace lowtide::exec_cpu {

struct CpuOptions {
  int threads = 0;  // 0: as many as the machine has
};

// Thread-safe for make(); kernels of one factory share its thread pool and run one at a time.
std::unique_ptr<runtime::KernelFactory> make_cpu_kernels(const CpuOptions& options = {});

}  // namespace lowtide::exec_cpu
