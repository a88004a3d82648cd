// A topological sort by Kahn's algorithm with a queue: of all whose predecessors are placed, the
// one of the least rank comes next, and of one rank the first by id. So the order is the only one
// of its kind, and with equal ranks it is the given one wherever that is valid. O((n + arcs) log
// n).
#pragma once

#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/lists.h"

namespace lowtide {

// `before`: of each id a range of those that come before it, in any order. `rank(id)`: whatever has
// an order. Who lies on a cycle or behind one is left out.
template <class IdType, class Range, class Rank>
std::vector<IdType> topological_order(const IdVector<IdType, Range>& before, Rank rank) {
  std::vector<std::pair<IdType, IdType>> arcs;
  for (const IdType id : before.ids())
    for (const IdType first : before[id]) arcs.emplace_back(first, id);
  const Lists<IdType, IdType> after(before.size(), arcs);
  IdVector<IdType, size_t> missing(before.size());
  using Entry = std::pair<decltype(rank(IdType())), IdType>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (const IdType id : before.ids()) {
    missing[id] = before[id].size();
    if (missing[id] == 0) ready.emplace(rank(id), id);
  }
  std::vector<IdType> order;
  while (!ready.empty()) {
    order.push_back(ready.top().second);
    ready.pop();
    for (const IdType next : after[order.back()])
      if (--missing[next] == 0) ready.emplace(rank(next), next);
  }
  return order;
}

template <class IdType, class Range>
std::vector<IdType> topological_order(const IdVector<IdType, Range>& before) {
  return topological_order(before, [](IdType) { return 0; });
}

}  // namespace lowtide
