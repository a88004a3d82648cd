// Layouts as text, and strides by brute force: where each element lies is counted out.
#include "base/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/rng.h"

namespace lowtide {
namespace {

using Numbers = std::vector<int64_t>;

Layout read(const std::string& text) {
  Layout layout;
  EXPECT_TRUE(parse(text, layout)) << text;
  return layout;
}

TEST(Layout, TextComesBack) {
  for (const char* text : {"row_major", "perm:0231", "perm:10", "blocked:aB16b:256", "strided:1",
                           "strided:1,128,0", "strided:0,0"})
    EXPECT_EQ(print(read(text)), text);
  EXPECT_EQ(read("strided:1,128,0").strides, (Numbers{1, 128, 0}));
  EXPECT_TRUE(read("strided:0").strided());
  EXPECT_FALSE(read("strided:0").row_major());
}

TEST(Layout, OtherTextIsRefused) {
  Layout layout;
  for (const char* text :
       {"", "row", "perm:", "perm:11", "perm:1", "blocked::4", "blocked:a:0", "strided",
        "strided:", "strided:,", "strided:1,", "strided:,1", "strided:-1", "strided:1;2",
        "strided:1, 2", "strided:1x", "strided:9223372036854775808"})
    EXPECT_FALSE(parse(text, layout)) << text;
}

TEST(Layout, DenseStridesVisitEveryElementInOrder) {
  Layout order;
  order.order = {0, 2, 1};
  for (const Layout& layout : {Layout(), order}) {
    const Numbers dims = {3, 4, 5}, strides = strides_of(layout, dims);
    std::set<int64_t> places;
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 4; ++j)
        for (int64_t k = 0; k < 5; ++k)
          places.insert(i * strides[0] + j * strides[1] + k * strides[2]);
    EXPECT_EQ(places.size(), 60u);
    EXPECT_EQ(*places.rbegin(), 59);
    EXPECT_EQ(strides[layout.order.empty() ? 2 : 1], 1);
  }
}

// Row-major is what visits 0, 1, 2, ... in order; the span is the last place and one more.
TEST(Layout, StridesHaveOneFormAndASpan) {
  Rng rng(3);
  int dense = 0;
  for (int round = 0; round < 2000; ++round) {
    Numbers dims, strides;
    for (int64_t left = rng.between(0, 3); left > 0; --left) dims.push_back(rng.between(0, 3));
    strides = strides_of({}, dims);
    for (int64_t& stride : strides)
      if (rng.below(4) == 0) stride = rng.between(0, 12);
    Numbers places = {0};
    for (size_t d = 0; d < dims.size(); ++d) {
      Numbers next;
      for (const int64_t place : places)
        for (int64_t i = 0; i < dims[d]; ++i) next.push_back(place + i * strides[d]);
      places = std::move(next);
    }
    bool in_order = true;
    for (size_t i = 0; i < places.size(); ++i) in_order &= places[i] == static_cast<int64_t>(i);
    const Layout layout = layout_of_strides(dims, strides);
    EXPECT_EQ(layout.row_major(), in_order);
    const Numbers now = strides_of(layout, dims);
    for (size_t d = 0; d < dims.size() && !in_order; ++d)
      EXPECT_EQ(now[d], dims[d] == 1 ? 0 : strides[d]);
    const int64_t end = places.empty() ? 0 : *std::max_element(places.begin(), places.end()) + 1;
    EXPECT_EQ(strided_span(dims, strides), end);
    dense += in_order;
  }
  EXPECT_GT(dense, 200);
  const int64_t far = std::numeric_limits<int64_t>::max() / 2;
  EXPECT_FALSE(strided_span(Numbers{4}, Numbers{far}).has_value());
  EXPECT_FALSE(strided_span(Numbers{3, 3}, Numbers{far, far}).has_value());
  EXPECT_EQ(strided_span(Numbers{4, 0}, Numbers{far, 1}), 0);
}

}  // namespace
}  // namespace lowtide
