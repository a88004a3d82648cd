#include "remat/remat.h"

#include <algorithm>

#include "order/order.h"
#include "plan/sequence_simulator.h"
#include "plan/tick_scale.h"
#include "remat/bounds/branch_cut.h"
#include "remat/bounds/cut_plan.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/time_bound.h"
#include "remat/search/by_states.h"
#include "remat/search/portfolio.h"
#include "remat/starts/chain_plan.h"
#include "remat/starts/greedy_start.h"
#include "remat/starts/known_starts.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
// What comes before the retention search takes the same work whatever the limit is, or a share of
// it: more work then never leaves less for it, nor other starts.
struct SolveTuning {
  int64_t most_order_units = 320'000'000;  // for the order with the least peak
  int64_t order_units_per_op = 32'000;     // the same, of few ops
  int64_t units_per_simulated_action = 50;
  int64_t most_units_by_states = 10'000'000;  // for all states, and of all work:
  int64_t parts_by_states = 3, parts = 4;     // so many parts
  // With fewer, annealing mixes the choices of a cut itself, and finds more than that. What the mix
  // is worth with more: "Scale".
  size_t many_ops = 10'000;
  int mixes = 5;  // made of a cut, each for less memory
};
constexpr SolveTuning kSolve;

using plan::SchedAction;
using plan::ScheduleProblem;

std::vector<SchedAction> actions_of(const std::vector<SchedOpId>& runs) {
  std::vector<SchedAction> sequence;
  sequence.reserve(runs.size());
  for (const SchedOpId op : runs) sequence.push_back(SchedAction::run(op));
  return sequence;
}

bool only_runs(const std::vector<SchedAction>& sequence) {
  return std::all_of(sequence.begin(), sequence.end(),
                     [](const SchedAction& a) { return a.kind == SchedAction::Kind::kRun; });
}

std::vector<SchedOpId> ops_run(const std::vector<SchedAction>& sequence) {
  std::vector<SchedOpId> runs;
  runs.reserve(sequence.size());
  for (const SchedAction& action : sequence) runs.push_back(action.op);
  return runs;
}

class Solve {
 public:
  Solve(const ScheduleProblem& problem, const RematOptions& options)
      : problem_(problem),
        options_(options),
        // That the flag was raised is no matter of time: cut_short says it.
        clock_({options.limits.max_units, options.limits.max_seconds}),
        scale_(problem),
        bound_ticks_(scale_.once()) {
    for (const plan::SchedOp& op : problem.ops) outcome_.lower_bound_seconds += op.seconds;
  }

  RematOutcome run() {
    if (problem_.budget_bytes && options_.exact_small && options_.reorder && try_exactly())
      return finish(outcome_.sequence.empty() ? plan::SolveStatus::kInfeasible
                                              : plan::SolveStatus::kOptimal);
    find_starts();
    if (infeasible_) return finish(plan::SolveStatus::kInfeasible);
    if (!problem_.budget_bytes) {
      take(starts_.front());
      return finish(plan::SolveStatus::kFeasible);
    }
    take_best_start();
    if (is_optimal()) return finish(plan::SolveStatus::kOptimal);
    if (*problem_.budget_bytes < problem_.resident_bytes)
      return finish(plan::SolveStatus::kInfeasible);
    if (may_change()) run_search();
    if (options_.proof_units > 0) prove();
    if (is_optimal()) return finish(plan::SolveStatus::kOptimal);
    if (options_.cut_bound && outcome_.sequence.empty() &&
        floor_of(problem_, {.enough = 0, .budget = *problem_.budget_bytes}).bytes >
            *problem_.budget_bytes)
      return finish(plan::SolveStatus::kInfeasible);
    return finish(outcome_.cut_short || outcome_.sequence.empty() ? plan::SolveStatus::kLimit
                                                                  : plan::SolveStatus::kFeasible);
  }

 private:
  // True: answered.
  bool try_exactly() {
    if (problem_.ops.empty() || problem_.ops.size() > kByStates.most_ops) return false;
    const int64_t units =
        std::min(kSolve.most_units_by_states,
                 options_.limits.max_units / kSolve.parts * kSolve.parts_by_states);
    const ByStatesResult exact =
        solve_by_states(table(), options_.limits.after(clock_.seconds()).with_units(units));
    clock_.spend(std::min(exact.units, units));
    if (!exact.complete) return false;
    if (exact.best) {
      take(*exact.best);
      raise_bound(ticks_, outcome_.seconds);
    }
    return true;
  }

