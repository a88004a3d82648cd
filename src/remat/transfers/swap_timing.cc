#include "remat/transfers/swap_timing.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "base/check.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

SwapTiming::SwapTiming(const IdleSpanView& view, int64_t budget_bytes)
    : view_(view),
      budget_(budget_bytes),
      runs_(static_cast<int>(view.runs.size())),
      move_of_(view.spans.size()),
      change_(view.runs.size() + 1),
      drops_(view.runs.size() + 1),
      loads_(view.runs.size() + 1),
      arrivals_(view.runs.size() + 1) {
  ideal_start_.push_back(0);
  for (double seconds : view.seconds) {
    no_waiting_ += seconds;
    ideal_start_.push_back(no_waiting_);
  }
  for (const Movable& movable : view.movables) holds_.push_back(movable.resident.valid() ? 0 : -1);
  as_they_begin_.assign(view.spans.ids().begin(), view.spans.ids().end());
  std::stable_sort(as_they_begin_.begin(), as_they_begin_.end(), [&](IdleSpanId x, IdleSpanId y) {
    return view.spans[x].from < view.spans[y].from;
  });
  as_they_end_ = as_they_begin_;
  std::stable_sort(as_they_end_.begin(), as_they_end_.end(),
                   [&](IdleSpanId x, IdleSpanId y) { return view.spans[x].to > view.spans[y].to; });
}

Timed SwapTiming::time(const ChosenSpans& chosen) {
  begin(chosen);
  Timed best;
  // Waiting moves the runs behind it, and with them the best moments for transfers: place once
  // more on the timeline that came out.
  for (int pass = 0; pass < 2; ++pass) {
    place(away_);
    find_present(away_);
    tighten(away_);
    Timed timed = judge(away_);
    if (pass == 0 || timed.overflow_bytes < best.overflow_bytes ||
        (timed.fits && timed.seconds < best.seconds))
      best = std::move(timed);
    if (!best.fits || !best.waits) break;
  }
  return best;
}

const IdVector<RunId, int64_t>& SwapTiming::present_without_waiting(const ChosenSpans& chosen) {
  begin(chosen);
  place(away_);
  find_present(away_);
  return present_;
}

// The moves of `chosen`, and the timeline on which nobody waits.
void SwapTiming::begin(const ChosenSpans& chosen) {
  units_ += runs_ / 8;
  start_ = ideal_start_;
  finish_.resize(view_.runs.size());
  std::copy(ideal_start_.begin() + 1, ideal_start_.end(), finish_.begin());
  list_moves(chosen);
}

Timed SwapTiming::as_placed(const ChosenSpans& chosen, const Moves& placed) {
  list_moves(chosen);
  units_ += static_cast<int64_t>(placed.size());
  auto as_it_was = placed.begin();  // both are in the same order
  for (Away& a : away_) {
    while (as_it_was != placed.end() && as_it_was->span != a.span) ++as_it_was;
    LT_CHECK(as_it_was != placed.end(), "a span that was not placed");
    a.leaves = as_it_was->leaves, a.returns = as_it_was->returns;
  }
  return as_placed(away_);
}

Timed SwapTiming::as_placed(const Moves& placed) {
  start_.resize(ideal_start_.size());
  finish_.resize(view_.seconds.size());
  find_present(placed);
  return judge(placed);
}

// After find_present: what fits, and how long the step takes.
Timed SwapTiming::judge(const Moves& away) {
  units_ += runs_ / 8 + static_cast<int64_t>(away.size());
  Timed timed;
  for (const int64_t bytes : present_)
    timed.overflow_bytes = std::max(timed.overflow_bytes, bytes - budget_);
  // What others have no room for goes on to the next.
  timed.crowded_bytes = crowded_bytes(away, view_.links.size() - 1);
  timed.overflow_bytes = std::max(timed.overflow_bytes, timed.crowded_bytes);
  timed.fits = timed.overflow_bytes == 0;
  timed.seconds = play(away);
  timed.waits = timed.seconds > no_waiting_;
  timed.seconds += copying(away);
  timed.moved_bytes = moved_bytes(away);
  timed.away = away;
  return timed;
}

