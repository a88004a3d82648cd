#include "remat/bounds/multi_cut.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "base/work.h"
#include "plan/sequence_simulator.h"
#include "remat/bounds/cut_plan.h"
#include "remat/bounds/cut_segments.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/multi_cut_network.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
// What several cuts are worth: "What each idea is worth", its first paragraph.
struct MultiCutTuning {
  size_t most_cuts = 4;
  size_t peaks = 8;              // of each sequence, around which cuts are tried
  size_t reach = 12, near = 3;   // runs: no higher peak beside one; tried beside it
  size_t finalists = 2;          // of the cuts that were tried, climbed to the end
  double worthwhile = 1.004;     // a further cut must raise the bound by this factor
  double first_price = 0.3;      // of a new cut, as part of the first cut's
  double unit_share = 1.0 / 32;  // a sensible step of a share of the link
  double later = 0.5;  // near a peak: of the most ops behind a cut, what one that is tried has
};
constexpr MultiCutTuning kMultiCut;

// Of the volume algorithm. Factors are of the bound so far.
struct VolumeTuning {
  double first_target = 1.1, least_target = 1e-3;    // the latter of each op once
  double near_target = 0.97, next_target = 1.06;     // so near, it is set anew
  double hope_at_quarter = 0.7, hope_at_half = 0.9;  // of the goal; below, it is given up
  double least_gain = 1.0005;                        // in an eighth of the rounds, likewise
  double first_blend = 0.12, blend_fall = 0.1, least_blend = 0.02;  // of the average
  double rounds_of_fall = 300;
  double faster = 1.1, fastest = 2;     // of the pace, where steps agree
  double slower = 0.7, slowest = 1e-3;  // after so many rounds without gain:
  int64_t idle_rounds = 12;
};
constexpr VolumeTuning kVolume;

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
  double unit_price() const { return unit_price_; }
  std::vector<SchedOpId> cuts() const {
    std::vector<SchedOpId> ops;
    for (size_t i = 0; i < net_.cuts(); ++i) ops.push_back(net_.cut(i));
    return ops;
  }

  // What the closure cut found.
  void start_at(const CutBoundResult& single) {
    LinkShares shares = net_.no_shares();
    if (graph_.link) {
      shares.store[0] = kOne - single.prices.before;
      shares.load[1] = kOne - single.prices.after;
    }
    best_ = net_.start(std::move(shares));
    best_.price[0] = single.prices.per_byte;
    Violations shown;
    ticks_ = net_.solve(best_, shown);
  }

  void set_price(SchedOpId cut, int64_t price) {
    for (size_t i = 0; i < net_.cuts(); ++i)
      if (net_.cut(i) == cut) best_.price[i] = price;
  }

  // Starts from the best of another multi-cut: what a value is worth in a segment holds for both
  // parts that a further cut makes of it.
  void adopt(const Ascent& other) {
    const MultiCutNetwork& old = other.net_;
    best_.credit = other.best_.credit;
    size_t from = 0;  // old cuts passed: the segment of `other`
    for (size_t k = 0; k <= net_.cuts(); ++k) {
      best_.shares.store[k] = other.best_.shares.store[from];
      best_.shares.load[k] = other.best_.shares.load[from];
      if (k == net_.cuts()) break;
      best_.worth[k] = other.best_.worth[from];
      best_.copy[k] = other.best_.copy[from];
      for (SchedValueId v : graph_.problem->values.ids())
        if (!net_.has_worth(k, v)) best_.worth[k][v] = best_.copy[k][v] = 0;
      if (from == old.cuts() || net_.cut(k) != old.cut(from)) continue;
      best_.price[k] = other.best_.price[from];
      ++from;
    }
    for (SchedOpId op : graph_.ticks.ids())
      if (!old.has_credit(op) || !net_.has_credit(op))
        best_.credit[op] = net_.least_cost(op, best_.shares);
  }

  // The volume algorithm. Gives up early where `goal` is out of reach, or nothing is gained; when
  // the work is spent in any case.
  void climb(int64_t rounds, int64_t goal, WorkBudget& budget) {
    const auto solve = [&](const Multipliers& at, Violations& shown) {
      const int64_t before = work(), ticks = net_.solve(at, shown);
      budget.spend(work() - before);
      return ticks;
    };
    Violations now;
    ticks_ = solve(best_, now);
    Violations mean = now;
    double target = std::max(kVolume.first_target * static_cast<double>(ticks_),
                             kVolume.least_target * static_cast<double>(graph_.once_ticks));
    double pace = 1;
    int64_t idle = 0, before = ticks_;
    for (int64_t round = 0; round < rounds; ++round) {
      const double hope = round == rounds / 4   ? kVolume.hope_at_quarter
                          : round == rounds / 2 ? kVolume.hope_at_half
                                                : 0;
      if (static_cast<double>(ticks_) < hope * static_cast<double>(goal)) return;
      if (budget.exhausted()) return;
      if (goal > 0 && round % (rounds / 8 + 1) == rounds / 8) {
        if (static_cast<double>(ticks_) < kVolume.least_gain * static_cast<double>(before)) return;
        before = ticks_;
      }
      const double length = squared(mean);
      if (length <= 0) return;
      const Multipliers next =
          stepped(mean, pace * (target - static_cast<double>(ticks_)) / length);
      const int64_t ticks = solve(next, now);
      const double agreement = product(mean, now);
      blend(mean, now, blend_at(round));
      if (ticks > ticks_) {
        ticks_ = ticks;
        best_ = next;
        idle = 0;
        if (agreement > 0) pace = std::min(kVolume.fastest, pace * kVolume.faster);
        if (static_cast<double>(ticks_) > kVolume.near_target * target)
          target = kVolume.next_target * static_cast<double>(ticks_);
      } else if (++idle % kVolume.idle_rounds == 0) {
        pace = std::max(kVolume.slowest, pace * kVolume.slower);
      }
    }
  }

 private:
  // The part that a round has in the average.
  static double blend_at(int64_t round) {
    const double fall = kVolume.blend_fall * static_cast<double>(round) / kVolume.rounds_of_fall;
    return std::max(kVolume.least_blend, kVolume.first_blend - fall);
  }

  double unit_of(SchedValueId v) const {
    return unit_price_ / static_cast<double>(kOne) *
           static_cast<double>(graph_.problem->values[v].bytes);
  }

  static constexpr double kOneReal = 0x1p20;
  static double part(const std::vector<double>& violations, size_t k) { return violations[k]; }

  double squared(const Violations& v) const { return product(v, v); }
  double product(const Violations& a, const Violations& b) const {
    double sum = 0;
    for (size_t i = 0; i < net_.cuts(); ++i)
      sum += a.price[i] / kOneReal * unit_price_ * (b.price[i] / kOneReal * unit_price_);
    for (size_t k = 0; k < net_.cuts(); ++k)
      for (SchedValueId v : graph_.problem->values.ids())
        if (net_.has_worth(k, v)) {
          const double unit = unit_of(v);
          sum += static_cast<double>(a.worth[k][v] * b.worth[k][v] + a.copy[k][v] * b.copy[k][v]) *
                 unit * unit;
        }
    for (SchedOpId op : graph_.ticks.ids())
      if (net_.has_credit(op)) {
        const double unit = static_cast<double>(graph_.ticks[op]);
        sum += static_cast<double>(a.credit[op] * b.credit[op]) * unit * unit;
      }
    if (!graph_.link) return sum;
    for (size_t k = 0; k <= net_.cuts(); ++k)
      sum += (part(a.store, k) * part(b.store, k) + part(a.load, k) * part(b.load, k)) *
             kMultiCut.unit_share * kMultiCut.unit_share;
    return sum;
  }

  static int64_t changed(int64_t from, double by, int64_t least, int64_t most) {
    const auto furthest = static_cast<double>(plan::kMostPrice);
    const int64_t moved = from + std::llround(std::clamp(by, -furthest, furthest));
    return std::clamp(moved, least, most);
  }
  static int64_t raised(int64_t from, double by, int64_t most = plan::kMostTicks) {
    return changed(from, by, 0, most);
  }

  // The best multipliers, moved along the violations, each in its unit.
  Multipliers stepped(const Violations& v, double step) const {
    Multipliers next = best_;
    for (size_t i = 0; i < net_.cuts(); ++i)
      next.price[i] =
          raised(next.price[i], step * v.price[i] / kOneReal * unit_price_ * unit_price_,
                 plan::kMostPrice);
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
    if (graph_.link) step_link(v, step, next);
    return next;
  }

  void step_link(const Violations& v, double step, Multipliers& next) const {
    for (size_t k = 0; k < net_.cuts(); ++k)
      for (SchedValueId value : graph_.problem->values.ids())
        if (net_.has_worth(k, value)) {
          const double unit = unit_of(value);
          next.copy[k][value] = changed(next.copy[k][value],
                                        step * static_cast<double>(v.copy[k][value]) * unit * unit,
                                        -plan::kMostTicks, plan::kMostTicks);
        }
    const double length = step * kMultiCut.unit_share * kMultiCut.unit_share * kOneReal;
    for (size_t k = 0; k <= net_.cuts(); ++k) {
      int64_t& store = next.shares.store[k];
      int64_t& load = next.shares.load[k];
      store = std::min(kOne, raised(store, length * v.store[k]));
      load = std::min(kOne, raised(load, length * v.load[k]));
      if (store + load <= kOne) continue;
      const int64_t over = store + load - kOne;
      store = std::max<int64_t>(0, store - over / 2);
      load = kOne - store;
    }
  }

  static void blend(Violations& mean, const Violations& now, double share) {
    const auto part = static_cast<float>(share);
    for (size_t i = 0; i < mean.price.size(); ++i)
      mean.price[i] += share * (now.price[i] - mean.price[i]);
    for (size_t k = 0; k < mean.worth.size(); ++k)
      for (SchedValueId v : mean.worth[k].ids()) {
        mean.worth[k][v] += part * (now.worth[k][v] - mean.worth[k][v]);
        mean.copy[k][v] += part * (now.copy[k][v] - mean.copy[k][v]);
      }
    for (size_t k = 0; k < mean.store.size(); ++k) {
      mean.store[k] += share * (now.store[k] - mean.store[k]);
      mean.load[k] += share * (now.load[k] - mean.load[k]);
    }
    for (SchedOpId op : mean.credit.ids())
      mean.credit[op] += part * (now.credit[op] - mean.credit[op]);
  }

  const StepGraph& graph_;
  MultiCutNetwork net_;
  double unit_price_;
  Multipliers best_;
  int64_t ticks_ = 0;
};

