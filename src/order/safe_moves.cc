#include "order/safe_moves.h"

#include <algorithm>

namespace lowtide::order {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct ExcursionTuning {
  int depth = 3;       // excursions within excursions
  size_t length = 64;  // runs in one excursion, at most
};
constexpr ExcursionTuning kExcursions;

// Running `op` makes something ready at once.
bool unlocks(const Prefix& prefix, OpId op) {
  for (OpId next : prefix.graph().succs[op])
    if (prefix.missing(next) == 1) return true;
  return false;
}

// Ready successors of the ops that ran after the first `start`, ascending: exactly the ready
// descendants of those ops.
std::vector<OpId> ready_since(const Prefix& prefix, size_t start) {
  std::vector<OpId> ready;
  for (OpId op : prefix.sequence().subspan(start))
    for (OpId next : prefix.graph().succs[op])
      if (prefix.is_ready(next)) ready.push_back(next);
  std::sort(ready.begin(), ready.end());
  ready.erase(std::unique(ready.begin(), ready.end()), ready.end());
  return ready;
}

}  // namespace

void SafeMoves::close(Prefix& prefix) {
  do {
    while (options_.single && run_singles(prefix)) {
    }
  } while (options_.excursions && run_one_excursion(prefix));
}

bool SafeMoves::fits(const Prefix& prefix, OpId op) {
  const int64_t peak = prefix.peak(op);
  if (peak <= budget_bytes_) return true;
  least_rejected_ = std::min(least_rejected_, peak);
  return false;
}

void SafeMoves::run(Prefix& prefix, OpId op) {
  work_.spend();
  prefix.run(op);
}

// Looking at a ready op costs about an eighth of running one; with thousands ready that is most of
// the time.
void SafeMoves::charge_scan(const Prefix& prefix) {
  work_.spend(static_cast<int64_t>(prefix.ready().size() / 8));
}

bool SafeMoves::run_singles(Prefix& prefix) {
  bool any = false;
  charge_scan(prefix);
  for (size_t i = 0; i < prefix.ready().size() && !work_.exhausted();) {
    const OpId op = prefix.ready()[i];
    if (prefix.growth(op) <= 0 && fits(prefix, op)) {
      run(prefix, op);  // another op takes its place in the list
      any = true;
    } else {
      ++i;
    }
  }
  return any;
}

bool SafeMoves::run_one_excursion(Prefix& prefix) {
  std::vector<OpId> ready(prefix.ready().begin(), prefix.ready().end());
  std::sort(ready.begin(), ready.end());
  charge_scan(prefix);
  for (OpId op : ready) {
    if (work_.exhausted()) return false;
    if (unlocks(prefix, op) && fits(prefix, op) && excursion(prefix, op, kExcursions.depth))
      return true;
  }
  return false;
}

// NOLINTNEXTLINE(misc-no-recursion): at most kExcursions.depth deep
bool SafeMoves::excursion(Prefix& prefix, OpId first, int depth) {
  const int64_t before = prefix.live_bytes();
  const size_t start = prefix.sequence().size();
  run(prefix, first);
  while (prefix.live_bytes() > before) {
    const bool spent = work_.exhausted() || prefix.sequence().size() - start >= kExcursions.length;
    if (!spent && extend(prefix, start, depth)) continue;
    prefix.undo_to(start);
    return false;
  }
  return true;
}

// One more safe move among the descendants of the excursion's first op.
// NOLINTNEXTLINE(misc-no-recursion): at most kExcursions.depth deep
bool SafeMoves::extend(Prefix& prefix, size_t start, int depth) {
  const std::vector<OpId> ready = ready_since(prefix, start);
  for (OpId op : ready) {
    if (prefix.growth(op) > 0 || !fits(prefix, op)) continue;
    run(prefix, op);
    return true;
  }
  if (depth <= 1) return false;
  for (OpId op : ready)
    if (unlocks(prefix, op) && fits(prefix, op) && excursion(prefix, op, depth - 1)) return true;
  return false;
}

}  // namespace lowtide::order
