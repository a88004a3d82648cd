#include "remat/search/timeline.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"

namespace lowtide::remat {
namespace {
constexpr double kFreeSlot = -0x1.0p60;  // bytes of a free slot: additions never bring it up
constexpr double kNeverEnds = std::numeric_limits<double>::infinity();
constexpr int kFill = Timeline::kBucket / 2;  // nodes of a bucket after spreading
constexpr int kNothingWaits = std::numeric_limits<int>::max();
constexpr int kFewBuckets = 3;  // that are not worth a walk

size_t index_of(int place_or_bucket) {
  return static_cast<size_t>(place_or_bucket);
}

SlotId slot_at(int place) {
  return SlotId(index_of(place));
}

// Of two nodes at once, in a register that every processor has.
typedef double Two __attribute__((vector_size(2 * sizeof(double))));

Two load(const double* from) {
  Two two;
  std::memcpy(&two, from, sizeof two);
  return two;
}
Two lesser(Two a, Two b) {
  return a < b ? a : b;
}
Two greater(Two a, Two b) {
  return a > b ? a : b;
}

struct Extremes {
  double least, largest;
};

// Of four numbers or more.
Extremes extremes(const double* numbers, int count) {
  // The last four first: who is looked at twice changes nothing.
  const Two last = load(numbers + count - 4), very_last = load(numbers + count - 2);
  Two low = last, other_low = very_last, high = last, other_high = very_last;
  for (int i = 0; i + 4 < count; i += 4) {
    const Two here = load(numbers + i), next = load(numbers + i + 2);
    low = lesser(here, low), other_low = lesser(next, other_low);
    high = greater(here, high), other_high = greater(next, other_high);
  }
  low = lesser(low, other_low), high = greater(high, other_high);
  return {std::min(low[0], low[1]), std::max(high[0], high[1])};
}

// How much of kBucket numbers lies above a limit. They are whole, so the sum's order is no matter.
double sum_above(const double* numbers, double limit) {
  const Two limits = {limit, limit}, none = {};
  Two a = none, b = none, c = none, d = none;
  for (int i = 0; i < Timeline::kBucket; i += 8) {
    a += greater(load(numbers + i) - limits, none);
    b += greater(load(numbers + i + 2) - limits, none);
    c += greater(load(numbers + i + 4) - limits, none);
    d += greater(load(numbers + i + 6) - limits, none);
  }
  const Two sum = (a + b) + (c + d);
  return sum[0] + sum[1];
}

// Whole numbers, so again in any order.
double sum_of(const double* numbers, int count) {
  Two a = {}, b = {}, c = {}, d = {};
  int i = 0;
  for (; i + 8 <= count; i += 8) {
    a += load(numbers + i), b += load(numbers + i + 2);
    c += load(numbers + i + 4), d += load(numbers + i + 6);
  }
  const Two sum = (a + b) + (c + d);
  double all = sum[0] + sum[1];
  for (; i < count; ++i) all += numbers[i];
  return all;
}

}  // namespace

Timeline::Timeline(int nodes, double capacity) : capacity_(capacity) {
  slot_ = IdVector<NodeId, SlotId>(index_of(nodes));
  reset(std::max(1, (nodes + kFill - 1) / kFill));
}

void Timeline::reset(int buckets) {
  buckets_ = buckets;
  node_.assign(index_of(buckets * kBucket), NodeId::none());
  bytes_.assign(node_.size(), kFreeSlot);
  summary_.assign(index_of(buckets), Summary{0, -kNeverEnds, kNeverEnds, 0});
  nodes_.assign(index_of(buckets), 0);
  waiting_.assign(index_of(buckets) + 1, 0);
}

double Timeline::overflow_of(int bucket) const {
  return sum_above(&bytes_[index_of(bucket * kBucket)],
                   capacity_ - summary_[index_of(bucket)].added);
}

void Timeline::summarize(int bucket) const {
  Summary& s = summary_[index_of(bucket)];
  const int nodes = nodes_[index_of(bucket)];
  const double* bytes = &bytes_[index_of(bucket * kBucket)];
  Extremes found = {kNeverEnds, -kNeverEnds};
  if (nodes >= 4) {
    found = extremes(bytes, nodes);
  } else {
    for (int i = 0; i < nodes; ++i)
      found = {std::min(found.least, bytes[i]), std::max(found.largest, bytes[i])};
  }
  s.largest = found.largest + s.added;
  s.least = found.least + s.added;
  overflow_ -= s.overflow;
  s.overflow = s.largest > capacity_ ? overflow_of(bucket) : 0;
  overflow_ += s.overflow;
}

void Timeline::bring_up_to_date() const {
  add_what_waits();
  for (const int bucket : stale_) {
    summarize(bucket);
    summary_[index_of(bucket)].is_stale = false;
  }
  stale_.clear();
}

void Timeline::add(int first, int last, double bytes) {
  if (first > last || bytes == 0) return;
  const int first_bucket = first / kBucket, last_bucket = last / kBucket;
  add_to_part(first_bucket, first - first_bucket * kBucket, last - first_bucket * kBucket + 1,
              bytes);
  if (first_bucket == last_bucket) return;
  add_between_buckets(first_bucket, last_bucket, bytes);
  add_to_part(last_bucket, 0, last - last_bucket * kBucket + 1, bytes);
}

// From one place of a bucket to before another, which may be behind its nodes.
void Timeline::add_to_part(int bucket, int from, int to, double bytes) {
  const int nodes = nodes_[index_of(bucket)];
  to = std::min(to, nodes);
  if (from >= to) return;
  if (from == 0 && to == nodes) {
    ++work_;
    overflow_ += add_to_summary(bucket, bytes);
    return;
  }
  double* slot = &bytes_[index_of(bucket * kBucket)];
  for (int i = from; i < to; ++i) slot[i] += bytes;
  note_change(bucket);
}

// To all of the buckets between two.
void Timeline::add_between_buckets(int first, int last, double bytes) {
  if (last - first <= kFewBuckets) {
    for (int bucket = first + 1; bucket < last; ++bucket) {
      if (nodes_[index_of(bucket)] == 0) continue;
      ++work_;
      overflow_ += add_to_summary(bucket, bytes);
    }
    return;
  }
  const auto begin = nodes_.begin() + first + 1, end = nodes_.begin() + last;
  work_ += std::count_if(begin, end, [](int32_t nodes) { return nodes > 0; });
  waiting_[index_of(first + 1)] += bytes;
  waiting_[index_of(last)] -= bytes;
  first_waiting_ = std::min(first_waiting_, first + 1);
  last_waiting_ = std::max(last_waiting_, last);
}

double Timeline::waiting_for(int bucket) const {
  return sum_of(&waiting_[index_of(first_waiting_)], bucket - first_waiting_ + 1);
}

void Timeline::add_what_waits() const {
  double bytes = 0, change = 0;
  for (int bucket = first_waiting_; bucket <= last_waiting_; ++bucket) {
    bytes += std::exchange(waiting_[index_of(bucket)], 0.0);
    if (bytes != 0 && nodes_[index_of(bucket)] > 0) change += add_to_summary(bucket, bytes);
  }
  overflow_ += change;
  first_waiting_ = kNothingWaits, last_waiting_ = -1;
}

// Returns what the overflow changes by, unless the bucket is stale.
double Timeline::add_to_summary(int bucket, double bytes) const {
  Summary& s = summary_[index_of(bucket)];
  s.added += bytes;
  if (s.is_stale) return 0;
  const double lower = bytes < 0 ? s.least + bytes : s.least;  // before or after
  s.largest += bytes;
  s.least += bytes;
  double now = 0;
  if (s.largest > capacity_)
    now = lower >= capacity_ ? s.overflow + bytes * nodes_[index_of(bucket)] : overflow_of(bucket);
  const double change = now - s.overflow;
  s.overflow = now;
  return change;
}

void Timeline::make_known(NodeId node) {
  while (node.index() >= slot_.size()) slot_.push_back(SlotId::none());
}

void Timeline::append(NodeId node) {
  make_known(node);
  const NodeId last_node = last();
  if (last_node.valid()) return insert_after(last_node, node);
  refresh();
  slot_[node] = slot_at(0);
  node_[0] = node;
  bytes_[0] = 0;
  summary_[0] = {0, 0, 0, 0};
  nodes_[0] = 1;
  size_ = 1;
  note_change(0);
}

int Timeline::open_after(NodeId previous, NodeId node) {
  make_known(node);
  int bucket = place_of(previous) / kBucket;
  if (nodes_[index_of(bucket)] == kBucket) {
    make_room(bucket);
    bucket = place_of(previous) / kBucket;
  }
  const int begin = bucket * kBucket, place = place_of(previous) + 1;
  for (int i = begin + nodes_[index_of(bucket)]; i > place; --i) {
    node_[index_of(i)] = node_[index_of(i - 1)];
    bytes_[index_of(i)] = bytes_[index_of(i - 1)];
    slot_[node_[index_of(i)]] = slot_at(i);
  }
  node_[index_of(place)] = node;
  slot_[node] = slot_at(place);
  ++nodes_[index_of(bucket)];
  ++size_;
  mark_stale(bucket);
  return place;
}

void Timeline::remove(NodeId node) {
  const int place = place_of(node), bucket = place / kBucket;
  const int end = bucket * kBucket + nodes_[index_of(bucket)] - 1;
  for (int i = place; i < end; ++i) {
    node_[index_of(i)] = node_[index_of(i + 1)];
    bytes_[index_of(i)] = bytes_[index_of(i + 1)];
    slot_[node_[index_of(i)]] = slot_at(i);
  }
  node_[index_of(end)] = NodeId::none();
  bytes_[index_of(end)] = kFreeSlot;
  slot_[node] = SlotId::none();
  --nodes_[index_of(bucket)];
  --size_;
  note_change(bucket);
}

// Spreads the smallest aligned window around `bucket` whose buckets would be three quarters full at
// most; doubles everything when there is none.
void Timeline::make_room(int bucket) {
  add_what_waits();
  for (int width = 2; width < 2 * buckets_; width *= 2) {
    const int first = bucket / width * width;
    const int last = std::min(first + width, buckets_);
    int nodes = 0;
    for (int b = first; b < last; ++b) nodes += nodes_[index_of(b)];
    if (nodes <= (last - first) * kBucket * 3 / 4) return spread(first, last - first);
  }
  const int buckets = buckets_;
  node_.resize(2 * slots(), NodeId::none());
  bytes_.resize(slots(), kFreeSlot);
  summary_.resize(index_of(2 * buckets), Summary{0, -kNeverEnds, kNeverEnds, 0});
  nodes_.resize(index_of(2 * buckets), 0);
  waiting_.resize(index_of(2 * buckets) + 1, 0);
  buckets_ *= 2;
  spread(0, buckets_);
}

void Timeline::spread(int first_bucket, int buckets) {
  if (moved_nodes_.size() < index_of(buckets * kBucket)) {
    moved_nodes_.resize(index_of(buckets * kBucket));
    moved_bytes_.resize(index_of(buckets * kBucket));
  }
  int total = 0;
  for (int b = first_bucket; b < first_bucket + buckets; ++b) {
    Summary& s = summary_[index_of(b)];
    const int nodes = nodes_[index_of(b)], begin = b * kBucket;
    std::copy_n(node_.begin() + begin, nodes, moved_nodes_.begin() + total);
    std::transform(bytes_.begin() + begin, bytes_.begin() + begin + nodes,
                   moved_bytes_.begin() + total,
                   [added = s.added](double bytes) { return bytes + added; });
    total += nodes;
    overflow_ -= s.overflow;
    s = {0, -kNeverEnds, kNeverEnds, 0, s.is_stale};
  }
  for (int b = 0, from = 0; b < buckets; ++b) {
    const int to = static_cast<int>(int64_t{total} * (b + 1) / buckets), nodes = to - from;
    const int begin = (first_bucket + b) * kBucket;
    std::copy_n(moved_nodes_.begin() + from, nodes, node_.begin() + begin);
    std::copy_n(moved_bytes_.begin() + from, nodes, bytes_.begin() + begin);
    std::fill_n(node_.begin() + begin + nodes, kBucket - nodes, NodeId::none());
    std::fill_n(bytes_.begin() + begin + nodes, kBucket - nodes, kFreeSlot);
    for (int i = 0; i < nodes; ++i) slot_[moved_nodes_[index_of(from + i)]] = slot_at(begin + i);
    nodes_[index_of(first_bucket + b)] = nodes;
    note_change(first_bucket + b);
    from = to;
  }
}

NodeId Timeline::node_from(int first) const {
  for (int bucket = first / kBucket; bucket < buckets_; ++bucket) {
    const int begin = bucket * kBucket;
    const int place = std::max(first, begin);
    if (place < begin + nodes_[index_of(bucket)]) return node_[index_of(place)];
  }
  return NodeId::none();
}

NodeId Timeline::next(NodeId node) const {
  return node_from(place_of(node) + 1);
}

NodeId Timeline::previous(NodeId node) const {
  const int place = place_of(node);
  if (place % kBucket > 0) return node_[index_of(place - 1)];
  for (int bucket = place / kBucket - 1; bucket >= 0; --bucket)
    if (const int nodes = nodes_[index_of(bucket)]; nodes > 0)
      return node_[index_of(bucket * kBucket + nodes - 1)];
  return NodeId::none();
}

NodeId Timeline::first() const {
  return node_from(0);
}

NodeId Timeline::last() const {
  for (int bucket = buckets_ - 1; bucket >= 0; --bucket)
    if (const int nodes = nodes_[index_of(bucket)]; nodes > 0)
      return node_[index_of(bucket * kBucket + nodes - 1)];
  return NodeId::none();
}

double Timeline::peak() const {
  refresh();
  double peak = 0;
  for (const Summary& s : summary_) peak = std::max(peak, s.largest);
  return peak;
}

NodeId Timeline::fullest() const {
  refresh();
  const auto bucket =
      std::max_element(summary_.begin(), summary_.end(),
                       [](const Summary& a, const Summary& b) { return a.largest < b.largest; });
  const auto begin = static_cast<size_t>(bucket - summary_.begin()) * kBucket;
  for (size_t i = begin; i < begin + kBucket; ++i)
    if (bytes_[i] + bucket->added == bucket->largest) return node_[i];
  return NodeId::none();
}

NodeId Timeline::overflowing_from(SlotId slot) const {
  if (overflow() <= 0) return NodeId::none();
  const int first = static_cast<int>(slot.index()), start = first / kBucket;
  for (int turn = 0; turn <= buckets_; ++turn) {
    const int bucket = (start + turn) % buckets_;
    const Summary& s = summary_[index_of(bucket)];
    if (s.overflow <= 0) continue;
    const int begin = bucket * kBucket;
    for (int i = turn == 0 ? first - begin : 0; i < nodes_[index_of(bucket)]; ++i)
      if (bytes_[index_of(begin + i)] + s.added > capacity_) return node_[index_of(begin + i)];
  }
  return NodeId::none();
}

}  // namespace lowtide::remat
