// Reports of a plan of three ops by hand: a product with a parameter in another layout, its
// gradient, its update.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/tick_scale.h"
#include "report/budget.h"
#include "report/modules.h"
#include "report/profile.h"
#include "report/testing/small_plans.h"
#include "report/verdict.h"

namespace lowtide::report {
namespace {

TEST(ReportTest, WhatWasThereBeforeTheStepBelongsToItsReaders) {
  const MemoryProfile profile = profile_planned(training_plan());
  for (const char* name : {"x", "w", "m", "out/product", "out/gradient", "out/plain"}) {
    const auto found = std::find_if(profile.tensors.begin(), profile.tensors.end(),
                                    [&](const TensorAtPeak& t) { return t.name == name; });
    ASSERT_NE(found, profile.tensors.end()) << name;
    EXPECT_EQ(found->module, "block.fc") << name;
  }
}

TEST(ReportTest, TheFirstForwardReaderGivesTheModule) {
  Plan plan = training_plan();
  PlanOp other{.kind = "Relu", .name = "other", .module = "late"};
  other.inputs = {PlanValueId(1)};
  plan.ops.push_back(other);
  EXPECT_EQ(modules_of(plan)[PlanStorageId(1)], "block.fc");
  plan.ops[PlanOpId(2)].module = "";
  EXPECT_EQ(modules_of(plan)[PlanStorageId(1)], "late");
}

TEST(ReportTest, ASmallGapIsPrintedInBytes) {
  Plan plan = training_plan();
  plan.claims.peak_bytes = int64_t{1} << 30;
  plan.claims.lower_bound_bytes = plan.claims.peak_bytes - 4096;
  PlanningFacts facts;
  facts.search_bound_bytes = plan.claims.lower_bound_bytes;
  EXPECT_NE(verdict_text(plan, facts).find("gap 4,096 bytes (0.00 %)  (order not proven optimal)"),
            std::string::npos)
      << verdict_text(plan, facts);
  plan.claims.lower_bound_bytes = plan.claims.peak_bytes;
  plan.claims.order_proven = true;
  EXPECT_NE(verdict_text(plan, facts).find("gap 0  (order proven optimal)"), std::string::npos);
}

TEST(ReportTest, AProofBySearchIsCalledSo) {
  Plan plan = training_plan();
  plan.claims.lower_bound_bytes = plan.claims.peak_bytes - 64;
  PlanningFacts facts;
  facts.search_bound_bytes = plan.claims.peak_bytes;
  EXPECT_NE(verdict_text(plan, facts).find("proven by exhaustive search"), std::string::npos);
  const std::string json = verdict_json(plan, facts);
  EXPECT_NE(json.find("\"order_status\": \"proven by exhaustive search\""), std::string::npos);
  EXPECT_NE(json.find("\"order_proven\": false"), std::string::npos);
  EXPECT_NE(json.find("\"search_bound_bytes\": " + std::to_string(plan.claims.peak_bytes)),
            std::string::npos);
}

// The plan above under a budget, with times; `rerun` repeats its product.
Plan budget_plan(bool rerun) {
  Plan plan = training_plan();
  if (rerun) {
    const auto product = std::find_if(plan.steps.begin(), plan.steps.end(),
                                      [](const plan::Step& s) { return s.op == PlanOpId(2); });
    plan.steps.insert(product + 1, *product);
  }
  plan.arena_bytes = 960;
  plan.claims.budget_bytes = 1024;
  plan.claims.floor_bytes = 512;
  plan.claims.peak_bytes = 896;
  plan.claims.lower_bound_bytes = rerun ? 1088 : 896;
  plan.claims.order_proven = !rerun;
  plan.claims.once_seconds = 0.100;
  plan.ops[PlanOpId(0)].predicted_seconds = 0.090;
  plan.ops[PlanOpId(2)].predicted_seconds = 0.010;
  plan.claims.lower_bound_ticks = plan::TickScale(plan).down(0.104);
  plan.claims.lower_bound_seconds = 0.104;
  plan.claims.predicted_seconds = rerun ? 0.110 : 0.104;
  return plan;
}

TEST(ReportTest, ABudgetSaysTimeBoundAndFloor) {
  PlanningFacts facts;
  facts.schedule_status = plan::SolveStatus::kFeasible;
  const std::string text = verdict_text(budget_plan(true), facts);
  for (const char* line :
       {"once   1.06 KiB: proven, no order in one part that runs each op once needs less\n",
        "budget 1.00 KiB  arena 960 B (960 bytes), 64 B below it\n",
        "time   110.0 ms predicted, +10.00 % (+10.0 ms) over each op once\n",
        "proven +4.00 % at least within this budget in one part (104.0 ms), gap 6.00 points  "
        "(schedule feasible)\n",
        "floor  512 B: proven, no schedule in one part needs less\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
  EXPECT_EQ(text.find("cut short"), std::string::npos);
  EXPECT_EQ(text.find("not proven optimal"), std::string::npos) << "of orders run once";
  const auto json = nlohmann::json::parse(verdict_json(budget_plan(true), facts));
  EXPECT_TRUE(json["gap"].is_null());
  EXPECT_EQ(json["budget_bytes"], 1024);
  EXPECT_EQ(json["floor_bytes"], 512);
  EXPECT_NEAR(json["extra_percent"], 10, 1e-9);
  EXPECT_NEAR(json["lower_bound_extra_percent"], 4, 1e-9);
  EXPECT_NEAR(json["gap_points"], 6, 1e-9);
  EXPECT_EQ(json["schedule_status"], "feasible");
  EXPECT_EQ(json["cut_short"], false);
}

TEST(ReportTest, WhereTheSecondsComeFromIsSaid) {
  Plan plan = budget_plan(false);
  EXPECT_EQ(costs_of(plan), "");
  EXPECT_EQ(verdict_text(plan, {}).find("costs "), std::string::npos);
  plan.provenance["cost_model"] = "tiles";
  plan.provenance["device"] = "Toy";
  EXPECT_NE(verdict_text(plan, {}).find("\ncosts  tiles of Toy\n"), std::string::npos);
  plan.provenance["costs"] = "measured 3 of 4 ops, on X";
  plan.provenance["cost_model"] = "roofline";
  EXPECT_EQ(nlohmann::json::parse(verdict_json(plan, {}))["costs"],
            "measured 3 of 4 ops, on X; the rest by the roofline of Toy");
}

TEST(ReportTest, ABudgetThatNeedsNoRerunsKeepsTheBoundOfOrders) {
  PlanningFacts facts;
  facts.cut_short = true;
  facts.schedule_status = plan::SolveStatus::kLimit;
  const std::string text = verdict_text(budget_plan(false), facts);
  EXPECT_NE(text.find("gap 0  (order proven optimal)"), std::string::npos) << text;
  EXPECT_NE(text.find("gap 0.00 points  (schedule optimal)"), std::string::npos) << text;
  EXPECT_NE(text.find("\ncut short: "), std::string::npos) << text;
  EXPECT_EQ(nlohmann::json::parse(verdict_json(budget_plan(false), facts))["gap"], 0);
}

TEST(ReportTest, HowASearchEndedIsOnlySaidWhereTimeAndBoundDiffer) {
  const Plan plan = budget_plan(true);
  EXPECT_EQ(schedule_status(plan, plan::SolveStatus::kLimit), "limit");
  EXPECT_EQ(schedule_status(plan, plan::SolveStatus::kFeasible), "feasible");
  EXPECT_EQ(schedule_status(plan, plan::SolveStatus::kOptimal), "feasible") << "nothing proves it";
  EXPECT_EQ(schedule_status(budget_plan(false), plan::SolveStatus::kLimit), "optimal");
}

TEST(ReportTest, MoreMemorySavesWhatWasFoundAndAtMostWhatTheBoundAllows) {
  const Plan plan = budget_plan(true);
  PlanningFacts facts;
  facts.more_memory = {1124, 0.105, 0.102};
  facts.floor_reason = "op 'a' with 'b' (64 B)";
  const std::string text = verdict_text(plan, facts);
  EXPECT_NE(text.find("more   10 % more budget (1.10 KiB): 5.0 ms saved by a short search, no "
                      "schedule in one part saves more than 8.0 ms\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("no schedule in one part needs less; set by op 'a' with 'b' (64 B)\n"),
            std::string::npos);
  const auto json = nlohmann::json::parse(verdict_json(plan, facts))["more_memory"];
  EXPECT_EQ(json["budget_bytes"], 1124);
  EXPECT_NEAR(json["saved_seconds"], 0.005, 1e-12);
  EXPECT_NEAR(json["most_saved_seconds"], 0.008, 1e-12);
}

TEST(ReportTest, WhatMoreMemoryBuysIsReadFromThePlanAndNothingElseIs) {
  Plan plan = training_plan();
  plan.claims.budget_bytes = 1024;
  const auto read = [&](const std::string& text) {
    plan.provenance["more_memory"] = text;
    return facts_in_file(plan).more_memory;
  };
  const auto more = read("1124 0.105 0.102");
  ASSERT_TRUE(more);
  EXPECT_EQ(more->budget_bytes, 1124);
  EXPECT_EQ(more->seconds, 0.105);
  EXPECT_EQ(more->lower_bound_seconds, 0.102);
  for (const char* wrong : {"", "1124", "1124 0.105", "1124 0.105 0.102 1", "1024 0.105 0.102",
                            "1124 0.1 0.2", "1124 inf 0.1", "1124 nan nan", "1124 0.1 -1",
                            "11x4 0.105 0.102", "99999999999999999999 0.105 0.102"})
    EXPECT_FALSE(read(wrong)) << wrong;
  plan.claims.budget_bytes.reset();
  EXPECT_FALSE(read("1124 0.105 0.102")) << "without a budget there is none";
}

TEST(ReportTest, BoundsSayOfWhichStepTheyAre) {
  Plan plan = budget_plan(true);
  plan.claims.parts_floor = plan::PartsFloor{320, "conv", 8, 64};
  PlanningFacts facts;
  facts.more_memory = {1124, 0.105, 0.102};
  const auto lines_with = [&](std::string_view words) {
    const std::string text = verdict_text(plan, facts);
    int count = 0;
    for (size_t at = text.find(words); at != text.npos; at = text.find(words, at + 1)) ++count;
    return count;
  };
  const auto json = [&] { return nlohmann::json::parse(verdict_json(plan, facts)); };
  EXPECT_EQ(lines_with(" in one part "), 4);
  EXPECT_EQ(json()["bounds_are_of"], "in one part");
  EXPECT_EQ(lines_with("any parts  at least 320 B: proven; 256 B that stay and 64 B of op 'conv' "
                       "in 8 parts\n"),
            1);
  EXPECT_EQ(json()["any_parts_floor"]["bytes"], 320);
  EXPECT_EQ(json()["any_parts_floor"]["op"], "conv");
  facts.cuts = {"conv:n:2"};
  EXPECT_EQ(lines_with(" in these parts "), 4);
  facts.cuts.clear();
  facts.split = "2,norm:8";
  facts.whole_seconds = 0.1;
  EXPECT_EQ(lines_with(" in these parts "), 4);
  EXPECT_EQ(lines_with(" in one part "), 0);
  EXPECT_EQ(json()["bounds_are_of"], "in these parts");
  plan.claims.parts_floor.reset();
  EXPECT_EQ(lines_with("any parts"), 0);
  EXPECT_TRUE(json()["any_parts_floor"].is_null());
}

TEST(ReportTest, ALoosePlanNamesLeversThatItDidNotUse) {
  PlanningFacts facts;
  facts.unused_levers = {"split", "swap"};
  facts.all_levers = "split,recompute,swap";
  const std::string line = "not used: split, swap (--allow split,recompute,swap)\n";
  const auto says = [&](const Plan& plan) {
    return verdict_text(plan, facts).find(line) != std::string::npos;
  };
  EXPECT_TRUE(says(budget_plan(true)));
  EXPECT_FALSE(says(budget_plan(false))) << "4 % over each op once are near";
  facts.whole_seconds = 0.095;  // of which they are 9 %
  EXPECT_TRUE(says(budget_plan(false)));
  EXPECT_FALSE(says(training_plan())) << "without a budget";
  const auto json = nlohmann::json::parse(verdict_json(budget_plan(true), facts));
  EXPECT_EQ(json["levers_not_used"], nlohmann::json::array({"split", "swap"}));
  facts.unused_levers.clear();
  EXPECT_EQ(verdict_text(budget_plan(true), facts).find("not used"), std::string::npos);
}

TEST(ReportTest, WithoutABudgetThereIsNone) {
  const auto json = nlohmann::json::parse(verdict_json(training_plan(), {}));
  EXPECT_TRUE(json["budget_bytes"].is_null());
  EXPECT_TRUE(json["floor_bytes"].is_null());
  EXPECT_EQ(verdict_text(training_plan(), {}).find("budget"), std::string::npos);
}

}  // namespace
}  // namespace lowtide::report
