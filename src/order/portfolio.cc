#include "order/portfolio.h"

#include <algorithm>

#include "order/beam.h"
#include "order/exact_search.h"
#include "order/heuristics.h"
#include "order/prefix.h"

namespace lowtide::order {
namespace {

constexpr int64_t kFirstSlice =
    20'000;  // units of the first exact search; each round has four times as many
constexpr int kProbesPerRound = 4;  // budgets tried in one round
constexpr size_t kWidestBeam = 4096;

class Portfolio {
 public:
  Portfolio(const OrderGraph& graph, const OrderOptions& options)
      : graph_(graph), options_(options), work_(options.max_units, options.max_seconds) {
    safe_.single = options.safe_moves;
    safe_.excursions = options.excursions;
  }

  PartAnswer run() {
    best_.sequence = program_order(graph_);
    best_.peak_bytes = peak_of(graph_, best_.sequence);
    best_.lower_bound_bytes = largest_op_bytes(graph_);
    try_lists();
    make_bound();
    try_greedy();
    search();
    best_.units = work_.used();
    best_.exhausted = work_.exhausted();
    best_.timed_out = work_.timed_out();
    return std::move(best_);
  }

 private:
  bool done() const { return best_.optimal() || work_.exhausted(); }

  // True if the order is better than the best so far.
  bool offer(std::vector<OpId> sequence) {
    if (sequence.empty()) return false;
    const int64_t peak = peak_of(graph_, sequence);
    LT_CHECK(sequence.size() == graph_.size() && peak >= best_.lower_bound_bytes,
             "an order beats the bound: the bound is wrong");
    if (peak >= best_.peak_bytes) return false;
    best_.peak_bytes = peak;
    best_.sequence = std::move(sequence);
    return true;
  }

  void raise_bound(int64_t bytes) {
    LT_CHECK(bytes <= best_.peak_bytes, "a proven bound is above a known order");
    best_.lower_bound_bytes = std::max(best_.lower_bound_bytes, bytes);
  }

  void try_lists() {
    if (options_.list_rules && !done()) offer(least_peak_first(graph_));
    if (options_.list_rules && !done()) offer(most_freed_first(graph_));
    if (!options_.post_orders) return;
    for (BranchRule rule : {BranchRule::kProgram, BranchRule::kFanOut, BranchRule::kBytes})
      if (!done()) offer(post_order(graph_, rule));
    work_.spend(static_cast<int64_t>(graph_.size()));
  }

  void make_bound() {
    if (!options_.cut_bound) return;
    // One pass of the greedy first: the better the known order, the fewer cuts.
    if (options_.closure_greedy && !done()) offer(greedy(TieBreak::kProgram, 0, false));
    best_.cut = best_cut(graph_, best_.sequence, work_);
    if (best_.cut) raise_bound(best_.cut->bytes);
  }

  std::vector<OpId> greedy(TieBreak tie, uint64_t restart, bool look_ahead) {
    ClosureGreedy rule;
    rule.tie_break = tie;
    rule.target_bytes = best_.lower_bound_bytes;
    rule.look_ahead = look_ahead;
    return closure_greedy(graph_, rule, safe_, Rng(options_.seed + restart), work_);
  }

  void try_greedy() {
    if (!options_.closure_greedy) return;
    for (TieBreak tie : kFixedTieBreaks)
      if (!done()) offer(greedy(tie, 0, false));
  }

  // Rounds of exact probes and beams, each round with more work than the last.
  void search() {
    int64_t slice = kFirstSlice;
    size_t width = std::max<size_t>(options_.beam_width, 1);
    int restarts = options_.random_restarts;
    for (int round = 0; !done(); ++round, slice *= 4) {
      if (options_.exact_search) probe_budgets(slice);
      if (options_.closure_greedy && round == 0 && !done())
        offer(greedy(TieBreak::kProgram, 0, true));
      for (; options_.closure_greedy && round == 1 && restarts > 0 && !done(); --restarts)
        offer(greedy(TieBreak::kRandom, static_cast<uint64_t>(restarts), false));
      if (options_.beam && round > 0 && width <= kWidestBeam && !done()) {
        run_beams(width);
        width *= 2;
      }
      const bool more_beams = options_.beam && width <= kWidestBeam;
      if (!options_.exact_search && !more_beams && round > 0) return;
      if (memo_full_) return;
    }
  }

  void run_beams(size_t width) {
    while (!done() && offer(beam_search(graph_, best_.peak_bytes - 1, width, safe_, work_))) {
    }
  }

  // First the bound itself; while that stays open, budgets halfway to the best known order.
  void probe_budgets(int64_t slice) {
    int64_t lowest_open = best_.lower_bound_bytes;  // budgets below are refuted
    for (int probe = 0; probe < kProbesPerRound && !done();) {
      const int64_t budget = std::max(lowest_open, best_.lower_bound_bytes);
      if (budget >= best_.peak_bytes) return;
      const Verdict verdict = probe_budget(budget, slice);
      if (verdict != Verdict::kUnknown) continue;
      ++probe;
      lowest_open = budget + (best_.peak_bytes - budget + 1) / 2;
    }
  }

  Verdict probe_budget(int64_t budget_bytes, int64_t slice) {
    const double seconds_left = options_.max_seconds - work_.seconds();
    WorkBudget part(std::min(slice, work_.remaining()), seconds_left);
    BudgetAnswer answer = search_within(graph_, budget_bytes, safe_, options_.memo_bytes, part);
    work_.spend(std::max<int64_t>(part.used(), 1));
    if (answer.verdict == Verdict::kFound) offer(std::move(answer.sequence));
    if (answer.verdict == Verdict::kImpossible) raise_bound(answer.next_budget_bytes);
    memo_full_ = answer.verdict == Verdict::kUnknown && !part.exhausted();
    return answer.verdict;
  }

  const OrderGraph& graph_;
  const OrderOptions& options_;
  SafeMoveOptions safe_;
  WorkBudget work_;
  PartAnswer best_;
  bool memo_full_ = false;  // more work would not help the exact search
};

}  // namespace

PartAnswer solve_part(const OrderGraph& graph, const OrderOptions& options) {
  return Portfolio(graph, options).run();
}

}  // namespace lowtide::order
