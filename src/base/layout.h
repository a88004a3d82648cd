// How the elements of a value lie in memory: a permutation of its dimensions, a kernel's own
// blocked format, or, of a view that neither describes, strides. Element count and logical
// dimensions do not depend on it; changing it is an op with a cost (Reorder).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lowtide {

struct Layout {
  // Dimensions from outermost to innermost; empty means row-major. Channels last of [n c h w] is
  // {0, 2, 3, 1}.
  std::vector<uint8_t> order;
  // A kernel's opaque format, such as the blocked weights that a convolution wants; empty for plain
  // values. Only a Reorder may make or read such a value apart from the kernel that asked for it;
  // it has no views and no in-place use.
  std::string blocked;
  int64_t blocked_bytes = 0;  // its size, padding included; 0 for plain values
  // Of a strided view: elements between neighbours along each logical dimension, never negative, 0
  // where one element stands for all (an expanded dimension) and for dimensions of one element.
  // Empty for dense values, which fill the memory from their first element to their last. Never
  // together with the members above, and only views have them: nothing is written with holes.
  std::vector<int64_t> strides = {};

  bool row_major() const { return order.empty() && blocked.empty() && strides.empty(); }
  bool strided() const { return !strides.empty(); }
  bool operator==(const Layout&) const = default;

  static Layout channels_last(size_t rank) {
    Layout layout;
    layout.order.push_back(0);
    for (size_t d = 2; d < rank; ++d) layout.order.push_back(static_cast<uint8_t>(d));
    layout.order.push_back(1);
    return layout;
  }
};

// "row_major", "perm:0231", "blocked:<format>:<bytes>" or "strided:1,128,0"; parse is its inverse
// and answers false on anything else.
std::string print(const Layout& layout);
bool parse(const std::string& text, Layout& layout);

// Elements between neighbours along each of `dims`, in any layout but a blocked one. (Products of
// dims must fit: sizes were checked.)
std::vector<int64_t> strides_of(const Layout& layout, std::span<const int64_t> dims);

// The layout of a view of `dims` with these strides, in the one form in which layouts compare:
// row-major where the elements lie so, otherwise strided.
Layout layout_of_strides(std::span<const int64_t> dims, std::vector<int64_t> strides);

// Elements from the first to the end of the last of `dims`; 0 where there are none, nothing beyond
// 2^63.
std::optional<int64_t> strided_span(std::span<const int64_t> dims,
                                    std::span<const int64_t> strides);

}  // namespace lowtide
