// The shortest windows are as long as the mean life: shorter ones would make long lives costly to
// enter, longer ones would put many into a list that do not coexist. The number of entries is then
// at most about ten times the number of buffers.
#include "pack/occupancy.h"

#include <algorithm>

namespace lowtide::pack {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct OccupancyTuning {
  // Of the windows, from level to level: each level lists every buffer anew, fewer have longer
  // lists.
  int32_t growth = 4;
  size_t most_in_chunk = 512;  // entries, of 24 bytes: to move half of them takes 0.2 us
};
constexpr OccupancyTuning kOccupancy;

bool lies_lower(const Placed& a, const Placed& b) {
  return a.low < b.low;
}

int32_t least_stride(const Part& part) {
  int64_t lives = 0;
  for (const Item& item : part.items) lives += item.end - item.begin;
  const int64_t count = std::max<int64_t>(1, static_cast<int64_t>(part.items.size()));
  return static_cast<int32_t>(std::max<int64_t>(1, lives / count / 2));
}

}  // namespace

int64_t PlacedList::insert(const Placed& placed) {
  if (chunks_.empty()) chunks_.emplace_back();
  // The last chunk that begins no higher: entries of the same offset come before the new one.
  const auto beyond = std::upper_bound(chunks_.begin() + 1, chunks_.end(), placed,
                                       [](const Placed& a, const std::vector<Placed>& chunk) {
                                         return lies_lower(a, chunk.front());
                                       });
  std::vector<Placed>& chunk = *(beyond - 1);
  const auto above = std::upper_bound(chunk.begin(), chunk.end(), placed, lies_lower);
  int64_t moved = chunk.end() - above;
  chunk.insert(above, placed);
  if (chunk.size() > kOccupancy.most_in_chunk) {
    const auto half = chunk.begin() + static_cast<long>(kOccupancy.most_in_chunk / 2);
    std::vector<Placed> upper(half, chunk.end());
    chunk.erase(half, chunk.end());
    moved += static_cast<int64_t>(upper.size()) + (chunks_.end() - beyond);
    chunks_.insert(beyond, std::move(upper));
  }
  return moved;
}

Occupancy::Occupancy(const Part& part) {
  for (int64_t stride = least_stride(part);; stride *= kOccupancy.growth) {
    const int64_t windows = std::max<int64_t>(1, (part.sections + stride - 1) / stride);
    levels_.push_back({static_cast<int32_t>(std::min<int64_t>(stride, part.sections + 1)), {}});
    levels_.back().windows.resize(static_cast<size_t>(windows));
    if (windows == 1) break;
  }
  for (const Obstacle& o : part.obstacles) insert({o.low, o.high, o.begin, o.end});
}

int64_t Occupancy::insert(const Placed& placed) {
  int64_t moved = 0;
  for (Level& level : levels_) {
    const int32_t last =
        std::min((placed.end - 1) / level.stride, static_cast<int32_t>(level.windows.size()) - 1);
    for (int32_t k = std::max(placed.begin / level.stride - 1, 0); k <= last; ++k)
      moved += level.windows[static_cast<size_t>(k)].insert(placed);
  }
  return moved;
}

const PlacedList& Occupancy::around(int32_t begin, int32_t end) const {
  for (const Level& level : levels_) {
    const int32_t k = begin / level.stride;
    if (end <= (k + 2) * static_cast<int64_t>(level.stride) || level.windows.size() == 1)
      return level.windows[static_cast<size_t>(k)];
  }
  return levels_.back().windows.front();
}

}  // namespace lowtide::pack
