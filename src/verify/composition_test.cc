// Compositions against their definition: every element of a value written down as what it shows.
#include "verify/composition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace lowtide::verify {
namespace {

using Numbers = std::vector<int64_t>;

// By element in row-major order: which contents, and which element of them; -1: undefined.
struct Element {
  int64_t contents = -1, index = -1;
  bool operator==(const Element&) const = default;
};
using Elements = std::vector<Element>;

int64_t count(const Numbers& dims) {
  int64_t all = 1;
  for (int64_t dim : dims) all *= dim;
  return all;
}

Numbers place(int64_t index, const Numbers& dims) {
  Numbers at(dims.size());
  for (size_t d = dims.size(); d-- > 0; index /= dims[d]) at[d] = index % dims[d];
  return at;
}

int64_t index_of(const Numbers& at, const Numbers& dims) {
  int64_t index = 0;
  for (size_t d = 0; d < dims.size(); ++d) index = index * dims[d] + at[d];
  return index;
}

// Contents and their reshapes have the same elements, so they count as the same contents.
Elements elements(const ContentsTable& table, const Composition& of, const Numbers& dims) {
  Elements made(static_cast<size_t>(count(dims)));
  for (size_t e = 0; e < made.size(); ++e)
    for (const Box& box : of) {
      Numbers at = place(static_cast<int64_t>(e), dims);
      bool inside = true;
      for (size_t d = 0; d < dims.size(); ++d)
        inside = inside && box.begin[d] <= at[d] && at[d] < box.end[d];
      if (!inside) continue;
      EXPECT_EQ(made[e].contents, -1) << "boxes overlap";
      for (size_t d = 0; d < dims.size(); ++d) at[d] += box.shift[d];
      const Contents& contents = table.at(box.contents);
      const ContentsId base = contents.elements_of.valid() ? contents.elements_of : box.contents;
      made[e] = {static_cast<int64_t>(base.index()), index_of(at, contents.dims)};
    }
  return made;
}

struct Value {
  Numbers dims;
  Composition of;
};

class Compositions : public testing::Test {
 protected:
  ContentsId contents(size_t term, Numbers dims) {
    return table_.id_of({.terms = {{ir::ValueId(term), {}}}, .dims = std::move(dims)});
  }
  Value whole(size_t term, const Numbers& dims) {
    return {dims, all_of(table_, contents(term, dims))};
  }
  Elements elements_of(const Value& value) { return elements(table_, value.of, value.dims); }

  // Slices it at random, and puts the slices together again with another value's between them.
  Value mixed(Value value, const Value& other, Rng& rng) {
    const size_t dim = rng.below(value.dims.size());
    const int64_t cut = rng.between(0, value.dims[dim]);
    const Composition low = sliced(value.of, dim, 0, cut);
    const Composition high = sliced(value.of, dim, cut, value.dims[dim]);
    Value made{value.dims, {}};
    put(made.of, high, dim, 0);
    put(made.of, low, dim, value.dims[dim] - cut);
    if (value.dims == other.dims && rng.below(2) == 0) {
      const int64_t begin = rng.between(0, value.dims[dim] - 1);
      const int64_t end = rng.between(begin + 1, value.dims[dim]);
      made.of = cleared(made.of, dim, begin, end);
      put(made.of, sliced(other.of, dim, begin, end), dim, begin);
    }
    return made;
  }

  ContentsTable table_;
};

TEST_F(Compositions, SlicesJoinsAndExchangesAreWhatTheyAreElementByElement) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    Numbers dims;
    for (size_t d = 0; d < 1 + rng.below(3); ++d) dims.push_back(rng.between(1, 4));
    Value value = whole(0, dims);
    for (int step = 0; step < 4; ++step) value = mixed(value, whole(1, dims), rng);
    const size_t dim = rng.below(dims.size());
    const int64_t begin = rng.between(0, dims[dim] - 1), end = rng.between(begin + 1, dims[dim]);
    Value part{dims, sliced(value.of, dim, begin, end)};
    part.dims[dim] = end - begin;
    const Elements all = elements_of(value), some = elements_of(part);
    for (size_t e = 0; e < some.size(); ++e) {
      Numbers at = place(static_cast<int64_t>(e), part.dims);
      at[dim] += begin;
      ASSERT_EQ(some[e], all[static_cast<size_t>(index_of(at, dims))]) << "seed " << seed;
    }
    const Value again = mixed(value, whole(1, dims), rng);
    EXPECT_EQ(same(value.of, again.of, dims), all == elements_of(again)) << "seed " << seed;
    EXPECT_TRUE(same(value.of, value.of, dims));
  }
}

TEST_F(Compositions, WhatIsCutAndPutTogetherInAnyOrderIsOneBox) {
  const Value value = whole(0, {4, 6});
  Composition made;
  for (const int64_t at : {2, 0, 4}) put(made, sliced(value.of, 1, at, at + 2), 1, at);
  EXPECT_EQ(single(table_, made, value.dims), contents(0, {4, 6}));
  EXPECT_FALSE(single(table_, sliced(value.of, 0, 0, 2), Numbers{2, 6}).has_value())
      << "half of it, at the same places";
}

