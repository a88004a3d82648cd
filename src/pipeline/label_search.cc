#include "pipeline/label_search.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "analysis/describe.h"
#include "analysis/schedule_view.h"
#include "base/clock.h"
#include "cost/estimate.h"
#include "fission/part_seconds.h"
#include "fission/regions.h"
#include "fission/scale.h"
#include "fission/unfold.h"
#include "pipeline/label_neighbours.h"
#include "plan/schedule_simulator.h"
#include "remat/bounds/closure_cut.h"
#include "remat/remat.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;
using ir::OpId;
using plan::SchedOpId;

bool is_better(const Candidate& a, const Candidate& b) {
  const bool a_can = a.can_fit(), b_can = b.can_fit();
  if (a_can != b_can) return a_can;
  const double a_takes = a.least_seconds(), b_takes = b.least_seconds();
  return a_can ? std::pair(a_takes, a.peak_bytes) < std::pair(b_takes, b.peak_bytes)
               : std::pair(a.peak_bytes, a_takes) < std::pair(b.peak_bytes, b_takes);
}

class Search {
 public:
  Search(const ir::Graph& step, const OptimizeOptions& options, const LabelSearchTuning& tuning,
         double below_seconds)
      : step_(step),
        options_(options),
        tuning_(tuning),
        best_seconds_(below_seconds),
        budget_bytes_(*options.budget_bytes),
        estimator_(options.device, options.costs ? &*options.costs : nullptr) {}

  // Best first; empty where there is no class.
  Result<std::vector<Candidate>> run() {
    LT_RETURN_IF_ERROR(look_at_all());
    return ranked();
  }

  // The whole step with its bound, and even parts that fit each op once.
  Result<std::vector<Candidate>> even_ones(size_t most) {
    LT_ASSIGN(const bool has_class, find_class());
    if (!has_class) return std::vector<Candidate>{};
    LT_RETURN_IF_ERROR(pose());
    LT_RETURN_IF_ERROR(look_at({}, given_));
    std::vector<Candidate> found = {all_.front().candidate};
    if (found.front().fits) return found;
    found.front().fits = all_.front().may_fit;  // whatever that takes, at least
    found.front().seconds = all_.front().least_seconds;
    may_cut_ = false;
    budget_bytes_ -= budget_bytes_ / tuning_.tight_share;
    for (int64_t parts = 2; parts <= most_parts() && found.size() <= most && !is_done();
         parts += 1 + parts / 4) {
      const Labels labels = {.parts = parts};
      best_seconds_ = kAnyTime;  // what takes longer may be what fits
      LT_RETURN_IF_ERROR(look_at(labels, given_));
      const State& state = all_.back();
      if (state.candidate.labels != labels || !state.candidate.fits) continue;
      LT_ASSIGN(const auto levels, reader_->levels(labels));
      found.push_back(state.candidate);
      found.back().starts.push_back(unfolded(levels, state.runs));
    }
    return found;
  }

  // Ends with the first that fits in less than `below_seconds`.
  Result<bool> finds_any() {
    first_is_enough_ = true;
    LT_RETURN_IF_ERROR(look_at_all());
    return best_.has_value();
  }

