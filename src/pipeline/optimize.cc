#include "pipeline/optimize.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "pipeline/budget.h"
#include "pipeline/claims.h"
#include "pipeline/more_memory.h"
#include "pipeline/named_runs.h"
#include "pipeline/parts_floor.h"
#include "pipeline/prepare.h"
#include "pipeline/settle_sums.h"
#include "pipeline/smallest.h"
#include "pipeline/split.h"
#include "plan/sequence_simulator.h"
#include "remat/bounds/time_bound.h"

namespace lowtide::pipeline {

OptimizeOptions::OptimizeOptions() = default;
OptimizeOptions::OptimizeOptions(const OptimizeOptions&) = default;
OptimizeOptions::OptimizeOptions(OptimizeOptions&&) noexcept = default;
OptimizeOptions& OptimizeOptions::operator=(const OptimizeOptions&) = default;
OptimizeOptions& OptimizeOptions::operator=(OptimizeOptions&&) noexcept = default;
OptimizeOptions::~OptimizeOptions() = default;

Optimized::Optimized() = default;
Optimized::Optimized(const Optimized&) = default;
Optimized::Optimized(Optimized&&) noexcept = default;
Optimized& Optimized::operator=(const Optimized&) = default;
Optimized& Optimized::operator=(Optimized&&) noexcept = default;
Optimized::~Optimized() = default;

void keep_given_order(OptimizeOptions& options) {
  order::OrderOptions& order = options.order;
  order.list_rules = order.post_orders = order.closure_greedy = false;
  order.exact_search = order.beam = false;
  order.random_restarts = options.pack_retries = 0;
  options.schedule.remat.reorder = options.sums = false;
}

std::string_view in_which_parts(const OptimizeOptions& options) {
  return options.split.whole() && options.cuts.empty() ? "in one part" : "in these parts";
}

Result<int64_t> least_bytes(const ir::Graph& forward, const OptimizeOptions& options) {
  if (options.split.chosen()) return least_bytes_in_parts(forward, options);
  LT_ASSIGN(const Prepared ready, pose(forward, options));
  const plan::ScheduleProblem& problem = ready.view.problem;
  const int64_t floor = floor_of_view(ready.view, options.schedule.transfers).bytes;
  if (!once_only(problem, options)) return floor;
  return std::max(floor, order::solve(problem, options.order).lower_bound_bytes);
}

namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct AnotherOrderTuning {
  double worth = 0.01;  // of every op once: what another order of the sums must promise
  int64_t share = 4;    // of the work: the part of it for that
};
constexpr AnotherOrderTuning kAnotherOrder;

// Whether a bound on all orders of the sums leaves room below the time that one order takes. A hint
// for where to spend work, no proof: contributions are priced with accumulators, which one of each
// sum does without.
bool may_gain(const Prepared& any_order, const OptimizeOptions& options,
              const plan::SequenceProfile& found) {
  const double worth = kAnotherOrder.worth * found.once_seconds;
  if (found.seconds <= found.once_seconds + worth) return false;
  plan::ScheduleProblem problem = analysis::relaxed_sums(any_order.view);
  if (!options.schedule.transfers) plan::forbid_transfers(problem);
  problem.budget_bytes = options.budget_bytes;
  remat::TimeBoundOptions asked;
  asked.several = false;
  return remat::time_bound(problem, asked).lower_bound_seconds + worth < found.seconds;
}

// By what the order of each sum is settled: where there is a schedule to start from, by that, as it
// would be none of another order; otherwise by the best order found.
Solution order_of_sums(const Prepared& any_order, const OptimizeOptions& options) {
  if (options.starts.empty()) return any_order.unlimited;
  const plan::ScheduleProblem& problem = any_order.view.problem;
  IdVector<plan::SchedOpId, char> has_run(problem.ops.size(), 0);
  std::vector<plan::SchedAction> once;
  for (const plan::SchedAction& action : named_runs(problem, options.starts.front()))
    if (!std::exchange(has_run[action.op], 1)) once.push_back(action);
  Result<Solution> packed = pack_schedule(any_order.view, std::move(once), options);
  return packed.value_or(any_order.unlimited);
}

// What is asked of the floor of a chain: no plan claims more than what holds of all orders, and
// where a schedule within the budget is known, the floor is none above it.
remat::FloorQuestion asked_of_chain(const Prepared& chain, const OptimizeOptions& options) {
  const plan::ScheduleProblem& problem = chain.view.problem;
  remat::FloorQuestion question{.enough = chain.floor->bytes,
                                .first = op_named(problem, chain.floor->op)};
  const int64_t budget = *options.budget_bytes;
  for (const std::vector<std::string>& start : options.starts) {
    const auto profile = plan::simulate_sequence(problem, named_runs(problem, start));
    if (profile && profile->peak_bytes <= budget) return question;
  }
  question.budget = budget;
  return question;
}

// First the chains of sums in the order that was found, whose ops may run again; where they miss
// the budget, or much faster might be possible, sums in any order, whose ops run once. `ready`
// becomes what the solution is of. A budget is only called infeasible where that holds whatever the
// order.
Result<BudgetSolution> fit_with_sums(Prepared& ready, const OptimizeOptions& options,
                                     Clock::time_point start) {
  const auto rest = [&] { return after(options, seconds_since(start)); };
  if (ready.view.sums.empty() || ready.floor->bytes > *options.budget_bytes)
    return fit_budget(ready.view, rest(), ready.order.sequence, ready.unlimited, *ready.floor);
  Prepared any_order = std::move(ready);
  LT_ASSIGN(ready, settle_sums(any_order, order_of_sums(any_order, options), options));
  ready.settled_floor =
      proven_floor(ready.view.problem, options.schedule.transfers, asked_of_chain(ready, options));
  const bool chain_is_too_large = ready.settled_floor->bytes > *options.budget_bytes;
  Result<BudgetSolution> chained =
      chain_is_too_large
          ? error(ErrorCode::kInfeasible, "the chain of the sums needs more")
          : fit_budget(ready.view, rest(), ready.order.sequence, ready.unlimited, *ready.floor);
  if (!chained && !is_about_budget(chained.error())) return chained;
  OptimizeOptions other = rest();
  if (chained) {
    if (chained->cut_short || !may_gain(any_order, options, chained->solution.profile))
      return chained;
    other.schedule.remat.limits.max_units /= kAnotherOrder.share;
    other.schedule.swap.limits.max_units /= kAnotherOrder.share;
  }
  other.find_smallest &= chain_is_too_large;
  Result<BudgetSolution> any = fit_budget(any_order.view, other, any_order.order.sequence,
                                          any_order.unlimited, *any_order.floor);
  if (!any) return chain_is_too_large ? any : chained;
  if (chained) any->seconds += chained->seconds;
  if (chained && any->solution.profile.seconds >= chained->solution.profile.seconds) return chained;
  ready = std::move(any_order);
  return any;
}

}  // namespace

