// Axis classes: which axes of which ops walk the same dimension of a step (batch, sequence, heads,
// channels, vocabulary). The connected components of MAGIS's dimension graph (section 4.1), by
// union-find, with exact conflicts: in one class an op has one axis at most.
//
// An axis of one op and an axis of another are linked where the one makes a dimension of a value
// that the other reads along it. Following all links would be too much: rows of queries and rows of
// keys are the same sequence and meet in one product, which then had two axes in one class. So
// links are followed from the largest values down, and a link that would join two axes of one op is
// left out: the class ends there, at the smallest value that lies on the way (Kruskal's spanning
// forest with forbidden pairs, greedy). The links are the uses of ops::axis_map, not
// MAGIS's edges from inputs to outputs: an edge lacks what only an output walks (the results of
// Expand and Fill, the channels that ConvWgtGrad makes), and it has no extents.
//
// Whatever a class is, cutting its ops into parts is right (expand.h): the parts of ops that are
// linked pass their pieces on, all others read and make wholes. A class only says which cuts fit.
//
// Where parts wait for each other the step runs in passes (passes.h), and what lies between two of
// them is there for all parts. So ops that all parts wait for before the first one runs, and that
// are made of given whole numbers and parameters alone and few bytes (how many labels count, the
// weights of labels), are in no class: they run whole, beforehand.
//
// Tests: tests/axis_classes_test.cc, tests/parts_test.cc, tests/ignored_labels_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "fission/expand.h"
#include "ir/graph.h"
#include "ops/op_table.h"

namespace lowtide::fission {

// Whether the parts of the axis are slices of the dimension that it walks there, a window's
// overlapping.
bool walks_along(const ops::AxisUse& use);

struct ClassAxis {
  ir::OpId op;
  int axis = 0;         // as in ops::axis_map
  int64_t extent = 0;   // elements
  int64_t bytes = 0;    // of what the op makes along it
  bool padded = false;  // walks beyond an operand's ends: a part may read nothing but padding
  bool operator==(const ClassAxis&) const = default;
};

struct AxisClass {
  std::vector<ClassAxis> axes;  // by op, each op once
  int64_t bytes = 0;            // of all values that its ops make along it
  int64_t least_extent = 0;     // more parts than that are none
};

// What may be a member: axes that can be cut, or also those that cannot be because the op needs
// all of them at once (class_ends.h).
enum class AxisChoice : uint8_t { kToCut, kCoupledToo };

// By op, empty for those that overwrite something: they are in no class. Error: as ops::axis_map.
Result<IdVector<ir::OpId, ops::AxisMap>> axis_maps(const ir::Graph& graph);

// Those of two ops or more, the largest in bytes first. All dims must be constant. Ops that
// overwrite something are in none (expand refuses them). Error: as ops::axis_map.
Result<std::vector<AxisClass>> axis_classes(const ir::Graph& graph,
                                            AxisChoice choice = AxisChoice::kToCut);

// Whether an op of the class walks the first dimension of what is fed: samples, as a rule. Error:
// as ops::axis_map.
Result<bool> walks_samples(const ir::Graph& graph, const AxisClass& axis_class);

}  // namespace lowtide::fission
