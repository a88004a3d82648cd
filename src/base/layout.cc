#include "base/layout.h"

#include <algorithm>
#include <charconv>

namespace lowtide {
namespace {

// Permutation digits: 0-9, then a-v, so that up to 32 dimensions take one character each.
char digit(uint8_t d) {
  return static_cast<char>(d < 10 ? '0' + d : 'a' + d - 10);
}

int value_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'v') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string print(const Layout& layout) {
  if (!layout.blocked.empty())
    return "blocked:" + layout.blocked + ":" + std::to_string(layout.blocked_bytes);
  if (layout.order.empty()) return "row_major";
  std::string text = "perm:";
  for (uint8_t d : layout.order) text += digit(d);
  return text;
}

bool parse(const std::string& text, Layout& layout) {
  layout = {};
  if (text == "row_major") return true;
  if (text.starts_with("perm:")) {
    for (char c : text.substr(5)) {
      if (value_of(c) < 0) return false;
      layout.order.push_back(static_cast<uint8_t>(value_of(c)));
    }
    std::vector<uint8_t> sorted = layout.order;
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != i) return false;
    return !sorted.empty();
  }
  const size_t colon = text.rfind(':');
  if (!text.starts_with("blocked:") || colon <= 8) return false;
  layout.blocked = text.substr(8, colon - 8);
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, layout.blocked_bytes);
  return parsed.ec == std::errc() && parsed.ptr == end && layout.blocked_bytes > 0;
}

}  // namespace lowtide
