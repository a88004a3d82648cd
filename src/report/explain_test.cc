// What is told of a tensor, an op and a module of plans by hand; names that are not there.
#include "report/explain.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "report/near_names.h"
#include "report/testing/small_plans.h"
#include "verify/testing/example_plans.h"

namespace lowtide::report {
namespace {

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(Explain, ATensorThatIsMadeAgain) {
  const Plan plan = plan_with_a_rerun();
  const auto story = tensor_story(plan, "out/product");
  ASSERT_TRUE(story);
  EXPECT_EQ(story->made_by, "product");
  EXPECT_EQ(story->module, "block.fc");
  EXPECT_EQ(story->reruns, 1);
  ASSERT_EQ(story->stays.size(), 2u);
  EXPECT_EQ(story->stays[1].stay.address, 448);
  EXPECT_EQ(story->stays[1].when.begin, 0.5);
  ASSERT_TRUE(story->worth);
  EXPECT_EQ(story->worth->peak_bytes, 448);
  EXPECT_EQ(story->worth->peak_without_bytes, 384);
  const std::string text = print(*story);
  EXPECT_TRUE(
      says(text, "tensor 'out/product': f32[16], 64 B (64 bytes), activation in block.fc\n"))
      << text;
  EXPECT_TRUE(says(text, "made again 1 time, which costs 250.000 ms\n")) << text;
  EXPECT_TRUE(says(text, "the peak would not be higher")) << text;
  EXPECT_TRUE(says(text, "at 448 to 512  made again\n")) << text;
  const auto json = to_json(*story);
  EXPECT_EQ(json["policy"], "recomputed");
  EXPECT_EQ(json["source"], "net/model.py:12");
  EXPECT_TRUE(says(text, "made by op 'product' (MatMul) in 250.000 ms, from net/model.py:12\n"))
      << text;
  EXPECT_EQ(json["stays"][0]["end_step"], 3);
  EXPECT_EQ(json["worth"]["peak_bytes"], 448);
}

// How many tensors of the plan are kept without a use for a while; each says what being away would
// bring and cost.
int kept_tensors_told(Plan plan) {
  int told = 0;
  for (const plan::PlanStorage& storage : plan.storages) {
    plan.claims.budget_bytes.reset();
    const auto story = tensor_story(plan, plan.values[storage.root].name);
    if (!story) continue;
    EXPECT_EQ(story->away.has_value(), story->idle.has_value() && !story->made_by.empty() &&
                                           story->policy == Policy::kKept && !story->resident &&
                                           !story->output);
    if (!story->away) continue;
    ++told;
    const Away& away = *story->away;
    EXPECT_EQ(away.seconds, story->make_seconds);
    EXPECT_LE(away.peak_without_bytes, away.peak_bytes);
    EXPECT_GE(away.peak_without_bytes, away.peak_bytes - story->bytes);
    const std::string text = print(*story);
    EXPECT_TRUE(says(text, "it would cost ")) << text;
    EXPECT_TRUE(says(text, ". No budget asks for that\n")) << text;
    EXPECT_EQ(to_json(*story)["away"]["peak_bytes"], away.peak_bytes);
    plan.claims.budget_bytes = 1 << 20;
    const std::string within = print(*tensor_story(plan, story->name));
    EXPECT_TRUE(says(within, ". The plan keeps its budget of 1.00 MiB without that\n")) << within;
  }
  return told;
}

TEST(Explain, WhyATensorIsKept) {
  int told = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    told += kept_tensors_told(
        verify::lower(verify::random_graph(rng, 12), rng, {.certificate = false}));
  }
  EXPECT_GT(told, 20);
}

TEST(Explain, AViewIsToldOfItsBuffer) {
  const Plan plan = training_plan();
  const auto story = tensor_story(plan, "out/flat");
  ASSERT_TRUE(story);
  EXPECT_EQ(story->name, "w");
  EXPECT_TRUE(story->resident);
  const std::string text = print(*story);
  EXPECT_TRUE(says(text, "'out/flat' is a view or an update of it\n")) << text;
  EXPECT_TRUE(says(text, "read by 2 ops: 'blocked', 'update'\n")) << text;
  EXPECT_TRUE(says(text, "kept: it is there before the step and stays\n")) << text;
}

TEST(Explain, WhoseBufferWasTakenOver) {
  Plan plan = training_plan();
  plan.steps[4].makes[0].reuses = PlanStorageId(5);
  const auto giver = tensor_story(plan, "out/gradient"), heir = tensor_story(plan, "out/plain");
  ASSERT_TRUE(giver && heir);
  EXPECT_TRUE(says(print(*giver), "then taken over by 'out/plain'\n")) << print(*giver);
  EXPECT_TRUE(says(print(*heir), "in the place of 'out/gradient'\n")) << print(*heir);
  EXPECT_EQ(op_story(plan, "plain")->took_over,
            (std::vector<std::string>{"out/plain over out/gradient"}));
}

TEST(Explain, AnOp) {
  Plan plan = plan_with_a_rerun();
  plan.ops[PlanOpId(2)].workspace_bytes = 128;
  const auto story = op_story(plan, "product");
  ASSERT_TRUE(story);
  ASSERT_EQ(story->runs.size(), 2u);
  EXPECT_EQ(story->runs[0].step, 2u);
  EXPECT_EQ(story->runs[0].bytes, 448);
  EXPECT_EQ(story->runs[1].when.end, 0.75);
  const std::string text = print(*story);
  EXPECT_TRUE(says(text, "op 'product': MatMul, forward in block.fc, 250.000 ms a run, workspace"))
      << text;
  EXPECT_TRUE(says(text, "reads 'x', 'out/blocked'\nmakes 'out/product'\n")) << text;
  EXPECT_TRUE(says(text, "runs 2 times, so 1 again, which costs 250.000 ms\n")) << text;
  EXPECT_TRUE(says(print(*op_story(plan, "flat")), "makes views only")) << text;
  EXPECT_EQ(to_json(*story)["runs"].size(), 2u);
}

TEST(Explain, AModuleAndWhatIsBelowIt) {
  const Plan plan = plan_with_a_rerun();
  const auto story = module_story(plan, "block");
  ASSERT_TRUE(story);
  EXPECT_EQ(story->modules, 1);
  EXPECT_EQ(story->ops, 2);
  EXPECT_EQ(story->actions.reruns, 1);
  EXPECT_EQ(story->bytes_at_peak, 384);
  EXPECT_TRUE(says(print(*story), "kept: 2, recomputed: 1\n")) << print(*story);
  EXPECT_EQ(to_json(*story)["policies"]["recomputed"], 1);
  EXPECT_FALSE(module_story(plan, "bloc"));
}

TEST(Explain, ANameThatIsNotThereGetsOneLineWithNearOnes) {
  const Plan plan = training_plan();
  const auto story = tensor_story(plan, "out/prodct");
  ASSERT_FALSE(story);
  EXPECT_EQ(story.error().code, ErrorCode::kUsage);
  EXPECT_TRUE(story.error().message.starts_with(
      "--tensor: the plan has no tensor 'out/prodct'; names like it: 'out/product'"))
      << story.error().message;
  EXPECT_EQ(op_story(plan, "nothing at all like them").error().message,
            "--op: the plan has no op 'nothing at all like them'; no name in it is like that");
}

TEST(NearNames, WhatContainsItThenWhatIsFewChangesAway) {
  const std::vector<std::string> names = {"layer_norm_24",     "layer_norm_2", "layer_norm_4",
                                          "h.layer_norm_24.w", "softmax",      "layer_norm_24"};
  EXPECT_EQ(near_names("layer_norm_24", names, 3),
            (std::vector<std::string>{"h.layer_norm_24.w", "layer_norm_24", "layer_norm_2"}));
  EXPECT_TRUE(near_names("quantize", names, 3).empty());
  EXPECT_TRUE(near_names("", {}, 3).empty());
}

}  // namespace
}  // namespace lowtide::report
