// Reruns are placed from the last to the first in the order of the first runs: a rerun's readers
// that are reruns themselves come later in that order, so their places are known. Steps of that
// order are numbered; what is inserted "before step i" runs in this order: loads, reruns, the op.
#include "remat/bounds/cut_plan.h"

#include <algorithm>

namespace lowtide::remat {
namespace {

using plan::SchedAction;

constexpr size_t kNeverRead = ~size_t{0};

class PlanBuilder {
 public:
  PlanBuilder(const plan::ScheduleProblem& problem, SchedOpId op, std::span<const SchedOpId> order)
      : problem_(problem),
        graph_(problem),
        order_(order),
        step_(order.size()),
        rerun_before_(order.size(), kNeverRead),
        begins_(order.size() + 1, 0),
        before_(order.size() + 1),
        drops_(order.size() + 1),
        loads_(order.size() + 1),
        stores_(order.size() + 1) {
    for (size_t i = 0; i < order.size(); ++i) {
      step_[order[i]] = i;
      begins_[i + 1] = begins_[i] + problem.ops[order[i]].seconds;
    }
    cut_ = step_[op];
  }

  void place_reruns(const CutChoice& choice) {
    std::vector<SchedOpId> reruns;
    for (const auto* list : {&choice.reruns, &choice.postponed})
      for (SchedOpId op : *list)
        if (may_rerun(op)) reruns.push_back(op);
    std::sort(reruns.begin(), reruns.end(),
              [&](SchedOpId a, SchedOpId b) { return step_[a] > step_[b]; });
    for (SchedOpId op : reruns) {
      size_t at = kNeverRead;
      for (SchedValueId v : graph_.makes[op]) at = std::min(at, first_need(v));
      if (at == kNeverRead) continue;
      for (SchedOpId next : graph_.waits_after[op]) at = std::min(at, step_[next]);
      rerun_before_[op] = at;
      before_[at].push_back(op);
    }
    for (auto& list : before_) std::reverse(list.begin(), list.end());
  }

  void place_moves(const CutChoice& choice) {
    std::vector<Move> moves;
    for (SchedValueId v : choice.moved) {
      Move move{v, step_[problem_.values[v].producer] + 1, 0, first_need(v)};
      move.last_use = move.complete;
      for (SchedOpId r : problem_.values[v].readers)
        if (step_[r] <= cut_) move.last_use = std::max(move.last_use, step_[r] + 1);
      for (SchedOpId w : problem_.values[v].writers)
        if (step_[w] <= cut_) move.complete = std::max(move.complete, step_[w] + 1);
      if (move.last_use <= cut_ && move.need <= order_.size()) moves.push_back(move);
    }
    place_stores(moves);
    place_loads(moves);
  }

  std::vector<SchedAction> actions() const {
    std::vector<SchedAction> out;
    const auto add = [&](SchedAction::Kind kind, const std::vector<SchedValueId>& values) {
      for (SchedValueId v : values) out.push_back({kind, {}, v, {}});
    };
    for (size_t i = 0; i <= order_.size(); ++i) {
      add(SchedAction::Kind::kStore, stores_[i]);
      add(SchedAction::Kind::kDrop, drops_[i]);
      add(SchedAction::Kind::kLoad, loads_[i]);
      for (SchedOpId op : before_[i]) out.push_back(SchedAction::run(op));
      if (i < order_.size()) out.push_back(SchedAction::run(order_[i]));
    }
    return out;
  }

 private:
  struct Move {
    SchedValueId value;
    size_t complete = 0;  // the step before which it can be stored
    size_t last_use = 0;  // the step before which it can be dropped
    size_t need = 0;      // the step before which it must be there
  };

  bool may_rerun(SchedOpId op) const {
    const auto after = graph_.waits_after[op];
    return problem_.ops[op].may_rerun && step_[op] <= cut_ &&
           std::none_of(after.begin(), after.end(),
                        [&](SchedOpId next) { return step_[next] <= cut_; });
  }

  // The step before which the value must be there again after the cut.
  size_t first_need(SchedValueId v) const {
    size_t at = problem_.values[v].is_output ? order_.size() : kNeverRead;
    for (SchedOpId r : problem_.values[v].readers) {
      if (step_[r] > cut_) at = std::min(at, step_[r]);
      at = std::min(at, rerun_before_[r]);
    }
    return at;
  }