// Adds, for each peak of the sequence over the budget, the ops around it that run there for the
// first time, the nearest first; without those that few others wait for, which bound little.
void add_peaks(const StepGraph& graph, const std::vector<plan::SchedAction>& sequence,
               std::vector<std::vector<SchedOpId>>& places) {
  const auto profile = plan::simulate_sequence(*graph.problem, sequence);
  if (!profile) return;
  std::vector<SchedOpId> runs;
  std::vector<int64_t> bytes;  // of each
  std::vector<char> counts;
  IdVector<SchedOpId, char> seen(graph.size(), 0);
  for (size_t i = 0; i < sequence.size(); ++i) {
    if (sequence[i].kind != plan::SchedAction::Kind::kRun) continue;
    runs.push_back(sequence[i].op);
    bytes.push_back(profile->action_bytes[i]);
    counts.push_back(!std::exchange(seen[runs.back()], 1) &&
                     bytes.back() > *graph.problem->budget_bytes);
  }
  const auto window = [&](size_t i, size_t reach) {
    return std::pair(i - std::min(i, reach), std::min(i + reach + 1, runs.size()));
  };
  std::vector<std::pair<int64_t, size_t>> peaks;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [lo, hi] = window(i, kMultiCut.reach);
    bool highest = bytes[i] > *graph.problem->budget_bytes;
    for (size_t j = lo; j < hi; ++j)
      highest &= bytes[i] > bytes[j] || (bytes[i] == bytes[j] && i <= j);
    if (highest) peaks.emplace_back(-bytes[i], i);
  }
  std::sort(peaks.begin(), peaks.end());
  if (peaks.size() > kMultiCut.peaks) peaks.resize(kMultiCut.peaks);
  for (const auto& [height, peak] : peaks) {
    std::vector<int64_t> descendants;
    const auto [lo, hi] = window(peak, kMultiCut.near);
    for (size_t i = lo; i < hi; ++i) {
      const auto side = sides_of(graph, runs[i]);
      descendants.push_back(counts[i] ? std::count(side.begin(), side.end(), Side::kAfter) : 0);
    }
    const int64_t most = *std::max_element(descendants.begin(), descendants.end());
    std::vector<std::pair<size_t, SchedOpId>> near;  // by distance
    for (size_t i = lo; i < hi; ++i)
      if (counts[i] &&
          static_cast<double>(descendants[i - lo]) >= kMultiCut.later * static_cast<double>(most))
        near.emplace_back(std::max(i, peak) - std::min(i, peak), runs[i]);
    std::sort(near.begin(), near.end());
    std::vector<SchedOpId>& ops = places.emplace_back();
    for (const auto& [distance, op] : near) ops.push_back(op);
  }
}

