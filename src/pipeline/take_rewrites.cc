#include "pipeline/take_rewrites.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
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

// Ops of all graphs that StepsToCut keeps: about as many as the steps have that a search looks at.
constexpr size_t kMostKeptOps = 100'000;

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

namespace {

bool is_of(const Rewrite& rewrite, RewriteStage stage) {
  return stage == RewriteStage::kForward ? rewrite.on_forward : rewrite.on_step;
}

// Options must stay.
class Passes {
 public:
  explicit Passes(const OptimizeOptions& options)
      : options_(options), estimator_(options.device, options.costs ? &*options.costs : nullptr) {
    context_.alignment_bytes = options.device.alignment_bytes;
    context_.in_parts = !options.split.whole();
    context_.has_cuts = !options.cuts.empty();
    context_.query_blocks = options.query_blocks;
    context_.seconds = [this](const plan::OpDesc& op) -> Result<double> {
      LT_ASSIGN(const cost::Estimate estimate, estimator_.estimate(op));
      return estimate.seconds;
    };
  }
  Passes(const Passes&) = delete;  // a part of it refers to it
  Passes& operator=(const Passes&) = delete;

  bool runs(const Rewrite& rewrite, RewriteStage stage) const {
    return is_of(rewrite, stage) && rewrite::is_chosen(rewrite, options_.rewrites, context_);
  }
  Result<rewrite::RewriteResult> run(const Rewrite& rewrite, RewriteStage stage,
                                     const ir::Graph& graph) const {
    return rewrite::run(rewrite, stage, graph, context_);
  }

 private:
  const OptimizeOptions& options_;
  const cost::Estimator estimator_;
  rewrite::RewriteContext context_;
};

}  // namespace

Status take_rewrites(ir::Graph& graph, RewriteStage stage, const OptimizeOptions& options,
                     std::vector<RewriteWorth>& worth) {
  LT_RETURN_IF_ERROR(rewrite::check(options.rewrites));
  const Passes passes(options);
  for (const Rewrite& rewrite : rewrite::rewrites()) {
    if (!passes.runs(rewrite, stage)) continue;
    LT_ASSIGN(rewrite::RewriteResult result, passes.run(rewrite, stage, graph));
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

// A graph, and what passes that have run on it made of it.
struct StepsToCut::Known {
  ir::Graph graph;
  // By pass and its number of blocks, if it asks for that: none where it changed nothing.
  std::map<std::pair<size_t, int64_t>, std::shared_ptr<Known>> next = {};
};

StepsToCut::StepsToCut(const ir::Graph& forward) : forward_(new Known{forward}) {}
StepsToCut::~StepsToCut() = default;

// The pass, if nobody has run it on this graph.
template <class Run>
Result<std::shared_ptr<StepsToCut::Known>> StepsToCut::after(const std::shared_ptr<Known>& before,
                                                             size_t pass, int64_t blocks,
                                                             const Run& run) {
  const std::pair key(pass, blocks);
  {
    const std::lock_guard lock(mutex_);
    const auto known = before->next.find(key);
    if (known != before->next.end()) return known->second ? known->second : before;
  }
  LT_ASSIGN(std::optional<ir::Graph> made, run(before->graph));
  auto next = made ? std::make_shared<Known>(Known{*std::move(made)}) : nullptr;
  const std::lock_guard lock(mutex_);
  const size_t more = next ? next->graph.op_count() : 0;
  if (kept_ops_ + more <= kMostKeptOps && before->next.try_emplace(key, next).second)
    kept_ops_ += more;
  return next ? next : before;
}

Result<ir::Graph> StepsToCut::step(OptimizeOptions options) {
  LT_RETURN_IF_ERROR(rewrite::check(options.rewrites));
  options.split = {.parts = 0};
  const Passes passes(options);
  std::shared_ptr<Known> at = forward_;
  size_t pass = 0;
  for (const RewriteStage stage : {RewriteStage::kForward, RewriteStage::kStep}) {
    if (stage == RewriteStage::kStep && options.training) {
      const auto train = [&](const ir::Graph& graph) -> Result<std::optional<ir::Graph>> {
        return autodiff::make_training_graph(graph, *options.training);
      };
      LT_ASSIGN(at, after(at, 0, 0, train));
    }
    for (const Rewrite& rewrite : rewrite::rewrites()) {
      ++pass;
      if (!passes.runs(rewrite, stage)) continue;
      const auto run = [&](const ir::Graph& graph) -> Result<std::optional<ir::Graph>> {
        LT_ASSIGN(rewrite::RewriteResult result, passes.run(rewrite, stage, graph));
        return result.ops > 0 ? std::optional(std::move(result.graph)) : std::nullopt;
      };
      LT_ASSIGN(at, after(at, pass, rewrite.in_blocks ? options.query_blocks : 0, run));
    }
  }
  return at->graph;
}

Result<ir::Graph> step_to_cut(const ir::Graph& forward, OptimizeOptions options) {
  return StepsToCut(forward).step(std::move(options));
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
