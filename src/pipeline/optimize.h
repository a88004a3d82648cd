// From a forward graph to a Plan: the strategy, stage by stage.
//
//     forward graph -> training graph -> layouts -> costs -> order -> addresses -> plan -> verify
//                                                                  \-> recompute, swap -/
//
// A budget that the best order does not keep is kept by running ops again and moving buffers
// (pipeline/budget.h).
//
// Order and addresses are solved one after the other: the order's optimum P* bounds the joint
// problem from below, so packing at height P* proves joint optimality (MODeL's eq. 9 needs no joint
// search then). Where packing misses P*, other orders of the same peak are tried, and what remains
// is printed as fragmentation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "base/result.h"
#include "cost/device.h"
#include "cost/estimate.h"
#include "fission/labels.h"
#include "fission/rules.h"
#include "ir/graph.h"
#include "order/order.h"
#include "pack/pack.h"
#include "pipeline/label_mutations.h"
#include "pipeline/search_ideas.h"
#include "plan/kernel_catalog.h"
#include "plan/outcome.h"
#include "plan/plan.h"
#include "plan/progress.h"
#include "remat/joint.h"
#include "rewrite/rewrites.h"

namespace lowtide::pipeline {

// A slow tier that buffers may move to.
struct SlowTierChoice {
  std::string name = "host";
  plan::Link link;
};

struct OptimizeOptions {
  // These six are in the .cc: else each file that copies one has their code again.
  OptimizeOptions();
  OptimizeOptions(const OptimizeOptions&);
  OptimizeOptions(OptimizeOptions&&) noexcept;
  OptimizeOptions& operator=(const OptimizeOptions&);
  OptimizeOptions& operator=(OptimizeOptions&&) noexcept;
  ~OptimizeOptions();
  // None: the graph is planned as it is (inference).
  std::optional<autodiff::TrainingOptions> training;
  cost::DeviceProfile device;
  std::optional<cost::CostStore> costs = {};     // measured times; only with kernels
  const plan::KernelCatalog* kernels = nullptr;  // none: no workspace, layouts as they come
  std::optional<int64_t> budget_bytes;           // of the whole device
  std::vector<SlowTierChoice> slow_tiers = {};   // by preference; none: nothing moves
  bool pieces = true;         // rewrite/pieces.h and, with kernels, rewrite/destinations.h
  bool sums = true;           // contributions to a sum of gradients come in any order
  bool strided_views = true;  // rewrite/strided_views.h; only with kernels
  rewrite::RewriteChoice rewrites = {};  // beyond those that run unless somebody asks otherwise
  int64_t query_blocks = 1;              // of each attention (rewrite/query_blocks.h)
  // Ops that run in parts, by name; in training, those of the backward pass too.
  std::vector<fission::CutRule> cuts = {};
  // The largest axis class of the step (fission/classes.h) in so many parts; 0: as the budget makes
  // best (split.h). Cuts come on top: along another axis within these parts, along the same one in
  // the more parts of the two (fission/rules.h).
  fission::Labels split = {};
  LabelMutations mutations = {};  // which the search for the best of them may take
  SplitIdeas ideas = {};          // with which it searches
  // Schedules to start from beside others, as names of ops (named_runs.h), the best first.
  std::vector<std::vector<std::string>> starts = {};
  order::OrderOptions order;
  pack::PackOptions pack;
  remat::JointOptions schedule;  // how a budget is kept; its own progress is not told
  int64_t proof_units = 0;       // of work for a higher bound on the time, once there is a plan
  // Of what has addresses; from the calling thread; may be empty.
  plan::ProgressFunction progress = {};
  // The problems as files (order.txt, pack.csv): what a bug report needs; empty: nowhere.
  std::string dump_folder;
  int pack_retries = 8;  // other orders of equal peak to try when packing misses the peak
  // For one budget, at most, 1 or more: half of the work is the first's; all of it where it is one.
  int schedules_packed = 6;
  bool look_further = false;  // also say what a larger budget would buy
  // Of a split to be chosen: what every schedule needs in whatever parts (parts_floor.h), as plans
  // within a budget claim it; none: it is asked for.
  std::optional<plan::PartsFloor> parts_floor = {};
  bool find_smallest = true;  // where a budget is missed, find out how small one may be
  // Of a split to be chosen: a plan that takes no longer is good enough, a slower one of no use.
  std::optional<double> most_seconds = {};
};

// No op will run for the first time before one that comes before it in the graph, once that is in
// parts. Bounds still hold for all orders.
void keep_given_order(OptimizeOptions& options);

// Whether an error says that a budget cannot be kept, or that no way to keep it was found; all else
// is wrong whatever the budget.
inline bool is_about_budget(const Error& error) {
  return error.code == ErrorCode::kInfeasible || error.code == ErrorCode::kLimit;
}

// Of which step bounds speak: "in one part" or "in these parts".
std::string_view in_which_parts(const OptimizeOptions& options);

struct Stage {
  std::string name;
  double seconds = 0;
};

// What a rewrite has changed: ops that it removed or replaced, and by how much the peak of the ops
// in their given order and the time of each op once (by the roofline) became higher.
struct RewriteWorth {
  std::string name;
  int64_t ops = 0, peak_bytes = 0;
  double seconds = 0;
};

// A larger budget, the time of the best schedule within it that was found, and what is proven for
// every schedule within it.
struct MoreMemory {
  int64_t budget_bytes = 0;
  double seconds = 0;
  double lower_bound_seconds = 0;
};

struct Optimized {
  // These six are in the .cc: else each file that copies one has their code again.
  Optimized();
  Optimized(const Optimized&);
  Optimized(Optimized&&) noexcept;
  Optimized& operator=(const Optimized&);
  Optimized& operator=(Optimized&&) noexcept;
  ~Optimized();
  plan::Plan plan;
  plan::SolveStatus order_status = plan::SolveStatus::kLimit;
  // Proven by the search, at least the plan's certified bound; only a repeated search could recheck
  // it, so no plan claims it.
  int64_t search_bound_bytes = 0;
  plan::SolveStatus pack_status = plan::SolveStatus::kLimit;
  plan::SolveWork order_work, pack_work;
  plan::SolveStatus schedule_status = plan::SolveStatus::kOptimal;  // of recompute and swap
  plan::SolveWork schedule_work;
  double fitting_seconds = 0;  // of wall time: schedules within the budget and their addresses
  bool cut_short = false;      // wall time or a cancel flag ended a search before its work limit
  std::optional<MoreMemory> more_memory;  // where the budget costs time and the search had its time
  std::string floor_reason;  // with a budget: the op and tensors that set the claimed floor
  std::vector<RewriteWorth> rewrites;       // that changed something
  std::vector<std::string> asked_rewrites;  // beyond those by default, as asked for or chosen
  fission::Labels split = {};               // as it was asked for, or chosen
  int64_t query_blocks = 1;                 // likewise
  std::vector<fission::CutRule> cuts;       // likewise
  int64_t ops_in_parts = 0;                 // of the split
  double whole_seconds = 0;                 // of the step in one part, each op once; with a split
  bool bound_of_one_order = false;  // the bound on the time holds for this order of the sums only
  cost::Coverage costs;             // how much of the predicted time was measured
  std::vector<std::string> notes;   // what a reader of the verdict should know, a line each
  std::vector<Stage> stages;        // wall time, for people; never part of the plan
  double planning_seconds = 0;
};

// The options with the parts, blocks, cuts and rewrites of what was made.
OptimizeOptions cut_as(OptimizeOptions options, const Optimized& made);

// The graph's dims must all be constant. Error: kInput (what cannot be differentiated, typed or
// executed, all named), kInfeasible (the budget is below what is proven to be needed), kLimit
// (nothing was found), kInternal (the verifier refuses what was made: gate.h). The message says
// which op and tensors set the floor and, with find_smallest and time left, the smallest arena
// found.
Result<Optimized> optimize(const ir::Graph& forward, const OptimizeOptions& options);

// What every schedule of these options is proven to need of the device, by the floor (of its ops
// one by one, remat/bounds/floor.h) or, where ops run once and nothing moves, by the order's bound.
// Quick: no plan is made. Errors as above, but none of budgets.
Result<int64_t> least_bytes(const ir::Graph& forward, const OptimizeOptions& options);

// Bytes of the smallest arena that little work finds (smallest.h), as a refused budget is told: as
// a budget of the same options it is kept. None where that is no smaller than the one that needs no
// budget. The parts must be given. Errors as of optimize, but none of budgets.
Result<std::optional<int64_t>> smallest_arena(const ir::Graph& forward,
                                              const OptimizeOptions& options);

}  // namespace lowtide::pipeline