// Where memory may bind beside the cut: where the closure cut saw it bind, too, at the peaks of its
// plan and of the order without reruns, and at the op that needs most by itself.
std::vector<std::vector<SchedOpId>> candidates(const StepGraph& graph, const CutBoundResult& single,
                                               std::span<const SchedOpId> order) {
  std::vector<std::vector<SchedOpId>> places;
  if (const Floor floor = cut_floor(*graph.problem); floor.op.valid()) places.push_back({floor.op});
  for (SchedOpId op : single.others) places.push_back({op});
  if (const auto sequence = plan_from_cut(*graph.problem, single, order))
    add_peaks(graph, *sequence, places);
  std::vector<plan::SchedAction> once;
  for (SchedOpId op : order) once.push_back(plan::SchedAction::run(op));
  if (order.empty())
    for (SchedOpId op : graph.ticks.ids()) once.push_back(plan::SchedAction::run(op));
  add_peaks(graph, once, places);
  return places;
}

// What differs from what is taken where nothing is named.
plan::TimeCutsOf<plan::ProblemIds> certificate_of(const MultiCutNetwork& net, const Multipliers& m,
                                                  const StepGraph& graph) {
  plan::TimeCutsOf<plan::ProblemIds> result;
  for (size_t i = 0; i < net.cuts(); ++i) result.cuts.push_back({net.cut(i), m.price[i]});
  bool shared = false;
  for (size_t k = 0; k < m.shares.store.size(); ++k) {
    result.shares.push_back({m.shares.store[k], m.shares.load[k]});
    shared |= result.shares.back() != plan::LinkShare{};
  }
  if (!shared) result.shares.clear();
  for (SchedOpId op : graph.ticks.ids())
    if (net.has_credit(op) && m.credit[op] != net.least_cost(op, m.shares))
      result.rerun_multipliers.push_back({0, static_cast<int32_t>(op.index()), m.credit[op]});
  for (size_t k = 0; k < net.cuts(); ++k)
    for (SchedValueId v : graph.problem->values.ids()) {
      if (!net.has_worth(k, v)) continue;
      const auto cut = static_cast<int32_t>(k), id = static_cast<int32_t>(v.index());
      if (m.worth[k][v] != 0) result.store_multipliers.push_back({cut, id, m.worth[k][v]});
      if (m.copy[k][v] != 0) result.copy_multipliers.push_back({cut, id, m.copy[k][v]});
    }
  return result;
}

