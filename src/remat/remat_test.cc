// solve() as a whole: what it promises on captured training steps, that threads do not matter, that
// limits and the cancel flag end it with the best so far, that a start is never made worse. (Held
// against exhaustive search in remat_oracle_test.cc.)
#include "remat/remat.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "plan/remat_text.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/testing/cut_test_problems.h"
#include "remat/testing/ideas.h"

namespace lowtide::remat {
namespace {

using plan::SchedAction;
using plan::ScheduleProblem;
using plan::SolveStatus;

// A chain of `layers` forward ops, a loss, and backward ops that read their layer's activation.
ScheduleProblem chain_training(int layers, int64_t activation, int64_t budget) {
  ScheduleProblem problem;
  const auto op = [&](double seconds) {
    plan::SchedOp made;
    made.seconds = seconds;
    made.may_rerun = true;
    return problem.ops.push_back(std::move(made));
  };
  const auto value = [&](plan::SchedOpId producer, int64_t bytes) {
    plan::SchedValue made;
    made.bytes = bytes;
    made.producer = producer;
    return problem.values.push_back(std::move(made));
  };
  std::vector<plan::SchedValueId> activations;
  for (int i = 0; i < layers; ++i) {
    const auto forward = op(1 + i % 3);
    if (i > 0) problem.values[activations.back()].readers.push_back(forward);
    activations.push_back(value(forward, activation + i % 5));
  }
  auto gradient = value(op(1), activation);
  problem.values[activations.back()].readers.push_back(problem.values[gradient].producer);
  for (int i = layers - 1; i >= 0; --i) {
    const auto backward = op(2);
    problem.values[gradient].readers.push_back(backward);
    problem.values[activations[static_cast<size_t>(i)]].readers.push_back(backward);
    gradient = value(backward, activation);
  }
  problem.budget_bytes = budget;
  return problem;
}

RematOptions quick(int64_t units) {
  RematOptions options;
  options.limits.max_units = units;
  return options;
}

void expect_valid(const ScheduleProblem& problem, const RematOutcome& outcome) {
  ASSERT_FALSE(outcome.sequence.empty());
  const auto profile = plan::simulate_sequence(problem, outcome.sequence);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_EQ(profile->peak_bytes, outcome.peak_bytes);
  EXPECT_LE(outcome.peak_bytes, *problem.budget_bytes);
  EXPECT_EQ(profile->seconds, outcome.seconds);
  EXPECT_GE(outcome.seconds, outcome.lower_bound_seconds * (1 - 1e-9));
}

TEST(Solve, KeepsTheGivenOrderWhereItMayNotReorder) {
  Rng rng(11);
  int kept = 0, with_reruns = 0, open = 0;
  for (int i = 0; i < 200; ++i) {
    plan::RandomSchedule shape;
    shape.min_ops = shape.max_ops = 14;
    ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    const std::vector<plan::SchedOpId> given(problem.ops.ids().begin(), problem.ops.ids().end());
    std::vector<plan::SchedAction> once;
    for (const plan::SchedOpId op : given) once.push_back(plan::SchedAction::run(op));
    const int64_t peak = plan::simulate_sequence(problem, once)->peak_bytes;
    problem.budget_bytes = peak - (i % 4) * peak / 12;
    RematOptions options = quick(200'000);
    options.reorder = false;
    const RematOutcome outcome = solve(problem, options);
    if (i % 4 == 0) {
      EXPECT_EQ(outcome.sequence.size(), given.size()) << "the given order fits";
    }
    if (outcome.sequence.empty()) {
      ++open;
      continue;
    }
    expect_valid(problem, outcome);
    ++kept;
    with_reruns += outcome.sequence.size() > given.size();
    IdVector<plan::SchedOpId, char> ran(problem.ops.size(), 0);
    std::vector<plan::SchedOpId> firsts;
    for (const plan::SchedAction& action : outcome.sequence)
      if (std::exchange(ran[action.op], 1) == 0) firsts.push_back(action.op);
    EXPECT_EQ(firsts, given) << "problem " << i;
  }
  std::printf("%d kept, %d of them with reruns, %d open\n", kept, with_reruns, open);
  EXPECT_GT(kept, 60);
  EXPECT_GT(with_reruns, 10);
}

TEST(Solve, DoesNotSearchWhereThereIsOneSchedule) {
  ScheduleProblem problem = chain_training(40, 100, 1500);
  for (plan::SchedOp& op : problem.ops) op.may_rerun = false;
  RematOptions options = quick(30'000'000);
  options.reorder = options.cut_bound = false;
  const RematOutcome missed = solve(problem, options);
  EXPECT_TRUE(missed.sequence.empty());
  EXPECT_EQ(missed.status, plan::SolveStatus::kLimit);
  EXPECT_EQ(missed.edits, 0);
  EXPECT_LT(missed.work.units, 1'000'000);
  problem.budget_bytes = int64_t{1} << 40;
  EXPECT_EQ(solve(problem, options).sequence.size(), problem.ops.size());
}

TEST(Solve, FitsAChainIntoAThirdOfItsPeak) {
  const ScheduleProblem problem = chain_training(40, 100, 1500);
  ASSERT_TRUE(plan::check(problem));
  const RematOutcome outcome = solve(problem, quick(30'000'000));
  expect_valid(problem, outcome);
  EXPECT_GT(outcome.edits, 1000);
}

TEST(Solve, WithoutABudgetEachOpRunsOnce) {
  ScheduleProblem problem = chain_training(10, 100, 0);
  problem.budget_bytes.reset();
  const RematOutcome outcome = solve(problem);
  EXPECT_EQ(outcome.sequence.size(), problem.ops.size());
  EXPECT_EQ(outcome.seconds, outcome.lower_bound_seconds);
}

TEST(Solve, AnAmpleBudgetIsOptimalAtOnce) {
  const ScheduleProblem problem = chain_training(10, 100, 1 << 20);
  const RematOutcome outcome = solve(problem);
  expect_valid(problem, outcome);
  EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(outcome.edits, 0);
}

TEST(Solve, ABudgetBelowTheResidentsIsInfeasible) {
  ScheduleProblem problem = chain_training(10, 100, 50);
  problem.resident_bytes = 60;
  const RematOutcome outcome = solve(problem, quick(1'000'000));
  EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
  EXPECT_TRUE(outcome.sequence.empty());
}

TEST(Solve, ThreadsDoNotChangeTheAnswer) {
  const ScheduleProblem problem = chain_training(60, 100, 1700);
  RematOptions options = quick(30'000'000);
  const RematOutcome one = solve(problem, options);
  expect_valid(problem, one);
  for (const int threads : {2, 4}) {
    options.threads = threads;
    const RematOutcome many = solve(problem, options);
    EXPECT_EQ(many.sequence, one.sequence) << threads;
    EXPECT_EQ(many.work.units, one.work.units) << threads;
    EXPECT_EQ(many.edits, one.edits) << threads;
  }
}

TEST(Solve, TheUnitLimitHolds) {
  const ScheduleProblem problem = chain_training(60, 100, 1700);
  for (const int64_t units : {int64_t{1}, int64_t{200'000}, int64_t{5'000'000}}) {
    const RematOutcome outcome = solve(problem, quick(units));
    EXPECT_LT(outcome.work.units, units + 2'000'000) << units;
    if (!outcome.sequence.empty()) expect_valid(problem, outcome);
  }
}

TEST(Solve, MoreWorkIsNeverWorse) {
  int better = 0;
  for (const int layers : {12, 30, 60}) {
    const ScheduleProblem problem = chain_training(layers, 100, 500 + 20 * layers);
    RematOutcome before;
    for (int64_t units = 1; units < 100'000'000; units = units * 5 / 2 + 20'000) {
      RematOutcome outcome = solve(problem, quick(units));
      if (!before.sequence.empty()) {
        ASSERT_FALSE(outcome.sequence.empty());
        EXPECT_LE(outcome.seconds, before.seconds) << layers << " layers, " << units << " units";
        better += outcome.seconds < before.seconds;
      }
      before = std::move(outcome);
    }
    expect_valid(problem, before);
  }
  EXPECT_GT(better, 1);
}

TEST(Solve, TheCancelFlagEndsItWithTheBestSoFar) {
  const ScheduleProblem problem = chain_training(60, 100, 1700);
  std::atomic<bool> cancel{false};
  RematOptions options = quick(int64_t{1} << 50);
  options.limits.cancel = &cancel;
  options.limits.max_seconds = 600;
  // Rounds of a limit this large would take days; the flag is set from another thread.
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    cancel = true;
  });
  const RematOutcome outcome = solve(problem, options);
  other.join();
  EXPECT_EQ(outcome.status, SolveStatus::kLimit);
  EXPECT_TRUE(outcome.cut_short);
  EXPECT_FALSE(outcome.work.timed_out);
  expect_valid(problem, outcome);
}

TEST(Solve, ProgressIsToldBetweenRounds) {
  const ScheduleProblem problem = chain_training(60, 100, 1700);
  RematOptions options = quick(20'000'000);
  std::vector<plan::Progress> told;
  options.progress = [&](const plan::Progress& progress) { told.push_back(progress); };
  const RematOutcome outcome = solve(problem, options);
  expect_valid(problem, outcome);
  EXPECT_FALSE(outcome.cut_short);
  ASSERT_GT(told.size(), 2u);
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].budget_bytes, 1700);
    EXPECT_EQ(told[i].lower_bound_seconds, outcome.lower_bound_seconds);
    EXPECT_GE(told[i].share, i == 0 ? 0 : told[i - 1].share);
    EXPECT_LE(told[i].share, 1);
    EXPECT_LE(told[i].peak_bytes, 1700);
    if (i == 0 || told[i - 1].seconds == 0) continue;
    EXPECT_LE(told[i].seconds, told[i - 1].seconds);
  }
  EXPECT_EQ(told.back().seconds, outcome.seconds);
  EXPECT_EQ(told.back().peak_bytes, outcome.peak_bytes);
}

