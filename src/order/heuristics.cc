#include "order/heuristics.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "order/prefix.h"

namespace lowtide::order {
namespace {

// Runs the ready op of least key until all have run. Keys end in the op, so the list's own order
// does not matter.
template <class KeyOf, class AfterRun>
std::vector<OpId> list_schedule(const OrderGraph& graph, WorkBudget& work, KeyOf key_of,
                                AfterRun before_run) {
  Prefix prefix(graph);
  while (!prefix.complete()) {
    if (work.exhausted()) return {};
    work.spend(static_cast<int64_t>(prefix.ready().size() / 8) + 1);
    OpId best = prefix.ready()[0];
    auto best_key = key_of(prefix, best);
    for (OpId op : prefix.ready().subspan(1)) {
      auto key = key_of(prefix, op);
      if (key < best_key) {
        best = op;
        best_key = key;
      }
    }
    before_run(prefix, best);
    prefix.run(best);
  }
  return {prefix.sequence().begin(), prefix.sequence().end()};
}

}  // namespace

std::vector<OpId> given_order(const OrderGraph& graph) {
  std::vector<OpId> order;
  for (size_t i = 0; i < graph.size(); ++i) order.push_back(OpId(i));
  return order;
}

std::vector<OpId> least_peak_first(const OrderGraph& graph, WorkBudget& work) {
  int64_t peak = 0;
  return list_schedule(
      graph, work,
      [&](const Prefix& prefix, OpId op) {
        return std::tuple(std::max(peak, prefix.peak(op)), prefix.growth(op), op);
      },
      [&](const Prefix& prefix, OpId op) { peak = std::max(peak, prefix.peak(op)); });
}

std::vector<OpId> most_freed_first(const OrderGraph& graph, WorkBudget& work) {
  return list_schedule(
      graph, work,
      [&](const Prefix& prefix, OpId op) {
        return std::tuple(prefix.growth(op), -static_cast<int64_t>(graph.succs[op].size()), op);
      },
      [](const Prefix&, OpId) {});
}

std::vector<OpId> post_order(const OrderGraph& graph, BranchRule rule) {
  const auto before = [&](OpId a, OpId b) {
    if (rule == BranchRule::kFanOut && graph.succs[a].size() != graph.succs[b].size())
      return graph.succs[a].size() > graph.succs[b].size();
    if (rule == BranchRule::kBytes && graph.made_bytes[a] != graph.made_bytes[b])
      return graph.made_bytes[a] > graph.made_bytes[b];
    return a < b;
  };
  std::vector<OpId> order;
  IdVector<OpId, char> entered(graph.size(), 0), placed(graph.size(), 0);
  std::vector<OpId> stack;
  for (size_t i = 0; i < graph.size(); ++i) {
    if (!graph.succs[OpId(i)].empty()) continue;
    stack.push_back(OpId(i));
    while (!stack.empty()) {
      const OpId op = stack.back();
      if (entered[op]) {
        stack.pop_back();
        if (!placed[op]) order.push_back(op);
        placed[op] = 1;
        continue;
      }
      entered[op] = 1;
      const size_t first = stack.size();
      for (OpId pred : graph.preds[op])
        if (!entered[pred]) stack.push_back(pred);
      // The top of the stack comes first.
      std::sort(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end(),
                [&](OpId a, OpId b) { return before(b, a); });
    }
  }
  return order;
}

namespace {

class ClosureGreedyRun {
 public:
  ClosureGreedyRun(const OrderGraph& graph, const ClosureGreedy& rule, const SafeMoveOptions& safe,
                   Rng rng, WorkBudget& work)
      : graph_(graph),
        rule_(rule),
        safe_(safe, rule.target_bytes, work),
        work_(work),
        prefix_(graph),
        random_(graph.size(), 0) {
    if (rule.tie_break == TieBreak::kRandom)
      for (OpId op : random_.ids()) random_[op] = rng.between(0, int64_t{1} << 30);
  }

  std::vector<OpId> run() {
    int64_t peak = rule_.target_bytes;
    while (true) {
      safe_.set_budget(peak);
      safe_.close(prefix_);
      if (work_.exhausted()) return {};
      if (prefix_.complete()) break;
      const OpId op = choose(peak);
      peak = std::max(peak, prefix_.peak(op));
      work_.spend();
      prefix_.run(op);
    }
    return {prefix_.sequence().begin(), prefix_.sequence().end()};
  }

 private:
  // Compared in turn: excess over the peak, growth, tie-break, op.
  using Key = std::array<int64_t, 4>;

  OpId choose(int64_t peak) {
    const std::vector<OpId> ready(prefix_.ready().begin(), prefix_.ready().end());
    work_.spend(static_cast<int64_t>(ready.size() / 8));
    OpId best = ready[0];
    Key best_key{};
    for (size_t i = 0; i < ready.size(); ++i) {
      const Key key = key_of(ready[i], peak);
      if (i > 0 && key >= best_key) continue;
      best = ready[i];
      best_key = key;
    }
    return best;
  }

  Key key_of(OpId op, int64_t peak) {
    const int64_t excess = std::max(int64_t{0}, prefix_.peak(op) - peak);
    const int64_t growth = rule_.look_ahead ? growth_after_moves(op) : prefix_.growth(op);
    return {excess, growth, tie(op), op.index()};
  }

  int64_t growth_after_moves(OpId op) {
    const size_t length = prefix_.sequence().size();
    const int64_t before = prefix_.live_bytes();
    prefix_.run(op);
    work_.spend();
    safe_.close(prefix_);
    const int64_t after = prefix_.live_bytes();
    prefix_.undo_to(length);
    return after - before;
  }

  int64_t tie(OpId op) const {
    switch (rule_.tie_break) {
      case TieBreak::kGiven:
        return 0;
      case TieBreak::kLatest:
        return -static_cast<int64_t>(op.index());
      case TieBreak::kLeastTransient:
        return graph_.transient_bytes[op];
      case TieBreak::kMostTransient:
        return -graph_.transient_bytes[op];
      case TieBreak::kMostFreed:
        return -prefix_.frees(op);
      case TieBreak::kMostUnlocked: {
        int64_t unlocked = 0;
        for (OpId next : graph_.succs[op]) unlocked += prefix_.missing(next) == 1;
        return -unlocked;
      }
      case TieBreak::kRandom:
        return random_[op];
    }
    return 0;
  }

  const OrderGraph& graph_;
  const ClosureGreedy rule_;
  SafeMoves safe_;
  WorkBudget& work_;
  Prefix prefix_;
  IdVector<OpId, int64_t> random_;
};

}  // namespace

std::vector<OpId> closure_greedy(const OrderGraph& graph, const ClosureGreedy& rule,
                                 const SafeMoveOptions& safe, Rng rng, WorkBudget& work) {
  return ClosureGreedyRun(graph, rule, safe, rng, work).run();
}

}  // namespace lowtide::order