void record(const Ascent& ascent, const StepGraph& graph, MultiCutResult& result) {
  const Multipliers& m = ascent.best();
  const int64_t beyond = std::max<int64_t>(0, ascent.ticks());
  result.bound_ticks = graph.once_ticks + beyond;
  result.bound_seconds = graph.scale.seconds(beyond);
  result.lower_bound_seconds = graph.bound_seconds(result.bound_ticks);
  result.certificate.time = certificate_of(ascent.net(), m, graph);
}

// With one more cut: all places are tried, the better ones longer.
std::unique_ptr<Ascent> best_extension(const StepGraph& graph, const Ascent& from,
                                       const std::vector<std::vector<SchedOpId>>& places,
                                       const MultiCutOptions& options, WorkBudget& work) {
  std::vector<std::unique_ptr<Ascent>> tried;
  std::vector<SchedOpId> ops;
  for (const std::vector<SchedOpId>& place : places)
    for (SchedOpId op : place) {
      const auto cuts = multi_cut_with(graph, from.cuts(), op);
      if (!cuts) continue;
      if (std::find(ops.begin(), ops.end(), op) == ops.end()) ops.push_back(op);
      break;
    }
  const auto climb = [&](Ascent& ascent, int64_t rounds, int64_t goal) {
    if (!work.exhausted()) ascent.climb(rounds, goal, work);
  };
  for (SchedOpId op : ops) {
    if (work.exhausted()) break;
    tried.push_back(std::make_unique<Ascent>(graph, *multi_cut_with(graph, from.cuts(), op),
                                             from.unit_price()));
    tried.back()->adopt(from);
    tried.back()->set_price(op, static_cast<int64_t>(kMultiCut.first_price * from.unit_price()));
    climb(*tried.back(), options.trial_rounds, 0);
  }
  const auto higher = [](const auto& a, const auto& b) { return a->ticks() > b->ticks(); };
  std::stable_sort(tried.begin(), tried.end(), higher);
  std::unique_ptr<Ascent> best;
  for (size_t i = 0; i < std::min(kMultiCut.finalists, tried.size()); ++i) {
    climb(*tried[i], options.final_rounds, std::max(from.ticks(), best ? best->ticks() : 0));
    if (!best || tried[i]->ticks() > best->ticks()) best = std::move(tried[i]);
  }
  return best;
}

