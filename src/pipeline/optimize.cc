#include "pipeline/optimize.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <numeric>

#include "analysis/describe.h"
#include "analysis/schedule_view.h"
#include "base/bytes.h"
#include "base/file.h"
#include "cost/roofline.h"
#include "pipeline/budget.h"
#include "pipeline/claims.h"
#include "pipeline/more_memory.h"
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

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

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
  result.cut_short = solved.cut_short || ready.order.work.timed_out;
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

// What a front knows of one budget.
struct Attempt {
  int64_t budget_bytes = 0;
  std::optional<BudgetSolution> solved;
  Error missed;  // where nothing was found
};

// The searches of a front. `attempts` have budgets that descend.
class FrontSearch {
 public:
  FrontSearch(const Prepared& ready, const OptimizeOptions& options, int64_t floor)
      : ready_(ready), options_(options), floor_(floor) {
    options_.schedule.remat.max_units = std::max<int64_t>(1, options.schedule.remat.max_units / 2);
    options_.schedule.swap.max_units = std::max<int64_t>(1, options.schedule.swap.max_units / 2);
    options_.pack.work_limit = std::max<int64_t>(1, options.pack.work_limit / 2);
  }

  // From more memory to less. Where nothing was found, less is not tried.
  Status descend(std::vector<Attempt>& attempts) {
    const Attempt* before = nullptr;
    for (Attempt& attempt : attempts) {
      if (before != nullptr && !before->solved)
        attempt.missed = {before->missed.code,
                          fmt::format("not tried, as {} bytes were missed", before->budget_bytes)};
      if (attempt.budget_bytes < floor_)
        attempt.missed = {
            ErrorCode::kInfeasible,
            fmt::format("{} bytes are too few: every schedule needs at least {} bytes",
                        attempt.budget_bytes, floor_)};
      if (attempt.missed.message.empty()) {
        LT_RETURN_IF_ERROR(search(attempt, {before}));
        before = &attempt;
      }
    }
    return {};
  }

  // From less memory to more: what does with less is a start for more.
  Status ascend(std::vector<Attempt>& attempts) {
    for (size_t i = attempts.size(); i-- > 0;) {
      const Attempt* less = i + 1 < attempts.size() ? &attempts[i + 1] : nullptr;
      const auto& solved = attempts[i].solved;
      if (solved && solved->status != plan::SolveStatus::kOptimal)
        LT_RETURN_IF_ERROR(search(attempts[i], {&attempts[i], less}));
    }
    return {};
  }

 private:
  static double seconds(const BudgetSolution& solved) { return solved.solution.profile.seconds; }

  Status search(Attempt& attempt, std::initializer_list<const Attempt*> neighbours) {
    options_.budget_bytes = attempt.budget_bytes;
    if (fits(ready_.unlimited, options_)) {
      attempt.solved = BudgetSolution{ready_.unlimited, plan::SolveStatus::kOptimal, {}};
      return {};
    }
    auto& starts = options_.schedule.remat.starts;
    starts.clear();
    for (const Attempt* neighbour : neighbours)
      if (neighbour != nullptr && neighbour->solved)
        starts.push_back(runs_of(neighbour->solved->solution.sequence));
    Result<BudgetSolution> found = fit_budget(ready_.view, options_, ready_.unlimited);
    if (found) {
      if (!attempt.solved || seconds(*found) < seconds(*attempt.solved))
        attempt.solved = std::move(*found);
      return {};
    }
    const Error& failure = found.error();
    if (failure.code != ErrorCode::kInfeasible && failure.code != ErrorCode::kLimit)
      return tl::unexpected(failure);
    if (!attempt.solved) attempt.missed = failure;
    return {};
  }

  const Prepared& ready_;
  OptimizeOptions options_;
  const int64_t floor_;
};

