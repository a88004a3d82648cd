#include "order/interval_cut.h"

#include <algorithm>
#include <vector>

#include "base/max_flow.h"

namespace lowtide::order {
namespace {

using plan::SchedOpId;
using plan::SchedValue;
using plan::SchedValueId;

class IntervalCut {
 public:
  IntervalCut(const PlacedOrder& order, Interval interval, int64_t step)
      : order_(order),
        interval_(interval),
        step_(step),
        side_(interval.length(), Side::kFree),
        node_(interval.length(), 0),
        flow_(2) {
    spread(Side::kBefore);
    spread(Side::kBehind);
  }

  int64_t bytes(int64_t alive_bytes, WorkBudget& work) {
    for (int64_t at = interval_.begin; at < interval_.end; ++at)
      if (side(at) == Side::kFree) node_[at - interval_.begin] = flow_.add_node();
    for (int64_t at = interval_.begin; at < interval_.end; ++at)
      if (side(at) == Side::kFree) add_op(order_.sequence[at]);
    std::sort(values_.begin(), values_.end());
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
    for (const SchedValueId v : values_) add_value(v);
    const int64_t least = alive_bytes - held_now_ + flow_.run(kSource, kSink);
    work.spend((flow_.arcs_seen() + interval_.length()) / 8 + 1);
    return least + appearing() - most_reused();
  }

 private:
  // Ops that must run before the one at the step; that cannot (itself among them); others.
  enum class Side : uint8_t { kFree, kBefore, kBehind };
  static constexpr size_t kSource = 0, kSink = 1;

  SchedOpId op() const { return order_.sequence[step_]; }
  int64_t position(SchedOpId op) const { return order_.position[op]; }
  Side side(int64_t at) const {
    if (at < interval_.begin) return Side::kBefore;
    return at < interval_.end ? side_[at - interval_.begin] : Side::kBehind;
  }
  size_t node(int64_t at) const { return node_[at - interval_.begin]; }

  // To all that lead to the op, or that follow from it.
  void spread(Side mark) {
    std::vector<SchedOpId> stack = {op()};
    side_[step_ - interval_.begin] = Side::kBehind;
    const auto reach = [&](SchedOpId to) {
      if (!interval_.contains(position(to)) || side(position(to)) != Side::kFree) return;
      side_[position(to) - interval_.begin] = mark;
      stack.push_back(to);
    };
    while (!stack.empty()) {
      const SchedOpId at = stack.back();
      stack.pop_back();
      if (mark == Side::kBefore) {
        for (const SchedValueId v : order_.index.reads[at])
          reach(order_.problem.values[v].producer);
        for (const SchedOpId before : order_.index.waits_for[at]) reach(before);
      } else {
        for (const SchedValueId v : order_.index.makes[at])
          for (const SchedOpId reader : order_.problem.values[v].readers) reach(reader);
        for (const SchedOpId behind : order_.index.waits_after[at]) reach(behind);
      }
    }
  }

  // An op that runs before the step takes all that it waits for with it.
  void add_op(SchedOpId op) {
    const size_t from = node(position(op));
    const auto wait_for = [&](SchedOpId before) {
      if (side(position(before)) == Side::kFree)
        flow_.add_arc(from, node(position(before)), MaxFlow::kUnlimited);
    };
    for (const SchedValueId v : order_.index.reads[op]) {
      wait_for(order_.problem.values[v].producer);
      values_.push_back(v);
    }
    for (const SchedOpId before : order_.index.waits_for[op]) wait_for(before);
    const auto made = order_.index.makes[op];
    values_.insert(values_.end(), made.begin(), made.end());
  }

  // Alive at the step if it has been made and somebody has still to read it.
  void add_value(SchedValueId v) {
    const SchedValue& value = order_.problem.values[v];
    bool is_needed = value.is_output;  // whatever has run
    bool is_unread = is_needed;        // in the order as it is
    std::vector<int64_t> free_readers;
    for (const SchedOpId reader : value.readers) {
      const int64_t at = position(reader);
      is_needed = is_needed || side(at) == Side::kBehind;
      is_unread = is_unread || at >= step_;
      if (side(at) == Side::kFree) free_readers.push_back(at);
    }
    const int64_t made_at = position(value.producer);
    if (made_at < step_ && is_unread) held_now_ += value.bytes;
    const size_t producer = side(made_at) == Side::kFree ? node(made_at) : kSource;
    if (is_needed) {
      flow_.add_arc(producer, kSink, value.bytes);
    } else if (free_readers.size() == 1) {
      flow_.add_arc(producer, node(free_readers[0]), value.bytes);
    } else if (!free_readers.empty()) {
      const size_t unread = flow_.add_node();
      flow_.add_arc(producer, unread, value.bytes);
      for (const int64_t reader : free_readers)
        flow_.add_arc(unread, node(reader), MaxFlow::kUnlimited);
    }
  }

  int64_t appearing() const {
    int64_t bytes = order_.problem.ops[op()].workspace_bytes;
    for (const SchedValueId v : order_.index.makes[op()]) bytes += order_.problem.values[v].bytes;
    return bytes;
  }

  // With everything run that can be: the op is the last reader unless one is behind it.
  int64_t most_reused() const {
    int64_t saved = 0;
    std::vector<plan::InPlacePair> taken;
    for (const size_t i : order_.index.pairs[op()]) {
      const plan::InPlacePair& pair = order_.problem.in_place[i];
      const SchedValue& input = order_.problem.values[pair.input];
      const bool may_be_last =
          std::all_of(input.readers.begin(), input.readers.end(), [&](SchedOpId reader) {
            return reader == op() || side(position(reader)) != Side::kBehind;
          });
      const bool is_free = std::none_of(taken.begin(), taken.end(), [&](const auto& other) {
        return other.input == pair.input || other.output == pair.output;
      });
      if (input.is_output || !may_be_last || !is_free ||
          input.bytes != order_.problem.values[pair.output].bytes)
        continue;
      taken.push_back(pair);
      saved += input.bytes;
    }
    return saved;
  }

  const PlacedOrder& order_;
  const Interval interval_;
  const int64_t step_;
  std::vector<Side> side_;    // by position in the interval
  std::vector<size_t> node_;  // of free ones
  MaxFlow flow_;
  std::vector<SchedValueId> values_;  // that free ops make or read
  int64_t held_now_ = 0;              // by these values, in the order as it is
};

}  // namespace

int64_t interval_cut(const PlacedOrder& order, Interval interval, int64_t step, int64_t alive_bytes,
                     WorkBudget& work) {
  return IntervalCut(order, interval, step).bytes(alive_bytes, work);
}

}  // namespace lowtide::order
