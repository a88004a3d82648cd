// Half-open ranges [begin, end), the only kind used here: of steps (live ranges) and of addresses.
//
// Tests: base_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lowtide {

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;

  constexpr int64_t length() const { return end - begin; }
  constexpr bool empty() const { return end <= begin; }
  constexpr bool contains(int64_t point) const { return begin <= point && point < end; }
  constexpr bool overlaps(const Interval& other) const {
    return begin < other.end && other.begin < end;
  }
  constexpr bool operator==(const Interval&) const = default;
};

}  // namespace lowtide
