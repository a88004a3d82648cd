#include "order/portfolio.h"

#include <algorithm>

#include "order/beam.h"
#include "order/exact_search.h"
#include "order/heuristics.h"
#include "order/prefix.h"

namespace lowtide::order {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md. Each round has a longer slice of
// work than the one before; cuts and beams may use a fixed multiple of it, so that no one method
// starves the others.
struct PortfolioTuning {
  int64_t first_slice = 320'000;            // units of the first exact probe
  int64_t slice_growth = 4;                 // of the slice, from round to round
  int64_t cut_slices = 50;                  // of a round, for cuts
  int64_t beam_slices = 50;                 // of a round, for beams
  int64_t list_share = 16;                  // a list rule may use this part of all work
  int probes_per_round = 4;                 // budgets that one round leaves undecided
  size_t first_beam = 4;                    // states; each next beam has twice as many
  size_t widest_beam = 4096;                // states: for the memory that they take
  int64_t memo_bytes = int64_t{256} << 20;  // of what the exact search remembers
};
constexpr PortfolioTuning kTuning;

class Portfolio {
 public:
  Portfolio(const OrderGraph& graph, const OrderOptions& options)
      : graph_(graph), options_(options), work_(options.limits, kUnitsPerStep), cuts_(graph) {
    safe_.single = options.safe_moves;
    safe_.excursions = options.excursions;
  }

  PartAnswer run() {
    best_.sequence = given_order(graph_);
    best_.peak_bytes = peak_of(graph_, best_.sequence);
    best_.lower_bound_bytes = largest_op_bytes(graph_);
    try_lists();
    make_bound();
    try_greedy();
    search();
    best_.units = work_.used();
    best_.exhausted = work_.exhausted() || idle_units_left() <= 0;
    best_.timed_out = work_.timed_out();
    return std::move(best_);
  }

 private:
  bool done() const { return best_.optimal() || work_.exhausted() || idle_units_left() <= 0; }

  // How much more work may pass without a better order or bound: options.idle_units since the last
  // one, or as much as it took to find that.
  int64_t idle_units_left() const {
    return std::max(options_.idle_units, improved_at_) + improved_at_ - work_.used();
  }

  // True if the order is better than the best so far. What it took to find is spent before.
  bool offer(std::vector<OpId> sequence) {
    if (sequence.empty()) return false;
    const int64_t peak = peak_of(graph_, sequence, best_.peak_bytes);
    LT_CHECK(sequence.size() == graph_.size() && peak >= best_.lower_bound_bytes,
             "an order beats the bound: the bound is wrong");
    if (peak >= best_.peak_bytes) return false;
    best_.peak_bytes = peak;
    best_.sequence = std::move(sequence);
    improved_at_ = work_.used();
    return true;
  }

  void raise_bound(int64_t bytes) {
    LT_CHECK(bytes <= best_.peak_bytes, "a proven bound is above a known order");
    if (bytes <= best_.lower_bound_bytes) return;
    best_.lower_bound_bytes = bytes;
    improved_at_ = work_.used();
  }

  void try_lists() {
    for (auto* rule : {least_peak_first, most_freed_first}) {
      if (!options_.list_rules || done()) break;
      WorkBudget part = slice_of_work(options_.limits.max_units / kTuning.list_share);
      std::vector<OpId> sequence = rule(graph_, part);
      work_.spend(part.steps_used());
      offer(std::move(sequence));
    }
    for (BranchRule rule : {BranchRule::kGiven, BranchRule::kFanOut, BranchRule::kBytes}) {
      if (!options_.post_orders || done()) break;
      work_.spend(static_cast<int64_t>(graph_.size()));
      offer(post_order(graph_, rule));
    }
  }

  void make_bound() {
    if (!options_.cut_bound) return;
    // The better the known order, the fewer cuts: a pass of the greedy and some short searches
    // first.
    if (options_.closure_greedy && !done()) offer(greedy(TieBreak::kGiven, 0, false));
    if (options_.exact_search) halve_gap(kTuning.first_slice);
    improve_bound(kTuning.cut_slices * kTuning.first_slice);
  }

  void improve_bound(int64_t units) {
    WorkBudget part = slice_of_work(units);
    cuts_.improve(best_.sequence, part);
    work_.spend(part.steps_used());
    if (!cuts_.best()) return;
    best_.cut = cuts_.best();
    raise_bound(best_.cut->bytes);
  }