  void find_starts() {
    std::vector<SchedOpId> order(problem_.ops.ids().begin(), problem_.ops.ids().end());
    const std::vector<SchedOpId> incoming = order;
    if (!options_.least_peak_order.empty()) {
      order.assign(options_.least_peak_order.begin(), options_.least_peak_order.end());
      add_start(actions_of(order));
    } else if (options_.reorder && (options_.order_start || !problem_.budget_bytes)) {
      const plan::ScheduleOutcome least = remat::least_peak_order(problem_, options_);
      clock_.spend(least.work.units);
      if (!least.sequence.empty()) order = least.sequence;
      add_start(actions_of(order));
    }
    for (const auto& start : options_.starts)
      if (only_runs(start)) add_start(start);
    if (!problem_.budget_bytes) {
      if (starts_.empty()) add_start(actions_of(incoming));
      return;
    }
    add_cut(order);
    // Those who have schedules to start from ask often, and need no more of them.
    const bool all_starts = options_.all_starts || options_.starts.empty();
    const bool is_large = problem_.ops.size() >= kSolve.many_ops;
    if (options_.greedy_start && all_starts && !infeasible_ && !is_large) add_greedy(order);
    if (options_.chain_start && all_starts && !infeasible_) add_chain(order);
    if (options_.greedy_start && !infeasible_ && (is_large || options_.mend_starts))
      mend_starts(order);
    if (order != incoming || starts_.empty()) add_start(actions_of(incoming));
  }

  void add_cut(const std::vector<SchedOpId>& order) {
    if (!options_.cut_bound && !options_.cut_start) return;
    ask_for_bound(order);
    const CutBoundResult cut = cut_by(order);
    if (!options_.cut_start || !cut.feasible) return;
    auto plan = plan_from_cut(problem_, cut, order);
    if (plan && !only_runs(*plan)) {  // a cut of schedules that move nothing
      const ClosureCutOptions without_link{
          .order = order, .limits = left().with_units(kClosureCut.most_units), .swap = false};
      plan = plan_from_cut(problem_, closure_cut(problem_, without_link), order);
    }
    if (plan && only_runs(*plan)) add_start(*plan);
    if (options_.mixed_start && problem_.ops.size() >= kSolve.many_ops) add_mixed_cut(cut, order);
  }

  // Annealing would take long to bring many layers from one choice to a mix of two. A mix fills the
  // budget while the cut's op runs; where its plan is above it at another moment, less is kept.
  void add_mixed_cut(const CutBoundResult& cut, const std::vector<SchedOpId>& order) {
    if (!cut.op || problem_.link) return;
    CutBoundResult mixed = cut;
    for (int i = 0; i < kSolve.mixes; ++i) {
      mixed.choice = cut.choice;
      mixed.choice = mixed_choice(problem_, mixed, order);
      const auto plan = plan_from_cut(problem_, mixed, order);
      const int64_t over = plan ? add_start(*plan) - *problem_.budget_bytes : 0;
      if (over <= 0 || mixed.choice.stored_bytes > mixed.capacity_bytes) return;
      mixed.capacity_bytes = mixed.choice.stored_bytes - over;  // another choice, at least as small
    }
  }

  // One moment is also a start. With a link, several are the business of who adds transfers.
  // A claim needs no bound where a start already takes no longer than each op once.
  void ask_for_bound(const std::vector<SchedOpId>& order) {
    const bool wanted = options_.bound && options_.cut_bound && !fits_once_;
    TimeBoundOptions asked = asked_by_search(wanted ? options_.bound : std::nullopt, left());
    if (!wanted) asked.order = order;
    asked.several &= options_.cut_bound && options_.several_cuts && !problem_.link;
    asked_order_.assign(asked.order.begin(), asked.order.end());
    bound_ = time_bound(problem_, asked);
    clock_.spend(std::min(bound_->several_work, bound_units(options_.limits)));
    if (wanted) outcome_.bound = bound_;
    if (!options_.cut_bound) return;
    raise_bound(bound_->bound_ticks, bound_->lower_bound_seconds);
    infeasible_ = !bound_->feasible;
  }

  // One moment, as this order shows it.
  CutBoundResult cut_by(const std::vector<SchedOpId>& order) {
    if (order == asked_order_) return bound_->by_order;
    CutBoundResult cut = closure_cut(
        problem_, {.order = order, .limits = left().with_units(kClosureCut.most_units)});
    if (options_.cut_bound) {
      raise_bound(scale_.once() + cut.bound_ticks, cut.lower_bound_seconds);
      infeasible_ |= !cut.feasible;
    }
    return cut;
  }

  void add_greedy(const std::vector<SchedOpId>& order) {
    const GreedyStart greedy = options_.known_starts != nullptr
                                   ? options_.known_starts->greedy(table(), order)
                                   : greedy_start(table(), order);
    clock_.spend(greedy.units);
    add_start(actions_of(greedy.sequence));
  }