TEST_F(Compositions, ReshapedBoxesHaveTheSameElementsInTheSameOrder) {
  const std::vector<Numbers> shapes = {{4, 6}, {24}, {2, 2, 6}, {4, 2, 3}, {2, 12}, {8, 3}};
  int boxes = 0, cut = 0;
  for (const Numbers& from : shapes)
    for (const Numbers& whole_to : shapes) {
      const Value value = whole(0, from);
      table_.id_of({.elements_of = contents(0, from), .dims = whole_to});
      for (size_t d = 0; d < from.size(); ++d)
        for (int64_t begin = 0; begin < from[d]; ++begin)
          for (int64_t end = begin + 1; end <= from[d]; ++end) {
            Numbers part = from, to = whole_to;
            part[d] = end - begin;
            // The only way to cut the other shape to as many elements along one dimension.
            for (size_t t = 0; t < to.size(); ++t) {
              to = whole_to;
              if (count(part) * to[t] % count(whole_to) != 0) continue;
              to[t] = count(part) * to[t] / count(whole_to);
              const Composition one = sliced(value.of, d, begin, end);
              const auto made = reshaped(table_, one, part, to);
              if (!made) continue;
              ++boxes;
              cut += end - begin < from[d];
              ASSERT_EQ(elements(table_, *made, to), elements(table_, one, part));
            }
          }
    }
  EXPECT_GT(boxes, 100);
  EXPECT_GT(cut, 60);
}

TEST_F(Compositions, SharesOfASumAreAddedOnceAndAreTheWholeTogether) {
  const ir::ValueId term(3);
  const auto share = [&](std::vector<std::pair<int64_t, int64_t>> ranges,
                         ops::Merge merge = ops::Merge::kSum) {
    return table_.id_of(
        {.terms = {{term, {.axis = 1, .ranges = std::move(ranges)}}}, .merge = merge, .dims = {2}});
  };
  table_.set_extent(term, 1, 8);
  const ContentsId low = share({{0, 3}}), high = share({{5, 8}}), middle = share({{3, 5}});
  const auto ends = table_.sum(high, low);
  ASSERT_TRUE(ends.has_value());
  EXPECT_EQ(*ends, share({{0, 3}, {5, 8}}));
  EXPECT_FALSE(table_.sum(*ends, low).has_value()) << "twice";
  EXPECT_FALSE(table_.sum(*ends, share({{4, 6}})).has_value()) << "a part of it twice";
  const auto all = table_.sum(*ends, middle);
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(*all, contents(3, {2}));
  for (const auto merge : {ops::Merge::kMax, ops::Merge::kLogSumExp}) {
    const ContentsId first = share({{0, 3}}, merge), rest = share({{3, 8}}, merge);
    EXPECT_FALSE(table_.sum(low, rest).has_value()) << "no sum";
    EXPECT_FALSE(table_.merged(low, high, merge).has_value()) << "sums";
    EXPECT_FALSE(table_.merged(first, first, merge).has_value()) << "twice";
    EXPECT_EQ(table_.merged(first, rest, merge), contents(3, {2}));
  }
  EXPECT_FALSE(table_
                   .merged(share({{0, 3}}, ops::Merge::kMax),
                           share({{3, 8}}, ops::Merge::kLogSumExp), ops::Merge::kMax)
                   .has_value());
  const auto both = table_.sum(contents(3, {2}), contents(4, {2}));
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(table_.at(*both).terms.size(), 2U);
  EXPECT_FALSE(table_.sum(*both, contents(4, {2})).has_value());
}

// Rectangles of two axes, drawn until they are all of both, in any order and in any of the shapes
// that a loop in a loop gives: the share that is there is the set of places, by definition.
TEST_F(Compositions, SharesOfTwoAxesAreSetsOfPlaces) {
  const ir::ValueId term(5);
  constexpr int64_t kFirst = 4, kSecond = 3;
  table_.set_extent(term, 0, kFirst);
  table_.set_extent(term, 2, kSecond);
  using Places = std::set<std::pair<int64_t, int64_t>>;
  std::map<Places, ContentsId> known;
  int sums = 0, refused = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    Places places;
    std::optional<ContentsId> all;
    for (int draw = 0; draw < 12; ++draw) {
      const int64_t a = rng.between(0, kFirst - 1), b = rng.between(a + 1, kFirst);
      const int64_t c = rng.between(0, kSecond - 1), d = rng.between(c + 1, kSecond);
      const bool first = b - a == kFirst, second = d - c == kSecond;
      Share share{.axis = 0, .other = 2, .slabs = {{{a, b}, {{c, d}}}}};
      if (second) share = {.axis = 0, .ranges = {{a, b}}};
      if (first) share = {.axis = 2, .ranges = {{c, d}}};
      if (first && second) share = {};
      Places more;
      for (int64_t x = a; x < b; ++x)
        for (int64_t y = c; y < d; ++y) more.emplace(x, y);
      const ContentsId one = table_.id_of({.terms = {{term, share}}, .dims = {2}});
      const bool overlaps = std::any_of(more.begin(), more.end(),
                                        [&](const auto& place) { return places.contains(place); });
      const auto sum = all ? table_.sum(*all, one) : std::optional(one);
      ASSERT_EQ(sum.has_value(), !overlaps) << "seed " << seed;
      refused += overlaps;
      if (overlaps) continue;
      sums += all.has_value();
      all = sum;
      places.merge(more);
      const auto [same, is_new] = known.try_emplace(places, *all);
      EXPECT_EQ(same->second, *all) << "seed " << seed << ", " << places.size() << " places";
    }
  }
  EXPECT_GT(sums, 300);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace lowtide::verify
