// How the elements of a value lie in memory: a permutation of its dimensions, or a kernel's own
// blocked format. Element count and logical dimensions do not depend on it; changing it is an op
// with a cost (Reorder).
#pragma once

#include <cstdint>
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

  bool row_major() const { return order.empty() && blocked.empty(); }
  bool operator==(const Layout&) const = default;

  static Layout channels_last(size_t rank) {
    Layout layout;
    layout.order.push_back(0);
    for (size_t d = 2; d < rank; ++d) layout.order.push_back(static_cast<uint8_t>(d));
    layout.order.push_back(1);
    return layout;
  }
};

// "row_major", "perm:0231", or "blocked:<format>:<bytes>"; parse is its inverse and answers false
// on anything else.
std::string print(const Layout& layout);
bool parse(const std::string& text, Layout& layout);

}  // namespace lowtide
