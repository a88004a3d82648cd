// What comes before a budget, and the plan that is made of a solution: what optimize and
// optimize_front have in common.
//
// Tests: optimize_test.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/schedule_view.h"
#include "base/clock.h"
#include "base/result.h"
#include "cost/estimate.h"
#include "ir/graph.h"
#include "pipeline/budget.h"
#include "pipeline/optimize.h"
#include "pipeline/solution.h"
#include "pipeline/unsplit.h"
#include "plan/outcome.h"

namespace lowtide::pipeline {

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

// Everything that does not depend on the budget. In `view`, sums come in any order.
struct Prepared {
  const ir::Graph* forward = nullptr;  // as it came; must outlive this
  ir::Graph graph;
  std::optional<ir::Graph> whole;                 // where ops were cut: the graph before
  std::shared_ptr<const ir::Graph> in_any_order;  // where sums were settled: the graph before
  analysis::OpCosts costs;
  analysis::ScheduleView view;
  int64_t peak_before_bytes = 0;
  std::vector<RewriteWorth> rewrites;
  std::vector<std::string> notes;  // of a split that cuts little
  int64_t ops_in_parts = 0;        // of the split
  double whole_seconds = 0;        // of the step in one part, each op once; with a split
  UnsplitOps unsplit;              // its ops
  plan::ScheduleOutcome order;
  Solution unlimited;
  // With a budget: what holds whatever the order of the sums, also once that is settled.
  std::optional<ProvenFloor> floor;
  // What proven_floor says of `view` once its sums are settled, or where it has none, if asked yet.
  std::optional<remat::Floor> settled_floor;
  bool sums_are_settled = false;  // the graph has one of several orders
  cost::Coverage coverage;
  std::vector<Stage> stages;
};

// The step before ops are cut, types and layouts chosen: rewrites and, in training, gradients and
// updates. What the rewrites were worth is added to `rewrites`. Errors as of optimize.
Result<ir::Graph> step_in_one_part(const ir::Graph& forward, const OptimizeOptions& options,
                                   std::vector<RewriteWorth>& rewrites, StageClock& stage);

// Graph, costs and problem. Errors as of optimize.
Result<Prepared> pose(const ir::Graph& forward, const OptimizeOptions& options);

// All of it. Writes the dumps that the options ask for.
Result<Prepared> prepare(const ir::Graph& forward, const OptimizeOptions& options);

// Seconds and scratch bytes of every op, from the kernels where there are any. Error: kInput,
// naming the ops that no kernel takes.
Result<analysis::OpCosts> op_costs(const ir::Graph& graph, const OptimizeOptions& options,
                                   cost::Coverage& coverage);

// The floors of `ready` that are known before the order of its sums is settled.
void find_floor(Prepared& ready, const OptimizeOptions& options);

// The problem of a graph, with the slow tiers of the options.
Result<analysis::ScheduleView> make_view(
    const ir::Graph& graph, const analysis::OpCosts& costs, const OptimizeOptions& options,
    const std::vector<analysis::Sum>& sums = {},
    const IdVector<ir::OpId, int64_t>* least_workspaces = nullptr);

// The plan that claims to keep the budget of `options`, if there is one, and its stages. It has
// passed the gate (gate.h); error: kInternal where it did not.
Result<Optimized> write(const Prepared& ready, const BudgetSolution& solved,
                        const OptimizeOptions& options);

// Nothing but the order can help to keep a budget.
bool once_only(const plan::ScheduleProblem& problem, const OptimizeOptions& options);

// Where that is so, the order's bound refuses a budget. Error: kInfeasible.
Status check_order_bound(const Prepared& ready, const OptimizeOptions& options);

// The limits of wall time are those of a whole call; this is what is left of them after `seconds`.
OptimizeOptions after(OptimizeOptions options, double seconds);

// Which part of all work the searches are. The rest is that of proofs, which come after them.
double search_part(const plan::ScheduleProblem& problem, const OptimizeOptions& options);

inline bool fits(const Solution& solution, const OptimizeOptions& options) {
  return !options.budget_bytes || solution.arena_bytes <= *options.budget_bytes;
}

}  // namespace lowtide::pipeline
