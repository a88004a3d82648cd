// The shortest windows are as long as the mean life: shorter ones would make long lives costly to
// enter, longer ones would put many into a list that do not coexist. The number of entries is then
// at most about ten times the number of buffers.
#include "pack/occupancy.h"

#include <algorithm>

namespace lowtide::pack {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct OccupancyTuning {
  // Of the windows, from level to level: each level lists every buffer anew, fewer have longer lists.
  int32_t growth = 4;
};
constexpr OccupancyTuning kOccupancy;

int32_t least_stride(const Part& part) {
  int64_t lives = 0;
  for (const Item& item : part.items) lives += item.end - item.begin;
  const int64_t count = std::max<int64_t>(1, static_cast<int64_t>(part.items.size()));
  return static_cast<int32_t>(std::max<int64_t>(1, lives / count / 2));
}

}  // namespace

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
    for (int32_t k = std::max(placed.begin / level.stride - 1, 0); k <= last; ++k) {
      std::vector<Placed>& list = level.windows[static_cast<size_t>(k)];
      const auto above =
          std::upper_bound(list.begin(), list.end(), placed,
                           [](const Placed& a, const Placed& b) { return a.low < b.low; });
      moved += list.end() - above;
      list.insert(above, placed);
    }
  }
  return moved;
}

std::span<const Placed> Occupancy::around(int32_t begin, int32_t end) const {
  for (const Level& level : levels_) {
    const int32_t k = begin / level.stride;
    if (end <= (k + 2) * static_cast<int64_t>(level.stride) || level.windows.size() == 1)
      return level.windows[static_cast<size_t>(k)];
  }
  return levels_.back().windows.front();
}

}  // namespace lowtide::pack
