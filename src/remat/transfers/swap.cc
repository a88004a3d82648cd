#include "remat/transfers/swap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/rng.h"
#include "base/work.h"
#include "plan/sequence_simulator.h"
#include "remat/transfers/swap_timing.h"
#include "remat/transfers/tiers.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct SwapTuning {
  int64_t simulated = 40;     // units for each action that the simulator looks at
  double crowded_link = 0.1;  // what bytes count for, where the link has no time left for them
  size_t moves_per_span = 60, first_moves = 400;  // of the annealing
  double heat = 0.03;                             // the first temperature, of the step's time
  double last_heat = 1e-4;                        // the last one, of the first
  double overflow_price = 10;                     // of a byte, in times of its transfer
  int most_searches = 3;  // from the beginning, with other tiers; then what was chosen stays,
  int most_shifts = 20;   // and only tiers change
  // With several links, the part of the work that is for one alone; where slow tiers have limits,
  // the part that does not look at them; one change in so many is of a tier.
  int64_t one_link_share = 2, no_limits_share = 2;
  uint32_t tier_changes = 3;
};
constexpr SwapTuning kSwap;

using plan::SchedAction;

constexpr double kSame = 1e-12;  // sums of seconds in another order differ by less

// Better: overflows less; if both fit, takes less time; or as much, and moves less.
bool better(const Timed& a, const Timed& b) {
  if (a.overflow_bytes != b.overflow_bytes) return a.overflow_bytes < b.overflow_bytes;
  if (a.seconds > b.seconds * (1 + kSame)) return false;
  return a.seconds < b.seconds * (1 - kSame) || a.moved_bytes < b.moved_bytes;
}

class SwapSearch {
 public:
  // With several links the transfer search changes the tiers in `view`.
  SwapSearch(IdleSpanView& view, int64_t budget, const SwapOptions& options)
      : view_(view),
        budget_(budget),
        options_(options),
        timing_(view, budget),
        work_(options.limits),
        rng_(options.seed),
        chosen_(view.spans.size(), 0),
        limit_(view.spans.size(), std::numeric_limits<double>::infinity()) {
    for (const Movable& m : view.movables)
      seconds_per_byte_ = std::max(seconds_per_byte_, m.in_seconds / static_cast<double>(m.bytes));
    for (IdleSpanId s : view.spans.ids()) {
      const auto overflows = [&](RunId run) { return view.base_bytes[run] > budget; };
      const RunRange runs = view.spans[s].runs();
      if (std::any_of(runs.begin(), runs.end(), overflows)) useful_.push_back(s);
    }
  }

  // `known`: moves to start from where they are better than the greedy choice.
  Timed run(const std::optional<Moves>& known) {
    add_greedily();
    Timed best = time();
    if (known) start_from(*known, best);
    if (best.fits && options_.de_swap) remove_idle(best);
    if (!options_.local_search) return best;
    // With several links some of the work is for one alone: from there they only help.
    const bool several = view_.links.size() > 1;
    const int64_t units = options_.limits.max_units;
    improve(best, several ? units / kSwap.one_link_share : units, false);
    if (!several || !best.waits) return best;
    choose(best.away);
    if (best.fits) spread(best);
    improve(best, units, true);
    return best;
  }

  // Takes out what is not needed until every idle span is: without any one of them the budget is
  // not kept or the step is longer. Large ones first, as they are most of what moves for nothing.
  // False: the limit of work came first.
  bool tidy(Timed& best) {
    choose(best.away);
    std::vector<IdleSpanId> by_size;
    for (const Away& a : best.away) by_size.push_back(a.span);
    std::stable_sort(by_size.begin(), by_size.end(),
                     [this](IdleSpanId a, IdleSpanId b) { return bytes_of(a) > bytes_of(b); });
    for (bool any = true; any;) {
      any = false;
      for (IdleSpanId s : by_size) {
        if (!chosen_[s]) continue;
        if (work_.exhausted()) return false;
        any |= do_without(s, best);
      }
    }
    return true;
  }

  plan::SolveWork work() const { return {work_.used(), work_.seconds(), work_.timed_out()}; }

 private:
  Timed time() {
    const int64_t before = timing_.units();
    Timed timed = timing_.time(chosen_);
    work_.spend(timing_.units() - before);
    return timed;
  }

