#include "remat/multi_cut.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "plan/sequence_simulator.h"
#include "remat/cut_plan.h"
#include "remat/floor.h"
#include "remat/multi_cut_network.h"

namespace lowtide::remat {
namespace {

constexpr size_t kCandidates = 6;
constexpr double kWorthwhile = 1.004;  // a further cut must raise the bound by this factor

// Multipliers in units in which a step of one is a sensible one: a price by the first cut's, what
// staying is worth by the bytes at that price, running by the op's time.
class Ascent {
 public:
  Ascent(const StepGraph& graph, std::vector<SchedOpId> cuts, double unit_price)
      : graph_(graph), net_(graph, std::move(cuts)), unit_price_(unit_price) {
    best_ = net_.start();
  }

  int64_t ticks() const { return ticks_; }
  int64_t work() const { return net_.work(); }
  const Multipliers& best() const { return best_; }
  const MultiCutNetwork& net() const { return net_; }

  // Starts from multipliers of some of the cuts: prices by op, the rest where it still has a
  // meaning.
  void set_prices(const std::vector<std::pair<SchedOpId, int64_t>>& prices) {
    for (const auto& [op, price] : prices)
      for (size_t i = 0; i < net_.cuts(); ++i)
        if (net_.cut(i) == op) best_.price[i] = price;
  }

  // The volume algorithm.
  void climb(int64_t rounds) {
    Violations now;
    ticks_ = net_.solve(best_, now);
    Violations mean = now;
    double target =
        std::max(1.1 * static_cast<double>(ticks_), 1e-3 * static_cast<double>(graph_.once_ticks));
    double pace = 1;
    int64_t idle = 0;
    for (int64_t round = 0; round < rounds; ++round) {
      const double length = squared(mean);
      if (length <= 0) return;
      const Multipliers next =
          stepped(mean, pace * (target - static_cast<double>(ticks_)) / length);
      const int64_t ticks = net_.solve(next, now);
      const double agreement = product(mean, now);
      blend(mean, now, std::max(0.02, 0.12 - 0.1 * static_cast<double>(round) / 300));
      if (ticks > ticks_) {
        ticks_ = ticks;
        best_ = next;
        idle = 0;
        if (agreement > 0) pace = std::min(2.0, pace * 1.1);
        if (static_cast<double>(ticks_) > 0.97 * target)
          target = 1.06 * static_cast<double>(ticks_);
      } else if (++idle % 12 == 0) {
        pace = std::max(1e-3, pace * 0.7);
      }
    }
  }

 private:
  double unit_of(SchedValueId v) const {
    return unit_price_ / static_cast<double>(kOne) *
           static_cast<double>(graph_.problem->values[v].bytes);
  }

  static constexpr double kOneReal = 0x1p20;

  double squared(const Violations& v) const { return product(v, v); }
  double product(const Violations& a, const Violations& b) const {
    double sum = 0;
    for (size_t i = 0; i < net_.cuts(); ++i)
      sum += a.price[i] / kOneReal * unit_price_ * (b.price[i] / kOneReal * unit_price_);
    for (size_t k = 0; k < net_.cuts(); ++k)
      for (SchedValueId v : graph_.problem->values.ids())
        if (net_.has_worth(k, v)) {
          const double unit = unit_of(v);
          sum += static_cast<double>(a.worth[k][v] * b.worth[k][v]) * unit * unit;
        }
    for (SchedOpId op : graph_.ticks.ids())
      if (net_.has_credit(op)) {
        const double unit = static_cast<double>(graph_.ticks[op]);
        sum += static_cast<double>(a.credit[op] * b.credit[op]) * unit * unit;
      }
    return sum;
  }

  static int64_t raised(int64_t from, double by) {
    return std::max<int64_t>(0, from + std::llround(std::clamp(by, -0x1p58, 0x1p58)));
  }

  // The best multipliers, moved along the violations, each in its unit.
  Multipliers stepped(const Violations& v, double step) const {
    Multipliers next = best_;
    for (size_t i = 0; i < net_.cuts(); ++i)
      next.price[i] =
          raised(next.price[i], step * v.price[i] / kOneReal * unit_price_ * unit_price_);
    for (size_t k = 0; k < net_.cuts(); ++k)
      for (SchedValueId value : graph_.problem->values.ids())
        if (net_.has_worth(k, value)) {
          const double unit = unit_of(value);
          next.worth[k][value] = raised(
              next.worth[k][value], step * static_cast<double>(v.worth[k][value]) * unit * unit);
        }
    for (SchedOpId op : graph_.ticks.ids())
      if (net_.has_credit(op)) {
        const double unit = static_cast<double>(graph_.ticks[op]);
        next.credit[op] =
            raised(next.credit[op], step * static_cast<double>(v.credit[op]) * unit * unit);
      }
    return next;
  }

  static void blend(Violations& mean, const Violations& now, double share) {
    const auto part = static_cast<float>(share);
    for (size_t i = 0; i < mean.price.size(); ++i)
      mean.price[i] += share * (now.price[i] - mean.price[i]);
    for (size_t k = 0; k < mean.worth.size(); ++k)
      for (SchedValueId v : mean.worth[k].ids())
        mean.worth[k][v] += part * (now.worth[k][v] - mean.worth[k][v]);
    for (SchedOpId op : mean.credit.ids())
      mean.credit[op] += part * (now.credit[op] - mean.credit[op]);
  }

