// The random stream of a training step: Philox4x32-10, a counter-based generator (Salmon, Moraes,
// Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011). A draw is a function of
// (seed, step, stream of the op, index of the element in the whole tensor), with no state between
// draws. So a dropout that is run again, split into parts or moved elsewhere in the order sees the
// same bits, and its gradient needs no saved mask.
#pragma once

#include <array>
#include <cstdint>

namespace lowtide {

struct Philox {
  using Counter = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;

  // Ten rounds: a bijection of the counter for each key.
  static constexpr Counter block(Counter counter, Key key) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
      const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
      counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
                 static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
      key[0] += 0x9E3779B9u;
      key[1] += 0xBB67AE85u;
    }
    return counter;
  }
};

// The draws of one random op in one step.
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, int64_t stream, int64_t step)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        stream_(static_cast<uint32_t>(stream)),
        step_(static_cast<uint32_t>(step)) {}

  // The words of elements 4*group .. 4*group+3: for loops that draw four at a time.
  constexpr Philox::Counter words(uint64_t group) const {
    return Philox::block(
        {static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), stream_, step_}, key_);
  }
  // Uniform in [0, 1), a multiple of 2^-24, so exact in float.
  static constexpr float to_uniform(uint32_t word) {
    return static_cast<float>(word >> 8) * 0x1.0p-24f;
  }
  constexpr float uniform(uint64_t element) const {
    return to_uniform(words(element / 4)[element % 4]);
  }

 private:
  Philox::Key key_;
  uint32_t stream_;
  uint32_t step_;
};

}  // namespace lowtide
