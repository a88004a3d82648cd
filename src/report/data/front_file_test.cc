// Lines of a front are read as they were written; what is of another model, or no front, is refused
// with file and line.
#include "report/data/front_file.h"

#include <gtest/gtest.h>

#include "report/front_text.h"
#include "report/testing/small_plans.h"

namespace lowtide::report {
namespace {

Plan plan_of(const std::string& model, int64_t batch) {
  Plan plan = training_plan();
  plan.model = model;
  plan.bindings = {{"batch", batch}};
  return plan;
}

std::vector<FrontPoint> example_points() {
  FrontPoint first, second;
  first.budget_bytes = 1000;
  first.status = "optimal";
  first.found = true;
  first.arena_bytes = 960;
  first.peak_bytes = 896;
  first.seconds = 0.1;
  first.lower_bound_seconds = 0.09;
  first.extra = 0.25;
  first.reruns = 7;
  first.split = "2,norm:8";
  second.budget_bytes = 500;
  second.status = "infeasible";
  second.reason = "needs 600 bytes";
  return {first, second};
}

std::string example_lines(const Plan& plan) {
  const std::vector<FrontPoint> points = example_points();
  return front_lines({.unlimited = plan, .points = points, .knee = 0, .chosen = 0});
}

std::string refused_front(const std::string& lines, const Plan& plan) {
  const auto front = read_front(lines, "f.jsonl", plan);
  if (front) return "no error";
  EXPECT_EQ(front.error().code, ErrorCode::kInput);
  EXPECT_EQ(front.error().message.find('\n'), std::string::npos);
  return front.error().message;
}

TEST(FrontFile, ReadsWhatASweepWrites) {
  const Plan plan = plan_of("net", 8);
  const auto front = read_front(example_lines(plan), "f.jsonl", plan);
  ASSERT_TRUE(front) << front.error().message;
  EXPECT_EQ(front->model, "net");
  EXPECT_EQ(front->dims, plan.bindings);
  ASSERT_EQ(front->points.size(), 2u);
  EXPECT_EQ(front->points[0].arena_bytes, 960);
  EXPECT_EQ(front->points[0].extra, 0.25);
  EXPECT_EQ(front->points[0].reruns, 7);
  EXPECT_EQ(front->points[0].split, "2,norm:8");
  EXPECT_EQ(front->points[1].reason, "needs 600 bytes");
  EXPECT_EQ(front->knee, 0u);
  EXPECT_EQ(front->chosen, 0u);
}

TEST(FrontFile, OfAnotherModelOrSizeIsRefused) {
  const std::string lines = example_lines(plan_of("net", 8));
  EXPECT_EQ(refused_front(lines, plan_of("other", 8)),
            "f.jsonl, line 1: a front of model 'net'; the plan is of 'other'");
  EXPECT_EQ(refused_front(lines, plan_of("net", 4)),
            "f.jsonl, line 1: a front for batch=8; the plan is for batch=4");
}

TEST(FrontFile, WhatIsNoFrontIsRefused) {
  const Plan plan = plan_of("net", 8);
  EXPECT_EQ(refused_front("", plan), "f.jsonl: has no points of a front");
  EXPECT_TRUE(refused_front("front\n", plan).starts_with("f.jsonl, line 1: no JSON object;"));
  EXPECT_TRUE(refused_front("{}\n", plan).find("does not say of which model") != std::string::npos);
  std::string lines = example_lines(plan);
  std::string changed = lines;
  changed.replace(changed.find("\"peak_bytes\":896"), 16, "\"peak_bytes\":\"a\"");
  EXPECT_EQ(refused_front(changed, plan),
            "f.jsonl, line 1: 'peak_bytes' is missing or no whole number");
  EXPECT_EQ(refused_front(lines + lines, plan),
            "f.jsonl, line 3: budgets must become smaller from line to line");
}

}  // namespace
}  // namespace lowtide::report
