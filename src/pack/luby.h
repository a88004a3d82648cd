// 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ..., from k = 1: how long a restarted search should go on if
// nothing is known of how long it has to (Luby, Sinclair and Zuckerman 1993).
//
// Tests: tightest_test.cc.
#pragma once

#include <cstdint>

namespace lowtide::pack {

inline int64_t luby(int64_t k) {
  for (;;) {
    int64_t whole = 1;  // 2^i - 1, at least k
    while (whole < k) whole = 2 * whole + 1;
    if (whole == k) return (whole + 1) / 2;
    k -= whole / 2;  // the sequence up to `whole` is that of its half, twice, and one more
  }
}

}  // namespace lowtide::pack
