#include "remat/transfers/swap_timing.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

SwapTiming::SwapTiming(const IdleSpanView& view, int64_t budget_bytes)
    : view_(view), budget_(budget_bytes), runs_(static_cast<int>(view.runs.size())) {
  ideal_start_.push_back(0);
  for (double seconds : view.seconds) ideal_start_.push_back(ideal_start_.back() + seconds);
  no_waiting_ = ideal_start_.back();
  for (const Movable& movable : view.movables) holds_.push_back(movable.resident.valid() ? 0 : -1);
  by_before_.resize(view.spans.size());
  std::iota(by_before_.begin(), by_before_.end(), 0);
  std::stable_sort(by_before_.begin(), by_before_.end(), [&](int x, int y) {
    return view.spans[static_cast<size_t>(x)].before < view.spans[static_cast<size_t>(y)].before;
  });
  by_after_ = by_before_;
  std::stable_sort(by_after_.begin(), by_after_.end(), [&](int x, int y) {
    return view.spans[static_cast<size_t>(x)].after > view.spans[static_cast<size_t>(y)].after;
  });
  position_.assign(view.spans.size(), -1);
}

const Movable& SwapTiming::movable_of(const Away& a) const {
  return view_.movables[static_cast<size_t>(view_.spans[static_cast<size_t>(a.span)].movable)];
}

