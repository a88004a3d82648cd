#include "fission/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

using ir::OpId;

// Whether the whole text is a number.
std::optional<int64_t> number_in(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc() || at != end || number < 1) return std::nullopt;
  return number;
}

// "HEAD:M"
std::optional<Nest> nest_in(std::string_view entry) {
  const size_t colon = entry.rfind(':');
  if (colon == entry.npos || colon == 0) return std::nullopt;
  const auto parts = number_in(entry.substr(colon + 1));
  return parts ? std::optional(Nest{std::string(entry.substr(0, colon)), *parts}) : std::nullopt;
}

IdVector<OpId, char> members(const ir::Graph& graph, const AxisClass& axis_class) {
  IdVector<OpId, char> is_member(graph.op_count(), 0);
  for (const ClassAxis& axis : axis_class.axes) is_member[axis.op] = 1;
  return is_member;
}

// Boundaries in which each interval of the ones before is divided by `factor`, in whole units.
// None where an interval has not so many.
std::optional<std::vector<int64_t>> divided(const std::vector<int64_t>& bounds, int64_t factor,
                                            int64_t unit) {
  std::vector<int64_t> finer = {0};
  for (size_t k = 0; k + 1 < bounds.size(); ++k) {
    const int64_t size = bounds[k + 1] - bounds[k];
    if (size < factor) return std::nullopt;
    const int64_t units = size % unit == 0 && size / unit >= factor ? size / unit : size;
    const std::vector<int64_t> inside = even_bounds(size, factor, units);
    for (size_t i = 1; i < inside.size(); ++i) finer.push_back(bounds[k] + inside[i]);
  }
  return finer;
}

// Does an op of the class read it that is not in the region? (Updates read sums of weights'
// gradients, which end nothing.)
bool is_read_outside(const ir::Graph& graph, OpId id, const IdVector<OpId, char>& is_member,
                     const IdVector<OpId, char>& inside) {
  for (const ir::ValueId output : graph.op(id).outputs)
    for (const OpId reader : graph.readers(output))
      if (is_member[reader] && !inside[reader]) return true;
  return false;
}

}  // namespace

int64_t most_parts(const Labels& labels) {
  int64_t most = labels.parts;
  for (const Nest& nest : labels.nests) most = std::max(most, nest.parts);
  return most;
}

std::string print(const Labels& labels) {
  if (labels.chosen()) return "auto";
  std::string text = fmt::format("{}", labels.parts);
  for (const Nest& nest : labels.nests) text += fmt::format(",{}:{}", nest.head, nest.parts);
  return text;
}

Result<Labels> parse_labels(std::string_view text) {
  const auto wrong = [&] {
    return error(ErrorCode::kUsage,
                 fmt::format("--split: '{}' is neither a number of parts, as in 4, nor 'auto', nor "
                             "a number and, for ops behind others, larger ones, as in '2,norm:8'",
                             text));
  };
  if (text == "auto") return Labels{.parts = 0};
  Labels labels;
  const size_t comma = text.find(',');
  const auto parts = number_in(text.substr(0, comma));
  if (!parts) return wrong();
  labels.parts = *parts;
  std::string_view rest = comma == text.npos ? "" : text.substr(comma + 1);
  while (comma != text.npos) {
    // A name may have commas and colons: an entry ends where a colon and a number come before.
    size_t end = rest.find(',');
    std::optional<Nest> nest = nest_in(rest.substr(0, end));
    while (!nest && end != rest.npos) {
      end = rest.find(',', end + 1);
      nest = nest_in(rest.substr(0, end));
    }
    if (!nest) return wrong();
    labels.nests.push_back(std::move(*nest));
    if (end == rest.npos) break;
    rest = rest.substr(end + 1);
  }
  return labels;
}

IdVector<OpId, OpId> immediate_dominators(const ir::Graph& graph, const AxisClass& axis_class) {
  const IdVector<OpId, char> is_member = members(graph, axis_class);
  IdVector<OpId, OpId> dominator(graph.op_count());
  IdVector<OpId, int> depth(graph.op_count(), 0);
  const auto common = [&](OpId one, OpId other) {
    while (one != other) {
      if (!one.valid() || !other.valid()) return OpId::none();
      OpId& deeper = depth[one] >= depth[other] ? one : other;
      deeper = dominator[deeper];
    }
    return one;
  };
  for (const OpId id : graph.ops()) {
    if (!is_member[id]) continue;
    std::optional<OpId> all;
    for (const ir::ValueId input : graph.op(id).inputs) {
      const OpId maker = input.valid() ? graph.value(input).producer : OpId::none();
      if (!maker.valid() || !is_member[maker]) continue;
      all = all ? common(*all, maker) : maker;
    }
    dominator[id] = all.value_or(OpId::none());
    if (dominator[id].valid()) depth[id] = depth[dominator[id]] + 1;
  }
  return dominator;
}

