// Recompute and swap together under one budget, by a line search of our own between the two.
//
// Two searches are joined by one number, the *inner budget*: the retention search (remat.h) brings
// the runs below it by recomputing, then transfers (swap.h) bring what remains below the real one.
// An inner budget equal to the real one is recompute alone; one at the unlimited peak is swap
// alone. Between them the time spent on reruns falls and the time spent on waiting rises with the
// inner budget, so the best is found by narrowing down around the best try, each starting from its
// neighbours' runs. Everything is scored by the one simulator.
//
// Rounds of this, each with several times the work of the one before and its best to start from,
// are the same whatever the limit of work is: more work never gives a worse answer.
//
// Rounds divide their work among many inner budgets, so where the answer is well above its bound,
// recompute alone and swap alone are searched too, each with all of the work. So no lever makes the
// answer worse than it is without that lever. Where it is far above, inner budgets near the real
// one are tried as well (few_tries.h): nothing says that the best of them is found by halving
// intervals where neither end fits or one takes many times as long.
//
// Published rules are tried as well (by_rule.h): one that takes milliseconds before the rounds, one
// that takes longer where the answer is loose. And transfers are added to the order that came in,
// as what brings down the peak may leave a link less time. The rounds are what they are without; so
// no answer is slower than that of a rule that was asked and had enough work. Without recompute
// only the first is asked.
#pragma once

#include "plan/schedule_problem.h"
#include "remat/remat.h"
#include "remat/transfers/swap.h"

namespace lowtide::remat {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct JointTuning {
  int tries = 7;                             // inner budgets in a round
  int64_t first_units_per_op = 2'000;        // of the first round
  int64_t growth = 4;                        // of a round's length, from round to round
  int64_t longest_round = int64_t{1} << 40;  // units
  double share_of_transfers = 0.1;           // of a round's work: transfers alone,
  double share_of_recompute = 0.3;           // recompute alone; other tries share the rest
  double share_of_tidying = 0.1;             // beside these, each time
  int64_t least_tidy_units = 1'000'000;      // less than that tidies little
  double hopeless = 1.5;                     // seconds of transfers alone, of the best
  double share_of_runs = 0.75;               // of a try: the retention search; then transfers
  // Where the answer is so far above its bound, each lever is asked alone, with all of the work.
  double loose = 0.01;
  double far = 0.1;           // likewise: a few tries near the budget, too
  int64_t share_of_last = 4;  // of the work: the part of it for both from recompute alone
  // For the rule before the rounds, so that these are the same whatever the limit of work is.
  int64_t rule_units_per_op = 20'000, most_rule_units = 100'000'000;
};
inline constexpr JointTuning kJoint;

struct JointOptions {
  RematOptions remat;     // its limits: of all tries together, then of each lever alone
  SwapOptions swap;       // of each try
  bool recompute = true;  // ops may run again
  bool transfers = true;  // buffers may move, if the problem has a link
  // Where the answer is loose, each lever alone, too; off: the caller knows what they come to.
  bool each_alone = true;
  bool rules = true;  // start from schedules by published rules and from the order that came in
  int tries = kJoint.tries;
};

// With transfers off, or without a link, this is remat::solve, and its bound speaks of schedules
// without transfers. Otherwise the bound is proven for all schedules. `problem` must pass
// plan::check.
RematOutcome solve_joint(const plan::ScheduleProblem& problem, const JointOptions& options);

}  // namespace lowtide::remat
