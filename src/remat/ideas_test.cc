// Each idea that can be switched off decides something: on the problems and beside the ideas of its
// row, answers without it are worse, mostly worse, or at least others. An answer is worse if there
// is none, if it takes longer, if less is proven, or if more moves for the same. Units of work and
// edits are not compared, for an idea that only spends work changes these.
//
// A start is shown where nothing comes after it. A move of the annealing is shown where few others
// do the same: without it chance finds more here and less there, so it has to lose on most
// problems. What stretches are worth is less than that chance (docs/results.md), so they are only
// held to leading elsewhere.
#include "remat/ideas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "order/order.h"
#include "plan/remat_text.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/testing/cut_test_problems.h"
#include "remat/joint.h"
#include "remat/testing/ideas.h"
#include "support/long_checks.h"

namespace lowtide::remat {
namespace {

using plan::ScheduleProblem;
using Problems = std::vector<ScheduleProblem>;

std::vector<plan::SchedAction> each_once(const ScheduleProblem& problem) {
  std::vector<plan::SchedAction> once;
  for (plan::SchedOpId op : problem.ops.ids()) once.push_back(plan::SchedAction::run(op));
  return once;
}

// ---- problems

ScheduleProblem captured_step(const char* name, int64_t budget_mib) {
  const auto path = captured_steps() / "remat" / (std::string(name) + ".remat");
  auto problem = plan::parse_remat_file(read_file(path.string()).value(), path.string()).value();
  problem.budget_bytes = budget_mib << 20;
  return problem;
}

// Captured training steps, the last one of repeated blocks.
Problems steps() {
  Problems problems;
  for (int64_t mib : {591, 644, 698, 752, 850}) problems.push_back(captured_step("unet_2", mib));
  for (int64_t mib : {430, 525, 573, 621, 700})
    problems.push_back(captured_step("resnet50_8", mib));
  for (int64_t mib : {2127, 2431}) problems.push_back(captured_step("gpt2_4x256", mib));
  return problems;
}

// Memory is short at more than one moment.
Problems tight_steps() {
  Problems problems;
  for (int64_t mib : {560, 575, 591}) problems.push_back(captured_step("unet_2", mib));
  return problems;
}

Problems steps_with_a_link() {
  Problems problems;
  for (int64_t mib : {591, 752}) {
    problems.push_back(captured_step("unet_2", mib));
    problems.back().link = plan::Link{12e9, 12e9, 1e-5};
  }
  return problems;
}

// That of which little hides behind the ops.
Problems steps_with_a_slow_link() {
  Problems problems = steps();
  for (ScheduleProblem& problem : problems) problem.link = plan::Link{5e8, 5e8, 1e-5};
  return problems;
}

Problems deep_steps() {
  Problems problems;
  for (int64_t layers : {20, 40, 60, 100, 150})
    for (int64_t percent : {40, 55, 70}) {
      const DeepStep deep{.layers = layers};
      problems.push_back(deep_step(deep));
      problems.back().budget_bytes =
          layers * (deep.first_bytes + deep.second_bytes) * percent / 100 + 20;
    }
  return problems;
}

// So deep that layers change their mind at one price.
Problems very_deep_step() {
  const DeepStep deep{.layers = 2600};
  Problems problems = {deep_step(deep)};
  problems.back().budget_bytes = deep.layers * (deep.second_bytes + deep.first_bytes / 2) + 10;
  return problems;
}

// Few ops, some with a link.
Problems small_ones(double link_rate) {
  Problems problems;
  Rng rng(17);
  for (int i = 0; i < 16; ++i) {
    const plan::RandomSchedule shape{.min_ops = 10,
                                     .max_ops = 16,
                                     .reader_rate = 0.2,
                                     .link_rate = link_rate,
                                     .resident_rate = 0.3 * link_rate};
    problems.push_back(plan::random_schedule_problem(shape, rng));
    ScheduleProblem& problem = problems.back();
    problem.budget_bytes = plan::simulate_sequence(problem, each_once(problem))->peak_bytes * 3 / 4;
  }
  return problems;
}
Problems small_steps() {
  return small_ones(0);
}
Problems small_steps_with_a_link() {
  return small_ones(1);
}

// No op may run again, and the budget is a little above the least peak that is known: only another
// order keeps it.
Problems orders_to_find() {
  Problems problems;
  for (uint64_t seed = 0; seed < 25; ++seed) {
    Rng rng(seed);
    const plan::RandomSchedule shape{
        .min_ops = 40, .max_ops = 60, .reader_rate = 0.06, .rerun_rate = 0, .output_rate = 0.02};
    ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    order::OrderOptions options;
    options.limits.max_units = 500'000;
    const int64_t least = order::solve(problem, options).peak_bytes;
    const int64_t given = plan::simulate_sequence(problem, each_once(problem))->peak_bytes;
    problem.budget_bytes = least + (given - least) / 20;
    problems.push_back(std::move(problem));
  }
  return problems;
}

// ---- with which others

JointOptions all_of_them() {
  JointOptions options;
  options.remat.limits.max_units = 10'000'000;
  options.swap.limits.max_units = 100'000;
  options.tries = 4;
  return options;
}

// The best of the starts is the answer.
JointOptions starts() {
  JointOptions options = all_of_them();
  options.remat.limits.max_units = 1;
  options.remat.exact_small = false;
  return options;
}

// Of a caller who has a schedule that does not fit.
JointOptions all_starts_beside_the_callers() {
  JointOptions options = starts();
  options.remat.all_starts = true;
  return options;
}

// Likewise.
JointOptions greedy_drops_in_the_callers() {
  JointOptions options = starts();
  options.remat.mend_starts = true;
  return options;
}

// With enough for several cuts.
JointOptions bounds() {
  JointOptions options = starts();
  options.remat.limits.max_units = 1'000'000;
  return options;
}

// From the incoming order alone.
JointOptions annealing() {
  JointOptions options = all_of_them();
  RematOptions& remat = options.remat;
  remat.limits.max_units = 300'000;
  remat.exact_small = remat.cut_start = remat.mixed_start = remat.order_start = remat.greedy_start =
      remat.chain_start = false;
  return options;
}

// Long enough for what comes after the first rounds.
JointOptions longer_annealing() {
  JointOptions options = annealing();
  options.remat.limits.max_units = 600'000;
  return options;
}

// The same by what is left without any of these: single drops and reruns, blindly.
JointOptions single_edits() {
  JointOptions options = annealing();
  RematOptions& remat = options.remat;
  remat.limits.max_units = 3'000'000;
  remat.order_moves = remat.stretch_moves = remat.exchanges = remat.repeats = remat.aimed_drops =
      remat.aimed_moves = false;
  return options;
}
template <bool RematOptions::*idea>
JointOptions beside_single_edits() {
  JointOptions options = single_edits();
  options.remat.*idea = true;
  return options;
}

JointOptions transfers_alone() {
  JointOptions options = all_of_them();
  options.recompute = false;
  return options;
}

// ---- what each decides

enum class Without : uint8_t { kSomeAreWorse, kMostAreWorse, kOthers };

struct Row {
  Problems (*problems)();
  JointOptions (*beside)();
  Without without = Without::kSomeAreWorse;
};

const std::map<std::string_view, Row> kRows = {
    {"recompute", {tight_steps, starts}},
    {"transfers", {small_steps_with_a_link, all_of_them}},
    {"reorder", {small_steps, starts}},
    {"order-moves", {orders_to_find, annealing, Without::kMostAreWorse}},
    {"stretch-moves", {steps, beside_single_edits<&RematOptions::stretch_moves>, Without::kOthers}},
    {"exchanges", {steps, beside_single_edits<&RematOptions::exchanges>, Without::kMostAreWorse}},
    {"de-remat", {steps, longer_annealing, Without::kMostAreWorse}},
    {"repeats", {deep_steps, beside_single_edits<&RematOptions::repeats>, Without::kMostAreWorse}},
    {"aimed-drops",
     {steps, beside_single_edits<&RematOptions::aimed_drops>, Without::kMostAreWorse}},
    {"aimed-moves", {orders_to_find, annealing, Without::kMostAreWorse}},
    {"cut-start", {steps, starts}},
    {"mixed-start", {very_deep_step, starts}},
    {"order-start", {steps, starts}},
    {"greedy-start", {steps, starts}},
    {"chain-start", {steps, starts}},
    {"all-starts", {tight_steps, all_starts_beside_the_callers}},
    {"mend-starts", {tight_steps, greedy_drops_in_the_callers}},
    {"restarts", {orders_to_find, longer_annealing, Without::kMostAreWorse}},
    {"cut-bound", {tight_steps, bounds}},
    {"several-cuts", {tight_steps, bounds}},
    {"exact-small", {small_steps, all_of_them}},
    {"swap-search", {small_steps_with_a_link, transfers_alone}},
    {"swap-values", {steps_with_a_link, transfers_alone}},
    {"swap-residents", {small_steps_with_a_link, transfers_alone}},
    {"de-swap", {small_steps_with_a_link, transfers_alone}},
    {"swap-tidy", {steps_with_a_link, transfers_alone}},
    {"each-alone", {steps_with_a_slow_link, all_of_them}},
    {"rules", {small_steps_with_a_link, starts}},
};

std::ptrdiff_t moves_of(const RematOutcome& outcome) {
  return std::count_if(
      outcome.sequence.begin(), outcome.sequence.end(),
      [](const plan::SchedAction& a) { return a.kind != plan::SchedAction::Kind::kRun; });
}

bool is_worse(const RematOutcome& one, const RematOutcome& other) {
  if (one.sequence.empty() != other.sequence.empty()) return one.sequence.empty();
  if (one.seconds != other.seconds) return one.seconds > other.seconds * (1 + 1e-12);
  if (one.lower_bound_seconds != other.lower_bound_seconds)
    return one.lower_bound_seconds < other.lower_bound_seconds * (1 - 1e-12);
  return moves_of(one) > moves_of(other);
}

TEST(RematIdeas, TheListHasEverySwitch) {
  EXPECT_EQ(fault_of_ideas(all_ideas(), [](const JointOptions& o) { return fields_of(o); }), "");
}

bool decides(Without without, int worse, int better, int others) {
  switch (without) {
    case Without::kSomeAreWorse:
      return worse > 0;
    case Without::kMostAreWorse:
      return worse > 2 * better;
    case Without::kOthers:
      return others > 0;
  }
  return false;
}

TEST(RematIdeas, EachDecidesSomething) {
  for (const Idea<JointOptions>& idea : all_ideas()) {
    const Row& row = kRows.at(idea.name);
    int tried = 0, worse = 0, better = 0, others = 0;
    const Problems problems = row.problems();
    for (const ScheduleProblem& problem : problems) {
      JointOptions with = row.beside();
      if (with.remat.all_starts || with.remat.mend_starts) with.remat.starts = {each_once(problem)};
      JointOptions without = with;
      idea.turn(without);
      const RematOutcome on = solve_joint(problem, with), off = solve_joint(problem, without);
      ++tried;
      worse += is_worse(off, on);
      better += is_worse(on, off);
      others += off.sequence != on.sequence;
      // One answer decides, and the others are for the numbers, but where most have to be worse.
      if (row.without != Without::kMostAreWorse && decides(row.without, worse, better, others) &&
          !long_checks())
        break;
    }
    std::printf("without %s: %d of %d answers are worse, %d better, %d others\n",
                std::string(idea.name).c_str(), worse, tried, better, others);
    EXPECT_TRUE(decides(row.without, worse, better, others)) << idea.name;
  }
}

}  // namespace
}  // namespace lowtide::remat