// Each plan is the fastest of all that fit, and of those as fast the one with the least arena.
void make_monotone(std::vector<Attempt>& attempts) {
  const auto better = [](const BudgetSolution& a, const BudgetSolution& b) {
    return std::pair(a.solution.profile.seconds, a.solution.arena_bytes) <
           std::pair(b.solution.profile.seconds, b.solution.arena_bytes);
  };
  const std::vector<Attempt> all = attempts;
  for (Attempt& attempt : attempts)
    for (const Attempt& other : all) {
      if (!other.solved || other.solved->solution.arena_bytes > attempt.budget_bytes) continue;
      if (!attempt.solved || better(*other.solved, *attempt.solved)) attempt.solved = other.solved;
    }
}

// A plan may have come from another budget, where its time was optimal, or here is.
plan::SolveStatus status_of(const Optimized& made) {
  const plan::Claims& claims = made.plan.claims;
  if (claims.predicted_seconds <= claims.lower_bound_seconds * (1 + 1e-9))
    return plan::SolveStatus::kOptimal;
  return made.schedule_status == plan::SolveStatus::kOptimal ? plan::SolveStatus::kFeasible
                                                             : made.schedule_status;
}

}  // namespace

Result<Optimized> optimize(const ir::Graph& forward, const OptimizeOptions& options) {
  const auto start = Clock::now();
  LT_ASSIGN(Prepared ready, prepare(forward, options));
  BudgetSolution solved{ready.unlimited, plan::SolveStatus::kOptimal, {}};
  std::optional<MoreMemory> more_memory;
  if (!fits(ready.unlimited, options)) {
    StageClock stage(ready.stages);
    OptimizeOptions rest = options;
    rest.schedule.remat.max_seconds -= seconds_since(start);
    LT_ASSIGN(solved, fit_budget(ready.view, rest, ready.unlimited));
    stage.done("schedule");
    if (options.look_further && !solved.cut_short) {
      rest.schedule.remat.max_seconds = options.schedule.remat.max_seconds - seconds_since(start);
      more_memory = with_more_memory(ready.view, rest, solved.solution, ready.unlimited);
      stage.done("more memory");
    }
  }
  StageClock stage(ready.stages);
  LT_ASSIGN(Optimized result, write(ready, solved, options));
  result.more_memory = more_memory;
  stage.done("plan");
  result.stages = ready.stages;
  result.planning_seconds = seconds_since(start);
  return result;
}

Result<Front> optimize_front(const ir::Graph& forward, const OptimizeOptions& options,
                             const ChooseBudgets& choose) {
  const auto start = Clock::now();
  LT_ASSIGN(const Prepared ready, prepare(forward, options));
  OptimizeOptions at = options;
  at.budget_bytes.reset();
  Front front;
  LT_ASSIGN(front.unlimited, write(ready, {ready.unlimited, plan::SolveStatus::kOptimal, {}}, at));
  front.floor_bytes = floor_bytes(ready.view.problem, options.schedule.transfers);
  std::vector<int64_t> budgets = choose(front.floor_bytes, ready.unlimited.arena_bytes);
  std::sort(budgets.rbegin(), budgets.rend());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());

  std::vector<Attempt> attempts;
  for (int64_t budget : budgets) attempts.push_back({budget, {}, {}});
  FrontSearch search(ready, options, front.floor_bytes);
  LT_RETURN_IF_ERROR(search.descend(attempts));
  LT_RETURN_IF_ERROR(search.ascend(attempts));
  make_monotone(attempts);
  for (const Attempt& attempt : attempts) {
    FrontPoint& point = front.points.emplace_back();
    point.budget_bytes = attempt.budget_bytes;
    if (!attempt.solved) {
      point.missed = attempt.missed.message;
      point.infeasible = attempt.missed.code == ErrorCode::kInfeasible;
      continue;
    }
    at.budget_bytes = attempt.budget_bytes;
    LT_ASSIGN(point.made, write(ready, *attempt.solved, at));
    point.made->schedule_status = status_of(*point.made);
    point.made->planning_seconds = seconds_since(start);
  }
  return front;
}

}  // namespace lowtide::pipeline
