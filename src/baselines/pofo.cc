#include "baselines/pofo.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "baselines/forward.h"
#include "baselines/moves.h"

namespace lowtide::baselines {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct PofoTuning {
  size_t longest_range = 16;   // stages
  size_t few_states = 4'096;   // of a stage: all stay
  size_t most_states = 1'024;  // of more, so many
  int kept_cells = 256;        // by kept bytes, of the fastest in each
  // Actions of all schedules that are scored for one memory limit, and the fewest schedules.
  size_t scored_actions = 100'000, fewest_scored = 48;
  int limits_tried = 10;    // of memory: what the states say of it is not exact
  double raise = 1.0 / 16;  // of the budget, after a limit at which all schedules fit
};
constexpr PofoTuning kPofo;
constexpr int64_t kUnitsPerState = 100;

using Inner = PofoChoice::Inner;

// What one direction of the link is still busy with. All bytes are present until then.
struct Pending {
  int64_t bytes = 0;
  double left = 0;  // seconds until it is done
};

class Queue {
 public:
  int64_t bytes() const {
    int64_t sum = 0;
    for (const Pending& p : pending_) sum += p.bytes;
    return sum;
  }
  double left() const { return pending_.empty() ? 0 : pending_.back().left; }
  void push(int64_t bytes, double seconds) { pending_.push_back({bytes, left() + seconds}); }
  void advance(double seconds) {
    for (Pending& p : pending_) p.left -= seconds;
    std::erase_if(pending_, [](const Pending& p) { return p.left <= 1e-15; });
  }
  // Waits until so many bytes are enough for what is present; the seconds, or less than 0: never.
  double wait(int64_t free_bytes) {
    double waited = 0;
    for (int64_t held = bytes(); held > free_bytes; held = bytes()) {
      if (pending_.empty()) return -1;
      const double seconds = pending_.front().left;
      waited += seconds;
      advance(seconds);
    }
    return waited;
  }

 private:
  std::vector<Pending> pending_;
};

// Between two stages: what is chosen for those before.
struct State {
  double extra = 0;  // seconds: runs again, waiting, copying
  int64_t kept_bytes = 0;
  Queue out, in;
  PofoChoice choice;    // of the last range
  int64_t before = -1;  // state of the stage where it begins, as numbered there
  size_t stage_before = 0;
};

class Program {
 public:
  Program(const plan::ScheduleProblem& problem, const StageChain& chain, WorkBudget& work)
      : link_(problem.link), chain_(chain), work_(work), ranges_(chain.size()) {
    for (size_t first = 0; first < chain.size(); ++first) {
      transient_.push_back(chain.transient_bytes(first));
      for (size_t last = first; last < std::min(chain.size(), first + kPofo.longest_range); ++last)
        ranges_[first].push_back(chain.range(first, last));
    }
  }

  // Choices by which the step fits into so many bytes beside the residents, fastest first.
  std::vector<std::vector<PofoChoice>> solve(int64_t bytes) {
    bytes_ = bytes;
    states_.assign(chain_.size() + 1, {});
    states_[0].push_back({});
    for (size_t stage = 0; stage < chain_.size() && !work_.exhausted(); ++stage) {
      thin(states_[stage]);
      for (size_t i = 0; i < states_[stage].size(); ++i)
        for (size_t k = 0; k < ranges_[stage].size(); ++k) extend(stage, i, stage + k);
    }
    std::vector<State>& ends = states_[chain_.size()];
    std::stable_sort(ends.begin(), ends.end(),
                     [](const State& a, const State& b) { return a.extra < b.extra; });
    std::vector<std::vector<PofoChoice>> found;
    for (const State& end : ends) found.push_back(choices_of(end));
    return found;
  }
  double extra_of(size_t rank) const { return states_[chain_.size()][rank].extra; }

 private:
  std::vector<PofoChoice> choices_of(const State& end) const {
    std::vector<PofoChoice> choices;
    for (const State* s = &end; s->before >= 0;
         s = &states_[s->stage_before][static_cast<size_t>(s->before)])
      choices.push_back(s->choice);
    std::reverse(choices.begin(), choices.end());
    return choices;
  }