  // A resident moves as a whole: taking out its first or last idle span takes out all, and its
  // others need those two.
  void put(IdleSpanId s) {
    const Movable& m = view_.movable_of(s);
    const bool moves = chosen_[m.spans.front()];
    chosen_[s] = 1;
    if (!m.resident.valid() || moves) return;
    for (IdleSpanId other : m.spans) chosen_[other] = 1;
  }
  void take_out(IdleSpanId s) {
    const Movable& m = view_.movable_of(s);
    chosen_[s] = 0;
    if (m.resident.valid() && (s == m.spans.front() || s == m.spans.back()))
      for (IdleSpanId other : m.spans) chosen_[other] = 0;
  }

  // By the moments that they have there, or as soon and as late as can be.
  void start_from(const Moves& known, Timed& best) {
    const ChosenSpans greedy = chosen_;
    choose(known);
    const int64_t before = timing_.units();
    Timed found = timing_.as_placed(chosen_, known);
    work_.spend(timing_.units() - before);
    if (Timed anew = time(); better(anew, found)) found = std::move(anew);
    if (better(found, best))
      best = std::move(found);
    else
      chosen_ = greedy;
  }

  // Until nothing overflows or nothing is left to move: the idle span that covers the largest
  // overflow and relieves most bytes of overflow per second of transfer. Not held to the limit of
  // work, as there are no more steps than spans and half a choice is none.
  void add_greedily() {
    IdVector<RunId, char> hopeless(view_.runs.size(), 0);
    while (!work_.timed_out()) {
      const int64_t before = timing_.units();
      const IdVector<RunId, int64_t>& present = timing_.present_without_waiting(chosen_);
      work_.spend(timing_.units() - before);
      RunId worst;
      for (RunId run : present.ids())
        if (!hopeless[run] && present[run] > budget_ &&
            (!worst.valid() || present[run] > present[worst]))
          worst = run;
      if (!worst.valid()) return;
      const IdleSpanId s = best_span_at(worst, present);
      // Without an idle span here: whoever is away already must wait.
      if (s.valid())
        put(s);
      else
        hopeless[worst] = 1;
    }
  }

  // Overflow only shrinks while idle spans are added, and with it what a span relieves: what was
  // found earlier is an upper limit, and only spans that could still be the best are looked at
  // again.
  IdleSpanId best_span_at(RunId run, const IdVector<RunId, int64_t>& present) {
    using Candidate = std::pair<double, IdleSpanId>;  // its limit
    const auto later = [](const Candidate& a, const Candidate& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    };
    std::vector<Candidate> candidates;  // a heap: by limit, then the first span
    for (IdleSpanId s : useful_)
      if (!chosen_[s] && view_.spans[s].runs().has(run)) candidates.emplace_back(limit_[s], s);
    work_.spend(static_cast<int64_t>(useful_.size()));
    std::make_heap(candidates.begin(), candidates.end(), later);
    IdleSpanId best;
    double best_score = 0;
    while (!candidates.empty() && candidates.front().first > best_score) {
      const IdleSpanId s = candidates.front().second;
      std::pop_heap(candidates.begin(), candidates.end(), later);
      candidates.pop_back();
      const double score = relief(s, present);
      limit_[s] = score;
      if (score > best_score) best_score = score, best = s;
    }
    return best;
  }

  // Bytes of overflow taken away, summed over time, per second of transfer. Overflow so near to an
  // end of the idle span that the transfer would be under way counts a tenth.
  double relief(IdleSpanId s, const IdVector<RunId, int64_t>& present) {
    const Movable& m = view_.movable_of(s);
    double bytes = 0, transfer = 0;
    const auto add = [&](const IdleSpan& span) {
      double in_front = 0;
      const bool store = !span.begins_with_step();
      double behind = 0;
      for (RunId run : span.runs()) behind += view_.seconds[run];
      for (RunId run : span.runs()) {
        behind -= view_.seconds[run];
        const bool free = (!store || in_front >= m.out_seconds) && behind >= m.in_seconds;
        if (present[run] > budget_)
          bytes += (free ? 1 : kSwap.crowded_link) *
                   static_cast<double>(std::min(m.bytes, present[run] - budget_));
        in_front += view_.seconds[run];
      }
      transfer += (store ? m.out_seconds : 0) + m.in_seconds;
      work_.spend(int64_t{span.to.index()} - span.from.index() + 1);
    };
    if (m.resident.valid() && !chosen_[m.spans.front()])
      for (IdleSpanId other : m.spans) add(view_.spans[other]);
    else
      add(view_.spans[s]);
    return bytes / transfer;
  }

