// A part of an op, cut along one axis or along two, one within the other, as the op table has it:
// what it reads of each operand, and what of each result it makes. The second cut is one of the
// part that the first makes, as an op of its own, along an axis that both have (ops::axis_of_part).
//
// Tests: tests/nested_parts_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ops/op_table.h"
#include "verify/composition.h"

namespace lowtide::verify {

// A range of an axis, counted as the whole op has its axes.
struct AxisRange {
  int axis = 0;
  int64_t begin = 0, end = 0;
};
inline constexpr size_t kMostAxesCut = 2;

// Position x of an axis adds into [stride x - pad, stride x - pad + reach) of a result's dimension
// and into nothing else of it.
struct Scatter {
  int axis = 0;
  size_t dim = 0;
  int64_t stride = 1, pad = 0, reach = 1;
  int64_t extent = 0;  // of the axis
  // The positions that may add into [begin, end) of the dimension.
  std::pair<int64_t, int64_t> positions_of(int64_t begin, int64_t end) const;
};

class NestedPart {
 public:
  // `cuts`: the outer one first; none: the op itself. `whole` must stay. Error: as ops::part, or
  // kInput: the part has no such axis.
  static Result<NestedPart> make(const ops::Instance& whole, const std::vector<AxisRange>& cuts);

  // The number that the part has for an axis of the whole op.
  std::optional<int> axis_within(int axis) const;
  ops::Instance instance() const { return {whole_->kind, &attrs(), inputs_}; }
  const ir::Attrs& attrs() const { return levels_.empty() ? *whole_->attrs : levels_.back().attrs; }
  bool has_input(size_t input) const { return input < inputs_.size() && inputs_[input]; }
  // All of the operand, as `of` and with these dims, cut to what the part reads of it.
  Composition read(size_t input, Composition of, std::vector<int64_t>& dims) const;
  bool reads_all(size_t input) const;

  // Which share of a result's sum (or maximum, or log-sum-exp) it is; all: it is none. Extents of
  // the axes go into the table.
  Share share(size_t output, ir::ValueId term, ContentsTable& table) const;
  // How such shares are put together.
  ops::Merge merge(size_t output) const;
  // A mean of a range: to be weighed yet.
  bool is_unweighted(size_t output) const;
  // All of the contents, cut to what the part makes of them.
  Composition make_of(size_t output, Composition all) const;
  // The outer cut is along the positions of windows that lie over each other in a result.
  std::optional<Scatter> scatter(size_t output) const;

 private:
  const ops::Instance* whole_ = nullptr;
  std::vector<AxisRange> cuts_;
  std::vector<int64_t> extents_;  // of the axes, by cut
  std::vector<ops::Part> levels_;
  std::vector<std::optional<ops::Type>> inputs_;
};

}  // namespace lowtide::verify
