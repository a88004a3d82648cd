// All tables are made by walking the sections with the set of those alive: O(entries), which
// topology_entries tells first in O(n + sections).
#include "pack/topology.h"

#include <algorithm>
#include <numeric>

#include "base/bytes.h"

namespace lowtide::pack {
namespace {

std::vector<int64_t> section_totals(const Part& part) {
  std::vector<int64_t> totals(static_cast<size_t>(part.sections) + 1, 0);
  for (const Item& item : part.items) {
    totals[static_cast<size_t>(item.begin)] += item.size;
    totals[static_cast<size_t>(item.end)] -= item.size;
  }
  std::partial_sum(totals.begin(), totals.end(), totals.begin());
  return totals;
}

// How many items coexist with each: those that begin before its end, less those that end before its
// begin, less itself.
std::vector<int64_t> overlap_counts(const Part& part) {
  const size_t n = static_cast<size_t>(part.sections) + 1;
  std::vector<int64_t> begun(n, 0), ended(n, 0);
  for (const Item& item : part.items) {
    ++begun[static_cast<size_t>(item.begin)];
    ++ended[static_cast<size_t>(item.end)];
  }
  std::partial_sum(begun.begin(), begun.end(), begun.begin());
  std::partial_sum(ended.begin(), ended.end(), ended.begin());
  std::vector<int64_t> counts;
  counts.reserve(part.items.size());
  for (const Item& item : part.items)
    counts.push_back(begun[static_cast<size_t>(item.end) - 1] -
                     ended[static_cast<size_t>(item.begin)] - 1);
  return counts;
}

std::vector<std::vector<double>> rank_keys(const Part& part, const std::string& letters) {
  const std::vector<int64_t> totals = section_totals(part);
  const std::vector<int64_t> overlaps = overlap_counts(part);
  std::vector<std::vector<double>> keys(part.items.size());
  for (size_t i = 0; i < part.items.size(); ++i) {
    const Item& item = part.items[i];
    const double width = static_cast<double>(item.upper) - static_cast<double>(item.lower);
    const double size = static_cast<double>(item.size);
    for (char letter : letters) {
      switch (letter) {
        case 'A':
          keys[i].push_back(-width * size);
          break;
        case 'C':
          keys[i].push_back(item.begin - item.end);
          break;
        case 'L':
          keys[i].push_back(-static_cast<double>(item.lower));
          break;
        case 'O':
          keys[i].push_back(-static_cast<double>(overlaps[i]));
          break;
        case 'T':
          keys[i].push_back(-static_cast<double>(
              *std::max_element(totals.begin() + item.begin, totals.begin() + item.end)));
          break;
        case 'U':
          keys[i].push_back(-static_cast<double>(item.upper));
          break;
        case 'W':
          keys[i].push_back(-width);
          break;
        case 'Z':
          keys[i].push_back(-size);
          break;
        default:
          break;
      }
    }
  }
  return keys;
}

template <class Range>
Adjacency lists_by_section(const std::vector<Range>& ranges, int32_t sections) {
  std::vector<int64_t> counts(static_cast<size_t>(sections), 0);
  for (const Range& r : ranges)
    for (int32_t s = r.begin; s < r.end; ++s) ++counts[static_cast<size_t>(s)];
  Adjacency lists(counts);
  for (size_t i = 0; i < ranges.size(); ++i)
    for (int32_t s = ranges[i].begin; s < ranges[i].end; ++s)
      lists.push(static_cast<size_t>(s), static_cast<int32_t>(i));
  return lists;
}

Adjacency neighbour_lists(const Topology& t) {
  Part shape;  // only for the counts
  shape.items = t.items;
  shape.sections = t.sections;
  Adjacency lists(overlap_counts(shape));
  std::vector<std::vector<int32_t>> starters(static_cast<size_t>(t.sections));
  for (size_t i = 0; i < t.items.size(); ++i)
    starters[static_cast<size_t>(t.items[i].begin)].push_back(static_cast<int32_t>(i));
  for (size_t i = 0; i < t.items.size(); ++i) {
    const Item& a = t.items[i];
    for (int32_t other : t.members[static_cast<size_t>(a.begin)])
      if (static_cast<size_t>(other) != i) lists.push(i, other);
    for (int32_t s = a.begin + 1; s < a.end; ++s)
      for (int32_t other : starters[static_cast<size_t>(s)]) lists.push(i, other);
  }
  return lists;
}

Adjacency obstacle_lists(const Topology& t) {
  std::vector<int64_t> counts(t.items.size(), 0);
  const auto meets = [](const Item& i, const Obstacle& o) {
    return i.begin < o.end && o.begin < i.end;
  };
  for (size_t i = 0; i < t.items.size(); ++i)
    for (const Obstacle& o : t.obstacles) counts[i] += meets(t.items[i], o) ? 1 : 0;
  Adjacency lists(counts);
  for (size_t i = 0; i < t.items.size(); ++i)
    for (size_t k = 0; k < t.obstacles.size(); ++k)
      if (meets(t.items[i], t.obstacles[k])) lists.push(i, static_cast<int32_t>(k));
  return lists;
}

}  // namespace

Adjacency::Adjacency(const std::vector<int64_t>& counts) : starts_(counts.size() + 1, 0) {
  std::partial_sum(counts.begin(), counts.end(), starts_.begin() + 1);
  fill_.assign(starts_.begin(), starts_.end() - 1);
  items_.resize(static_cast<size_t>(starts_.back()));
}

int64_t Topology::lift(int32_t i, int64_t offset) const {
  const Item& item = items[static_cast<size_t>(i)];
  int64_t at = item.alignment == 1 ? offset : align_up(offset, item.alignment);
  for (int32_t k : in_the_way[static_cast<size_t>(i)]) {
    const Obstacle& o = obstacles[static_cast<size_t>(k)];
    if (o.low >= at + item.size) break;
    if (o.high > at) at = align_up(o.high, item.alignment);
  }
  return at;
}

int64_t Topology::taken_above(int32_t section, int64_t floor) const {
  int64_t taken = 0;
  for (int32_t k : section_obstacles[static_cast<size_t>(section)]) {
    const Obstacle& o = obstacles[static_cast<size_t>(k)];
    taken += std::max<int64_t>(0, o.high - std::max(o.low, floor));
  }
  return taken;
}

std::vector<int32_t> static_order(const Part& part, const std::string& letters) {
  const std::vector<std::vector<double>> keys = rank_keys(part, letters);
  std::vector<int32_t> order(part.items.size());
  std::iota(order.begin(), order.end(), int32_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
  });
  return order;
}

Topology make_topology(const Part& part) {
  Topology t;
  t.sections = part.sections;
  t.items = part.items;
  t.obstacles = part.obstacles;
  std::stable_sort(t.obstacles.begin(), t.obstacles.end(),
                   [](const Obstacle& a, const Obstacle& b) { return a.low < b.low; });
  t.members = lists_by_section(t.items, t.sections);
  t.section_obstacles = lists_by_section(t.obstacles, t.sections);
  t.neighbours = neighbour_lists(t);
  t.in_the_way = obstacle_lists(t);
  return t;
}

int64_t topology_entries(const Part& part) {
  int64_t entries = 0;
  for (int64_t count : overlap_counts(part)) entries += count;
  for (const Item& item : part.items) entries += item.end - item.begin;
  for (const Obstacle& o : part.obstacles) entries += o.end - o.begin;
  return entries + static_cast<int64_t>(part.obstacles.size() * part.items.size());
}

}  // namespace lowtide::pack
