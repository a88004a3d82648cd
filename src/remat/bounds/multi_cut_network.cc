#include "remat/bounds/multi_cut_network.h"

#include <algorithm>

namespace lowtide::remat {

MultiCutNetwork::MultiCutNetwork(const StepGraph& graph, std::vector<SchedOpId> cuts)
    : graph_(graph), at_(graph, std::move(cuts)), now_(graph.problem->values.size()) {
  for (const plan::SchedValue& value : graph.problem->values)
    link_.push_back(link_ticks(graph, value.moved_bytes()));
  if (graph.link) find_residents();
}

void MultiCutNetwork::find_residents() {
  for (const plan::SchedResident& resident : graph_.problem->residents) {
    ResidentTerms terms;
    terms.bytes = resident.bytes;
    terms.link = link_ticks(graph_, resident.moved_bytes());
    terms.read_at_cut.assign(at_.cuts.size(), 0);
    terms.needed.assign(at_.cuts.size() + 1, 0);
    for (SchedOpId op : resident.readers) {
      const auto cut = std::find(at_.cuts.begin(), at_.cuts.end(), op);
      if (cut != at_.cuts.end()) {
        terms.read_at_cut[static_cast<size_t>(cut - at_.cuts.begin())] = 1;
      } else if (at_.first[op] == at_.latest[op]) {
        terms.needed[at_.first[op]] = 1;
      }
    }
    terms.written = !resident.writers.empty();
    terms.written_from = terms.written_by = at_.cuts.size();
    for (SchedOpId op : resident.writers) {
      terms.written_from = std::min(terms.written_from, at_.first[op]);
      terms.written_by = std::min(terms.written_by, at_.latest[op]);
    }
    residents_.push_back(std::move(terms));
  }
}

LinkShares MultiCutNetwork::no_shares() const {
  const std::vector<int64_t> none(at_.cuts.size() + 1, 0);
  return {none, none};
}

Multipliers MultiCutNetwork::start(LinkShares shares) const {
  Multipliers m;
  m.price.assign(at_.cuts.size(), 0);
  m.worth.assign(at_.cuts.size() + 1,
                 IdVector<SchedValueId, int64_t>(graph_.problem->values.size(), 0));
  m.copy = m.worth;
  m.shares = std::move(shares);
  for (SchedOpId op : graph_.ticks.ids()) m.credit.push_back(least_cost(op, m.shares));
  return m;
}

int64_t MultiCutNetwork::cost(SchedOpId op, size_t k, const LinkShares& shares) const {
  const bool cut = k > 0 && at_.cuts[k - 1] == op;
  return scaled_down(graph_.ticks[op], cut ? shares.cut_op(k) : shares.ops(k));
}

int64_t MultiCutNetwork::least_cost(SchedOpId op, const LinkShares& shares) const {
  int64_t least = cost(op, at_.first[op], shares);
  for (size_t k = at_.first[op] + 1; k <= at_.latest[op]; ++k)
    least = std::min(least, cost(op, k, shares));
  return least;
}

int64_t MultiCutNetwork::solve(const Multipliers& m, Violations& violations) {
  const size_t values = graph_.problem->values.size();
  violations.price.assign(at_.cuts.size(), 0);
  violations.worth.assign(at_.cuts.size() + 1, IdVector<SchedValueId, float>(values, 0));
  violations.copy = violations.worth;
  violations.credit = IdVector<SchedOpId, float>(graph_.size(), 1);
  violations.store.assign(at_.cuts.size() + 1, 0);
  violations.load.assign(at_.cuts.size() + 1, 0);
  __int128 ticks = -graph_.once_ticks;
  for (SchedOpId op : at_.first.ids())
    if (has_credit(op)) ticks += m.credit[op];
  for (size_t k = 0; k <= at_.cuts.size(); ++k) ticks += solve_segment(k, m, violations);
  ticks += add_residents(m, violations);
  constexpr __int128 kMost = int64_t{1} << 62;
  return static_cast<int64_t>(std::clamp(ticks, -kMost, kMost));
}

__int128 MultiCutNetwork::add_residents(const Multipliers& m, Violations& violations) const {
  __int128 ticks = 0;
  for (const ResidentTerms& terms : residents_) {
    const ResidentWay way = cheapest_way(terms, m.shares, m.price);
    ticks += way.ticks;
    const auto bytes = static_cast<double>(terms.bytes);
    for (size_t k = 0; k < at_.cuts.size(); ++k)
      if (way.there[k]) violations.price[k] += bytes;
    for (size_t i = 0; i < way.loads.size(); ++i) {
      const size_t from = way.loads[i].from, to = way.load_to[i];
      violations.load[least_share(m.shares.load, from, to).segment] +=
          static_cast<double>(terms.link.in);
      for (size_t k = from; k < to; ++k) violations.price[k] += bytes;
    }
    if (way.stored)
      violations.store[least_share(m.shares.store, terms.written_from, way.stored_by).segment] +=
          static_cast<double>(terms.link.out);
  }
  return ticks;
}

// The network of segment k. Nodes: source, sink, ops, values. What R and the ways of values are
// follows from the cut: an op runs if it is on the source's side, a value is needed if it is.
__int128 MultiCutNetwork::solve_segment(size_t k, const Multipliers& m, Violations& violations) {
  const size_t nodes = graph_.size() + graph_.problem->values.size();
  MaxFlow flow(2 + nodes);
  __int128 constant = 0;
  if (k > 0) {
    constant -= scaled_up(at_.capacity[k - 1], m.price[k - 1]);
    violations.price[k - 1] -= static_cast<double>(at_.capacity[k - 1]);
  }
  constant += find_values(k, m);
  constant += add_ops(flow, k, m);
  add_values(flow, k);
  const int64_t cut = flow.run(0, 1);
  work_ += flow.arcs_seen() + static_cast<int64_t>(nodes) * (graph_.link ? 4 : 1);
  find_violations(flow, k, m, violations);
  return constant + cut;
}

LoadWay MultiCutNetwork::load_of(SchedValueId v, size_t k, const Multipliers& m) const {
  const auto at_cut = [&](size_t i) {
    return at_.is_input[i - 1][v] ? kNoWay
                                  : ticks_of_staying(at_.stay_bytes[i - 1][v], m.price[i - 1]);
  };
  return cheapest_load(link_[v], m.shares, at_cut, at_.first[graph_.problem->values[v].producer],
                       k);
}

ValueTerms MultiCutNetwork::terms_of(SchedValueId v, size_t k, const Multipliers& m) const {
  const size_t first = at_.first[graph_.problem->values[v].producer];
  ValueTerms terms;
  terms.link = graph_.link.has_value();
  if (first > k) return terms;
  terms.old = first < k;
  if (terms.link) terms.store = store_ticks(link_[v], m.shares, first, k);
  if (terms.old) {
    terms.input = at_.is_input[k - 1][v];
    terms.stay = ticks_of_staying(at_.stay_bytes[k - 1][v], m.price[k - 1]);
    terms.worth = m.worth[k - 1][v];
    if (terms.link) {
      terms.copy = m.copy[k - 1][v] + store_ticks(link_[v], m.shares, first, k - 1);
      terms.load = load_of(v, k, m).ticks;
    }
  }
  if (k == at_.cuts.size()) return terms;
  terms.worth_after = m.worth[k][v];
  if (terms.link) terms.copy_after = m.copy[k][v] + terms.store;
  return terms;
}

// Returns what they cost if nothing runs but what must, and nobody needs them.
__int128 MultiCutNetwork::find_values(size_t k, const Multipliers& m) {
  __int128 constant = 0;
  for (SchedValueId v : now_.ids()) {
    Value& now = now_[v];
    now.terms = terms_of(v, k, m);
    const bool made = at_.forced(graph_.problem->values[v].producer, k);
    now.idle = cheapest_way(now.terms, made, false).ticks;
    now.always_needed = made || cheapest_way(now.terms, false, true).ticks == now.idle;
    constant += now.idle;
  }
  return constant;
}

// Adds the ops' arcs and returns what they cost in any case.
__int128 MultiCutNetwork::add_ops(MaxFlow& flow, size_t k, const Multipliers& m) const {
  __int128 constant = 0;
  for (SchedOpId op : graph_.ticks.ids()) {
    if (!at_.may_run(op, k) && !at_.forced(op, k)) continue;
    int64_t ticks = cost(op, k, m.shares);
    if (has_credit(op) && k <= at_.latest[op]) ticks -= m.credit[op];
    if (at_.forced(op, k)) {
      constant += ticks;
      continue;
    }
    for (SchedValueId v : graph_.makes[op])
      ticks += cheapest_way(now_[v].terms, true, false).ticks - now_[v].idle;
    if (ticks > 0) flow.add_arc(op_node(op), 1, std::min(ticks, plan::kMostArcTicks));
    if (ticks < 0) {
      flow.add_arc(0, op_node(op), std::min(-ticks, plan::kMostArcTicks));
      constant += ticks;
    }
    for (SchedOpId next : graph_.waits_after[op])
      if (at_.latest[next] == k && at_.may_run(next, k) && !at_.forced(next, k))
        flow.add_arc(op_node(op), op_node(next), MaxFlow::kUnlimited);
  }
  return constant;
}

void MultiCutNetwork::add_values(MaxFlow& flow, size_t k) {
  const plan::ScheduleProblem& problem = *graph_.problem;
  for (SchedValueId v : problem.values.ids()) {
    if (now_[v].always_needed) continue;
    const plan::SchedValue& value = problem.values[v];
    bool wanted = k == at_.cuts.size() && value.is_output, reachable = wanted;
    for (SchedOpId reader : value.readers) {
      if (k > 0 && reader == at_.cuts[k - 1]) continue;
      if (at_.forced(reader, k)) {
        wanted = reachable = true;
      } else if (at_.may_run(reader, k)) {
        flow.add_arc(op_node(reader), value_node(v), MaxFlow::kUnlimited);
        reachable = true;
      }
    }
    if (!reachable) continue;
    if (wanted) flow.add_arc(0, value_node(v), MaxFlow::kUnlimited);
    const int64_t ticks = cheapest_way(now_[v].terms, false, true).ticks;
    flow.add_arc(value_node(v), at_.may_run(value.producer, k) ? op_node(value.producer) : 1,
                 ticks >= kNoWay ? MaxFlow::kUnlimited
                                 : std::min(ticks - now_[v].idle, plan::kMostArcTicks));
  }
}

void MultiCutNetwork::count_op(SchedOpId op, size_t k, const Multipliers& m,
                               Violations& violations) const {
  if (at_.first[op] <= k && k <= at_.latest[op]) violations.credit[op] -= 1;
  const auto ticks = static_cast<double>(graph_.ticks[op]);
  const bool cut = k > 0 && at_.cuts[k - 1] == op;
  violations.store[cut ? least_share(m.shares.store, k - 1, k).segment : k] -= ticks;
  violations.load[cut ? least_share(m.shares.load, k - 1, k).segment : k] -= ticks;
}

void MultiCutNetwork::find_violations(const MaxFlow& flow, size_t k, const Multipliers& m,
                                      Violations& violations) const {
  const plan::ScheduleProblem& problem = *graph_.problem;
  const auto runs = [&](SchedOpId op) {
    return at_.forced(op, k) || (at_.may_run(op, k) && flow.source_side(op_node(op)));
  };
  for (SchedOpId op : graph_.ticks.ids())
    if (runs(op)) count_op(op, k, m, violations);
  for (SchedValueId v : problem.values.ids()) {
    const bool made = runs(problem.values[v].producer);
    const bool needed = now_[v].always_needed || flow.source_side(value_node(v));
    const ValueWay way = cheapest_way(now_[v].terms, made, needed && !made);
    if (way.stays) violations.price[k - 1] += static_cast<double>(at_.stay_bytes[k - 1][v]);
    if (way.starts_present) violations.worth[k - 1][v] += 1;
    if (way.starts_copied) violations.copy[k - 1][v] += 1;
    if (way.ends_present) violations.worth[k][v] -= 1;
    if (way.ends_copied) violations.copy[k][v] -= 1;
    if (graph_.link) find_link_violations(way, v, k, m, violations);
  }
}

void MultiCutNetwork::find_link_violations(const ValueWay& way, SchedValueId v, size_t k,
                                           const Multipliers& m, Violations& violations) const {
  const size_t first = at_.first[graph_.problem->values[v].producer];
  const auto count_store = [&](size_t to, double sign) {
    violations.store[least_share(m.shares.store, first, to).segment] +=
        sign * static_cast<double>(link_[v].out);
  };
  if (way.starts_copied) count_store(k - 1, 1);  // part of what a copy is worth
  if (way.ends_copied && k < at_.cuts.size()) count_store(k, -1);
  if (way.stored) count_store(k, 1);
  if (!way.loaded) return;
  const size_t from = load_of(v, k, m).from;
  violations.load[least_share(m.shares.load, from, k).segment] += static_cast<double>(link_[v].in);
  for (size_t i = from; i < k; ++i)
    violations.price[i] += static_cast<double>(at_.stay_bytes[i][v]);
}

}  // namespace lowtide::remat
