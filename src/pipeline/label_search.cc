#include "pipeline/label_search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/workers.h"
#include "pipeline/label_gap.h"
#include "pipeline/label_judge.h"
#include "pipeline/label_neighbours.h"
#include "pipeline/label_queue.h"
#include "pipeline/step_variants.h"

namespace lowtide::pipeline {
namespace {

using fission::Labels;

class Search {
 public:
  Search(const ir::Graph& step, const OptimizeOptions& options, const LabelSearchTuning& tuning,
         double below_seconds)
      : step_(step),
        options_(options),
        tuning_(tuning),
        best_seconds_(below_seconds),
        has_link_(options.schedule.transfers && !options.slow_tiers.empty()),
        judge_(options, tuning),
        gap_(judge_.budget_bytes(), has_link_),
        variants_(options, tuning),
        open_(has_link_),
        workers_(std::min(options.schedule.remat.threads, tuning.most_threads)) {}

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
    judge_.keep_within(judge_.budget_bytes() - judge_.budget_bytes() / tuning_.tight_share);
    for (int64_t parts = 2; parts <= most_parts() && found.size() <= most && !is_done();
         parts += 1 + parts / 4) {
      const Labels labels = {.parts = parts};
      best_seconds_ = kAnyTime;  // what takes longer may be what fits
      LT_RETURN_IF_ERROR(look_at(labels, 0));
      const LabelState& state = all_.back();
      if (state.candidate.labels != labels || !state.candidate.fits) continue;
      found.push_back(state.candidate);
      LT_ASSIGN(found.back().starts,
                judge_.starts(problem_of(state), state.candidate, state.runs, false, limits()));
    }
    return found;
  }

  // The whole step and, but for `whole`, even parts for which a short search finds a schedule
  // within the budget; where there are none, the first labels with levels.
  Result<std::vector<Candidate>> rough_within(bool whole) {
    std::vector<Candidate> found;
    LT_ASSIGN(const bool has_class, variants_.begin(step_));
    if (!has_class) return found;
    LT_RETURN_IF_ERROR(look_at({}, 0));
    if (is_promising(all_.front())) LT_RETURN_IF_ERROR(search(0, short_from(all_.front())));
    if (!whole) LT_RETURN_IF_ERROR(look_at_even());
    has_looked_at_even_ = first_is_enough_ = true;
    if (!whole && !best_) LT_RETURN_IF_ERROR(look_at_labels());
    for (const size_t at : by_rank(all_)) {
      const LabelState& state = all_[at];
      if (!state.candidate.fits) break;
      found.push_back(state.candidate);
      LT_ASSIGN(found.back().starts,
                judge_.starts(problem_of(state), state.candidate, state.runs, true, limits()));
    }
    return found;
  }