  void extend(size_t first, size_t i, size_t last) {
    const StageRange& range = ranges_[first][last - first];
    work_.spend(kUnitsPerState);
    for (const Inner inner : {Inner::kKeep, Inner::kRecompute, Inner::kOffload}) {
      if (inner == Inner::kKeep && first != last) continue;
      if (inner == Inner::kRecompute && range.reruns.empty()) continue;
      if (inner == Inner::kOffload && (first != last || !link_ || range.inner.empty())) continue;
      for (const bool offload_input : {false, true}) {
        if (offload_input && (!link_ || range.inputs.empty())) continue;
        State next = states_[first][i];
        next.choice = {first, last, inner, offload_input};
        next.before = static_cast<int64_t>(i);
        next.stage_before = first;
        if (pass(range, next)) states_[last + 1].push_back(std::move(next));
      }
    }
  }

  // The range on the way forward and, seen from the end, on the way back. False: it does not fit.
  bool pass(const StageRange& range, State& state) const {
    const PofoChoice& choice = state.choice;
    const bool recomputes = choice.inner == Inner::kRecompute;
    const int64_t base = state.kept_bytes + transient_[choice.first];
    const bool is_last = choice.last + 1 == chain_.size();
    const int64_t turning = is_last ? state.in.bytes() : 0;
    double waited =
        state.out.wait(bytes_ - base - turning - (recomputes ? range.leave_peak : range.keep_peak));
    if (waited < 0) return false;
    state.extra += waited;
    state.out.advance(range.forward_seconds);
    const int64_t back =
        state.kept_bytes +
        (recomputes ? std::max(range.back_peak, range.rerun_peak) : range.back_peak);
    waited = state.in.wait(bytes_ - back);
    if (waited < 0) return false;
    state.extra += waited;
    state.in.advance(range.backward_seconds + (recomputes ? range.rerun_seconds : 0));
    if (recomputes) state.extra += range.rerun_seconds;
    state.kept_bytes += range.passed_bytes + range.inner_bytes;
    if (recomputes) state.kept_bytes -= range.left_bytes;
    if (choice.inner == Inner::kOffload) move(range.inner.size(), range.moving_inner_bytes, state);
    if (choice.offload_input) move(range.inputs.size(), range.moving_input_bytes, state);
    // What is stored until after the turn is loaded after that.
    if (is_last && state.out.left() > 0 && state.in.left() > 0)
      state.extra += state.out.left() + state.in.left();
    return true;
  }

  void move(size_t values, int64_t bytes, State& state) const {
    const double latency = link_->latency_seconds * static_cast<double>(values);
    const auto size = static_cast<double>(bytes);
    state.kept_bytes -= bytes;
    state.out.push(bytes, latency + size / link_->bytes_per_second_out);
    state.in.push(bytes, latency + size / link_->bytes_per_second_in);
    state.extra += 2 * link_->compute_seconds_per_byte * size;
  }

  // Of many states the fastest for so many kept bytes and so busy a link.
  void thin(std::vector<State>& states) const {
    if (states.size() <= kPofo.few_states && chain_.size() <= kPofo.longest_range) return;
    if (states.size() <= kPofo.most_states) return;
    std::map<std::tuple<int64_t, int, int>, size_t> cells;
    double longest = 0;
    for (const State& s : states) longest = std::max({longest, s.out.left(), s.in.left()});
    const auto busy = [&](double left) {
      return longest > 0 ? static_cast<int>(4 * left / longest) : 0;
    };
    for (size_t i = 0; i < states.size(); ++i) {
      const State& s = states[i];
      const int64_t kept = s.kept_bytes + (s.out.bytes() + s.in.bytes()) / 2;
      const auto cell =
          static_cast<int64_t>(static_cast<double>(kPofo.kept_cells) * static_cast<double>(kept) /
                               static_cast<double>(std::max<int64_t>(1, bytes_)));
      const auto [entry, is_new] =
          cells.try_emplace({cell, busy(s.out.left()), busy(s.in.left())}, i);
      if (!is_new && s.extra < states[entry->second].extra) entry->second = i;
    }
    std::vector<size_t> chosen;
    for (const auto& [cell, i] : cells) chosen.push_back(i);
    std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
      return states[a].kept_bytes < states[b].kept_bytes;
    });
    std::vector<State> kept;
    const size_t stride = chosen.size() / kPofo.most_states + 1;
    for (size_t i = 0; i < chosen.size(); i += stride) {
      size_t best = chosen[i];
      for (size_t k = i; k < std::min(chosen.size(), i + stride); ++k)
        if (states[chosen[k]].extra < states[best].extra) best = chosen[k];
      kept.push_back(std::move(states[best]));
    }
    states = std::move(kept);
  }

  const std::optional<plan::Link> link_;
  const StageChain& chain_;
  WorkBudget& work_;
  std::vector<std::vector<StageRange>> ranges_;  // by first stage, then length
  std::vector<int64_t> transient_;
  int64_t bytes_ = 0;
  std::vector<std::vector<State>> states_;  // by stage
};

}  // namespace

