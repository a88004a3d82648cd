// What a value of a step in parts consists of, in terms of the step in one part.
//
// *Contents* are a value of the whole step, or a part of a sum (or maximum, or log-sum-exp) that
// makes one: which ops have contributed, and of each which ranges of the axis that it sums. A
// *composition* is a value cut into boxes, each of which shows a box of some contents:
//
//     Concat of a slice of h and of all of k       h[.., 2:5] | k
//     half of a weight's gradient                  the box of dw's contents {axis 0: [0, 4)}
//
// Slices and concatenations are arithmetic on boxes, additions are unions of ranges; what is added
// twice has no union. Nothing here knows how a step was cut.
//
// Tests: composition_test.cc.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/id.h"
#include "ir/graph.h"
#include "ops/op_table.h"

namespace lowtide::verify {

struct ContentsTag;
using ContentsId = Id<ContentsTag>;

// Ascending and apart.
using Ranges = std::vector<std::pair<int64_t, int64_t>>;

// Which part of the sum that an op forms is there: all of it, these ranges of an axis, or of each
// of some ranges of it (slabs) these ranges of another axis. Slabs ascend and are apart, neighbours
// have other ranges, and no two axes are named where one would do: equal shares are equal.
struct Share {
  int axis = -1;  // -1: all; the lower one of two
  Ranges ranges = {};
  int other = -1;                                                          // -1: one axis
  std::vector<std::pair<std::pair<int64_t, int64_t>, Ranges>> slabs = {};  // of two axes
  bool all() const { return axis < 0; }
  auto operator<=>(const Share&) const = default;
};

struct Contents {
  std::map<ir::ValueId, Share> terms = {};  // by the value of the whole step that they add up to
  ops::Merge merge = ops::Merge::kSum;      // of the ranges; of a whole always that
  bool unweighted = false;                  // a mean of the range, not yet times its share
  // Another contents' elements in row-major order, with other dimensions; then there are no terms.
  ContentsId elements_of = {};
  std::vector<int64_t> dims = {};
  auto operator<=>(const Contents&) const = default;
};

// Contents by number; equal ones have one number.
class ContentsTable {
 public:
  ContentsId id_of(const Contents& contents);
  const Contents& at(ContentsId id) const { return *by_id_[id]; }
  // All that have the same elements in row-major order, itself included.
  const std::vector<ContentsId>& reshapes_of(ContentsId id) const;
  // Both added up; nothing where a range is in both, or they are no sums.
  std::optional<ContentsId> sum(ContentsId a, ContentsId b) {
    return merged(a, b, ops::Merge::kSum);
  }
  // Of parts of one value, put together by that.
  std::optional<ContentsId> merged(ContentsId a, ContentsId b, ops::Merge merge);
  // An axis has so many places: ranges that have all of them are the whole.
  void set_extent(ir::ValueId term, int axis, int64_t extent) { extents_[{term, axis}] = extent; }
  int64_t extent(ir::ValueId term, int axis) const { return extents_.at({term, axis}); }

 private:
  std::optional<ContentsId> united(ContentsId a, ContentsId b);
  std::optional<Share> united(ir::ValueId term, const Share& a, const Share& b) const;
  std::optional<Share> united_in_slabs(ir::ValueId term, const Share& a, const Share& b) const;
  Share simplest(ir::ValueId term, Share share) const;

  std::map<Contents, ContentsId> ids_;
  IdVector<ContentsId, const Contents*> by_id_;
  std::map<std::pair<ir::ValueId, int>, int64_t> extents_;
  std::map<ContentsId, std::vector<ContentsId>> reshapes_;  // by what they are elements of
};

// Element x of the value, begin <= x < end, is element x + shift of the contents.
struct Box {
  std::vector<int64_t> begin, end, shift;
  ContentsId contents;
  bool operator==(const Box&) const = default;
};

// Boxes that do not overlap; what none covers is undefined.
using Composition = std::vector<Box>;

// A value that is all of these contents.
Composition all_of(const ContentsTable& table, ContentsId contents);
Composition sliced(const Composition& of, size_t dim, int64_t begin, int64_t end);
// Puts `added` into `to`, from `at` of this dimension on. What was there must have been cleared.
void put(Composition& to, const Composition& added, size_t dim, int64_t at);
// Without what lies in [begin, end) of the dimension.
Composition cleared(const Composition& of, size_t dim, int64_t begin, int64_t end);
// Whether two compositions of a value with these dims show the same, everywhere.
bool same(const Composition& a, const Composition& b, std::span<const int64_t> dims);
// The same elements in row-major order as a value with these dims, where its boxes are boxes of
// contents that the table knows.
std::optional<Composition> reshaped(const ContentsTable& table, const Composition& of,
                                    std::span<const int64_t> from, std::span<const int64_t> to);
// The box, where one is the whole value.
const Box* only_box(const Composition& of, std::span<const int64_t> dims);
// The contents, where that box shows all of them.
std::optional<ContentsId> single(const ContentsTable& table, const Composition& of,
                                 std::span<const int64_t> dims);

}  // namespace lowtide::verify
