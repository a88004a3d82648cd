// The trace of plans: what the format asks of every event, slices that do not overlap, and counters
// that are the profile.
#include "report/data/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/profile.h"
#include "report/testing/small_plans.h"
#include "verify/testing/example_plans.h"

namespace lowtide::report {
namespace {

using nlohmann::json;

std::vector<json> events_of(const Plan& plan) {
  const json trace = json::parse(trace_of(plan));
  return trace["traceEvents"].get<std::vector<json>>();
}

// As readers do it: cut off, not rounded.
int64_t nanoseconds_of(const json& microseconds) {
  return static_cast<int64_t>(microseconds.get<double>() * 1e3);
}

void expect_wellformed(const std::vector<json>& events) {
  std::map<int, int64_t> ended;              // by thread
  std::map<int64_t, double> begun, arrived;  // flows, with their times
  for (const json& event : events) {
    const std::string phase = event["ph"];
    ASSERT_TRUE(event.contains("pid") && event.contains("tid") && event.contains("name") &&
                event.contains("ts"))
        << event;
    ASSERT_TRUE(!event.contains("args") || event["args"].is_object()) << event;
    if (phase == "X") {
      int64_t& end = ended[event["tid"].get<int>()];
      const int64_t begin = nanoseconds_of(event["ts"]);
      ASSERT_GE(begin, end) << event;
      end = begin + nanoseconds_of(event["dur"]);
      ASSERT_GE(end, begin);
    } else if (phase == "s") {
      EXPECT_TRUE(begun.emplace(event["id"], event["ts"]).second);
    } else if (phase == "f") {
      EXPECT_EQ(event["bp"], "e");
      EXPECT_TRUE(arrived.emplace(event["id"], event["ts"]).second);
    } else {
      ASSERT_TRUE(phase == "M" || phase == "C") << event;
    }
  }
  ASSERT_EQ(begun.size(), arrived.size());
  for (const auto& [id, ts] : begun) {
    ASSERT_TRUE(arrived.contains(id));
    EXPECT_LE(ts, arrived[id]) << "flow " << id;
  }
}

void expect_counters_are_the_profile(const Plan& plan, const std::vector<json>& events) {
  const MemoryProfile profile = profile_planned(plan);
  size_t at = 0;
  for (const json& event : events) {
    if (event["ph"] != "C") continue;
    ASSERT_LT(at, profile.step_bytes.size());
    int64_t bytes = 0;
    for (size_t c = 0; c < kCategories; ++c) {
      const json& counted = event["args"][std::string(name(static_cast<Category>(c)))];
      EXPECT_EQ(counted, profile.step_categories[at][c]);
      bytes += counted.get<int64_t>();
    }
    EXPECT_EQ(bytes, profile.step_bytes[at]);
    ++at;
  }
  EXPECT_EQ(at, profile.step_bytes.size());
}

TEST(Trace, OfAPlanByHand) {
  const Plan plan = plan_with_a_rerun();
  const std::vector<json> events = events_of(plan);
  expect_wellformed(events);
  expect_counters_are_the_profile(plan, events);
  std::vector<std::string> ops;
  for (const json& event : events)
    if (event["ph"] == "X" && event["tid"] == 2) ops.push_back(event["name"]);
  EXPECT_EQ(ops, (std::vector<std::string>{"blocked", "product", "gradient", "product", "plain",
                                           "update"}));
}

TEST(Trace, OfRandomPlans) {
  size_t arrows = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    const Plan once = verify::lower(verify::random_graph(rng, static_cast<int>(4 + seed % 11)), rng,
                                    {.certificate = false});
    const Plan plan = verify::rerun_and_move(once, rng, 20);
    const std::vector<json> events = events_of(plan);
    expect_wellformed(events);
    expect_counters_are_the_profile(plan, events);
    for (const json& event : events) arrows += event["ph"] == "s";
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
  EXPECT_GT(arrows, 20u);
}

TEST(Trace, SaysWhetherItsPlanIsRight) {
  const Plan plan = training_plan();
  const json right = json::parse(trace_of(plan))["otherData"],
             wrong = json::parse(trace_of(plan, {"p.lt: wrong"}))["otherData"];
  EXPECT_EQ(right["verified"], true);
  EXPECT_EQ(right["findings"], json::array());
  EXPECT_EQ(wrong["verified"], false);
  EXPECT_EQ(right["predicted_seconds"], plan.claims.predicted_seconds);
  EXPECT_EQ(right["copying_seconds"], 0);
  EXPECT_EQ(wrong["findings"], json::array({"p.lt: wrong"}));
}

TEST(Trace, NamesAreText) {
  Plan plan = training_plan();
  plan.ops[PlanOpId(2)].name = "a\"\n\xFF<script>";
  const std::vector<json> events = events_of(plan);
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const json& event) {
    return event["name"] == "a\"\n\xEF\xBF\xBD<script>";
  }));
}

}  // namespace
}  // namespace lowtide::report
