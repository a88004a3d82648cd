// The report's data of plans by hand and of random right plans: columns of one length, the curve is
// the profile, stays add up to what is present, sums match.
#include "report/data/report_data.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "report/testing/small_plans.h"
#include "verify/testing/example_plans.h"

namespace lowtide::report {
namespace {

using Json = nlohmann::ordered_json;

Json data_of(const Plan& plan) {
  ReportRequest request;
  request.plans.push_back({.plan = &plan, .file = "small.lt"});
  return report_data(request);
}

// All members of an object of columns have the same length.
void expect_columns(const Json& columns, const std::string& what) {
  for (const auto& [name, column] : columns.items()) {
    ASSERT_TRUE(column.is_array()) << what << "." << name;
    EXPECT_EQ(column.size(), columns.front().size()) << what << "." << name;
  }
}

// One member of each object of a list.
Json column(const Json& list, const char* member) {
  Json members = Json::array();
  for (const Json& one : list) members.push_back(one[member]);
  return members;
}

int64_t sum(const Json& numbers) {
  return std::accumulate(
      numbers.begin(), numbers.end(), int64_t{0},
      [](int64_t so_far, const Json& one) { return so_far + one.get<int64_t>(); });
}

void expect_consistent(const Plan& plan, const Json& json) {
  for (const char* lists : {"ops", "tensors", "steps", "stays", "transfers"})
    expect_columns(json[lists], lists);
  EXPECT_EQ(json["ops"]["name"].size(), plan.ops.size());
  EXPECT_EQ(json["tensors"]["name"].size(), plan.storages.size());
  EXPECT_EQ(json["steps"]["kind"].size(), plan.steps.size());
  const MemoryProfile planned = profile_planned(plan), given = profile_as_given(plan);
  EXPECT_EQ(json["curve"]["steps"], planned.plan_steps);
  EXPECT_EQ(json["curve"]["given"], given.step_bytes);
  ASSERT_EQ(json["curve"]["planned"].size(), size_t{kCategories});
  for (size_t i = 0; i < planned.step_bytes.size(); ++i) {
    int64_t bytes = 0;
    for (const Json& category : json["curve"]["planned"]) bytes += category[i].get<int64_t>();
    ASSERT_EQ(bytes, planned.step_bytes[i]);
    ASSERT_EQ(json["steps"]["bytes"][planned.plan_steps[i]], planned.step_bytes[i]);
  }
  EXPECT_EQ(sum(column(json["peak"], "bytes")), planned.peak_bytes);
  const Json& all = json["module_tree"][0];
  const int64_t workspace = planned.by_category[static_cast<size_t>(Category::kWorkspace)];
  EXPECT_EQ(all["bytes_at_peak"].get<int64_t>() + workspace, planned.peak_bytes);
  EXPECT_EQ(all["bytes"], sum(json["tensors"]["bytes"]));
  EXPECT_EQ(json["actions"]["all"]["reruns"], json["summary"]["reruns"]);
}

TEST(ReportData, OfAPlanByHand) {
  const Plan plan = plan_with_a_rerun();
  const Json json = data_of(plan);
  EXPECT_EQ(json["format"], "lowtide-report");
  EXPECT_EQ(json["verified"], true);
  EXPECT_TRUE(json["beside"].is_null() && json["front"].is_null());
  ASSERT_EQ(json["plans"].size(), 1u);
  const Json& told = json["plans"][0];
  expect_consistent(plan, told);
  EXPECT_EQ(told["file"], "small.lt");
  EXPECT_EQ(told["modules"], (Json{"", "block.fc"}));
  EXPECT_EQ(told["sources"], (Json{"", "net/model.py:12"}));
  EXPECT_EQ(told["ops"]["source"], (Json{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(told["tensors"]["aliases"][1], (Json{"out/flat", "out/update"}));
  EXPECT_EQ(told["tensors"]["policy"], (Json{0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(told["steps"]["run"], (Json{0, 0, 0, -1, 0, 1, 0, 0}));
  EXPECT_EQ(told["steps"]["tensor"][3], 4);
  EXPECT_EQ(told["stays"]["why"], (Json{3, 3, 3, 0, 0, 0, 1, 0}));
  EXPECT_EQ(column(told["actions"]["groups"], "kind"), Json::array({"recompute"}));
  EXPECT_EQ(column(told["actions"]["groups"], "seconds"), Json::array({0.25}));
  EXPECT_EQ(told["summary"]["peak_step"], 6);
  EXPECT_TRUE(told["summary"]["whole_once_seconds"].is_null());
  EXPECT_EQ(told["summary"]["bounds_are_of"], "in one part");
  EXPECT_TRUE(told["measured"].is_null());
  for (const Json& line : told["verdict"])
    EXPECT_EQ(line.get<std::string>().find("planned in"), std::string::npos);
  EXPECT_EQ(told["verdict"][0], ":  6 ops, 9 values");
}

TEST(ReportData, IsConsistentForRandomPlans) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    Plan plan = verify::lower(verify::random_graph(rng, static_cast<int>(3 + seed % 12)), rng,
                              {.certificate = false});
    if (seed % 2 > 0) plan = verify::rerun_and_move(plan, rng, 20);
    const Json json = data_of(plan);
    expect_consistent(plan, json["plans"][0]);
    EXPECT_EQ(print_report(json), print_report(data_of(plan))) << "seed " << seed;
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(ReportData, APlanWithNothingInIt) {
  const Json told = data_of(Plan())["plans"][0];
  EXPECT_EQ(told["summary"]["peak_step"], -1);
  EXPECT_EQ(told["stays"]["tensor"], Json::array());
  EXPECT_EQ(told["curve"]["planned"].size(), size_t{kCategories});
}

TEST(ReportData, FindingsMakeItUnverified) {
  const Plan plan = training_plan();
  ReportRequest request;
  request.plans.push_back({.plan = &plan});
  request.findings = {"a: wrong"};
  const Json json = report_data(request);
  EXPECT_EQ(json["verified"], false);
  EXPECT_EQ(json["findings"], Json::array({"a: wrong"}));
}

TEST(ReportData, BesideNamesWhatIsTreatedDifferently) {
  const Plan tight = plan_with_a_rerun(), loose = training_plan();
  ReportRequest request;
  request.plans = {{.plan = &tight}, {.plan = &loose}};
  request.beside = true;
  const Json beside = report_data(request)["beside"];
  EXPECT_EQ(beside["rows"]["name"], Json::array({"out/product"}));
  EXPECT_EQ(beside["rows"]["policy"], Json::array({Json::array({1}), Json::array({0})}));
  EXPECT_EQ(beside["rows"]["seconds"], Json::array({Json::array({0.25}), Json::array({0.0})}));
  EXPECT_EQ(beside["same"], 6);
}

TEST(ReportData, MeasuredTimesStandBesidePredictedOnes) {
  const Plan plan = training_plan();
  MeasuredStep measured;
  measured.ops = IdVector<PlanOpId, MeasuredOp>(plan.ops.size());
  measured.ops[PlanOpId(2)] = {.runs = 1, .seconds = 0.5};
  measured.transfer_seconds = 3;
  measured.exposed_seconds = 1;
  ReportRequest request;
  request.plans.push_back({.plan = &plan, .measured = &measured});
  const Json told = report_data(request)["plans"][0]["measured"];
  EXPECT_EQ(told["op_seconds"], (Json{nullptr, nullptr, 0.5, nullptr, nullptr, nullptr}));
  EXPECT_EQ(told["hidden_seconds"], 2.0);
  ASSERT_EQ(told["by_kind"].size(), 1U);
  const Json& kind = told["by_kind"][0];
  EXPECT_EQ(kind["kind"], plan.ops[PlanOpId(2)].kind);
  EXPECT_EQ(kind["ops"], 1);
  EXPECT_EQ(kind["measured_seconds"], 0.5);
  EXPECT_EQ(kind["predicted_seconds"], plan.ops[PlanOpId(2)].predicted_seconds);
}

TEST(ReportData, APointOfTheFrontFindsItsPlanAndTheNextBudget) {
  Plan plan = training_plan();
  plan.arena_bytes = 900;
  plan.claims.budget_bytes = 1000;
  plan.claims.predicted_seconds = 2;
  SweptFront front;
  front.model = "net";
  FrontPoint more, same, missed;
  more.budget_bytes = 2000;
  more.found = same.found = true;
  more.seconds = 1;
  same.budget_bytes = 1000;
  same.arena_bytes = 900;
  same.seconds = 2;
  missed.budget_bytes = 100;
  missed.reason = "too small";
  front.points = {more, same, missed};
  front.knee = 1;
  ReportRequest request;
  request.plans.push_back({.plan = &plan});
  request.front = &front;
  const Json json = report_data(request);
  EXPECT_EQ(json["front"]["points"][0]["plan"], -1);
  EXPECT_EQ(json["front"]["points"][1]["plan"], 0);
  EXPECT_EQ(json["front"]["points"][1]["knee"], true);
  EXPECT_TRUE(json["front"]["points"][2]["arena_bytes"].is_null());
  EXPECT_EQ(json["front"]["points"][2]["reason"], "too small");
  const Json& next = json["plans"][0]["actions"]["next_budget"];
  EXPECT_EQ(next["budget_bytes"], 2000);
  EXPECT_EQ(next["saved_seconds"], 1.0);
  EXPECT_EQ(next["from"], "front");
}

// Eleven points with a plan each, of which the first is the report's own.
TEST(ReportData, PlansOfAFrontAreLeftOutWhereTheyWouldBeTooLarge) {
  std::vector<Plan> plans(11, training_plan());
  SweptFront front;
  front.model = "net";
  ReportRequest request;
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].arena_bytes = static_cast<int64_t>(2000 - i);
    plans[i].claims.budget_bytes = plans[i].arena_bytes;
    request.plans.push_back({.plan = &plans[i]});
    FrontPoint point;
    point.found = true;
    point.budget_bytes = point.arena_bytes = plans[i].arena_bytes;
    front.points.push_back(point);
  }
  front.chosen = 3;
  front.knee = 4;
  request.front = &front;
  const Json all = report_data(request);
  EXPECT_EQ(column(all["front"]["points"], "plan"), (Json{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(all["front"]["plans_left_out"], 0);
  const size_t each = print_report(all["plans"][0]).size();
  request.most_bytes = 5 * each + each / 2;
  const Json some = report_data(request);
  EXPECT_EQ(some["front"]["plans_left_out"], 6);
  // The chosen point, the knee, the farthest from these and the first, and from these.
  EXPECT_EQ(column(some["front"]["points"], "plan"), (Json{0, -1, -1, 1, 2, -1, -1, 3, -1, -1, 4}));
  for (const Json& point : some["front"]["points"]) {
    const int plan = point["plan"];
    if (plan < 0) continue;
    EXPECT_EQ(some["plans"][plan]["summary"]["arena_bytes"], point["arena_bytes"]);
  }
  request.most_bytes = 1;
  EXPECT_EQ(report_data(request)["plans"].size(), 1u);
}

// Layers 0 to 3 of a stack: all alike but for layer 2, whose activation is made again.
TEST(ReportData, EqualLayersAreFolded) {
  PlanMaker make;
  std::vector<plan::Step> again;
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = "h." + std::to_string(layer);
    const auto w = make.given("w" + name, Category::kParameter);
    make.op({.kind = "MatMul", .name = name + "/mm", .module = name + ".fc", .inputs = {w}},
            Category::kActivation);
    make.op({.kind = "Relu", .name = name + "/relu", .module = name + ".act"},
            Category::kActivation);
    if (layer == 2) again.push_back(make.plan.steps.back());
  }
  make.plan.steps.insert(make.plan.steps.end(), again.begin(), again.end());
  const Json tree = data_of(make.plan)["plans"][0]["module_tree"];
  EXPECT_EQ(column(tree, "path"), (Json{"", "h", "h.0", "h.0.fc", "h.0.act", "h.2", "h.2.fc",
                                        "h.2.act", "h.3", "h.3.fc", "h.3.act"}));
  EXPECT_EQ(column(tree, "parent"), (Json{-1, 0, 1, 2, 2, 1, 5, 5, 1, 8, 8}));
  EXPECT_EQ(column(tree, "times"), (Json{1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(tree[3]["paths"], (Json{"h.0.fc", "h.1.fc"}));
  EXPECT_EQ(column(tree, "bytes"), (Json{768, 768, 384, 256, 128, 192, 128, 64, 192, 128, 64}));
  EXPECT_EQ(tree[2]["policy"], "kept");
  EXPECT_EQ(tree[5]["policy"], "mixed");
  EXPECT_EQ(tree[7]["policy"], "recomputed");
}

// A module pays what its ops take in parts beyond what they take whole.
TEST(ReportData, AModuleInPartsSaysSo) {
  PlanMaker make;
  const auto w = make.given("w", Category::kParameter);
  for (const char* name : {"a/part0", "a/part1"})
    make.op({.kind = "MatMul", .name = name, .module = "m", .inputs = {w}}, Category::kActivation);
  make.op({.kind = "Relu", .name = "b", .module = "n"}, Category::kActivation);
  for (plan::PlanOp& op : make.plan.ops) op.predicted_seconds = 1;
  make.plan.ops[plan::PlanOpId(0)].unsplit = plan::PlanUnsplit{1.5, 0, {128}};
  make.plan.ops[plan::PlanOpId(1)].unsplit.emplace();
  const Json plan = data_of(make.plan)["plans"][0], tree = plan["module_tree"];
  EXPECT_EQ(column(tree, "path"), (Json{"", "m", "n"}));
  EXPECT_EQ(column(tree, "policy"), (Json{"split", "split", "kept"}));
  EXPECT_EQ(column(tree, "paid_seconds"), (Json{0.5, 0.5, 0.0}));
  EXPECT_EQ(plan["summary"]["ops_in_parts"], 2);
}

}  // namespace
}  // namespace lowtide::report