std::unique_ptr<Ascent> start_of(const StepGraph& graph, const CutBoundResult& single) {
  auto ascent =
      std::make_unique<Ascent>(graph, std::vector<SchedOpId>{*single.op},
                               static_cast<double>(std::max<int64_t>(1, single.prices.per_byte)));
  ascent->start_at(single);
  return ascent;
}

}  // namespace

MultiCutResult as_several(const plan::ScheduleProblem& problem, const CutBoundResult& single) {
  const StepGraph graph(problem);
  MultiCutResult result;
  record(*start_of(graph, single), graph, result);
  return result;
}

MultiCutResult multi_cut(const plan::ScheduleProblem& problem, const CutBoundResult& single,
                         const MultiCutOptions& options) {
  const StepGraph graph(problem);
  MultiCutResult result;
  result.bound_ticks = graph.once_ticks;
  result.lower_bound_seconds = graph.bound_seconds(graph.once_ticks);
  if (!single.feasible || !single.op) return result;
  std::unique_ptr<Ascent> leader = start_of(graph, single);
  record(*leader, graph, result);
  WorkBudget work(options.limits);
  if (!work.look()) {
    result.cut_short = true;
    return result;
  }
  const auto places = candidates(graph, single, options.order);
  if (problem.link) {  // more about this cut: residents, and both ways of the link on either side
    leader->climb(options.final_rounds, single.bound_ticks, work);
    record(*leader, graph, result);
  }
  while (leader->net().cuts() < kMultiCut.most_cuts) {
    auto next = best_extension(graph, *leader, places, options, work);
    if (!next || static_cast<double>(next->ticks()) <
                     kMultiCut.worthwhile * static_cast<double>(leader->ticks()))
      break;
    leader = std::move(next);
    record(*leader, graph, result);
  }
  result.work = work.used();
  result.cut_short = work.timed_out();
  return result;
}

}  // namespace lowtide::remat
