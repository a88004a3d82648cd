#include "pipeline/optimize.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "analysis/describe.h"
#include "analysis/schedule_view.h"
#include "base/bytes.h"
#include "base/file.h"
#include "cost/roofline.h"
#include "pipeline/budget.h"
#include "pipeline/claims.h"
#include "pipeline/solution.h"
#include "pipeline/write_plan.h"
#include "plan/pack_text.h"
#include "plan/schedule_simulator.h"
#include "plan/schedule_text.h"
#include "rewrite/layouts.h"

namespace lowtide::pipeline {
namespace {

using plan::SchedOpId;
using Clock = std::chrono::steady_clock;

// Wall time of each stage, for the report.
class StageClock {
 public:
  explicit StageClock(std::vector<Stage>& stages) : stages_(stages) {}
  void done(std::string name) {
    const auto now = Clock::now();
    stages_.push_back({std::move(name), std::chrono::duration<double>(now - last_).count()});
    last_ = now;
  }

 private:
  std::vector<Stage>& stages_;
  Clock::time_point last_ = Clock::now();
};

Result<analysis::OpCosts> op_costs(const ir::Graph& graph, const OptimizeOptions& options,
                                   cost::Coverage& coverage) {
  analysis::OpCosts costs;
  LT_ASSIGN(costs.seconds, cost::all_op_seconds(graph, options.device));
  costs.workspace_bytes = IdVector<ir::OpId, int64_t>(graph.op_count(), 0);
  if (options.kernels == nullptr) return costs;
  const cost::Estimator estimator(options.device, options.costs ? &*options.costs : nullptr);
  constexpr int kMostNamed = 8;
  std::string named;
  int missing = 0;
  for (ir::OpId id : graph.ops()) {
    if (analysis::is_view_op(graph, id)) continue;
    LT_ASSIGN(const plan::OpDesc desc, analysis::describe(graph, id));
    LT_ASSIGN(const cost::Estimate estimate, estimator.estimate(desc));
    costs.seconds[id] = estimate.seconds;
    coverage.add(estimate);
    const auto bytes = options.kernels->workspace_bytes(desc);
    if (bytes)
      costs.workspace_bytes[id] = *bytes;
    else if (++missing <= kMostNamed)
      named += fmt::format("{}op '{}': {}", named.empty() ? "" : "; ", graph.op(id).name,
                           bytes.error().message);
  }
  if (missing > kMostNamed)
    named += fmt::format("; and {} more, {} in all", missing - kMostNamed, missing);
  if (missing > 0) return error(ErrorCode::kInput, std::move(named));
  return costs;
}

Status dump(const std::string& folder, const char* file, const std::string& text) {
  return folder.empty() ? Status() : write_file_atomically(folder + "/" + file, text);
}

// Everything that does not depend on the budget.
struct Prepared {
  ir::Graph graph;
  analysis::OpCosts costs;
  analysis::ScheduleView view;
  int64_t peak_before_bytes = 0;
  plan::ScheduleOutcome order;
  Solution unlimited;
  cost::Coverage coverage;
  std::vector<Stage> stages;
};

Result<Prepared> prepare(const ir::Graph& forward, const OptimizeOptions& options) {
  Prepared ready;
  StageClock stage(ready.stages);
  ready.graph = forward;
  if (options.training) {
    LT_ASSIGN(ready.graph, autodiff::make_training_graph(forward, *options.training));
    stage.done("autodiff");
  }
  if (options.kernels != nullptr) {
    LT_ASSIGN(rewrite::LayoutReport layouts,
              rewrite::choose_layouts(ready.graph, *options.kernels));
    ready.graph = std::move(layouts.graph);
    stage.done("layouts");
  }
  LT_ASSIGN(ready.costs, op_costs(ready.graph, options, ready.coverage));
  LT_ASSIGN(ready.view, analysis::make_schedule_view(ready.graph, ready.costs,
                                                     options.device.alignment_bytes, options.link));
  stage.done("costs");

  const plan::ScheduleProblem& problem = ready.view.problem;
  LT_RETURN_IF_ERROR(dump(options.dump_folder, "order.txt", plan::print(problem)));
  const std::vector<SchedOpId> program(problem.ops.ids().begin(), problem.ops.ids().end());
  LT_ASSIGN(const plan::ScheduleProfile before,
            plan::simulate(problem, program, /*in_place=*/false));
  ready.peak_before_bytes = before.peak_bytes;
  ready.order = order::solve(problem, options.order);
  if (ready.order.sequence.empty() && !program.empty())
    return error(ErrorCode::kLimit, "the work limit ended before any order was found; raise it");
  stage.done("order");
  LT_ASSIGN(ready.unlimited, pack_best_order(ready.view, ready.order, options));
  LT_RETURN_IF_ERROR(dump(
      options.dump_folder, "pack.csv",
      plan::print_pack_csv(ready.unlimited.buffers.problem, &ready.unlimited.packing.offsets)));
  stage.done("addresses");
  return ready;
}

Result<Optimized> write(const Prepared& ready, const BudgetSolution& solved,
                        const OptimizeOptions& options) {
  Optimized result;
  const Solution& solution = solved.solution;
  LT_ASSIGN(result.plan,
            write_plan({ready.graph, ready.view, ready.costs, solution.sequence, solution.profile,
                        solution.buffers, solution.packing, solution.slots,
                        options.device.alignment_bytes, options.slow_tier_name}));
  result.plan.claims =
      make_claims({ready.graph, ready.view, ready.order, solution, ready.peak_before_bytes,
                   options.budget_bytes, options.schedule.transfers});
  result.order_status = ready.order.status;
  result.search_bound_bytes =
      std::max(ready.order.lower_bound_bytes, result.plan.claims.lower_bound_bytes);
  result.pack_status = solution.packing.status;
  result.order_work = ready.order.work;
  result.pack_work = solution.packing.work;
  result.schedule_status = solved.status;
  result.schedule_work = solved.work;
  result.costs = ready.coverage;
  result.stages = ready.stages;
  return result;
}

bool fits(const Solution& solution, const OptimizeOptions& options) {
  return !options.budget_bytes || solution.arena_bytes <= *options.budget_bytes;
}

std::vector<plan::SchedAction> runs_of(const std::vector<plan::SchedAction>& sequence) {
  std::vector<plan::SchedAction> runs;
  for (const plan::SchedAction& action : sequence)
    if (action.kind == plan::SchedAction::Kind::kRun) runs.push_back(action);
  return runs;
}

// A plan for less memory that is as fast is as good for more.
void make_monotone(std::vector<BudgetSolution>& solved, const std::vector<char>& found) {
  for (size_t i = solved.size(); i-- > 1;) {
    if (!found[i]) continue;
    if (solved[i].solution.profile.seconds <= solved[i - 1].solution.profile.seconds)
      solved[i - 1] = solved[i];
  }
}

}  // namespace

Result<Optimized> optimize(const ir::Graph& forward, const OptimizeOptions& options) {
  const auto start = Clock::now();
  LT_ASSIGN(Prepared ready, prepare(forward, options));
  BudgetSolution solved{ready.unlimited, plan::SolveStatus::kOptimal, {}};
  if (!fits(ready.unlimited, options)) {
    StageClock stage(ready.stages);
    LT_ASSIGN(solved, fit_budget(ready.view, options, ready.unlimited));
    stage.done("schedule");
  }
  StageClock stage(ready.stages);
  LT_ASSIGN(Optimized result, write(ready, solved, options));
  stage.done("plan");
  result.stages = ready.stages;
  result.planning_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

Result<Front> optimize_front(const ir::Graph& forward, const OptimizeOptions& options,
                             const ChooseBudgets& choose) {
  const auto start = Clock::now();
  LT_ASSIGN(const Prepared ready, prepare(forward, options));
  const BudgetSolution whole{ready.unlimited, plan::SolveStatus::kOptimal, {}};
  OptimizeOptions at = options;
  at.budget_bytes.reset();
  Front front;
  LT_ASSIGN(front.unlimited, write(ready, whole, at));
  front.floor_bytes = floor_bytes(ready.view.problem, options.schedule.transfers);
  std::vector<int64_t> budgets = choose(front.floor_bytes, ready.unlimited.arena_bytes);
  std::sort(budgets.rbegin(), budgets.rend());

  std::vector<BudgetSolution> solved;
  std::vector<char> found;
  for (int64_t budget : budgets) {
    at.budget_bytes = budget;
    front.points.push_back({budget, {}, {}});
    Result<BudgetSolution> fitted = whole;
    if (!fits(ready.unlimited, at)) fitted = fit_budget(ready.view, at, ready.unlimited);
    found.push_back(fitted.has_value());
    solved.push_back(fitted ? std::move(*fitted) : BudgetSolution{});
    if (fitted)
      at.schedule.remat.starts = {runs_of(solved.back().solution.sequence)};
    else if (fitted.error().code == ErrorCode::kInternal)
      return tl::unexpected(fitted.error());
    else
      front.points.back().missed = fitted.error().message;
  }
  make_monotone(solved, found);
  for (size_t i = 0; i < front.points.size(); ++i) {
    if (!found[i]) continue;
    at.budget_bytes = front.points[i].budget_bytes;
    LT_ASSIGN(front.points[i].made, write(ready, solved[i], at));
    front.points[i].made->planning_seconds =
        std::chrono::duration<double>(Clock::now() - start).count();
  }
  return front;
}

}  // namespace lowtide::pipeline
