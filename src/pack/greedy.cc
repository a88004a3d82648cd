// The placed buffers are kept in one array by rising offset. A place for the next one is found by
// walking it: `top` is the lowest free address above everything seen that coexists; where the next
// coexisting buffer begins high enough above `top`, there is a hole. First fit stops at the first
// hole. Buffers that ended before everything still to come (order by start) are dropped from the
// array as it is walked.
#include "pack/greedy.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/bytes.h"

namespace lowtide::pack {
namespace {

constexpr int64_t kLooksPerUnit = 512;

struct Placed {
  int64_t low;
  int64_t high;
  int32_t begin;
  int32_t end;
};

std::vector<size_t> list_order(const std::vector<Item>& items, GreedyOrder order) {
  const auto key = [&](const Item& item) -> double {
    const double size = static_cast<double>(item.size);
    const double life = static_cast<double>(item.upper) - static_cast<double>(item.lower);
    switch (order) {
      case GreedyOrder::kSize:
        return -size;
      case GreedyOrder::kArea:
        return -size * life;
      case GreedyOrder::kDuration:
        return -life;
      case GreedyOrder::kStart:
        return item.begin;
    }
    return 0;
  };
  std::vector<double> keys;
  for (const Item& item : items) keys.push_back(key(item));
  std::vector<size_t> list(items.size());
  std::iota(list.begin(), list.end(), size_t{0});
  std::sort(list.begin(), list.end(), [&](size_t a, size_t b) {
    if (keys[a] != keys[b]) return keys[a] < keys[b];
    if (items[a].size != items[b].size) return items[a].size > items[b].size;
    if (items[a].begin != items[b].begin) return items[a].begin < items[b].begin;
    return items[a].id < items[b].id;
  });
  return list;
}

// Where `item` goes among `placed`. Adds to `looks` how many were looked at.
int64_t find_place(const std::vector<Placed>& placed, const Item& item, GreedyFit fit,
                   int64_t& looks) {
  int64_t top = 0;
  std::optional<int64_t> best;
  int64_t best_gap = 0;
  size_t i = 0;
  for (; i < placed.size(); ++i) {
    const Placed& p = placed[i];
    if (p.end <= item.begin || item.end <= p.begin || p.high <= top) continue;
    const int64_t at = align_up(top, item.alignment);
    const int64_t gap = p.low - top;
    if (p.low - at >= item.size && (!best || gap < best_gap)) {
      best = at;
      best_gap = gap;
      if (fit == GreedyFit::kFirst) break;
    }
    top = p.high;
  }
  looks += static_cast<int64_t>(i);
  return best ? *best : align_up(top, item.alignment);
}

void insert_by_offset(std::vector<Placed>& placed, Placed p) {
  const auto above =
      std::upper_bound(placed.begin(), placed.end(), p,
                       [](const Placed& a, const Placed& b) { return a.low < b.low; });
  placed.insert(above, p);
}

}  // namespace

GreedyResult pack_greedily(const Part& part, GreedyOrder order, GreedyFit fit, int64_t work_limit) {
  GreedyResult result;
  result.offsets.assign(part.items.size(), 0);
  std::vector<Placed> placed;
  for (const Obstacle& o : part.obstacles) {
    insert_by_offset(placed, {o.low, o.high, o.begin, o.end});
    result.height = std::max(result.height, o.high);
  }
  int64_t looks = 0;
  size_t sweep_at = 64;
  for (size_t i : list_order(part.items, order)) {
    const Item& item = part.items[i];
    if (order == GreedyOrder::kStart && placed.size() >= sweep_at) {
      std::erase_if(placed, [&](const Placed& p) { return p.end <= item.begin; });
      looks += static_cast<int64_t>(sweep_at);
      sweep_at = std::max<size_t>(64, placed.size() + placed.size() / 4);
    }
    const int64_t at = find_place(placed, item, fit, looks);
    result.offsets[i] = at;
    result.height = std::max(result.height, at + item.size);
    insert_by_offset(placed, {at, at + item.size, item.begin, item.end});
    result.units = looks / kLooksPerUnit + 1;
    if (result.units > work_limit) return result;
  }
  result.complete = true;
  return result;
}

}  // namespace lowtide::pack
