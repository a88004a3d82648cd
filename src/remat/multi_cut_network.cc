#include "remat/multi_cut_network.h"

#include <algorithm>

namespace lowtide::remat {

MultiCutNetwork::MultiCutNetwork(const StepGraph& graph, std::vector<SchedOpId> cuts)
    : graph_(graph), cuts_(std::move(cuts)) {
  find_segments();
  for (size_t i = 0; i < cuts_.size(); ++i) find_cut_bytes(i);
}

void MultiCutNetwork::find_segments() {
  const size_t n = graph_.size(), cuts = cuts_.size();
  first_ = IdVector<SchedOpId, size_t>(n, 0);
  latest_ = last_ = IdVector<SchedOpId, size_t>(n, cuts);
  for (size_t i = cuts; i-- > 0;) {
    const auto side = sides_of(graph_, cuts_[i]);
    for (SchedOpId op : side.ids()) {
      if (side[op] == Side::kBefore) latest_[op] = i;
      if (side[op] == Side::kAfter || side[op] == Side::kSelf)
        first_[op] = std::max(first_[op], i + 1);
    }
    latest_[cuts_[i]] = i + 1;
  }
  for (SchedOpId op : last_.ids()) {
    if (!graph_.problem->ops[op].may_rerun) last_[op] = latest_[op];
    for (SchedOpId next : graph_.waits_after[op]) {
      const bool is_cut = std::find(cuts_.begin(), cuts_.end(), next) != cuts_.end();
      last_[op] = std::min(last_[op], latest_[next] - (is_cut ? 1 : 0));
    }
  }
}

void MultiCutNetwork::find_cut_bytes(size_t cut) {
  const plan::ScheduleProblem& problem = *graph_.problem;
  const ClosureNetwork network(graph_, cuts_[cut]);
  capacity_.push_back(*problem.budget_bytes - network.fixed_bytes());
  IdVector<SchedValueId, int64_t> bytes(problem.values.size());
  for (SchedValueId v : bytes.ids()) bytes[v] = network.charged_bytes(v);
  stay_bytes_.push_back(std::move(bytes));
  IdVector<SchedValueId, char> is_input(problem.values.size(), 0);
  for (SchedValueId v : graph_.reads[cuts_[cut]]) is_input[v] = 1;
  is_input_.push_back(std::move(is_input));
}

Multipliers MultiCutNetwork::start() const {
  Multipliers m;
  m.price.assign(cuts_.size(), 0);
  m.worth.assign(cuts_.size() + 1,
                 IdVector<SchedValueId, int64_t>(graph_.problem->values.size(), 0));
  m.credit = graph_.ticks;
  return m;
}

int64_t MultiCutNetwork::solve(const Multipliers& m, Violations& violations) {
  const size_t values = graph_.problem->values.size();
  violations.price.assign(cuts_.size(), 0);
  violations.worth.assign(cuts_.size() + 1, IdVector<SchedValueId, float>(values, 0));
  violations.credit = IdVector<SchedOpId, float>(graph_.size(), 1);
  int64_t ticks = -graph_.once_ticks;
  for (SchedOpId op : first_.ids())
    if (has_credit(op)) ticks += m.credit[op];
  for (size_t k = 0; k <= cuts_.size(); ++k) ticks += solve_segment(k, m, violations);
  return ticks;
}

// The network of segment k. Nodes: source, sink, ops, values. What R and S are follows from the
// cut: an op runs if it is on the source's side, a value stays if its arc is cut (or if that is
// worth more than it costs).
int64_t MultiCutNetwork::solve_segment(size_t k, const Multipliers& m, Violations& violations) {
  const size_t nodes = graph_.size() + graph_.problem->values.size();
  order::MaxFlow flow(2 + nodes);
  int64_t constant = 0;
  if (k > 0) {
    constant -= scaled_up(capacity_[k - 1], m.price[k - 1]);
    violations.price[k - 1] -= static_cast<double>(capacity_[k - 1]);
  }
  constant += add_ops(flow, k, m);
  IdVector<SchedValueId, Stay> stay(graph_.problem->values.size(), Stay::kNo);
  constant += add_values(flow, k, m, stay);
  const int64_t cut = flow.run(0, 1);
  work_ += flow.arcs_seen() + static_cast<int64_t>(nodes);
  find_violations(flow, k, stay, violations);
  return constant + cut;
}

// Each adds its nodes' arcs and returns what they cost in any case.
int64_t MultiCutNetwork::add_ops(order::MaxFlow& flow, size_t k, const Multipliers& m) const {
  const int64_t most = most_ticks_of_each(graph_.size() + graph_.problem->values.size());
  int64_t constant = 0;
  for (SchedOpId op : graph_.ticks.ids()) {
    int64_t ticks = graph_.ticks[op];
    if (has_credit(op) && first_[op] <= k && k <= latest_[op]) ticks -= m.credit[op];
    for (SchedValueId v : graph_.makes[op]) ticks -= m.worth[k][v];
    if (forced(op, k)) constant += ticks;
    if (forced(op, k) || !may_run(op, k)) continue;
    if (ticks > 0) flow.add_arc(op_node(op), 1, std::min(ticks, most));
    if (ticks < 0) {
      flow.add_arc(0, op_node(op), std::min(-ticks, most));
      constant += ticks;
    }
    for (SchedOpId next : graph_.waits_after[op])
      if (latest_[next] == k && may_run(next, k) && !forced(next, k))
        flow.add_arc(op_node(op), op_node(next), order::MaxFlow::kUnlimited);
  }
  return constant;
}

int64_t MultiCutNetwork::add_values(order::MaxFlow& flow, size_t k, const Multipliers& m,
                                    IdVector<SchedValueId, Stay>& stay) const {
  const plan::ScheduleProblem& problem = *graph_.problem;
  const int64_t most = most_ticks_of_each(graph_.size() + problem.values.size());
  int64_t constant = 0;
  for (SchedValueId v : problem.values.ids()) {
    const plan::SchedValue& value = problem.values[v];
    const SchedOpId maker = value.producer;
    const bool old = first_[maker] < k;
    int64_t ticks = 0;
    if (old) {
      ticks = scaled_down(stay_bytes_[k - 1][v], m.price[k - 1]) - m.worth[k][v];
      (is_input_[k - 1][v] ? constant : ticks) += m.worth[k - 1][v];
      if (ticks < 0) constant += ticks;
      stay[v] = ticks <= 0 ? Stay::kYes : Stay::kCut;
      if (ticks <= 0) continue;
    }
    if (!old && forced(maker, k)) continue;
    bool wanted = k == cuts_.size() && value.is_output, reachable = wanted;
    for (SchedOpId reader : value.readers) {
      if (k > 0 && reader == cuts_[k - 1]) continue;
      if (forced(reader, k)) {
        wanted = reachable = true;
      } else if (may_run(reader, k)) {
        flow.add_arc(op_node(reader), value_node(v), order::MaxFlow::kUnlimited);
        reachable = true;
      }
    }
    if (!reachable) continue;
    if (wanted) flow.add_arc(0, value_node(v), order::MaxFlow::kUnlimited);
    flow.add_arc(value_node(v), may_run(maker, k) ? op_node(maker) : 1,
                 old ? std::min(ticks, most) : order::MaxFlow::kUnlimited);
  }
  return constant;
}

void MultiCutNetwork::find_violations(const order::MaxFlow& flow, size_t k,
                                      const IdVector<SchedValueId, Stay>& stay,
                                      Violations& violations) const {
  const plan::ScheduleProblem& problem = *graph_.problem;
  const auto runs = [&](SchedOpId op) {
    return forced(op, k) || (may_run(op, k) && flow.source_side(op_node(op)));
  };
  for (SchedOpId op : graph_.ticks.ids())
    if (runs(op) && first_[op] <= k && k <= latest_[op]) violations.credit[op] -= 1;
  for (SchedValueId v : problem.values.ids()) {
    const bool stays =
        stay[v] == Stay::kYes || (stay[v] == Stay::kCut && flow.source_side(value_node(v)) &&
                                  !runs(problem.values[v].producer));
    if (stays) violations.price[k - 1] += static_cast<double>(stay_bytes_[k - 1][v]);
    if (stays || (k > 0 && is_input_[k - 1][v])) {
      if (k > 0) violations.worth[k - 1][v] += 1;
    }
    violations.worth[k][v] -=
        static_cast<float>(stays) + static_cast<float>(runs(problem.values[v].producer));
  }
}

}  // namespace lowtide::remat
