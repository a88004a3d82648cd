#include "pipeline/optimize.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "pipeline/budget.h"
#include "pipeline/claims.h"
#include "pipeline/more_memory.h"
#include "pipeline/prepare.h"
#include "pipeline/settle_sums.h"

namespace lowtide::pipeline {
Result<int64_t> least_bytes(const ir::Graph& forward, const OptimizeOptions& options) {
  LT_ASSIGN(const Prepared ready, pose(forward, options));
  const plan::ScheduleProblem& problem = ready.view.problem;
  const int64_t floor =
      proven_floor(analysis::relaxed_sums(ready.view), options.schedule.transfers).bytes;
  if (!once_only(problem, options)) return floor;
  return std::max(floor, order::solve(problem, options.order).lower_bound_bytes);
}

namespace {

// First the chains of sums in the order that was found, whose ops may run again; where they miss the
// budget, sums in any order, whose ops run once. `ready` becomes what the solution is of. A budget is
// only called infeasible where that holds whatever the order.
Result<BudgetSolution> fit_with_sums(Prepared& ready, const OptimizeOptions& options,
                                     Clock::time_point start) {
  const auto refused = [&] {
    return proven_floor(analysis::relaxed_sums(ready.view), options.schedule.transfers).bytes >
           *options.budget_bytes;
  };
  if (ready.view.sums.empty() || refused())
    return fit_budget(ready.view, after(options, seconds_since(start)), ready.unlimited);
  Prepared any_order = std::move(ready);
  LT_ASSIGN(ready, settle_sums(any_order, any_order.unlimited, options));
  Result<BudgetSolution> chained =
      fit_budget(ready.view, after(options, seconds_since(start)), ready.unlimited);
  if (chained) return chained;
  OptimizeOptions rest = after(options, seconds_since(start));
  rest.find_smallest &= chained.error().code == ErrorCode::kInfeasible;
  Result<BudgetSolution> any = fit_budget(any_order.view, rest, any_order.unlimited);
  if (!any && chained.error().code != ErrorCode::kInfeasible) return chained;
  if (any) ready = std::move(any_order);
  return any;
}

}  // namespace

Result<Optimized> optimize(const ir::Graph& forward, const OptimizeOptions& options) {
  const auto start = Clock::now();
  LT_ASSIGN(Prepared ready, prepare(forward, options));
  BudgetSolution solved{ready.unlimited, plan::SolveStatus::kOptimal, {}};
  std::optional<MoreMemory> more_memory;
  if (!fits(ready.unlimited, options)) {
    LT_RETURN_IF_ERROR(check_order_bound(ready, options));
    StageClock stage(ready.stages);
    LT_ASSIGN(solved, fit_with_sums(ready, options, start));
    stage.done("schedule");
    if (options.look_further && !solved.cut_short) {
      const OptimizeOptions rest = after(options, seconds_since(start));
      more_memory = with_more_memory(ready.view, rest, ready.order.sequence, solved.solution,
                                     ready.unlimited);
      stage.done("more memory");
    }
  }
  LT_ASSIGN(Optimized result, write(ready, solved, after(options, seconds_since(start))));
  result.more_memory = more_memory;
  if (options.budget_bytes)
    result.floor_reason =
        floor_reason(analysis::relaxed_sums(ready.view), options.schedule.transfers);
  result.planning_seconds = seconds_since(start);
  return result;
}

}  // namespace lowtide::pipeline
