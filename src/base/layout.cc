#include "base/layout.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/bytes.h"
#include "base/check.h"

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

// Numbers joined by commas, none of them negative.
bool parse_strides(const char* at, const char* end, std::vector<int64_t>& strides) {
  while (true) {
    int64_t stride = 0;
    const auto parsed = std::from_chars(at, end, stride);
    if (parsed.ec != std::errc() || stride < 0) return false;
    strides.push_back(stride);
    if (parsed.ptr == end) return true;
    if (*parsed.ptr != ',') return false;
    at = parsed.ptr + 1;
  }
}

}  // namespace

std::string print(const Layout& layout) {
  if (!layout.blocked.empty())
    return "blocked:" + layout.blocked + ":" + std::to_string(layout.blocked_bytes);
  if (layout.strided()) {
    std::string text = "strided:";
    for (size_t d = 0; d < layout.strides.size(); ++d)
      text += (d > 0 ? "," : "") + std::to_string(layout.strides[d]);
    return text;
  }
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
  constexpr std::string_view kStrided = "strided:";
  if (text.starts_with(kStrided))
    return parse_strides(text.data() + kStrided.size(), text.data() + text.size(), layout.strides);
  const size_t colon = text.rfind(':');
  if (!text.starts_with("blocked:") || colon <= 8) return false;
  layout.blocked = text.substr(8, colon - 8);
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + colon + 1, end, layout.blocked_bytes);
  return parsed.ec == std::errc() && parsed.ptr == end && layout.blocked_bytes > 0;
}

std::vector<int64_t> strides_of(const Layout& layout, std::span<const int64_t> dims) {
  LT_CHECK(layout.blocked.empty(), "a blocked value has no strides");
  if (layout.strided()) return layout.strides;
  std::vector<size_t> order(layout.order.begin(), layout.order.end());
  if (order.size() != dims.size()) {
    order.resize(dims.size());
    std::iota(order.begin(), order.end(), size_t{0});
  }
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0; stride *= dims[order[i]]) strides[order[i]] = stride;
  return strides;
}

Layout layout_of_strides(std::span<const int64_t> dims, std::vector<int64_t> strides) {
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  bool dense = true;
  int64_t next = 1;
  for (size_t d = dims.size(); d-- > 0 && !empty;) {
    if (dims[d] == 1) {
      strides[d] = 0;
      continue;
    }
    dense = dense && strides[d] == next;
    next *= dims[d];
  }
  if (dense || empty) return {};
  return {.order = {}, .blocked = {}, .blocked_bytes = 0, .strides = std::move(strides)};
}

std::optional<int64_t> strided_span(std::span<const int64_t> dims,
                                    std::span<const int64_t> strides) {
  std::optional<int64_t> span = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return 0;
    const auto reach = checked_mul(dims[d] - 1, strides[d]);
    if (span) span = reach ? checked_add(*span, *reach) : std::nullopt;
  }
  return span;
}

}  // namespace lowtide
