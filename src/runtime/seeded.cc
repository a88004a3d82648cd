#include "runtime/seeded.h"

#include <algorithm>
#include <cmath>

#include "base/element.h"

namespace lowtide::runtime {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

double uniform(uint64_t state, uint64_t i) {
  uint64_t z = state + (i + 1) * kGolden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

// Floats are shift + scale * u.
struct Affine {
  double scale = 2, shift = -1;
};

Affine float_range(std::string_view name, const plan::TensorDesc& type, SeedRole role) {
  if (role == SeedRole::kInput) return {2, -1};
  if (name.ends_with("running_var")) return {0.1, 1};
  if (name.ends_with("running_mean")) return {0.2, -0.1};
  if (type.dims.size() == 1) return {0.2, name.ends_with("weight") ? 0.9 : -0.1};
  double fan_in = 1;
  for (size_t d = 1; d < type.dims.size(); ++d) fan_in *= static_cast<double>(type.dims[d]);
  const double bound = std::sqrt(3 / std::max(fan_in, 1.0));
  return {2 * bound, -bound};
}

}  // namespace

void fill_seeded(std::string_view name, const plan::TensorDesc& type, uint64_t seed,
                 int64_t integer_limit, std::span<std::byte> row_major, SeedRole role) {
  const uint64_t state = fnv1a(name) ^ (seed * kGolden);
  const Affine range = float_range(name, type, role);
  const double limit = static_cast<double>(std::max<int64_t>(integer_limit, 1));
  const int64_t count = plan::element_count(type), width = size_bytes(type.dtype);
  for (int64_t i = 0; i < count; ++i) {
    const double u = uniform(state, static_cast<uint64_t>(i));
    const double real = range.shift + range.scale * u;
    const int64_t whole = static_cast<int64_t>(u * limit);
    void* element = row_major.data() + i * width;
    if (type.dtype == DType::kBool) {
      write_integer(type.dtype, static_cast<int64_t>(u * 2), element);
    } else if (is_float(type.dtype)) {
      write_real(type.dtype, real, element);
    } else {
      write_integer(type.dtype, whole, element);
    }
  }
}

}  // namespace lowtide::runtime