  // Even parts that may take less than is known, as far as bounds and Concats tell.
  Result<std::vector<Candidate>> even_below() {
    std::vector<Candidate> found;
    LT_ASSIGN(const bool has_class, variants_.begin(step_));
    if (!has_class) return found;
    LT_ASSIGN(const auto even, judged_even());
    for (const auto& [state, hash] : even)
      if (state.may_fit && state.least_if_joined() < best_seconds_)
        found.push_back(
            {.labels = state.candidate.labels, .fits = true, .seconds = state.least_if_joined()});
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
  // In the queue: a state to be expanded, or labels that are forecast from one.
  struct Open {
    size_t state = 0;                  // or from which
    std::optional<Labels> ahead = {};  // not judged yet
    size_t variant = 0;                // of these
    // What workers may do before its turn: judge what is ahead, forecast a state's neighbours.
    Ahead<Result<std::optional<JudgedLabels>>> judged = {};
    Ahead<Result<std::vector<ForecastLabels>>> neighbours = {};
  };
  // What states are expanded by beside labels: nothing, rewrites and blocks, cuts and those.
  enum class Stage { kLabels, kMoves, kCuts };
  bool is_moving() const { return stage_ != Stage::kLabels; }
  // The search for a state's schedule.
  struct Searching {
    LabelStarts from;
    Ahead<Result<SearchedLabels>> found;
  };

  Status look_at_labels() {
    most_forecast_ = static_cast<int64_t>(most_states()) * tuning_.forecast_per_state;
    return look_on(most_states());
  }

  Status look_at_all() {
    LT_ASSIGN(const bool has_class, variants_.begin(step_));
    if (!has_class) return {};
    LT_RETURN_IF_ERROR(look_at({}, 0));
    LT_RETURN_IF_ERROR(look_at_labels());
    LT_RETURN_IF_ERROR(look_closer(0));
    for (const Stage stage : {Stage::kMoves, Stage::kCuts})
      LT_RETURN_IF_ERROR(look_at_moves(stage));
    return {};
  }

  // The best of the queue, one after another, until there are so many states.
  Status look_on(size_t most) {
    for (int late = 0; late < tuning_.late_searches && !is_done();) {
      const bool has_tried = open_.empty() || searches_without_ >= tuning_.searches_without;
      if (has_tried && !std::exchange(has_looked_at_even_, true))
        LT_RETURN_IF_ERROR(look_at_even());
      if (open_.empty()) break;
      foresee(most);
      Open next = open_.pop();
      const bool is_full = all_.size() >= most;
      if (next.ahead) {
        if (!is_full) LT_RETURN_IF_ERROR(judge_ahead(next));
        continue;
      }
      if (is_promising(all_[next.state]))
        LT_RETURN_IF_ERROR(search(next.state, short_from(all_[next.state])));
      late += is_full ? 1 : 0;
      if (!is_full) LT_RETURN_IF_ERROR(expand(next));
    }
    return {};
  }

  // Tells workers what the next of the queue will ask for, as if nothing were to change.
  void foresee(size_t most_states) {
    if (workers_.count() == 0) return;
    const bool is_full = all_.size() >= most_states;
    Workers::Pieces pieces;
    int searches_without = 0;
    for (Open* next : open_.next(most_ahead())) {
      if (next->ahead && is_full) continue;
      if (next->ahead && !variants_.is_made(next->variant)) {
        if (auto piece = variants_.making(next->variant)) pieces.push_back(std::move(piece));
        continue;
      }
      if (next->ahead) {
        if (!next->judged) next->judged = judging(*next);
        pieces.push_back(next->judged.piece());
        continue;
      }
      const LabelState& state = all_[next->state];
      if (is_promising(state)) {
        const LabelStarts from = short_from(state, searches_without);
        searches_without += from.runs.empty() ? 1 : 0;
        pieces.push_back(searching(next->state, from).found.piece());
      }
      if (is_full) continue;
      if (!next->neighbours) next->neighbours = forecasting(next->state);
      pieces.push_back(next->neighbours.piece());
    }
    workers_.turn_to(std::move(pieces));
  }
  size_t most_ahead() const { return tuning_.ahead * (workers_.count() + 1); }

  // Moves, from the labels that are best without: what these come to is known before, so that moves
  // add to it. Labels and further moves of what comes of them are states of the same queue. Cuts
  // join last, with states of their own, so that they take none from other moves.
  Status look_at_moves(Stage stage) {
    most_seconds_ = kAnyTime;
    const int64_t times = stage == Stage::kCuts ? variants_.most_cut_parts() : 1;  // as many ops
    if (!variants_.has_moves() || times == 0 || is_done()) return {};
    const size_t first = all_.size();
    open_.clear();
    stage_ = stage;
    moved_searches_ = 0;
    std::vector<size_t> from = by_rank(all_);
    if (from.size() > tuning_.moved_from) from.resize(tuning_.moved_from);
    for (const size_t at : from) push_moves(at);
    const size_t most = most_states(times) / tuning_.moved_share;
    most_forecast_ = counts_.forecast + static_cast<int64_t>(most) * tuning_.forecast_per_state;
    most_seconds_ =
        seconds_since(start_) + limits().max_seconds / static_cast<double>(tuning_.moved_share);
    LT_RETURN_IF_ERROR(look_on(first + most));
    return look_closer(first);
  }

  // Of steps of so many times the ops.
  size_t most_states(int64_t times = 1) const {
    const int64_t ops = times * static_cast<int64_t>(step_.op_count() + 1);
    const int64_t by_ops = tuning_.most_state_ops / ops;
    return static_cast<size_t>(std::clamp<int64_t>(by_ops, 1, tuning_.most_states));
  }
  int64_t most_parts() const { return variants_.posed(0).most_parts(); }
  const LabelProblem& problem_of(const LabelState& state) const {
    return variants_.problem(state.variant);
  }

  // What is left of the limits of time, whatever the units.
  Limits limits() const { return options_.schedule.remat.limits.after(seconds_since(start_)); }
  bool is_done() const { return is_late(most_seconds_) || (first_is_enough_ && best_); }
  bool is_late(double most_seconds) const {
    const double spent = seconds_since(start_);
    return options_.schedule.remat.limits.stop_after(spent) || spent > most_seconds;
  }

  // Best first. The first ones and the first without levels get their starts, each kind by itself.
  Result<std::vector<Candidate>> ranked() {
    using Starts = Result<std::vector<std::vector<std::string>>>;
    std::vector<Candidate> ranked;
    std::vector<std::pair<size_t, Ahead<Starts>>> starts;
    Workers::Pieces pieces;
    size_t ranks[Candidate::kKinds] = {};
    bool has_even[Candidate::kKinds] = {};
    for (const size_t at : by_rank(all_)) {
      const LabelState& state = all_[at];
      const Candidate& made = ranked.emplace_back(state.candidate);
      const bool is_even = made.labels.nests.empty();
      const size_t kind = made.kind(), rank = ++ranks[kind];
      if (!made.fits || (rank > tuning_.most_starts && (has_even[kind] || !is_even))) continue;
      has_even[kind] |= is_even;
      const bool tight = rank <= tuning_.tight_starts;
      starts.emplace_back(ranked.size() - 1, [this, &state, tight, limits = limits()] {
        return judge_.starts(problem_of(state), state.candidate, state.runs, tight, limits);
      });
      pieces.push_back(starts.back().second.piece());
    }
    workers_.turn_to(std::move(pieces));
    for (auto& [at, made] : starts) {
      LT_ASSIGN(ranked[at].starts, made.take(workers_));
    }
    return ranked;
  }

  // Whether a search may find more than is known.
  bool is_promising(const LabelState& state) const {
    const bool is_open = state.may_fit && !state.candidate.fits && has_searches_left();
    return is_open &&
           gap_.expected_seconds(state, tuning_.gap_share) < best_seconds_ * (1 - tuning_.worth);
  }

  bool has_searches_left() const {
    if (is_moving()) return moved_searches_ < tuning_.late_searches;
    return !has_link_ || searches_ < tuning_.most_moving_searches;
  }

  // Once more with more work, and from what the best has come to: where a budget is tight, a short
  // search finds little of what there is.
  Status look_closer(size_t first) {
    LabelQueue<LabelKey, size_t> close(has_link_);
    for (size_t at = first; at < all_.size(); ++at)
      if (all_[at].may_fit && all_[at].least_seconds < best_seconds_)
        close.push(all_[at].key(), gap_.guessed_key(all_[at]), at);
    const size_t looks =
        is_moving() ? tuning_.closer_looks / tuning_.moved_share : tuning_.closer_looks;
    for (size_t look = 0; look < looks && !close.empty(); ++look) {
      Workers::Pieces pieces;
      for (const size_t* at : close.next(std::min(most_ahead(), looks - look)))
        if (workers_.count() > 0 && is_worth_closer(all_[*at]))
          pieces.push_back(searching(*at, closer_from(all_[*at])).found.piece());
      workers_.turn_to(std::move(pieces));
      const size_t at = close.pop();
      if (is_worth_closer(all_[at]) && !is_done())
        LT_RETURN_IF_ERROR(search(at, closer_from(all_[at])));
    }
    return {};
  }

  bool is_worth_closer(const LabelState& state) const {
    const bool is_close =
        state.candidate.fits && state.least_seconds > state.candidate.seconds * (1 - tuning_.worth);
    return state.least_seconds < best_seconds_ && !is_close;
  }

  LabelStarts closer_from(const LabelState& state) const {
    const bool is_far = best_seconds_ > state.least_seconds * (1 + tuning_.far);
    LabelStarts from = starts_for(state, searches_without_);
    from.units = is_far ? tuning_.far_units : tuning_.closer_units;
    from.all = is_far;
    return from;
  }

  bool is_new(uint64_t hash, size_t variant) {
    return seen_.insert({variants_.hash(variant), hash});
  }

  // What of a state is known without a search.
  Status look_at(const Labels& labels, size_t variant) {
    LT_ASSIGN(const auto judged, judge_.judge(labels_ahead(labels, variant), seen_));
    if (!judged) return {};
    is_new(judged->hash, variant);
    keep(in_its_turn(*judged));
    return {};
  }

  // Labels that differ from a state's in one level, by what is forecast of them.
  Status expand(Open& from) {
    const LabelState known = all_[from.state];
    if (!from.neighbours) from.neighbours = forecasting(from.state);
    LT_ASSIGN(std::vector<ForecastLabels> neighbours, from.neighbours.take(workers_));
    const uint64_t step = variants_.hash(known.variant);
    for (ForecastLabels& next : neighbours) {
      if (is_done() || counts_.forecast >= most_forecast_) break;
      if (!read_.insert({step, std::move(next.text)})) continue;
      if (!next.hash || !is_new(*next.hash, known.variant)) continue;
      ++counts_.forecast;
      if (next.once_seconds >= best_seconds_) continue;  // dominated: never judged
      Open open = {.state = from.state, .ahead = std::move(next.labels), .variant = known.variant};
      if (options_.ideas.forecast)
        open_.push(next.key, next.key, std::move(open));
      else
        push(known, std::move(open));
    }
    if (is_moving()) push_moves(from.state);
    return {};
  }

  Ahead<Result<std::vector<ForecastLabels>>> forecasting(size_t from) {
    const double most = counts_.forecast < most_forecast_ ? most_seconds_ : -1;
    return Ahead<Result<std::vector<ForecastLabels>>>([this, state = all_[from],
                                                       posed = &variants_.posed(all_[from].variant),
                                                       below = best_seconds_, most] {
      return judge_.forecast(*posed, state, below, seen_, read_, [&] { return is_late(most); });
    });
  }

  // The same labels in steps with one more rewrite, with blocks or with a cut, and those labels
  // without levels. Cuts come where labels cannot be had in twice as many parts, or where no
  // state is faster than what is known. Nothing is forecast of them.
  void push_moves(size_t from) {
    const Labels& labels = all_[from].candidate.labels;
    const bool may_cut = !best_ || 2 * fission::most_parts(labels) > most_parts();
    for (const size_t variant : variants_.next_to(all_[from].variant)) {
      const bool has_cut = !variants_.moves(variant).cuts.empty();
      const bool is_new_cut = has_cut && all_[from].candidate.cuts.empty();
      if (has_cut != (stage_ == Stage::kCuts) || (is_new_cut && !may_cut)) continue;
      push(all_[from], {.state = from, .ahead = labels, .variant = variant});
      if (labels.nests.empty()) continue;  // else its heads may be gone
      push(all_[from], {.state = from, .ahead = Labels{labels.parts}, .variant = variant});
    }
  }

  // By what is known of a state.
  void push(const LabelState& by, Open next) {
    open_.push(by.key(), gap_.guessed_key(by), std::move(next));
  }

  Status judge_ahead(Open& next) {
    if (!variants_.make(next.variant, workers_)) return {};
    if (!next.judged) next.judged = judging(next);
    LT_ASSIGN(const auto judged, next.judged.take(workers_));
    const bool is_same = all_[next.state].variant == next.variant;
    if (!judged || (!is_same && !is_new(judged->hash, next.variant))) return {};
    keep(in_its_turn(*judged));
    return {};
  }

  Ahead<Result<std::optional<JudgedLabels>>> judging(const Open& next) {
    const LabelState& from = all_[next.state];
    LabelsAhead ahead = labels_ahead(*next.ahead, next.variant);
    ahead.may_be_known = from.variant != next.variant;
    if (!ahead.may_be_known) ahead.order = from.order;
    return Ahead<Result<std::optional<JudgedLabels>>>(
        [this, ahead = std::move(ahead)] { return judge_.judge(ahead, seen_); });
  }

  LabelsAhead labels_ahead(const Labels& labels, size_t variant) const {
    LabelsAhead ahead{.posed = &variants_.posed(variant),
                      .variant = variant,
                      .candidate = variants_.moves(variant),
                      .order = variants_.problem(variant).given(),
                      .may_be_known = true,
                      .below_seconds = best_seconds_,
                      .limits = limits()};
    ahead.candidate.labels = labels;
    return ahead;
  }

  // The best may have come between.
  LabelState in_its_turn(const JudgedLabels& judged) {
    ++counts_.judged;
    return judged.once.least_if_joined() < best_seconds_ ? *judged.bounded : judged.once;
  }

  // One that is no faster than the best, each op once, is dominated: never expanded.
  void keep(LabelState made) {
    const bool is_open = made.once_seconds < best_seconds_;
    all_.push_back(std::move(made));
    if (is_open) open(all_.size() - 1);
  }

  void open(size_t at) {
    LabelState& made = all_[at];
    if (made.candidate.fits && made.runs.empty()) {
      made.runs = made.order;
      best_seconds_ = made.candidate.seconds;
      best_ = at;
    }
    push(made, {.state = at});
  }

  // Even parts that were not looked at, each with the hash of what it cuts.
  Result<std::vector<std::pair<LabelState, uint64_t>>> judged_even() {
    std::vector<Ahead<Result<std::optional<JudgedLabels>>>> judging;
    Workers::Pieces pieces;
    for (const int64_t parts : even_numbers(most_parts())) {
      judging.emplace_back(
          [this, ahead = labels_ahead({.parts = parts}, 0)] { return judge_.judge(ahead, seen_); });
      pieces.push_back(judging.back().piece());
    }
    workers_.turn_to(std::move(pieces));
    std::vector<std::pair<LabelState, uint64_t>> even;
    for (auto& ahead : judging) {
      if (is_done()) break;
      LT_ASSIGN(const auto judged, ahead.take(workers_));
      if (judged) even.emplace_back(in_its_turn(*judged), judged->hash);
    }
    return even;
  }

  // Behind the first searches: even parts, twice as many each time and half as many more, by their
  // bounds until one fits. From neighbour to neighbour the search may not come to it: levels within
  // few parts can have lower bounds than more parts, and there are more of them than states.
  // Numbers that it has come to are open, and searched in their turn.
  Status look_at_even() {
    LT_ASSIGN(auto even, judged_even());
    std::stable_sort(even.begin(), even.end(),
                     [](const auto& a, const auto& b) { return a.first.key() < b.first.key(); });
    for (auto& [state, hash] : even) {
      all_.push_back(std::move(state));
      const size_t at = all_.size() - 1;
      if (is_promising(all_[at])) LT_RETURN_IF_ERROR(search(at, short_from(all_[at])));
      if (!all_[at].candidate.fits) {  // as if it had not been looked at
        all_.pop_back();
        continue;
      }
      is_new(hash, 0);
      open(at);
      break;
    }
    return {};
  }

  // Labels that differ in one level recompute nearly alike, so a search goes on from what is known
  // of the state and from the best one's schedule; the first few find some of their own.
  LabelStarts starts_for(const LabelState& state, int searches_without) const {
    LabelStarts from;
    if (searches_without < tuning_.searches_without) return from;
    const auto add = [&](const LabelState& other) {
      from.of.push_back(&problem_of(other));
      from.runs.push_back(other.runs);
    };
    if (!state.runs.empty()) add(state);
    if (best_ && &all_[*best_] != &state) add(all_[*best_]);
    return from;
  }
  LabelStarts short_from(const LabelState& state, int more_searches_without = 0) const {
    LabelStarts from = starts_for(state, searches_without_ + more_searches_without);
    from.units = tuning_.remat_units;
    return from;
  }

  // What is known is kept unless that is better.
  Status search(size_t at, const LabelStarts& from) {
    if (from.runs.empty()) ++searches_without_;
    ++(is_moving() ? moved_searches_ : searches_);
    LT_ASSIGN(SearchedLabels searched, searching(at, from).found.take(workers_));
    searching_.erase(at);
    LabelState& made = all_[at];
    if (searched.schedule) take(std::move(*searched.schedule), made);
    if (!made.candidate.fits && searched.order_peak_bytes < made.candidate.peak_bytes) {
      made.candidate.peak_bytes = searched.order_peak_bytes;
      made.order = std::move(searched.order);
    }
    return {};
  }

  // What a worker has begun from something else is of no use.
  Searching& searching(size_t at, const LabelStarts& from) {
    Searching& known = searching_[at];
    if (known.found && known.from == from) return known;
    known.from = from;
    known.found = Ahead<Result<SearchedLabels>>(
        [this, of = &problem_of(all_[at]), labels = all_[at].candidate.labels, limits = limits(),
         from] { return judge_.search(*of, labels, limits, from); });
    return known;
  }

  void take(LabelSchedule found, LabelState& made) {
    if (!made.take(std::move(found))) return;
    if (made.candidate.seconds < best_seconds_) {
      best_seconds_ = made.candidate.seconds;
      best_ = static_cast<size_t>(&made - all_.data());
    }
    gap_.learn(made);
  }

  const Clock::time_point start_ = Clock::now();
  const ir::Graph& step_;
  const OptimizeOptions& options_;
  const LabelSearchTuning& tuning_;
  double best_seconds_;         // known or estimated
  std::optional<size_t> best_;  // the state of that, if it is one
  const bool has_link_;
  LabelJudge judge_;
  LabelGap gap_;
  StepVariants variants_;
  std::vector<LabelState> all_;
  LabelJudge::Seen seen_;
  LabelJudge::Read read_;
  LabelQueue<LabelKey, Open> open_;
  int64_t most_forecast_ = 0;
  double most_seconds_ = kAnyTime;  // of wall time, for what is going on
  LabelSearchCounts counts_;
  bool first_is_enough_ = false;
  bool has_looked_at_even_ = false;
  Stage stage_ = Stage::kLabels;
  int searches_without_ = 0;               // starts
  int searches_ = 0, moved_searches_ = 0;  // before moves, and with these
  std::map<size_t, Searching> searching_;  // by state
  Workers workers_;                        // the last member: they use the others
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

Result<std::vector<Candidate>> rough_within(const ir::Graph& step, const OptimizeOptions& options,
                                            const LabelSearchTuning& tuning) {
  return Search(step, options, tuning, kAnyTime).rough_within(/*whole=*/false);
}

Result<std::vector<Candidate>> whole_within(const ir::Graph& step, const OptimizeOptions& options,
                                            const LabelSearchTuning& tuning) {
  return Search(step, options, tuning, kAnyTime).rough_within(/*whole=*/true);
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
