// Labellings drawn at random: the levels of an axis class with nests, ops by themselves along any
// of their axes with boundaries anywhere, or both.
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

inline std::vector<fission::AxisClass> classes_of(const ir::Graph& step) {
  auto classes = fission::axis_classes(step);
  EXPECT_TRUE(classes.has_value() && !classes->empty());
  return std::move(*classes);
}

}  // namespace lowtide
