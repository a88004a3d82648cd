// List scheduling of transfers: what follows from a set of idle spans. Stores as soon as possible,
// loads as late as possible, each direction of a link one after another; so it is known when each
// transfer begins and ends, what is present when, and how long the step takes. The model is that of
// plan/sequence_simulator.h, in terms of runs: "moment" p is just before run p, where stores, drops
// and loads happen in this order.
//
// Tests: swap_test.cc.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/transfers/idle_spans.h"

namespace lowtide::remat {

// How one chosen idle span is used.
struct Away {
  int span = 0;
  bool store = false;  // a copy out is needed first; else the slow tier has the contents already
  bool load = true;    // false: it is not needed again
  int leaves = 0;      // moment of the drop
  int returns = 0;     // moment of the load; away during the runs leaves <= p < returns
};

struct Timed {
  bool fits = false;
  int64_t overflow_bytes = 0;  // largest, over all runs and in the last tier; 0 when it fits
  int64_t crowded_bytes = 0;   // that the last tier has no room for
  int overflow_run = -1;       // where
  double seconds = 0;          // of the step, when it fits
  bool waits = false;          // compute does, for a transfer
  int64_t moved_bytes = 0;     // out and in
  std::vector<Away> away;      // by idle span
};

class SwapTiming {
 public:
  // Borrows `view`.
  SwapTiming(const IdleSpanView& view, int64_t budget_bytes);

  // `chosen[g]`: the buffer of idle span g is away during it.
  Timed time(const std::vector<char>& chosen);

  // Bytes present during each run if buffers are away only as far as nobody waits.
  const std::vector<int64_t>& present_without_waiting(const std::vector<char>& chosen);

  // The same for `chosen`, a subset of the idle spans of `placed`, with leaves and returns as they
  // are there.
  Timed as_placed(const std::vector<char>& chosen, const std::vector<Away>& placed);
  Timed as_placed(const std::vector<Away>& placed);  // all of them

  // By how much a tier holds more than it has room for.
  int64_t crowded_bytes(const std::vector<Away>& away, size_t tier);
  // The work done so far, in units (base/limits.h).
  int64_t units() const { return units_; }

 private:
  // Indices into the moves by moment, each list in the order opposite to that of put().
  class MomentLists {
   public:
    void begin(size_t moments, size_t moves) {
      first_.assign(moments, -1);
      after_.resize(moves);
    }
    void put(int moment, size_t move) {
      after_[move] = std::exchange(first_[static_cast<size_t>(moment)], static_cast<int>(move));
    }
    int first(size_t moment) const { return first_[moment]; }
    int after(int move) const { return after_[static_cast<size_t>(move)]; }

   private:
    std::vector<int> first_, after_;
  };

  void begin(const std::vector<char>& chosen);
  Timed judge(const std::vector<Away>& away);
  void list_moves(const std::vector<char>& chosen);
  void place(std::vector<Away>& away);
  void tighten(std::vector<Away>& away);
  void tighten_at(int run, std::vector<Away>& away);
  void find_present(const std::vector<Away>& away);
  const Movable& movable_of(const Away& a) const;
  double copying(const std::vector<Away>& away) const;
  int64_t moved_bytes(const std::vector<Away>& away) const;
  double play(const std::vector<Away>& away);

  const IdleSpanView& view_;
  const int64_t budget_;
  const int runs_;
  std::vector<double> start_, finish_;  // of each run; start_[runs_]: the end of compute
  std::vector<int64_t> present_;
  std::vector<double> out_free_, in_free_;  // scratch: by tier
  std::vector<std::pair<int, int>> kept_;   // scratch: by movable, moments [begin, end)
  double no_waiting_ = 0;                   // seconds of all runs
  std::vector<double> ideal_start_;         // of each run, when nobody waits
  std::vector<int> by_before_, by_after_;   // spans as they begin; from the end as they end
  std::vector<int> holds_;  // by movable: the version that the slow tier holds at the start
  // Scratch: the moves, by idle span their position there, by movable the version that is stored.
  std::vector<Away> away_;
  std::vector<int> position_, stored_;
  std::vector<int64_t> change_;
  std::vector<size_t> under_way_;                 // of tighten: moves whose span has the run in it
  std::vector<std::pair<double, size_t>> waits_;  // of tighten_at: a heap
  MomentLists drops_, loads_, arrivals_;          // of play
  std::vector<double> stored_at_, arrives_at_;
  int64_t units_ = 0;
};

// The schedule as a sequence of actions.
std::vector<plan::SchedAction> write_sequence(const IdleSpanView& view,
                                              const std::vector<Away>& away);

}  // namespace lowtide::remat
