#include "verify/min_cut.h"

#include <algorithm>

namespace lowtide::verify {
namespace {
constexpr int kNotReached = -2;
constexpr int kStart = -1;
}  // namespace

void MinCut::add_arc(size_t from, size_t to, int64_t capacity) {
  arcs_.push_back({to, capacity, first_[from]});
  first_[from] = static_cast<int>(arcs_.size()) - 1;
  arcs_.push_back({from, 0, first_[to]});
  first_[to] = static_cast<int>(arcs_.size()) - 1;
}

bool MinCut::find_path(size_t source, size_t sink, int64_t delta) {
  reached_by_.assign(first_.size(), kNotReached);
  reached_by_[source] = kStart;
  queue_.assign(1, source);
  for (size_t head = 0; head < queue_.size() && reached_by_[sink] == kNotReached; ++head) {
    for (int a = first_[queue_[head]]; a >= 0; a = arcs_[static_cast<size_t>(a)].next) {
      const Arc& arc = arcs_[static_cast<size_t>(a)];
      if (arc.room < delta || reached_by_[arc.to] != kNotReached) continue;
      reached_by_[arc.to] = a;
      queue_.push_back(arc.to);
    }
  }
  return reached_by_[sink] != kNotReached;
}

int64_t MinCut::push(size_t source, size_t sink) {
  int64_t amount = kUnlimited;
  for (size_t at = sink; at != source;) {
    const auto a = static_cast<size_t>(reached_by_[at]);
    amount = std::min(amount, arcs_[a].room);
    at = arcs_[a ^ 1].to;
  }
  for (size_t at = sink; at != source;) {
    const auto a = static_cast<size_t>(reached_by_[at]);
    if (arcs_[a].room < kUnlimited) arcs_[a].room -= amount;
    if (arcs_[a ^ 1].room < kUnlimited) arcs_[a ^ 1].room += amount;
    at = arcs_[a ^ 1].to;
  }
  return amount;
}

int64_t MinCut::run(size_t source, size_t sink) {
  int64_t delta = 1, largest = 0, sum = 0;
  for (const Arc& arc : arcs_)
    if (arc.room < kUnlimited) largest = std::max(largest, arc.room);
  while (delta <= largest / 2) delta *= 2;
  for (; delta > 0; delta /= 2) {
    while (find_path(source, sink, delta)) {
      const int64_t pushed = push(source, sink);
      if (pushed >= kUnlimited - sum) return kUnlimited;
      sum += pushed;
    }
  }
  return sum;
}

}  // namespace lowtide::verify
