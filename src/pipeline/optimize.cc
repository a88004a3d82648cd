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

// A schedule and the addresses for it.
struct Solution {
  std::vector<plan::SchedAction> sequence;
  plan::SequenceProfile profile;
  BufferView buffers;
  plan::PackOutcome packing, slots;
};

std::vector<plan::SchedAction> each_once(const std::vector<SchedOpId>& order) {
  std::vector<plan::SchedAction> sequence;
  for (SchedOpId op : order) sequence.push_back(plan::SchedAction::run(op));
  return sequence;
}

Result<Solution> pack_schedule(const analysis::ScheduleView& view,
                               std::vector<plan::SchedAction> sequence,
                               const OptimizeOptions& options) {
  Solution solution;
  LT_ASSIGN(solution.profile, plan::simulate_sequence(view.problem, sequence));
  solution.buffers = make_buffer_view(view, sequence, solution.profile);
  solution.packing = pack::solve(solution.buffers.problem, options.pack);
  solution.slots = pack::solve(solution.buffers.slots, options.pack);
  solution.sequence = std::move(sequence);
  if (solution.packing.offsets.size() != solution.buffers.problem.buffers.size() ||
      solution.slots.offsets.size() != solution.buffers.slots.buffers.size())
    return error(ErrorCode::kLimit, "the work limit ended before any packing was found; raise it");
  return solution;
}

// Addresses for the best order; where they do not fit below the order's own peak, orders found with
// other seeds.
Result<Solution> solve_addresses(const analysis::ScheduleView& view,
                                 const plan::ScheduleOutcome& order,
                                 const OptimizeOptions& options) {
  LT_ASSIGN(Solution best, pack_schedule(view, each_once(order.sequence), options));
  const int64_t room = order.peak_bytes - view.problem.resident_bytes;
  for (int retry = 1; retry <= options.pack_retries && best.packing.height_bytes > room; ++retry) {
    order::OrderOptions other = options.order;
    other.seed += static_cast<uint64_t>(retry);
    plan::ScheduleOutcome outcome = order::solve(view.problem, other);
    std::vector<plan::SchedAction> sequence = each_once(outcome.sequence);
    if (outcome.peak_bytes > order.peak_bytes || sequence == best.sequence) continue;
    LT_ASSIGN(Solution candidate, pack_schedule(view, std::move(sequence), options));
    if (candidate.packing.height_bytes < best.packing.height_bytes) best = std::move(candidate);
  }
  return best;
}

Status dump(const std::string& folder, const char* file, const std::string& text) {
  return folder.empty() ? Status() : write_file_atomically(folder + "/" + file, text);
}

Status check_budget(const Optimized& result, const OptimizeOptions& options) {
  if (!options.budget_bytes || result.plan.arena_bytes <= *options.budget_bytes) return {};
  const plan::Claims& claims = result.plan.claims;
  const std::string setter =
      claims.certificate && result.search_bound_bytes == claims.lower_bound_bytes
          ? fmt::format(", set by op '{}'", result.plan.ops[claims.certificate->op].name)
          : "";
  return error(ErrorCode::kInfeasible,
               fmt::format("--budget: {} bytes ({}) is too small: every order needs at least {} "
                           "bytes ({}){}; the smallest arena "
                           "found has {} bytes ({})",
                           *options.budget_bytes, format_bytes(*options.budget_bytes),
                           result.search_bound_bytes, format_bytes(result.search_bound_bytes),
                           setter, result.plan.arena_bytes, format_bytes(result.plan.arena_bytes)));
}

plan::Claims make_claims(const ir::Graph& graph, const analysis::ScheduleView& view,
                         const analysis::OpCosts& costs, const plan::ScheduleOutcome& order,
                         const Solution& solution, int64_t before_bytes) {
  plan::Claims claims;
  claims.peak_bytes = solution.profile.peak_bytes;
  claims.peak_before_bytes = before_bytes;
  // Only what the verifier can recheck: a bound that a search has raised further stays with the
  // outcome.
  claims.lower_bound_bytes = view.problem.resident_bytes;
  if (order.cut) {
    claims.certificate = write_certificate(graph, view, *order.cut);
    claims.lower_bound_bytes = claims.certificate->value_bytes;
  }
  claims.order_proven = claims.peak_bytes == claims.lower_bound_bytes;
  for (double seconds : costs.seconds) claims.once_seconds += seconds;
  claims.predicted_seconds = claims.lower_bound_seconds = claims.once_seconds;
  return claims;
}

}  // namespace

Result<Optimized> optimize(const ir::Graph& forward, const OptimizeOptions& options) {
  const auto start = Clock::now();
  Optimized result;
  StageClock stage(result.stages);
  ir::Graph graph = forward;
  if (options.training) {
    LT_ASSIGN(graph, autodiff::make_training_graph(forward, *options.training));
    stage.done("autodiff");
  }
  if (options.kernels != nullptr) {
    LT_ASSIGN(rewrite::LayoutReport layouts, rewrite::choose_layouts(graph, *options.kernels));
    graph = std::move(layouts.graph);
    stage.done("layouts");
  }
  LT_ASSIGN(const analysis::OpCosts costs, op_costs(graph, options, result.costs));
  LT_ASSIGN(const analysis::ScheduleView view,
            analysis::make_schedule_view(graph, costs, options.device.alignment_bytes));
  stage.done("costs");

  LT_RETURN_IF_ERROR(dump(options.dump_folder, "order.txt", plan::print(view.problem)));
  std::vector<SchedOpId> program;
  for (SchedOpId op : view.problem.ops.ids()) program.push_back(op);
  LT_ASSIGN(const plan::ScheduleProfile before,
            plan::simulate(view.problem, program, /*in_place=*/false));
  const plan::ScheduleOutcome order = order::solve(view.problem, options.order);
  if (order.sequence.empty() && !program.empty())
    return error(ErrorCode::kLimit, "the work limit ended before any order was found; raise it");
  stage.done("order");
  LT_ASSIGN(const Solution solution, solve_addresses(view, order, options));
  LT_RETURN_IF_ERROR(
      dump(options.dump_folder, "pack.csv",
           plan::print_pack_csv(solution.buffers.problem, &solution.packing.offsets)));
  stage.done("addresses");

  LT_ASSIGN(result.plan,
            write_plan({graph, view, costs, solution.sequence, solution.profile, solution.buffers,
                        solution.packing, solution.slots, options.device.alignment_bytes}));
  result.plan.claims = make_claims(graph, view, costs, order, solution, before.peak_bytes);
  stage.done("plan");
  result.order_status = order.status;
  result.search_bound_bytes =
      std::max(order.lower_bound_bytes, result.plan.claims.lower_bound_bytes);
  result.pack_status = solution.packing.status;
  result.order_work = order.work;
  result.pack_work = solution.packing.work;
  result.planning_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  LT_RETURN_IF_ERROR(check_budget(result, options));
  return result;
}

}  // namespace lowtide::pipeline