TEST(Solve, AProofIsToldAsItGoesOn) {
  const ScheduleProblem problem = chain_training(60, 100, 1700);
  RematOptions options = quick(5'000'000);
  std::vector<plan::Progress> told;
  options.progress = [&](const plan::Progress& progress) { told.push_back(progress); };
  solve(problem, options);
  for (const plan::Progress& progress : told)
    EXPECT_EQ(progress.stage, plan::SearchStage::kRuns) << plan::name(progress.stage);
  told.clear();
  options.proof_units = 100'000;
  const RematOutcome outcome = solve(problem, options);
  ASSERT_GT(told.size(), 2u);
  EXPECT_EQ(told.front().stage, plan::SearchStage::kRuns);
  int proofs = 0;
  for (size_t i = 1; i < told.size(); ++i) {
    EXPECT_GE(told[i].stage, told[i - 1].stage) << i;
    EXPECT_GE(told[i].share, told[i - 1].share) << i;
    EXPECT_LE(told[i].share, 1) << i;
    EXPECT_GE(told[i].lower_bound_seconds, told[i - 1].lower_bound_seconds) << i;
    if (told[i].stage != plan::SearchStage::kProof) continue;
    ++proofs;
    EXPECT_EQ(told[i].seconds, outcome.seconds) << i;
    EXPECT_EQ(told[i].peak_bytes, outcome.peak_bytes) << i;
  }
  EXPECT_GT(proofs, 1);
  EXPECT_EQ(told.back().lower_bound_seconds, outcome.lower_bound_seconds);
}

