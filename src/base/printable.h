// Names come from files that anybody may have written. Before one reaches a terminal, everything in
// it that is not a plain character is spelled out, so that it can neither start a line of its own
// nor steer the terminal.
//
// Tests: base_test.cc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lowtide {

inline constexpr size_t kMostPrintedName = 200;

// Control characters (also the two-byte ones), line and paragraph separators, characters that turn
// the direction of writing and bytes that are not UTF-8 become \n, \t, \r or \xHH. Of a longer text
// than `most` bytes the middle is left out, with a note of how much.
std::string printable(std::string_view text, size_t most = kMostPrintedName);

}  // namespace lowtide
