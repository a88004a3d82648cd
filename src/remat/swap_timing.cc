#include "remat/swap_timing.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

SwapTiming::SwapTiming(const GapView& view, int64_t budget_bytes)
    : view_(view), budget_(budget_bytes), runs_(static_cast<int>(view.runs.size())) {
  for (double seconds : view.seconds) no_waiting_ += seconds;
}

const Movable& SwapTiming::movable_of(const Away& a) const {
  return view_.movables[static_cast<size_t>(view_.gaps[static_cast<size_t>(a.gap)].movable)];
}

Timed SwapTiming::time(const std::vector<char>& chosen, bool may_wait) {
  start_.assign(1, 0);
  for (double seconds : view_.seconds) start_.push_back(start_.back() + seconds);
  finish_.assign(start_.begin() + 1, start_.end());
  Timed best;
  std::vector<Away> away;
  list_moves(chosen, away);
  // Waiting moves the runs behind it, and with them the best moments for transfers: place once
  // more on the timeline that came out.
  for (int pass = 0; pass < 2; ++pass) {
    place(away);
    find_present(away);
    if (may_wait) tighten(away);
    Timed timed = judge(away);
    if (pass == 0 || timed.overflow_bytes < best.overflow_bytes ||
        (timed.fits && timed.seconds < best.seconds))
      best = std::move(timed);
    if (!may_wait || !best.fits || !best.waits) break;
  }
  return best;
}

Timed SwapTiming::as_placed(const std::vector<char>& chosen, const std::vector<Away>& placed) {
  std::vector<Away> away;
  list_moves(chosen, away);
  for (Away& a : away) {
    const auto as_it_was =
        std::ranges::find_if(placed, [&](const Away& other) { return other.gap == a.gap; });
    LT_CHECK(as_it_was != placed.end(), "a gap that was not placed");
    a.leaves = as_it_was->leaves, a.returns = as_it_was->returns;
  }
  find_present(away);
  return judge(away);
}

// After find_present: what fits, and how long the step takes.
Timed SwapTiming::judge(const std::vector<Away>& away) {
  Timed timed;
  for (int run = 0; run < runs_; ++run) {
    const int64_t over = present_[static_cast<size_t>(run)] - budget_;
    if (over <= timed.overflow_bytes) continue;
    timed.overflow_bytes = over;
    timed.overflow_run = run;
  }
  timed.crowded_bytes = crowded_bytes(away);
  timed.overflow_bytes = std::max(timed.overflow_bytes, timed.crowded_bytes);
  timed.fits = timed.overflow_bytes == 0;
  timed.seconds = play(away);
  timed.waits = timed.seconds > no_waiting_;
  timed.seconds += copying(away);
  timed.moved_bytes = moved_bytes(away);
  timed.away = away;
  return timed;
}

void SwapTiming::list_moves(const std::vector<char>& chosen, std::vector<Away>& away) const {
  for (const Movable& movable : view_.movables) {
    int stored = movable.resident.valid() ? 0 : -1;  // version that the slow tier holds
    for (int g : movable.gaps) {
      if (!chosen[static_cast<size_t>(g)]) continue;
      const Gap& gap = view_.gaps[static_cast<size_t>(g)];
      away.push_back({g, gap.version != stored, gap.after < runs_, 0, 0});
      stored = gap.version;
    }
  }
  std::sort(away.begin(), away.end(), [&](const Away& x, const Away& y) {
    const Gap& a = view_.gaps[static_cast<size_t>(x.gap)];
    const Gap& b = view_.gaps[static_cast<size_t>(y.gap)];
    return std::pair(a.before, x.gap) < std::pair(b.before, y.gap);
  });
}

