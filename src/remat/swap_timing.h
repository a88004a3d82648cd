// What follows from a set of gaps: when each transfer begins and ends, what is present when, and
// how long the step takes. The model is that of plan/sequence_simulator.h, in terms of runs: "slot"
// p is the moment just before run p, where stores, drops and loads happen in this order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/swap_gaps.h"

namespace lowtide::remat {

// How one chosen gap is used.
struct Away {
  int gap = 0;
  bool store = false;  // a copy out is needed first; else the slow tier has the contents already
  bool load = true;    // false: it is not needed again
  int leaves = 0;      // slot of the drop
  int returns = 0;     // slot of the load; away during the runs leaves <= p < returns
};

struct Timed {
  bool fits = false;
  int64_t overflow_bytes = 0;  // largest, over all runs and in the last tier; 0 when it fits
  int64_t crowded_bytes = 0;   // that the last tier has no room for
  int overflow_run = -1;       // where
  double seconds = 0;          // of the step, when it fits
  bool waits = false;          // compute does, for a transfer
  int64_t moved_bytes = 0;     // out and in
  std::vector<Away> away;      // by gap
};

class SwapTiming {
 public:
  // Borrows `view`.
  SwapTiming(const GapView& view, int64_t budget_bytes);

  // `chosen[g]`: the buffer of gap g is away during it. `may_wait` false: only as far as nobody
  // waits, so that it may not fit though it could.
  Timed time(const std::vector<char>& chosen, bool may_wait);

  // The same for `chosen`, a subset of the gaps of `placed`, with leaves and returns as they are
  // there.
  Timed as_placed(const std::vector<char>& chosen, const std::vector<Away>& placed);

  // Bytes present during each run, after time().
  const std::vector<int64_t>& present() const { return present_; }
  // Runs and transfers looked at so far: the work done.
  int64_t units() const { return units_; }

 private:
  Timed judge(const std::vector<Away>& away);
  void list_moves(const std::vector<char>& chosen, std::vector<Away>& away) const;
  void place(std::vector<Away>& away);
  void tighten(std::vector<Away>& away);
  bool tighten_at(int run, std::vector<Away>& away);
  void find_present(const std::vector<Away>& away);
  const Movable& movable_of(const Away& a) const;
  int64_t crowded_bytes(const std::vector<Away>& away);
  double copying(const std::vector<Away>& away) const;
  int64_t moved_bytes(const std::vector<Away>& away) const;
  double play(const std::vector<Away>& away);

  const GapView& view_;
  const int64_t budget_;
  const int runs_;
  std::vector<double> start_, finish_;  // of each run; start_[runs_]: the end of compute
  std::vector<int64_t> present_;
  std::vector<double> out_free_, in_free_;  // scratch: by tier
  std::vector<std::pair<int, int>> kept_;   // scratch: by movable, slots of time [begin, end)
  double no_waiting_ = 0;                   // seconds of all runs
  std::vector<std::vector<int>> at_;        // scratch of play: indices into away, by slot
  int64_t units_ = 0;
};

// The schedule as a sequence of actions.
std::vector<plan::SchedAction> write_sequence(const GapView& view, const std::vector<Away>& away);

}  // namespace lowtide::remat
