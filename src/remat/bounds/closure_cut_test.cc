// The bounds against the truth: on small random problems the least time at every budget by
// exhaustive search over what has run and what is present (no link), and the best of many random
// schedules (with one); on captured training steps the known values.
#include "remat/bounds/closure_cut.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <queue>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "plan/remat_text.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/cut_plan.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/multi_cut.h"
#include "remat/bounds/testing/known_bound.h"

namespace lowtide::remat {
namespace {

using plan::RandomSchedule;
using plan::SchedAction;
using plan::ScheduleProblem;

// Dijkstra over (ops that have run, values that are present), for problems without a link.
class Exhaustive {
 public:
  static constexpr double kNever = 1e300;

  explicit Exhaustive(const ScheduleProblem& problem) : problem_(problem) {}

  // The least time within the budget; kNever if there is none.
  double least_seconds(int64_t budget) {
    struct Entry {
      double seconds;
      uint64_t state;
      bool operator>(const Entry& other) const { return seconds > other.seconds; }
    };
    std::map<uint64_t, double> best;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    open.push({0, 0});
    best[0] = 0;
    while (!open.empty()) {
      const Entry at = open.top();
      open.pop();
      if (best[at.state] < at.seconds) continue;
      const uint32_t done = static_cast<uint32_t>(at.state >> 32), present = uint32_t(at.state);
      if (complete(done, present)) return at.seconds;
      for (SchedOpId op : problem_.ops.ids()) {
        if (!can_run(op, done, present)) continue;
        const uint32_t after = present | made(op);
        for (uint32_t keep = after;; keep = (keep - 1) & after) {
          if (bytes(op, present, keep) <= budget) {
            const uint64_t to = uint64_t{done | 1u << op.index()} << 32 | keep;
            const double seconds = at.seconds + problem_.ops[op].seconds;
            const auto [it, fresh] = best.try_emplace(to, seconds);
            if (fresh || seconds < it->second) {
              it->second = seconds;
              open.push({seconds, to});
            }
          }
          if (keep == 0) break;
        }
      }
    }
    return kNever;
  }

 private:
  uint32_t made(SchedOpId op) const {
    uint32_t set = 0;
    for (SchedValueId v : problem_.values.ids())
      if (problem_.values[v].producer == op) set |= 1u << v.index();
    return set;
  }
  bool reads(SchedOpId op, SchedValueId v) const {
    const auto& readers = problem_.values[v].readers;
    return std::binary_search(readers.begin(), readers.end(), op);
  }
  bool complete(uint32_t done, uint32_t present) const {
    for (SchedValueId v : problem_.values.ids())
      if (problem_.values[v].is_output && !(present >> v.index() & 1)) return false;
    return done == (1u << problem_.ops.size()) - 1;
  }
  bool can_run(SchedOpId op, uint32_t done, uint32_t present) const {
    if ((done >> op.index() & 1) && !problem_.ops[op].may_rerun) return false;
    for (SchedValueId v : problem_.values.ids())
      if (reads(op, v) && !(present >> v.index() & 1)) return false;
    for (const auto& [first, second] : problem_.control)
      if ((second == op && !(done >> first.index() & 1)) ||
          (first == op && (done >> second.index() & 1)))
        return false;
    return true;
  }
  // While the op runs; what it does not keep of its inputs it may reuse.
  int64_t bytes(SchedOpId op, uint32_t present, uint32_t keep) const {
    int64_t sum = problem_.resident_bytes + problem_.ops[op].workspace_bytes;
    const uint32_t outputs = made(op);
    for (SchedValueId v : problem_.values.ids()) {
      const uint32_t bit = 1u << v.index();
      if ((outputs & bit) || ((present & bit) && ((keep & bit) || reads(op, v))))
        sum += problem_.values[v].bytes;
    }
    uint32_t used = 0;
    for (const auto& pair : problem_.in_place) {
      const uint32_t in = 1u << pair.input.index(), out = 1u << pair.output.index();
      if (pair.op != op || (keep & in) || (used & (in | out)) ||
          problem_.values[pair.input].is_output ||
          problem_.values[pair.input].bytes != problem_.values[pair.output].bytes)
        continue;
      used |= in | out;
      sum -= problem_.values[pair.input].bytes;
    }
    return sum;
  }