  // Takes out whatever is not needed, small benefit first, as long as the step gets no longer.
  void remove_idle(Timed& best) {
    for (IdleSpanId s : chosen_.ids()) {
      if (work_.exhausted()) return;
      if (!chosen_[s]) continue;
      const ChosenSpans before = chosen_;
      take_out(s);
      Timed timed = time();
      if (timed.fits && timed.seconds <= best.seconds)
        best = std::move(timed);
      else
        chosen_ = before;
    }
  }

  bool do_without(IdleSpanId s, Timed& best) {
    const ChosenSpans before = chosen_;
    take_out(s);
    const auto as_good = [&](const Timed& timed) {
      return timed.fits && timed.seconds <= best.seconds * (1 + kSame);
    };
    Timed timed = time();
    if (!as_good(timed)) {
      const int64_t units = timing_.units();
      timed = timing_.as_placed(chosen_, best.away);
      work_.spend(timing_.units() - units);
    }
    if (as_good(timed)) {
      best = std::move(timed);
      return true;
    }
    chosen_ = before;
    return false;
  }

  int64_t bytes_of(IdleSpanId s) const { return view_.movable_of(s).bytes; }

  void choose(const Moves& away) {
    std::fill(chosen_.begin(), chosen_.end(), 0);
    for (const Away& a : away) chosen_[a.span] = 1;
  }

  // Several links carry more than one: what moves is dealt out, what takes longest first, each to
  // the link that is done with it first and has room for it; taken if the step is shorter then.
  void spread(Timed& best) {
    IdVector<MovableId, int64_t> out(view_.movables.size(), 0), in(view_.movables.size(), 0);
    for (const Away& a : best.away) {
      const MovableId m = view_.spans[a.span].movable;
      out[m] += a.store;
      in[m] += a.load;
    }
    std::vector<MovableId> moving;
    for (MovableId m : view_.movables.ids())
      if (out[m] + in[m] > 0) moving.push_back(m);
    const auto bytes = [&](MovableId m) {
      return view_.movables[m].moved_bytes() * (out[m] + in[m]);
    };
    std::ranges::stable_sort(moving, [&](MovableId a, MovableId b) { return bytes(a) > bytes(b); });
    const Tiers before = tiers();
    std::vector<double> busy(view_.links.size(), 0);
    std::vector<int64_t> held(view_.links.size(), 0);
    for (MovableId m : moving) {
      Movable& movable = view_.movables[m];
      double first = std::numeric_limits<double>::infinity();
      uint8_t to = before[m];
      for (uint8_t tier = 0; tier < view_.links.size(); ++tier) {
        set_tier(view_, movable, tier);
        const double done = busy[tier] + static_cast<double>(out[m]) * movable.out_seconds +
                            static_cast<double>(in[m]) * movable.in_seconds;
        if (movable.bytes > view_.links[tier].bytes - held[tier] || done >= first) continue;
        first = done;
        to = tier;
      }
      set_tier(view_, movable, to);
      if (first < std::numeric_limits<double>::infinity()) busy[to] = first;
      held[to] += movable.bytes;
    }
    Timed timed = time();
    bool good = timed.fits && timed.seconds < best.seconds * (1 - kSame);
    for (uint8_t tier = 0; tier < view_.links.size() && good; ++tier) good = has_room(timed, tier);
    if (good)
      best = std::move(timed);
    else
      set_tiers(before);
  }

  bool has_room(const Timed& timed, uint8_t tier) {
    return timing_.crowded_bytes(timed.away, tier) == 0;
  }

  // A buffer that moves goes to another tier: that movable, and the tier where it was.
  std::optional<std::pair<MovableId, uint8_t>> change_tier() {
    if (rng_.below(kSwap.tier_changes) != 0) return {};
    const MovableId m = view_.spans[useful_[rng_.below(useful_.size())]].movable;
    Movable& movable = view_.movables[m];
    const uint8_t was = movable.tier;
    const auto step = static_cast<uint8_t>(1 + rng_.below(view_.links.size() - 1));
    set_tier(view_, movable, static_cast<uint8_t>((was + step) % view_.links.size()));
    return std::pair(m, was);
  }

