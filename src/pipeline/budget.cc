#include "pipeline/budget.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/bytes.h"
#include "base/work.h"
#include "pipeline/claims.h"
#include "pipeline/named_runs.h"
#include "pipeline/prepare.h"
#include "pipeline/smallest.h"
#include "plan/sequence_simulator.h"
#include "remat/joint.h"

namespace lowtide::pipeline {
namespace {

constexpr size_t kTensorsNamed = 4;  // in an error

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct FitTuning {
  int64_t fineness = 1000;               // of a target, as a part of the budget
  int64_t pack_share = 10;               // of the packer's work, for each attempt
  int64_t order_share = 2;               // of the search's, at most this part for the least peak
  int64_t least_pack_units = 5'000'000;  // less than that seldom comes to anything
  // What a search gets that was stopped while its best schedule needed an arena above the budget.
  int64_t closing_units = 40'000'000;
  int64_t closing_slack = 40;    // of the budget, left for the packer
  double closing_seconds = 0.8;  // for all that is tried then
  double closing_share = 0.5;    // of what is left of them: one search, one packing
};
constexpr FitTuning kFit;

class Fitter {
 public:
  Fitter(const analysis::ScheduleView& view, const OptimizeOptions& options,
         std::span<const plan::SchedOpId> order)
      : view_(view), options_(options), problem_(view.problem), search_(options.schedule) {
    search_.remat.progress = {};
    search_.remat.bound = bound_to_claim(order);
    for (const std::vector<std::string>& start : options_.starts)
      spare_starts_.push_back(named_runs(problem_, start));
    if (!spare_starts_.empty()) {
      search_.remat.starts.push_back(spare_starts_.front());
      search_.remat.all_starts = true;
      spare_starts_.erase(spare_starts_.begin());
    }
    options_.pack.limits.max_units =
        std::max(options_.pack.limits.max_units / kFit.pack_share,
                 std::min(options_.pack.limits.max_units, kFit.least_pack_units));
  }

  // Within `budget`, or nothing. `low` is the largest target whose arena kept the budget or for
  // which no schedule was found, `missed` the least one whose arena did not: what packs well is no
  // matter of bytes alone, so the best of all that fit is taken.
  Result<std::optional<BudgetSolution>> fit(int64_t budget) {
    LT_ASSIGN(std::optional<BudgetSolution> best, given_start(budget));
    find_least_peak_order();
    remat::JointOptions search = search_;
    const int64_t finest = std::max(budget / kFit.fineness, options_.device.alignment_bytes);
    int64_t target = budget, low = 0, missed = budget;
    bool closing = false;
    for (int attempt = 0; attempt < options_.schedules_packed; ++attempt) {
      spend(search, attempt);
      look_at_stop();
      if (cut_short_ && (best || (least_arena_ && seconds_left() <= 0))) break;
      if (cut_short_ && !closing && low == 0)
        target = std::min(missed - finest, budget - budget / kFit.closing_slack);
      closing = cut_short_;
      limit(search);
      watch(search, attempt, budget, best ? &best->solution : nullptr);
      // What is proven for a smaller target says nothing of the budget.
      search.remat.cut_bound &= target == budget;
      problem_.budget_bytes = target;
      if (!best && (attempt > 0 || !starts_within(budget))) add_spare_starts(target, search);
      remat::RematOutcome outcome = remat::solve_joint(problem_, search);
      add(outcome.work, work_);
      if (attempt == 0) bound_ = std::move(outcome.bound);
      search.remat.bound.reset();
      if (outcome.cut_short) begin_to_close();
      int64_t over = 0;
      if (outcome.sequence.empty()) {
        crowded_ = outcome.crowded;
        if (target == budget && !cut_short_) break;
        if (target < budget) low = target;
      } else {
        search.remat.starts = {plan::runs_of(outcome.sequence)};
        search.remat.all_starts = false;
        const bool speaks_of_budget = target == budget;
        BudgetSolution found{
            {}, speaks_of_budget ? outcome.status : plan::SolveStatus::kFeasible, {}};
        limit_packing();
        LT_ASSIGN(found.solution,
                  pack_schedule(view_, std::move(outcome.sequence), options_, budget));
        if (lessen_room(found.solution)) continue;
        over = note_arena(found.solution) - budget;
        (over > 0 ? missed : low) = target;
        if (over <= 0 && is_better(found, best)) best = std::move(found);
      }
      if (low > 0 && missed - low <= finest) break;
      target = low > 0 ? low + (missed - low) / 2 : target - std::max(over, finest);
      // What packs badly may miss by a little each time: the last one leaves room, as at the end.
      if (low == 0 && attempt + 2 == options_.schedules_packed)
        target = std::min(target, budget - budget / kFit.closing_slack);
    }
    if (best) {
      best->work = work_;
      best->cut_short = cut_short_;
      best->bound = bound_;
      best->seconds = clock_.seconds();
    }
    return best;
  }

