#include "remat/starts/chain_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "remat/search/sequence_state.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct ChainPlanTuning {
  int plans_tried = 6;              // made for one start
  int64_t most_units = 16'000'000;  // of a start
  int64_t units_per_op = 5'000;     // the same, of few ops
  int fewest_grains = 50;           // that bytes are divided into
  int most_grains = 1'000;
  int64_t options = 8;      // of a stage, about
  int64_t table_share = 4;  // of a start's work, the part that one table takes
};
constexpr ChainPlanTuning kChainPlan;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

// The table of the dynamic programming: a row for each stretch of stages, by what is left for it.
// Rows are filled as they are made, and costs lie by themselves: tables have millions of entries.
class ChainTable {
 public:
  ChainTable(const Chain& chain, double bytes, int grains)
      : stages_(chain.stages), grains_(grains), scale_(grains / bytes) {
    const size_t entries = row(0, stages_.size()) * row_size();
    costs_ = std::make_unique_for_overwrite<int64_t[]>(entries);
    choices_ = std::make_unique_for_overwrite<int32_t[]>(entries);
  }

  ChainPlan solve() {
    const size_t n = stages_.size();
    for (size_t length = 0; length < n; ++length)
      for (size_t a = 0; a + length < n; ++a) fill(a, a + length);
    ChainPlan plan;
    plan.units = units_;
    const int64_t all = costs(0, n - 1)[grains_];
    if (all >= kNever) return plan;
    plan.extra_cost = all;
    for (const ChainStage& stage : stages_) plan.extra_cost -= stage.forward_cost;
    write(0, n - 1, grains_, plan.steps);
    return plan;
  }

 private:
  // Of stages a..b, those that end earlier first.
  static size_t row(size_t a, size_t b) { return b * (b + 1) / 2 + a; }
  size_t row_size() const { return static_cast<size_t>(grains_) + 1; }
  int64_t* costs(size_t a, size_t b) { return costs_.get() + row(a, b) * row_size(); }
  // An option, or those of stage a and j - a - 1.
  int32_t* choices(size_t a, size_t b) { return choices_.get() + row(a, b) * row_size(); }

  int grains(double bytes) const {
    return static_cast<int>(std::min(std::ceil(bytes * scale_ - 1e-9), 5e8));
  }
  int input(size_t stage) const { return grains(stages_[stage].input_bytes); }

  void fill(size_t a, size_t b) {
    const ChainStage& stage = stages_[a];
    const int gradient = grains(stages_[b].gradient_bytes);
    int64_t* const here = costs(a, b);
    int32_t* const chosen = choices(a, b);
    std::fill_n(here, row_size(), kNever);
    std::fill_n(chosen, row_size(), -1);
    const auto take = [&](int left, int64_t cost, size_t choice) {
      if (cost < here[left]) here[left] = cost, chosen[left] = static_cast<int32_t>(choice);
    };
    for (size_t o = 0; o < stage.options.size(); ++o) {
      const ChainOption& option = stage.options[o];
      const int need =
          std::max(grains(option.forward_peak) + gradient, grains(option.backward_peak));
      const int kept = a == b ? 0 : grains(option.kept_bytes) + input(a + 1);
      const int64_t cost = stage.forward_cost + option.cost;
      const int64_t* rest = a == b ? nullptr : costs(a + 1, b);
      for (int left = std::max(need, kept); left <= grains_; ++left)
        take(left, cost + (rest == nullptr ? 0 : rest[left - kept]), o);
    }
    // Stages a..j-1 pass on their values and nothing else.
    int pass = 0;
    int64_t cost = 0;
    for (size_t j = a + 1; j <= b; ++j) {
      const int before = j - 1 == a ? 0 : input(j - 1);
      pass = std::max(pass, before + grains(stages_[j - 1].pass_peak) + gradient);
      cost += stages_[j - 1].forward_cost;
      const int given = input(j);
      const int64_t *after = costs(j, b), *first = costs(a, j - 1);
      for (int left = std::max(pass, given); left <= grains_; ++left)
        take(left, cost + after[left - given] + first[left], stage.options.size() + j - a - 1);
    }
    units_ += static_cast<int64_t>(stage.options.size() + b - a) * grains_ / 2;
  }

  // NOLINTNEXTLINE(misc-no-recursion): at most one level for each stage
  void write(size_t a, size_t b, int left, std::vector<ChainStep>& steps) {
    const auto choice = static_cast<size_t>(choices(a, b)[left]);
    const auto& options = stages_[a].options;
    if (choice >= options.size()) {
      const size_t j = choice - options.size() + a + 1;
      for (size_t k = a; k < j; ++k) steps.push_back({k, true, 0});
      write(j, b, left - input(j), steps);
      write(a, j - 1, left, steps);
      return;
    }
    steps.push_back({a, true, 0});
    if (a < b) write(a + 1, b, left - grains(options[choice].kept_bytes) - input(a + 1), steps);
    steps.push_back({a, false, choice});
  }