std::vector<OpId> region_of(const ir::Graph& graph, const AxisClass& axis_class,
                            const IdVector<OpId, OpId>& dominators, OpId head) {
  const IdVector<OpId, char> is_member = members(graph, axis_class);
  IdVector<OpId, char> inside(graph.op_count(), 0);
  for (const OpId id : graph.ops())
    if (is_member[id] && dominators[id].valid())
      inside[id] = dominators[id] == head || inside[dominators[id]];
  // What others than the region read is its end; what only that dominates is no part of it.
  IdVector<OpId, char> behind_end(graph.op_count(), 0);
  std::vector<OpId> ops;
  for (const OpId id : graph.ops()) {
    if (!inside[id]) continue;
    const OpId above = dominators[id];
    behind_end[id] =
        above != head && (behind_end[above] || is_read_outside(graph, above, is_member, inside));
    if (!behind_end[id]) ops.push_back(id);
  }
  return ops;
}

int Levels::common(int one, int other) const {
  if (one == kOutside || other == kOutside) return kOutside;
  // Parents come first, so the larger number is never an ancestor of the smaller.
  while (one != other) {
    int& later = one > other ? one : other;
    later = levels[static_cast<size_t>(later)].parent;
  }
  return one;
}

LabelReader::LabelReader(const ir::Graph& graph, const AxisClass& axis_class)
    : graph_(graph), axis_class_(axis_class) {}

Result<const LabelReader::Region*> LabelReader::region(const Nest& nest) {
  const std::lock_guard lock(mutex_);
  if (const auto known = regions_.find(nest.head); known != regions_.end()) return &known->second;
  OpId head;
  for (const OpId id : graph_.ops())
    if (graph_.op(id).name == nest.head) head = id;
  if (!head.valid() || !members(graph_, axis_class_)[head])
    return error(ErrorCode::kInput,
                 fmt::format("--split: '{}' is no op that runs in parts", nest.head));
  if (!dominators_) dominators_ = immediate_dominators(graph_, axis_class_);
  std::vector<OpId> ops = region_of(graph_, axis_class_, *dominators_, head);
  if (ops.empty())
    return error(ErrorCode::kInput,
                 fmt::format("--split: every way to an op leads past '{}', so nothing is behind "
                             "it that could run in {} parts",
                             nest.head, nest.parts));
  return &regions_.emplace(nest.head, Region{head, std::move(ops)}).first->second;
}

Result<Levels> LabelReader::levels(const Labels& labels) {
  Levels made;
  made.level_of = IdVector<OpId, int>(graph_.op_count(), Levels::kOutside);
  made.levels.push_back({.parts = labels.parts});
  for (const ClassAxis& axis : axis_class_.axes) made.level_of[axis.op] = 0;
  std::vector<std::pair<const Region*, const Nest*>> regions;
  for (const Nest& nest : labels.nests) {
    LT_ASSIGN(const Region* found, region(nest));
    regions.emplace_back(found, &nest);
  }
  // What contains another has more ops; of equal ones the first in the graph comes first.
  std::stable_sort(regions.begin(), regions.end(), [](const auto& a, const auto& b) {
    return a.first->ops.size() != b.first->ops.size() ? a.first->ops.size() > b.first->ops.size()
                                                      : a.first->head < b.first->head;
  });
  for (const auto& [region, nest] : regions) {
    const int parent = made.level_of[region->ops.front()];
    const auto around = static_cast<size_t>(parent);
    for (const OpId id : region->ops)
      if (made.level_of[id] != parent)
        return error(ErrorCode::kInput,
                     fmt::format("--split: what is behind '{}' and behind another of the heads "
                                 "overlaps, and neither lies in the other",
                                 nest->head));
    if (nest->parts % made.levels[around].parts != 0)
      return error(ErrorCode::kInput,
                   fmt::format("--split: {} parts behind '{}' are no multiple of the {} around it",
                               nest->parts, nest->head, made.levels[around].parts));
    for (const OpId id : region->ops) made.level_of[id] = static_cast<int>(made.levels.size());
    made.levels.push_back({parent, region->head, nest->parts});
  }
  for (const ClassAxis& axis : axis_class_.axes)
    ++made.levels[static_cast<size_t>(made.level_of[axis.op])].ops;
  return made;
}

Result<Levels> levels_of(const ir::Graph& graph, const AxisClass& axis_class,
                         const Labels& labels) {
  return LabelReader(graph, axis_class).levels(labels);
}

namespace {

// The boundaries of an axis in the parts of a level and of those around it.
std::vector<int64_t> bounds_of(const Levels& levels, const std::vector<int64_t>& units, int level,
                               int64_t extent) {
  std::vector<size_t> path;
  for (; level >= 0; level = levels.levels[static_cast<size_t>(level)].parent)
    path.push_back(static_cast<size_t>(level));
  std::vector<int64_t> bounds = {0, extent};
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const int64_t around = static_cast<int64_t>(bounds.size()) - 1;
    const int64_t parts = levels.levels[*at].parts;
    if (parts % around != 0) break;  // the level around could not be followed
    const int64_t unit = units[*at] > 0 && extent % units[*at] == 0 ? extent / units[*at] : 1;
    const auto finer = divided(bounds, parts / around, unit);
    if (!finer) break;
    bounds = *finer;
  }
  return bounds;
}

