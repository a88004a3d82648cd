#include "pipeline/budget.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "remat/joint.h"

namespace lowtide::pipeline {
namespace {

using plan::SchedAction;

constexpr int kMostAttempts = 6;     // schedules packed for one budget
constexpr int kFloorSteps = 7;       // of the search for the smallest budget
constexpr size_t kTensorsNamed = 4;  // in an error

std::vector<SchedAction> runs_of(const std::vector<SchedAction>& sequence) {
  std::vector<SchedAction> runs;
  std::copy_if(sequence.begin(), sequence.end(), std::back_inserter(runs),
               [](const SchedAction& a) { return a.kind == SchedAction::Kind::kRun; });
  return runs;
}

class Fitter {
 public:
  Fitter(const analysis::ScheduleView& view, const OptimizeOptions& options)
      : view_(view), options_(options), problem_(view.problem), search_(options.schedule) {}

  // Within `budget`, or nothing.
  Result<std::optional<BudgetSolution>> fit(int64_t budget) {
    int64_t target = budget;
    plan::SolveWork work;
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      problem_.budget_bytes = target;
      remat::RematOutcome outcome = remat::solve_joint(problem_, search_);
      work.units += outcome.work.units;
      work.seconds += outcome.work.seconds;
      work.timed_out |= outcome.work.timed_out;
      if (outcome.sequence.empty()) break;
      search_.remat.starts = {runs_of(outcome.sequence)};
      BudgetSolution found;
      LT_ASSIGN(found.solution, pack_schedule(view_, std::move(outcome.sequence), options_));
      if (found.solution.arena_bytes <= budget) {
        found.status = outcome.status;
        found.work = work;
        return std::optional(std::move(found));
      }
      target -=
          std::max<int64_t>(found.solution.arena_bytes - budget, options_.device.alignment_bytes);
    }
    return std::optional<BudgetSolution>();
  }

  // Halves the distance between what was found and what is proven or was missed, with a share of
  // the work each.
  Result<int64_t> smallest_arena(int64_t missed, int64_t found) {
    search_.remat.max_units /= kFloorSteps;
    search_.swap.max_units /= kFloorSteps;
    for (int step = 0; step < kFloorSteps && missed < found - found / 200; ++step) {
      const int64_t middle = missed + (found - missed) / 2;
      LT_ASSIGN(const auto fitted, fit(middle));
      if (fitted)
        found = fitted->solution.arena_bytes;
      else
        missed = middle;
    }
    return found;
  }

 private:
  const analysis::ScheduleView& view_;
  const OptimizeOptions& options_;
  plan::ScheduleProblem problem_;
  remat::JointOptions search_;
};

// "op 'head' with 'logits' (196.3 MiB), ..."
std::string what_sets(const plan::ScheduleProblem& problem, const remat::Floor& floor) {
  if (!floor.op.valid()) return "the resident buffers alone";
  std::vector<plan::SchedValueId> values = floor.present;
  values.insert(values.end(), floor.kept.begin(), floor.kept.end());
  std::stable_sort(values.begin(), values.end(), [&](auto a, auto b) {
    return problem.values[a].bytes > problem.values[b].bytes;
  });
  std::string text = fmt::format("op '{}'", problem.ops[floor.op].name);
  for (size_t i = 0; i < std::min(kTensorsNamed, values.size()); ++i)
    text += fmt::format("{}'{}' ({})", i == 0 ? " with " : ", ", problem.values[values[i]].name,
                        format_bytes(problem.values[values[i]].bytes));
  if (values.size() > kTensorsNamed)
    text += fmt::format(" and {} more", values.size() - kTensorsNamed);
  return text;
}

}  // namespace

Result<BudgetSolution> fit_budget(const analysis::ScheduleView& view,
                                  const OptimizeOptions& options, const Solution& unlimited) {
  const int64_t budget = *options.budget_bytes;
  plan::ScheduleProblem reachable = view.problem;
  if (!options.schedule.transfers) reachable.link.reset();
  const remat::Floor floor = remat::floor_of(reachable);
  Fitter fitter(view, options);
  if (floor.bytes <= budget) {
    LT_ASSIGN(auto fitted, fitter.fit(budget));
    if (fitted) return std::move(*fitted);
  }
  LT_ASSIGN(const int64_t smallest,
            fitter.smallest_arena(std::max(budget, floor.bytes), unlimited.arena_bytes));
  return error(
      floor.bytes > budget ? ErrorCode::kInfeasible : ErrorCode::kLimit,
      fmt::format("--budget: {} bytes ({}) {}: every schedule needs at least {} bytes ({}), set by "
                  "{}; the smallest arena found has {} bytes ({})",
                  budget, format_bytes(budget),
                  floor.bytes > budget ? "is too small" : "was not reached", floor.bytes,
                  format_bytes(floor.bytes), what_sets(view.problem, floor), smallest,
                  format_bytes(smallest)));
}

}  // namespace lowtide::pipeline
