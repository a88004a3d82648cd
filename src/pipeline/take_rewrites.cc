#include "pipeline/take_rewrites.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "analysis/schedule_view.h"
#include "autodiff/training.h"
#include "cost/estimate.h"
#include "cost/roofline.h"
#include "plan/schedule_simulator.h"

namespace lowtide::pipeline {
namespace {

using rewrite::Rewrite;
using rewrite::RewriteStage;

// Of every op once, by the roofline: what measured times say of other shapes cannot be compared.
Result<double> roofline_seconds(const ir::Graph& graph, const OptimizeOptions& options) {
  LT_ASSIGN(const auto seconds, cost::all_op_seconds(graph, options.device));
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

Result<RewriteWorth> worth_of(const Rewrite& rewrite, const ir::Graph& before,
                              const rewrite::RewriteResult& result,
                              const OptimizeOptions& options) {
  RewriteWorth worth{.name = std::string(rewrite.name), .ops = result.ops};
  const int64_t alignment = options.device.alignment_bytes;
  LT_ASSIGN(const int64_t peak_was, peak_as_given(before, alignment));
  LT_ASSIGN(const int64_t peak_is, peak_as_given(result.graph, alignment));
  LT_ASSIGN(const double seconds_were, roofline_seconds(before, options));
  LT_ASSIGN(const double seconds_are, roofline_seconds(result.graph, options));
  worth.peak_bytes = peak_is - peak_was;
  worth.seconds = seconds_are - seconds_were;
  return worth;
}

void add(std::vector<RewriteWorth>& all, RewriteWorth worth) {
  const auto known = std::find_if(all.begin(), all.end(),
                                  [&](const RewriteWorth& one) { return one.name == worth.name; });
  if (known == all.end()) {
    all.push_back(std::move(worth));
    return;
  }
  known->ops += worth.ops;
  known->peak_bytes += worth.peak_bytes;
  known->seconds += worth.seconds;
}

}  // namespace

Result<int64_t> peak_as_given(const ir::Graph& graph, int64_t alignment_bytes) {
  analysis::OpCosts costs;
  costs.seconds = IdVector<ir::OpId, double>(graph.op_count(), 0);
  costs.workspace_bytes = IdVector<ir::OpId, int64_t>(graph.op_count(), 0);
  LT_ASSIGN(const analysis::ScheduleView view,
            analysis::make_schedule_view(graph, costs, alignment_bytes));
  const std::vector<plan::SchedOpId> order(view.problem.ops.ids().begin(),
                                           view.problem.ops.ids().end());
  LT_ASSIGN(const plan::ScheduleProfile profile, plan::simulate(view.problem, order));
  return profile.peak_bytes;
}

std::vector<std::string> all_rewrites() {
  std::vector<std::string> names;
  for (const Rewrite& one : rewrite::rewrites()) names.emplace_back(one.name);
  std::sort(names.begin(), names.end());
  return names;
}

Status take_rewrites(ir::Graph& graph, RewriteStage stage, const OptimizeOptions& options,
                     std::vector<RewriteWorth>& worth) {
  LT_RETURN_IF_ERROR(rewrite::check(options.rewrites));
  const cost::Estimator estimator(options.device, options.costs ? &*options.costs : nullptr);
  rewrite::RewriteContext context;
  context.alignment_bytes = options.device.alignment_bytes;
  context.in_parts = !options.split.whole();
  context.has_cuts = !options.cuts.empty();
  context.query_blocks = options.query_blocks;
  context.seconds = [&estimator](const plan::OpDesc& op) -> Result<double> {
    LT_ASSIGN(const cost::Estimate estimate, estimator.estimate(op));
    return estimate.seconds;
  };
  for (const Rewrite& rewrite : rewrite::rewrites()) {
    if (!(stage == RewriteStage::kForward ? rewrite.on_forward : rewrite.on_step)) continue;
    if (!rewrite::is_chosen(rewrite, options.rewrites, context)) continue;
    LT_ASSIGN(rewrite::RewriteResult result, rewrite::run(rewrite, stage, graph, context));
    if (result.ops == 0) continue;
    LT_ASSIGN(RewriteWorth found, worth_of(rewrite, graph, result, options));
    add(worth, std::move(found));
    graph = std::move(result.graph);
  }
  return {};
}

namespace {

// With all rewrites of both stages that run where the step is one in parts.
Result<ir::Graph> rewritten_step(const ir::Graph& forward, OptimizeOptions options,
                                 std::vector<RewriteWorth>& worth) {
  options.split = {.parts = 0};
  ir::Graph step = forward;
  LT_RETURN_IF_ERROR(take_rewrites(step, RewriteStage::kForward, options, worth));
  if (options.training) {
    LT_ASSIGN(step, autodiff::make_training_graph(step, *options.training));
  }
  LT_RETURN_IF_ERROR(take_rewrites(step, RewriteStage::kStep, options, worth));
  return step;
}

}  // namespace

Result<ir::Graph> step_to_cut(const ir::Graph& forward, OptimizeOptions options) {
  std::vector<RewriteWorth> worth;
  return rewritten_step(forward, std::move(options), worth);
}

namespace {

// That do not run as it is, may be asked for, and are such.
template <class Such>
std::vector<std::string> open_ones(const OptimizeOptions& options, const Such& such) {
  std::vector<std::string> open;
  for (const Rewrite& one : rewrite::rewrites()) {
    rewrite::RewriteChoice with = options.rewrites;
    with.with.emplace_back(one.name);
    if (!rewrite::is_chosen(one, options.rewrites) && rewrite::check(with) && such(one))
      open.emplace_back(one.name);
  }
  return open;
}

bool has_own_time(const Rewrite& one) {
  return one.in_parts || one.in_blocks;
}

}  // namespace

std::vector<std::string> open_rewrites(const OptimizeOptions& options) {
  return open_ones(options,
                   [](const Rewrite& one) { return !has_own_time(one) && !one.frees_axis; });
}

std::vector<std::string> freeing_rewrites(const OptimizeOptions& options) {
  return open_ones(options,
                   [](const Rewrite& one) { return !has_own_time(one) && one.frees_axis; });
}

std::vector<std::string> rewrites_of_parts(const OptimizeOptions& options) {
  if (!options.split.whole()) return {};
  return open_ones(options, [](const Rewrite& one) { return one.in_parts && !one.with_cuts; });
}

Result<std::vector<std::string>> promising_rewrites(const ir::Graph& forward,
                                                    const OptimizeOptions& options) {
  std::vector<std::string> promising;
  for (const std::string& name : open_rewrites(options)) {
    OptimizeOptions with = options;
    with.rewrites.with.push_back(name);
    std::vector<RewriteWorth> worth;
    LT_ASSIGN(const ir::Graph step, rewritten_step(forward, with, worth));
    const bool is_worth_a_plan =
        std::any_of(worth.begin(), worth.end(), [&](const RewriteWorth& w) {
          return w.name == name && (w.seconds < 0 || w.peak_bytes < 0);
        });
    if (is_worth_a_plan) promising.push_back(name);
  }
  return promising;
}

}  // namespace lowtide::pipeline
