#include "remat/bounds/closure_cut.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "base/work.h"
#include "plan/schedule_simulator.h"

namespace lowtide::remat {
namespace {

// The lines of choices at fixed shares, as functions of the price.
struct Line {
  double at_zero = 0, slope = 0;
  double at(double price) const { return at_zero + slope * price; }
};

// All that is known about one op: choices seen, and the best bound.
class OpBound {
 public:
  OpBound(const StepGraph& graph, SchedOpId op)
      : graph_(graph),
        net_(graph, op),
        capacity_(*graph.problem->budget_bytes - net_.fixed_bytes()) {}

  bool binds() const { return net_.needed_bytes() > capacity_; }
  int64_t work() const { return net_.work(); }
  int64_t cuts() const { return cuts_; }

  // Whether choices made elsewhere show that the op cannot prove more than that, and that something
  // fits: as far as their lines show it, for they need no cut.
  bool is_idle(const std::vector<CutChoice>& carried, int64_t proven_ticks) const {
    if (capacity_ < 0 || carried.empty() || graph_.problem->link) return false;
    std::vector<CutChoice> seen(1);  // nothing runs again: all that is needed stays
    seen.front().stored_bytes = net_.needed_bytes();
    for (const CutChoice& choice : carried) seen.push_back(net_.follow(runs_of(choice), false));
    const bool fits = std::any_of(seen.begin(), seen.end(), [&](const CutChoice& choice) {
      return choice.stored_bytes <= capacity_;
    });
    if (!fits) return false;
    const auto proven = static_cast<double>(proven_ticks);
    return top(lines(seen, {})).second < proven - kClosureCut.same_line * proven - 1;
  }

  // False if nothing fits at all; what needs least is known then.
  bool begin() {
    if (capacity_ < 0) return false;
    CutChoice least;
    if (graph_.problem->link) {
      least = net_.follow(std::vector<char>(graph_.size(), 0));  // everything moves
      least.moved.swap(least.stored);
      least.load_bytes = least.store_bytes = least.stored_bytes;
      least.stored_bytes = 0;
    } else if (net_.least_bytes(least) > capacity_) {
      choices_.push_back(std::move(least));
      return false;
    }
    choices_.push_back(net_.follow(std::vector<char>(graph_.size(), 0)));
    choices_.push_back(std::move(least));
    return true;
  }

  // A choice made elsewhere, here.
  void carry_over(const CutChoice& choice) { choices_.push_back(net_.follow(runs_of(choice))); }

  // No price proves more than this at these shares, as far as the lines seen tell.
  double at_most(const CutPrices& shares) const {
    const auto [price, value] = top(lines(choices_, shares));
    return value;
  }

  // Finds the best price at these shares.
  void improve(CutPrices prices, double tolerance, WorkBudget& work) {
    for (int step = 0; step < kClosureCut.most_steps && !work.exhausted(); ++step) {
      const auto [price, value] = top(lines(choices_, prices));
      if (value <= static_cast<double>(best_ticks_) * (1 + tolerance)) return;
      prices.per_byte = static_cast<int64_t>(std::clamp(price * static_cast<double>(kOne), 0.0,
                                                        static_cast<double>(plan::kMostPrice)));
      const int64_t before = net_.work();
      CutChoice choice;
      const int64_t ticks = net_.bound(net_.solve(prices, choice), prices, capacity_);
      ++cuts_;
      work.spend(net_.work() - before);
      if (ticks > best_ticks_) {
        best_ticks_ = ticks;
        prices_ = prices;
      }
      const double below = value - kClosureCut.same_line * std::abs(value) - kClosureCut.same_ticks;
      const bool news = net_.line(choice, prices, capacity_) < below;
      choices_.push_back(std::move(choice));
      if (!news) return;
    }
  }

