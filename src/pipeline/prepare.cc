#include "pipeline/prepare.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "analysis/describe.h"
#include "base/bytes.h"
#include "base/file.h"
#include "cost/roofline.h"
#include "fission/classes.h"
#include "fission/part_order.h"
#include "ops/destinations.h"
#include "ops/op_table.h"
#include "pipeline/claims.h"
#include "pipeline/freed_cuts.h"
#include "pipeline/gate.h"
#include "pipeline/named_runs.h"
#include "pipeline/settle_sums.h"
#include "pipeline/split_notes.h"
#include "pipeline/take_rewrites.h"
#include "pipeline/write_plan.h"
#include "pipeline/write_steps.h"
#include "plan/pack_text.h"
#include "plan/schedule_simulator.h"
#include "plan/schedule_text.h"
#include "rewrite/destinations.h"
#include "rewrite/layouts.h"
#include "rewrite/pieces.h"
#include "rewrite/query_blocks.h"
#include "rewrite/strided_views.h"
#include "rewrite/types.h"

namespace lowtide::pipeline {
namespace {

using plan::SchedOpId;

Status dump(const std::string& folder, const char* file, const std::string& text) {
  return folder.empty() ? Status() : write_file_atomically(folder + "/" + file, text);
}

// The least scratch of each op that contributes to a sum, as the first of some of its sums and
// without their accumulators, or not.
Result<IdVector<ir::OpId, int64_t>> least_workspaces(const Prepared& ready,
                                                     const OptimizeOptions& options,
                                                     const std::vector<analysis::Sum>& sums) {
  IdVector<ir::OpId, int64_t> least = ready.costs.workspace_bytes;
  if (options.kernels == nullptr) return least;
  std::map<ir::OpId, std::vector<size_t>> accumulators;  // inputs
  for (const analysis::Sum& sum : sums)
    if (!sum.first_is_fixed)
      for (const analysis::Contribution& c : sum.contributions)
        accumulators[c.op].push_back(c.input);
  for (const auto& [op, inputs] : accumulators) {
    LT_ASSIGN(const plan::OpDesc desc, analysis::describe(ready.graph, op));
    for (size_t without = 1; without < size_t{1} << inputs.size(); ++without) {
      plan::OpDesc first = desc;
      for (size_t k = 0; k < inputs.size(); ++k)
        if ((without >> k & 1U) != 0 && inputs[k] < first.inputs.size())
          first.inputs[inputs[k]].reset();
      while (!first.inputs.empty() && !first.inputs.back()) first.inputs.pop_back();
      if (const auto bytes = options.kernels->workspace_bytes(first))
        least[op] = std::min(least[op], *bytes);
    }
  }
  return least;
}

// The op with the accumulators that sums may give it.
Result<plan::OpDesc> with_accumulators(const ir::Graph& graph, ir::OpId id,
                                       const std::vector<analysis::Contribution>& firsts) {
  LT_ASSIGN(plan::OpDesc desc, analysis::describe(graph, id));
  for (const analysis::Contribution& first : firsts) {
    if (first.op != id) continue;
    if (desc.inputs.size() <= first.input) desc.inputs.resize(first.input + 1);
    desc.inputs[first.input] = desc.outputs[first.output];
  }
  return desc;
}

// The sums whose first op can be another one, too. It is then priced with its accumulator, like the
// others: which of them does without is only known when all is decided.
Result<std::vector<analysis::Sum>> free_sums(const Prepared& ready, const OptimizeOptions& options,
                                             analysis::OpCosts& costs) {
  std::vector<analysis::Sum> sums;
  std::vector<analysis::Contribution> firsts;
  for (analysis::Sum& sum : analysis::find_sums(ready.graph)) {
    const analysis::Contribution first = sum.contributions.front();
    if (!sum.first_is_fixed && options.kernels != nullptr) {
      LT_ASSIGN(const plan::OpDesc alone, with_accumulators(ready.graph, first.op, {first}));
      if (!options.kernels->workspace_bytes(alone)) continue;
    }
    if (!sum.first_is_fixed) firsts.push_back(first);
    sums.push_back(std::move(sum));
  }
  if (options.kernels == nullptr) return sums;
  const cost::Estimator estimator(options.device, options.costs ? &*options.costs : nullptr);
  for (const analysis::Contribution& first : firsts) {
    LT_ASSIGN(const plan::OpDesc desc, with_accumulators(ready.graph, first.op, firsts));
    LT_ASSIGN(const cost::Estimate estimate, estimator.estimate(desc));
    LT_ASSIGN(const int64_t bytes, options.kernels->workspace_bytes(desc));
    costs.seconds[first.op] = estimate.seconds;
    costs.workspace_bytes[first.op] = std::max(costs.workspace_bytes[first.op], bytes);
  }
  return sums;
}

// Of one run of a kernel. The estimator must stay.
std::function<Result<double>(const plan::OpDesc&)> seconds_by(const cost::Estimator& estimator) {
  return [&estimator](const plan::OpDesc& op) -> Result<double> {
    LT_ASSIGN(const cost::Estimate estimate, estimator.estimate(op));
    return estimate.seconds;
  };
}

Status take_strided_views(ir::Graph& graph, const OptimizeOptions& options) {
  const cost::Estimator estimator(options.device, options.costs ? &*options.costs : nullptr);
  rewrite::StridedViewsOptions how;
  how.slices = options.slow_tiers.empty();
  how.seconds = seconds_by(estimator);
  LT_ASSIGN(rewrite::StridedViewsReport views,
            rewrite::make_strided_views(graph, *options.kernels, how));
  if (views.changed()) graph = std::move(views.graph);
  return {};
}

// Wholes of pieces that lie one behind the other, then of those that interleave. Without new ones
// it still looks at the wholes that came in.
Status take_pieces(ir::Graph& graph, const OptimizeOptions& options) {
  LT_RETURN_IF_ERROR(ops::check_destinations(graph));
  LT_ASSIGN(rewrite::PiecesReport pieces,
            rewrite::join_pieces(graph, options.device.alignment_bytes));
  if (!options.pieces) return {};
  if (pieces.changed()) graph = std::move(pieces.graph);
  if (options.kernels == nullptr) return {};
  const cost::Estimator estimator(options.device, options.costs ? &*options.costs : nullptr);
  LT_ASSIGN(rewrite::DestinationsReport written,
            rewrite::write_into_wholes(graph, *options.kernels,
                                       {.seconds = seconds_by(estimator),
                                        .alignment_bytes = options.device.alignment_bytes,
                                        .residents_move = !options.slow_tiers.empty()}));
  if (written.changed()) graph = std::move(written.graph);
  return {};
}

}  // namespace

Result<analysis::OpCosts> op_costs(const ir::Graph& graph, const OptimizeOptions& options,
                                   cost::Coverage& coverage) {
  analysis::OpCosts costs;
  LT_ASSIGN(costs.seconds, cost::all_op_seconds(graph, options.device));
  costs.workspace_bytes = IdVector<ir::OpId, int64_t>(graph.op_count(), 0);
  IdVector<ir::OpId, char> given(graph.op_count(), 0);  // by the op itself: no kernel is asked
  for (ir::OpId id : graph.ops()) {
    const auto cost = ops::given_cost(graph.op(id));
    given[id] = cost.has_value();
    if (cost) costs.workspace_bytes[id] = cost->workspace_bytes;
  }
  if (options.kernels == nullptr) return costs;
  const cost::Estimator estimator(options.device, options.costs ? &*options.costs : nullptr);
  constexpr int kMostNamed = 8;
  std::string named;
  int missing = 0;
  for (ir::OpId id : graph.ops()) {
    if (analysis::is_view_op(graph, id)) continue;
    if (given[id]) {
      coverage.add({.seconds = costs.seconds[id]});
      continue;
    }
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

namespace {

// The cuts of the labels; none where there are none.
Result<fission::Cuts> cuts_of_split(const ir::Graph& graph, const OptimizeOptions& options) {
  if (options.split.whole()) return fission::Cuts(graph.op_count());
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(graph));
  LT_RETURN_IF_ERROR(check_parts(graph, classes, options));
  LT_ASSIGN(const fission::Levels levels,
            fission::levels_of(graph, classes.front(), options.split));
  return fission::cuts_of(graph, classes.front(), levels);
}

struct InParts {
  ir::Graph graph;
  int64_t peak_bytes = 0;  // as given
  bool has_windows = false;
};

// Part by part where that needs less, else op by op.
Result<InParts> in_parts(const ir::Graph& graph, const fission::NestedCuts& cuts,
                         fission::Windows windows, int64_t alignment_bytes) {
  LT_ASSIGN(fission::Expanded by_op, fission::expand(graph, cuts, windows));
  fission::Expanded by_part = fission::part_by_part(by_op);
  LT_ASSIGN(const int64_t op_peak, peak_as_given(by_op.graph, alignment_bytes));
  LT_ASSIGN(const int64_t part_peak, peak_as_given(by_part.graph, alignment_bytes));
  const bool has_windows = by_op.windows > 0;
  return part_peak < op_peak ? InParts{std::move(by_part.graph), part_peak, has_windows}
                             : InParts{std::move(by_op.graph), op_peak, has_windows};
}

// The ops of the cuts in parts. Windows read wholes, which takes no copies, unless that misses the
// budget (or there is none) and copies of what they reach need less.
Result<ir::Graph> in_parts(const ir::Graph& graph, const OptimizeOptions& options, int64_t& ops) {
  LT_ASSIGN(const fission::Cuts labels, cuts_of_split(graph, options));
  auto cuts = fission::cuts_of(graph, options.cuts, labels);
  if (!cuts)
    return error(cuts.error().code,
                 cuts.error().message + what_frees(graph, options.cuts, options));
  for (const ir::OpId id : graph.ops()) ops += labels[id] && (*cuts)[0][id] == labels[id];
  const int64_t alignment = options.device.alignment_bytes;
  LT_ASSIGN(InParts wholes, in_parts(graph, *cuts, fission::Windows::kOfWholes, alignment));
  const bool fits = options.budget_bytes && wholes.peak_bytes <= *options.budget_bytes;
  if (!wholes.has_windows || fits || !options.ideas.windows) return std::move(wholes.graph);
  LT_ASSIGN(InParts pieces, in_parts(graph, *cuts, fission::Windows::kOfPieces, alignment));
  return std::move(pieces.peak_bytes < wholes.peak_bytes ? pieces.graph : wholes.graph);
}

}  // namespace

Result<ir::Graph> step_in_one_part(const ir::Graph& forward, const OptimizeOptions& options,
                                   std::vector<RewriteWorth>& rewrites, StageClock& stage) {
  ir::Graph graph = forward;
  LT_RETURN_IF_ERROR(take_rewrites(graph, rewrite::RewriteStage::kForward, options, rewrites));
  stage.done("rewrites");
  if (options.training) {
    LT_ASSIGN(graph, autodiff::make_training_graph(graph, *options.training));
    stage.done("autodiff");
  }
  LT_RETURN_IF_ERROR(take_rewrites(graph, rewrite::RewriteStage::kStep, options, rewrites));
  stage.done("rewrites of the step");
  return graph;
}

namespace {

// Graph and costs.
Result<Prepared> costed(const ir::Graph& forward, const OptimizeOptions& options) {
  Prepared ready;
  StageClock stage(ready.stages);
  ready.forward = &forward;
  LT_ASSIGN(ready.graph, step_in_one_part(forward, options, ready.rewrites, stage));
  if (!options.cuts.empty() || !options.split.whole()) {
    LT_ASSIGN(ir::Graph parts, in_parts(ready.graph, options, ready.ops_in_parts));
    ready.whole = std::exchange(ready.graph, std::move(parts));
    if (!options.split.whole()) {
      LT_ASSIGN(ready.notes, notes_of_split(*ready.whole, options));
    }
    stage.done("parts");
  }
  if (options.kernels != nullptr) {
    LT_ASSIGN(rewrite::TypeReport types, rewrite::choose_types(ready.graph, *options.kernels));
    if (types.changed()) ready.graph = std::move(types.graph);
    stage.done("types");
    LT_ASSIGN(rewrite::LayoutReport layouts,
              rewrite::choose_layouts(ready.graph, *options.kernels));
    ready.graph = std::move(layouts.graph);
    stage.done("layouts");
    if (options.strided_views) {
      LT_RETURN_IF_ERROR(take_strided_views(ready.graph, options));
      stage.done("views");
    }
  }
  LT_RETURN_IF_ERROR(take_pieces(ready.graph, options));
  stage.done("pieces");
  LT_ASSIGN(ready.costs, op_costs(ready.graph, options, ready.coverage));
  stage.done("costs");
  return ready;
}

}  // namespace

Result<Prepared> pose(const ir::Graph& forward, const OptimizeOptions& options) {
  LT_ASSIGN(Prepared ready, costed(forward, options));
  StageClock stage(ready.stages);
  std::vector<analysis::Sum> sums;
  analysis::OpCosts costs = ready.costs;
  if (options.sums) {
    LT_ASSIGN(sums, free_sums(ready, options, costs));
  }
  LT_ASSIGN(const auto least, least_workspaces(ready, options, sums));
  LT_ASSIGN(ready.view, make_view(ready.graph, costs, options, sums, &least));
  stage.done("problem");
  return ready;
}

Result<analysis::ScheduleView> make_view(const ir::Graph& graph, const analysis::OpCosts& costs,
                                         const OptimizeOptions& options,
                                         const std::vector<analysis::Sum>& sums,
                                         const IdVector<ir::OpId, int64_t>* least_workspace_bytes) {
  std::vector<plan::Link> links;
  for (const SlowTierChoice& tier : options.slow_tiers) links.push_back(tier.link);
  return analysis::make_schedule_view(
      graph, costs, options.device.alignment_bytes,
      {.links = links, .sums = sums, .least_workspace_bytes = least_workspace_bytes});
}

OptimizeOptions after(OptimizeOptions options, double seconds) {
  for (Limits* limits :
       {&options.order.limits, &options.pack.limits, &options.schedule.remat.limits})
    *limits = limits->after(seconds);
  return options;
}

namespace {

// What the step is without the split: its time, each op once, and its ops.
Status add_unsplit(const ir::Graph& forward, OptimizeOptions options, Prepared& ready) {
  options.split = {};
  options.cuts.clear();
  LT_ASSIGN(const Prepared unsplit, costed(forward, options));
  const auto& seconds = unsplit.costs.seconds;
  ready.whole_seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  ready.unsplit = unsplit_ops(unsplit.graph, unsplit.costs, options.device.alignment_bytes);
  return {};
}

}  // namespace

Result<Prepared> prepare(const ir::Graph& forward, const OptimizeOptions& options) {
  const auto start = Clock::now();
  LT_ASSIGN(Prepared ready, pose(forward, options));
  StageClock stage(ready.stages);
  if (ready.ops_in_parts > 0) LT_RETURN_IF_ERROR(add_unsplit(forward, options, ready));
  const plan::ScheduleProblem& problem = ready.view.problem;
  LT_RETURN_IF_ERROR(dump(options.dump_folder, "order.txt", plan::print(problem)));
  const std::vector<SchedOpId> given(problem.ops.ids().begin(), problem.ops.ids().end());
  LT_ASSIGN(const plan::ScheduleProfile before, plan::simulate(problem, given, /*in_place=*/false));
  ready.peak_before_bytes = before.peak_bytes;
  ready.order = order::solve(problem, options.order);
  if (ready.order.sequence.empty() && !given.empty())
    return error(ErrorCode::kLimit, "the work limit ended before any order was found; raise it");
  stage.done("order");
  LT_ASSIGN(ready.unlimited,
            pack_best_order(ready.view, ready.order, after(options, seconds_since(start))));
  LT_RETURN_IF_ERROR(dump(
      options.dump_folder, "pack.csv",
      plan::print_pack_csv(ready.unlimited.buffers.problem, &ready.unlimited.packing.offsets)));
  stage.done("addresses");
  return ready;
}

namespace {

// What of the blocks that are asked for there are: no attention has more of them than rows, and a
// step without attention has none.
int64_t blocks_made(const Prepared& ready, const OptimizeOptions& options) {
  const auto& done = ready.rewrites;
  const bool any = std::any_of(done.begin(), done.end(), [](const RewriteWorth& worth) {
    return worth.name == "query-blocks";
  });
  if (options.query_blocks <= 1 || !any) return 1;
  // Other rewrites may have made the attention: then its rows are not known here.
  const auto found = rewrite::attention_in_blocks(*ready.forward, 2);
  return found && found->attentions > 0 ? std::min(options.query_blocks, found->most_rows)
                                        : options.query_blocks;
}

// The plan of a solution in which the order of every sum is settled.
Result<Optimized> write_settled(const Prepared& ready, const BudgetSolution& solved,
                                const OptimizeOptions& options) {
  Optimized result;
  result.stages = ready.stages;
  StageClock stage(result.stages);
  const Solution& solution = solved.solution;
  std::vector<std::string> tiers;
  for (const SlowTierChoice& tier : options.slow_tiers) tiers.push_back(tier.name);
  result.cut_short =
      solved.cut_short || ready.order.work.timed_out || solution.packing.work.timed_out;
  LT_ASSIGN(result.plan,
            write_plan({ready.graph, ready.view, ready.costs, solution.sequence, solution.profile,
                        solution.buffers, solution.packing, solution.slots,
                        options.device.alignment_bytes, std::move(tiers)}));
  if (ready.ops_in_parts > 0) tell_unsplit(ready.unsplit, result.plan);
  Claimed claimed =
      make_claims({ready.graph, ready.view, ready.order, solution, ready.peak_before_bytes,
                   options.budget_bytes, options.schedule.transfers,
                   result.cut_short || options.schedule.remat.limits.max_seconds <= 0,
                   ready.floor ? std::optional(ready.floor->bytes) : std::nullopt,
                   ready.floor ? op_named(ready.view.problem, ready.floor->op) : SchedOpId(),
                   ready.settled_floor ? &*ready.settled_floor : nullptr,
                   options.schedule.remat.limits.with_units(options.proof_units),
                   solved.bound ? &*solved.bound : nullptr, options.progress,
                   options.schedule.remat.several_cuts});
  result.plan.claims = std::move(claimed.claims);
  if (options.budget_bytes && options.parts_floor && !options.parts_floor->op.empty())
    result.plan.claims.parts_floor = options.parts_floor;
  result.cut_short |= claimed.cut_short;
  result.order_status = ready.order.status;
  result.search_bound_bytes =
      std::max(ready.order.lower_bound_bytes, result.plan.claims.lower_bound_bytes);
  result.pack_status = solution.packing.status;
  result.order_work = ready.order.work;
  result.pack_work = solution.packing.work;
  result.schedule_status = solved.status;
  result.schedule_work = solved.work;
  result.fitting_seconds = solved.seconds;
  result.costs = ready.coverage;
  if (ready.floor) result.floor_reason = ready.floor->reason;
  if (ready.ops_in_parts > 0) result.split = options.split;
  result.query_blocks = blocks_made(ready, options);
  result.cuts = options.cuts;
  result.ops_in_parts = ready.ops_in_parts;
  result.rewrites = ready.rewrites;
  result.asked_rewrites = options.rewrites.with;
  result.notes = ready.notes;
  result.whole_seconds = ready.whole_seconds;
  result.bound_of_one_order = ready.sums_are_settled;
  stage.done("plan");
  LT_RETURN_IF_ERROR(pass_gate(
      result.plan,
      {*ready.forward, ready.graph, ready.view.problem, options,
       ready.whole ? &*ready.whole : nullptr, ready.in_any_order.get(),
       claimed.floor_op.valid() ? plan_id(ready.view.op[claimed.floor_op]) : plan::PlanOpId()}));
  stage.done("verify");
  return result;
}

}  // namespace

Result<Optimized> write(const Prepared& ready, const BudgetSolution& solved,
                        const OptimizeOptions& options) {
  if (ready.view.sums.empty()) return write_settled(ready, solved, options);
  LT_ASSIGN(const Prepared settled, settle_sums(ready, solved.solution, options));
  // What the search has proven speaks of another problem.
  return write_settled(
      settled,
      {settled.unlimited, solved.status, solved.work, solved.cut_short, {}, solved.seconds},
      options);
}

double search_part(const plan::ScheduleProblem& problem, const OptimizeOptions& options) {
  if (problem.link && options.schedule.transfers) return 1;  // proofs are of what moves nothing
  const auto search = static_cast<double>(options.schedule.remat.limits.max_units);
  return search / (search + static_cast<double>(options.proof_units));
}

void find_floor(Prepared& ready, const OptimizeOptions& options) {
  ready.floor = floor_of_view(ready.view, options.schedule.transfers);
  if (ready.view.sums.empty()) ready.settled_floor = ready.floor->found;
}

bool once_only(const plan::ScheduleProblem& problem, const OptimizeOptions& options) {
  return !options.schedule.recompute && !(problem.link && options.schedule.transfers);
}

Status check_order_bound(const Prepared& ready, const OptimizeOptions& options) {
  const int64_t least = ready.order.lower_bound_bytes;
  if (!once_only(ready.view.problem, options) || least <= *options.budget_bytes) return {};
  return error(
      ErrorCode::kInfeasible,
      fmt::format("--budget: {} bytes ({}) is too small: {} every order that runs each op once and "
                  "moves nothing needs at least {} bytes ({}); the smallest arena found has {} "
                  "bytes ({})",
                  *options.budget_bytes, format_bytes(*options.budget_bytes),
                  in_which_parts(options), least, format_bytes(least), ready.unlimited.arena_bytes,
                  format_bytes(ready.unlimited.arena_bytes)));
}

}  // namespace lowtide::pipeline