  double transfer(SchedValueId v, double bytes_per_second) const {
    const plan::SchedValue& value = problem_.values[v];
    return static_cast<double>(value.moved_parts) * problem_.link->latency_seconds +
           static_cast<double>(value.moved_bytes()) / bytes_per_second;
  }

  void place_stores(std::vector<Move>& moves) {
    std::stable_sort(moves.begin(), moves.end(),
                     [](const Move& a, const Move& b) { return a.complete < b.complete; });
    double link_free = 0;
    for (const Move& move : moves) {
      stores_[move.complete].push_back(move.value);
      link_free = std::max(link_free, begins_[move.complete]) +
                  transfer(move.value, problem_.link->bytes_per_second_out);
      size_t at = move.last_use;
      while (at < cut_ && begins_[at] < link_free) ++at;
      drops_[at].push_back(move.value);
    }
  }

  // The last load first, each so late that it still arrives in time.
  void place_loads(std::vector<Move>& moves) {
    std::stable_sort(moves.begin(), moves.end(),
                     [](const Move& a, const Move& b) { return a.need > b.need; });
    double link_busy = begins_.back();
    size_t latest = order_.size();
    for (const Move& move : moves) {
      link_busy = std::min(link_busy, begins_[move.need]) -
                  transfer(move.value, problem_.link->bytes_per_second_in);
      latest = std::min(latest, move.need);
      while (latest > cut_ + 1 && begins_[latest] > link_busy) --latest;
      loads_[latest].push_back(move.value);
    }
    for (auto& list : loads_) std::reverse(list.begin(), list.end());
  }

  const plan::ScheduleProblem& problem_;
  const StepGraph graph_;
  const std::span<const SchedOpId> order_;
  IdVector<SchedOpId, size_t> step_;
  IdVector<SchedOpId, size_t> rerun_before_;
  std::vector<double> begins_;  // of each step, if nothing is inserted
  std::vector<std::vector<SchedOpId>> before_;
  std::vector<std::vector<SchedValueId>> drops_, loads_, stores_;
  size_t cut_ = 0;
};

}  // namespace

std::optional<std::vector<plan::SchedAction>> plan_from_cut(const plan::ScheduleProblem& problem,
                                                            const CutBoundResult& cut,
                                                            std::span<const SchedOpId> order) {
  if (!cut.feasible) return std::nullopt;
  if (problem.ops.empty()) return std::vector<plan::SchedAction>();
  std::vector<SchedOpId> incoming;
  if (order.empty()) {
    incoming.assign(problem.ops.ids().begin(), problem.ops.ids().end());
    order = incoming;
  }
  PlanBuilder builder(problem, cut.op.value_or(order.back()), order);
  if (cut.op) {
    builder.place_reruns(cut.choice);
    if (problem.link) builder.place_moves(cut.choice);
  }
  return builder.actions();
}

CutChoice mixed_choice(const plan::ScheduleProblem& problem, const CutBoundResult& cut,
                       std::span<const SchedOpId> order) {
  const StepGraph graph(problem);
  const ClosureNetwork net(graph, *cut.op);
  IdVector<SchedOpId, size_t> place(graph.size());
  for (SchedOpId op : place.ids()) place[order.empty() ? op : order[op.index()]] = op.index();
  const auto choice_at = [&](size_t border) {
    std::vector<char> may(graph.size(), 0);
    const auto let = [&](const std::vector<SchedOpId>& ops, bool before) {
      for (SchedOpId op : ops)
        if ((place[op] < border) == before) may[op.index()] = 1;
    };
    let(cut.choice.reruns, true), let(cut.choice.postponed, true);
    let(cut.over.reruns, false), let(cut.over.postponed, false);
    return net.follow(may);
  };
  CutChoice best = cut.choice;
  size_t too_few = 0, enough = graph.size();
  while (enough - too_few > 1) {
    const size_t border = too_few + (enough - too_few) / 2;
    CutChoice choice = choice_at(border);
    const bool fits = choice.stored_bytes <= cut.capacity_bytes;
    (fits ? enough : too_few) = border;
    if (fits && choice.rerun_ticks <= best.rerun_ticks) best = std::move(choice);
  }
  return best;
}

}  // namespace lowtide::remat
