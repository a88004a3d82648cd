#include "exec/cpu/simd.h"

#include <cstring>

namespace lowtide::exec_cpu {

namespace base {
extern const Loops kLoops;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Loops kLoops;
}
namespace avx512 {
extern const Loops kLoops;
}
#endif

namespace {

const Loops& choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd"))
    return avx512::kLoops;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return avx2::kLoops;
#endif
  return base::kLoops;
}

}  // namespace

const Loops& loops() {
  static const Loops& chosen = choose();
  return chosen;
}

MapLoop find_map(const char* kind, char in, char out, int inputs) {
  const Loops& set = loops();
  for (int i = 0; i < set.map_count; ++i) {
    const MapEntry& entry = set.maps[i];
    if (entry.in == in && entry.out == out && entry.inputs == inputs &&
        std::strcmp(entry.kind, kind) == 0)
      return entry.loop;
  }
  return nullptr;
}

}  // namespace lowtide::exec_cpu