  bool cut_short() const { return cut_short_; }

  // "; slow tier 'host' has room for 64.0 MiB, 80.0 MiB were needed", if that was in the way.
  std::string crowded() const {
    if (!crowded_) return "";
    const SlowTierChoice& tier = options_.slow_tiers[crowded_->tier];
    return fmt::format("; slow tier '{}' has room for {} bytes ({}), {} bytes ({}) were needed",
                       tier.name, tier.link.bytes, format_bytes(tier.link.bytes),
                       crowded_->needed_bytes, format_bytes(crowded_->needed_bytes));
  }

  // The least arena of all that were packed, if any was.
  std::optional<int64_t> least_arena() const { return least_arena_; }
  const plan::SolveWork& work() const { return work_; }
  const std::optional<remat::TimeBound>& bound() const { return bound_; }
  double seconds() const { return clock_.seconds(); }

 private:
  static bool is_better(const BudgetSolution& one, const std::optional<BudgetSolution>& other) {
    return !other || one.solution.profile.seconds < other->solution.profile.seconds;
  }

  // All targets' searches start from it. It is paid from the work for all of them, with half of it
  // at most.
  void find_least_peak_order() {
    if (!search_.remat.reorder || !search_.remat.order_start) return;
    const plan::ScheduleOutcome least = remat::least_peak_order(problem_, search_.remat);
    add(least.work, work_);
    least_peak_order_ = least.sequence;
    search_.remat.least_peak_order = least_peak_order_;
    int64_t& units = search_.remat.limits.max_units;
    units -= std::min(least.work.units, units / kFit.order_share);
  }

  // Whether the first schedule that was given keeps the budget, before it is packed.
  bool starts_within(int64_t budget) const {
    if (search_.remat.starts.empty()) return false;
    const auto profile = plan::simulate_sequence(problem_, search_.remat.starts.front());
    return profile && profile->peak_bytes <= budget;
  }

  // The first schedule that was given, where its arena keeps the budget: what a search makes of it
  // may pack worse. Where the order must stay, only the search knows whether it does.
  Result<std::optional<BudgetSolution>> given_start(int64_t budget) {
    if (options_.starts.empty() || !search_.remat.reorder || !starts_within(budget))
      return std::optional<BudgetSolution>();
    BudgetSolution found{{}, plan::SolveStatus::kFeasible, {}};
    LT_ASSIGN(found.solution, pack_schedule(view_, search_.remat.starts.front(), options_, budget));
    if (note_arena(found.solution) > budget) return std::optional<BudgetSolution>();
    return std::optional<BudgetSolution>(std::move(found));
  }

  // Where no arena keeps the budget yet: those given ones that keep the target.
  void add_spare_starts(int64_t target, remat::JointOptions& search) const {
    for (const std::vector<plan::SchedAction>& start : spare_starts_) {
      auto& starts = search.remat.starts;
      if (std::find(starts.begin(), starts.end(), start) != starts.end()) continue;
      const auto profile = plan::simulate_sequence(problem_, start);
      if (profile && profile->peak_bytes <= target) starts.push_back(start);
    }
  }

  int64_t note_arena(const Solution& solution) {
    least_arena_ = std::min(least_arena_.value_or(solution.arena_bytes), solution.arena_bytes);
    return solution.arena_bytes;
  }

