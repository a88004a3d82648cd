#include "exec/cpu/simd.h"

#include <array>
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

struct Runnable {
  std::array<const Loops*, 3> sets{};
  size_t count = 0;
};

Runnable find_runnable() {
  Runnable found;
  found.sets[found.count++] = &base::kLoops;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    found.sets[found.count++] = &avx2::kLoops;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512cd"))
    found.sets[found.count++] = &avx512::kLoops;
#endif
  return found;
}

}  // namespace

std::span<const Loops* const> runnable_loops() {
  static const Runnable runnable = find_runnable();
  return {runnable.sets.data(), runnable.count};
}

const Loops& loops() {
  static const Loops& chosen = *runnable_loops().back();
  return chosen;
}

namespace {

MapLoop find_in(std::span<const MapEntry> entries, const char* kind, char in, char out,
                int inputs) {
  for (const MapEntry& entry : entries)
    if (entry.in == in && entry.out == out && entry.inputs == inputs &&
        std::strcmp(entry.kind, kind) == 0)
      return entry.loop;
  return nullptr;
}

}  // namespace

MapLoop find_map(const Loops& set, const char* kind, char in, char out, int inputs) {
  return find_in({set.maps, static_cast<size_t>(set.map_count)}, kind, in, out, inputs);
}

MapLoop find_map(const char* kind, char in, char out, int inputs) {
  const MapLoop loop = find_map(loops(), kind, in, out, inputs);
  return loop != nullptr ? loop : find_in(typed_maps(), kind, in, out, inputs);
}

}  // namespace lowtide::exec_cpu
