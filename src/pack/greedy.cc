// A place for the next buffer is found by walking the placed buffers around it by rising offset:
// `top` is the lowest free address above everything seen that coexists; where the next coexisting
// buffer begins high enough above `top`, there is a hole. First fit stops at the first hole.
#include "pack/greedy.h"

#include <algorithm>
#include <optional>

#include "base/bytes.h"
#include "pack/occupancy.h"

namespace lowtide::pack {
namespace {

constexpr int64_t kLooksPerUnit = 5;
constexpr int64_t kMovesPerLook = 4;
constexpr int64_t kLooksPerItem = 64;  // to order the items and to begin

// Where `item` goes: the lowest free address above all that was seen, and the hole chosen so far.
struct Place {
  int64_t top = 0;
  std::optional<int64_t> best;
  int64_t best_hole = 0;

  // Looks at the next placed buffer by rising offset. True: the first hole, for first fit.
  bool look(const Placed& p, const Item& item, GreedyFit fit) {
    if (p.high <= top || p.end <= item.begin || item.end <= p.begin) return false;
    const int64_t hole = p.low - top;
    if (hole >= item.size && (!best || hole < best_hole)) {
      const int64_t at = align_up(top, item.alignment);
      if (p.low - at >= item.size) {
        best = at;
        best_hole = hole;
        if (fit == GreedyFit::kFirst) return true;
      }
    }
    top = p.high;
    return false;
  }
};

// Where `item` goes among `placed`. Adds to `looks` how many were looked at.
int64_t find_place(const PlacedList& placed, const Item& item, GreedyFit fit, int64_t& looks) {
  Place place;
  for (const std::vector<Placed>& chunk : placed.chunks()) {
    for (const Placed& p : chunk) {
      if (place.look(p, item, fit)) return *place.best;
      ++looks;
    }
  }
  return place.best ? *place.best : align_up(place.top, item.alignment);
}

}  // namespace

GreedyResult pack_greedily(const Part& part, std::span<const int32_t> list, GreedyFit fit,
                           const GreedyEnd& end) {
  GreedyResult result;
  result.offsets.assign(part.items.size(), 0);
  for (const Obstacle& o : part.obstacles) result.height = std::max(result.height, o.high);
  Occupancy occupancy(part);
  int64_t looks = kLooksPerItem * static_cast<int64_t>(list.size());
  for (int32_t i : list) {
    const Item& item = part.items[static_cast<size_t>(i)];
    const int64_t at = find_place(occupancy.around(item.begin, item.end), item, fit, looks);
    result.offsets[static_cast<size_t>(i)] = at;
    result.height = std::max(result.height, at + item.size);
    result.units = looks / kLooksPerUnit + 1;
    if (result.height >= end.height || result.units > end.units) return result;
    looks += occupancy.insert({at, at + item.size, item.begin, item.end}) / kMovesPerLook;
  }
  result.complete = true;
  return result;
}

}  // namespace lowtide::pack
