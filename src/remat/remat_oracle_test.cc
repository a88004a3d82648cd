// Everything here against exhaustive search on random small problems: the search never beats it and
// equals it where it says optimal; bounds and floor never exceed it. The exhaustive search itself
// is held against plain enumeration of sequences.
//
// LOWTIDE_ORACLE_PROBLEMS=100000 tries that many problems instead of the usual few thousand.
#include "remat/bounds/testing/remat_oracle.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "plan/schedule_text.h"
#include "plan/sequence_simulator.h"
#include "plan/sequence_text.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/branch_cut.h"
#include "remat/bounds/closure_cut.h"
#include "remat/bounds/floor.h"
#include "remat/joint.h"
#include "remat/remat.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::ScheduleProblem;
using Sequence = std::vector<SchedAction>;

int problem_count(int usual) {
  const char* text = std::getenv("LOWTIDE_ORACLE_PROBLEMS");
  return text == nullptr ? usual : std::max(1, std::atoi(text));
}

int64_t incoming_peak(const ScheduleProblem& problem) {
  Sequence sequence;
  for (plan::SchedOpId op : problem.ops.ids()) sequence.push_back(SchedAction::run(op));
  return plan::simulate_sequence(problem, sequence)->peak_bytes;
}

// Somewhere between what is possible at all and what needs no thought.
void choose_budget(ScheduleProblem& problem, int64_t least, Rng& rng) {
  const int64_t most = std::max(incoming_peak(problem), least);
  problem.budget_bytes = rng.below(8) == 0 ? least - 1 : rng.between(least, most);
}

std::string shown(const ScheduleProblem& problem, int index) {
  return "problem " + std::to_string(index) + "\n" + plan::print(problem);
}

plan::SchedValue value(int64_t bytes, size_t producer, std::vector<size_t> readers) {
  plan::SchedValue v;
  v.bytes = bytes;
  v.producer = plan::SchedOpId(producer);
  for (size_t r : readers) v.readers.push_back(plan::SchedOpId(r));
  return v;
}

// 0 -> x(8) -> 1 -> y(4) -> 2 -> z(8) -> 3, which reads x, too. Times 3, 1, 1, 1.
ScheduleProblem chain() {
  ScheduleProblem problem;
  for (const double seconds : {3.0, 1.0, 1.0, 1.0}) {
    plan::SchedOp op;
    op.seconds = seconds;
    op.may_rerun = true;
    problem.ops.push_back(op);
  }
  problem.values.push_back(value(8, 0, {1, 3}));
  problem.values.push_back(value(4, 1, {2}));
  problem.values.push_back(value(8, 2, {3}));
  return problem;
}

TEST(RematOracle, KeepsWhatFitsRerunsWhatDoesNotAndMovesWhatIsSlow) {
  ScheduleProblem problem = chain();
  EXPECT_EQ(RematOracle(problem).fastest()->seconds, 6);
  EXPECT_EQ(RematOracle(problem).least_peak()->peak_bytes, 16);
  problem.budget_bytes = 19;
  EXPECT_EQ(RematOracle(problem).fastest()->seconds, 9);
  problem.link = plan::Link{8, 8, 0};
  // x leaves while op 1 runs, and arrives in one second.
  EXPECT_EQ(RematOracle(problem).fastest()->seconds, 7);
  EXPECT_EQ(RematOracle(problem, {.transfers = false}).fastest()->seconds, 9);
  EXPECT_EQ(RematOracle(problem, {.reruns = false}).fastest()->seconds, 7);
  EXPECT_FALSE(RematOracle(problem, {.transfers = false, .reruns = false}).fastest().has_value());
  problem.budget_bytes = 15;
  EXPECT_FALSE(RematOracle(problem).fastest().has_value());
}