  const std::vector<ChainStage>& stages_;
  int grains_;
  double scale_;
  std::unique_ptr<int64_t[]> costs_;
  std::unique_ptr<int32_t[]> choices_;
  int64_t units_ = 0;
};

// The runs of a plan: ops that may not rerun only the first time; then those that turn out to be
// good for nothing go.
std::vector<SchedOpId> runs_of(const ActionTable& table, const Chain& chain,
                               const ChainPlan& plan) {
  std::vector<SchedOpId> runs;
  std::vector<char> ran(chain.stages.size(), 0);
  for (const ChainStep& step : plan.steps) {
    const ChainStage& stage = chain.stages[step.stage];
    if (step.forward) {
      for (const SchedOpId op : stage.forward)
        if (ran[step.stage] == 0 || table.may_rerun(op)) runs.push_back(op);
      ran[step.stage] = 1;
    } else {
      const std::vector<SchedOpId>& backward = stage.options[step.option].backward;
      runs.insert(runs.end(), backward.begin(), backward.end());
    }
  }
  return runs;
}

// Is each input born before, and does control allow the runs?
bool is_correct(const ActionTable& table, const std::vector<SchedOpId>& runs) {
  IdVector<SchedOpId, char> ran(table.op_count(), 0);
  for (const SchedOpId op : runs) {
    for (const SchedValueId v : table.reads(op))
      if (ran[table.producer(v)] == 0) return false;
    for (const SchedOpId after : table.after(op))
      if (ran[after] != 0) return false;
    ran[op] = 1;
  }
  std::fill(ran.begin(), ran.end(), 0);
  for (size_t i = runs.size(); i-- > 0;) {
    for (const SchedOpId before : table.before(runs[i]))
      if (ran[before] != 0) return false;
    ran[runs[i]] = 1;
  }
  return true;
}

void remove_useless(SequenceState& state) {
  const Timeline& timeline = state.timeline();
  for (NodeId node = timeline.previous(state.end_node()); node != state.begin_node();) {
    const NodeId previous = timeline.previous(node);
    if (!state.is_useful(node) && state.can_remove(node)) state.remove(node);
    node = previous;
  }
  state.forget_log();
}

int64_t most_units(const ActionTable& table) {
  return std::min<int64_t>(kChainPlan.most_units,
                           kChainPlan.units_per_op * static_cast<int64_t>(table.op_count()));
}

int grains_for(const ActionTable& table, const Chain& chain) {
  const auto n = static_cast<int64_t>(chain.stages.size());
  const int64_t units_of_grain = n * n / 4 * (kChainPlan.options + n / 3) + 1;
  const int64_t units = most_units(table) / kChainPlan.table_share;
  return static_cast<int>(std::clamp<int64_t>(units / units_of_grain, kChainPlan.fewest_grains,
                                              kChainPlan.most_grains));
}

}  // namespace

ChainPlan plan_chain(const Chain& chain, double bytes, int grains) {
  if (chain.stages.empty() || !(bytes > 0) || !std::isfinite(bytes)) return {};
  return ChainTable(chain, bytes, grains).solve();
}

ChainStart chain_start(const ActionTable& table, std::span<const SchedOpId> order) {
  ChainStart start;
  if (!(table.capacity() > 0) || !std::isfinite(table.capacity())) return start;
  const Chain chain = find_chain(table, order);
  start.units = chain.units;
  if (chain.stages.empty()) return start;
  const int grains = grains_for(table, chain);
  const double capacity = table.capacity();
  double bytes = capacity, fits = 0, too_many = 2 * capacity, best_overflow = 0;
  int64_t best_cost = kNever;
  for (int i = 0; i < kChainPlan.plans_tried && start.units < most_units(table); ++i) {
    if (too_many - fits < capacity / grains) break;
    const ChainPlan plan = plan_chain(chain, bytes, grains);
    start.units += plan.units;
    if (plan.steps.empty()) {
      bytes = ((fits = bytes) + too_many) / 2;
      continue;
    }
    const std::vector<SchedOpId> runs = runs_of(table, chain, plan);
    if (!is_correct(table, runs)) return start;
    SequenceState state(table, runs);
    remove_useless(state);
    start.units += state.work();
    const double overflow = state.overflow();
    if (start.sequence.empty() || overflow < best_overflow ||
        (overflow == best_overflow && state.extra_cost() < best_cost)) {
      start.sequence = state.sequence();
      best_overflow = overflow;
      best_cost = state.extra_cost();
    }
    (overflow > 0 ? too_many : fits) = bytes;
    bytes += capacity - state.timeline().peak();
    if (bytes <= fits || bytes >= too_many) bytes = (fits + too_many) / 2;
  }
  return start;
}

}  // namespace lowtide::remat