TEST(Solve, TheBoundIsAskedForAsWhoClaimsItWants) {
  for (const int64_t budget : {1'700, 2'400, 4'000}) {
    const ScheduleProblem problem = chain_training(60, 100, budget);
    RematOptions options = quick(5'000'000);
    const RematOutcome by_itself = solve(problem, options);
    EXPECT_FALSE(by_itself.bound);
    const std::vector<plan::SchedOpId> order(problem.ops.ids().begin(), problem.ops.ids().end());
    const TimeBoundOptions wanted{.order = order, .given_order_too = true, .multipliers = true};
    options.bound = wanted;
    const RematOutcome outcome = solve(problem, options);
    expect_valid(problem, outcome);
    ASSERT_TRUE(outcome.bound && outcome.bound->several);
    const TimeBound asked = time_bound(problem, wanted);
    EXPECT_EQ(outcome.bound->bound_ticks, asked.bound_ticks);
    EXPECT_EQ(outcome.bound->several->certificate, asked.several->certificate);
    EXPECT_GE(outcome.lower_bound_seconds, by_itself.lower_bound_seconds);
    EXPECT_GE(outcome.lower_bound_seconds, asked.lower_bound_seconds);
    EXPECT_EQ(outcome.sequence, by_itself.sequence) << "the bound takes no more of the work";
  }
}

TEST(Solve, ABoundThatNobodyNeedsIsNotHandedOn) {
  const ScheduleProblem problem = chain_training(10, 100, 1 << 20);
  RematOptions options;
  options.bound = TimeBoundOptions{};
  EXPECT_FALSE(solve(problem, options).bound);
  const ScheduleProblem tight = chain_training(60, 100, 1'700);
  options = quick(1'000'000);
  options.bound = TimeBoundOptions{};
  options.cut_bound = false;
  EXPECT_FALSE(solve(tight, options).bound);
}

TEST(Solve, TheSafetyStopEndsItWithTheBestSoFar) {
  const ScheduleProblem problem = chain_training(60, 100, 1700);
  RematOptions options = quick(int64_t{1} << 50);
  options.limits.max_seconds = 0.7;
  const RematOutcome outcome = solve(problem, options);
  EXPECT_EQ(outcome.status, SolveStatus::kLimit);
  EXPECT_TRUE(outcome.work.timed_out);
  EXPECT_TRUE(outcome.cut_short);
  expect_valid(problem, outcome);
}

TEST(Solve, AKnownOrderLeavesTheWorkToTheSearch) {
  const auto path = captured_steps() / "remat/unet_2.remat";
  auto problem = plan::parse_remat_file(*read_file(path.string()), path.string());
  ASSERT_TRUE(problem.has_value());
  problem->budget_bytes = int64_t{850} << 20;
  RematOptions options;
  const plan::ScheduleOutcome order = least_peak_order(*problem, options);
  ASSERT_EQ(order.sequence.size(), problem->ops.size());
  options.limits.max_units = 40'000'000 + order.work.units;
  const RematOutcome looked_for = solve(*problem, options);
  options.least_peak_order = order.sequence;
  const RematOutcome known = solve(*problem, options);
  EXPECT_LT(looked_for.edits, known.edits);
  expect_valid(*problem, known);
}

TEST(Solve, AStartIsNeverMadeWorse) {
  const ScheduleProblem problem = chain_training(60, 100, 1700);
  const RematOutcome good = solve(problem, quick(30'000'000));
  RematOptions options = quick(300'000);
  options.seed = 5;
  options.starts = {good.sequence, {SchedAction::run(plan::SchedOpId(0))}};  // the second is wrong
  const RematOutcome again = solve(problem, options);
  expect_valid(problem, again);
  EXPECT_LE(again.seconds, good.seconds);
}

// De-remat: a second run of an op right behind the first serves nobody and goes, wherever it is.
// Starts run no op again that nobody reads (here the last), and no change would take that back.
TEST(Solve, AUselessRerunGoes) {
  const ScheduleProblem problem = chain_training(16, 100, 900);
  const RematOutcome good = solve(problem, quick(10'000'000));
  expect_valid(problem, good);
  ASSERT_GT(good.sequence.size(), problem.ops.size());
  RematOptions options = quick(10'000'000);
  options.cut_start = options.order_start = options.greedy_start = options.chain_start = false;
  options.exact_small = false;
  int tried = 0;
  for (size_t at = 4; at + 1 < good.sequence.size(); at += 6) {
    std::vector<SchedAction> start = good.sequence;
    start.insert(start.begin() + static_cast<std::ptrdiff_t>(at) + 1, good.sequence[at]);
    const auto with_it = plan::simulate_sequence(problem, start);
    if (!problem.ops[good.sequence[at].op].may_rerun || !with_it.has_value() ||
        with_it->peak_bytes > *problem.budget_bytes)
      continue;
    ++tried;
    ASSERT_GT(with_it->seconds, good.seconds);
    options.starts = {start};
    const RematOutcome without_it = solve(problem, options);
    expect_valid(problem, without_it);
    EXPECT_LE(without_it.seconds, good.seconds * (1 + 1e-12)) << "rerun at " << at;
  }
  EXPECT_GT(tried, 3);
}

// Of a step of which nothing may move, and of one of which everything may.
TEST(Solve, EveryIdeaCanBeSwitchedOff) {
  ScheduleProblem moving = chain_training(40, 100, 1500);
  moving.link = plan::Link{50, 50, 0.5};
  JointOptions options;
  options.remat.limits.max_units = 20'000'000;
  options.swap.limits.max_units = 1'000'000;
  for (const Idea<JointOptions>& idea : all_ideas()) {
    SCOPED_TRACE(idea.name);
    JointOptions without = options;
    idea.turn(without);
    expect_valid(moving, solve_joint(moving, without));
    const ScheduleProblem still = chain_training(40, 100, 1500);
    const RematOutcome outcome = solve_joint(still, without);
    if (idea.name != "recompute") {
      expect_valid(still, outcome);
    } else {  // there is no other way
      EXPECT_EQ(outcome.status, SolveStatus::kInfeasible);
      EXPECT_TRUE(outcome.sequence.empty());
    }
  }
}

// Layers change their mind at one price, so the cut's own choice that fits is far off, and this
// much work does not mend it.
TEST(Solve, ADeepStepIsNextToItsBound) {
  const DeepStep shape{.layers = 2600};
  ScheduleProblem problem = deep_step(shape);
  problem.budget_bytes = shape.layers * (shape.second_bytes + shape.first_bytes / 2) + 10;
  const auto points = [&](const RematOptions& options) {
    const RematOutcome outcome = solve(problem, options);
    expect_valid(problem, outcome);
    return 100 * (outcome.seconds - outcome.lower_bound_seconds) / once_seconds(problem);
  };
  RematOptions options = quick(10'000'000);
  EXPECT_LT(points(options), 0.01);
  options.mixed_start = false;
  EXPECT_GT(points(options), 0.1);
}

struct Instance {
  const char* name;
  int64_t budget_mib;
  double known_percent;  // extra time that a prototype reached in 10 to 20 seconds
};

class SearchedSteps : public testing::TestWithParam<Instance> {};

// A tenth of the usual work is enough to come within a few percent of what was known.
TEST_P(SearchedSteps, AreSearchedWell) {
  const auto path = captured_steps() / "remat" / (std::string(GetParam().name) + ".remat");
  auto problem = plan::parse_remat_file(*read_file(path.string()), path.string());
  ASSERT_TRUE(problem.has_value());
  problem->budget_bytes = GetParam().budget_mib << 20;
  const RematOutcome outcome = solve(*problem, quick(200'000'000));
  expect_valid(*problem, outcome);
  double once = 0;
  for (const auto& op : problem->ops) once += op.seconds;
  EXPECT_LE((outcome.seconds / once - 1) * 100, GetParam().known_percent * 1.05);
}
INSTANTIATE_TEST_SUITE_P(All, SearchedSteps,
                         testing::Values(Instance{"resnet50_8", 600, 8.99},
                                         Instance{"unet_2", 850, 2.45},
                                         Instance{"gpt2_4x256", 2250, 10.85},
                                         Instance{"gpt24_4x256", 4000, 3.30}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lowtide::remat
