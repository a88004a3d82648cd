#include "pipeline/smallest.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/work.h"
#include "remat/joint.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SmallestTuning {
  int steps = 8;            // of the halving
  int64_t fineness = 500;   // of the halving, as a part of the bytes
  int64_t work_share = 20;  // of the whole work, for all steps together
  // A step that gets less, by ops but not above all, seldom comes to anything.
  int64_t least_units_per_op = 20'000, least_units = 5'000'000;
  int tries = 3;            // inner budgets of a step, where buffers may move
  int packed = 3;           // schedules that get addresses, the lowest ones
  int64_t pack_share = 40;  // of the packer's work, for each of them
  int64_t least_pack_units = 5'000'000;
};
constexpr SmallestTuning kSmallest;

struct Low {
  std::vector<plan::SchedAction> sequence;
  int64_t peak_bytes = 0;
};

remat::JointOptions share_of(const OptimizeOptions& options, size_t ops) {
  remat::JointOptions search = options.schedule;
  const int64_t least =
      std::min(kSmallest.least_units, kSmallest.least_units_per_op * static_cast<int64_t>(ops) + 1);
  const auto lessen = [&](int64_t& units) {
    units = std::max(units / (kSmallest.work_share * kSmallest.steps), std::min(units, least));
  };
  lessen(search.remat.limits.max_units);
  lessen(search.swap.limits.max_units);
  search.tries = std::min(search.tries, kSmallest.tries);
  search.remat.cut_bound = false;  // the floor is the bound that is wanted
  search.remat.progress = {};
  search.remat.starts.clear();
  return search;
}

// Ever lower schedules, the lowest last.
std::vector<Low> descend(const analysis::ScheduleView& view, const OptimizeOptions& options,
                         int64_t from, int64_t floor) {
  std::vector<Low> found;
  plan::ScheduleProblem problem = view.problem;
  remat::JointOptions search = share_of(options, problem.ops.size());
  const WorkBudget clock;
  int64_t missed = floor - 1, lowest = from;
  for (int step = 0; step < kSmallest.steps && lowest - missed > lowest / kSmallest.fineness;
       ++step) {
    search.remat.limits.max_seconds = options.schedule.remat.limits.max_seconds - clock.seconds();
    if (search.remat.limits.max_seconds <= 0) break;
    // The floor itself first: where it can be reached, nothing else needs to be tried.
    problem.budget_bytes = step == 0 ? floor : missed + (lowest - missed) / 2;
    remat::RematOutcome outcome = remat::solve_joint(problem, search);
    if (outcome.sequence.empty()) {
      if (outcome.cut_short) break;
      missed = *problem.budget_bytes;
      continue;
    }
    lowest = outcome.peak_bytes;
    search.remat.starts = {plan::runs_of(outcome.sequence)};
    found.push_back({std::move(outcome.sequence), outcome.peak_bytes});
  }
  return found;
}

}  // namespace

Result<std::optional<Solution>> find_smallest(const analysis::ScheduleView& view,
                                              const OptimizeOptions& options,
                                              const Solution& unlimited, int64_t floor) {
  std::vector<Low> lows = descend(view, options, unlimited.profile.peak_bytes, floor);
  OptimizeOptions packing = options;
  packing.pack.limits.max_units =
      std::max(packing.pack.limits.max_units / kSmallest.pack_share,
               std::min(packing.pack.limits.max_units, kSmallest.least_pack_units));
  const std::vector<plan::Link> links = plan::links_of(view.problem);
  std::optional<Solution> best;
  int64_t least = unlimited.arena_bytes;
  for (int i = 0; i < kSmallest.packed && !lows.empty() && lows.back().peak_bytes < least; ++i) {
    LT_ASSIGN(Solution packed, pack_schedule(view, std::move(lows.back().sequence), packing));
    lows.pop_back();
    bool fits = packed.arena_bytes < least;
    for (size_t tier = 0; tier < links.size(); ++tier)
      fits &= packed.slots[tier].height_bytes <= links[tier].bytes;
    if (!fits) continue;
    least = packed.arena_bytes;
    best = std::move(packed);
  }
  return best;
}

}  // namespace lowtide::pipeline
