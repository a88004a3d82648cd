// Classes are drawn in two ways: as a geometric progression down from the largest size, or as a few
// cuts at sizes that occur. O(n log n) an order.
#include "pack/list_order.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace lowtide::pack {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct ClassTuning {
  // What is tried first: every one of kFirstKeys with every one of these ratios.
  std::array<double, 3> first_ratios = {4, 16, 64};
  double first_crowded = 0.99;  // of the second key
  // What is drawn from later.
  std::array<double, 11> ratios = {1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};
  uint64_t most_cuts = 6;
  std::array<double, 6> crowded = {0.9, 0.95, 0.98, 0.99, 0.995, 0.999};
};
constexpr ClassTuning kClasses;
constexpr std::array kFirstKeys = {ClassKey::kBegin, ClassKey::kLife, ClassKey::kDistance};
constexpr std::array kKeys = {ClassKey::kBegin, ClassKey::kLife, ClassKey::kEnd, ClassKey::kArea,
                              ClassKey::kDistance};

// Cuts `ratio` apart down to `least`; the highest one is `largest` / `ratio`, or up to `shift` = 1
// higher.
std::vector<double> geometric_cuts(int64_t least, int64_t largest, double ratio, double shift) {
  std::vector<double> cuts;
  const double lowest = static_cast<double>(least);
  double at = static_cast<double>(largest) * (1 + shift * (ratio - 1)) / ratio;
  for (; at > lowest; at /= ratio) cuts.push_back(at);
  std::reverse(cuts.begin(), cuts.end());
  return cuts;
}

double plain_key(const Item& item, PlainOrder order) {
  const double size = static_cast<double>(item.size);
  const double life = static_cast<double>(item.upper) - static_cast<double>(item.lower);
  switch (order) {
    case PlainOrder::kSize:
      return -size;
    case PlainOrder::kArea:
      return -size * life;
    case PlainOrder::kDuration:
      return -life;
    case PlainOrder::kStart:
      return item.begin;
  }
  return 0;
}

}  // namespace

std::vector<int32_t> plain_order(const Part& part, PlainOrder order) {
  const std::vector<Item>& items = part.items;
  std::vector<double> keys;
  for (const Item& item : items) keys.push_back(plain_key(item, order));
  std::vector<int32_t> list(items.size());
  std::iota(list.begin(), list.end(), 0);
  std::sort(list.begin(), list.end(), [&](int32_t i, int32_t j) {
    const size_t a = static_cast<size_t>(i), b = static_cast<size_t>(j);
    if (keys[a] != keys[b]) return keys[a] < keys[b];
    if (items[a].size != items[b].size) return items[a].size > items[b].size;
    if (items[a].begin != items[b].begin) return items[a].begin < items[b].begin;
    return items[a].id < items[b].id;
  });
  return list;
}

ClassOrders::ClassOrders(const Part& part)
    : part_(part), loads_(static_cast<size_t>(part.sections) + 1, 0), rng_(1) {
  const auto add = [this](int32_t begin, int32_t end, int64_t size) {
    loads_[static_cast<size_t>(begin)] += size;
    loads_[static_cast<size_t>(end)] -= size;
  };
  for (const Item& item : part.items) {
    sizes_.push_back(item.size);
    add(item.begin, item.end, item.size);
  }
  for (const Obstacle& o : part.obstacles) add(o.begin, o.end, o.high - o.low);
  std::partial_sum(loads_.begin(), loads_.end(), loads_.begin());
  peak_ = static_cast<int32_t>(std::max_element(loads_.begin(), loads_.end()) - loads_.begin());
  std::sort(sizes_.begin(), sizes_.end());
  sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
}

