// The smallest cuts that still fail: of a labelling under which a property does not hold, cuts are
// taken away and parts joined as long as it does not (Zeller's delta debugging: halves of what is
// left, then quarters, down to one by one).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "fission/expand.h"
#include "ops/op_table.h"

namespace lowtide {

inline std::vector<ir::OpId> ops_cut(const fission::Cuts& cuts) {
  std::vector<ir::OpId> ops;
  for (const ir::OpId id : cuts.ids())
    if (cuts[id]) ops.push_back(id);
  return ops;
}

// With half of the boundaries between parts: every second one is left out.
inline fission::Cut in_half_the_parts(const fission::Cut& cut) {
  std::vector<int64_t> fewer;
  for (size_t k = 0; k < cut.bounds.size(); ++k)
    if (k % 2 == 0 || k + 1 == cut.bounds.size()) fewer.push_back(cut.bounds[k]);
  return {cut.axis, std::move(fewer)};
}

// `fails` of `cuts`; asked a few times per cut. What comes back fails, and fails no longer where
// any one of its cuts is left out, or runs in half the parts.
inline fission::Cuts shrunk(fission::Cuts cuts,
                            const std::function<bool(const fission::Cuts&)>& fails) {
  const auto take = [&](fission::Cuts smaller) {
    if (!fails(smaller)) return false;
    cuts = std::move(smaller);
    return true;
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t many = std::max<size_t>(1, ops_cut(cuts).size() / 2); many > 0; many /= 2) {
      const std::vector<ir::OpId> ops = ops_cut(cuts);
      for (size_t first = 0; first < ops.size(); first += many) {
        fission::Cuts without = cuts;
        for (size_t k = first; k < std::min(first + many, ops.size()); ++k) without[ops[k]].reset();
        smaller |= take(std::move(without));
      }
    }
    for (const ir::OpId id : ops_cut(cuts)) {
      fission::Cuts fewer = cuts;
      fewer[id] = in_half_the_parts(*cuts[id]);
      if (fewer[id]->bounds.size() > 2) smaller |= fewer != cuts && take(std::move(fewer));
    }
  }
  return cuts;
}

// "MatMul 'product' along m at 0 3 6", one line each.
inline std::string say(const ir::Graph& graph, const fission::Cuts& cuts) {
  std::string text;
  for (const ir::OpId id : ops_cut(cuts)) {
    const auto map = ops::axis_map(ops::instance_of(graph, id));
    text += fmt::format("{} '{}' along {} at {}\n", graph.op(id).kind, graph.op(id).name,
                        map ? map->axes[static_cast<size_t>(cuts[id]->axis)].name : "?",
                        fmt::join(cuts[id]->bounds, " "));
  }
  return text;
}

}  // namespace lowtide