// Into away_, in the order in which the spans begin.
void SwapTiming::list_moves(const ChosenSpans& chosen) {
  units_ += static_cast<int64_t>(as_they_begin_.size() / 4 + holds_.size() / 16);
  away_.resize(0);
  stored_ = holds_;
  for (IdleSpanId s : as_they_begin_) {
    if (!chosen[s]) continue;
    const IdleSpan& span = view_.spans[s];
    int& stored = stored_[span.movable];
    away_.push_back({.span = s, .store = span.version != stored, .load = span.to < view_.end()});
    stored = span.version;
  }
}

// Stores as early, loads as late as possible, each direction of a link one after another.
void SwapTiming::place(Moves& away) {
  units_ += static_cast<int64_t>(as_they_end_.size() / 4 + 4 * away.size());
  out_free_.assign(view_.links.size(), 0);
  const auto moment_at = [this](auto place) {
    return Moment(static_cast<size_t>(place - start_.begin()));
  };
  for (Away& a : away) {
    const IdleSpan& span = view_.spans[a.span];
    a.leaves = span.from;
    if (!a.store) continue;
    const double ready =
        span.begins_with_step() ? 0 : finish_[RunId(span.from.index() - size_t{1})];
    const Movable& movable = movable_of(a);
    double& out_free = out_free_[movable.tier];
    out_free = std::max(out_free, ready) + movable.out_seconds;
    const auto from = start_.begin() + a.leaves.index();
    a.leaves = moment_at(std::lower_bound(from, start_.begin() + span.to.index(), out_free));
  }
  std::fill(move_of_.begin(), move_of_.end(), MoveId::none());
  for (MoveId move : away.ids()) move_of_[away[move].span] = move;
  in_free_.assign(view_.links.size(), kInfinity);
  for (IdleSpanId s : as_they_end_) {
    const MoveId move = move_of_[s];
    if (!move.valid()) continue;
    Away& a = away[move];
    a.returns = view_.spans[s].to;
    if (!a.load) continue;
    const Movable& movable = movable_of(a);
    double& next_begin = in_free_[movable.tier];
    next_begin = std::min(next_begin, start_[a.returns]) - movable.in_seconds;
    const auto from = start_.begin() + a.leaves.index();
    const auto late = std::upper_bound(from, start_.begin() + a.returns.index() + 1, next_begin);
    a.returns = late == from ? a.leaves : moment_at(late - 1);
  }
}

void SwapTiming::find_present(const Moves& away) {
  units_ += runs_ / 4 + static_cast<int64_t>(away.size());
  std::fill(change_.begin(), change_.end(), 0);
  for (const Away& a : away) {
    const int64_t bytes = movable_of(a).bytes;
    change_[a.leaves] -= bytes;
    change_[a.returns] += bytes;
  }
  present_ = view_.base_bytes;
  int64_t moved = 0;
  for (RunId run : present_.ids()) present_[run] += moved += change_[just_before(run)];
}

int64_t SwapTiming::crowded_bytes(const Moves& away, size_t tier) {
  const int64_t room = view_.links[tier].bytes;
  if (room == plan::Link::kUnlimited) return 0;
  units_ += runs_ + static_cast<int64_t>(kept_.size() + 2 * away.size());
  const size_t moments = view_.runs.size() + 2;  // what stays goes after the last
  const Moment end(moments - 1);
  kept_.assign(view_.movables.size(), {end, Moment(0)});
  for (const Away& a : away) {
    const IdleSpan& span = view_.spans[a.span];
    auto& [from, to] = kept_[span.movable.index()];
    from = std::min(from, span.from), to = std::max(to, just_after(span.stays_until));
  }
  IdVector<Moment, int64_t> change(moments);
  for (MovableId m : view_.movables.ids()) {
    const Movable& movable = view_.movables[m];
    auto [from, to] = kept_[m.index()];
    if (movable.tier != tier || to == Moment(0)) continue;
    if (movable.resident.valid()) from = Moment(0), to = end;
    change[from] += movable.bytes;
    change[to] -= movable.bytes;
  }
  int64_t held = 0, most = 0;
  for (int64_t by : change) most = std::max(most, held += by);
  return std::max<int64_t>(0, most - room);
}

