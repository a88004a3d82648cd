#include "remat/starts/greedy_start.h"

#include <algorithm>
#include <utility>

#include "remat/search/rerun.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
// What the start is worth: row "greedy-start" of "What each idea is worth".
struct GreedyTuning {
  size_t measured = 100;            // values, of those that promise most
  int64_t units_per_op = 40'000;    // of the whole start
  int64_t most_units = 20'000'000;  // the same, of many ops
  // Of very many, whole moments are relieved at once, with more work.
  size_t very_many_ops = 10'000;
  int64_t most_units_of_very_many = 400'000'000;
};
constexpr GreedyTuning kGreedy;

// A value that is present but idle at some moment, and its next use.
struct FreeSpan {
  SchedValueId value;
  NodeId use;
  double promise = 0;  // bytes by picosecond
};

class Greedy {
 public:
  Greedy(const ActionTable& table, std::span<const SchedOpId> order)
      : table_(table),
        state_(table, order),
        is_large_(table.op_count() >= kGreedy.very_many_ops),
        most_units_(std::min(
            is_large_ ? kGreedy.most_units_of_very_many : kGreedy.most_units,
            kGreedy.units_per_op * static_cast<int64_t>(std::max<size_t>(1, table.op_count())))) {
    for (const SchedValueId v : table.values()) {
      const SchedOpId producer = table.producer(v);
      if (!table.may_rerun(producer) || table.bytes(v) <= 0) continue;
      const double cost = std::max(1.0, static_cast<double>(table.cost(producer)));
      droppable_.push_back({v, {}, table.bytes(v) / cost});
    }
  }

  GreedyStart run() {
    while (state_.overflow() > 0 && has_work_left() && (is_large_ ? relieve() : step())) {
    }
    return {state_.sequence(), units()};
  }

 private:
  int64_t units() const { return state_.work() + looked_at_; }

  // Drops the best value where memory overflows most. False: none helps.
  bool step() {
    double best = 0;
    FreeSpan chosen;
    bool chosen_deep = false;
    const double overflow = state_.overflow();
    for (const FreeSpan& span : spans_at(fullest_node())) {
      for (const bool deep : {true, false}) {
        const double relief = relief_of(span, deep, overflow);
        if (relief <= best) continue;
        best = relief;
        chosen = span;
        chosen_deep = deep;
      }
    }
    if (best <= 0) return false;
    drop(chosen, chosen_deep);
    state_.forget_log();
    return true;
  }

  bool has_work_left() const { return units() < most_units_; }

  // What promises most goes, one after another, until the fullest moment is within the capacity.
  // False: nothing helps there.
  bool relieve() {
    const NodeId node = fullest_node();
    bool any = false;
    for (const FreeSpan& span : spans_at(node)) {
      if (state_.timeline().bytes(node) <= table_.capacity() || !has_work_left()) break;
      const double overflow = state_.overflow();
      const double deep = relief_of(span, true, overflow), flat = relief_of(span, false, overflow);
      if (std::max(deep, flat) <= 0) continue;
      any |= drop(span, deep > flat);
      state_.forget_log();
    }
    return any;
  }

  NodeId fullest_node() {
    looked_at_ += state_.timeline().size();
    return state_.timeline().fullest();
  }

  std::vector<FreeSpan> spans_at(NodeId node) {
    std::vector<FreeSpan> spans;
    for (FreeSpan span : droppable_) {
      const auto uses = state_.uses(span.value);
      const size_t next = state_.use_from(span.value, node);
      if (next == 0 || next == uses.size() || uses[next].birth || uses[next].node == node) continue;
      span.use = uses[next].node;
      spans.push_back(span);
    }
    looked_at_ += static_cast<int64_t>(table_.value_count());
    std::stable_sort(spans.begin(), spans.end(),
                     [](const FreeSpan& a, const FreeSpan& b) { return a.promise > b.promise; });
    if (!is_large_ && spans.size() > kGreedy.measured) spans.resize(kGreedy.measured);
    return spans;
  }

  // Of the overflow that there is, what goes, by picosecond of reruns. The state is as before;
  // nobody has asked for its overflow, so that the next drop's changes join those of taking this
  // back.
  double relief_of(const FreeSpan& span, bool deep, double overflow) {
    const int64_t cost = state_.extra_cost();
    const size_t mark = state_.mark();
    double relief = 0;
    if (drop(span, deep))
      relief = (overflow - state_.overflow()) /
               std::max(1.0, static_cast<double>(state_.extra_cost() - cost));
    state_.undo_to(mark);
    return relief;
  }

  // Inputs that are not there run again, too, or live longer: deep, or not. The run that made the
  // value goes where it is good for nothing else.
  bool drop(const FreeSpan& span, bool deep) {
    const auto last = state_.uses(span.value)[state_.use_from(span.value, span.use) - 1];
    const auto yes = [](SchedOpId) { return true; };
    if (!rerun_before(state_, table_.producer(span.value), span.use, deep ? kReruns.deepest : 0,
                      yes, yes))
      return false;
    if (last.birth && !state_.is_useful(last.node) && state_.can_remove(last.node))
      state_.remove(last.node);
    return true;
  }

  const ActionTable& table_;
  SequenceState state_;
  const bool is_large_;
  const int64_t most_units_;
  std::vector<FreeSpan> droppable_;  // what may go at all, with its promise and no use
  int64_t looked_at_ = 0;
};

}  // namespace

GreedyStart greedy_start(const ActionTable& table, std::span<const SchedOpId> order) {
  return Greedy(table, order).run();
}

}  // namespace lowtide::remat
