// Checks that are cut short by default, so that all tests end in minutes, and run whole with
// LOWTIDE_LONG (scripts/test --long).
#pragma once

#include <cstdlib>

namespace lowtide {

inline bool long_checks() {
  return std::getenv("LOWTIDE_LONG") != nullptr;
}

// How much of `whole` to try: all of it, or a part of `share`.
inline int some_of(int whole, int share) {
  return long_checks() ? whole : whole / share;
}

}  // namespace lowtide