  // Of very many ops, from an order to a schedule within the budget is a long way for greedy drops;
  // the cut's plans are most of the way already, and above the budget only around a few moments of
  // each layer.
  void mend_starts(const std::vector<SchedOpId>& order) {
    std::vector<std::vector<SchedOpId>> above;
    bool any_fits = false;
    for (size_t i = 0; i < starts_.size(); ++i) {
      const std::vector<SchedOpId>& start = starts_[i];
      if (start.size() == problem_.ops.size()) continue;
      const bool fits = of_starts_[i].peak_bytes <= *problem_.budget_bytes;
      any_fits |= fits;
      if (!fits && std::find(above.begin(), above.end(), start) == above.end())
        above.push_back(start);
    }
    if (above.empty() && !any_fits) above.push_back(order);
    for (const auto& start : above) add_greedy(start);
  }

  void add_chain(const std::vector<SchedOpId>& order) {
    const ChainStart chain = chain_start(table(), order);
    clock_.spend(chain.units);
    if (!chain.sequence.empty()) add_start(actions_of(chain.sequence));
  }

  void raise_bound(int64_t ticks, double seconds) {
    bound_ticks_ = std::max(bound_ticks_, ticks);
    outcome_.lower_bound_seconds = std::max(outcome_.lower_bound_seconds, seconds);
  }

  // Simulating it is work too: a caller with many schedules, of which each is the answer already,
  // would otherwise ask without end.
  // Returns its peak; 0 if it is no schedule.
  int64_t add_start(const std::vector<SchedAction>& sequence) {
    clock_.spend(kSolve.units_per_simulated_action * static_cast<int64_t>(sequence.size()));
    const auto profile = plan::simulate_sequence(problem_, sequence);
    if (!profile || !keeps_order(ops_run(sequence))) return 0;
    starts_.push_back(ops_run(sequence));
    of_starts_.push_back({profile->peak_bytes, profile->seconds});
    fits_once_ |= sequence.size() == problem_.ops.size() && problem_.budget_bytes &&
                  profile->peak_bytes <= *problem_.budget_bytes;
    return profile->peak_bytes;
  }

  // What simulation says of a schedule.
  struct Simulated {
    int64_t peak_bytes = 0;
    double seconds = 0;
  };

  // The schedule becomes the answer if it fits and is faster than what there is.
  void take(const std::vector<SchedOpId>& runs) {
    const auto profile = plan::simulate_sequence(problem_, actions_of(runs));
    if (profile && keeps_order(runs)) take(runs, {profile->peak_bytes, profile->seconds});
  }
  void take(const std::vector<SchedOpId>& runs, const Simulated& of_runs) {
    if (problem_.budget_bytes && of_runs.peak_bytes > *problem_.budget_bytes) return;
    if (!outcome_.sequence.empty() && of_runs.seconds >= outcome_.seconds) return;
    outcome_.sequence = actions_of(runs);
    ticks_ = 0;
    for (const SchedOpId op : runs) ticks_ += scale_.down(problem_.ops[op].seconds);
    outcome_.seconds = of_runs.seconds;
    outcome_.peak_bytes = of_runs.peak_bytes;
  }
  // First runs come in the given order, or it is no matter.
  bool keeps_order(const std::vector<SchedOpId>& runs) const {
    if (options_.reorder) return true;
    IdVector<SchedOpId, char> ran(problem_.ops.size(), 0);
    SchedOpId last;
    for (const SchedOpId op : runs) {
      if (std::exchange(ran[op], 1)) continue;
      if (last.valid() && op < last) return false;
      last = op;
    }
    return true;
  }

  void take_best_start() {
    for (size_t i = 0; i < starts_.size(); ++i) take(starts_[i], of_starts_[i]);
  }

  Limits left() const { return options_.limits.after(clock_.seconds()); }

  const ActionTable& table() {
    if (!table_) table_.emplace(problem_);
    return *table_;
  }

  bool is_optimal() const { return !outcome_.sequence.empty() && ticks_ <= bound_ticks_; }

  PortfolioOptions portfolio_options() const {
    PortfolioOptions result;
    result.proposals = {.order_moves = options_.order_moves && options_.reorder,
                        .stretch_moves = options_.stretch_moves,
                        .exchanges = options_.exchanges,
                        .keeps = options_.de_remat,
                        .aimed = options_.aimed_drops,
                        .aimed_moves = options_.aimed_moves,
                        .copies = options_.repeats};
    result.restarts = options_.restarts;
    result.limits = options_.limits;
    result.seed = options_.seed;
    result.threads = options_.threads;
    return result;
  }