// Makes what is present fit, run by run from the first one on, by moves that begin earlier or end
// later than nobody would wait for. What one run asks for counts at the runs behind it.
void SwapTiming::tighten(Moves& away) {
  units_ += runs_ / 4;
  under_way_.clear();
  size_t next = 0;  // of `away`
  for (RunId run : present_.ids()) {
    if (present_[run] <= budget_) continue;
    const auto span_of = [&](MoveId move) -> const IdleSpan& {
      return view_.spans[away[move].span];
    };
    for (; next < away.size() && span_of(MoveId(next)).from <= just_before(run); ++next)
      under_way_.push_back(MoveId(next));
    units_ += static_cast<int64_t>(under_way_.size()) + 1;
    std::erase_if(under_way_, [&](MoveId move) { return span_of(move).to <= just_before(run); });
    tighten_at(run, away);
  }
}

// Some buffers could be away during this run, but still or again are there because the link is not
// that fast. They leave before it, or come back after it, and compute waits for their transfers:
// first those with the least waiting for each byte, until what is present fits.
void SwapTiming::tighten_at(RunId run, Moves& away) {
  const Moment before = just_before(run), after = just_after(run);
  waits_.clear();
  for (MoveId move : under_way_) {
    const Away& a = away[move];
    if (RunRange{a.leaves, a.returns}.has(run)) continue;
    const bool sooner = before < a.leaves;
    const double wait =
        sooner ? start_[a.leaves] - start_[before] : start_[after] - start_[a.returns];
    waits_.emplace_back(wait / static_cast<double>(movable_of(a).bytes), move);
  }
  std::make_heap(waits_.begin(), waits_.end(), std::greater<>());
  units_ += 2 * static_cast<int64_t>(waits_.size());
  while (present_[run] > budget_ && !waits_.empty()) {
    Away& a = away[waits_.front().second];
    std::pop_heap(waits_.begin(), waits_.end(), std::greater<>());
    waits_.pop_back();
    const int64_t bytes = movable_of(a).bytes;
    const auto take = [&](Moment from, Moment to) {
      for (RunId r : RunRange{from, to}) present_[r] -= bytes;
      units_ += 4 + static_cast<int64_t>(to.index() - from.index()) / 8;
    };
    if (a.leaves == a.returns) {
      a.leaves = before, a.returns = after;
      take(before, after);
    } else if (before < a.leaves) {
      take(before, a.leaves);
      a.leaves = before;
    } else {
      take(a.returns, after);
      a.returns = after;
    }
  }
}

// What the copies take from compute.
double SwapTiming::copying(const Moves& away) const {
  std::vector<double> bytes(view_.links.size(), 0);
  for (const Away& a : away) {
    const Movable& movable = movable_of(a);
    bytes[movable.tier] += (static_cast<double>(a.store) + static_cast<double>(a.load)) *
                           static_cast<double>(movable.moved_bytes());
  }
  double seconds = 0;
  for (size_t tier = 0; tier < bytes.size(); ++tier)
    seconds += bytes[tier] * view_.links[tier].compute_seconds_per_byte;
  return seconds;
}

int64_t SwapTiming::moved_bytes(const Moves& away) const {
  int64_t bytes = 0;
  for (const Away& a : away)
    bytes += (static_cast<int64_t>(a.store) + static_cast<int64_t>(a.load)) *
             movable_of(a).moved_bytes();
  return bytes;
}

// The timeline of the step with these transfers; leaves the runs' times in start_ and finish_.
double SwapTiming::play(const Moves& away) {
  units_ += runs_ / 2 + 4 * static_cast<int64_t>(away.size());
  drops_.begin(away.size());
  loads_.begin(away.size());
  arrivals_.begin(away.size());
  for (size_t i = away.size(); i-- > 0;) {
    const MoveId move(i);
    const Away& a = away[move];
    if (a.store) drops_.put(a.leaves, move);
    if (!a.load) continue;
    loads_.put(a.returns, move);
    arrivals_.put(view_.spans[a.span].to, move);
  }
  stored_at_.resize(away.size());
  arrives_at_.resize(away.size());
  out_free_.assign(view_.links.size(), 0);
  in_free_.assign(view_.links.size(), 0);
  const auto begin = [](double& free, double now, double seconds) {
    return free = std::max(now, free) + seconds;
  };
  double now = 0;
  size_t next = 0;  // of `away`, whose stores are in order
  for (Moment moment : start_.ids()) {
    for (; next < away.size(); ++next) {
      const Away& a = away[MoveId(next)];
      if (view_.spans[a.span].from > moment) break;
      if (!a.store) continue;
      const Movable& m = movable_of(a);
      stored_at_[MoveId(next)] = begin(out_free_[m.tier], now, m.out_seconds);
    }
    for (MoveId i = drops_.first(moment); i.valid(); i = drops_.after(i))
      now = std::max(now, stored_at_[i]);
    for (MoveId i = loads_.first(moment); i.valid(); i = loads_.after(i)) {
      const Movable& m = movable_of(away[i]);
      arrives_at_[i] = begin(in_free_[m.tier], now, m.in_seconds);
    }
    for (MoveId i = arrivals_.first(moment); i.valid(); i = arrivals_.after(i))
      now = std::max(now, arrives_at_[i]);
    start_[moment] = now;
    if (moment == view_.end()) break;
    const RunId run(moment.index());
    now += view_.seconds[run];
    finish_[run] = now;
  }
  for (const auto* free : {&out_free_, &in_free_})
    for (double end : *free) now = std::max(now, end);
  return now;
}