// Stores as early, loads as late as possible, each direction of a link one after another.
void SwapTiming::place(std::vector<Away>& away) {
  units_ += static_cast<int64_t>(away.size());
  out_free_.assign(view_.links.size(), 0);
  for (Away& a : away) {
    const Gap& gap = view_.gaps[static_cast<size_t>(a.gap)];
    a.leaves = gap.before + 1;
    if (!a.store) continue;
    const double ready = gap.before < 0 ? 0 : finish_[static_cast<size_t>(gap.before)];
    const Movable& movable = movable_of(a);
    double& out_free = out_free_[movable.tier];
    out_free = std::max(out_free, ready) + movable.out_seconds;
    const auto from = start_.begin() + a.leaves;
    a.leaves = static_cast<int>(std::lower_bound(from, start_.begin() + gap.after, out_free) -
                                start_.begin());
  }
  std::vector<size_t> by_return(away.size());
  std::iota(by_return.begin(), by_return.end(), size_t{0});
  const auto after = [&](size_t i) { return view_.gaps[static_cast<size_t>(away[i].gap)].after; };
  std::stable_sort(by_return.begin(), by_return.end(),
                   [&](size_t i, size_t j) { return after(i) > after(j); });
  in_free_.assign(view_.links.size(), kInfinity);
  for (size_t i : by_return) {
    Away& a = away[i];
    a.returns = after(i);
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
  units_ += runs_;
  std::vector<int64_t> change(static_cast<size_t>(runs_) + 1, 0);
  for (const Away& a : away) {
    const Gap& gap = view_.gaps[static_cast<size_t>(a.gap)];
    const int64_t bytes = view_.movables[static_cast<size_t>(gap.movable)].bytes;
    change[static_cast<size_t>(a.leaves)] -= bytes;
    change[static_cast<size_t>(a.returns)] += bytes;
  }
  present_ = view_.base_bytes;
  int64_t moved = 0;
  for (size_t run = 0; run < present_.size(); ++run) present_[run] += moved += change[run];
}

// By how much the last tier holds more than it has room for. What others have no room for goes on
// to the next.
int64_t SwapTiming::crowded_bytes(const std::vector<Away>& away) {
  const size_t last = view_.links.size() - 1;
  const int64_t room = view_.links[last].bytes;
  if (room == plan::Link::kUnlimited) return 0;
  units_ += runs_;
  kept_.assign(view_.movables.size(), {runs_ + 1, 0});
  for (const Away& a : away) {
    const Gap& gap = view_.gaps[static_cast<size_t>(a.gap)];
    auto& [begin, end] = kept_[static_cast<size_t>(gap.movable)];
    begin = std::min(begin, gap.before + 1), end = std::max(end, gap.over + 1);
  }
  std::vector<int64_t> change(static_cast<size_t>(runs_) + 2, 0);
  for (size_t m = 0; m < kept_.size(); ++m) {
    const Movable& movable = view_.movables[m];
    if (movable.tier != last || kept_[m].second == 0) continue;
    if (movable.resident.valid()) kept_[m] = {0, runs_ + 1};
    change[static_cast<size_t>(kept_[m].first)] += movable.bytes;
    change[static_cast<size_t>(kept_[m].second)] -= movable.bytes;
  }
  int64_t held = 0, most = 0;
  for (int64_t by : change) most = std::max(most, held += by);
  return std::max<int64_t>(0, most - room);
}

void SwapTiming::tighten(std::vector<Away>& away) {
  for (int run = 0; run < runs_; ++run)
    while (present_[static_cast<size_t>(run)] > budget_ && tighten_at(run, away)) {
    }
}

// Makes one buffer leave before this run or come back after it although somebody then waits: the
// one with the least waiting per byte.
bool SwapTiming::tighten_at(int run, std::vector<Away>& away) {
  units_ += static_cast<int64_t>(away.size());
  Away* best = nullptr;
  double best_wait = kInfinity;
  for (Away& a : away) {
    const Gap& gap = view_.gaps[static_cast<size_t>(a.gap)];
    if (run <= gap.before || run >= gap.after || (a.leaves <= run && run < a.returns)) continue;
    const auto from = static_cast<size_t>(run < a.leaves ? run : a.returns);
    const auto to = static_cast<size_t>(run < a.leaves ? a.leaves : run + 1);
    const double wait = (start_[to] - start_[from]) /
                        static_cast<double>(view_.movables[static_cast<size_t>(gap.movable)].bytes);
    if (wait < best_wait) best_wait = wait, best = &a;
  }
  if (best == nullptr) return false;
  const int64_t bytes =
      view_.movables[static_cast<size_t>(view_.gaps[static_cast<size_t>(best->gap)].movable)].bytes;
  const auto take = [&](int from, int to) {
    for (int r = from; r < to; ++r) present_[static_cast<size_t>(r)] -= bytes;
  };
  if (best->leaves == best->returns) {
    best->leaves = run, best->returns = run + 1;
    take(run, run + 1);
  } else if (run < best->leaves) {
    take(run, best->leaves);
    best->leaves = run;
  } else {
    take(best->returns, run + 1);
    best->returns = run + 1;
  }
  return true;
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
  units_ += runs_ + 4 * static_cast<int64_t>(away.size());
  enum Event : size_t { kStore, kDrop, kLoad, kArrive, kEvents };
  const auto slots = static_cast<size_t>(runs_) + 1;
  at_.resize(slots * kEvents);
  for (auto& list : at_) list.clear();
  for (size_t i = 0; i < away.size(); ++i) {
    const Gap& gap = view_.gaps[static_cast<size_t>(away[i].gap)];
    const auto put = [&](Event event, int slot) {
      at_[static_cast<size_t>(slot) * kEvents + event].push_back(static_cast<int>(i));
    };
    if (away[i].store) put(kStore, gap.before + 1), put(kDrop, away[i].leaves);
    if (away[i].load) put(kLoad, away[i].returns), put(kArrive, gap.after);
  }
  std::vector<double> stored(away.size(), 0), arrives(away.size(), 0);
  out_free_.assign(view_.links.size(), 0);
  in_free_.assign(view_.links.size(), 0);
  const auto begin = [](double& free, double now, double seconds) {
    return free = std::max(now, free) + seconds;
  };
  double now = 0;
  for (size_t slot = 0; slot < slots; ++slot) {
    const auto* lists = &at_[slot * kEvents];
    for (int i : lists[kStore]) {
      const Movable& m = movable_of(away[static_cast<size_t>(i)]);
      stored[static_cast<size_t>(i)] = begin(out_free_[m.tier], now, m.out_seconds);
    }
    for (int i : lists[kDrop]) now = std::max(now, stored[static_cast<size_t>(i)]);
    for (int i : lists[kLoad]) {
      const Movable& m = movable_of(away[static_cast<size_t>(i)]);
      arrives[static_cast<size_t>(i)] = begin(in_free_[m.tier], now, m.in_seconds);
    }
    for (int i : lists[kArrive]) now = std::max(now, arrives[static_cast<size_t>(i)]);
    start_[slot] = now;
    if (slot + 1 == slots) break;
    now += view_.seconds[slot];
    finish_[slot] = now;
  }
  for (const auto* free : {&out_free_, &in_free_})
    for (double end : *free) now = std::max(now, end);
  return now;
}

std::vector<SchedAction> write_sequence(const GapView& view, const std::vector<Away>& away) {
  using Kind = SchedAction::Kind;
  const size_t slots = view.runs.size() + 1;
  std::vector<std::vector<SchedAction>> stores(slots), drops(slots), loads(slots);
  for (const Away& a : away) {
    const Gap& gap = view.gaps[static_cast<size_t>(a.gap)];
    const Movable& m = view.movables[static_cast<size_t>(gap.movable)];
    const auto action = [&](Kind kind) {
      return SchedAction{kind, {}, m.value, m.resident, m.tier};
    };
    if (a.store) stores[static_cast<size_t>(gap.before) + 1].push_back(action(Kind::kStore));
    if (gap.before >= 0) drops[static_cast<size_t>(a.leaves)].push_back(action(Kind::kDrop));
    if (a.load) loads[static_cast<size_t>(a.returns)].push_back(action(Kind::kLoad));
  }
  std::vector<SchedAction> sequence;
  for (size_t slot = 0; slot < slots; ++slot) {
    for (const auto* list : {&stores[slot], &drops[slot], &loads[slot]})
      sequence.insert(sequence.end(), list->begin(), list->end());
    if (slot < view.runs.size()) sequence.push_back(SchedAction::run(view.runs[slot]));
  }
  return sequence;
}

}  // namespace lowtide::remat