  static void add(const plan::SolveWork& one, plan::SolveWork& sum) {
    sum.units += one.units;
    sum.seconds += one.seconds;
    sum.timed_out |= one.timed_out;
  }

  // Slots that have room as bytes may lie so that they have none. Then the search is told of less.
  // True: some slow tier was too small.
  bool lessen_room(const Solution& solution) {
    const std::vector<plan::Link> links = plan::links_of(view_.problem);
    bool any = false;
    for (size_t tier = 0; tier < links.size(); ++tier) {
      const int64_t over = solution.slots[tier].height_bytes - links[tier].bytes;
      if (over <= 0) continue;
      int64_t& room = tier == 0 ? problem_.link->bytes : problem_.more_links[tier - 1].bytes;
      room = std::max<int64_t>(1, room - std::max(over, options_.device.alignment_bytes));
      crowded_ = {static_cast<uint8_t>(tier), solution.slots[tier].height_bytes};
      any = true;
    }
    return any;
  }

  // Of all the work, what is done before an attempt: the first takes half, the others share the
  // rest; a single one takes all of it.
  double share_before(int attempt) const {
    if (attempt == 0) return 0;
    const int others = options_.schedules_packed - 1;
    return others == 0 ? 1 : 0.5 + 0.5 * (attempt - 1) / others;
  }

  // Leaves `search` an attempt's part of the whole work.
  void spend(remat::JointOptions& search, int attempt) const {
    const int others = options_.schedules_packed - 1;
    const int64_t part = others == 0 ? 1 : attempt == 0 ? 2 : 2 * others;
    search.remat.limits.max_units = std::max<int64_t>(1, search_.remat.limits.max_units / part);
    search.swap.limits.max_units = std::max<int64_t>(1, search_.swap.limits.max_units / part);
  }

  // The clock or the cancel flag ended the search. A little time is left to turn what there is
  // into a plan.
  void begin_to_close() {
    if (cut_short_) return;
    cut_short_ = true;
    closed_after_ = clock_.seconds() + kFit.closing_seconds;
    options_.pack.limits.cancel = nullptr;
  }

  void look_at_stop() {
    const Limits& limits = search_.remat.limits;
    if (limits.cancelled() || clock_.seconds() >= limits.max_seconds) begin_to_close();
  }

  double seconds_left() const {
    const double end = cut_short_ ? closed_after_ : search_.remat.limits.max_seconds;
    return std::max(0.0, end - clock_.seconds());
  }

  // One search gets the time that is left, at the end a share of it.
  void limit(remat::JointOptions& search) const {
    search.remat.limits.max_seconds =
        cut_short_ ? seconds_left() * kFit.closing_share : seconds_left();
    if (!cut_short_) return;
    search.remat.limits.cancel = nullptr;
    search.remat.cut_bound = search.remat.order_start = search.remat.greedy_start = false;
    search.remat.chain_start = false;
    search.remat.limits.max_units = std::min(search.remat.limits.max_units, kFit.closing_units);
    search.swap.limits.max_units = std::min(search.swap.limits.max_units, kFit.closing_units);
  }

  void limit_packing() {
    look_at_stop();
    const double left = cut_short_ ? seconds_left() * kFit.closing_share : seconds_left();
    options_.pack.limits.max_seconds = std::min(options_.pack.limits.max_seconds, left);
  }

  // Progress of all attempts together. Only what has addresses is the best so far.
  void watch(remat::JointOptions& search, int attempt, int64_t budget, const Solution* best) {
    if (!options_.progress) return;
    const double from = share_before(attempt), to = share_before(attempt + 1);
    search.remat.progress = [=, this](const plan::Progress& searched) {
      plan::Progress progress;
      progress.stage = searched.stage;
      progress.budget_bytes = budget;
      share_ = std::max(share_, from + (to - from) * searched.share);
      progress.share = share_;
      if (attempt == 0) proven_seconds_ = searched.lower_bound_seconds;
      progress.lower_bound_seconds = proven_seconds_;
      if (best != nullptr) {
        progress.seconds = best->profile.seconds;
        progress.peak_bytes = best->profile.peak_bytes;
      }
      if (best == nullptr || searched.seconds < best->profile.seconds)
        progress.unpacked_seconds = searched.seconds;
      options_.progress(progress);
    };
  }

