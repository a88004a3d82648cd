// A search in a bad order can take a thousand times as long as in a good one, and which is which is
// not known before (heavy tails); so each gets a small slice, then twice as much, and so on. A
// search keeps its place between slices.
//
// Determinism: a round gives every order the same slice, and the winner is the first in the list,
// not in time, that decides. An order is stopped early only if one before it in the list has
// decided. Work is counted as if the orders had run one after another.
#include "pack/portfolio.h"

#include <algorithm>
#include <deque>
#include <thread>

#include "pack/stop_signal.h"

namespace lowtide::pack {
namespace {

constexpr int64_t kMinSlice = 64;

// One round: verdicts of all orders, each run for `slice` units.
std::vector<Verdict> run_round(std::vector<DecisionSearch>& searches, int64_t slice, int threads,
                               const StopSignal& stop) {
  std::vector<Verdict> verdicts(searches.size(), Verdict::kOpen);
  for (size_t first = 0; first < searches.size(); first += static_cast<size_t>(threads)) {
    const size_t last = std::min(searches.size(), first + static_cast<size_t>(threads));
    if (last - first == 1) {
      verdicts[first] = searches[first].run(slice, &stop);
    } else {
      std::deque<StopSignal> signals;
      for (size_t k = first; k < last; ++k) signals.emplace_back(stop);
      std::vector<std::jthread> workers;
      for (size_t k = first; k < last; ++k)
        workers.emplace_back([&, k] {
          verdicts[k] = searches[k].run(slice, &signals[k - first]);
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
    : first_slice_(std::max<int64_t>(kMinSlice, static_cast<int64_t>(part.items.size()))),
      threads_(std::max(options.threads, 1)) {
  for (const std::string& order : options.static_orders)
    searches_.emplace_back(part, options, order);
}

Decision Portfolio::decide(int64_t capacity, int64_t budget, const StopSignal& stop) {
  Decision decision;
  const int64_t orders = static_cast<int64_t>(searches_.size());
  if (orders == 0) return decision;
  for (DecisionSearch& search : searches_) search.reset(capacity);
  for (int64_t slice = first_slice_; decision.units < budget && !stop.set(); slice *= 2) {
    const int64_t share = std::min(slice, (budget - decision.units) / orders + 1);
    const std::vector<Verdict> verdicts = run_round(searches_, share, threads_, stop);
    for (size_t k = 0; k < verdicts.size(); ++k) {
      decision.verdict = verdicts[k];
      if (verdicts[k] == Verdict::kOpen) {
        decision.units += share;
        continue;
      }
      decision.units += searches_[k].units();
      if (verdicts[k] == Verdict::kFits) decision.offsets = searches_[k].offsets();
      return decision;
    }
  }
  return decision;
}

}  // namespace lowtide::pack
