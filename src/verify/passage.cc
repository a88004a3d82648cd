#include "verify/passage.h"

#include <algorithm>

namespace lowtide::verify {

int64_t times(int64_t x, int64_t y, bool up) {
  const __int128 product = static_cast<__int128>(x) * y + (up ? kUnit - 1 : 0);
  return static_cast<int64_t>(std::min<__int128>(product / kUnit, int64_t{1} << 61));
}

int64_t Weights::of_cut_op(size_t k) const {
  return kUnit - std::min(store[k - 1], store[k]) - std::min(load[k - 1], load[k]);
}

int64_t Transfer::store(const Weights& weights, size_t first, size_t last) const {
  const auto begin = weights.store.begin();
  const int64_t weight = *std::min_element(begin + static_cast<std::ptrdiff_t>(first),
                                           begin + static_cast<std::ptrdiff_t>(last) + 1);
  return copying + times(out, weight);
}

int64_t Transfer::load(const Weights& weights, const std::vector<int64_t>& at_cut, size_t first,
                       size_t last) const {
  int64_t least = kNever;
  for (size_t begin = first; begin <= last; ++begin) {
    int64_t weight = weights.load[begin], memory = 0;
    for (size_t k = begin + 1; k <= last; ++k) {
      weight = std::min(weight, weights.load[k]);
      memory = std::min(kNever, memory + at_cut[k]);
    }
    least = std::min(least, copying + times(in, weight) + memory);
  }
  return least;
}

int64_t Passage::change(Place from, Place to, bool made, bool needed) const {
  const bool was_there = from == kPresent || from == kKept;
  const bool left_before = from == kKept || from == kAway;
  const bool has_left = to == kKept || to == kAway;
  const bool is_there = to == kPresent || to == kKept;
  if (left_before && !has_left) return kNever;
  int64_t cost = 0;
  if (!left_before && has_left) {
    if (!was_there && !made) return kNever;
    cost += store;
  }
  const bool returns = !made && is_there && (!was_there || left_before != has_left);
  const bool fetched = !made && !was_there && needed;
  if (returns || fetched) {
    if (!has_left) return kNever;
    cost += load;
  }
  return std::min(cost, kNever);
}

int64_t Passage::least(bool made, bool needed) const {
  int64_t least = kNever;
  for (const Place from : {kGone, kPresent, kKept, kAway})
    for (const Place to : {kGone, kPresent, kKept, kAway}) {
      const int64_t cost = change(from, to, made, needed);
      if (begin[from] < kNever && cost < kNever)
        least = std::min(least, begin[from] + cost - end[to]);
    }
  return least;
}

int64_t ResidentPassage::least(const Weights& weights) const {
  const size_t segments = weights.load.size();
  int64_t still = 0;
  for (size_t k = 1; k < segments; ++k)
    if (at_cut[k] < kNever) still += at_cut[k];
  // From the end: what remains to be paid from the beginning of segment k on, if it is there then
  // or not, and if its store has been paid or not.
  using Rest = std::array<std::array<int64_t, 2>, 2>;
  Rest rest{};
  rest[1][0] = rest[1][1] = kNever;
  for (size_t k = segments; k-- > 0;) {
    const int64_t load = transfer.load(weights, at_cut, 0, k);
    const int64_t store = transfer.store(weights, std::min(written_after, k), k);
    const bool last = k + 1 == segments;
    Rest before{};
    for (const bool there : {false, true})
      for (const bool paid : {false, true}) {
        const auto away_after = [&] {
          const bool pays = written && !paid && (last || k >= written_before);
          return (pays ? store : 0) + rest[0][paid || pays];
        };
        const auto there_after = [&] {
          const bool read = !last && at_cut[k + 1] == kNever;
          return std::min(kNever, (last || read ? 0 : at_cut[k + 1]) + rest[1][paid]);
        };
        const bool must_stay = !last && at_cut[k + 1] == kNever;
        const int64_t leaves = must_stay ? kNever : away_after() + (!there && needed[k] ? load : 0);
        before[there][paid] = std::min({kNever, leaves, there_after() + (there ? 0 : load)});
      }
    rest = before;
  }
  return std::min(still, rest[0][0]);
}

}  // namespace lowtide::verify
