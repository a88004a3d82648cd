// How the searches recognise a state that they have refuted before: 128-bit hashes, as sums of what
// each unplaced buffer adds, in a table in which a new state takes the place of an old one.
//
// Tests: tightest_test.cc, pack_exhaustive_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace lowtide::pack {

struct Key {
  uint64_t a = 0;
  uint64_t b = 0;
  bool operator==(const Key&) const = default;
};

// A good mix of two words (SplitMix64's finaliser over their combination).
inline uint64_t mix(uint64_t x, uint64_t y) {
  return Rng(x * 0x9E3779B97F4A7C15u ^ y).next();
}

// What each item is mixed with.
inline std::vector<Key> draw_salts(size_t items) {
  Rng rng(1);
  std::vector<Key> salts(items);
  for (Key& salt : salts) salt = {rng.next(), rng.next()};
  return salts;
}

}  // namespace lowtide::pack
