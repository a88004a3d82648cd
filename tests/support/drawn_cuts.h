// Labellings drawn at random: the levels of an axis class with nests, ops by themselves along any
// of their axes with boundaries anywhere, or both; and within these cuts others along a second
// axis.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/labels.h"
#include "support/shrink_cuts.h"
#include "support/small_steps.h"

namespace lowtide {

// What was drawn.
struct DrawnCuts {
  int labellings = 0, ops = 0, parts = 0, nests = 0;
  int along_two = 0;                 // of the ops
  std::map<std::string, int> kinds;  // of op and axis, and how often
};

inline void count_cuts(const ir::Graph& step, const fission::Cuts& cuts, DrawnCuts& drawn) {
  ++drawn.labellings;
  for (const ir::OpId id : ops_cut(cuts)) {
    const auto map = ops::axis_map(ops::instance_of(step, id));
    ++drawn.ops;
    drawn.parts += static_cast<int>(cuts[id]->bounds.size()) - 1;
    ++drawn.kinds[step.op(id).kind + " " + map->axes[static_cast<size_t>(cuts[id]->axis)].name];
  }
}

// One of the classes in as many parts as it can be divided into without a rest, with nests behind
// ops drawn at random as far as these have regions.
inline fission::Cuts levels_of_a_class(const ir::Graph& step,
                                       const std::vector<fission::AxisClass>& classes, Rng& rng,
                                       int& nests) {
  const fission::AxisClass& axis_class = classes[rng.below(classes.size())];
  fission::Labels labels{.parts = rng.between(1, std::min<int64_t>(3, axis_class.least_extent))};
  fission::LabelReader reader(step, axis_class);
  for (int tries = 0; tries < 6; ++tries) {
    fission::Labels more = labels;
    const ir::OpId head = axis_class.axes[rng.below(axis_class.axes.size())].op;
    more.nests.push_back({step.op(head).name, labels.parts * rng.between(1, 3)});
    if (reader.levels(more)) labels = std::move(more);
  }
  nests += static_cast<int>(labels.nests.size());
  const auto levels = reader.levels(labels);
  EXPECT_TRUE(levels.has_value()) << (levels ? "" : levels.error().message);
  return fission::cuts_of(step, axis_class, *levels);
}

// Whether every part of the outer cut can run in those of the inner one.
inline bool can_nest(const ops::Instance& op, const fission::Cut& outer,
                     const fission::Cut& inner) {
  const auto axes = ops::axis_map(op);
  if (outer.axis == inner.axis) return false;
  for (size_t k = 0; k + 1 < outer.bounds.size(); ++k) {
    const auto part = ops::part(op, outer.axis, outer.bounds[k], outer.bounds[k + 1]);
    if (!part || !fission::cut_within(*axes, inner, ops::instance_of(op, *part))) return false;
  }
  return true;
}

inline bool can_nest(const ir::Graph& step, const fission::NestedCuts& cuts) {
  for (size_t layer = 1; layer < cuts.size(); ++layer)
    for (const ir::OpId id : ops_cut(cuts[layer]))
      if (!cuts[0][id] || !can_nest(ops::instance_of(step, id), *cuts[0][id], *cuts[layer][id]))
        return false;
  return true;
}

// Within the cuts of a quarter of the ops others, along a second axis and with boundaries drawn at
// random, as far as they can be cut so.
inline fission::NestedCuts with_second_axes(const ir::Graph& step, fission::Cuts cuts, Rng& rng,
                                            DrawnCuts& drawn) {
  fission::Cuts within(step.op_count());
  for (const ir::OpId id : ops_cut(cuts)) {
    if (rng.below(4) > 0) continue;
    const std::vector<Choice> all = choices(step, id, rng);
    if (all.empty()) continue;
    const fission::Cut& inner = all[rng.below(all.size())].cut;
    if (!can_nest(ops::instance_of(step, id), *cuts[id], inner)) continue;
    within[id] = inner;
    ++drawn.along_two;
  }
  return {std::move(cuts), std::move(within)};
}

inline std::vector<fission::AxisClass> classes_of(const ir::Graph& step) {
  auto classes = fission::axis_classes(step);
  EXPECT_TRUE(classes.has_value() && !classes->empty());
  return std::move(*classes);
}

}  // namespace lowtide
