// Safe moves, dominance rules of our own: runs that some best completion may start with, so that no
// alternative need be tried.
//
// Let S be the executed set and B the budget.
//
// Single. A ready op v with peak(v) <= B and growth(v) <= 0. Put v first in any completion within
// B: a later prefix P becomes P+v, and by submodularity live(P+v) + live(S) <= live(P) + live(S+v),
// so live(P+v) <= live(P). What later ops reuse in place can only rise, because more readers have
// run. So the completion stays within B.
//
// Excursion. Generally a run S -> T within B may be committed to if live(T) <= live(S+Q) for every
// closed Q inside T \ S, the empty one included: then live(P union T) <= live(P) for every later P
// by the same argument. Here T is reached by first running one op q and then only safe moves
// (single or excursion) among ops that became ready since, hence descend from q. A closed Q is then
// empty, or holds q, in which case those safe moves give live(T) <= live(S+Q). So one comparison is
// left: live(T) <= live(S). A gradient followed by its update is of this kind, and that is why
// training graphs collapse.
//
// A move here is an op with its pending late trees, a bundle (order/late.h). Then Q may also hold
// late ops M of the run without what they are for. If q is not in Q, Q holds nothing else, and
// live(S+Q) is at least live(S), for nothing outside M is freed by M. If q is in Q, its bundle is
// too, and each further move runs a bundle from there on, of which the same holds. The descendants'
// condition is needed: without it, a commit can hide a cheaper Q without q.
//
// A move that is safe but does not fit B is not made; `least_rejected` reports the lowest peak that
// was refused, so that a search that fails knows the next budget at which anything could differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/work.h"
#include "order/prefix.h"

namespace lowtide::order {

struct SafeMoveOptions {
  bool single = true;
  bool excursions = true;
};

class SafeMoves {
 public:
  static constexpr int64_t kNothingRejected = std::numeric_limits<int64_t>::max();

  // Borrows `work`; one step of it is one op run, or eight ready ops looked at.
  SafeMoves(const SafeMoveOptions& options, int64_t budget_bytes, WorkBudget& work)
      : options_(options), budget_bytes_(budget_bytes), work_(work) {}

  // Makes safe moves until none is left (or the work is spent).
  void close(Prefix& prefix);
  // Whether the ready op fits the budget; remembers the refusal if not.
  bool fits(const Prefix& prefix, OpId op);
  void set_budget(int64_t bytes) { budget_bytes_ = bytes; }
  int64_t least_rejected() const { return least_rejected_; }

 private:
  void charge_scan(const Prefix& prefix);
  bool run_singles(Prefix& prefix);
  bool run_one_excursion(Prefix& prefix);
  bool excursion(Prefix& prefix, OpId first, int depth);
  bool extend(Prefix& prefix, size_t start, int depth);
  void run(Prefix& prefix, OpId op);

  const SafeMoveOptions options_;
  int64_t budget_bytes_;
  WorkBudget& work_;
  int64_t least_rejected_ = kNothingRejected;
};

}  // namespace lowtide::order
