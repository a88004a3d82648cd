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

void MinCut::reach(size_t source, size_t sink, int64_t delta) {
  reached_by_.assign(first_.size(), kNotReached);
  reached_by_[source] = kStart;
  queue_.assign(1, source);
  for (size_t head = 0; head < queue_.size(); ++head) {
    if (queue_[head] == sink) continue;
    for (int a = first_[queue_[head]]; a >= 0; a = arcs_[static_cast<size_t>(a)].next) {
      const Arc& arc = arcs_[static_cast<size_t>(a)];
      if (arc.room < delta || reached_by_[arc.to] != kNotReached) continue;
      reached_by_[arc.to] = a;
      queue_.push_back(arc.to);
    }
  }
}

// What the path that ends with the last arc still carries is sent, if that is `delta` at least.
int64_t MinCut::push(size_t source, size_t last, int64_t delta) {
  const auto before = [&](size_t arc) {  // the arc before it on the path; from the source: none
    const size_t from = arcs_[arc ^ 1].to;
    return from == source ? kStart : reached_by_[from];
  };
  int64_t amount = kUnlimited;
  for (int a = static_cast<int>(last); a >= 0; a = before(static_cast<size_t>(a)))
    amount = std::min(amount, arcs_[static_cast<size_t>(a)].room);
  if (amount < delta) return 0;
  for (int a = static_cast<int>(last); a >= 0; a = before(static_cast<size_t>(a))) {
    int64_t& room = arcs_[static_cast<size_t>(a)].room;
    int64_t& back = arcs_[static_cast<size_t>(a) ^ 1].room;
    if (room < kUnlimited) room -= amount;
    if (back < kUnlimited) back += amount;
  }
  return amount;
}

int64_t MinCut::run(size_t source, size_t sink) {
  int64_t delta = 1, largest = 0, sum = 0;
  for (const Arc& arc : arcs_)
    if (arc.room < kUnlimited) largest = std::max(largest, arc.room);
  while (delta <= largest / 2) delta *= 2;
  while (delta > 0) {
    reach(source, sink, delta);
    if (reached_by_[sink] == kNotReached) {
      delta /= 2;
      continue;
    }
    for (int back = first_[sink]; back >= 0; back = arcs_[static_cast<size_t>(back)].next) {
      const size_t from = arcs_[static_cast<size_t>(back)].to;
      if (from == sink || reached_by_[from] == kNotReached) continue;
      const int64_t pushed = push(source, static_cast<size_t>(back) ^ 1, delta);
      if (pushed >= kUnlimited - sum) return kUnlimited;
      sum += pushed;
    }
  }
  return sum;
}

}  // namespace lowtide::verify
