#include "remat/bounds/closure_cut_network.h"

#include <algorithm>
#include <utility>

#include "remat/bounds/in_place_matching.h"

namespace lowtide::remat {

ClosureNetwork::ClosureNetwork(const StepGraph& graph, SchedOpId op)
    : graph_(graph),
      op_(op),
      side_(sides_of(graph, op)),
      is_input_(graph.problem->values.size(), 0),
      charge_of_(graph.problem->values.size(), kNone),
      node_of_(graph.size(), kNone) {
  for (SchedOpId o : side_.ids()) {
    if (side_[o] == Side::kBefore) before_ticks_ += graph.ticks[o];
    if (side_[o] == Side::kAfter) after_ticks_ += graph.ticks[o];
    if (side_[o] == Side::kOther) other_ticks_ += graph.ticks[o];
  }
  for (SchedValueId v : graph.reads[op]) is_input_[v] = 1;
  find_fixed_bytes();
  find_residents();
  expand();
  work_ += static_cast<int64_t>(graph.size() + graph.problem->values.size());
}

void ClosureNetwork::find_fixed_bytes() {
  const plan::ScheduleProblem& problem = *graph_.problem;
  fixed_bytes_ = problem.resident_bytes + problem.ops[op_].workspace_bytes;
  for (SchedValueId v : graph_.reads[op_]) fixed_bytes_ += problem.values[v].bytes;
  for (SchedValueId v : graph_.makes[op_]) fixed_bytes_ += problem.values[v].bytes;
  fixed_bytes_ -= most_reused(SchedValueId::none());
}

void ClosureNetwork::find_residents() {
  const plan::ScheduleProblem& problem = *graph_.problem;
  if (!problem.link) return;
  for (const plan::SchedResident& resident : problem.residents) {
    if (std::binary_search(resident.readers.begin(), resident.readers.end(), op_)) continue;
    fixed_bytes_ -= resident.bytes;
    const auto any = [&](const std::vector<SchedOpId>& ops, Side side) {
      return std::any_of(ops.begin(), ops.end(), [&](SchedOpId o) { return side_[o] == side; });
    };
    if (!any(resident.readers, Side::kAfter)) continue;
    residents_.push_back(
        {resident.bytes, resident.moved_parts, any(resident.writers, Side::kBefore)});
    needed_bytes_ += resident.bytes;
  }
}

// An input that is needed after the op and cannot come back cannot be taken over.
int64_t ClosureNetwork::most_reused(SchedValueId without) const {
  const plan::ScheduleProblem& problem = *graph_.problem;
  InPlaceMatching matching;
  for (size_t i : graph_.pairs[op_]) {
    const plan::InPlacePair& pair = problem.in_place[i];
    const plan::SchedValue& input = problem.values[pair.input];
    if (pair.input == without || input.is_output || input.bytes == 0 ||
        input.bytes != problem.values[pair.output].bytes)
      continue;
    const bool needed = std::any_of(input.readers.begin(), input.readers.end(),
                                    [&](SchedOpId r) { return side_[r] == Side::kAfter; });
    if (needed && !problem.link && locked(input.producer)) continue;
    matching.add(pair.input, pair.output, input.bytes);
  }
  return matching.most_bytes();
}

// What an op saves in place is a matroid's rank (per size), so several inputs that stay cost at
// least the sum of what each costs alone.
int64_t ClosureNetwork::charged_bytes(SchedValueId value) const {
  if (!is_input_[value]) return graph_.values[value].bytes;
  if (graph_.pairs[op_].empty()) return 0;
  return most_reused(SchedValueId::none()) - most_reused(value);
}

// May not run again once the op has run.
bool ClosureNetwork::locked(SchedOpId op) const {
  if (side_[op] == Side::kOther) return false;
  const auto after = graph_.waits_after[op];
  return graph_.may_rerun[op] == 0 || std::any_of(after.begin(), after.end(), [&](SchedOpId next) {
           return side_[next] == Side::kBefore || side_[next] == Side::kSelf;
         });
}

void ClosureNetwork::expand() {
  std::vector<char> is_needed(graph_.values.size(), 0);
  for (const SchedOpId op : side_.ids())
    if (side_[op] == Side::kAfter)
      for (const SchedValueId v : graph_.reads[op]) is_needed[v.index()] = 1;
  for (const SchedValueId v : graph_.values.ids()) {
    const StepGraph::Value& value = graph_.values[v];
    const Side made = side_[value.producer];
    if (made != Side::kBefore && made != Side::kOther) continue;
    if (value.is_output || is_needed[v.index()] != 0) reach(v, true);
  }
  for (uint32_t node = 0; node < node_op_.size(); ++node) {
    for (SchedValueId v : graph_.reads[node_op_[node]]) {
      reach(v, false);
      if (charge_of_[v] != kNone && charges_[charge_of_[v]].node != kNone)
        needs_value_.emplace_back(node, charge_of_[v]);
    }
    for (SchedOpId next : graph_.waits_after[node_op_[node]])
      if (side_[next] == Side::kOther) needs_op_.emplace_back(node, node_of(next));
  }
}

void ClosureNetwork::reach(SchedValueId value, bool needed) {
  if (charge_of_[value] != kNone) return;
  const int64_t bytes = charged_bytes(value);
  if (bytes == 0) return;
  charge_of_[value] = static_cast<uint32_t>(charges_.size());
  const StepGraph::Value& of = graph_.values[value];
  Charge& charge = charges_.emplace_back();
  charge.value = value;
  charge.bytes = bytes;
  charge.moved_parts = of.moved_parts;
  charge.node = needed ? kNone : charge_of_[value];
  if (!locked(of.producer)) charge.producer = node_of(of.producer);
  if (needed) needed_bytes_ += bytes;
}

uint32_t ClosureNetwork::node_of(SchedOpId op) {
  if (node_of_[op] == kNone) {
    node_of_[op] = static_cast<uint32_t>(node_op_.size());
    node_op_.push_back(op);
  }
  return node_of_[op];
}

int64_t ClosureNetwork::charge(int64_t bytes, int64_t moved_parts, bool store,
                               const CutPrices& prices) const {
  const int64_t stay = ticks_of_staying(bytes, prices.per_byte);
  if (!graph_.link) return stay;
  // Its share of the link's time, and all of the compute time that the copy takes.
  const LinkTicks link = link_ticks(graph_, bytes * moved_parts);
  int64_t move = scaled_down(link.in, kOne - prices.after) + link.copy;
  if (store) move += scaled_down(link.out, kOne - prices.before) + link.copy;
  return std::min(stay, move);
}

int64_t ClosureNetwork::solve(const CutPrices& prices, CutChoice& choice) {
  const size_t ops = node_op_.size();
  const auto node = [](size_t op) { return 2 + op; };
  const auto value_node = [&](size_t charge) { return 2 + ops + charge; };
  const int64_t seen = flow_.arcs_seen();
  flow_.reset(2 + ops + charges_.size(),
              ops + charges_.size() + needs_value_.size() + needs_op_.size());
  for (size_t i = 0; i < ops; ++i)
    if (side_[node_op_[i]] == Side::kBefore)
      flow_.add_arc(node(i), 1, scaled_down(graph_.ticks[node_op_[i]], prices.after));
  int64_t constant = 0;
  for (const ResidentCharge& r : residents_)
    constant += charge(r.bytes, r.moved_parts, r.store, prices);
  for (size_t j = 0; j < charges_.size(); ++j) {
    const Charge& c = charges_[j];
    const int64_t cost = charge(c.bytes, c.moved_parts, true, prices);
    if (c.node == kNone && c.producer == kNone) {
      constant += cost;
      continue;
    }
    flow_.add_arc(c.node == kNone ? 0 : value_node(j), c.producer == kNone ? 1 : node(c.producer),
                  cost);
  }
  for (const auto& [op, charge] : needs_value_)
    flow_.add_arc(node(op), value_node(charge), MaxFlow::kUnlimited);
  for (const auto& [op, next] : needs_op_) flow_.add_arc(node(op), node(next), MaxFlow::kUnlimited);
  const int64_t cut = flow_.run(0, 1);
  std::vector<char> runs(ops);
  for (size_t i = 0; i < ops; ++i) runs[i] = flow_.source_side(node(i));
  choice = read_choice(runs, prices);
  work_ +=
      flow_.arcs_seen() - seen + static_cast<int64_t>(ops + charges_.size() + needs_value_.size());
  return constant + cut;
}

// Its lists by going through all ids, so they are ascending; without them in any order.
CutChoice ClosureNetwork::read_choice(const std::vector<char>& runs, const CutPrices& prices,
                                      bool with_lists) const {
  CutChoice choice;
  std::vector<char> wanted(charges_.size(), 0);
  for (size_t j = 0; j < charges_.size(); ++j) wanted[j] = charges_[j].node == kNone;
  for (const auto& [op, charge] : needs_value_) wanted[charge] |= runs[op];
  const auto stays = [&](const auto& charged, bool store) {
    return !graph_.link || charge(charged.bytes, charged.moved_parts, store, prices) ==
                               ticks_of_staying(charged.bytes, prices.per_byte);
  };
  const auto keep = [&](size_t j) {
    const Charge& c = charges_[j];
    if (!wanted[j] || (c.producer != kNone && runs[c.producer])) return;
    const bool is_stored = stays(c, true);
    if (with_lists) (is_stored ? choice.stored : choice.moved).push_back(c.value);
    if (is_stored) {
      choice.stored_bytes += c.bytes;
    } else {
      const int64_t moved = c.bytes * c.moved_parts;
      choice.store_bytes += moved, choice.load_bytes += moved;
    }
  };
  const auto run = [&](SchedOpId op, uint32_t node) {
    if (!runs[node]) return;
    const bool again = side_[op] == Side::kBefore;
    if (with_lists) (again ? choice.reruns : choice.postponed).push_back(op);
    if (again) choice.rerun_ticks += graph_.ticks[op];
  };
  for (const ResidentCharge& r : residents_) {
    if (stays(r, r.store)) {
      choice.stored_bytes += r.bytes;
    } else {
      choice.load_bytes += r.bytes * r.moved_parts;
      if (r.store) choice.store_bytes += r.bytes * r.moved_parts;
    }
  }
  if (with_lists) {
    for (const uint32_t j : charge_of_)
      if (j != kNone) keep(j);
    for (const SchedOpId op : node_of_.ids())
      if (node_of_[op] != kNone) run(op, node_of_[op]);
    return choice;
  }
  for (size_t j = 0; j < charges_.size(); ++j) keep(j);
  for (uint32_t node = 0; node < node_op_.size(); ++node) run(node_op_[node], node);
  return choice;
}

int64_t ClosureNetwork::least_bytes(CutChoice& choice) {
  const size_t ops = node_op_.size();
  const int64_t seen = flow_.arcs_seen();
  flow_.reset(2 + ops + charges_.size(),
              ops + charges_.size() + needs_value_.size() + needs_op_.size());
  int64_t constant = 0;
  for (size_t j = 0; j < charges_.size(); ++j) {
    const Charge& c = charges_[j];
    if (c.node == kNone && c.producer == kNone) {
      constant += c.bytes;
      continue;
    }
    flow_.add_arc(c.node == kNone ? 0 : 2 + ops + j, c.producer == kNone ? 1 : 2 + c.producer,
                  c.bytes);
  }
  for (const auto& [op, charge] : needs_value_)
    flow_.add_arc(2 + op, 2 + ops + charge, MaxFlow::kUnlimited);
  for (const auto& [op, next] : needs_op_) flow_.add_arc(2 + op, 2 + next, MaxFlow::kUnlimited);
  const int64_t cut = flow_.run(0, 1);
  std::vector<char> runs(ops);
  for (size_t i = 0; i < ops; ++i) runs[i] = flow_.source_side(2 + i);
  choice = read_choice(runs, {.per_byte = 0});
  work_ +=
      flow_.arcs_seen() - seen + static_cast<int64_t>(ops + charges_.size() + needs_value_.size());
  return constant + cut;
}

CutChoice ClosureNetwork::follow(const std::vector<char>& may, bool with_lists) const {
  std::vector<char> runs(node_op_.size(), 0);
  std::vector<uint32_t> stack;
  const auto run = [&](uint32_t node) {
    if (runs[node]) return;
    runs[node] = 1;
    stack.push_back(node);
  };
  const auto visit = [&](uint32_t node) {
    if (node != kNone && may[node_op_[node].index()]) run(node);
  };
  for (const Charge& c : charges_)
    if (c.node == kNone) visit(c.producer);
  while (!stack.empty()) {
    const uint32_t node = stack.back();
    stack.pop_back();
    for (SchedValueId v : graph_.reads[node_op_[node]])
      if (charge_of_[v] != kNone) visit(charges_[charge_of_[v]].producer);
    for (SchedOpId next : graph_.waits_after[node_op_[node]])
      if (side_[next] == Side::kOther) run(node_of_[next]);
  }
  return read_choice(runs, {}, with_lists);
}

double ClosureNetwork::line(const CutChoice& choice, const CutPrices& prices,
                            int64_t capacity) const {
  const auto share = [](int64_t part) {
    return static_cast<double>(part) / static_cast<double>(kOne);
  };
  double ticks = share(prices.after) * static_cast<double>(choice.rerun_ticks) +
                 share(prices.per_byte) * static_cast<double>(choice.stored_bytes - capacity) +
                 static_cast<double>(shares_constant(prices) - graph_.once_ticks);
  if (const auto& link = graph_.link) {
    ticks += share(kOne - prices.before) * static_cast<double>(choice.store_bytes) /
             link->bytes_per_second_out * graph_.scale.per_second();
    ticks += share(kOne - prices.after) * static_cast<double>(choice.load_bytes) /
             link->bytes_per_second_in * graph_.scale.per_second();
    ticks += static_cast<double>(choice.store_bytes + choice.load_bytes) *
             link->compute_seconds_per_byte * graph_.scale.per_second();
  }
  return ticks;
}

int64_t ClosureNetwork::bound(int64_t cut_ticks, const CutPrices& prices, int64_t capacity) const {
  return cut_ticks + shares_constant(prices) - graph_.once_ticks -
         scaled_up(capacity, prices.per_byte);
}

int64_t ClosureNetwork::shares_constant(const CutPrices& prices) const {
  return scaled_down(before_ticks_, prices.before) + graph_.ticks[op_] +
         scaled_down(after_ticks_, prices.after) +
         scaled_down(other_ticks_, std::min(prices.before, prices.after));
}

}  // namespace lowtide::remat