  WorkBudget slice_of_work(int64_t units) const {
    const int64_t most = std::min(work_.remaining(), std::max<int64_t>(idle_units_left(), 1));
    const Limits limits = options_.limits.after(work_.seconds()).with_units(std::min(units, most));
    return WorkBudget(limits, kUnitsPerStep);
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

  // Rounds of exact probes, beams and what is left of the cuts, each round with more work than the
  // last.
  void search() {
    int64_t slice = kTuning.first_slice;
    beam_width_ = kTuning.first_beam;
    for (int round = 0; !done(); ++round, slice *= kTuning.slice_growth) {
      const bool beams_left = options_.beam && beam_width_ <= kTuning.widest_beam;
      const bool cuts_left = options_.cut_bound && !cuts_.finished();
      const bool probes_left = options_.exact_search && !memo_full_;
      const bool greedy_left = options_.closure_greedy && round < 2;
      if (!beams_left && !cuts_left && !probes_left && !greedy_left) return;
      if (probes_left) probe_budgets(slice);
      if (greedy_left && round == 0 && !done()) offer(greedy(TieBreak::kGiven, 0, true));
      if (greedy_left && round == 1) restart_greedy();
      if (beams_left && !done()) run_beams(kTuning.beam_slices * slice);
      if (cuts_left && !done()) improve_bound(kTuning.cut_slices * slice);
    }
  }

  void restart_greedy() {
    for (int restart = 1; restart <= options_.random_restarts && !done(); ++restart)
      offer(greedy(TieBreak::kRandom, static_cast<uint64_t>(restart), false));
  }

  // Bisects the budget with beams of one width: a tight budget guides a beam, and one that is too
  // tight ends it soon. The next round has a wider beam if this one could finish.
  void run_beams(int64_t units) {
    WorkBudget part = slice_of_work(units);
    int64_t least = best_.lower_bound_bytes, spent = 0;
    while (least < best_.peak_bytes && !part.exhausted()) {
      const int64_t budget = least + (best_.peak_bytes - least) / 2;
      std::vector<OpId> sequence = beam_search(graph_, budget, beam_width_, safe_, part);
      work_.spend(part.steps_used() - spent);
      spent = part.steps_used();
      if (!offer(std::move(sequence))) least = budget + 1;
    }
    if (!part.exhausted()) beam_width_ *= 2;
    if (spent == 0) work_.spend(1);  // no round is free: the search ends
  }

  // Budgets halfway between bound and best known order, as long as they are decided at once.
  void halve_gap(int64_t slice) {
    while (!done()) {
      const int64_t gap = best_.peak_bytes - best_.lower_bound_bytes;
      if (probe_budget(best_.lower_bound_bytes + gap / 2, slice) == Verdict::kUnknown) return;
    }
  }

  // First the bound itself; while that stays open, budgets halfway to the best known order.
  void probe_budgets(int64_t slice) {
    int64_t lowest_open = best_.lower_bound_bytes;  // budgets below are refuted
    for (int probe = 0; probe < kTuning.probes_per_round && !done();) {
      const int64_t budget = std::max(lowest_open, best_.lower_bound_bytes);
      if (budget >= best_.peak_bytes) return;
      const Verdict verdict = probe_budget(budget, slice);
      if (verdict != Verdict::kUnknown) continue;
      ++probe;
      lowest_open = budget + (best_.peak_bytes - budget + 1) / 2;
    }
  }

  Verdict probe_budget(int64_t budget_bytes, int64_t slice) {
    WorkBudget part = slice_of_work(slice);
    BudgetAnswer answer = search_within(graph_, budget_bytes, safe_, kTuning.memo_bytes, part);
    work_.spend(std::max<int64_t>(part.steps_used(), 1));
    if (answer.verdict == Verdict::kFound) offer(std::move(answer.sequence));
    if (answer.verdict == Verdict::kImpossible) raise_bound(answer.next_budget_bytes);
    memo_full_ = answer.verdict == Verdict::kUnknown && !part.exhausted();
    return answer.verdict;
  }

  const OrderGraph& graph_;
  const OrderOptions& options_;
  SafeMoveOptions safe_;
  WorkBudget work_;
  CutBound cuts_;
  PartAnswer best_;
  int64_t improved_at_ = 0;  // the work when a better order or bound was last found
  size_t beam_width_ = 1;
  bool memo_full_ = false;  // more work would not help the exact search
};

}  // namespace

PartAnswer solve_part(const OrderGraph& graph, const OrderOptions& options) {
  return Portfolio(graph, options).run();
}

}  // namespace lowtide::order
