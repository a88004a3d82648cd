// A search in a bad order can take a thousand times as long as in a good one, and which is which is
// not known before (heavy tails); so each gets a small slice, then twice as much, and so on. A
// search keeps its place between slices.
//
// Most orders that lead to a packing lead there almost at once, so many orders that are searched
// for a moment find more than few that are searched for long: half of the work goes to those. They
// are drawn near the static orders and near the one that won last: each item's rank is moved by a
// random amount, at most a part of the number of items. (Randomised restarts: Gomes, Selman and
// Kautz 1998.)
//
// What these do not decide at once is left to the tightest-first search in the main, in several
// orders, too. It solves nearly all that is hard, but a placement costs it more, so that what is
// easy and large would take longer.
//
// Determinism: a round gives every order the same slice, and the winner is the first in the list,
// not in time, that decides. An order is stopped early only if one before it in the list has
// decided. Work is counted as if the orders had run one after another.
#include "pack/portfolio.h"

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <string_view>
#include <thread>

#include "pack/luby.h"
#include "pack/stop_signal.h"
#include "pack/tightest.h"

namespace lowtide::pack {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct PortfolioTuning {
  // Units of the first slice: for each item, and at least.
  int64_t slice_per_item = 100;
  int64_t least_slice = 6'400;
  int64_t quick_units = 6'400;  // for each item, that the decision search has for itself
  int64_t tightest_share =
      4;  // of the work after that, beside one for each other kind ("Packings")
  // Static orders of the tightest-first search, tried as those of PackOptions are.
  std::array<std::string_view, 5> tightest_orders = {"TWA", "CA", "TCA", "W", "A"};
  std::array<double, 4> spreads = {0.02, 0.05, 0.1, 0.3};  // how far ranks move, of all
};
constexpr PortfolioTuning kTuning;

// One round: verdicts of all orders, each run for `slice` units.
std::vector<Verdict> run_round(const std::vector<Decider*>& searches, int64_t slice, int threads,
                               const StopSignal& stop) {
  std::vector<Verdict> verdicts(searches.size(), Verdict::kOpen);
  for (size_t first = 0; first < searches.size(); first += static_cast<size_t>(threads)) {
    const size_t last = std::min(searches.size(), first + static_cast<size_t>(threads));
    if (last - first == 1) {
      verdicts[first] = searches[first]->run(slice, &stop);
    } else {
      std::deque<StopSignal> signals;
      for (size_t k = first; k < last; ++k) signals.emplace_back(stop);
      std::vector<std::jthread> workers;
      for (size_t k = first; k < last; ++k)
        workers.emplace_back([&, k] {
          verdicts[k] = searches[k]->run(slice, &signals[k - first]);
          if (verdicts[k] == Verdict::kOpen) return;
          for (size_t later = k + 1; later < last; ++later) signals[later - first].cancel();
        });
      workers.clear();  // joins
    }
    const bool decided = std::any_of(verdicts.begin(), verdicts.end(),
                                     [](Verdict v) { return v != Verdict::kOpen; });
    if (decided) break;
  }
  return verdicts;
}

}  // namespace

Portfolio::Portfolio(const Part& part, const PackOptions& options)
    : topology_(make_topology(part)),
      rng_(1),
      first_slice_(std::max(kTuning.least_slice,
                            kTuning.slice_per_item * static_cast<int64_t>(part.items.size()))),
      threads_(std::max(options.threads, 1)) {
  for (const std::string& letters : options.static_orders) {
    fixed_.push_back({static_order(part, letters), make_decision_search(topology_, options)});
    if (options.restarts) shuffled_.push_back({{}, make_decision_search(topology_, options)});
  }
  for (const std::string_view letters : kTuning.tightest_orders)
    if (options.tightest_first && options.sections)
      tightest_.push_back(
          {static_order(part, std::string(letters)), make_tightest_search(topology_, options)});
}

// Gives the racer a new order: that of the last winner and those of the options in turn, shuffled.
void Portfolio::shuffle(Racer& racer) {
  const uint64_t draw = shuffles_++;
  const bool near_winner = draw % 2 == 1 && !winner_.empty();
  const std::vector<int32_t>& base = near_winner ? winner_ : fixed_[draw / 2 % fixed_.size()].order;
  const double spread =
      kTuning.spreads[draw % kTuning.spreads.size()] * static_cast<double>(base.size());
  std::vector<double> keys(base.size());
  for (size_t r = 0; r < base.size(); ++r)
    keys[static_cast<size_t>(base[r])] = static_cast<double>(r) + spread * rng_.uniform();
  racer.order = base;
  std::stable_sort(racer.order.begin(), racer.order.end(), [&](int32_t a, int32_t b) {
    return keys[static_cast<size_t>(a)] < keys[static_cast<size_t>(b)];
  });
}

// One round of `racers`; true if one of them has decided.
bool Portfolio::race(std::vector<Racer>& racers, int64_t slice, const StopSignal& stop,
                     Decision& decision) {
  std::vector<Decider*> searches;
  for (Racer& racer : racers) searches.push_back(racer.search.get());
  const std::vector<Verdict> verdicts = run_round(searches, slice, threads_, stop);
  for (size_t k = 0; k < verdicts.size(); ++k) {
    decision.verdict = verdicts[k];
    const int64_t units = verdicts[k] == Verdict::kOpen ? slice : searches[k]->units();
    decision.units += units;
    units_ += units;
    if (verdicts[k] == Verdict::kOpen) continue;
    if (verdicts[k] == Verdict::kFits) {
      decision.offsets = searches[k]->offsets();
      winner_ = racers[k].order;
    }
    return true;
  }
  return false;
}

Decision Portfolio::decide(int64_t capacity, int64_t units, const StopSignal& stop) {
  Decision decision;
  if (fixed_.empty()) return decision;
  for (std::vector<Racer>* racers : {&fixed_, &tightest_})
    for (Racer& racer : *racers) racer.search->reset(capacity, racer.order);
  const auto over = [&] { return decision.units >= units || stop.set(); };
  const auto share = [&](const std::vector<Racer>& racers, int64_t most) {
    return std::min(most, (units - decision.units) / static_cast<int64_t>(racers.size()) + 1);
  };
  for (int64_t slice = first_slice_; !over(); slice *= 2) {
    if (race(fixed_, share(fixed_, slice), stop, decision)) return decision;
    const int64_t half = decision.units + static_cast<int64_t>(fixed_.size()) * slice;
    while (!shuffled_.empty() && decision.units < half && !over()) {
      for (Racer& racer : shuffled_) {
        shuffle(racer);
        racer.search->reset(capacity, racer.order);
      }
      const int64_t turn = first_slice_ * luby(++turns_);
      if (race(shuffled_, share(shuffled_, turn), stop, decision)) return decision;
    }
    const bool quick = units_ < kTuning.quick_units * static_cast<int64_t>(topology_.items.size());
    if (quick || tightest_.empty() || over()) continue;
    if (race(tightest_, share(tightest_, kTuning.tightest_share * slice), stop, decision))
      return decision;
  }
  return decision;
}

}  // namespace lowtide::pack
