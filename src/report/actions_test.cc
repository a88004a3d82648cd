// What the table of actions says of random schedules, against the simulator: the groups' counts and
// times, and what each group is worth, found by simulating the schedule without it.
#include "report/actions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/rng.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "report/modules.h"
#include "report/testing/plan_of_sequence.h"
#include "report/what_if.h"

namespace lowtide::report {
namespace {

// Each op once, then whatever of many random reruns and moves is possible.
Sequence random_sequence(const ScheduleProblem& problem, Rng& rng) {
  Sequence sequence;
  for (SchedOpId op : problem.ops.ids()) sequence.push_back(SchedAction::run(op));
  const auto at = [&] { return static_cast<std::ptrdiff_t>(rng.below(sequence.size() + 1)); };
  for (int i = 0; i < 60; ++i) {
    Sequence changed = sequence;
    const auto insert = [&](std::initializer_list<SchedAction> actions) {
      std::vector<std::ptrdiff_t> places;
      for (size_t k = 0; k < actions.size(); ++k) places.push_back(at());
      std::sort(places.rbegin(), places.rend());
      size_t k = actions.size();
      for (std::ptrdiff_t place : places)
        changed.insert(changed.begin() + place, *(actions.begin() + static_cast<int64_t>(--k)));
    };
    if (!problem.link || rng.below(2) == 0) {
      insert({SchedAction::run(SchedOpId(rng.below(problem.ops.size())))});
    } else if (problem.residents.size() == 0 || rng.below(3) != 0) {
      const SchedValueId v(rng.below(problem.values.size()));
      insert({SchedAction::store(v), SchedAction::drop(v), SchedAction::load(v)});
    } else {
      const SchedResidentId r(rng.below(problem.residents.size()));
      if (problem.residents[r].writers.empty())
        insert({SchedAction::load(r), SchedAction::drop(r)});
      else
        insert({SchedAction::load(r), SchedAction::store(r), SchedAction::drop(r)});
    }
    if (plan::simulate_sequence(problem, changed)) sequence = std::move(changed);
  }
  return sequence;
}

// The sequence without the reruns of the module's ops and the moves of its storages.
Sequence without(const ScheduleProblem& problem, const Sequence& sequence,
                 const IdVector<PlanStorageId, std::string>& modules, const std::string& module) {
  Sequence rest;
  std::set<uint32_t> ran;
  for (const SchedAction& action : sequence) {
    if (action.kind == SchedAction::Kind::kRun) {
      const bool again = !ran.insert(static_cast<uint32_t>(action.op.index())).second;
      if (again && module == "m" + std::to_string(action.op.index() % kModules)) continue;
    } else if (modules[PlanStorageId(holding_of(problem, action.value, action.resident))] ==
               module) {
      continue;
    }
    rest.push_back(action);
  }
  return rest;
}

struct Compared {
  int groups = 0, exact = 0, worthy = 0;
};

// Every group of random schedules of this shape.
Compared compare(const plan::RandomSchedule& shape, uint64_t seed) {
  Rng rng(seed);
  Compared compared;
  for (int round = 0; round < 400; ++round) {
    ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    if (problem.link) problem.link->compute_seconds_per_byte = rng.below(2) == 0 ? 0 : 0.25;
    const Sequence sequence = random_sequence(problem, rng);
    const auto profile = *plan::simulate_sequence(problem, sequence);
    PlanOfSequence writer(problem, sequence);
    const Plan plan = writer.make();
    const ActionTable table = actions_of(plan);
    const auto modules = modules_of(plan);

    const std::vector<int64_t> bytes = bytes_without(plan, std::vector<char>(plan.steps.size(), 0));
    EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), profile.peak_bytes);
    EXPECT_EQ(table.all.reruns, profile.reruns);
    EXPECT_EQ(table.all.stored_bytes, profile.stored_bytes);
    EXPECT_EQ(table.all.loaded_bytes, profile.loaded_bytes);
    EXPECT_EQ(table.all.transfer_seconds, profile.transfer_seconds);
    if (!writer.stores_early()) {
      EXPECT_EQ(profile.once_seconds + table.all.paid_seconds(), profile.seconds);
    }