ClassRecipe ClassOrders::draw() {
  ClassRecipe recipe;
  if (sizes_.empty()) return recipe;
  const size_t first = static_cast<size_t>(drawn_++);
  if (first < kFirstKeys.size() * kClasses.first_ratios.size()) {
    recipe.cuts = geometric_cuts(sizes_.front(), sizes_.back(),
                                 kClasses.first_ratios[first / kFirstKeys.size()], 0);
    recipe.key = kFirstKeys[first % kFirstKeys.size()];
    if (recipe.key == ClassKey::kLife) recipe.crowded = kClasses.first_crowded;
    return recipe;
  }
  const uint64_t renewed = best_ ? rng_.below(3) : 0;  // all, the cuts, or the rest
  if (best_) recipe = *best_;
  if (renewed != 2) recipe.cuts = draw_cuts();
  if (renewed == 1) return recipe;
  recipe.key = kKeys[rng_.below(kKeys.size())];
  recipe.crowded = rng_.below(2) == 0 ? kClasses.crowded[rng_.below(kClasses.crowded.size())] : 0;
  return recipe;
}

std::vector<double> ClassOrders::draw_cuts() {
  if (rng_.below(2) == 0) {
    const double ratio = kClasses.ratios[rng_.below(kClasses.ratios.size())];
    return geometric_cuts(sizes_.front(), sizes_.back(), ratio, rng_.uniform());
  }
  std::vector<double> cuts;
  const bool by_count = rng_.below(2) == 0;  // sizes that occur often are drawn often
  for (uint64_t k = rng_.below(rng_.below(kClasses.most_cuts) + 1) + 1; k > 0; --k) {
    const int64_t size = by_count ? part_.items[rng_.below(part_.items.size())].size
                                  : sizes_[rng_.below(sizes_.size())];
    cuts.push_back(static_cast<double>(size));
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

double ClassOrders::key_of(const Item& item, ClassKey key) const {
  const double life = item.end - item.begin;
  switch (key) {
    case ClassKey::kBegin:
      return item.begin;
    case ClassKey::kLife:
      return -life;
    case ClassKey::kEnd:
      return -item.end;
    case ClassKey::kArea:
      return -life * static_cast<double>(item.size);
    case ClassKey::kDistance:
      return std::max({0, peak_ - item.end + 1, item.begin - peak_});
  }
  return 0;
}

std::vector<int32_t> ClassOrders::order(const ClassRecipe& recipe) const {
  std::vector<int32_t> crowded_before = {0};  // sections before each one that are crowded
  const double least = recipe.crowded * static_cast<double>(loads_[static_cast<size_t>(peak_)]);
  for (int64_t load : loads_)
    crowded_before.push_back(crowded_before.back() + (static_cast<double>(load) >= least ? 1 : 0));
  struct Rank {
    std::ptrdiff_t smaller_classes;
    bool crowded;
    double key;
  };
  const std::vector<Item>& items = part_.items;
  std::vector<Rank> ranks;
  for (const Item& item : items) {
    const auto cut =
        std::upper_bound(recipe.cuts.begin(), recipe.cuts.end(), static_cast<double>(item.size));
    ranks.push_back({cut - recipe.cuts.begin(),
                     crowded_before[static_cast<size_t>(item.end)] >
                         crowded_before[static_cast<size_t>(item.begin)],
                     key_of(item, recipe.key)});
  }
  std::vector<int32_t> list(items.size());
  std::iota(list.begin(), list.end(), 0);
  std::sort(list.begin(), list.end(), [&](int32_t i, int32_t j) {
    const size_t a = static_cast<size_t>(i), b = static_cast<size_t>(j);
    if (ranks[a].smaller_classes != ranks[b].smaller_classes)
      return ranks[a].smaller_classes > ranks[b].smaller_classes;
    if (ranks[a].crowded != ranks[b].crowded) return ranks[a].crowded;
    if (ranks[a].key != ranks[b].key) return ranks[a].key < ranks[b].key;
    if (items[a].size != items[b].size) return items[a].size > items[b].size;
    return i < j;
  });
  return list;
}

}  // namespace lowtide::pack
