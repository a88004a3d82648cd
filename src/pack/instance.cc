// From PackProblem to Instance.
//
// Units. If g divides all sizes and all fixed offsets, and each alignment either divides g or is a
// multiple of it, then every packing in which no buffer can be lowered has offsets that are
// multiples of g: an offset is a sum of sizes rounded up to alignments. So dividing by g is exact,
// and the capacity may be rounded down to a multiple of g.
//
// Bound. In one section buffers lie one above the other. If all offsets are multiples of A, each
// size but the top one can be rounded up to A; so the section needs the rounded sum less the
// largest rounding. It is also at least the highest fixed end.
#include "pack/instance.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/bytes.h"

namespace lowtide::pack {
namespace {

int64_t common_unit(const plan::PackProblem& problem) {
  int64_t unit = 0;
  for (const plan::Buffer& b : problem.buffers) {
    if (b.size_bytes == 0) continue;
    unit = std::gcd(unit, b.size_bytes);
    if (b.fixed_offset) unit = std::gcd(unit, *b.fixed_offset);
  }
  for (int64_t before = 0; before != unit;) {
    before = unit;
    for (const plan::Buffer& b : problem.buffers)
      if (b.size_bytes > 0 && unit % b.alignment_bytes != 0)
        unit = std::gcd(unit, b.alignment_bytes);
  }
  return std::max<int64_t>(unit, 1);
}

struct Event {
  int64_t time;
  bool is_start;  // at one time ends come first
  plan::BufferId id;
  auto operator<=>(const Event&) const = default;
};

std::vector<Event> sorted_events(const plan::PackProblem& problem) {
  std::vector<Event> events;
  events.reserve(2 * problem.buffers.size());
  for (plan::BufferId id : problem.buffers.ids()) {
    const plan::Buffer& b = problem.buffers[id];
    if (b.size_bytes == 0) continue;
    events.push_back({b.live.begin, true, id});
    events.push_back({b.live.end, false, id});
  }
  std::sort(events.begin(), events.end());
  return events;
}

void add_buffer(const plan::Buffer& b, plan::BufferId id, int64_t unit, int32_t begin, int32_t end,
                Part& part) {
  if (b.fixed_offset) {
    const int64_t low = *b.fixed_offset / unit;
    part.obstacles.push_back({low, low + b.size_bytes / unit, begin, end});
    return;
  }
  Item item;
  item.id = id;
  item.size = b.size_bytes / unit;
  item.alignment = std::max<int64_t>(b.alignment_bytes / unit, 1);
  item.begin = begin;
  item.end = end;
  item.lower = b.live.begin;
  item.upper = b.live.end;
  part.items.push_back(item);
}

// The greatest A of which every offset in the part is a multiple.
int64_t common_alignment(const Part& part) {
  int64_t alignment = 0;
  for (const Item& item : part.items) alignment = std::gcd(alignment, item.alignment);
  for (const Obstacle& o : part.obstacles) alignment = std::gcd(alignment, o.low);
  return std::max<int64_t>(alignment, 1);
}

struct Load {
  int32_t section;
  bool is_start;
  int64_t padded;
  int64_t padding;
  auto operator<=>(const Load&) const = default;
};

int64_t load_bound(const Part& part) {
  const int64_t alignment = common_alignment(part);
  std::vector<Load> loads;
  const auto add = [&](int32_t begin, int32_t end, int64_t size) {
    const int64_t padded = align_up(size, alignment);
    loads.push_back({begin, true, padded, padded - size});
    loads.push_back({end, false, padded, padded - size});
  };
  int64_t bound = 0;
  for (const Item& item : part.items) add(item.begin, item.end, item.size);
  for (const Obstacle& o : part.obstacles) {
    add(o.begin, o.end, o.high - o.low);
    bound = std::max(bound, o.high);
  }
  std::sort(loads.begin(), loads.end());
  std::multiset<int64_t> paddings;  // the positive ones only; usually there are none
  int64_t sum = 0;
  for (const Load& load : loads) {
    sum += load.is_start ? load.padded : -load.padded;
    if (load.padding > 0 && load.is_start) paddings.insert(load.padding);
    if (load.padding > 0 && !load.is_start) paddings.erase(paddings.find(load.padding));
    if (load.is_start) bound = std::max(bound, sum - (paddings.empty() ? 0 : *paddings.rbegin()));
  }
  return bound;
}

bool obstacles_clash(const Part& part) {
  std::vector<Obstacle> sorted = part.obstacles;
  std::sort(sorted.begin(), sorted.end(),
            [](const Obstacle& a, const Obstacle& b) { return a.begin < b.begin; });
  std::set<std::pair<int64_t, int64_t>> taken;  // (low, high) of those alive, disjoint
  std::multiset<std::pair<int32_t, std::pair<int64_t, int64_t>>> ends;  // by end section
  for (const Obstacle& o : sorted) {
    while (!ends.empty() && ends.begin()->first <= o.begin) {
      taken.erase(ends.begin()->second);
      ends.erase(ends.begin());
    }
    const auto above = taken.lower_bound({o.low, o.low});
    if (above != taken.end() && above->first < o.high) return true;
    if (above != taken.begin() && std::prev(above)->second > o.low) return true;
    taken.insert({o.low, o.high});
    ends.insert({o.end, {o.low, o.high}});
  }
  return false;
}

}  // namespace

Instance make_instance(const plan::PackProblem& problem, const InstanceOptions& options) {
  Instance instance;
  if (options.gcd_scaling) instance.unit_bytes = common_unit(problem);
  IdVector<plan::BufferId, int32_t> begins(problem.buffers.size());
  int32_t section = 0;
  int64_t alive = 0;
  bool open = false;  // something started since the last section was closed
  Part part;
  const auto close_part = [&] {
    part.sections = section;
    part.bound = load_bound(part);
    instance.fixed_clash = instance.fixed_clash || obstacles_clash(part);
    instance.parts.push_back(std::move(part));
    part = Part();
    section = 0;
  };
  for (const Event& event : sorted_events(problem)) {
    if (event.is_start) {
      if (alive == 0 && section > 0 && options.partition) close_part();
      begins[event.id] = section;
      open = true;
      ++alive;
      continue;
    }
    if (open) ++section;
    open = false;
    --alive;
    add_buffer(problem.buffers[event.id], event.id, instance.unit_bytes, begins[event.id], section,
               part);
  }
  if (section > 0) close_part();
  return instance;
}

}  // namespace lowtide::pack
