#include "pipeline/label_search.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "fission/scale.h"
#include "order/waist.h"
#include "pipeline/label_forecast.h"
#include "pipeline/label_problem.h"
#include "pipeline/label_queue.h"
#include "pipeline/label_schedule.h"
#include "pipeline/step_variants.h"
#include "plan/schedule_simulator.h"
#include "remat/bounds/closure_cut.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;
using plan::SchedOpId;

bool is_better(const Candidate& a, const Candidate& b) {
  if (a.fits != b.fits) return a.fits;
  return a.fits ? std::pair(a.seconds, a.peak_bytes) < std::pair(b.seconds, b.peak_bytes)
                : std::pair(a.peak_bytes, a.seconds) < std::pair(b.peak_bytes, b.seconds);
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
        has_link_(options.schedule.transfers && !options.slow_tiers.empty()),
        variants_(options, tuning),
        open_(has_link_) {}

  // Best first; empty where there is no class.
  Result<std::vector<Candidate>> run(const StepMoves& moves, LabelSearchCounts& counts) {
    variants_.allow(moves, most_states() / tuning_.states_of_variant);
    LT_RETURN_IF_ERROR(look_at_all());
    counts = counts_;
    return ranked();
  }

  // The whole step with its bound, and even parts that fit each op once.
  Result<std::vector<Candidate>> even_ones(size_t most) {
    LT_ASSIGN(const bool has_class, variants_.begin(step_));
    if (!has_class) return std::vector<Candidate>{};
    LT_RETURN_IF_ERROR(look_at({}, 0));
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
      LT_RETURN_IF_ERROR(look_at(labels, 0));
      const State& state = all_.back();
      if (state.candidate.labels != labels || !state.candidate.fits) continue;
      LT_ASSIGN(const CutStep cut, cut_of(state));
      found.push_back(state.candidate);
      found.back().starts.push_back(problem_of(state).unfolded(cut, state.runs));
    }
    return found;
  }

  // Even parts whose bounds are below what is known.
  Result<std::vector<Candidate>> even_below() {
    std::vector<Candidate> found;
    LT_ASSIGN(const bool has_class, variants_.begin(step_));
    if (!has_class) return found;
    LabelProblem& problem = variants_.problem(0);
    for (const int64_t parts : even_numbers()) {
      const Labels labels = {.parts = parts};
      LT_ASSIGN(const auto cut, problem.cut(labels));
      if (!cut || is_done()) continue;
      const State state = judged(labels, *cut, 0, problem.given());
      if (!state.may_fit || state.least_seconds >= best_seconds_) continue;
      found.push_back({.labels = labels, .fits = true, .seconds = state.least_seconds});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    return found;
  }

  // Ends with the first that fits in less than `below_seconds`.
  Result<bool> finds_any(const StepMoves& moves) {
    first_is_enough_ = true;
    variants_.allow(moves, most_states() / tuning_.states_of_variant);
    LT_RETURN_IF_ERROR(look_at_all());
    return best_.has_value();
  }

 private:
  // What is known of labels.
  struct State {
    Candidate candidate;
    size_t variant = 0;
    StepRuns order;           // each op once: of the whole step's problem
    StepRuns runs;            // behind the candidate's estimate
    double once_seconds = 0;  // each op once
    int64_t once_peak_bytes = 0;
    double least_seconds = 0;  // of every schedule of one part of everything
    bool may_fit = false;      // no bound says that it cannot
    LabelForecast forecast;    // of its neighbours
  };
  // Smaller is better: how far it is from fitting in bytes, what it takes, its peak.
  using Key = std::tuple<int64_t, double, int64_t>;
  // In the queue: a state to be expanded, or labels that are forecast from one.
  struct Open {
    size_t state = 0;                  // or from which
    std::optional<Labels> ahead = {};  // not judged yet
    size_t variant = 0;                // of these
  };

  Status look_at_all() {
    LT_ASSIGN(const bool has_class, variants_.begin(step_));
    if (!has_class) return {};
    LT_RETURN_IF_ERROR(look_at({}, 0));
    most_forecast_ = static_cast<int64_t>(most_states()) * tuning_.forecast_per_state;
    LT_RETURN_IF_ERROR(look_on(most_states()));
    LT_RETURN_IF_ERROR(look_closer(0));
    return look_at_moves();
  }

  // The best of the queue, one after another, until there are so many states.
  Status look_on(size_t most) {
    for (int late = 0; late < tuning_.late_searches && !is_done();) {
      const bool has_tried = open_.empty() || searches_without_ >= tuning_.searches_without;
      if (has_tried && !std::exchange(has_looked_at_even_, true))
        LT_RETURN_IF_ERROR(look_at_even());
      if (open_.empty()) break;
      const Open next = open_.pop();
      const bool is_full = all_.size() >= most;
      if (next.ahead) {
        if (!is_full) LT_RETURN_IF_ERROR(judge_ahead(next));
        continue;
      }
      if (is_promising(all_[next.state]))
        LT_RETURN_IF_ERROR(search(all_[next.state], tuning_.remat_units));
      late += is_full ? 1 : 0;
      if (!is_full) LT_RETURN_IF_ERROR(expand(next.state));
    }
    return {};
  }

  // Rewrites and blocks, from the labels that are best without: what these come to is known
  // before, so that moves add to it. Labels, further rewrites and blocks of what comes of them are
  // states of the same queue.
  Status look_at_moves() {
    if (!variants_.has_moves() || is_done()) return {};
    const size_t first = all_.size();
    open_.clear();
    is_moving_ = true;
    const auto share = static_cast<int64_t>(tuning_.moved_share);
    most_forecast_ =
        counts_.forecast + static_cast<int64_t>(most_states()) * tuning_.forecast_per_state / share;
    const double spent = seconds_since(start_);
    most_seconds_ = spent + limits().max_seconds / static_cast<double>(share);
    std::vector<size_t> from = by_rank();
    if (from.size() > tuning_.moved_from) from.resize(tuning_.moved_from);
    for (const size_t at : from) push_moves(at);
    LT_RETURN_IF_ERROR(look_on(first + most_states() / tuning_.moved_share));
    return look_closer(first);
  }

  // States, the best estimate first.
  std::vector<size_t> by_rank() const {
    std::vector<size_t> order(all_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return is_better(all_[a].candidate, all_[b].candidate);
    });
    return order;
  }

  size_t most_states() const {
    const int64_t by_ops = tuning_.most_state_ops / static_cast<int64_t>(step_.op_count() + 1);
    return static_cast<size_t>(std::clamp<int64_t>(by_ops, 1, tuning_.most_states));
  }
  int64_t most_parts() const { return variants_.most_parts(0); }
  LabelProblem& problem_of(const State& state) const { return variants_.problem(state.variant); }

  // What is left of the limits of time, whatever the units.
  Limits limits() const { return options_.schedule.remat.limits.after(seconds_since(start_)); }
  bool is_done() const {
    const double spent = seconds_since(start_);
    return options_.schedule.remat.limits.stop_after(spent) || spent > most_seconds_ ||
           (first_is_enough_ && best_);
  }

  // Best first. The first ones and the first without levels get their starts, of those with
  // rewrites or blocks and of those without by themselves.
  Result<std::vector<Candidate>> ranked() {
    std::vector<Candidate> ranked;
    size_t ranks[2] = {0, 0};
    bool has_even[2] = {false, false};
    for (const size_t at : by_rank()) {
      Candidate& made = ranked.emplace_back(all_[at].candidate);
      const bool is_even = made.labels.nests.empty(), is_moved = made.has_moves();
      const size_t rank = ++ranks[is_moved];
      if (!made.fits || (rank > tuning_.most_starts && (has_even[is_moved] || !is_even))) continue;
      has_even[is_moved] |= is_even;
      const LabelProblem& problem = problem_of(all_[at]);
      LT_ASSIGN(const CutStep cut, cut_of(all_[at]));
      made.starts.push_back(problem.unfolded(cut, all_[at].runs));
      const bool has_reruns = all_[at].runs.size() != problem.view().op.size();
      if (!has_reruns || rank > tuning_.tight_starts) continue;
      const StepRuns tight = tight_runs(all_[at], cut);
      if (!tight.empty()) made.starts.push_back(problem.unfolded(cut, tight));
    }
    return ranked;
  }

  // Of a state that recomputes, for a little less memory: addresses may need more than the peak.
  StepRuns tight_runs(const State& state, const CutStep& cut) {
    PosedLabels posed = pose(problem_of(state), cut, budget_bytes_);
    posed.scaled.problem.budget_bytes = budget_bytes_ - budget_bytes_ / tuning_.tight_share;
    auto found = schedule_within(
        problem_of(state), posed, options_,
        {.limits = limits().with_units(tuning_.closer_units), .starts = {state.runs}});
    return found ? std::move(found->runs) : StepRuns{};
  }

  // ---- states

  // Whether a search may find more than is known. Of what recompute takes bounds show a part; by
  // the tightest so far it is guessed how much more it will be.
  bool is_promising(const State& state) const {
    const double proven = state.least_seconds - state.once_seconds;
    const double more = tuning_.gap_share * (least_ratio_.value_or(1) - 1) * proven;
    const bool is_open = state.may_fit && !state.candidate.fits && has_searches_left();
    const double expected = std::max(
        state.least_seconds + more, state.once_seconds + tuning_.gap_share * moving_seconds(state));
    return is_open && expected < best_seconds_ * (1 - tuning_.worth);
  }

  bool has_searches_left() const {
    if (is_moving_) return moved_searches_ < tuning_.late_searches;
    return !has_link_ || searches_ < tuning_.most_moving_searches;
  }

  // With a link bounds say little. What a state takes beyond each op once is guessed by the bytes
  // that are too much, each as dear as those of the state for which they were cheapest so far.
  double moving_seconds(const State& state) const {
    if (!has_link_ || state.candidate.fits) return 0;
    return least_per_byte_.value_or(0) * static_cast<double>(state.once_peak_bytes - budget_bytes_);
  }

  // Once more with more work, and from what the best has come to: where a budget is tight, a short
  // search finds little of what there is.
  Status look_closer(size_t first) {
    LabelQueue<Key, size_t> close(has_link_);
    for (size_t at = first; at < all_.size(); ++at)
      if (all_[at].may_fit && all_[at].least_seconds < best_seconds_)
        close.push(key_of(all_[at]), guessed_key_of(all_[at]), at);
    const size_t looks =
        is_moving_ ? tuning_.closer_looks / tuning_.moved_share : tuning_.closer_looks;
    for (size_t look = 0; look < looks && !close.empty(); ++look) {
      const size_t at = close.pop();
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

  // Of labels that are known to be some of that step.
  Result<CutStep> cut_of(const State& state) const {
    LT_ASSIGN(auto cut, problem_of(state).cut(state.candidate.labels));
    return *std::move(cut);
  }

  bool is_new(const CutStep& cut, size_t variant) {
    return seen_.insert({variants_.hash(variant), cut.hash}).second;
  }

  // What of a state is known without a search.
  Status look_at(const Labels& labels, size_t variant) {
    LT_ASSIGN(const auto cut, variants_.problem(variant).cut(labels));
    if (cut && is_new(*cut, variant))
      keep(judged(labels, *cut, variant, variants_.problem(variant).given()));
    return {};
  }

  // Labels that differ from a state's in one level, by what is forecast of them.
  Status expand(size_t from) {
    const Labels known = all_[from].candidate.labels;
    const size_t variant = all_[from].variant;
    LT_ASSIGN(std::vector<Labels> neighbours, variants_.neighbours(variant, known));
    for (Labels& labels : neighbours) {
      if (is_done() || counts_.forecast >= most_forecast_) break;
      if (!read_.insert({variant, fission::print(labels)}).second) continue;
      LT_ASSIGN(const auto cut, variants_.problem(variant).cut(labels));
      if (!cut || !is_new(*cut, variant)) continue;
      ++counts_.forecast;
      if (cut->once_seconds >= best_seconds_) continue;  // dominated: never judged
      Open next = {.state = from, .ahead = std::move(labels), .variant = variant};
      if (!options_.ideas.forecast) {
        push(all_[from], std::move(next));
        continue;
      }
      const Key key = forecast_key(all_[from], *cut);
      open_.push(key, key, std::move(next));
    }
    if (is_moving_) push_moves(from);
    return {};
  }

  // The same labels in steps with one more rewrite, or with blocks, and those without levels.
  // Nothing is forecast of them.
  void push_moves(size_t from) {
    const Labels& labels = all_[from].candidate.labels;
    for (const size_t variant : variants_.next_to(all_[from].variant)) {
      push(all_[from], {.state = from, .ahead = labels, .variant = variant});
      if (labels.nests.empty()) continue;  // else its heads may be gone
      const Labels even = {.parts = labels.parts};
      push(all_[from], {.state = from, .ahead = even, .variant = variant});
    }
  }

  Key forecast_key(const State& from, const CutStep& cut) const {
    const int64_t over = from.forecast.over_bytes(problem_of(from), cut);
    return {over, from.forecast.seconds(problem_of(from), cut), 0};
  }

  // By what is known of a state.
  void push(const State& by, Open next) {
    open_.push(key_of(by), guessed_key_of(by), std::move(next));
  }

  Status judge_ahead(const Open& next) {
    if (!variants_.make(next.variant)) return {};
    LT_ASSIGN(const auto cut, variants_.problem(next.variant).cut(*next.ahead));
    const bool is_same = all_[next.state].variant == next.variant;
    if (!cut || (!is_same && !is_new(*cut, next.variant))) return {};
    const StepRuns order =
        is_same ? all_[next.state].order : variants_.problem(next.variant).given();
    keep(judged(*next.ahead, *cut, next.variant, order));
    return {};
  }

  State judged(const Labels& labels, const CutStep& cut, size_t variant, const StepRuns& order) {
    State made;
    made.variant = variant;
    made.candidate = variants_.moves(variant);
    made.candidate.labels = labels;
    made.candidate.seconds = made.once_seconds = made.least_seconds = cut.once_seconds;
    made.order = order;
    ++counts_.judged;
    if (made.once_seconds < best_seconds_) bound(cut, made);
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
    push(made, {.state = at});
  }

  std::set<int64_t> even_numbers() const {
    const int64_t most = most_parts();
    std::set<int64_t> numbers = {most};
    for (int64_t parts = 2; parts <= most; parts *= 2)
      numbers.insert({parts, std::min(most, parts * 3 / 2)});
    numbers.erase(1);
    return numbers;
  }

  // Behind the first searches: even parts, twice as many each time and half as many more, by their
  // bounds until one fits. From neighbour to neighbour the search may not come to it: levels within
  // few parts can have lower bounds than more parts, and there are more of them than states.
  // Numbers that it has come to are open, and searched in their turn.
  Status look_at_even() {
    std::vector<State> even;
    LabelProblem& problem = variants_.problem(0);
    for (const int64_t parts : even_numbers()) {
      const Labels labels = {.parts = parts};
      if (is_done()) continue;
      LT_ASSIGN(const auto cut, problem.cut(labels));
      if (!cut || seen_.contains({variants_.hash(0), cut->hash})) continue;
      even.push_back(judged(labels, *cut, 0, problem.given()));
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
      LT_ASSIGN(const CutStep cut, cut_of(all_.back()));
      is_new(cut, 0);
      open(all_.size() - 1);
      break;
    }
    return {};
  }

  // The order that a state has from another one, scheduled anew around its peak where that misses
  // the budget.
  order::ProfiledOrder inherited(const fission::Scaled& scaled, const plan::ProblemIndex& index,
                                 State& made) const {
    const plan::ScheduleProblem& problem = scaled.problem;
    order::ProfiledOrder known{problem_of(made).runs_in(scaled, made.order), {}};
    auto profile = plan::simulate(problem, index, known.sequence);
    LT_CHECK(profile.has_value(), "an order of the whole step is one of its parts");
    known.profile = *std::move(profile);
    const int64_t peak = known.profile.peak_bytes;
    if (peak <= budget_bytes_ || !options_.ideas.waist || !options_.schedule.remat.reorder)
      return known;
    const std::vector<SchedOpId> all(problem.ops.ids().begin(), problem.ops.ids().end());
    const order::WaistOptions how{.enough_bytes = budget_bytes_, .worth = tuning_.worth};
    known = order::reschedule(problem, index, std::move(known), all, how).order;
    if (known.profile.peak_bytes < peak) made.order = LabelProblem::of_step(known.sequence, scaled);
    return known;
  }

  // By a known order: where it fits, each op once is the least there is; where it does not, the
  // cut.
  void bound(const CutStep& cut_step, State& made) const {
    const LabelProblem& of = problem_of(made);
    const fission::Scaled scaled = of.scaled(cut_step, budget_bytes_);
    const plan::ScheduleProblem& problem = scaled.problem;
    plan::ProblemIndex index(problem);
    const auto [order, profile] = inherited(scaled, index, made);
    made.candidate.peak_bytes = made.once_peak_bytes = profile.peak_bytes;
    made.may_fit = made.candidate.fits = made.candidate.peak_bytes <= budget_bytes_;
    if (made.may_fit) return;
    made.may_fit = true;  // in another order
    const bool may_change = options_.schedule.recompute || problem.link;
    if (!may_change)
      made.forecast = LabelForecast(of, cut_step, scaled, order, profile, budget_bytes_);
    if (!may_change || !may_cut_) return;
    const remat::CutBoundResult cut =
        remat::closure_cut(remat::StepGraph(problem, std::move(index)), profile,
                           {.order = order,
                            .limits = limits().with_units(tuning_.cut_units),
                            .patience = tuning_.cut_patience,
                            .tolerance = tuning_.cut_tolerance});
    made.may_fit = cut.feasible;
    if (cut.feasible) made.least_seconds = std::max(made.least_seconds, cut.lower_bound_seconds);
    made.forecast = LabelForecast(of, cut_step, scaled, cut);
  }

  // Labels that differ in one level recompute nearly alike, so a search goes on from what is known
  // of the state and from the best one's schedule; the first few find some of their own.
  std::vector<StepRuns> starts_for(const State& state) const {
    std::vector<StepRuns> starts;
    if (searches_without_ < tuning_.searches_without) return starts;
    if (!state.runs.empty()) starts.push_back(state.runs);
    if (!best_ || &all_[*best_] == &state) return starts;
    const State& best = all_[*best_];
    starts.push_back(best.variant == state.variant
                         ? best.runs
                         : problem_of(state).runs_named(problem_of(best).names_of(best.runs)));
    return starts;
  }

  // What is known is kept unless that is better.
  Status search(State& made, int64_t units, bool all_starts = false) {
    LT_ASSIGN(const CutStep cut, cut_of(made));
    const PosedLabels posed = pose(problem_of(made), cut, budget_bytes_);
    const LabelScheduleOptions how{
        .limits = limits().with_units(units), .starts = starts_for(made), .all_starts = all_starts};
    if (how.starts.empty()) ++searches_without_;
    ++(is_moving_ ? moved_searches_ : searches_);
    if (auto found = schedule_within(problem_of(made), posed, options_, how))
      take(std::move(*found), made);
    if (!made.candidate.fits && posed.order.peak_bytes < made.candidate.peak_bytes) {
      made.candidate.peak_bytes = posed.order.peak_bytes;
      made.order = LabelProblem::of_step(posed.order.sequence, posed.scaled);
    }
    return {};
  }

  void take(LabelSchedule found, State& made) {
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
    const double more = candidate.seconds - made.once_seconds;
    const double proven = made.least_seconds - made.once_seconds;
    if (proven > 0) least_ratio_ = std::min(least_ratio_.value_or(kAnyTime), more / proven);
    if (const int64_t over = made.once_peak_bytes - budget_bytes_; over > 0)
      least_per_byte_ =
          std::min(least_per_byte_.value_or(kAnyTime), more / static_cast<double>(over));
  }

  static Key key_of(const State& state) {
    return {state.forecast.over_bytes(), state.least_seconds, state.candidate.peak_bytes};
  }
  Key guessed_key_of(const State& state) const {
    const double guessed =
        state.candidate.fits ? state.candidate.seconds : state.once_seconds + moving_seconds(state);
    return {state.forecast.over_bytes(), std::max(state.least_seconds, guessed),
            state.candidate.peak_bytes};
  }

  const Clock::time_point start_ = Clock::now();
  const ir::Graph& step_;
  const OptimizeOptions& options_;
  const LabelSearchTuning& tuning_;
  double best_seconds_;         // known or estimated
  std::optional<size_t> best_;  // the state of that, if it is one
  int64_t budget_bytes_;
  const bool has_link_;
  StepVariants variants_;
  std::vector<State> all_;
  std::set<std::pair<uint64_t, uint64_t>> seen_;   // hashes of variants and of what labels cut
  std::set<std::pair<size_t, std::string>> read_;  // by variant: neighbours that were looked at
  LabelQueue<Key, Open> open_;
  int64_t most_forecast_ = 0;
  double most_seconds_ = kAnyTime;  // of wall time, for what is going on
  LabelSearchCounts counts_;
  bool first_is_enough_ = false;
  bool may_cut_ = true;  // for a bound on the time
  bool has_looked_at_even_ = false;
  bool is_moving_ = false;                 // expanded by moves, too
  int searches_without_ = 0;               // starts
  int searches_ = 0, moved_searches_ = 0;  // before moves, and with them
  std::optional<double> least_ratio_;      // of extra time found to that proven,
  std::optional<double> least_per_byte_;   // and to bytes too much, each op once
};

}  // namespace

Result<std::vector<Candidate>> label_candidates(const ir::Graph& step,
                                                const OptimizeOptions& options,
                                                const LabelSearchTuning& tuning,
                                                double below_seconds, const StepMoves& moves,
                                                LabelSearchCounts* counts) {
  LabelSearchCounts counted;
  auto found = Search(step, options, tuning, below_seconds).run(moves, counted);
  if (counts != nullptr) *counts = counted;
  return found;
}

Result<std::vector<Candidate>> even_candidates(const ir::Graph& step,
                                               const OptimizeOptions& options, size_t most,
                                               const LabelSearchTuning& tuning) {
  return Search(step, options, tuning, kAnyTime).even_ones(most);
}

Result<std::vector<Candidate>> even_below(const ir::Graph& step, const OptimizeOptions& options,
                                          double below_seconds, const LabelSearchTuning& tuning) {
  return Search(step, options, tuning, below_seconds).even_below();
}

Result<bool> any_labels_fit(const ir::Graph& step, const OptimizeOptions& options,
                            double below_seconds, const StepMoves& moves,
                            const LabelSearchTuning& tuning) {
  return Search(step, options, tuning, below_seconds).finds_any(moves);
}

}  // namespace lowtide::pipeline
