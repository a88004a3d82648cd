// The sizes that a plan holds for, spelled as `--dim` takes them: " batch=8 time=128".
//
// Tests: measured_test.cc, data/front_file_test.cc.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>

#include "base/printable.h"

namespace lowtide::report {

using Sizes = std::map<std::string, int64_t, std::less<>>;

// With a space before each; " no symbols" where there are none.
inline std::string spelled_sizes(const Sizes& sizes) {
  if (sizes.empty()) return " no symbols";
  std::string text;
  for (const auto& [symbol, size] : sizes) text += fmt::format(" {}={}", printable(symbol), size);
  return text;
}

}  // namespace lowtide::report
