// The seeded contents of parameters and inputs: the recipe of docs/formats.md, written here a
// second time and on purpose apart from the runtime, so that the two check each other.
#include <cmath>

#include "base/element.h"
#include "exec/ref/interpreter.h"

namespace lowtide::ref {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

uint64_t fnv1a(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

// Uniform in [0, 1): element i of the stream that starts at s.
double draw(uint64_t s, uint64_t i) {
  uint64_t z = s + (i + 1) * kGolden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z = z ^ (z >> 31);
  return static_cast<double>(z >> 11) * 0x1.0p-53;
}

double parameter(std::string_view name, const Sizes& dims, double u) {
  const double signed_u = 2 * u - 1;
  if (name.ends_with("running_var")) return 1 + 0.1 * u;
  if (name.ends_with("running_mean")) return 0.1 * signed_u;
  if (dims.size() == 1 && name.ends_with("weight")) return 1 + 0.1 * signed_u;
  if (dims.size() <= 1) return 0.1 * signed_u;
  const int64_t fan_in = product(Sizes(dims.begin() + 1, dims.end()));
  return signed_u * std::sqrt(3 / static_cast<double>(fan_in));
}

}  // namespace

Tensor seeded(std::string_view name, DType dtype, const Sizes& dims, const SeedOptions& options) {
  Tensor tensor = Tensor::zeros(dtype, dims);
  const uint64_t s = fnv1a(name) ^ (options.seed * kGolden);
  for (uint64_t i = 0; i < static_cast<uint64_t>(tensor.count()); ++i) {
    const double u = draw(s, i);
    if (!tensor.real()) {
      tensor.i[i] =
          wrapped(dtype, static_cast<int64_t>(u * static_cast<double>(options.integer_limit)));
      continue;
    }
    const double value = options.parameter ? parameter(name, dims, u) : 2 * u - 1;
    tensor.f[i] = rounded(dtype, value);
  }
  return tensor;
}

}  // namespace lowtide::ref
