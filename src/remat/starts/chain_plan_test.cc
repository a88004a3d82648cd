// The chain of a step and the dynamic programming over it: against a search through all plans of
// the same kind, against the known number of steps that revolve takes, and its runs against the
// simulator and against exhaustive search.
#include "remat/starts/chain_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/file.h"
#include "base/rng.h"
#include "base/testing/test_data.h"
#include "plan/remat_text.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/search/by_states.h"
#include "remat/search/testing/incoming.h"

namespace lowtide::remat {
namespace {

using plan::ScheduleProblem;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

// Layers of forward ops, each made of two; the inner value of a layer is read by its backward op,
// and so is the layer's input.
ScheduleProblem layers(int count, Rng& rng) {
  ScheduleProblem problem;
  const auto op = [&](bool may_rerun) {
    plan::SchedOp made;
    made.seconds = static_cast<double>(rng.between(1, 5));
    made.may_rerun = may_rerun;
    return problem.ops.push_back(std::move(made));
  };
  const auto value = [&](plan::SchedOpId producer) {
    plan::SchedValue made;
    made.bytes = rng.between(1, 10) * 100;
    made.producer = producer;
    return problem.values.push_back(std::move(made));
  };
  const auto read = [&](plan::SchedValueId v, plan::SchedOpId reader) {
    problem.values[v].readers.push_back(reader);
  };
  std::vector<plan::SchedValueId> inner, passed{value(op(true))};
  for (int i = 0; i < count; ++i) {
    const auto first = op(true);
    read(passed.back(), first);
    inner.push_back(value(first));
    const auto second = op(true);
    read(inner.back(), second);
    passed.push_back(value(second));
  }
  auto gradient_op = op(false);
  read(passed.back(), gradient_op);
  auto gradient = value(gradient_op);
  for (int i = count - 1; i >= 0; --i) {
    const auto backward = op(false);
    read(gradient, backward);
    read(inner[static_cast<size_t>(i)], backward);
    read(passed[static_cast<size_t>(i)], backward);
    gradient = value(backward);
  }
  return problem;
}

std::optional<plan::SequenceProfile> profile_of(const ScheduleProblem& problem,
                                                const std::vector<SchedOpId>& runs) {
  const auto profile = plan::simulate_sequence(problem, actions_of(runs));
  if (!profile) return std::nullopt;
  return *profile;
}

// Sizes are whole numbers, so that units can be bytes.
Chain random_chain(Rng& rng) {
  Chain chain;
  const auto draw = [&](int64_t low, int64_t high) { return rng.between(low, high); };
  const auto bytes = [&](int64_t high) { return static_cast<double>(draw(0, high)); };
  for (int64_t left = draw(2, 6), k = 0; k < left; ++k) {
    ChainStage stage;
    if (k > 0) stage.input_bytes = bytes(5) + 1;
    stage.forward_cost = draw(1, 9);
    stage.pass_peak = bytes(6);
    stage.gradient_bytes = k + 1 < left ? bytes(2) : 0;
    for (int64_t options = draw(1, 3), o = 0; o < options; ++o)
      stage.options.push_back({o * draw(1, 4), bytes(9), bytes(9), bytes(9), {}});
    chain.stages.push_back(std::move(stage));
  }
  return chain;
}

// The least cost of stages a..b, by trying everything.
int64_t least(const Chain& chain, size_t a, size_t b, double left) {
  if (left < 0) return kNever;
  const ChainStage& stage = chain.stages[a];
  const double gradient = chain.stages[b].gradient_bytes;
  int64_t best = kNever;
  for (const ChainOption& option : stage.options) {
    if (option.forward_peak + gradient > left || option.backward_peak > left) continue;
    const int64_t rest =
        a == b ? 0
               : least(chain, a + 1, b, left - option.kept_bytes - chain.stages[a + 1].input_bytes);
    best = std::min(best, stage.forward_cost + option.cost + rest);
  }
  int64_t cost = 0;
  for (size_t j = a + 1; j <= b; ++j) {
    const ChainStage& passed = chain.stages[j - 1];
    const double before = j - 1 == a ? 0 : passed.input_bytes;
    if (before + passed.pass_peak + gradient > left) break;
    cost += passed.forward_cost;
    best = std::min(best, cost + least(chain, j, b, left - chain.stages[j].input_bytes) +
                              least(chain, a, j - 1, left));
  }
  return best;
}

TEST(ChainPlan, IsTheBestOfAllPlans) {
  Rng rng(5);
  int possible = 0;
  for (int round = 0; round < 2'000; ++round) {
    const Chain chain = random_chain(rng);
    const auto bytes = static_cast<int>(rng.between(1, 40));
    int64_t once = 0;
    for (const ChainStage& stage : chain.stages) once += stage.forward_cost;
    const int64_t best = least(chain, 0, chain.stages.size() - 1, bytes);
    const ChainPlan plan = plan_chain(chain, bytes, bytes);
    ASSERT_EQ(plan.steps.empty(), best >= kNever) << round;
    if (plan.steps.empty()) continue;
    ASSERT_EQ(plan.extra_cost + once, best) << round;
    int64_t cost = 0;
    for (const ChainStep& step : plan.steps) {
      const ChainStage& stage = chain.stages[step.stage];
      cost += step.forward ? stage.forward_cost : stage.options[step.option].cost;
    }
    ASSERT_EQ(cost, best) << round;
    ++possible;
  }
  EXPECT_GT(possible, 500);
}

int64_t choose(int64_t n, int64_t k) {
  int64_t result = 1;
  for (int64_t i = 1; i <= k; ++i) result = result * (n - k + i) / i;
  return result;
}

// Griewank and Walther: of a chain of equal steps of which s values are kept at once, r * steps -
// C(s + r, r - 1) are run again, r the least with C(s + r, s) >= steps.
TEST(ChainPlan, TakesAsManyStepsAsRevolve) {
  for (int64_t steps = 1; steps <= 25; ++steps) {
    for (int64_t kept = 1; kept <= 5; ++kept) {
      Chain chain;
      for (int64_t i = 0; i < steps; ++i) {
        ChainStage stage;
        stage.input_bytes = i > 0 ? 1 : 0;
        stage.forward_cost = 1;
        stage.options.push_back({0, 1000, 0, 0, {}});
        chain.stages.push_back(std::move(stage));
      }
      int64_t r = 0;
      while (choose(kept + r, kept) < steps) ++r;
      const int64_t expected = r * steps - (r > 0 ? choose(kept + r, r - 1) : 0);
      const auto bytes = static_cast<int>(kept);
      const ChainPlan plan = plan_chain(chain, bytes, bytes);
      EXPECT_EQ(plan.extra_cost, expected) << steps << " steps, " << kept << " values";
    }
  }
}

TEST(Chain, EachOpStandsInOnePlace) {
  Rng rng(6);
  for (int count = 3; count < 60; count += 7) {
    ScheduleProblem problem = layers(count, rng);
    problem.budget_bytes = 20'000;
    const std::vector<SchedOpId> order = incoming(problem);
    const Chain chain = find_chain(ActionTable(problem), order);
    ASSERT_GE(chain.stages.size(), 3U) << count;
    ASSERT_LE(chain.stages.size(), 41U) << count;
    std::vector<SchedOpId> forward, backward;
    for (const ChainStage& stage : chain.stages) {
      forward.insert(forward.end(), stage.forward.begin(), stage.forward.end());
      for (size_t i = stage.backward.size(); i-- > 0;) backward.push_back(stage.backward[i]);
      ASSERT_FALSE(stage.options.empty());
      EXPECT_EQ(stage.options.front().cost, 0);
      EXPECT_EQ(stage.options.front().backward, stage.backward);
      for (size_t o = 1; o < stage.options.size(); ++o) {
        EXPECT_GE(stage.options[o].cost, stage.options[o - 1].cost);
        EXPECT_LE(stage.options[o].kept_bytes, stage.options[o - 1].kept_bytes);
        std::vector<SchedOpId> reruns, rest;
        for (const SchedOpId op : stage.options[o].backward)
          (std::ranges::binary_search(stage.forward, op) ? reruns : rest).push_back(op);
        EXPECT_EQ(rest, stage.backward);
        std::ranges::sort(reruns);
        EXPECT_TRUE(std::ranges::adjacent_find(reruns) == reruns.end());
      }
    }
    forward.insert(forward.end(), backward.rbegin(), backward.rend());
    EXPECT_EQ(forward, order) << count;
  }
}

// An update for each layer at the end of the order: it reads a gradient of the layer and waits for
// all who read the weight.
TEST(Chain, UpdatesRunInTheFirstBackwardPartInWhichTheyCan) {
  Rng rng(9);
  constexpr int kLayers = 12;
  constexpr int64_t kGradient = 2'000;
  ScheduleProblem problem = layers(kLayers, rng);
  const size_t backward = problem.ops.size() - kLayers;
  for (size_t i = 0; i < kLayers; ++i) {
    plan::SchedValue gradient;
    gradient.bytes = kGradient;
    gradient.producer = plan::SchedOpId(static_cast<uint32_t>(backward + i));
    plan::SchedOp made;
    made.seconds = 1;
    made.may_rerun = false;
    const auto update = problem.ops.push_back(std::move(made));
    gradient.readers.push_back(update);
    problem.values.push_back(std::move(gradient));
    const auto layer = static_cast<uint32_t>(kLayers - 1 - i);
    problem.control.push_back({plan::SchedOpId(1 + 2 * layer), update});
  }
  problem.budget_bytes = 14'000;
  const std::vector<SchedOpId> order = incoming(problem);
  const Chain chain = find_chain(ActionTable(problem), order);
  ASSERT_GE(chain.stages.size(), 3U);
  for (size_t k = 0; k < chain.stages.size(); ++k)
    EXPECT_LE(chain.stages[k].gradient_bytes, kGradient) << k;
  const ChainStart start = chain_start(ActionTable(problem), order);
  const auto profile = profile_of(problem, start.sequence);
  ASSERT_TRUE(profile.has_value());
  EXPECT_LE(profile->peak_bytes, *problem.budget_bytes) << "all gradients have 24,000";
}

// Five stages of 300 branches, each of which reads the stage's input and a mask that is made from
// nothing; the backward part goes through the branches one by one. With `joined`, what is made of
// the branches is joined and added to the stage's input, and the backward part reads the joined
// value, too, before all others.
ScheduleProblem branches(bool joined = false) {
  ScheduleProblem problem;
  const auto op = [&](double seconds, bool may_rerun) {
    plan::SchedOp made;
    made.seconds = seconds;
    made.may_rerun = may_rerun;
    return problem.ops.push_back(std::move(made));
  };
  const auto value = [&](plan::SchedOpId producer, int64_t bytes) {
    plan::SchedValue made;
    made.bytes = bytes;
    made.producer = producer;
    return problem.values.push_back(std::move(made));
  };
  const auto read = [&](plan::SchedValueId v, plan::SchedOpId reader) {
    problem.values[v].readers.push_back(reader);
  };
  constexpr int kStages = 5, kBranches = 300;
  const auto mask = value(op(1e-6, true), 5'000);
  std::vector<plan::SchedValueId> passed{value(op(1, true), 1'000)}, inner, whole;
  for (int stage = 0; stage < kStages; ++stage) {
    const size_t first = inner.size();
    for (int i = 0; i < kBranches; ++i) {
      const auto branch = op(1, true);
      read(mask, branch);
      read(passed.back(), branch);
      inner.push_back(value(branch, 100));
    }
    std::vector<plan::SchedValueId> mixed(inner.begin() + static_cast<ptrdiff_t>(first),
                                          inner.end());
    if (joined) {
      for (plan::SchedValueId& v : mixed) {
        const auto mix = op(1, true);
        read(v, mix);
        v = value(mix, 5);
      }
      const auto join = op(1e-2, true);
      for (const auto v : mixed) read(v, join);
      mixed = {value(join, 1'500)};
      whole.push_back(mixed.front());
    }
    const auto sum = op(1, true);
    for (const auto v : mixed) read(v, sum);
    if (joined) read(passed.back(), sum);
    passed.push_back(value(sum, 1'000));
  }
  const auto loss = op(1, false);
  read(passed.back(), loss);
  auto gradient = value(loss, 1'000);
  for (size_t stage = kStages; stage-- > 0;) {
    auto sum = gradient;
    if (joined) {
      const auto backward = op(1, false);
      read(gradient, backward);
      read(whole[stage], backward);
      gradient = sum = value(backward, 1'000);
    }
    for (size_t i = kBranches * stage; i < kBranches * (stage + 1); ++i) {
      const auto backward = op(1, false);
      read(gradient, backward);
      if (sum != gradient) read(sum, backward);
      read(inner[i], backward);
      read(passed[stage], backward);
      sum = value(backward, 1'000);
    }
    gradient = sum;
  }
  return problem;
}

// All 30,000 bytes of a stage's branches need never be there in the backward part, as each branch
// runs again right before it is read.
TEST(ChainStart, TakesLongStagesBranchByBranch) {
  ScheduleProblem problem = branches();
  const std::vector<SchedOpId> order = incoming(problem);
  const auto once = profile_of(problem, order);
  ASSERT_TRUE(once.has_value());
  ASSERT_GT(once->peak_bytes, 150'000);
  problem.budget_bytes = 50'000;  // in the forward part the branches of a stage are all there
  const Chain chain = find_chain(ActionTable(problem), order);
  ASSERT_EQ(chain.stages.size(), 6U);  // the mask, which lives through all of them, ends none
  const ChainOption& last = chain.stages[2].options.back();
  EXPECT_LT(last.backward_peak, 12'000);
  EXPECT_LE(last.kept_bytes, 0);
  EXPECT_LT(chain.units, 40'000'000);
  const ChainStart start = chain_start(ActionTable(problem), order);
  const auto profile = profile_of(problem, start.sequence);
  ASSERT_TRUE(profile.has_value());
  EXPECT_LE(profile->peak_bytes, *problem.budget_bytes);
  EXPECT_LT(profile->seconds, 1.5 * once->seconds);
}

// To make the joined value again all branches have to run, which then wait for their own turn: it
// stays, cheap as its own producer is.
TEST(Chain, OptionsKeepWhatIsDearToMakeAgain) {
  ScheduleProblem problem = branches(true);
  problem.budget_bytes = 50'000;
  const Chain chain = find_chain(ActionTable(problem), incoming(problem));
  int long_stages = 0;
  for (const ChainStage& stage : chain.stages) {
    if (stage.forward.size() < 600) continue;
    ++long_stages;
    EXPECT_GT(stage.options.back().backward_peak, 30'000);
    EXPECT_TRUE(std::ranges::any_of(stage.options, [](const ChainOption& option) {
      return option.kept_bytes < 5'000 && option.backward_peak < 15'000;
    }));
  }
  EXPECT_GE(long_stages, 4);
}

TEST(ChainStart, IsCorrectAndNotBelowTheOptimum) {
  Rng rng(7);
  int equal = 0, fitting = 0;
  for (int round = 0; round < 60; ++round) {
    ScheduleProblem problem = layers(3, rng);
    const std::vector<SchedOpId> order = incoming(problem);
    const auto once = profile_of(problem, order);
    ASSERT_TRUE(once.has_value());
    problem.budget_bytes = once->peak_bytes * rng.between(60, 95) / 100;
    const ChainStart start = chain_start(ActionTable(problem), order);
    if (start.sequence.empty()) continue;
    const auto profile = profile_of(problem, start.sequence);
    ASSERT_TRUE(profile.has_value()) << round;
    if (profile->peak_bytes > *problem.budget_bytes) continue;
    ++fitting;
    const ByStatesResult best = solve_by_states(ActionTable(problem), {.max_units = 20'000'000});
    ASSERT_TRUE(best.complete && best.best) << round;
    const double least = profile_of(problem, *best.best)->seconds;
    EXPECT_GE(profile->seconds, least * (1 - 1e-9)) << round;
    equal += profile->seconds <= least * (1 + 1e-9);
  }
  EXPECT_GT(fitting, 20);
  EXPECT_GT(equal * 3, fitting);
}

TEST(ChainStart, AnyProblemGivesCorrectRunsOrNone) {
  Rng rng(8);
  plan::RandomSchedule shape;
  shape.min_ops = 5;
  shape.max_ops = 60;
  shape.in_place_rate = 0.3;
  shape.control_rate = 0.01;
  shape.output_rate = 0.1;
  for (int round = 0; round < 300; ++round) {
    ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    problem.budget_bytes = problem.resident_bytes + rng.between(0, 8 * shape.max_bytes);
    const ChainStart start = chain_start(ActionTable(problem), incoming(problem));
    if (start.sequence.empty()) continue;
    EXPECT_TRUE(profile_of(problem, start.sequence)) << round;
  }
}

TEST(ChainStart, FitsACapturedStep) {
  const auto path = captured_steps() / "remat" / "resnet50_8.remat";
  auto problem = plan::parse_remat_file(*read_file(path.string()), path.string());
  ASSERT_TRUE(problem.has_value());
  for (const auto& [mib, factor] : {std::pair<int64_t, double>{700, 1.065}, {500, 1.18}}) {
    problem->budget_bytes = mib << 20;
    const std::vector<SchedOpId> order = incoming(*problem);
    const ChainStart start = chain_start(ActionTable(*problem), order);
    const auto once = profile_of(*problem, order), profile = profile_of(*problem, start.sequence);
    ASSERT_TRUE(profile.has_value());
    EXPECT_LE(profile->peak_bytes, *problem->budget_bytes);
    EXPECT_LT(profile->seconds, factor * once->seconds) << mib;
    EXPECT_LT(start.units, 200'000'000);
  }
}

}  // namespace
}  // namespace lowtide::remat