// All sequences of at most `longest` actions, by brute force.
class Enumeration {
 public:
  Enumeration(const ScheduleProblem& problem, size_t longest)
      : problem_(problem), longest_(longest) {
    for (plan::SchedOpId op : problem.ops.ids()) alphabet_.push_back(SchedAction::run(op));
    if (!problem.link) return;
    for (plan::SchedValueId v : problem.values.ids())
      for (const SchedAction& a :
           {SchedAction::store(v), SchedAction::drop(v), SchedAction::load(v)})
        alphabet_.push_back(a);
    for (plan::SchedResidentId r : problem.residents.ids())
      for (const SchedAction& a :
           {SchedAction::store(r), SchedAction::drop(r), SchedAction::load(r)})
        alphabet_.push_back(a);
  }

  std::optional<double> fastest() {
    extend();
    return best_;
  }

 private:
  void extend() {
    const auto profile = plan::simulate_sequence(problem_, sequence_);
    if (profile) {
      if (profile->peak_bytes <= *problem_.budget_bytes && (!best_ || profile->seconds < *best_))
        best_ = profile->seconds;
    } else if (profile.error().message.starts_with("action ")) {
      return;  // no longer sequence with this beginning is valid
    }
    if (sequence_.size() == longest_) return;
    for (const SchedAction& action : alphabet_) {
      sequence_.push_back(action);
      extend();
      sequence_.pop_back();
    }
  }

  const ScheduleProblem& problem_;
  const size_t longest_;
  std::vector<SchedAction> alphabet_;
  Sequence sequence_;
  std::optional<double> best_;
};

void compare_with_enumeration(const plan::RandomSchedule& shape, size_t longest, int problems,
                              uint64_t seed) {
  Rng rng(seed);
  int equal = 0;
  for (int i = 0; i < problems; ++i) {
    ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    choose_budget(problem, RematOracle(problem).least_peak()->peak_bytes, rng);
    const auto best = RematOracle(problem).fastest();
    const auto listed = Enumeration(problem, longest).fastest();
    if (listed) {
      ASSERT_TRUE(best.has_value()) << shown(problem, i);
      ASSERT_LE(best->seconds, *listed) << shown(problem, i);
    }
    if (best && best->sequence.size() <= longest) {
      ASSERT_TRUE(listed.has_value()) << shown(problem, i) << print(best->sequence);
      ASSERT_EQ(best->seconds, *listed) << shown(problem, i) << print(best->sequence);
      ++equal;
    }
  }
  EXPECT_GT(equal, problems / 4);
}

TEST(RematOracle, AgreesWithAListOfAllShortSequences) {
  compare_with_enumeration({.min_ops = 2, .max_ops = 4}, 6, 300, 11);
}

TEST(RematOracle, AgreesWithAListOfAllShortSequencesWithTransfers) {
  compare_with_enumeration({.min_ops = 2,
                            .max_ops = 3,
                            .extra_value_rate = 0.05,
                            .link_rate = 1,
                            .resident_rate = 0.15,
                            .moved_parts_rate = 0.3},
                           7, 60, 12);
}

constexpr plan::RandomSchedule kLinked{.min_ops = 2,
                                       .max_ops = 4,
                                       .max_bytes = 5,
                                       .link_rate = 1,
                                       .resident_rate = 0.1,
                                       .moved_parts_rate = 0.3};

