#include "remat/search/portfolio.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <thread>

#include "remat/search/blocks.h"
#include "remat/search/sequence_score.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
// That there are rounds and series at all: row "restarts" of "What each idea is worth".
struct PortfolioTuning {
  static constexpr int kRounds = 3;         // of a series
  int tasks[kRounds] = {4, 2, 1};           // annealing runs of a round
  int survivors[kRounds] = {4, 2, 1};       // of the round before
  int64_t shares[kRounds] = {3, 2, 1};      // of the work of a series
  double hottest = 3e-3;                    // temperature of the first round, in shares of the step
  double cooling = 0.3;                     // of that, from round to round
  double coldest = 2e-5;                    // at the end of each annealing run
  double loose = 0.02;                      // mu at the beginning
  double loose_again = 0.3;                 // the same, from a schedule that fits
  int joining = 2;                          // the round in which the best so far joins
  int64_t first_units_per_run = 1'000;      // of the first series, by runs in the start
  int64_t series_growth = 4;                // of the length, from series to series
  int64_t units_of_series = 1'000'000'000;  // of one at its full length
  int64_t longest_series = 4'000'000'000;   // what they grow to
  int64_t units_of_state = 40;              // to build a state, by runs in it
  int64_t least_units_per_op = 40'000;      // of an annealing run beside others
  double ops_of_scale = 800;                // temperatures are those of so many ops
};
constexpr PortfolioTuning kPortfolio;

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

struct Task {
  const std::vector<SchedOpId>* start = nullptr;
  AnnealOptions options;
  int64_t units_left = 0;  // of all work, when it begins
  uint64_t seed = 1;
  std::optional<Found> found;
  std::vector<SchedOpId> last;  // where it ended
  double overflow = 0;
  int64_t cost = 0, units = 0, edits = 0;
};

// What a run of a round came to. Better ones first.
struct Member {
  int64_t cost = kNone;  // kNone: it does not fit
  double overflow = 0;
  bool is_start = false;
  std::vector<SchedOpId> sequence;
  bool operator<(const Member& other) const {
    return cost != other.cost ? cost < other.cost : overflow < other.overflow;
  }
};

class Portfolio {
 public:
  Portfolio(const ActionTable& table, const PortfolioOptions& options, WorkBudget& clock)
      : table_(table), options_(options), clock_(clock), rng_(options.seed) {
    blocks_.emplace(table, Repeats(table));
    if (blocks_->count() == 0) blocks_.reset();
  }

  PortfolioResult run(const std::vector<std::vector<SchedOpId>>& starts, int64_t bound_cost,
                      const PortfolioReport& report) {
    for (const auto& start : starts) take_start(start);
    bound_cost_ = bound_cost;
    report_ = &report;
    size_t longest = 0;
    for (const auto& start : starts) longest = std::max(longest, start.size());
    if (options_.restarts) {
      int64_t length = kPortfolio.units_of_series;  // down to one that is right for so few runs
      while (length > kPortfolio.series_growth &&
             length > static_cast<int64_t>(longest) * kPortfolio.first_units_per_run)
        length /= kPortfolio.series_growth;
      for (; !done();
           length = std::min(length * kPortfolio.series_growth, kPortfolio.longest_series))
        series(length);
    } else {
      members_ = starts_;
      make_tasks(1, 1, kPortfolio.hottest, units_left());
      round();
    }
    PortfolioResult result;
    if (best_.extra_cost != kNone) {
      result.sequence = best_.sequence;
      result.extra_cost = best_.extra_cost;
    }
    result.units = clock_.used();
    result.edits = edits_;
    result.cut_short = cut_short();
    return result;
  }

 private:
  int64_t ops() const { return static_cast<int64_t>(std::max<size_t>(1, table_.op_count())); }
  bool done() const { return best_.extra_cost <= bound_cost_ || clock_.exhausted() || cut_short(); }
  bool cut_short() const {
    return clock_.timed_out() || options_.limits.stop_after(clock_.seconds());
  }

  int64_t units_left() const {
    return std::max<int64_t>(0, options_.limits.max_units - clock_.used());
  }

  // Rounds that get cooler, of fewer and fewer runs: each goes on from one of the best of the round
  // before. Short ones have fewer rounds.
  void series(int64_t length) {
    const int64_t of_round = kPortfolio.least_units_per_op / 2 * ops();
    const int rounds =
        static_cast<int>(std::clamp<int64_t>(length / of_round, 1, PortfolioTuning::kRounds));
    const int64_t shares =
        std::accumulate(kPortfolio.shares, kPortfolio.shares + rounds, int64_t{0});
    double hot = kPortfolio.hottest;
    members_ = starts_;
    for (int k = 0; k < rounds && !done(); ++k) {
      if (k == kPortfolio.joining && best_.extra_cost != kNone)
        members_.push_back({best_.extra_cost, 0, false, best_.sequence});
      make_tasks(kPortfolio.tasks[k], kPortfolio.survivors[k], hot,
                 length * kPortfolio.shares[k] / shares);
      round();
      if (best_.extra_cost != kNone) hot *= kPortfolio.cooling;
    }
  }

