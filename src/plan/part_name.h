// Which op a part's name says it is a part of, and which part: "conv1/part3", or of a part of a
// part "conv1/part3/part0" (fission/expand.h makes them). A name proves nothing: it only says what
// to compare with.
//
// Tests: tests/nested_parts_test.cc, tests/verify_parts_test.cc, src/report/parts_test.cc.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace lowtide::plan {

struct PartName {
  std::string_view op;
  size_t part = 0;
};

// None: it is the name of no part.
inline std::optional<PartName> part_name(std::string_view name) {
  constexpr std::string_view kPart = "/part";
  const size_t end = name.rfind(kPart);
  if (end == std::string_view::npos) return std::nullopt;
  PartName found{name.substr(0, end)};
  const char *first = name.data() + end + kPart.size(), *last = name.data() + name.size();
  const auto parsed = std::from_chars(first, last, found.part);
  if (parsed.ec != std::errc() || parsed.ptr != last) return std::nullopt;
  return found;
}

}  // namespace lowtide::plan