// Its answers are schedules that the simulator scores alike.
void check_answers(const plan::RandomSchedule& shape, int problems, uint64_t seed) {
  Rng rng(seed);
  int reran = 0, moved = 0;
  for (int i = 0; i < problems; ++i) {
    ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    const OracleAnswer least = *RematOracle(problem).least_peak();
    const auto least_profile = plan::simulate_sequence(problem, least.sequence);
    ASSERT_TRUE(least_profile.has_value()) << least_profile.error().message << shown(problem, i);
    ASSERT_EQ(least_profile->peak_bytes, least.peak_bytes) << shown(problem, i);
    problem.budget_bytes = least.peak_bytes - 1;
    ASSERT_FALSE(RematOracle(problem).fastest().has_value()) << shown(problem, i);
    choose_budget(problem, least.peak_bytes, rng);
    RematOracle oracle(problem);
    const auto best = oracle.fastest();
    if (!oracle.complete()) continue;
    ASSERT_EQ(best.has_value(), *problem.budget_bytes >= least.peak_bytes);
    if (!best) continue;
    const auto profile = plan::simulate_sequence(problem, best->sequence);
    ASSERT_TRUE(profile.has_value())
        << profile.error().message << shown(problem, i) << print(best->sequence);
    ASSERT_LE(profile->peak_bytes, *problem.budget_bytes) << shown(problem, i);
    ASSERT_EQ(profile->seconds, best->seconds) << shown(problem, i) << print(best->sequence);
    reran += profile->reruns > 0;
    moved += profile->transfer_seconds > 0;
  }
  if (shape.link_rate > 0) {
    EXPECT_GT(moved, problems / 20);
  } else {
    EXPECT_GT(reran, problems / 20);
  }
}

TEST(RematOracle, AnswersAreScheduledAsTheyAreScored) {
  check_answers({}, problem_count(5000), 21);
}

TEST(RematOracle, AnswersAreScheduledAsTheyAreScoredWithTransfers) {
  check_answers(kLinked, problem_count(1000) / 10, 22);  // a thirtieth of a second each
}

// How often a search did well.
struct Tally {
  int feasible = 0, best_found = 0, proven = 0;

  void print(const char* name) const {
    std::printf("%s: %d feasible, best found %d, proven %d\n", name, feasible, best_found, proven);
  }
};

// What solve() says against the best there is (nothing: nothing fits).
void check_outcome(const ScheduleProblem& problem, const RematOutcome& outcome,
                   const std::optional<OracleAnswer>& best, const std::string& context,
                   Tally& tally) {
  if (!best) {
    ASSERT_TRUE(outcome.sequence.empty()) << context;
    ASSERT_TRUE(outcome.status == plan::SolveStatus::kInfeasible ||
                outcome.status == plan::SolveStatus::kLimit);
    return;
  }
  ++tally.feasible;
  ASSERT_NE(outcome.status, plan::SolveStatus::kInfeasible) << context;
  ASSERT_LE(outcome.lower_bound_seconds, best->seconds + 1e-9) << context;
  if (outcome.sequence.empty()) return;
  const auto profile = plan::simulate_sequence(problem, outcome.sequence);
  ASSERT_TRUE(profile.has_value()) << profile.error().message << context;
  ASSERT_LE(profile->peak_bytes, *problem.budget_bytes) << context;
  ASSERT_EQ(profile->peak_bytes, outcome.peak_bytes) << context;
  ASSERT_NEAR(profile->seconds, outcome.seconds, 1e-6) << context;
  ASSERT_GE(profile->seconds, best->seconds - 1e-9) << context;
  tally.best_found += profile->seconds <= best->seconds + 1e-9;
  if (outcome.status != plan::SolveStatus::kOptimal) return;
  ++tally.proven;
  ASSERT_NEAR(profile->seconds, best->seconds, 1e-6) << context;
}