// Of each level the least extent that has so many parts, of its ops or deeper ones; none: 0.
std::vector<int64_t> units_of(const AxisClass& axis_class, const Levels& levels) {
  std::vector<int64_t> units(levels.levels.size(), 0);
  for (const ClassAxis& axis : axis_class.axes)
    for (int at = levels.level_of[axis.op]; at >= 0;
         at = levels.levels[static_cast<size_t>(at)].parent) {
      int64_t& least = units[static_cast<size_t>(at)];
      if (axis.extent < levels.levels[static_cast<size_t>(at)].parts) continue;
      if (least == 0 || axis.extent < least) least = axis.extent;
    }
  return units;
}

}  // namespace

namespace {

// Whether each part reads something.
bool has_parts(const ir::Graph& graph, const ClassAxis& axis, const std::vector<int64_t>& bounds) {
  const ops::Instance instance = ops::instance_of(graph, axis.op);
  for (size_t k = 0; k + 1 < bounds.size(); ++k)
    if (!ops::part(instance, axis.axis, bounds[k], bounds[k + 1])) return false;
  return true;
}

}  // namespace

Cuts cuts_of(const ir::Graph& graph, const AxisClass& axis_class, const Levels& levels) {
  const std::vector<int64_t> units = units_of(axis_class, levels);
  std::map<std::pair<int, int64_t>, Bounds> known;  // by level and extent
  Cuts cuts(graph.op_count());
  for (const ClassAxis& axis : axis_class.axes) {
    const int level = levels.level_of[axis.op];
    Bounds& bounds = known[{level, axis.extent}];
    if (bounds.size() == 0) bounds = bounds_of(levels, units, level, axis.extent);
    if (bounds.size() > 2 && (!axis.padded || has_parts(graph, axis, bounds.list())))
      cuts[axis.op] = Cut{axis.axis, bounds};
  }
  return cuts;
}

IdVector<OpId, int> levels_as_cut(const Levels& levels, const Cuts& cuts) {
  IdVector<OpId, int> level_of = levels.level_of;
  for (const OpId id : level_of.ids()) {
    const int64_t parts = cuts[id] ? static_cast<int64_t>(cuts[id]->bounds.size()) - 1 : 1;
    int& level = level_of[id];
    while (level != Levels::kOutside && levels.levels[static_cast<size_t>(level)].parts != parts)
      level = levels.levels[static_cast<size_t>(level)].parent;
  }
  return level_of;
}

bool has_idle_level(const Levels& levels, const IdVector<OpId, int>& as_cut) {
  std::vector<char> is_used(levels.levels.size(), 0);
  for (const int level : as_cut)
    if (level != Levels::kOutside) is_used[static_cast<size_t>(level)] = 1;
  for (size_t level = 1; level < levels.levels.size(); ++level) {
    const auto parent = static_cast<size_t>(levels.levels[level].parent);
    if (!is_used[level] || levels.levels[level].parts == levels.levels[parent].parts) return true;
  }
  return false;
}

namespace {

bool is_broken(const ir::Graph& graph, const Levels& levels, const IdVector<OpId, int>& as_cut,
               int level) {
  const auto lies_in_level = [&](int one) { return levels.common(one, level) == level; };
  IdVector<OpId, char> is_between(graph.op_count(), 0);  // if what reads it is of the level
  for (const OpId id : graph.ops()) {
    const bool is_inside = lies_in_level(as_cut[id]);
    if (!is_inside && as_cut[id] == Levels::kOutside) continue;
    for (const ir::ValueId input : graph.op(id).inputs) {
      if (!input.valid()) continue;
      const OpId producer = graph.value(input).producer;
      if (!producer.valid()) continue;
      if (is_inside && is_between[producer] != 0) return true;
      if (!is_inside && (is_between[producer] != 0 || lies_in_level(as_cut[producer])))
        is_between[id] = 1;
    }
  }
  return false;
}

}  // namespace

bool has_broken_loop(const ir::Graph& graph, const Levels& levels,
                     const IdVector<OpId, int>& as_cut) {
  for (size_t level = 1; level < levels.levels.size(); ++level)
    if (is_broken(graph, levels, as_cut, static_cast<int>(level))) return true;
  return false;
}

Cuts cut_class(const ir::Graph& graph, const AxisClass& axis_class, int64_t parts) {
  return cuts_of(graph, axis_class, levels_of(graph, axis_class, {.parts = parts}).value());
}

}  // namespace lowtide::fission
