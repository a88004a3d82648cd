// The naive judge's floor: for each op, what is with it while it runs for the first time, and the
// least that must stay with it for what comes later, by plain augmenting paths in a residual graph
// kept as a map of maps.
#include <algorithm>
#include <map>

#include "verify/definition_parts.h"

namespace lowtide::verify {
namespace {

using plan::Plan;
using plan::PlanAlias;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;

using Pairs = std::vector<std::pair<PlanStorageId, PlanStorageId>>;

bool computes_the_same_again(const Plan& p, PlanOpId o) {
  const ops::Row* row = ops::find(p.ops[o].kind);
  if (row == nullptr || !ops::traits(*row).recomputable || ops::traits(*row).has_effect)
    return false;
  for (const plan::PlanValue& value : p.values)
    if (value.alias == PlanAlias::kUpdate &&
        (value.producer == o || maker_of(p, value.storage) == o))
      return false;
  return true;
}

// All runs of `first` come before all of `second`, whatever data flows between them.
bool never_after(const Plan& p, PlanOpId first, PlanOpId second) {
  if (only_views(p, first) || only_views(p, second)) return false;
  const auto& control = p.ops[second].control;
  if (std::find(control.begin(), control.end(), first) != control.end()) return true;
  for (PlanValueId out : p.ops[second].outputs)
    if (p.values[out].alias == PlanAlias::kUpdate && first != second)
      for (PlanValueId in : p.ops[first].inputs)
        if (in.valid() && shown_version(p, in) == shown_version(p, p.values[out].base)) return true;
  return false;
}

// A resident that is always in the arena: nothing moves, or it is returned as it is, or no op wants
// it and the plan leaves it there.
bool stays_at_home(const Plan& p, PlanStorageId s) {
  if (!p.storages[s].resident) return false;
  bool moves = p.storages[s].home_slow;
  for (PlanOpId o : p.ops.ids()) moves |= !only_views(p, o) && reads(p, o, s);
  for (const plan::PlanValue& value : p.values)
    moves &= value.storage != s || !value.is_output || value.alias == PlanAlias::kUpdate;
  return p.slow_tiers.empty() || !moves;
}

class FirstRun {
 public:
  FirstRun(const Plan& p, PlanOpId op)
      : p_(p), op_(op), above_(ancestors_of(p, op)), below_(descendants_of(p, op)) {
    for (PlanStorageId s : p.storages.ids())
      for (PlanStorageId heir : p.storages.ids())
        if (reads(p, op, s) && maker_of(p, heir) == op && may_take_over(p, s, heir) &&
            (!wanted_later(s) || !p.slow_tiers.empty() || !over(maker_of(p, s))))
          pairs_.emplace_back(s, heir);
  }

  int64_t bytes_at_hand() const {
    int64_t bytes = p_.ops[op_].workspace_bytes - most_saved(p_, pairs_);
    for (PlanStorageId s : p_.storages.ids()) {
      const bool touched = reads(p_, op_, s) || maker_of(p_, s) == op_;
      if (touched || stays_at_home(p_, s)) bytes += p_.storages[s].bytes;
    }
    return bytes;
  }

  int64_t least_kept() const {
    constexpr int64_t kMuch = int64_t{1} << 61;
    const size_t n = p_.ops.size(), source = n + p_.storages.size(), sink = source + 1;
    std::map<size_t, std::map<size_t, int64_t>> room;
    const auto node = [&](PlanOpId o) { return over(o) ? sink : size_t{o.index()}; };
    for (PlanStorageId s : p_.storages.ids()) {
      const PlanOpId maker = maker_of(p_, s);
      if (!maker.valid() || maker == op_ || below_.contains(maker)) continue;
      if (wanted_later(s) || holds_output(p_, s)) room[source][n + s.index()] = kMuch;
      room[n + s.index()][node(maker)] = price(s);
      for (PlanOpId o : p_.ops.ids())
        if (!only_views(p_, o) && o != maker && reads(p_, o, s) && open(o))
          room[node(o)][n + s.index()] = kMuch;
    }
    for (PlanOpId a : p_.ops.ids())
      for (PlanOpId b : p_.ops.ids())
        if (open(a) && open(b) && never_after(p_, a, b)) room[node(a)][node(b)] = kMuch;
    return most_flow(room, source, sink);
  }

 private:
  bool open(PlanOpId o) const { return o != op_ && !below_.contains(o) && !over(o); }
  // Has run, and will not again.
  bool over(PlanOpId o) const {
    if (!above_.contains(o)) return false;
    if (!computes_the_same_again(p_, o)) return true;
    for (PlanOpId later : p_.ops.ids())
      if ((above_.contains(later) || later == op_) && never_after(p_, o, later)) return true;
    return false;
  }
  bool wanted_later(PlanStorageId s) const {
    for (PlanOpId o : below_)
      if (!only_views(p_, o) && maker_of(p_, s) != o && reads(p_, o, s)) return true;
    return false;
  }
  // Inputs are there anyway; keeping one is paid with what it alone could have saved.
  int64_t price(PlanStorageId s) const {
    if (!reads(p_, op_, s)) return p_.storages[s].bytes;
    Pairs without;
    for (const auto& pair : pairs_)
      if (pair.first != s) without.push_back(pair);
    return most_saved(p_, pairs_) - most_saved(p_, without);
  }

  static int64_t most_flow(std::map<size_t, std::map<size_t, int64_t>>& room, size_t source,
                           size_t sink) {
    int64_t total = 0;
    while (true) {
      std::map<size_t, size_t> from{{source, source}};
      std::vector<size_t> todo{source};
      while (!todo.empty() && !from.contains(sink)) {
        const size_t at = todo.back();
        todo.pop_back();
        for (const auto& [to, left] : room[at])
          if (left > 0 && from.emplace(to, at).second) todo.push_back(to);
      }
      if (!from.contains(sink)) return total;
      int64_t amount = INT64_MAX;
      for (size_t at = sink; at != source; at = from[at])
        amount = std::min(amount, room[from[at]][at]);
      for (size_t at = sink; at != source; at = from[at])
        room[from[at]][at] -= amount, room[at][from[at]] += amount;
      total += amount;
    }
  }

  const Plan& p_;
  const PlanOpId op_;
  const std::set<PlanOpId> above_, below_;
  Pairs pairs_;
};

}  // namespace

bool floor_is_right(const Plan& p) {
  if (!p.claims.floor_bytes) return true;
  int64_t resident = 0;
  for (PlanStorageId s : p.storages.ids())
    if (stays_at_home(p, s)) resident += p.storages[s].bytes;
  if (*p.claims.floor_bytes <= resident) return true;
  for (PlanOpId o : p.ops.ids()) {
    if (only_views(p, o)) continue;
    const FirstRun run(p, o);
    const int64_t kept = p.slow_tiers.empty() ? run.least_kept() : 0;
    if (*p.claims.floor_bytes <= run.bytes_at_hand() + kept) return true;
  }
  return false;
}

}  // namespace lowtide::verify