    for (const ModuleActions& group : table.modules) {
      const auto left =
          plan::simulate_sequence(problem, without(problem, sequence, modules, group.module));
      if (!left) continue;  // a load that served only what is gone
      const int64_t worth = left->peak_bytes - profile.peak_bytes;
      EXPECT_GE(group.benefit_bytes, worth);
      ++compared.groups;
      compared.exact += group.benefit_bytes == worth;
      compared.worthy += worth > 0;
    }
    if (testing::Test::HasFailure()) return compared;
  }
  return compared;
}

plan::RandomSchedule plain_shape() {
  plan::RandomSchedule shape;
  shape.min_ops = 4;
  shape.max_ops = 14;
  shape.extra_value_rate = 0;
  shape.writer_rate = 0;
  shape.in_place_rate = 0;
  return shape;
}

TEST(ActionsTest, RerunsAreWorthWhatTheirAbsenceAddsToThePeak) {
  const Compared compared = compare(plain_shape(), 1);
  EXPECT_EQ(compared.exact, compared.groups);
  EXPECT_GT(compared.groups, 500);
  EXPECT_GT(compared.worthy, 100);
}

TEST(ActionsTest, SoAreTransfers) {
  plan::RandomSchedule shape = plain_shape();
  shape.rerun_rate = 0;
  shape.link_rate = 1;
  shape.resident_rate = 0.2;
  const Compared compared = compare(shape, 2);
  EXPECT_EQ(compared.exact, compared.groups);
  EXPECT_GT(compared.groups, 300);
  EXPECT_GT(compared.worthy, 50);
}

TEST(ActionsTest, WithTakeoversAndBothWaysItIsNeverTooLittle) {
  plan::RandomSchedule shape = plain_shape();
  shape.in_place_rate = 0.3;
  shape.link_rate = 0.7;
  shape.resident_rate = 0.2;
  const Compared compared = compare(shape, 3);
  EXPECT_GT(compared.groups, 500);
  EXPECT_GT(compared.exact, compared.groups * 8 / 10);
}

// Ops of half a second, each with one value of 8 bytes.
ScheduleProblem small_problem(std::vector<std::vector<SchedOpId>> readers) {
  ScheduleProblem problem;
  for (std::vector<SchedOpId>& of_value : readers) {
    plan::SchedOp op;
    op.seconds = 0.5;
    op.may_rerun = true;
    plan::SchedValue value;
    value.bytes = 8;
    value.producer = SchedOpId(problem.ops.size());
    value.readers = std::move(of_value);
    problem.ops.push_back(std::move(op));
    problem.values.push_back(std::move(value));
  }
  return problem;
}

// The first value goes while the third is made, and is made again for the last op.
TEST(ActionsTest, ARerunByHand) {
  const ScheduleProblem problem =
      small_problem({{SchedOpId(1), SchedOpId(3)}, {SchedOpId(2)}, {SchedOpId(3)}, {}});
  Sequence sequence;
  for (uint32_t op : {0u, 1u, 2u, 0u, 3u}) sequence.push_back(SchedAction::run(SchedOpId(op)));
  const ActionTable table = actions_of(PlanOfSequence(problem, sequence).make());
  ASSERT_EQ(table.modules.size(), 1u);
  EXPECT_EQ(table.modules[0].module, "m0");
  EXPECT_EQ(table.modules[0].reruns, 1);
  EXPECT_EQ(table.modules[0].rerun_seconds, 0.5);
  EXPECT_EQ(table.modules[0].freed_bytes, 8);
  EXPECT_EQ(table.modules[0].benefit_bytes, 0);  // the last op needs 24 bytes in any case
  const std::string text = actions_text(table);
  EXPECT_NE(text.find("\nm0 "), std::string::npos) << text;
  EXPECT_NE(text.find("\nall 1 "), std::string::npos) << text;
  const nlohmann::json json = actions_json(table);
  EXPECT_EQ(json["reruns"], 1);
  EXPECT_EQ(json["modules"][0]["module"], "m0");
  EXPECT_EQ(json["modules"][0]["benefit_bytes_per_second"], 0);
}