  const ScheduleProblem& problem_;
};

double once_seconds(const ScheduleProblem& problem) {
  double sum = 0;
  for (const auto& op : problem.ops) sum += op.seconds;
  return sum;
}

TEST(ClosureCut, IsNeverAboveTheOptimum) {
  Rng rng(11);
  int64_t positive = 0, tight = 0, infeasible = 0, floors_met = 0;
  for (int i = 0; i < 3000; ++i) {
    RandomSchedule shape{.min_ops = 4, .max_ops = 7};
    if (i % 3 == 1) shape.in_place_rate = 0.7, shape.reader_rate = 0.5;
    if (i % 3 == 2) shape.control_rate = 0.15, shape.rerun_rate = 1, shape.reader_rate = 0.25;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    if (problem.values.size() > 9) continue;
    Exhaustive exhaustive(problem);
    const int64_t floor = floor_of(problem).bytes;
    std::vector<SchedAction> once;
    for (SchedOpId op : problem.ops.ids()) once.push_back(SchedAction::run(op));
    const int64_t top = plan::simulate_sequence(problem, once)->peak_bytes;
    EXPECT_EQ(exhaustive.least_seconds(floor - 1), Exhaustive::kNever) << "problem " << i;
    floors_met += exhaustive.least_seconds(floor) < Exhaustive::kNever;
    for (int64_t budget = floor - 1; budget < top; ++budget) {
      problem.budget_bytes = budget;
      const double least = exhaustive.least_seconds(budget);
      const CutBoundResult cut = closure_cut(problem);
      if (!cut.feasible) {
        ++infeasible;
        EXPECT_EQ(least, Exhaustive::kNever) << "problem " << i << " budget " << budget;
        continue;
      }
      EXPECT_LE(cut.lower_bound_seconds, least) << "problem " << i << " budget " << budget;
      positive += cut.bound_seconds > 0;
      tight += cut.bound_seconds > 0 && cut.lower_bound_seconds > least - 1e-6;
    }
  }
  EXPECT_GT(positive, 500);
  EXPECT_GT(tight, 150);
  EXPECT_GT(infeasible, 500);
  EXPECT_GT(floors_met, 1000);
  RecordProperty("positive", std::to_string(positive) + ", of them optimal " +
                                 std::to_string(tight) + ", infeasible " +
                                 std::to_string(infeasible));
}

// A random valid schedule with reruns and transfers, or nothing.
std::vector<SchedAction> random_sequence(const ScheduleProblem& problem, Rng& rng) {
  std::vector<SchedAction> sequence;
  IdVector<SchedOpId, char> done(problem.ops.size(), 0);
  size_t left = problem.ops.size();
  while (left > 0) {
    const SchedOpId op(rng.below(problem.ops.size()));
    bool ready = !done[op] || (problem.ops[op].may_rerun && rng.below(4) == 0);
    for (SchedValueId v : problem.values.ids()) {
      const auto& readers = problem.values[v].readers;
      ready &= !std::binary_search(readers.begin(), readers.end(), op) ||
               done[problem.values[v].producer];
    }
    for (const auto& [first, second] : problem.control)
      ready &= (second != op || done[first]) && (first != op || !done[second]);
    if (!ready) continue;
    left -= !done[op];
    done[op] = 1;
    sequence.push_back(SchedAction::run(op));
  }
  return sequence;
}

// Inserts moves at random, as long as the schedule stays valid.
void add_moves(const ScheduleProblem& problem, std::vector<SchedAction>& sequence, Rng& rng) {
  const auto insert = [&](std::vector<size_t> places, SchedAction what, bool resident) {
    std::vector<SchedAction> tried = sequence;
    using Kind = SchedAction::Kind;
    const Kind kinds[] = {Kind::kStore, Kind::kDrop, Kind::kLoad};
    for (size_t k = 3; k-- > 0;) {
      if (resident && places[k] == ~size_t{0}) continue;
      what.kind = kinds[k];
      tried.insert(tried.begin() + static_cast<std::ptrdiff_t>(places[k]), what);
    }
    if (plan::simulate_sequence(problem, tried)) sequence = tried;
  };
  for (int i = 0; i < 12; ++i) {
    SchedAction what;
    std::vector<size_t> places(3);
    for (size_t& p : places) p = rng.below(sequence.size() + 1);
    std::sort(places.begin(), places.end());
    if (!problem.residents.empty() && rng.below(3) == 0) {
      what.resident = SchedResidentId(rng.below(problem.residents.size()));
      // Its home becomes the slow tier: a load, and a store and drop if it is written.
      if (problem.residents[what.resident].writers.empty()) {
        places = {~size_t{0}, ~size_t{0}, places[0]};
        insert(places, what, true);
      } else {
        std::vector<SchedAction> tried = sequence;
        what.kind = SchedAction::Kind::kDrop;
        tried.insert(tried.begin() + static_cast<std::ptrdiff_t>(places[2]), what);
        what.kind = SchedAction::Kind::kStore;
        tried.insert(tried.begin() + static_cast<std::ptrdiff_t>(places[1]), what);
        what.kind = SchedAction::Kind::kLoad;
        tried.insert(tried.begin() + static_cast<std::ptrdiff_t>(places[0]), what);
        if (plan::simulate_sequence(problem, tried)) sequence = tried;
      }
    } else if (!problem.values.empty()) {
      what.value = SchedValueId(rng.below(problem.values.size()));
      insert(places, what, false);
    }
  }
}

TEST(ClosureCut, IsNeverAboveAScheduleThatMoves) {
  Rng rng(12);
  int64_t checked = 0, positive = 0, moved = 0, close = 0;
  for (int i = 0; i < 2500; ++i) {
    RandomSchedule shape{.min_ops = 3, .max_ops = 6, .link_rate = 1, .resident_rate = 0.3};
    shape.reader_rate = 0.5;
    shape.moved_parts_rate = 0.2;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    if (i % 2) problem.link->bytes_per_second_in *= 3, problem.link->bytes_per_second_out *= 3;
    if (i % 3) problem.link->latency_seconds = 0;
    const int64_t floor = floor_of(problem).bytes;
    std::map<int64_t, double> fastest;  // by peak
    for (int k = 0; k < 60; ++k) {
      std::vector<SchedAction> sequence = random_sequence(problem, rng);
      if (k % 4) add_moves(problem, sequence, rng);
      const auto profile = plan::simulate_sequence(problem, sequence);
      ASSERT_TRUE(profile.has_value()) << profile.error().message;
      const auto [it, fresh] = fastest.try_emplace(profile->peak_bytes, profile->seconds);
      it->second = std::min(it->second, profile->seconds);
      moved += profile->loaded_bytes > 0;
    }
    EXPECT_GE(fastest.begin()->first, floor) << "problem " << i;
    double least = 1e300;
    for (const auto& [peak, seconds] : fastest) {
      if (seconds >= least) continue;
      least = seconds;
      problem.budget_bytes = peak;
      const CutBoundResult cut = closure_cut(problem);
      ++checked;
      EXPECT_TRUE(cut.feasible) << "problem " << i << " budget " << peak;
      EXPECT_LE(cut.lower_bound_seconds, seconds) << "problem " << i << " budget " << peak;
      positive += cut.bound_seconds > 0;
      close += cut.bound_seconds > 0 && cut.lower_bound_seconds > 0.9 * seconds;
    }
  }
  EXPECT_GT(positive, 120);
  EXPECT_GT(moved, 5000);
  RecordProperty("checked", std::to_string(checked) + ", positive " + std::to_string(positive) +
                                ", close " + std::to_string(close));
}

// A flag that is up, or no time at all: what is given back is proven, if little.
TEST(ClosureCut, StopsWhenItIsTold) {
  Rng rng(29);
  const std::atomic<bool> stop = true;
  int bounds = 0;
  for (int i = 0; i < 50; ++i) {
    RandomSchedule shape{.min_ops = 60, .max_ops = 60, .reader_rate = 0.05, .rerun_rate = 1};
    ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    problem.link.reset();
    problem.budget_bytes = std::max(floor_of(problem).bytes, int64_t{1});
    const CutBoundResult whole = closure_cut(problem);
    bounds += whole.bound_seconds > 0;
    ClosureCutOptions told, late;
    told.limits.cancel = &stop;
    late.limits.max_seconds = 0;
    for (const ClosureCutOptions& options : {told, late}) {
      const CutBoundResult none = closure_cut(problem, options);
      EXPECT_TRUE(none.cut_short);
      EXPECT_EQ(none.cuts, 0);
      EXPECT_TRUE(none.feasible);
      EXPECT_LE(none.lower_bound_seconds, whole.lower_bound_seconds);
    }
    MultiCutOptions several;
    several.limits.cancel = &stop;
    const MultiCutResult same = multi_cut(problem, whole, several);
    if (!whole.op) continue;
    EXPECT_TRUE(same.cut_short);
    EXPECT_DOUBLE_EQ(same.lower_bound_seconds, whole.lower_bound_seconds);
  }
  EXPECT_GT(bounds, 10);
}

TEST(ClosureCut, PlansFromCutsAreValidAndFitWhereTheOpRuns) {
  Rng rng(13);
  int64_t plans = 0, within = 0;
  for (int i = 0; i < 3000; ++i) {
    RandomSchedule shape{.min_ops = 5, .max_ops = 14};
    shape.link_rate = i % 2 ? 0.5 : 0;
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    std::vector<SchedAction> once;
    for (SchedOpId op : problem.ops.ids()) once.push_back(SchedAction::run(op));
    const int64_t top = plan::simulate_sequence(problem, once)->peak_bytes;
    const int64_t floor = floor_of(problem).bytes;
    problem.budget_bytes = floor + (top - floor) / 2;
    const CutBoundResult cut = closure_cut(problem);
    const auto sequence = plan_from_cut(problem, cut);
    ASSERT_EQ(sequence.has_value(), cut.feasible);
    if (!sequence) continue;
    const auto profile = plan::simulate_sequence(problem, *sequence);
    ASSERT_TRUE(profile.has_value()) << "problem " << i << ": " << profile.error().message;
    ++plans;
    within += profile->peak_bytes <= *problem.budget_bytes;
  }
  EXPECT_GT(plans, 1000);
  EXPECT_GT(within, plans / 3);
  RecordProperty("plans", std::to_string(plans) + ", within the budget " + std::to_string(within));
}

std::filesystem::path instance(const std::string& name) {
  return captured_steps() / "remat" / (name + ".remat");
}

class CapturedSteps : public testing::TestWithParam<KnownBound> {};

TEST_P(CapturedSteps, HaveTheKnownBound) {
  const auto path = instance(GetParam().name);
  auto problem = plan::parse_remat_file(read_file(path.string()).value(), path.string());
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  problem->budget_bytes = GetParam().budget_mib << 20;
  const CutBoundResult cut = closure_cut(*problem);
  ASSERT_TRUE(cut.feasible);
  EXPECT_NEAR(100 * cut.bound_seconds / once_seconds(*problem), GetParam().percent, 0.01);
  EXPECT_LT(cut.work, 5'000'000);
  const auto sequence = plan_from_cut(*problem, cut);
  ASSERT_TRUE(sequence.has_value());
  EXPECT_TRUE(plan::simulate_sequence(*problem, *sequence).has_value());
}
INSTANTIATE_TEST_SUITE_P(
    All, CapturedSteps,
    testing::Values(KnownBound{"gpt2_4x256", 2250, 10.74}, KnownBound{"gpt2_4x256", 2150, 14.63},
                    KnownBound{"gpt2_4x256", 2100, 16.74}, KnownBound{"gpt24_4x256", 3600, 9.32},
                    KnownBound{"gpt24_4x256", 3362, 14.73}, KnownBound{"gpt24_4x256", 3200, 18.45},
                    KnownBound{"resnet50_8", 600, 8.43}, KnownBound{"resnet50_8", 500, 13.32},
                    KnownBound{"resnet50_8", 450, 15.89}, KnownBound{"unet_2", 850, 2.32},
                    KnownBound{"unet_2", 650, 5.95}, KnownBound{"unet_2", 600, 8.24}),
    [](const auto& test) {
      return std::string(test.param.name) + "_" + std::to_string(test.param.budget_mib);
    });

}  // namespace
}  // namespace lowtide::remat
