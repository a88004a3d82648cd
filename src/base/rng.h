// A small seeded generator (SplitMix64, Steele, Lea and Flood 2014). All randomness of planners and
// tests comes from one of these, passed in, so that a run is repeated by its seed. Not the
// generator of dropout: see base/philox.h.
//
// Tests: base_test.cc.
#pragma once

#include <cstdint>

namespace lowtide {

class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, n); n > 0. The modulo bias is below 2^-32 for n < 2^32.
  uint64_t below(uint64_t n) { return next() % n; }
  // Uniform in [lo, hi], both included.
  int64_t between(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(below(static_cast<uint64_t>(hi - lo) + 1));
  }
  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace lowtide