  void improve_shares(double tolerance, WorkBudget& work) {
    if (!graph_.problem->link) return improve({}, tolerance, work);
    constexpr int64_t kFirst = kOne / kClosureCut.first_shares;
    for (int64_t step = kFirst; step >= kOne / kClosureCut.last_shares; step /= 2) {
      const CutPrices centre = step == kFirst ? CutPrices{.before = 0, .after = 0} : prices_;
      const int64_t least = step == kFirst ? 0 : -kClosureCut.around;
      const int64_t most = step == kFirst ? kClosureCut.first_shares : kClosureCut.around;
      for (int64_t i = least; i <= most; ++i)
        for (int64_t j = least; j <= most; ++j) {
          const CutPrices at{.before = centre.before + i * step, .after = centre.after + j * step};
          if (work.exhausted()) return;
          if (at.before < 0 || at.before > kOne || at.after < 0 || at.after > kOne) continue;
          if (at_most(at) > static_cast<double>(best_ticks_)) improve(at, tolerance, work);
        }
    }
  }

  // Where nothing fits: what needs the fewest bytes beside what is there anyway.
  CutChoice least() const { return choices_.empty() ? CutChoice{} : choices_.front(); }
  int64_t best_ticks() const { return best_ticks_; }
  void set_floor(int64_t ticks) { best_ticks_ = ticks; }
  const CutPrices& prices() const { return prices_; }
  int64_t capacity() const { return capacity_; }
  SchedOpId op() const { return net_.op(); }

  // The two choices that enclose the best price: over the capacity, and within it.
  std::pair<CutChoice, CutChoice> enclosing() const {
    std::pair<const CutChoice*, const CutChoice*> best{nullptr, nullptr};
    const double infinity = std::numeric_limits<double>::infinity();
    double left = infinity, right = infinity;
    for (const CutChoice& choice : choices_) {
      const double value = net_.line(choice, prices_, capacity_);
      const bool over = choice.stored_bytes > capacity_;
      double& least = over ? left : right;
      if (value >= least) continue;
      least = value;
      (over ? best.first : best.second) = &choice;
    }
    return {best.first ? *best.first : CutChoice{}, best.second ? *best.second : CutChoice{}};
  }

 private:
  // By index: the ops that run after this one.
  std::vector<char> runs_of(const CutChoice& choice) const {
    std::vector<char> runs(graph_.size(), 0);
    for (SchedOpId op : choice.reruns) runs[op.index()] = 1;
    for (SchedOpId op : choice.postponed) runs[op.index()] = 1;
    return runs;
  }

  std::vector<Line> lines(const std::vector<CutChoice>& choices, CutPrices shares) const {
    std::vector<Line> lines;
    shares.per_byte = 0;
    for (const CutChoice& choice : choices)
      lines.push_back({net_.line(choice, shares, capacity_),
                       static_cast<double>(choice.stored_bytes - capacity_)});
    return lines;
  }

  // Where the lowest of the lines is highest, for prices >= 0. One line falls or is level.
  static std::pair<double, double> top(const std::vector<Line>& lines) {
    const auto lowest = [&](double price) {
      return *std::min_element(lines.begin(), lines.end(), [&](const Line& a, const Line& b) {
        const double x = a.at(price), y = b.at(price);
        return x < y || (x == y && a.slope < b.slope);
      });
    };
    Line left = lowest(0);
    if (left.slope <= 0) return {0, left.at_zero};
    Line right = *std::min_element(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
      return a.slope < b.slope || (a.slope == b.slope && a.at_zero < b.at_zero);
    });
    for (size_t i = 0;; ++i) {
      const double price = (right.at_zero - left.at_zero) / (left.slope - right.slope);
      const double value = left.at(price);
      const Line low = lowest(price);
      if (i > lines.size() || low.at(price) >= value - 1e-12 * std::abs(value))
        return {price, value};
      (low.slope > 0 ? left : right) = low;
    }
  }