  using Tiers = IdVector<MovableId, uint8_t>;
  Tiers tiers() const {
    Tiers tiers;
    for (const Movable& m : view_.movables) tiers.push_back(m.tier);
    return tiers;
  }
  void set_tiers(const Tiers& tiers) {
    for (MovableId m : tiers.ids()) set_tier(view_, view_.movables[m], tiers[m]);
  }

  // Annealing over sets of idle spans: one or two of them flipped at a time, or a tier. What
  // overflows counts like waiting for its transfer ten times over. Ends once so much of the limits'
  // work is done.
  void improve(Timed& best, int64_t until_units, bool change_tiers) {
    if (useful_.empty()) return;
    const double ideal = ideal_seconds();
    const size_t moves = kSwap.moves_per_span * useful_.size() + kSwap.first_moves;
    double heat = kSwap.heat * ideal;
    const double cooling = std::pow(kSwap.last_heat, 1.0 / static_cast<double>(moves));
    double current = energy(best);
    Tiers best_tiers;
    if (change_tiers) best_tiers = tiers();
    for (size_t move = 0; move < moves && work_.used() <= until_units && !work_.exhausted();
         ++move, heat *= cooling) {
      if (best.fits && best.seconds <= ideal * (1 + 1e-9)) break;
      const ChosenSpans before = chosen_;
      const auto changed_tier = change_tiers ? change_tier() : std::nullopt;
      if (!changed_tier) {
        flip(useful_[rng_.below(useful_.size())]);
        if (rng_.below(2) == 0) flip(useful_[rng_.below(useful_.size())]);
        if (!options_.de_swap && count_of(chosen_) < count_of(before)) {
          chosen_ = before;
          continue;
        }
      }
      Timed timed = time();
      const double changed = energy(timed);
      const bool room = !changed_tier || has_room(timed, view_.movables[changed_tier->first].tier);
      if (room && (changed <= current || rng_.uniform() < std::exp((current - changed) / heat))) {
        current = changed;
        if (better(timed, best)) {
          best = std::move(timed);
          if (change_tiers) best_tiers = tiers();
        }
      } else {
        chosen_ = before;
        if (changed_tier)
          set_tier(view_, view_.movables[changed_tier->first], changed_tier->second);
      }
    }
    set_tiers(best_tiers);
  }

  static std::ptrdiff_t count_of(const ChosenSpans& chosen) {
    return std::count(chosen.begin(), chosen.end(), 1);
  }

  void flip(IdleSpanId s) {
    if (chosen_[s])
      take_out(s);
    else
      put(s);
  }

  double energy(const Timed& timed) const {
    return timed.seconds +
           kSwap.overflow_price * static_cast<double>(timed.overflow_bytes) * seconds_per_byte_;
  }

  double ideal_seconds() const {
    double sum = 0;
    for (double seconds : view_.seconds) sum += seconds;
    return sum;
  }

  IdleSpanView& view_;
  const int64_t budget_;
  const SwapOptions& options_;
  SwapTiming timing_;
  WorkBudget work_;
  Rng rng_;
  ChosenSpans chosen_;
  double seconds_per_byte_ = 0;         // on the way back
  std::vector<IdleSpanId> useful_;      // with a run that overflows when nothing moves
  IdVector<IdleSpanId, double> limit_;  // of what each relieves
};

// The transfer search, and room in the slow tiers for what it moves.
class Mover {
 public:
  Mover(const plan::ScheduleProblem& problem, IdleSpanView& view, const SwapOptions& options)
      : problem_(problem), view_(view), options_(options), has_limits_(any_limit(view.links)) {}

  SwapOutcome move() {
    for (int round = 0; round < kSwap.most_searches; ++round) {
      search();
      const int shifts = round + 1 < kSwap.most_searches ? 1 : kSwap.most_shifts;
      for (int shift = 0; shift < shifts; ++shift) {
        if (shift > 0) retime();
        if (!fits()) return std::move(outcome_);
        if (!settle()) continue;
        if (options_.tidies()) tidy();
        return std::move(outcome_);
      }
    }
    return std::move(outcome_);
  }

  // What was found before for the same runs, tidied.
  SwapOutcome tidy(SwapOutcome found) {
    outcome_ = std::move(found);
    outcome_.work = {};
    for (MovableId m : outcome_.tiers.ids()) set_tier(view_, view_.movables[m], outcome_.tiers[m]);
    timed_ = SwapTiming(view_, *problem_.budget_bytes).as_placed(outcome_.away);
    tidy();
    return std::move(outcome_);
  }