Timed SwapTiming::time(const std::vector<char>& chosen) {
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

const std::vector<int64_t>& SwapTiming::present_without_waiting(const std::vector<char>& chosen) {
  begin(chosen);
  place(away_);
  find_present(away_);
  return present_;
}

// The moves of `chosen`, and the timeline on which nobody waits.
void SwapTiming::begin(const std::vector<char>& chosen) {
  units_ += runs_ / 8;
  start_ = ideal_start_;
  finish_.assign(ideal_start_.begin() + 1, ideal_start_.end());
  list_moves(chosen);
}

Timed SwapTiming::as_placed(const std::vector<char>& chosen, const std::vector<Away>& placed) {
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

Timed SwapTiming::as_placed(const std::vector<Away>& placed) {
  start_.resize(ideal_start_.size());
  finish_.resize(view_.seconds.size());
  find_present(placed);
  return judge(placed);
}

// After find_present: what fits, and how long the step takes.
Timed SwapTiming::judge(const std::vector<Away>& away) {
  units_ += runs_ / 8 + static_cast<int64_t>(away.size());
  Timed timed;
  for (int run = 0; run < runs_; ++run) {
    const int64_t over = present_[static_cast<size_t>(run)] - budget_;
    if (over <= timed.overflow_bytes) continue;
    timed.overflow_bytes = over;
    timed.overflow_run = run;
  }
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

// Into away_, in the order of by_before_.
void SwapTiming::list_moves(const std::vector<char>& chosen) {
  units_ += static_cast<int64_t>(by_before_.size() / 4 + holds_.size() / 16);
  away_.clear();
  stored_ = holds_;
  for (int s : by_before_) {
    if (!chosen[static_cast<size_t>(s)]) continue;
    const IdleSpan& span = view_.spans[static_cast<size_t>(s)];
    int& stored = stored_[static_cast<size_t>(span.movable)];
    away_.push_back({s, span.version != stored, span.after < runs_, 0, 0});
    stored = span.version;
  }
}

// Stores as early, loads as late as possible, each direction of a link one after another.
void SwapTiming::place(std::vector<Away>& away) {
  units_ += static_cast<int64_t>(by_after_.size() / 4 + 4 * away.size());
  out_free_.assign(view_.links.size(), 0);
  for (Away& a : away) {
    const IdleSpan& span = view_.spans[static_cast<size_t>(a.span)];
    a.leaves = span.before + 1;
    if (!a.store) continue;
    const double ready = span.before < 0 ? 0 : finish_[static_cast<size_t>(span.before)];
    const Movable& movable = movable_of(a);
    double& out_free = out_free_[movable.tier];
    out_free = std::max(out_free, ready) + movable.out_seconds;
    const auto from = start_.begin() + a.leaves;
    a.leaves = static_cast<int>(std::lower_bound(from, start_.begin() + span.after, out_free) -
                                start_.begin());
  }
  std::fill(position_.begin(), position_.end(), -1);
  for (size_t i = 0; i < away.size(); ++i)
    position_[static_cast<size_t>(away[i].span)] = static_cast<int>(i);
  in_free_.assign(view_.links.size(), kInfinity);
  for (int s : by_after_) {
    const int position = position_[static_cast<size_t>(s)];
    if (position < 0) continue;
    Away& a = away[static_cast<size_t>(position)];
    a.returns = view_.spans[static_cast<size_t>(s)].after;
    if (!a.load) continue;
    const Movable& movable = movable_of(a);
    double& next_begin = in_free_[movable.tier];
    next_begin = std::min(next_begin, start_[static_cast<size_t>(a.returns)]) - movable.in_seconds;
    const auto end = start_.begin() + a.returns + 1;
    const auto late = std::upper_bound(start_.begin() + a.leaves, end, next_begin);
    a.returns = std::max(a.leaves, static_cast<int>(late - start_.begin()) - 1);
  }
}

void SwapTiming::find_present(const std::vector<Away>& away) {
  units_ += runs_ / 4 + static_cast<int64_t>(away.size());
  change_.assign(static_cast<size_t>(runs_) + 1, 0);
  for (const Away& a : away) {
    const int64_t bytes = movable_of(a).bytes;
    change_[static_cast<size_t>(a.leaves)] -= bytes;
    change_[static_cast<size_t>(a.returns)] += bytes;
  }
  present_ = view_.base_bytes;
  int64_t moved = 0;
  for (size_t run = 0; run < present_.size(); ++run) present_[run] += moved += change_[run];
}

int64_t SwapTiming::crowded_bytes(const std::vector<Away>& away, size_t tier) {
  const int64_t room = view_.links[tier].bytes;
  if (room == plan::Link::kUnlimited) return 0;
  units_ += runs_ + static_cast<int64_t>(kept_.size() + 2 * away.size());
  kept_.assign(view_.movables.size(), {runs_ + 1, 0});
  for (const Away& a : away) {
    const IdleSpan& span = view_.spans[static_cast<size_t>(a.span)];
    auto& [begin, end] = kept_[static_cast<size_t>(span.movable)];
    begin = std::min(begin, span.before + 1), end = std::max(end, span.stays_until + 1);
  }
  std::vector<int64_t> change(static_cast<size_t>(runs_) + 2, 0);
  for (size_t m = 0; m < kept_.size(); ++m) {
    const Movable& movable = view_.movables[m];
    if (movable.tier != tier || kept_[m].second == 0) continue;
    if (movable.resident.valid()) kept_[m] = {0, runs_ + 1};
    change[static_cast<size_t>(kept_[m].first)] += movable.bytes;
    change[static_cast<size_t>(kept_[m].second)] -= movable.bytes;
  }
  int64_t held = 0, most = 0;
  for (int64_t by : change) most = std::max(most, held += by);
  return std::max<int64_t>(0, most - room);
}

void SwapTiming::tighten(std::vector<Away>& away) {
  units_ += runs_ / 4;
  under_way_.clear();
  size_t next = 0;  // of `away`, which is in the order of `before`
  for (int run = 0; run < runs_; ++run) {
    if (present_[static_cast<size_t>(run)] <= budget_) continue;
    const auto span_of = [&](size_t i) -> const IdleSpan& {
      return view_.spans[static_cast<size_t>(away[i].span)];
    };
    for (; next < away.size() && span_of(next).before < run; ++next) under_way_.push_back(next);
    units_ += static_cast<int64_t>(under_way_.size()) + 1;
    std::erase_if(under_way_, [&](size_t i) { return span_of(i).after <= run; });
    tighten_at(run, away);
  }
}

// Makes buffers leave before this run or come back after it although somebody then waits, those
// with the least waiting per byte first, until what is present fits.
void SwapTiming::tighten_at(int run, std::vector<Away>& away) {
  waits_.clear();
  for (size_t i : under_way_) {
    const Away& a = away[i];
    if (a.leaves <= run && run < a.returns) continue;
    const auto from = static_cast<size_t>(run < a.leaves ? run : a.returns);
    const auto to = static_cast<size_t>(run < a.leaves ? a.leaves : run + 1);
    waits_.emplace_back((start_[to] - start_[from]) / static_cast<double>(movable_of(a).bytes), i);
  }
  std::make_heap(waits_.begin(), waits_.end(), std::greater<>());
  units_ += 2 * static_cast<int64_t>(waits_.size());
  while (present_[static_cast<size_t>(run)] > budget_ && !waits_.empty()) {
    Away& a = away[waits_.front().second];
    std::pop_heap(waits_.begin(), waits_.end(), std::greater<>());
    waits_.pop_back();
    const int64_t bytes = movable_of(a).bytes;
    const auto take = [&](int from, int to) {
      for (int r = from; r < to; ++r) present_[static_cast<size_t>(r)] -= bytes;
      units_ += 4 + (to - from) / 8;
    };
    if (a.leaves == a.returns) {
      a.leaves = run, a.returns = run + 1;
      take(run, run + 1);
    } else if (run < a.leaves) {
      take(run, a.leaves);
      a.leaves = run;
    } else {
      take(a.returns, run + 1);
      a.returns = run + 1;
    }
  }
}

// What the copies take from compute.
double SwapTiming::copying(const std::vector<Away>& away) const {
  std::vector<double> bytes(view_.links.size(), 0);
  for (const Away& a : away) {
    const Movable& movable = movable_of(a);
    bytes[movable.tier] += (static_cast<double>(a.store) + static_cast<double>(a.load)) *
                           static_cast<double>(movable.bytes);
  }
  double seconds = 0;
  for (size_t tier = 0; tier < bytes.size(); ++tier)
    seconds += bytes[tier] * view_.links[tier].compute_seconds_per_byte;
  return seconds;
}

int64_t SwapTiming::moved_bytes(const std::vector<Away>& away) const {
  int64_t bytes = 0;
  for (const Away& a : away)
    bytes += (static_cast<int64_t>(a.store) + static_cast<int64_t>(a.load)) * movable_of(a).bytes;
  return bytes;
}

// The timeline of the step with these transfers; leaves the runs' times in start_ and finish_.
double SwapTiming::play(const std::vector<Away>& away) {
  units_ += runs_ / 2 + 4 * static_cast<int64_t>(away.size());
  const size_t moments = static_cast<size_t>(runs_) + 1;
  drops_.begin(moments, away.size());
  loads_.begin(moments, away.size());
  arrivals_.begin(moments, away.size());
  for (size_t i = away.size(); i-- > 0;) {
    if (away[i].store) drops_.put(away[i].leaves, i);
    if (!away[i].load) continue;
    loads_.put(away[i].returns, i);
    arrivals_.put(view_.spans[static_cast<size_t>(away[i].span)].after, i);
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
  for (size_t moment = 0; moment < moments; ++moment) {
    for (; next < away.size(); ++next) {
      const IdleSpan& span = view_.spans[static_cast<size_t>(away[next].span)];
      if (static_cast<size_t>(span.before + 1) > moment) break;
      if (!away[next].store) continue;
      const Movable& m = view_.movables[static_cast<size_t>(span.movable)];
      stored_at_[next] = begin(out_free_[m.tier], now, m.out_seconds);
    }
    for (int i = drops_.first(moment); i >= 0; i = drops_.after(i))
      now = std::max(now, stored_at_[static_cast<size_t>(i)]);
    for (int i = loads_.first(moment); i >= 0; i = loads_.after(i)) {
      const Movable& m = movable_of(away[static_cast<size_t>(i)]);
      arrives_at_[static_cast<size_t>(i)] = begin(in_free_[m.tier], now, m.in_seconds);
    }
    for (int i = arrivals_.first(moment); i >= 0; i = arrivals_.after(i))
      now = std::max(now, arrives_at_[static_cast<size_t>(i)]);
    start_[moment] = now;
    if (moment + 1 == moments) break;
    now += view_.seconds[moment];
    finish_[moment] = now;
  }
  for (const auto* free : {&out_free_, &in_free_})
    for (double end : *free) now = std::max(now, end);
  return now;
}

std::vector<SchedAction> write_sequence(const IdleSpanView& view, const std::vector<Away>& away) {
  using Kind = SchedAction::Kind;
  const size_t moments = view.runs.size() + 1;
  std::vector<std::vector<SchedAction>> stores(moments), drops(moments), loads(moments);
  for (const Away& a : away) {
    const IdleSpan& span = view.spans[static_cast<size_t>(a.span)];
    const Movable& m = view.movables[static_cast<size_t>(span.movable)];
    const auto action = [&](Kind kind) {
      return SchedAction{kind, {}, m.value, m.resident, m.tier};
    };
    if (a.store) stores[static_cast<size_t>(span.before) + 1].push_back(action(Kind::kStore));
    if (span.before >= 0) drops[static_cast<size_t>(a.leaves)].push_back(action(Kind::kDrop));
    if (a.load) loads[static_cast<size_t>(a.returns)].push_back(action(Kind::kLoad));
  }
  std::vector<SchedAction> sequence;
  for (size_t moment = 0; moment < moments; ++moment) {
    for (const auto* list : {&stores[moment], &drops[moment], &loads[moment]})
      sequence.insert(sequence.end(), list->begin(), list->end());
    if (moment < view.runs.size()) sequence.push_back(SchedAction::run(view.runs[moment]));
  }
  return sequence;
}

}  // namespace lowtide::remat