  const StepGraph& graph_;
  ClosureNetwork net_;
  const int64_t capacity_;
  std::vector<CutChoice> choices_;
  int64_t best_ticks_ = 0;
  CutPrices prices_;
  int64_t cuts_ = 0;
};

// Ops by the bytes they need in the order, most first, down to the budget.
std::vector<SchedOpId> binding_ops(const plan::ScheduleProblem& problem,
                                   const plan::ScheduleProfile& profile,
                                   std::span<const SchedOpId> order) {
  std::vector<size_t> steps(order.size());
  std::iota(steps.begin(), steps.end(), size_t{0});
  std::stable_sort(steps.begin(), steps.end(), [&](size_t a, size_t b) {
    return profile.step_bytes[a] > profile.step_bytes[b];
  });
  std::vector<SchedOpId> ops;
  for (size_t step : steps)
    if (profile.step_bytes[step] > *problem.budget_bytes) ops.push_back(order[step]);
  return ops;
}

// What the best op found so far has shown.
void record(const OpBound& bound, CutBoundResult& result) {
  std::tie(result.over, result.choice) = bound.enclosing();
  result.op = bound.op();
  result.prices = bound.prices();
  result.bound_ticks = bound.best_ticks();
  result.capacity_bytes = bound.capacity();
}

// The bound of a schedule that runs each op once.
CutBoundResult nothing_more(const StepGraph& graph) {
  CutBoundResult result;
  result.lower_bound_seconds = graph.bound_seconds(graph.once_ticks);
  return result;
}

}  // namespace

CutBoundResult closure_cut(const plan::ScheduleProblem& given, const ClosureCutOptions& options) {
  plan::ScheduleProblem without_link;
  const bool drop_link = given.link && !options.swap;
  if (drop_link) without_link = given, plan::forbid_transfers(without_link);
  const plan::ScheduleProblem& problem = drop_link ? without_link : given;
  std::vector<SchedOpId> incoming;
  ClosureCutOptions ordered = options;
  if (options.order.empty()) {
    incoming.assign(problem.ops.ids().begin(), problem.ops.ids().end());
    ordered.order = incoming;
  }
  const StepGraph graph(problem);
  const auto profile = plan::simulate(problem, graph, ordered.order);
  LT_CHECK(profile.has_value(), "the order is a valid one");
  return closure_cut(graph, *profile, ordered);
}

CutBoundResult closure_cut(const StepGraph& graph, const plan::ScheduleProfile& profile,
                           const ClosureCutOptions& options) {
  const plan::ScheduleProblem& problem = *graph.problem;
  WorkBudget work(options.limits);
  CutBoundResult result;
  std::vector<CutChoice> carried;
  int64_t tried = 0, idle = 0;
  work.look();
  if (problem.ops.size() + problem.values.size() + problem.residents.size() > plan::kMostTickNodes)
    return nothing_more(graph);
  for (SchedOpId op : binding_ops(problem, profile, options.order)) {
    if (tried >= kClosureCut.most_ops || idle >= options.patience || work.exhausted()) break;
    OpBound bound(graph, op);
    work.spend(bound.work());
    if (!bound.binds()) continue;
    if (bound.is_idle(carried, result.bound_ticks)) {
      ++idle;
      continue;
    }
    if (!bound.begin()) {
      result.feasible = false;
      result.op = op;
      result.capacity_bytes = bound.capacity();
      result.over = bound.least();
      break;
    }
    for (const CutChoice& choice : carried) bound.carry_over(choice);
    bound.set_floor(result.bound_ticks);
    ++idle;
    if (!problem.link && bound.at_most({}) <= static_cast<double>(result.bound_ticks)) continue;
    ++tried;
    bound.improve_shares(options.tolerance, work);
    result.cuts += bound.cuts();
    if (tried <= kClosureCut.others || bound.best_ticks() > result.bound_ticks)
      result.others.push_back(op);
    if (bound.best_ticks() <= result.bound_ticks) continue;
    idle = 0;
    record(bound, result);
    carried = {result.over, result.choice};
  }
  result.bound_seconds = graph.scale.seconds(result.bound_ticks);
  result.lower_bound_seconds = graph.bound_seconds(graph.once_ticks + result.bound_ticks);
  result.work = work.used();
  result.cut_short = work.timed_out();
  return result;
}

}  // namespace lowtide::remat
