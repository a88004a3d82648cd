// The stages of pack.h, in order. All parts of an instance share one arena, so the height is the
// greatest of theirs and so is the bound: a part that fits below the bound of another one is not
// worked on. Capacities are decided one by one:
//
//     bound .......... low ............ height - 1   height
//     refuted: bound rises | open: low rises | fits: height falls
//
// An undecided capacity moves `low`, which steers the bisection, but never the bound.
#include "pack/pack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "base/check.h"
#include "base/work.h"
#include "pack/greedy.h"
#include "pack/instance.h"
#include "pack/list_order.h"
#include "pack/portfolio.h"
#include "pack/stop_signal.h"
#include "pack/tied.h"

namespace lowtide::pack {
namespace {

struct ClassLimits {
  int64_t all;
  int64_t idle;
};

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct PackTuning {
  // For all list heuristics but those that are promised: two fifths of the default work.
  int64_t greedy_units = 800'000'000;
  // Orders by classes of size: units for each item, whatever comes of them and without progress.
  // The search does better on small parts.
  ClassLimits classes_of_few = {1'600, 800};
  ClassLimits classes_of_many = {16'000, 8'000};
  int64_t many = 8192;
  // Many items within this part of the bound are not searched any more: too little is left.
  int64_t near = 4096;
  // Of the bisection once something was undecided, as a part of the bound: each step is a search.
  int64_t fineness = 2048;
  // Work of the first round, and how much more each next one has.
  int64_t least_round = 409'600;
  int64_t round_per_item = 6'400;
  int64_t round_growth = 4;
  // Without a capacity: units for each buffer after which the search ends if neither height nor
  // bound have moved ("When it stops" in the README), and the least of all for small parts.
  int64_t patience = 38'400;
  int64_t patience_of_many = 1'200;  // what comes late is little, and each look is long
  int64_t least_patience = 10'000'000;
  int64_t too_little = 100'000;  // units left of the work: no further round is begun
  // The part of a round's work that one attempt gets: the first, when a capacity is to be decided
  // or when the least height is looked for, and each of the bisection.
  int64_t decision_share = 2, first_share = 3, later_share = 4;
};
constexpr PackTuning kPack;

struct PartResult {
  std::vector<int64_t> offsets;  // by item
  int64_t height = 0;
  int64_t bound = 0;
};

struct Recipe {
  PlainOrder order;
  GreedyFit fit;
  bool promised;  // run on every instance, however many units it takes (pack.h)
};

std::vector<Recipe> recipes(const PackOptions& options) {
  std::vector<Recipe> list;
  const auto add = [&](bool wanted, PlainOrder order) {
    const bool promised = order != PlainOrder::kDuration || list.empty();
    if (wanted && options.first_fit) list.push_back({order, GreedyFit::kFirst, promised});
    if (wanted && options.best_fit) list.push_back({order, GreedyFit::kBest, list.empty()});
  };
  add(options.order_by_start, PlainOrder::kStart);
  add(options.order_by_size, PlainOrder::kSize);
  add(options.order_by_area, PlainOrder::kArea);
  add(options.order_by_duration, PlainOrder::kDuration);
  if (list.empty()) list.push_back({PlainOrder::kStart, GreedyFit::kFirst, true});
  return list;
}

// Solves the parts of one instance against a common target.
class Packer {
 public:
  Packer(const Instance& instance, const PackOptions& options, std::optional<int64_t> capacity)
      : instance_(instance),
        options_(options),
        capacity_(capacity),
        stop_(options.limits),
        greedy_left_(std::min(kPack.greedy_units, options.limits.max_units)) {}

  void run();
  int64_t height() const { return greatest(&PartResult::height); }
  int64_t bound() const { return greatest(&PartResult::bound); }
  bool refuted() const { return capacity_ && bound() > *capacity_; }
  int64_t units() const { return units_; }
  bool timed_out() const { return timed_out_; }
  const std::vector<PartResult>& results() const { return results_; }

 private:
  // A part of this height needs no more work.
  int64_t target() const { return capacity_ ? std::max(*capacity_, bound()) : bound(); }
  int64_t greatest(int64_t PartResult::*field) const {
    int64_t most = 0;
    for (const PartResult& r : results_) most = std::max(most, r.*field);
    return most;
  }
  bool may_be_lower(const PartResult& result);
  bool heuristics_wanted(const PartResult& result);
  void place_in_order(const Part& part, std::span<const int32_t> order, GreedyFit fit,
                      int64_t units, PartResult& result);
  void run_heuristics(const Part& part, PartResult& result);
  void run_class_orders(const Part& part, PartResult& result);
  void improve(const Part& part, PartResult& result, int64_t good_enough);
  bool run_round(Portfolio& portfolio, const Part& part, int64_t target, int64_t end,
                 PartResult& result);
  Verdict attempt(Portfolio& portfolio, const Part& part, int64_t capacity, int64_t units,
                  PartResult& result);

  const Instance& instance_;
  const PackOptions& options_;
  std::optional<int64_t> capacity_;
  StopSignal stop_;
  int64_t greedy_left_;
  int64_t units_ = 0;
  bool timed_out_ = false;
  std::vector<PartResult> results_;
};

// One list heuristic; kept if it is lower than what there was.
void Packer::place_in_order(const Part& part, std::span<const int32_t> order, GreedyFit fit,
                            int64_t units, PartResult& result) {
  const bool first = result.offsets.empty();
  const int64_t height = first ? std::numeric_limits<int64_t>::max() : result.height;
  GreedyResult packed = pack_greedily(part, order, fit, {height, units});
  units_ += packed.units;
  greedy_left_ -= packed.units;
  if (!packed.complete) return;
  result.offsets = std::move(packed.offsets);
  result.height = packed.height;
}

// Whether a list heuristic can still be of use, and there is time for it.
bool Packer::may_be_lower(const PartResult& result) {
  if (stop_.told()) timed_out_ = true;
  return !timed_out_ && result.height > target();
}

// Whether the list heuristics have to go on.
bool Packer::heuristics_wanted(const PartResult& result) {
  return may_be_lower(result) && greedy_left_ > 0;
}

void Packer::run_heuristics(const Part& part, PartResult& result) {
  for (const Recipe& recipe : recipes(options_)) {
    if (!result.offsets.empty() && !may_be_lower(result)) return;
    if (!recipe.promised && greedy_left_ <= 0) continue;
    const int64_t units = recipe.promised ? std::numeric_limits<int64_t>::max() : greedy_left_;
    place_in_order(part, plain_order(part, recipe.order), recipe.fit, units, result);
  }
  if (options_.class_orders && heuristics_wanted(result)) run_class_orders(part, result);
}

void Packer::run_class_orders(const Part& part, PartResult& result) {
  const int64_t n = static_cast<int64_t>(part.items.size());
  const ClassLimits limits =
      n < kPack.many && options_.search ? kPack.classes_of_few : kPack.classes_of_many;
  const int64_t end = units_ + limits.all * n;
  int64_t idle_end = units_ + limits.idle * n;
  ClassOrders orders(part);
  while (heuristics_wanted(result)) {
    const int64_t left = std::min(end, idle_end) - units_;
    if (left <= 0) return;
    const int64_t before = result.height;
    const ClassRecipe recipe = orders.draw();
    place_in_order(part, orders.order(recipe), GreedyFit::kFirst, std::min(left, greedy_left_),
                   result);
    if (result.height == before) continue;
    idle_end = units_ + limits.idle * n;
    orders.set_best(recipe);
  }
}

int64_t height_of(const Part& part, const std::vector<int64_t>& offsets) {
  int64_t height = 0;
  for (const Obstacle& o : part.obstacles) height = std::max(height, o.high);
  for (size_t i = 0; i < offsets.size(); ++i)
    height = std::max(height, offsets[i] + part.items[i].size);
  return height;
}

Verdict Packer::attempt(Portfolio& portfolio, const Part& part, int64_t capacity, int64_t units,
                        PartResult& result) {
  Decision decision = portfolio.decide(capacity, units, stop_);
  units_ += decision.units;
  if (decision.verdict == Verdict::kFits) {
    result.height = height_of(part, decision.offsets);
    result.offsets = std::move(decision.offsets);
  }
  if (decision.verdict == Verdict::kRefuted) result.bound = std::max(result.bound, capacity + 1);
  if (decision.verdict == Verdict::kOpen && stop_.told()) timed_out_ = true;
  return decision.verdict;
}

// Lowers `result` towards `good_enough` (at least its bound). A decision of a given capacity is one
// round with all of the work. To find the least height takes rounds that grow, until that is
// reached, all heights below are refuted or the last rounds have come to nothing.
void Packer::improve(const Part& part, PartResult& result, int64_t good_enough) {
  if (!searchable(part)) return;
  const bool many = options_.class_orders && static_cast<int64_t>(part.items.size()) >= kPack.many;
  if (many && !capacity_ && result.height - good_enough <= good_enough / kPack.near) return;
  Portfolio portfolio(part, options_);
  const int64_t n = static_cast<int64_t>(part.items.size());
  const bool rounds = !capacity_;
  const int64_t patience =
      std::max(kPack.least_patience, (many ? kPack.patience_of_many : kPack.patience) * n);
  int64_t give_up_at = units_ + patience;
  for (int64_t round = std::max(kPack.least_round, kPack.round_per_item * n);;
       round *= kPack.round_growth) {
    const PartResult before = {{}, result.height, result.bound};
    const int64_t limit =
        rounds ? std::min(options_.limits.max_units, give_up_at) : options_.limits.max_units;
    const int64_t end = rounds ? std::min(limit, units_ + round) : limit;
    if (run_round(portfolio, part, std::max(good_enough, result.bound), end, result)) return;
    const int64_t worthwhile = many ? good_enough / kPack.near : 0;
    if (before.height - before.bound - (result.height - result.bound) > worthwhile)
      give_up_at = units_ + patience;
    else if (units_ + kPack.too_little >= limit)
      return;
    if (timed_out_ || units_ >= options_.limits.max_units) return;
  }
}

// Decides `target` first, then bisects from there to the height, each with a share of the work that
// is left until `end`. True if there is nothing left to do.
bool Packer::run_round(Portfolio& portfolio, const Part& part, int64_t target, int64_t end,
                       PartResult& result) {
  int64_t low = target;  // this and below: decided, or given up
  bool undecided = false;
  for (bool first = true; !timed_out_; first = false) {
    const int64_t left = end - units_;
    const int64_t step = undecided ? std::max<int64_t>(1, low / kPack.fineness) : 1;
    if (result.height <= target || refuted()) return true;
    if (left <= 0) return false;
    if (!first && result.height - low <= step) return !undecided;
    const int64_t capacity = first ? target : low + (result.height - low) / 2;
    const int64_t share = left / (!first      ? kPack.later_share
                                  : capacity_ ? kPack.decision_share
                                              : kPack.first_share);
    const Verdict verdict = attempt(portfolio, part, capacity, share + 1, result);
    if (verdict != Verdict::kFits) low = capacity;
    if (verdict == Verdict::kOpen) undecided = true;
  }
  return true;
}

void Packer::run() {
  for (const Part& part : instance_.parts) results_.push_back({{}, 0, part.bound});
  if (refuted()) return;
  for (size_t p = 0; p < instance_.parts.size(); ++p)
    run_heuristics(instance_.parts[p], results_[p]);
  if (!options_.search) return;
  std::vector<size_t> highest_first(results_.size());
  std::iota(highest_first.begin(), highest_first.end(), size_t{0});
  std::stable_sort(highest_first.begin(), highest_first.end(),
                   [this](size_t a, size_t b) { return results_[a].height > results_[b].height; });
  int64_t reached = 0;  // parts that are done: the others need not be lower
  for (size_t p : highest_first) {
    improve(instance_.parts[p], results_[p], std::max(target(), reached));
    reached = std::max(reached, results_[p].height);
    if (refuted()) return;
  }
}

plan::SolveStatus status_of(const Packer& packer, std::optional<int64_t> capacity, bool searched) {
  if (packer.refuted()) return plan::SolveStatus::kInfeasible;
  const bool fits = !capacity || packer.height() <= *capacity;
  if (fits && packer.height() == packer.bound()) return plan::SolveStatus::kOptimal;
  if (fits && (capacity || !searched)) return plan::SolveStatus::kFeasible;
  return plan::SolveStatus::kLimit;
}

// Zero-sized buffers are in no part: at their fixed offset, or at 0.
IdVector<plan::BufferId, int64_t> offsets_in_bytes(const plan::PackProblem& problem,
                                                   const Instance& instance,
                                                   const std::vector<PartResult>& results) {
  IdVector<plan::BufferId, int64_t> offsets(problem.buffers.size(), 0);
  for (plan::BufferId id : problem.buffers.ids())
    offsets[id] = problem.buffers[id].fixed_offset.value_or(0);
  for (size_t p = 0; p < results.size(); ++p)
    for (size_t i = 0; i < results[p].offsets.size(); ++i)
      offsets[instance.parts[p].items[i].id] = results[p].offsets[i] * instance.unit_bytes;
  return offsets;
}

// The highest end among fixed buffers without bytes: the height is no lower.
int64_t empty_fixed_height(const plan::PackProblem& problem) {
  int64_t height = 0;
  for (const plan::Buffer& b : problem.buffers)
    if (b.size_bytes == 0) height = std::max(height, b.fixed_offset.value_or(0));
  return height;
}

}  // namespace

plan::PackOutcome solve_untied(const plan::PackProblem& problem, const PackOptions& options) {
  const WorkBudget clock;
  const Instance instance =
      make_instance(problem, {.gcd_scaling = options.gcd_scaling, .partition = options.partition});
  const int64_t unit = instance.unit_bytes;
  const int64_t empty_height = empty_fixed_height(problem);
  plan::PackOutcome outcome;
  std::optional<int64_t> capacity;
  if (problem.capacity_bytes) capacity = *problem.capacity_bytes / unit;
  Packer packer(instance, options, capacity);
  if (!instance.fixed_clash) packer.run();
  outcome.lower_bound_bytes = std::max(packer.bound() * unit, empty_height);
  outcome.status = status_of(packer, capacity, options.search);
  if (instance.fixed_clash || (problem.capacity_bytes && empty_height > *problem.capacity_bytes))
    outcome.status = plan::SolveStatus::kInfeasible;
  if (outcome.status != plan::SolveStatus::kInfeasible) {
    outcome.offsets = offsets_in_bytes(problem, instance, packer.results());
    outcome.height_bytes = std::max(packer.height() * unit, empty_height);
    if (outcome.height_bytes == outcome.lower_bound_bytes &&
        outcome.status != plan::SolveStatus::kLimit)
      outcome.status = plan::SolveStatus::kOptimal;
  }
  outcome.work = {packer.units(), clock.seconds(), packer.timed_out()};
  return outcome;
}

plan::PackOutcome solve(const plan::PackProblem& problem, const PackOptions& options) {
  LT_CHECK(plan::check(problem).has_value(),
           "pack::solve needs a problem that plan::check accepts");
  return has_ties(problem) ? solve_tied(problem, options) : solve_untied(problem, options);
}

}  // namespace lowtide::pack