 private:
  void search() {
    SwapOptions options = options_;
    int64_t units = std::max<int64_t>(1, options_.limits.max_units - outcome_.work.units);
    if (has_limits_) units = std::max<int64_t>(1, units / kSwap.no_limits_share);
    options.limits = options_.limits.after(outcome_.work.seconds).with_units(units);
    SwapSearch search(view_, *problem_.budget_bytes, options);
    const bool is_first = std::exchange(is_first_, false);  // later ones have other tiers
    timed_ = search.run(is_first && !options_.known.empty() ? read_moves(view_, options_.known)
                                                            : std::nullopt);
    count(search.work());
  }

  // The same idle spans with the tiers that they have now.
  void retime() {
    ChosenSpans chosen(view_.spans.size(), 0);
    for (const Away& a : timed_.away) chosen[a.span] = 1;
    SwapTiming timing(view_, *problem_.budget_bytes);
    timed_ = timing.time(chosen);
    count({timing.units(), 0, false});
  }

  bool fits() {
    const size_t last = view_.links.size() - 1;
    if (timed_.crowded_bytes > 0)
      outcome_.crowded = {static_cast<uint8_t>(last),
                          view_.links[last].bytes + timed_.crowded_bytes};
    return timed_.fits;
  }

  void tidy() {
    SwapOptions options = options_;
    options.limits = options_.limits.after(outcome_.work.seconds).with_units(options_.tidy_units);
    SwapSearch search(view_, *problem_.budget_bytes, options);
    SwapOutcome untidied = outcome_;
    outcome_.tidy = search.tidy(timed_);
    count(search.work());
    if (settle()) return;
    // What moves less may lie in a slow tier for longer, and there be one too many.
    untidied.tidy = outcome_.tidy;
    untidied.work = outcome_.work;
    outcome_ = std::move(untidied);
  }

  // True: all tiers have room. Else tiers were changed, and the last one may have none.
  bool settle() {
    std::vector<SchedAction> sequence = write_sequence(view_, timed_.away);
    outcome_.work.units += kSwap.simulated * static_cast<int64_t>(sequence.size());
    const Result<plan::SequenceProfile> profile = plan::simulate_sequence(problem_, sequence);
    LT_CHECK(profile.has_value() && profile->peak_bytes <= *problem_.budget_bytes,
             "the timing of transfers and the simulator disagree");
    if (has_limits_ && !keeps_room(problem_, profile->slots)) {
      outcome_.crowded = shift_tiers(problem_, profile->slots, timed_.away, view_);
      return false;
    }
    outcome_.crowded.reset();
    outcome_.sequence = std::move(sequence);
    outcome_.peak_bytes = profile->peak_bytes;
    outcome_.seconds = profile->seconds;
    outcome_.away = timed_.away;
    outcome_.tiers.resize(0);
    for (const Movable& movable : view_.movables) outcome_.tiers.push_back(movable.tier);
    return true;
  }

  void count(const plan::SolveWork& work) {
    outcome_.work.units += work.units;
    outcome_.work.seconds += work.seconds;
    outcome_.work.timed_out |= work.timed_out;
  }

  const plan::ScheduleProblem& problem_;
  IdleSpanView& view_;
  const SwapOptions& options_;
  const bool has_limits_;
  bool is_first_ = true;  // search
  Timed timed_;
  SwapOutcome outcome_;
};

}  // namespace

SwapOutcome add_transfers(const plan::ScheduleProblem& problem,
                          std::span<const plan::SchedAction> runs, const SwapOptions& options) {
  LT_CHECK(problem.budget_bytes.has_value(), "transfers for a problem without a budget");
  Result<IdleSpanView> view = find_idle_spans(problem, runs, options.spans);
  LT_CHECK(view.has_value(), "transfers for a schedule that is none");
  return Mover(problem, *view, options).move();
}

SwapOutcome tidy_transfers(const plan::ScheduleProblem& problem,
                           std::span<const plan::SchedAction> runs, SwapOutcome found,
                           const SwapOptions& options) {
  LT_CHECK(!found.sequence.empty(), "nothing was found that could be tidied");
  Result<IdleSpanView> view = find_idle_spans(problem, runs, options.spans);
  LT_CHECK(view.has_value() && view->movables.size() == found.tiers.size(),
           "transfers of other runs");
  return Mover(problem, *view, options).tidy(std::move(found));
}

}  // namespace lowtide::remat
