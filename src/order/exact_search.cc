#include "order/exact_search.h"

#include <algorithm>
#include <tuple>

#include "order/prefix.h"
#include "order/prefix_set.h"

namespace lowtide::order {
namespace {

class BudgetSearch {
 public:
  BudgetSearch(const OrderGraph& graph, int64_t budget_bytes, const SafeMoveOptions& safe,
               int64_t memo_bytes, WorkBudget& work)
      : prefix_(graph),
        safe_(safe, budget_bytes, work),
        work_(work),
        visited_(prefix_.words().size(), memo_bytes) {}

  BudgetAnswer run() {
    safe_.close(prefix_);
    if (prefix_.complete()) return found();
    push_frame();
    while (!stack_.empty()) {
      if (work_.exhausted() || visited_.full()) return {};
      Frame& frame = stack_.back();
      prefix_.undo_to(frame.length);
      if (frame.next == frame.children.size()) {
        stack_.pop_back();
        continue;
      }
      const Child& child = frame.children[frame.next++];
      for (OpId op : child.moves) prefix_.run(op);
      work_.spend(static_cast<int64_t>(child.moves.size()));
      if (prefix_.complete()) return found();
      if (visited_.insert(prefix_.words(), prefix_.hash())) push_frame();
    }
    if (work_.exhausted()) return {};
    BudgetAnswer answer;
    answer.verdict = Verdict::kImpossible;
    answer.next_budget_bytes = safe_.least_rejected();
    return answer;
  }

 private:
  struct Child {
    int64_t live_bytes;
    OpId first;
    std::vector<OpId> moves;  // the choice and the safe moves after it
  };
  // A prefix on the current path and what is left to try from it.
  struct Frame {
    size_t length;  // runs of the prefix
    std::vector<Child> children;
    size_t next = 0;
  };

  void push_frame() {
    Frame frame;
    frame.length = prefix_.sequence().size();
    const std::vector<OpId> ready(prefix_.ready().begin(), prefix_.ready().end());
    for (OpId op : ready) {
      if (work_.exhausted()) break;
      if (!safe_.fits(prefix_, op)) continue;
      work_.spend();
      prefix_.run(op);
      safe_.close(prefix_);
      if (!visited_.contains(prefix_.words(), prefix_.hash())) {
        const auto moves = prefix_.sequence().subspan(frame.length);
        frame.children.push_back({prefix_.live_bytes(), op, {moves.begin(), moves.end()}});
      }
      prefix_.undo_to(frame.length);
    }
    std::sort(frame.children.begin(), frame.children.end(), [](const Child& a, const Child& b) {
      return std::tie(a.live_bytes, a.first) < std::tie(b.live_bytes, b.first);
    });
    stack_.push_back(std::move(frame));
  }

  BudgetAnswer found() const {
    BudgetAnswer answer;
    answer.verdict = Verdict::kFound;
    answer.sequence.assign(prefix_.sequence().begin(), prefix_.sequence().end());
    return answer;
  }

  Prefix prefix_;
  SafeMoves safe_;
  WorkBudget& work_;
  PrefixSet visited_;
  std::vector<Frame> stack_;
};

}  // namespace

BudgetAnswer search_within(const OrderGraph& graph, int64_t budget_bytes,
                           const SafeMoveOptions& safe, int64_t memo_bytes, WorkBudget& work) {
  return BudgetSearch(graph, budget_bytes, safe, memo_bytes, work).run();
}

}  // namespace lowtide::order
