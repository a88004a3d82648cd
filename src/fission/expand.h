// The graph in which some ops run in parts (MAGIS, section 4: F-Trans). Any choice of ops, axes and
// boundaries is right.
//
// A cut says along which axis of its loop nest an op is cut and where. Each op is cut for itself:
// what a part reads is a piece of what a cut producer made, where the cuts fit, otherwise a slice
// of the whole, or, of a window that reaches into pieces beside its own, a join of what it needs of
// them (Windows); what the parts make are
//
//   pieces         where the axis walks the result: the whole is their Concat, made where somebody
//                  reads it whole (rewrite/pieces.h makes it a view where that is possible)
//   contributions  where it is summed: each part adds into the one before (accumulators); those of
//                  gradients that updates read may then come in any order (analysis/sums.h). Where
//                  an op cannot add, an Add
//   more           a mean weighs its parts, a maximum takes the larger, a log-sum-exp that of both
//                  (ops::merging_kind); of slices that overlap (some gradients of windows) come
//                  pieces, and sums where several reach
//
// so neighbouring ops that are cut alike pass their pieces on and never make the whole.
// Cuts along several axes are cuts of parts: the expanded graph is expanded again.
//
// Tests: tests/parts_test.cc, tests/nested_parts_test.cc.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::ops {
struct AxisMap;
struct Instance;
}  // namespace lowtide::ops

namespace lowtide::fission {

// Where an axis is cut. Ops that are cut alike share their bounds: a search makes cuts of all ops
// for each of its states.
class Bounds {
 public:
  Bounds() = default;
  Bounds(std::vector<int64_t> bounds)  // NOLINT(google-explicit-constructor): they are a list
      : shared_(std::make_shared<const std::vector<int64_t>>(std::move(bounds))) {}
  Bounds(std::initializer_list<int64_t> bounds) : Bounds(std::vector<int64_t>(bounds)) {}

  const std::vector<int64_t>& list() const {
    static const std::vector<int64_t> kNone;
    return shared_ ? *shared_ : kNone;
  }
  size_t size() const { return list().size(); }
  int64_t operator[](size_t k) const { return list()[k]; }
  int64_t back() const { return list().back(); }
  auto begin() const { return list().begin(); }
  auto end() const { return list().end(); }
  friend bool operator==(const Bounds& a, const Bounds& b) {
    return a.shared_ == b.shared_ || a.list() == b.list();
  }

 private:
  std::shared_ptr<const std::vector<int64_t>> shared_;
};

// Part k of the op is [bounds[k], bounds[k + 1]) of the axis: from 0, ascending, to its extent.
struct Cut {
  int axis = 0;  // as in ops::axis_map
  Bounds bounds;
  bool operator==(const Cut&) const = default;
};
using Cuts = IdVector<ir::OpId, std::optional<Cut>>;  // none: the op stays whole
// In layers: the parts that the first makes are cut by the second, along another axis of their op.
// An op is cut along so many axes at most, and in the second layer only if it is in the first.
inline constexpr size_t kMostAxes = 2;
using NestedCuts = std::vector<Cuts>;

// What the k-th part of an op is called.
std::string part_name(std::string_view op, size_t k);
// "op/part0/part1" of "op/part1/part0": what a part of a part is called where the layers are cut in
// the other order. Other names stay.
std::string with_layers_exchanged(std::string_view name);

// [0, extent) in parts of whole units, as equal as they can be, the larger ones first. Where
// `units` do not divide the extent, each element is one. `parts` <= `units`.
std::vector<int64_t> even_bounds(int64_t extent, int64_t parts, int64_t units);

// What a part reads that reaches into several pieces and has no whole number of them: rows of an
// image and those around them.
enum class Windows : uint8_t {
  kOfWholes,  // a slice of the whole: no copy, where the whole lies in one place anyway
  kOfPieces,  // a copy of what it reaches: the whole is never made, each piece goes when it can
};

// Which stretch of the loop over its op a part is.
struct Stretch {
  static constexpr int64_t kLoop = 1'000'000'000;  // all of it; whole numbers are the same anywhere
  int64_t begin = 0, end = kLoop;
};

struct Expanded {
  ir::Graph graph;
  // The parts of each op, in the order of its loop; one where it stays whole.
  IdVector<ir::OpId, std::vector<ir::OpId>> parts;
  IdVector<ir::OpId, std::vector<Stretch>> stretches;  // of these parts
  int64_t windows = 0;  // operands of parts for which the choice of Windows matters
};

// All dims must be constant. Values that are whole keep their names; control edges hold between all
// parts. Error: kInput, naming the op: it overwrites something or cannot be cut there (ops::part),
// or a part would read nothing but padding.
Result<Expanded> expand(const ir::Graph& graph, const Cuts& cuts,
                        Windows windows = Windows::kOfWholes);
// Parts of parts, called "op/part1/part0"; at least one layer. Error: also kInput, naming the op,
// as cut_within.
Result<Expanded> expand(const ir::Graph& graph, const NestedCuts& cuts,
                        Windows windows = Windows::kOfWholes);

// The cut of an op along another axis as one of its parts has it; `whole` are the op's axes. Error:
// kInput, where the part has no such axis, where what the parts of the part make would have to be
// weighed or laid over each other (means, gradients of windows without rows of their own), or where
// they read nothing by which one could tell which part is which (Fill): these are cut along one
// axis alone.
Result<Cut> cut_within(const ops::AxisMap& whole, const Cut& cut, const ops::Instance& part);

}  // namespace lowtide::fission