  const analysis::ScheduleView& view_;
  OptimizeOptions options_;
  plan::ScheduleProblem problem_;
  remat::JointOptions search_;
  std::vector<plan::SchedOpId> least_peak_order_;  // searches of all targets start from it
  std::vector<std::vector<plan::SchedAction>> spare_starts_;  // given, but for the first
  const WorkBudget clock_;
  plan::SolveWork work_;
  std::optional<int64_t> least_arena_;
  bool cut_short_ = false;
  double closed_after_ = 0;                // on the clock
  double share_ = 0;                       // of the work, as was told
  double proven_seconds_ = 0;              // for the budget, as far as was told
  std::optional<remat::TimeBound> bound_;  // of the budget
  std::optional<remat::CrowdedTier> crowded_;
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
  if (floor.way)
    text += fmt::format(", on the way to what '{}' reads", problem.ops[floor.way->op].name);
  if (floor.resident_bytes > 0)
    text += fmt::format(", beside {} that stay", format_bytes(floor.resident_bytes));
  return text;
}

}  // namespace

ProvenFloor floor_of_view(const analysis::ScheduleView& view, bool transfers) {
  const plan::ScheduleProblem problem = analysis::relaxed_sums(view);
  remat::Floor floor = proven_floor(problem, transfers);
  std::string reason = what_sets(problem, floor);
  std::string op = floor.op.valid() ? problem.ops[floor.op].name : "";
  return {floor.bytes, std::move(reason), std::move(op), std::move(floor)};
}

Result<BudgetSolution> fit_budget(const analysis::ScheduleView& view,
                                  const OptimizeOptions& options,
                                  std::span<const plan::SchedOpId> order, const Solution& unlimited,
                                  const ProvenFloor& floor) {
  const int64_t budget = *options.budget_bytes;
  Fitter fitter(view, options, order);
  if (floor.bytes <= budget) {
    LT_ASSIGN(auto fitted, fitter.fit(budget));
    if (fitted) return std::move(*fitted);
  }
  if (!options.find_smallest && !fitter.cut_short())
    return error(floor.bytes > budget ? ErrorCode::kInfeasible : ErrorCode::kLimit,
                 fmt::format("--budget: {} bytes {}: {} every schedule needs at least {} bytes{}",
                             budget, floor.bytes > budget ? "is too small" : "was not reached",
                             in_which_parts(options), floor.bytes, fitter.crowded()));
  if (fitter.cut_short())
    return error(ErrorCode::kLimit,
                 fmt::format("--budget: {} bytes ({}): the search was stopped before any schedule "
                             "within it was found; {} every schedule needs at least {} bytes ({}), "
                             "set by {}",
                             budget, format_bytes(budget), in_which_parts(options), floor.bytes,
                             format_bytes(floor.bytes), floor.reason));
  LT_ASSIGN(auto smallest,
            find_smallest(view, after(options, fitter.seconds()), unlimited, floor.bytes));
  if (smallest && smallest->arena_bytes <= budget)
    return BudgetSolution{std::move(*smallest), plan::SolveStatus::kFeasible, fitter.work(), false,
                          fitter.bound()};
  const int64_t least = std::min(smallest ? smallest->arena_bytes : unlimited.arena_bytes,
                                 fitter.least_arena().value_or(unlimited.arena_bytes));
  return error(
      floor.bytes > budget ? ErrorCode::kInfeasible : ErrorCode::kLimit,
      fmt::format("--budget: {} bytes ({}) {}: {} every schedule needs at least {} bytes ({}), set "
                  "by {}; the smallest arena found has {} bytes ({}){}",
                  budget, format_bytes(budget),
                  floor.bytes > budget ? "is too small" : "was not reached",
                  in_which_parts(options), floor.bytes, format_bytes(floor.bytes), floor.reason,
                  least, format_bytes(least), fitter.crowded()));
}

}  // namespace lowtide::pipeline