  const StepGraph& graph_;
  MultiCutNetwork net_;
  const double unit_price_;
  Multipliers best_;
  int64_t ticks_ = 0;
};

// Ops that may bind beside the cuts: most over the budget in the plan of the single cut, each the
// highest among its neighbours, and the op that needs most by itself.
std::vector<SchedOpId> candidates(const plan::ScheduleProblem& problem,
                                  const CutBoundResult& single, std::span<const SchedOpId> order) {
  std::vector<SchedOpId> ops;
  if (const Floor floor = floor_of(problem); floor.op.valid()) ops.push_back(floor.op);
  const auto sequence = plan_from_cut(problem, single, order);
  if (!sequence) return ops;
  const auto profile = plan::simulate_sequence(problem, *sequence);
  if (!profile) return ops;
  std::vector<std::pair<int64_t, SchedOpId>> peaks;
  IdVector<SchedOpId, char> seen(problem.ops.size(), 0);
  constexpr size_t kReach = 12;  // actions
  for (size_t i = 0; i < sequence->size(); ++i) {
    const SchedOpId op = (*sequence)[i].op;
    const bool again = seen[op] != 0;
    seen[op] = 1;
    const int64_t bytes = profile->action_bytes[i];
    if (again || bytes <= *problem.budget_bytes) continue;
    const auto from = profile->action_bytes.begin();
    const auto lo = from + static_cast<std::ptrdiff_t>(i - std::min(i, kReach));
    const auto hi = from + static_cast<std::ptrdiff_t>(std::min(i + kReach + 1, sequence->size()));
    if (*std::max_element(lo, hi) == bytes) peaks.emplace_back(-bytes, op);
  }
  std::stable_sort(peaks.begin(), peaks.end());
  for (const auto& [bytes, op] : peaks) ops.push_back(op);
  return ops;
}

// The cuts and `op` in order, or nothing if they are no chain.
std::optional<std::vector<SchedOpId>> with(const StepGraph& graph, std::vector<SchedOpId> cuts,
                                           SchedOpId op) {
  const auto side = sides_of(graph, op);
  size_t at = 0;
  for (SchedOpId cut : cuts) {
    if (side[cut] == Side::kOther || side[cut] == Side::kSelf) return std::nullopt;
    at += side[cut] == Side::kBefore;
  }
  cuts.insert(cuts.begin() + static_cast<std::ptrdiff_t>(at), op);
  return cuts;
}

void record(const Ascent& ascent, const StepGraph& graph, MultiCutResult& result) {
  const Multipliers& m = ascent.best();
  result.bound_seconds = static_cast<double>(ascent.ticks() - 1) / graph.ticks_per_second;
  result.cuts.clear(), result.credits.clear(), result.worths.clear();
  for (size_t i = 0; i < ascent.net().cuts(); ++i)
    result.cuts.emplace_back(ascent.net().cut(i), m.price[i]);
  for (SchedOpId op : graph.ticks.ids())
    if (ascent.net().has_credit(op) && m.credit[op] != graph.ticks[op])
      result.credits.emplace_back(op, m.credit[op]);
  for (size_t k = 0; k < ascent.net().cuts(); ++k)
    for (SchedValueId v : graph.problem->values.ids())
      if (ascent.net().has_worth(k, v) && m.worth[k][v] != 0)
        result.worths.push_back({k, v, m.worth[k][v]});
}

}  // namespace

MultiCutResult multi_cut(const plan::ScheduleProblem& problem, const CutBoundResult& single,
                         const MultiCutOptions& options) {
  const StepGraph graph(problem);
  MultiCutResult result;
  result.ticks_per_second = graph.ticks_per_second;
  for (const plan::SchedOp& op : problem.ops) result.lower_bound_seconds += op.seconds;
  const double once = result.lower_bound_seconds;
  if (!single.feasible || !single.op) return result;
  result.bound_seconds = single.bound_seconds;
  result.cuts = {{*single.op, single.prices.per_byte}};
  int64_t best = single.bound_ticks;
  std::vector<SchedOpId> cuts{*single.op};
  std::vector<std::pair<SchedOpId, int64_t>> prices = result.cuts;
  const double unit = static_cast<double>(std::max<int64_t>(1, single.prices.per_byte));
  std::vector<SchedOpId> tried;
  if (!problem.link) tried = candidates(problem, single, options.order);
  if (tried.size() > kCandidates) tried.resize(kCandidates);
  while (cuts.size() < options.max_cuts) {
    std::optional<Ascent> leader;
    for (SchedOpId op : tried) {
      const auto chain = with(graph, cuts, op);
      if (!chain || result.work > options.max_work) continue;
      Ascent ascent(graph, *chain, unit);
      ascent.set_prices(prices);
      ascent.climb(options.trial_rounds);
      result.work += ascent.work();
      if (!leader || ascent.ticks() > leader->ticks()) leader.emplace(std::move(ascent));
    }
    if (!leader) break;
    const int64_t before = leader->work();
    leader->climb(options.final_rounds);
    result.work += leader->work() - before;
    if (static_cast<double>(leader->ticks()) < kWorthwhile * static_cast<double>(best)) break;
    best = leader->ticks();
    record(*leader, graph, result);
    cuts.clear();
    for (const auto& [op, price] : result.cuts) cuts.push_back(op);
    prices = result.cuts;
  }
  result.lower_bound_seconds = once + result.bound_seconds;
  return result;
}

}  // namespace lowtide::remat