// Without a link.
TEST(RematOracle, SearchAndBoundsKeepWithinItOnRandomProblems) {
  Rng rng(31);
  const int problems = problem_count(5000);
  int exact_bounds = 0, exact_floors = 0;
  Tally exact, search;
  for (int i = 0; i < problems; ++i) {
    ScheduleProblem problem = plan::random_schedule_problem({}, rng);
    const int64_t least = RematOracle(problem).least_peak()->peak_bytes;
    choose_budget(problem, least, rng);
    const std::string context = shown(problem, i);
    const Floor floor = floor_of(problem);
    ASSERT_LE(floor.bytes, least) << context;
    exact_floors += floor.bytes == least;
    const auto best = RematOracle(problem).fastest();
    if (best) {
      const CutBoundResult cut = closure_cut(problem);
      ASSERT_TRUE(cut.feasible) << context;
      ASSERT_LE(cut.lower_bound_seconds, best->seconds + 1e-9) << context;
      const BranchCutResult cases = branch_cut(problem, cut, {.limits = {.max_units = 1'000'000}});
      ASSERT_LE(cases.lower_bound_seconds, best->seconds + 1e-9) << shown(problem, i);
      exact_bounds += cut.lower_bound_seconds > best->seconds - 1e-6;
    }
    RematOptions options;
    options.limits.max_units = 200'000;
    check_outcome(problem, solve(problem, options), best, context, exact);
    options.exact_small = false;
    check_outcome(problem, solve(problem, options), best, context, search);
    if (HasFatalFailure()) return;
  }
  exact.print("exhaustive search");
  search.print("annealing");
  std::printf("%d problems: cut exact %d, floor exact %d\n", problems, exact_bounds, exact_floors);
  EXPECT_GE(exact.best_found, exact.feasible - exact.feasible / 1000);
  EXPECT_GT(exact.proven, exact.feasible * 99 / 100);
  EXPECT_GT(search.best_found, search.feasible * 9 / 10);
  EXPECT_GT(search.proven, search.feasible / 4);
}

// With a link and residents that may move.
TEST(RematOracle, SearchAndBoundsKeepWithinItWithTransfers) {
  Rng rng(41);
  const int problems = problem_count(300);
  int feasible = 0, found = 0, best_found = 0, given_up = 0, exact_bounds = 0, exact_floors = 0;
  for (int i = 0; i < problems; ++i) {
    ScheduleProblem problem = plan::random_schedule_problem(kLinked, rng);
    const int64_t least = RematOracle(problem).least_peak()->peak_bytes;
    choose_budget(problem, least, rng);
    const Floor floor = floor_of(problem);
    ASSERT_LE(floor.bytes, least) << shown(problem, i);
    exact_floors += floor.bytes == least;
    RematOracle oracle(problem);
    const auto best = oracle.fastest();
    given_up += !oracle.complete();
    if (!best || !oracle.complete()) continue;
    ++feasible;
    const CutBoundResult cut = closure_cut(problem);
    ASSERT_TRUE(cut.feasible) << shown(problem, i);
    ASSERT_LE(cut.lower_bound_seconds, best->seconds + 1e-9)
        << shown(problem, i) << print(best->sequence);
    exact_bounds += cut.lower_bound_seconds > best->seconds - 1e-6;
    JointOptions options;
    options.remat.limits.max_units = 200'000;
    const RematOutcome outcome = solve_joint(problem, options);
    ASSERT_NE(outcome.status, plan::SolveStatus::kInfeasible) << shown(problem, i);
    ASSERT_LE(outcome.lower_bound_seconds, best->seconds + 1e-9) << shown(problem, i);
    if (outcome.sequence.empty()) continue;
    ++found;
    const auto profile = plan::simulate_sequence(problem, outcome.sequence);
    ASSERT_TRUE(profile.has_value()) << profile.error().message << shown(problem, i);
    ASSERT_LE(profile->peak_bytes, *problem.budget_bytes) << shown(problem, i);
    ASSERT_GE(profile->seconds, best->seconds - 1e-9) << shown(problem, i);
    best_found += profile->seconds <= best->seconds + 1e-9;
    if (outcome.status == plan::SolveStatus::kOptimal) {
      ASSERT_NEAR(profile->seconds, best->seconds, 1e-6) << shown(problem, i);
    }
  }
  std::printf(
      "%d problems with a link, %d feasible: found %d, best found %d, bound exact %d, "
      "floor exact %d, given up %d\n",
      problems, feasible, found, best_found, exact_bounds, exact_floors, given_up);
  EXPECT_LT(given_up, problems / 20 + 1);
  EXPECT_GT(feasible, problems / 2);
  EXPECT_GT(found, feasible * 19 / 20);
  EXPECT_GT(best_found, feasible * 9 / 10);
  EXPECT_GT(exact_bounds, feasible * 3 / 4);
}

}  // namespace
}  // namespace lowtide::remat
