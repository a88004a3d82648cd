// Loops over threads. oneDNN runs on OpenMP here, so own kernels do too and both share one team.
// Ranges are static and contiguous; a kernel whose result depends on how work is cut (a sum) cuts
// it by the shape alone, never by the number of threads, and so gives the same bits on any machine
// size.
//
// Tests: kernel_test.cc, random_test.cc.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace lowtide::exec_cpu {

// Calls f(begin, end) on parts of [0, n), one per thread, when n is at least two grains.
template <class F>
void parallel_ranges(int64_t n, int64_t grain, F&& f) {
  const int64_t wanted = std::min<int64_t>(omp_get_max_threads(), n / std::max<int64_t>(grain, 1));
  if (wanted <= 1) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(wanted))
  {
    const int64_t team = omp_get_num_threads();
    const int64_t me = omp_get_thread_num();
    const int64_t begin = n * me / team;
    const int64_t end = n * (me + 1) / team;
    if (begin < end) f(begin, end);
  }
}

// Copies `bytes` with all threads; nothing happens when both are the same place.
void parallel_copy(void* to, const void* from, int64_t bytes);
void parallel_zero(void* to, int64_t bytes);

}  // namespace lowtide::exec_cpu
