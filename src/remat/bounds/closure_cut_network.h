// One minimum cut: what must be in memory, run again or be fetched once op t has run. It is the
// maximum closure problem (Picard 1976), also called project selection: choosing to keep or to run
// something forces what it needs in turn.
//
// When t runs for the first time, every ancestor of t (by data and control) has run and no
// descendant has. Whatever the order and the strategy, for each value that a descendant reads, or
// that is an output of the step, one of three holds then: it is present; it is loaded later; or its
// producer runs later, which an ancestor of t does once more than it had to, and which needs that
// run's inputs in turn. With a price for each byte that stays present the cheapest such choice is a
// minimum cut:
//
//     source --unlimited--> value            needed by a descendant, or an output
//     value --bytes * charge--> producer     staying present, or moving, is paid here
//     producer --cost--> sink                an ancestor runs again; free for an op that is no
//                                            ancestor, impossible for one that may not run again
//     producer --unlimited--> its inputs and the ops that must come after all its runs
//
// What t reads is present anyway, so it stays for free; only an input whose buffer t would take
// over in place is charged. An op may not run again after t if it may not run twice, or if a
// control edge orders all its runs before an ancestor of t.
//
// All arithmetic on prices is in integers (ticks, and prices in 2^-20 ticks per byte), rounded so
// that the bound can only become weaker.
//
// Tests: closure_cut_test.cc, floor_test.cc.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/max_flow.h"
#include "remat/bounds/step_graph.h"

namespace lowtide::remat {

// How bytes and time are weighed. The time of a step is at least
//     before * (time of ops before t) + (1 - before) * (stores that ended before t) + t
//       + after * (time of ops after t, with reruns) + (1 - after) * (loads after t),
// for all shares of 2^-20 up to one; without a link both shares are one.
struct CutPrices {
  int64_t per_byte = 0;  // 2^-20 ticks, for a byte that stays present
  int64_t before = kOne;
  int64_t after = kOne;
  bool operator==(const CutPrices&) const = default;
};

// A choice, and what it costs: a linear function of the prices.
struct CutChoice {
  std::vector<SchedOpId> reruns;     // ancestors that run again, ascending
  std::vector<SchedOpId> postponed;  // no ancestors: ops that run after t, ascending
  std::vector<SchedValueId> stored;  // charged and present, ascending
  std::vector<SchedValueId> moved;
  int64_t rerun_ticks = 0;
  int64_t stored_bytes = 0;  // residents that may move included
  int64_t store_bytes = 0;   // over the link before t
  int64_t load_bytes = 0;    // over the link after t
};

class ClosureNetwork {
 public:
  // Borrows `graph`.
  ClosureNetwork(const StepGraph& graph, SchedOpId op);

  SchedOpId op() const { return op_; }
  // Bytes present while the op runs, less the most it can reuse in place, with every resident that
  // the op does not need and a link may move left out.
  int64_t fixed_bytes() const { return fixed_bytes_; }
  // What a value that stays past the op adds to that.
  int64_t charged_bytes(SchedValueId value) const;
  // Bytes that stay if everything does (the choice without reruns and moves).
  int64_t needed_bytes() const { return needed_bytes_; }

  // The least cost at these prices, in ticks and without the capacity's price, and the choice that
  // has it (of several the one with the fewest reruns).
  int64_t solve(const CutPrices& prices, CutChoice& choice);
  // The least bytes that must stay, whatever may run again; without a link.
  int64_t least_bytes(CutChoice& choice);
  // The choice that follows from a set of ops that may run again (`may[op]`, by index): what else
  // is needed stays. Without its lists, if only its line is asked for.
  CutChoice follow(const std::vector<char>& may, bool with_lists = true) const;

  // The extra time, in ticks, that the choice's linear function has at the prices; and the bound
  // that a least cost `cut_ticks` proves.
  double line(const CutChoice& choice, const CutPrices& prices, int64_t capacity) const;
  int64_t bound(int64_t cut_ticks, const CutPrices& prices, int64_t capacity) const;
  // Arcs looked at so far.
  int64_t work() const { return work_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Charge {  // what keeping or moving a value is worth
    SchedValueId value;
    int64_t bytes = 0;
    int64_t moved_parts = 1;    // as of the value
    uint32_t node = kNone;      // of the value; kNone: needed, so on the source's side
    uint32_t producer = kNone;  // node; kNone: may not run again, so the value stays or moves
  };
  struct ResidentCharge {
    int64_t bytes = 0;
    int64_t moved_parts = 1;
    bool store = false;  // changed before t: its store ended before t if it is absent
  };

  void find_fixed_bytes();
  void find_residents();
  int64_t most_reused(SchedValueId without) const;
  bool locked(SchedOpId op) const;
  void expand();
  uint32_t node_of(SchedOpId op);
  void reach(SchedValueId value, bool needed);
  int64_t charge(int64_t bytes, int64_t moved_parts, bool store, const CutPrices& prices) const;
  CutChoice read_choice(const std::vector<char>& runs, const CutPrices& prices,
                        bool with_lists = true) const;
  int64_t shares_constant(const CutPrices& prices) const;

  const StepGraph& graph_;
  const SchedOpId op_;
  IdVector<SchedOpId, Side> side_;
  int64_t fixed_bytes_ = 0, needed_bytes_ = 0;
  IdVector<SchedValueId, char> is_input_;
  IdVector<SchedValueId, uint32_t> charge_of_;  // index into charges_
  IdVector<SchedOpId, uint32_t> node_of_;
  std::vector<SchedOpId> node_op_;  // op nodes, in order of discovery; nodes 2, 3, ...
  std::vector<Charge> charges_;
  std::vector<ResidentCharge> residents_;
  std::vector<std::pair<uint32_t, uint32_t>> needs_value_;  // op node, charge
  std::vector<std::pair<uint32_t, uint32_t>> needs_op_;     // op node, op node
  int64_t before_ticks_ = 0, after_ticks_ = 0, other_ticks_ = 0;
  MaxFlow flow_{0};  // its memory serves all cuts
  int64_t work_ = 0;
};

}  // namespace lowtide::remat
