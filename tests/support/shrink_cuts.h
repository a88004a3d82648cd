// The smallest cuts that still fail: of a labelling under which a property does not hold, cuts are
// taken away and parts joined as long as it does not (Zeller's delta debugging: halves of what is
// left, then quarters, down to one by one). Of an op in parts along two axes the second goes first,
// then it takes the first one's place.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
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

// `fails` of cuts that are as they should be; asked a few times per cut. What comes back fails, and
// fails no longer where any one of its cuts is left out, or runs in half the parts.
class Shrinking {
 public:
  using Fails = std::function<bool(const fission::NestedCuts&)>;
  Shrinking(fission::NestedCuts cuts, const Fails& fails) : cuts_(std::move(cuts)), fails_(fails) {}

  fission::NestedCuts done() && {
    for (bool smaller = true; smaller;) {
      smaller = false;
      for (size_t layer = cuts_.size(); layer-- > 0;) {
        smaller |= take_away(layer);
        smaller |= join_parts(layer);
      }
      if (cuts_.size() > 1) smaller |= lift();
    }
    while (cuts_.size() > 1 && ops_cut(cuts_.back()).empty()) cuts_.pop_back();
    return std::move(cuts_);
  }

 private:
  bool take(fission::NestedCuts smaller) {
    if (smaller == cuts_ || !fails_(smaller)) return false;
    cuts_ = std::move(smaller);
    return true;
  }

  // Cuts of a layer and of those within it.
  bool take_away(size_t layer) {
    bool smaller = false;
    for (size_t many = std::max<size_t>(1, ops_cut(cuts_[layer]).size() / 2); many > 0; many /= 2) {
      const std::vector<ir::OpId> ops = ops_cut(cuts_[layer]);
      for (size_t first = 0; first < ops.size(); first += many) {
        fission::NestedCuts without = cuts_;
        for (size_t k = first; k < std::min(first + many, ops.size()); ++k)
          for (size_t within = layer; within < without.size(); ++within)
            without[within][ops[k]].reset();
        smaller |= take(std::move(without));
      }
    }
    return smaller;
  }

  bool join_parts(size_t layer) {
    bool smaller = false;
    for (const ir::OpId id : ops_cut(cuts_[layer])) {
      fission::NestedCuts fewer = cuts_;
      fewer[layer][id] = in_half_the_parts(*cuts_[layer][id]);
      if (fewer[layer][id]->bounds.size() > 2) smaller |= take(std::move(fewer));
    }
    return smaller;
  }

  // What the second axis alone does.
  bool lift() {
    bool smaller = false;
    for (const ir::OpId id : ops_cut(cuts_[1])) {
      fission::NestedCuts lifted = cuts_;
      lifted[0][id] = std::exchange(lifted[1][id], std::nullopt);
      smaller |= take(std::move(lifted));
    }
    return smaller;
  }

  fission::NestedCuts cuts_;
  const Fails& fails_;
};

inline fission::NestedCuts shrunk(fission::NestedCuts cuts, const Shrinking::Fails& fails) {
  return Shrinking(std::move(cuts), fails).done();
}

inline fission::Cuts shrunk(fission::Cuts cuts,
                            const std::function<bool(const fission::Cuts&)>& fails) {
  const auto of_one = [&](const fission::NestedCuts& nested) { return fails(nested.front()); };
  return shrunk(fission::NestedCuts{std::move(cuts)}, of_one).front();
}

// "MatMul 'product' along m at 0 3 6, along n at 0 2 4", one line each.
inline std::string say(const ir::Graph& graph, const fission::NestedCuts& cuts) {
  std::string text;
  for (const ir::OpId id : ops_cut(cuts.front())) {
    const auto map = ops::axis_map(ops::instance_of(graph, id));
    text += fmt::format("{} '{}'", graph.op(id).kind, graph.op(id).name);
    for (const fission::Cuts& layer : cuts)
      if (layer[id])
        text += fmt::format("{} along {} at {}", &layer == &cuts.front() ? "" : ",",
                            map ? map->axes[static_cast<size_t>(layer[id]->axis)].name : "?",
                            fmt::join(layer[id]->bounds, " "));
    text += "\n";
  }
  return text;
}

inline std::string say(const ir::Graph& graph, const fission::Cuts& cuts) {
  return say(graph, fission::NestedCuts{cuts});
}

}  // namespace lowtide
