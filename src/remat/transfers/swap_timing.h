// List scheduling of transfers: what follows from a set of idle spans. Stores as soon as possible,
// loads as late as possible, each direction of a link one after another; so it is known when each
// transfer begins and ends, what is present when, and how long the step takes. The model is that of
// plan/sequence_simulator.h, in terms of runs and moments; at a moment stores, drops and loads
// happen in this order.
//
// Tests: swap_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/schedule_problem.h"
#include "remat/transfers/idle_spans.h"

namespace lowtide::remat {

// How one chosen idle span is used: away during the runs from `leaves` to `returns`.
struct Away {
  IdleSpanId span;
  bool store = false;  // a copy out is needed first; else the slow tier has the contents already
  bool load = true;    // false: it is not needed again
  Moment leaves{0};    // of the drop
  Moment returns{0};   // of the load
};

struct MoveTag;
using MoveId = Id<MoveTag>;
using Moves = IdVector<MoveId, Away>;  // in the order in which their idle spans begin

using ChosenSpans = IdVector<IdleSpanId, char>;  // 1: the buffer is away during it

struct Timed {
  bool fits = false;
  int64_t overflow_bytes = 0;  // largest, over all runs and in the last tier; 0 when it fits
  int64_t crowded_bytes = 0;   // that the last tier has no room for
  double seconds = 0;          // of the step, when it fits
  bool waits = false;          // compute does, for a transfer
  int64_t moved_bytes = 0;     // out and in
  Moves away;
};

class SwapTiming {
 public:
  // Borrows `view`.
  SwapTiming(const IdleSpanView& view, int64_t budget_bytes);

  Timed time(const ChosenSpans& chosen);

  // Bytes present during each run if buffers are away only as far as nobody waits.
  const IdVector<RunId, int64_t>& present_without_waiting(const ChosenSpans& chosen);

  // The same for `chosen`, a subset of the idle spans of `placed`, with leaves and returns as they
  // are there.
  Timed as_placed(const ChosenSpans& chosen, const Moves& placed);
  Timed as_placed(const Moves& placed);  // all of them

  // By how much a tier holds more than it has room for.
  int64_t crowded_bytes(const Moves& away, size_t tier);
  // The work done so far, in units (base/limits.h).
  int64_t units() const { return units_; }

 private:
  // Moves by moment, each list in the order opposite to that of put().
  class MomentLists {
   public:
    explicit MomentLists(size_t moments) : first_(moments) {}
    void begin(size_t moves) {
      std::fill(first_.begin(), first_.end(), MoveId::none());
      after_.resize(moves);
    }
    void put(Moment moment, MoveId move) { after_[move] = std::exchange(first_[moment], move); }
    MoveId first(Moment moment) const { return first_[moment]; }
    MoveId after(MoveId move) const { return after_[move]; }

   private:
    IdVector<Moment, MoveId> first_;
    IdVector<MoveId, MoveId> after_;
  };

  void begin(const ChosenSpans& chosen);
  Timed judge(const Moves& away);
  void list_moves(const ChosenSpans& chosen);
  void place(Moves& away);
  void tighten(Moves& away);
  void tighten_at(RunId run, Moves& away);
  void find_present(const Moves& away);
  const Movable& movable_of(const Away& a) const { return view_.movable_of(a.span); }
  double copying(const Moves& away) const;
  int64_t moved_bytes(const Moves& away) const;
  double play(const Moves& away);

  const IdleSpanView& view_;
  const int64_t budget_;
  const int runs_;
  IdVector<Moment, double> start_;  // of the run after it; of the last moment: compute is done
  IdVector<RunId, double> finish_;
  IdVector<RunId, int64_t> present_;
  std::vector<double> out_free_, in_free_;  // scratch: by tier
  // Scratch: a slow tier keeps it from the first of the moments to before the second.
  std::vector<std::pair<Moment, Moment>> kept_;          // by movable
  double no_waiting_ = 0;                                // seconds of all runs
  IdVector<Moment, double> ideal_start_;                 // when nobody waits
  std::vector<IdleSpanId> as_they_begin_, as_they_end_;  // all spans; the latter from the end
  IdVector<MovableId, int> holds_;  // the version that the slow tier holds at the start
  // Scratch: the moves, those of each idle span, the version that is stored.
  Moves away_;
  IdVector<IdleSpanId, MoveId> move_of_;
  IdVector<MovableId, int> stored_;
  IdVector<Moment, int64_t> change_;
  std::vector<MoveId> under_way_;                 // of tighten: moves whose span has the run in it
  std::vector<std::pair<double, MoveId>> waits_;  // of tighten_at: a heap
  MomentLists drops_, loads_, arrivals_;          // of play
  IdVector<MoveId, double> stored_at_, arrives_at_;
  int64_t units_ = 0;
};

// The schedule as a sequence of actions.
std::vector<plan::SchedAction> write_sequence(const IdleSpanView& view, const Moves& away);

// And back: the moves of a schedule with the runs of `view`, stores as soon as they can be. None:
// it has other runs, or moves what is no idle span of the first tier, such as residents.
std::optional<Moves> read_moves(const IdleSpanView& view,
                                std::span<const plan::SchedAction> sequence);

}  // namespace lowtide::remat