// Together the groups by kind are the table; alone in its module a group is the module's.
TEST(ActionsTest, GroupsByKindAreTheTableTakenApart) {
  plan::RandomSchedule shape = plain_shape();
  shape.link_rate = 0.7;
  shape.resident_rate = 0.2;
  Rng rng(4);
  size_t both = 0;
  for (int round = 0; round < 100; ++round) {
    const ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    const Sequence sequence = random_sequence(problem, rng);
    const Plan plan = PlanOfSequence(problem, sequence).make();
    const ActionTable table = actions_of(plan);
    std::map<std::string, std::vector<ModuleActions>> by_module;
    for (const ModuleActions& group : actions_by_kind(plan)) {
      EXPECT_TRUE((group.kind == ActionKind::kMove) == (group.reruns == 0));
      by_module[group.module].push_back(group);
    }
    for (const ModuleActions& all : table.modules) {
      const std::vector<ModuleActions>& groups = by_module[all.module];
      both += groups.size() == 2;
      int64_t reruns = 0, moved_bytes = 0;
      for (const ModuleActions& group : groups) {
        reruns += group.reruns;
        moved_bytes += group.stored_bytes + group.loaded_bytes;
        if (groups.size() > 1) continue;
        EXPECT_EQ(group.benefit_bytes, all.benefit_bytes);
        EXPECT_EQ(group.paid_seconds(), all.paid_seconds());
      }
      EXPECT_EQ(reruns, all.reruns);
      EXPECT_EQ(moved_bytes, all.stored_bytes + all.loaded_bytes);
    }
    if (testing::Test::HasFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(both, 10u);
}

TEST(ActionsTest, WhatOnlyMovedInTimeIsCountedAndNotPrinted) {
  const ScheduleProblem problem = small_problem({{}, {}, {}});
  Sequence sequence;
  for (uint32_t op : {2u, 0u, 1u}) sequence.push_back(SchedAction::run(SchedOpId(op)));
  const ActionTable table = actions_of(PlanOfSequence(problem, sequence).make());
  ASSERT_EQ(table.modules.size(), 1u);
  EXPECT_EQ(table.modules[0].module, "m2");
  EXPECT_EQ(table.modules[0].moved_ops, 1);
  EXPECT_EQ(table.all.moved_ops, 1);
  EXPECT_EQ(actions_text(table), "");
}

// The table holds what saves most first, its text what saves most for its time.
TEST(ActionsTest, TheTextBeginsWithWhatIsMostWorthwhile) {
  const auto group = [](const char* module, int64_t bytes, double seconds) {
    ModuleActions actions;
    actions.module = module;
    actions.reruns = 1;
    actions.rerun_seconds = seconds;
    actions.benefit_bytes = bytes;
    return actions;
  };
  const ActionTable table{.modules = {group("dear", 4096, 4), group("cheap", 2048, 1),
                                      group("free", 1024, 0), group("vain", 0, 0)},
                          .all = group("", 4096, 5)};
  const std::string text = actions_text(table);
  std::vector<std::pair<size_t, std::string>> places;
  for (const char* module : {"dear", "cheap", "free", "vain"})
    places.emplace_back(text.find(std::string("\n") + module + " "), module);
  std::sort(places.begin(), places.end());
  std::string order;
  for (const auto& [place, module] : places) order += module + " ";
  EXPECT_EQ(order, "free cheap dear vain ") << text;
}

}  // namespace
}  // namespace lowtide::report