  void round() {
    run_tasks();
    take_results();
    if (*report_)
      (*report_)(best_, static_cast<double>(clock_.used()) /
                            static_cast<double>(std::max<int64_t>(1, options_.limits.max_units)));
  }

  void take_start(const std::vector<SchedOpId>& start) {
    const SequenceScore score = score_of(table_, start);
    const int64_t cost = score.overflow <= 0 ? score.extra_cost : kNone;
    starts_.push_back({cost, score.overflow, true, start});
    if (cost < best_.extra_cost) best_ = {start, cost};
  }

  AnnealOptions anneal_options(double hot, int64_t units) const {
    AnnealOptions options;
    // Where ops are many, each is a smaller share of the step.
    const double scale = std::min(1.0, kPortfolio.ops_of_scale / static_cast<double>(ops()));
    options.hot = hot * scale;
    options.cold = kPortfolio.coldest * scale;
    options.loose = kPortfolio.loose;
    options.units = units;
    options.proposals = options_.proposals;
    options.proposals.blocks = blocks_ ? &*blocks_ : nullptr;
    return options;
  }

  // Tasks from the best `survivors` of the round before; fewer where each would have little work.
  void make_tasks(int count, int survivors, double hot, int64_t units) {
    const int64_t of_task = kPortfolio.least_units_per_op * ops();
    count = static_cast<int>(std::clamp<int64_t>(units / of_task, 1, count));
    std::stable_sort(members_.begin(), members_.end());
    const auto same = [](const Member& a, const Member& b) {
      return a.cost == b.cost && a.overflow == b.overflow;
    };
    members_.erase(std::unique(members_.begin(), members_.end(), same), members_.end());
    if (static_cast<int>(members_.size()) > survivors)
      members_.resize(static_cast<size_t>(survivors));
    tasks_.clear();
    for (int i = 0; i < count; ++i) {
      Task task;
      const Member& member = members_[static_cast<size_t>(i) % members_.size()];
      task.start = &member.sequence;
      task.options = anneal_options(hot, units / count);
      if (!member.is_start && member.cost != kNone) task.options.loose = kPortfolio.loose_again;
      task.seed = rng_.next();
      tasks_.push_back(std::move(task));
    }
  }

  void run_task(Task& task) {
    SequenceState state(table_, *task.start);
    Rng rng(task.seed);
    AnnealResult result =
        anneal(state, task.options, rng, {options_.limits.with_units(task.units_left), &clock_});
    task.found = std::move(result.best);
    task.last = state.sequence();
    task.overflow = state.overflow();
    task.cost = state.extra_cost();
    task.units =
        result.work + kPortfolio.units_of_state * static_cast<int64_t>(task.start->size() + 1);
    task.edits = result.edits;
  }

  // Each does what it would do with more work left, as far as that goes: as if they ran one after
  // another.
  void run_tasks() {
    int64_t left = units_left();
    for (Task& task : tasks_) {
      task.units_left = left;
      left = std::max<int64_t>(0, left - task.options.units);
    }
    const size_t threads =
        std::min(tasks_.size(), static_cast<size_t>(std::max(1, options_.threads)));
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i = next++; i < tasks_.size(); i = next++) run_task(tasks_[i]);
    };
    std::vector<std::thread> helpers;
    for (size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
  }

  void take_results() {
    std::vector<Member> members;
    for (Task& task : tasks_) {
      clock_.spend(task.units);
      edits_ += task.edits;
      if (!task.found) {
        members.push_back({kNone, task.overflow, false, std::move(task.last)});
        continue;
      }
      if (task.found->extra_cost < best_.extra_cost) best_ = *task.found;
      members.push_back({task.found->extra_cost, 0, false, std::move(task.found->sequence)});
    }
    members_ = std::move(members);
  }

  const ActionTable& table_;
  const PortfolioOptions& options_;
  WorkBudget& clock_;
  std::optional<Blocks> blocks_;
  Rng rng_;
  Found best_{{}, kNone};
  std::vector<Member> starts_;
  std::vector<Member> members_;  // of the last round
  std::vector<Task> tasks_;
  int64_t edits_ = 0;
  int64_t bound_cost_ = 0;
  const PortfolioReport* report_ = nullptr;
};

}  // namespace

PortfolioResult search(const ActionTable& table, const std::vector<std::vector<SchedOpId>>& starts,
                       int64_t bound_cost, const PortfolioOptions& options, WorkBudget& clock,
                       const PortfolioReport& report) {
  return Portfolio(table, options, clock).run(starts, bound_cost, report);
}

}  // namespace lowtide::remat