 private:
  Result<bool> find_class() {
    LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(step_));
    if (classes.empty()) return false;
    axis_class_ = classes.front();
    reader_.emplace(step_, axis_class_);
    return true;
  }

  Status look_at_all() {
    LT_ASSIGN(const bool has_class, find_class());
    if (!has_class) return {};
    LT_RETURN_IF_ERROR(pose());
    LT_RETURN_IF_ERROR(find_regions());
    LT_RETURN_IF_ERROR(look_at({}, given_));
    bool has_looked_at_even = false;
    for (int late = 0; late < tuning_.late_searches && !is_done();) {
      const bool has_tried = open_.empty() || searches_without_ >= tuning_.searches_without;
      if (has_tried && !std::exchange(has_looked_at_even, true)) LT_RETURN_IF_ERROR(look_at_even());
      if (open_.empty()) break;
      const size_t at = open_.top().second;
      open_.pop();
      if (is_promising(all_[at])) LT_RETURN_IF_ERROR(search(all_[at], tuning_.remat_units));
      const bool is_full = all_.size() >= most_states();
      late += is_full ? 1 : 0;
      const std::vector<SchedOpId> order = all_[at].order;
      if (is_full) continue;
      for (const Labels& labels : neighbours_->of(all_[at].candidate.labels, options_.mutations))
        if (!is_done()) LT_RETURN_IF_ERROR(look_at(labels, order));
    }
    return look_closer();
  }

  // What is known of labels.
  struct State {
    Candidate candidate;
    std::vector<SchedOpId> order;  // each op once: of the whole step's problem
    std::vector<SchedOpId> runs;   // behind the candidate's estimate
    double once_seconds = 0;       // each op once
    double least_seconds = 0;      // of every schedule of one part of everything
    bool may_fit = false;          // no bound says that it cannot
  };

  size_t most_states() const {
    const int64_t by_ops = tuning_.most_state_ops / static_cast<int64_t>(step_.op_count() + 1);
    return static_cast<size_t>(std::clamp<int64_t>(by_ops, 1, tuning_.most_states));
  }

  // What is left of the limits of time, whatever the units.
  Limits limits() const { return options_.schedule.remat.limits.after(seconds_since(start_)); }
  bool is_done() const {
    return options_.schedule.remat.limits.stop_after(seconds_since(start_)) ||
           (first_is_enough_ && best_);
  }

  // The whole step's problem, its best order, and prices.
  Status pose() {
    const auto price = [this](const plan::OpDesc& op) -> Result<double> {
      LT_ASSIGN(const cost::Estimate estimate, estimator_.estimate(op));
      return estimate.seconds;
    };
    LT_ASSIGN(auto seconds, fission::PartSeconds::make(step_, price));
    seconds_.emplace(std::move(seconds));
    analysis::OpCosts costs;
    costs.workspace_bytes = workspaces();
    LT_ASSIGN(costs.seconds, all_seconds(fission::Cuts(step_.op_count())));
    const int64_t alignment = options_.device.alignment_bytes;
    LT_ASSIGN(auto view, analysis::make_schedule_view(step_, costs, alignment));
    view_.emplace(std::move(view));
    drop_names(view_->problem);
    LT_ASSIGN(auto scale, fission::Scale::make(step_, *view_, axis_class_, alignment));
    scale_.emplace(std::move(scale));
    given_ = best_order(view_->problem).sequence;
    return {};
  }

  int64_t most_parts() const { return std::min(axis_class_.least_extent, tuning_.most_parts); }

  Status find_regions() {
    LT_ASSIGN(const std::vector<fission::Region> regions,
              fission::find_regions(step_, axis_class_, *view_, given_, tuning_.levels));
    neighbours_.emplace(step_, regions, most_parts(), tuning_.most_parts, tuning_.factors);
    return {};
  }

  // Each state copies the problem, and nobody reads it.
  static void drop_names(plan::ScheduleProblem& problem) {
    for (plan::SchedOp& op : problem.ops) op.name.clear();
    for (plan::SchedValue& value : problem.values) value.name.clear();
    for (plan::SchedResident& resident : problem.residents) resident.name.clear();
  }

  // As the operands lie in the step, before layouts are chosen: an estimate. Of ops that no kernel
  // takes so, none.
  IdVector<OpId, int64_t> workspaces() const {
    IdVector<OpId, int64_t> bytes(step_.op_count(), 0);
    if (options_.kernels == nullptr) return bytes;
    for (const OpId id : step_.ops()) {
      const auto desc = analysis::describe(step_, id);
      const auto needed = desc ? options_.kernels->workspace_bytes(*desc) : Result<int64_t>(0);
      bytes[id] = needed.value_or(0);
    }
    return bytes;
  }

  Result<IdVector<OpId, double>> all_seconds(const fission::Cuts& cuts) {
    IdVector<OpId, double> seconds(step_.op_count(), 0);
    for (const OpId id : step_.ops()) {
      LT_ASSIGN(seconds[id], seconds_->of(id, cuts[id] ? &*cuts[id] : nullptr));
    }
    return seconds;
  }

  plan::ScheduleOutcome best_order(const plan::ScheduleProblem& problem) const {
    order::OrderOptions quick = options_.order;
    quick.exact_search = quick.beam = quick.cut_bound = false;
    quick.random_restarts = 0;
    quick.limits.max_units = tuning_.order_units;
    return order::solve(problem, quick);
  }

  // Best first. The first of all and the first without levels get their starts.
  Result<std::vector<Candidate>> ranked() {
    std::vector<size_t> order(all_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return is_better(all_[a].candidate, all_[b].candidate);
    });
    std::vector<Candidate> ranked;
    bool has_even = false;
    for (const size_t at : order) {
      Candidate& made = ranked.emplace_back(all_[at].candidate);
      const bool is_even = made.labels.nests.empty();
      if (!made.fits || (ranked.size() > tuning_.most_starts && (has_even || !is_even))) continue;
      has_even |= is_even;
      LT_ASSIGN(const auto levels, reader_->levels(made.labels));
      made.starts.push_back(unfolded(levels, all_[at].runs));
      if (all_[at].runs.size() == view_->op.size() || ranked.size() > tuning_.tight_starts)
        continue;
      LT_ASSIGN(const auto tight, tight_runs(all_[at]));
      if (!tight.empty()) made.starts.push_back(unfolded(levels, tight));
    }
    return ranked;
  }

  // Of a state that recomputes, for a little less memory: addresses may need more than the peak.
  Result<std::vector<SchedOpId>> tight_runs(const State& state) {
    LT_ASSIGN(const fission::Scaled scaled, scaled_of(state));
    const plan::ScheduleOutcome order = best_order(scaled.problem);
    const int64_t less = budget_bytes_ - budget_bytes_ / tuning_.tight_share;
    auto found = schedule_within(less, scaled, order, state, tuning_.closer_units, {&state});
    return found ? std::move(found->runs) : std::vector<SchedOpId>{};
  }

  // A schedule of one part of everything, as names of the parts' ops.
  std::vector<std::string> unfolded(const fission::Levels& levels,
                                    const std::vector<SchedOpId>& runs) const {
    const fission::Cuts cuts = fission::cuts_of(step_, axis_class_, levels);
    const auto level_of = fission::levels_as_cut(levels, cuts);
    IdVector<SchedOpId, int> of_run(view_->op.size());
    for (const SchedOpId op : view_->op.ids()) of_run[op] = level_of[view_->op[op]];
    std::vector<std::string> names;
    for (const fission::PartRun& run :
         fission::unfold(view_->problem, levels, of_run, runs, scale_->waits_for())) {
      const OpId op = view_->op[run.op];
      const std::string& name = step_.op(op).name;
      names.push_back(cuts[op] ? fission::part_name(name, static_cast<size_t>(run.part)) : name);
    }
    return names;
  }

  // ---- states

  // Whether a search may find more than is known. Of what recompute takes bounds show a part; by
  // the tightest so far it is guessed how much more it will be.
  bool is_promising(const State& state) const {
    const double proven = state.least_seconds - state.once_seconds;
    const double more = tuning_.gap_share * (least_ratio_.value_or(1) - 1) * proven;
    const bool is_open = state.may_fit && !state.candidate.fits;
    return is_open && state.least_seconds + more < best_seconds_ * (1 - tuning_.worth);
  }

  // Once more with more work, and from what the best has come to: where a budget is tight, a short
  // search finds little of what there is.
  Status look_closer() {
    std::vector<size_t> close;
    for (size_t at = 0; at < all_.size(); ++at)
      if (all_[at].may_fit && all_[at].least_seconds < best_seconds_) close.push_back(at);
    std::stable_sort(close.begin(), close.end(),
                     [&](size_t a, size_t b) { return key_of(all_[a]) < key_of(all_[b]); });
    if (close.size() > tuning_.closer_looks) close.resize(tuning_.closer_looks);
    for (const size_t at : close) {
      const State& state = all_[at];
      const bool is_far = best_seconds_ > state.least_seconds * (1 + tuning_.far);
      const bool is_close = state.candidate.fits &&
                            state.least_seconds > state.candidate.seconds * (1 - tuning_.worth);
      if (state.least_seconds < best_seconds_ && !is_close && !is_done())
        LT_RETURN_IF_ERROR(
            search(all_[at], is_far ? tuning_.far_units : tuning_.closer_units, is_far));
    }
    return {};
  }

  // What of a state is known without a search.
  Status look_at(const Labels& labels, const std::vector<SchedOpId>& order) {
    if (!seen_.insert(fission::print(labels)).second) return {};
    LT_ASSIGN(std::optional<State> made, judged(labels, order));
    if (made) keep(std::move(*made));
    return {};
  }

  // None where a level changes nothing.
  Result<std::optional<State>> judged(const Labels& labels, const std::vector<SchedOpId>& order) {
    const auto levels = reader_->levels(labels);
    if (!levels) return std::nullopt;
    const fission::Cuts cuts = fission::cuts_of(step_, axis_class_, *levels);
    if (fission::has_idle_level(*levels, fission::levels_as_cut(*levels, cuts)))
      return std::nullopt;
    State made;
    made.candidate.labels = labels;
    LT_ASSIGN(const auto seconds, all_seconds(cuts));
    made.candidate.seconds = made.once_seconds = made.least_seconds =
        std::accumulate(seconds.begin(), seconds.end(), 0.0);
    made.order = order;
    if (made.once_seconds < best_seconds_) bound(scale_->problem(*levels, cuts, seconds), made);
    return made;
  }

  // One that is no faster than the best, each op once, is dominated: never expanded.
  void keep(State made) {
    const bool is_open = made.once_seconds < best_seconds_;
    all_.push_back(std::move(made));
    if (is_open) open(all_.size() - 1);
  }

  void open(size_t at) {
    State& made = all_[at];
    if (made.candidate.fits && made.runs.empty()) {
      made.runs = made.order;
      best_seconds_ = made.candidate.seconds;
      best_ = at;
    }
    open_.push({key_of(made), at});
  }

  // Behind the first searches: even parts, twice as many each time and half as many more, by their
  // bounds until one fits. From neighbour to neighbour the search may not come to it: levels within
  // few parts can have lower bounds than more parts, and there are more of them than states.
  // Numbers that it has come to are open, and searched in their turn.
  Status look_at_even() {
    std::vector<State> even;
    const int64_t most = most_parts();
    std::set<int64_t> numbers = {most};
    for (int64_t parts = 2; parts <= most; parts *= 2)
      numbers.insert({parts, std::min(most, parts * 3 / 2)});
    for (const int64_t parts : numbers) {
      const Labels labels = {.parts = parts};
      if (parts < 2 || seen_.contains(fission::print(labels)) || is_done()) continue;
      LT_ASSIGN(std::optional<State> made, judged(labels, given_));
      if (made) even.push_back(*std::move(made));
    }
    std::stable_sort(even.begin(), even.end(),
                     [](const State& a, const State& b) { return key_of(a) < key_of(b); });
    for (State& state : even) {
      all_.push_back(std::move(state));
      if (is_promising(all_.back())) LT_RETURN_IF_ERROR(search(all_.back(), tuning_.remat_units));
      if (!all_.back().candidate.fits) {  // as if it had not been looked at
        all_.pop_back();
        continue;
      }
      seen_.insert(fission::print(all_.back().candidate.labels));
      open(all_.size() - 1);
      break;
    }
    return {};
  }

  void set_budget(plan::ScheduleProblem& problem) const {
    problem.budget_bytes = budget_bytes_;
    if (!options_.schedule.transfers) plan::forbid_transfers(problem);
  }

  // Runs of the whole step's ops as ones of the scaled problem: what begins a sum comes right
  // before the first who needs it.
  std::vector<SchedOpId> runs_in(const fission::Scaled& scaled,
                                 const std::vector<SchedOpId>& runs) const {
    IdVector<SchedOpId, SchedOpId> scaled_op(view_->op.size());
    for (const SchedOpId op : scaled.op.ids())
      if (scaled.op[op].valid()) scaled_op[scaled.op[op]] = op;
    IdVector<SchedOpId, std::vector<SchedOpId>> begins(scaled.op.size());
    for (const auto& [before, after] : scaled.problem.control)
      if (!scaled.op[before].valid()) begins[after].push_back(before);
    IdVector<SchedOpId, char> has_begun(scaled.op.size(), 0);
    std::vector<SchedOpId> sequence;
    for (const SchedOpId op : runs) {
      for (const SchedOpId begin : begins[scaled_op[op]])
        if (!std::exchange(has_begun[begin], 1)) sequence.push_back(begin);
      sequence.push_back(scaled_op[op]);
    }
    return sequence;
  }

  // By a known order: where it fits, each op once is the least there is; where it does not, the
  // cut.
  void bound(fission::Scaled scaled, State& made) const {
    set_budget(scaled.problem);
    const plan::ScheduleProblem& problem = scaled.problem;
    const std::vector<SchedOpId> order = runs_in(scaled, made.order);
    plan::ProblemIndex index(problem);
    const auto profile = plan::simulate(problem, index, order);
    LT_CHECK(profile.has_value(), "an order of the whole step is one of its parts");
    made.candidate.peak_bytes = profile->peak_bytes;
    made.may_fit = made.candidate.fits = made.candidate.peak_bytes <= budget_bytes_;
    if (made.may_fit) return;
    made.may_fit = true;  // in another order
    if (const auto moved = moved_seconds(made)) made.candidate.moved_seconds = *moved;
    if (!options_.schedule.recompute || !may_cut_) return;
    const remat::CutBoundResult cut =
        remat::closure_cut(remat::StepGraph(problem, std::move(index)), *profile,
                           {.order = order,
                            .limits = limits().with_units(tuning_.cut_units),
                            .patience = tuning_.cut_patience,
                            .tolerance = tuning_.cut_tolerance});
    made.may_fit = cut.feasible;
    if (cut.feasible) made.least_seconds = std::max(made.least_seconds, cut.lower_bound_seconds);
  }

  // Of a step that keeps the budget by transfers alone, at least: what is too much goes out and
  // comes back once in each part, beside the ops where the link is fast enough.
  std::optional<double> moved_seconds(const State& state) const {
    if (!options_.schedule.transfers || options_.slow_tiers.empty()) return std::nullopt;
    const plan::Link& link = options_.slow_tiers.front().link;
    const int64_t bytes = state.candidate.peak_bytes - budget_bytes_;
    if (bytes > link.bytes) return std::nullopt;
    const auto moved =
        static_cast<double>(bytes) * static_cast<double>(state.candidate.labels.parts);
    const double computing = state.once_seconds + 2 * moved * link.compute_seconds_per_byte;
    return std::max(
        {computing, moved / link.bytes_per_second_out, moved / link.bytes_per_second_in});
  }

  // A schedule of one part of everything that keeps a budget.
  struct Schedule {
    std::vector<SchedOpId> runs;  // of the whole step's problem
    double seconds = 0;
    int64_t peak_bytes = 0;
  };

  Result<fission::Scaled> scaled_of(const State& state) {
    LT_ASSIGN(const auto levels, reader_->levels(state.candidate.labels));
    const fission::Cuts cuts = fission::cuts_of(step_, axis_class_, levels);
    LT_ASSIGN(const auto seconds, all_seconds(cuts));
    fission::Scaled scaled = scale_->problem(levels, cuts, seconds);
    set_budget(scaled.problem);
    return scaled;
  }

  // The given order where that fits, else a retention search of so many units, from those runs or,
  // without them, from schedules of its own.
  std::optional<Schedule> schedule_within(int64_t budget_bytes, const fission::Scaled& scaled,
                                          const plan::ScheduleOutcome& order, const State& state,
                                          int64_t units, const std::vector<const State*>& starts,
                                          bool all_starts = false) const {
    if (order.peak_bytes <= budget_bytes)
      return Schedule{of_step(order.sequence, scaled), state.once_seconds, order.peak_bytes};
    if (!options_.schedule.recompute) return std::nullopt;
    remat::RematOptions options;
    options.limits = limits().with_units(units);
    options.cut_bound = options.exact_small = false;
    if (!starts.empty()) options.least_peak_order = order.sequence;
    options.mend_starts = !starts.empty();
    options.all_starts = all_starts;
    for (const State* start : starts) {
      auto& runs = options.starts.emplace_back();
      for (const SchedOpId op : runs_in(scaled, start->runs))
        runs.push_back(plan::SchedAction::run(op));
    }
    plan::ScheduleProblem problem = scaled.problem;
    problem.budget_bytes = budget_bytes;
    const remat::RematOutcome outcome = remat::solve(problem, options);
    if (outcome.sequence.empty()) return std::nullopt;
    std::vector<SchedOpId> runs;
    for (const plan::SchedAction& action : outcome.sequence) runs.push_back(action.op);
    return Schedule{of_step(runs, scaled), outcome.seconds, outcome.peak_bytes};
  }

  // Labels that differ in one level recompute nearly alike, so a search goes on from what is known
  // of the state and from the best one's schedule; the first few find some of their own.
  std::vector<const State*> starts_for(const State& state) const {
    std::vector<const State*> starts;
    if (searches_without_ < tuning_.searches_without) return starts;
    if (!state.runs.empty()) starts.push_back(&state);
    if (best_ && &all_[*best_] != &state) starts.push_back(&all_[*best_]);
    return starts;
  }

  // What is known is kept unless that is better.
  Status search(State& made, int64_t units, bool all_starts = false) {
    LT_ASSIGN(const fission::Scaled scaled, scaled_of(made));
    const plan::ScheduleOutcome order = best_order(scaled.problem);
    const std::vector<const State*> starts = starts_for(made);
    if (starts.empty()) ++searches_without_;
    if (auto found = schedule_within(budget_bytes_, scaled, order, made, units, starts, all_starts))
      take(std::move(*found), made);
    if (!made.candidate.fits && order.peak_bytes < made.candidate.peak_bytes) {
      made.candidate.peak_bytes = order.peak_bytes;
      made.order = of_step(order.sequence, scaled);
    }
    return {};
  }

  static std::vector<SchedOpId> of_step(const std::vector<SchedOpId>& sequence,
                                        const fission::Scaled& scaled) {
    std::vector<SchedOpId> runs;
    for (const SchedOpId op : sequence)
      if (scaled.op[op].valid()) runs.push_back(scaled.op[op]);
    return runs;
  }

  void take(Schedule found, State& made) {
    Candidate& candidate = made.candidate;
    if (candidate.fits && candidate.seconds <= found.seconds) return;
    candidate.fits = true;
    candidate.seconds = found.seconds;
    candidate.peak_bytes = found.peak_bytes;
    made.runs = std::move(found.runs);
    if (candidate.seconds < best_seconds_) {
      best_seconds_ = candidate.seconds;
      best_ = static_cast<size_t>(&made - all_.data());
    }
    const double proven = made.least_seconds - made.once_seconds;
    if (proven > 0)
      least_ratio_ = std::min(least_ratio_.value_or(kAnyTime),
                              (candidate.seconds - made.once_seconds) / proven);
  }

  // Smaller is better: those that may fit by their bound, the others by their peak.
  using Key = std::tuple<bool, double, int64_t>;
  static Key key_of(const State& state) {
    const auto peak = static_cast<double>(state.candidate.peak_bytes);
    return {!state.may_fit, state.may_fit ? state.least_seconds : peak, state.candidate.peak_bytes};
  }
  using Open = std::pair<Key, size_t>;  // of equal keys the one that came first

  const Clock::time_point start_ = Clock::now();
  const ir::Graph& step_;
  const OptimizeOptions& options_;
  const LabelSearchTuning& tuning_;
  double best_seconds_;         // known or estimated
  std::optional<size_t> best_;  // the state of that, if it is one
  int64_t budget_bytes_;
  const cost::Estimator estimator_;
  fission::AxisClass axis_class_;
  std::optional<fission::LabelReader> reader_;
  std::optional<fission::PartSeconds> seconds_;
  std::optional<analysis::ScheduleView> view_;
  std::optional<fission::Scale> scale_;
  std::optional<LabelNeighbours> neighbours_;
  std::vector<SchedOpId> given_;  // the best order of the whole step
  std::vector<State> all_;
  std::set<std::string> seen_;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  bool first_is_enough_ = false;
  bool may_cut_ = true;                // for a bound on the time
  int searches_without_ = 0;           // starts
  std::optional<double> least_ratio_;  // of extra time found to that proven
};

}  // namespace

Result<std::vector<Candidate>> label_candidates(const ir::Graph& step,
                                                const OptimizeOptions& options,
                                                const LabelSearchTuning& tuning,
                                                double below_seconds) {
  return Search(step, options, tuning, below_seconds).run();
}

Result<std::vector<Candidate>> even_candidates(const ir::Graph& step,
                                               const OptimizeOptions& options, size_t most,
                                               const LabelSearchTuning& tuning) {
  return Search(step, options, tuning, kAnyTime).even_ones(most);
}

Result<bool> any_labels_fit(const ir::Graph& step, const OptimizeOptions& options,
                            double below_seconds, const LabelSearchTuning& tuning) {
  return Search(step, options, tuning, below_seconds).finds_any();
}

}  // namespace lowtide::pipeline