OptimizeOptions cut_as(OptimizeOptions options, const Optimized& made) {
  options.split = made.split;
  options.query_blocks = made.query_blocks;
  options.cuts = made.cuts;
  if (options.rewrites.with != made.asked_rewrites) options.parts_floor.reset();  // as in a trial
  options.rewrites.with = made.asked_rewrites;
  return options;
}

// NOLINTNEXTLINE(misc-no-recursion): a split that is to be chosen asks again with chosen ones
Result<Optimized> optimize(const ir::Graph& forward, const OptimizeOptions& options) {
  if (options.split.chosen()) return optimize_in_parts(forward, options);
  const auto start = Clock::now();
  LT_ASSIGN(Prepared ready, prepare(forward, options));
  if (options.budget_bytes) find_floor(ready, options);
  BudgetSolution solved{ready.unlimited, plan::SolveStatus::kOptimal, {}};
  const double searched = search_part(ready.view.problem, options);
  std::optional<MoreMemory> more_memory;
  if (!fits(ready.unlimited, options)) {
    LT_RETURN_IF_ERROR(check_order_bound(ready, options));
    StageClock stage(ready.stages);
    OptimizeOptions searching = options;
    searching.progress = plan::part_of(options.progress, 0, searched);
    LT_ASSIGN(solved, fit_with_sums(ready, searching, start));
    stage.done("schedule");
    if (options.look_further && !solved.cut_short) {
      const OptimizeOptions rest = after(options, seconds_since(start));
      more_memory = with_more_memory(ready.view, rest, ready.order.sequence, solved.solution,
                                     ready.unlimited);
      stage.done("more memory");
    }
  }
  OptimizeOptions writing = after(options, seconds_since(start));
  writing.progress = plan::part_of(options.progress, searched, 1);
  LT_ASSIGN(Optimized result, write(ready, solved, writing));
  result.more_memory = more_memory;
  result.planning_seconds = seconds_since(start);
  return result;
}

Result<std::optional<int64_t>> smallest_arena(const ir::Graph& forward,
                                              const OptimizeOptions& options) {
  const auto start = Clock::now();
  LT_ASSIGN(Prepared ready, prepare(forward, options));
  find_floor(ready, options);
  if (!ready.view.sums.empty()) {
    const Prepared any_order = std::move(ready);
    LT_ASSIGN(ready, settle_sums(any_order, order_of_sums(any_order, options), options));
  }
  const OptimizeOptions rest = after(options, seconds_since(start));
  LT_ASSIGN(const std::optional<Solution> found,
            find_smallest(ready.view, rest, ready.unlimited, ready.floor->bytes));
  return found ? std::optional(found->arena_bytes) : std::nullopt;
}

}  // namespace lowtide::pipeline