  // In the given order with each op once there is one schedule.
  bool may_change() const {
    return options_.reorder || std::any_of(problem_.ops.begin(), problem_.ops.end(),
                                           [](const plan::SchedOp& op) { return op.may_rerun; });
  }

  // Where nothing is left to search with, the best start is the answer, and has been taken.
  void run_search() {
    report(0);
    if (options_.restarts && clock_.exhausted()) {
      outcome_.cut_short = clock_.timed_out() || options_.limits.stop_after(clock_.seconds());
      return;
    }
    const int64_t bound_beyond = bound_ticks_ - scale_.once();
    const PortfolioResult found = search(table(), starts_, bound_beyond, portfolio_options(),
                                         clock_, [this](const Found& best, double share) {
                                           if (!best.sequence.empty()) take(best.sequence);
                                           report(share);
                                         });
    outcome_.edits = found.edits;
    outcome_.cut_short = found.cut_short;
    if (!found.sequence.empty()) take(found.sequence);
  }

  void prove() {
    if (is_optimal() || problem_.link || outcome_.cut_short) return;
    if (!bound_)
      bound_ =
          time_bound(problem_, {.several = false, .limits = {.cancel = options_.limits.cancel}});
    BranchCutOptions options;
    options.limits = left().with_units(options_.proof_units);
    if (!outcome_.sequence.empty()) options.goal_seconds = outcome_.seconds;
    options.write_proof = false;
    options.progress = [this](double lower_bound_seconds, double share) {
      outcome_.lower_bound_seconds = std::max(outcome_.lower_bound_seconds, lower_bound_seconds);
      report(share, plan::SearchStage::kProof);
    };
    const BranchCutResult cases = branch_cut(problem_, bound_->by_order, options);
    clock_.spend(cases.work);
    outcome_.cut_short |= cases.cut_short;
    raise_bound(cases.bound_ticks, cases.lower_bound_seconds);
  }

  void report(double share, plan::SearchStage stage = plan::SearchStage::kRuns) const {
    if (!options_.progress) return;
    plan::Progress progress;
    progress.stage = stage;
    progress.lower_bound_seconds = outcome_.lower_bound_seconds;
    if (!outcome_.sequence.empty()) {
      progress.seconds = outcome_.seconds;
      progress.peak_bytes = outcome_.peak_bytes;
    }
    progress.share = share_of_all(std::clamp(share, 0.0, 1.0), stage);
    progress.budget_bytes = *problem_.budget_bytes;
    options_.progress(progress);
  }

  // The proof's work comes on top of the search's.
  double share_of_all(double share, plan::SearchStage stage) const {
    const auto proof = static_cast<double>(std::max<int64_t>(0, options_.proof_units));
    const auto search = static_cast<double>(std::max<int64_t>(1, options_.limits.max_units));
    const bool proves = stage == plan::SearchStage::kProof;
    return (proves ? search + share * proof : share * search) / (search + proof);
  }

  RematOutcome finish(plan::SolveStatus status) {
    outcome_.status = status;
    outcome_.work = {clock_.used(), clock_.seconds(),
                     clock_.timed_out() || clock_.seconds() > options_.limits.max_seconds};
    return std::move(outcome_);
  }

  const ScheduleProblem& problem_;
  const RematOptions& options_;
  WorkBudget clock_;
  std::optional<TimeBound> bound_;      // asked for once, if at all
  std::vector<SchedOpId> asked_order_;  // by which its first moment was judged
  bool fits_once_ = false;              // a start does, with each op once
  std::optional<ActionTable> table_;    // made when it is first asked for
  const plan::TickScale scale_;
  int64_t bound_ticks_, ticks_ = 0;  // of every schedule; of the best
  bool infeasible_ = false;
  std::vector<std::vector<SchedOpId>> starts_;  // correct, in the order that is asked for
  std::vector<Simulated> of_starts_;
  RematOutcome outcome_;
};

}  // namespace

plan::ScheduleOutcome least_peak_order(const ScheduleProblem& problem,
                                       const RematOptions& options) {
  const auto ops = static_cast<int64_t>(std::max<size_t>(1, problem.ops.size()));
  order::OrderOptions order_options;
  order_options.limits =
      options.limits.with_units(std::min(kSolve.most_order_units, kSolve.order_units_per_op * ops));
  order_options.threads = options.threads;
  return order::solve(problem, order_options);
}

RematOutcome solve(const ScheduleProblem& problem, const RematOptions& options) {
  return Solve(problem, options).run();
}

}  // namespace lowtide::remat