std::vector<SchedAction> write_sequence(const IdleSpanView& view, const Moves& away) {
  using Kind = SchedAction::Kind;
  using Lists = IdVector<Moment, std::vector<SchedAction>>;
  const size_t moments = view.runs.size() + 1;
  Lists stores(moments), drops(moments), loads(moments);
  for (const Away& a : away) {
    const IdleSpan& span = view.spans[a.span];
    const Movable& m = view.movables[span.movable];
    const auto action = [&](Kind kind) {
      return SchedAction{kind, {}, m.value, m.resident, m.tier};
    };
    if (a.store) stores[span.from].push_back(action(Kind::kStore));
    if (!span.begins_with_step()) drops[a.leaves].push_back(action(Kind::kDrop));
    if (a.load) loads[a.returns].push_back(action(Kind::kLoad));
  }
  std::vector<SchedAction> sequence;
  for (Moment moment : stores.ids()) {
    for (const auto* list : {&stores[moment], &drops[moment], &loads[moment]})
      sequence.insert(sequence.end(), list->begin(), list->end());
    if (moment < view.end()) sequence.push_back(SchedAction::run(view.runs[RunId(moment.index())]));
  }
  return sequence;
}

std::optional<Moves> read_moves(const IdleSpanView& view, std::span<const SchedAction> sequence) {
  std::map<plan::SchedValueId, MovableId> movable_of;
  for (const MovableId m : view.movables.ids())
    if (view.movables[m].value.valid()) movable_of[view.movables[m].value] = m;
  std::vector<Away> found;
  std::map<plan::SchedValueId, Moment> left;  // of what is away, when
  Moment now(0);
  for (const SchedAction& action : sequence) {
    if (action.kind == SchedAction::Kind::kRun) {
      const RunId run(now.index());
      if (now == view.end() || view.runs[run] != action.op) return std::nullopt;
      now = just_after(run);
      continue;
    }
    const auto movable = movable_of.find(action.value);
    if (movable == movable_of.end() || action.tier != 0) return std::nullopt;
    if (action.kind == SchedAction::Kind::kDrop && !left.emplace(action.value, now).second)
      return std::nullopt;
    if (action.kind != SchedAction::Kind::kLoad) continue;
    const auto from = left.find(action.value);
    if (from == left.end()) return std::nullopt;
    const auto& spans = view.movables[movable->second].spans;
    const auto span = std::find_if(spans.begin(), spans.end(), [&](IdleSpanId s) {
      return view.spans[s].from <= from->second && now <= view.spans[s].to;
    });
    if (span == spans.end()) return std::nullopt;
    found.push_back({.span = *span, .leaves = from->second, .returns = now});
    left.erase(from);
  }
  if (!left.empty() || now != view.end()) return std::nullopt;
  std::sort(found.begin(), found.end(), [&](const Away& a, const Away& b) {
    return std::pair(view.spans[a.span].from, a.span) < std::pair(view.spans[b.span].from, b.span);
  });
  for (size_t i = 1; i < found.size(); ++i)
    if (found[i].span == found[i - 1].span) return std::nullopt;  // away twice
  Moves moves;
  for (const Away& a : found) moves.push_back(a);
  return moves;
}

}  // namespace lowtide::remat