std::vector<SchedAction> pofo_sequence(const plan::ScheduleProblem& problem,
                                       const StageChain& chain,
                                       const std::vector<PofoChoice>& choices,
                                       int64_t memory_bytes) {
  std::vector<StageRange> again;
  std::vector<SchedValueId> moved;
  for (const PofoChoice& choice : choices) {
    StageRange range = chain.range(choice.first, choice.last);
    if (choice.inner == Inner::kOffload)
      moved.insert(moved.end(), range.inner.begin(), range.inner.end());
    if (choice.offload_input) moved.insert(moved.end(), range.inputs.begin(), range.inputs.end());
    if (choice.inner == Inner::kRecompute) again.push_back(std::move(range));
  }
  std::vector<SchedAction> runs = chain.with_reruns(again);
  return moved.empty() ? runs : with_moves(problem, runs, moved, memory_bytes);
}

namespace {

class Trials {
 public:
  Trials(const plan::ScheduleProblem& problem, const StageChain& chain, Judge& judge)
      : problem_(problem), chain_(chain), judge_(judge) {}

  // Scores what the program finds for so much memory, fastest first, as long as it is faster than
  // the best so far. By how many bytes the best of them is above the budget.
  int64_t score_all(Program& program, int64_t memory) {
    const auto found = program.solve(memory - problem_.resident_bytes);
    const size_t most =
        std::max<size_t>(kPofo.fewest_scored, kPofo.scored_actions / problem_.ops.size());
    int64_t over = std::numeric_limits<int64_t>::max();
    for (size_t rank = 0; rank < std::min(found.size(), most); ++rank) {
      if (judge_.once_seconds() + program.extra_of(rank) >= judge_.best_seconds()) return 0;
      if (!tried_.insert(found[rank]).second) continue;
      const auto score =
          judge_.score(pofo_sequence(problem_, chain_, found[rank], judge_.budget()));
      if (judge_.work().exhausted()) return 0;
      if (score) over = std::min(over, std::max<int64_t>(0, score->peak_bytes - judge_.budget()));
    }
    return over == std::numeric_limits<int64_t>::max() ? 0 : over;
  }

 private:
  const plan::ScheduleProblem& problem_;
  const StageChain& chain_;
  Judge& judge_;
  std::set<std::vector<PofoChoice>> tried_;
};

}  // namespace

void add_pofo(const plan::ScheduleProblem& problem, const IdVector<SchedOpId, char>& forward,
              Judge& judge) {
  const StageChain chain(
      problem, forward.empty() ? forward_part(problem, plan::ProblemIndex(problem)) : forward);
  if (chain.size() == 0) return;
  Program program(problem, chain, judge.work());
  Trials trials(problem, chain, judge);
  // The states are not exact about memory, so other limits are tried, too: more where they find
  // nothing or what fits, fewer where what they find does not; last, twice as much as there is.
  const auto budget = static_cast<double>(judge.budget());
  double memory = budget, fits = 0, too_many = 2 * budget;
  for (int round = 0; round < kPofo.limits_tried && judge.work().look(); ++round) {
    const int64_t over = trials.score_all(program, static_cast<int64_t>(memory));
    (over > 0 ? too_many : fits) = memory;
    memory += over > 0 ? -static_cast<double>(over) : kPofo.raise * budget;
    if (memory <= fits || memory >= too_many) memory = (fits + too_many) / 2;
  }
  if (judge.work().look()) trials.score_all(program, 2 * judge.budget());
}

}  // namespace lowtide::baselines
