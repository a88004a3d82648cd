#include "exec/cpu/parallel.h"

#include <cstring>

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kGrainBytes = 1 << 17;

}  // namespace

void parallel_copy(void* to, const void* from, int64_t bytes) {
  if (to == from) return;
  parallel_ranges(bytes, kGrainBytes, [=](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

void parallel_zero(void* to, int64_t bytes) {
  parallel_ranges(bytes, kGrainBytes, [=](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(to) + begin, 0, static_cast<size_t>(end - begin));
  });
}

}  // namespace lowtide::exec_cpu
