#include "api/levers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/take_rewrites.h"

namespace lowtide {
namespace {

cost::DeviceProfile device(const char* name) {
  return cost::find_device(name).value();
}

PlanOptions asked(std::string allow, std::string forbid = {}) {
  PlanOptions options;
  options.allow = std::move(allow);
  options.forbid = std::move(forbid);
  return options;
}

PlanOptions made(const PlanOptions& options, const char* on = "rtx3090") {
  const auto result = with_levers(options, device(on));
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.value_or(PlanOptions{});
}

std::string refusal(const PlanOptions& options, const char* on = "rtx3090") {
  const auto result = with_levers(options, device(on));
  if (result) return "taken";
  EXPECT_EQ(result.error().code, ErrorCode::kUsage);
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
  return result.error().message;
}

TEST(Levers, WithoutAWordOptionsAreAsTheyWere) {
  PlanOptions options;
  options.split = "4";
  options.swap = "host";
  const PlanOptions same = made(options);
  EXPECT_EQ(same.split, "4");
  EXPECT_EQ(same.swap, "host");
  EXPECT_TRUE(same.recompute && same.reorder && same.sums);
  EXPECT_TRUE(same.no_rewrites.empty());
}

TEST(Levers, AreNamedOnceEach) {
  EXPECT_EQ(refusal(asked("swap,swap")), "--allow: lever 'swap' is named twice");
  EXPECT_EQ(refusal(asked("", "split,swap,split")), "--forbid: lever 'split' is named twice");
}

// What a model has nothing for is told, and nothing else.
TEST(Levers, WithoutEffectAreNamed) {
  PlanOptions options;
  pipeline::Optimized made;
  EXPECT_TRUE(levers_without_effect(options, made).empty());
  options.query_blocks = 65;
  options.rewrites = {"chunked-loss", "reassociate"};
  made.rewrites = {{.name = "reassociate", .ops = 2}};
  using Lines = std::vector<std::string>;
  EXPECT_EQ(levers_without_effect(options, made),
            (Lines{"--query-blocks 65: no attention was found, so nothing is in blocks of queries",
                   "--rewrite chunked-loss: it found nothing to change"}));
  made.query_blocks = 64;
  options.rewrites.clear();
  EXPECT_EQ(levers_without_effect(options, made),
            (Lines{"--query-blocks 65: no attention has more than 64 rows of queries, so it is in "
                   "64 blocks"}));
  made.query_blocks = 1;
  options.no_rewrites = {"query-blocks"};
  EXPECT_EQ(levers_without_effect(options, made),
            (Lines{"--query-blocks 65: the rewrite query-blocks is switched off, so nothing is in "
                   "blocks of queries"}));
  options.query_blocks = 1;
  EXPECT_TRUE(levers_without_effect(options, made).empty());
}

TEST(Levers, AllowNamesAllThatMayBeUsed) {
  const PlanOptions split = made(asked("split"));
  EXPECT_EQ(split.split, "auto");
  EXPECT_FALSE(split.recompute || split.reorder);
  EXPECT_TRUE(split.swap.empty());
  EXPECT_FALSE(split.no_rewrites.empty());
  const PlanOptions all = made(asked("split,recompute,swap,reorder,rewrite"));
  EXPECT_EQ(all.split, "auto");
  EXPECT_EQ(all.swap, device("rtx3090").slow_tiers.front().name);
  EXPECT_TRUE(all.recompute && all.reorder && all.sums);
  EXPECT_TRUE(all.no_rewrites.empty());
  EXPECT_TRUE(all.allow.empty());
  PlanOptions own = asked("split,swap");
  own.split = "2,norm:8";
  own.swap = "file";
  EXPECT_EQ(made(own).split, "2,norm:8");
  EXPECT_EQ(made(own).swap, "file");
}

TEST(Levers, ForbidLeavesTheOthersToTheirFlags) {
  const PlanOptions options = made(asked({}, "reorder,rewrite"));
  EXPECT_TRUE(options.split.empty() && options.swap.empty());
  EXPECT_TRUE(options.recompute);
  EXPECT_FALSE(options.reorder);
  EXPECT_EQ(options.no_rewrites, pipeline::all_rewrites());
  EXPECT_FALSE(options.no_rewrites.empty());
}

TEST(Levers, AreOpenWhereNothingSpeaksOfThem) {
  EXPECT_TRUE(leaves_levers_open({}));
  PlanOptions options;
  options.budget_bytes = 1;
  options.no_rewrites = {"common-ops"};
  options.sums = false;
  EXPECT_TRUE(leaves_levers_open(options)) << "none of these is a lever";
  options.more_levers = false;
  EXPECT_FALSE(leaves_levers_open(options));
  std::vector<PlanOptions> named = {asked("recompute"), asked({}, "swap")};
  named.emplace_back().split = "1";
  named.emplace_back().cuts = {"a:m:2"};
  named.emplace_back().swap = "host";
  named.emplace_back().query_blocks = 2;
  named.emplace_back().recompute = false;
  named.emplace_back().reorder = false;
  for (size_t i = 0; i < named.size(); ++i) EXPECT_FALSE(leaves_levers_open(named[i])) << i;
}

TEST(Levers, AllAreThoseThatTheDeviceHas) {
  cost::DeviceProfile own = device("rtx3090");
  EXPECT_EQ(all_levers({}, own), "split,recompute,swap,reorder,rewrite");
  PlanOptions proven;
  proven.prove = 1;
  EXPECT_EQ(all_levers(proven, own), "split,recompute,reorder,rewrite");
  own.slow_tiers.clear();
  EXPECT_EQ(all_levers({}, own), "split,recompute,reorder,rewrite");
}

TEST(Levers, UnusedAreThoseThatThePlanCannotUse) {
  pipeline::OptimizeOptions options;
  options.device = device("rtx3090");
  using Words = std::vector<std::string>;
  EXPECT_EQ(unused_levers({}, options), (Words{"split", "swap"}));
  options.split = {.parts = 0};
  options.slow_tiers.resize(1);
  EXPECT_TRUE(unused_levers({}, options).empty());
  options.schedule.recompute = false;
  options.rewrites.without = {"common-ops"};
  pipeline::keep_given_order(options);
  EXPECT_EQ(unused_levers({}, options), (Words{"recompute", "reorder", "rewrite"}));
  options.slow_tiers.clear();
  options.device.slow_tiers.clear();
  EXPECT_EQ(unused_levers({}, options), (Words{"recompute", "reorder", "rewrite"}));
}

TEST(Levers, AnOpenSlowdownSplits) {
  PlanOptions options;
  options.slowdown = 0.1;
  EXPECT_EQ(made(options).split, "auto");
  EXPECT_TRUE(made(options).swap.empty());
  EXPECT_TRUE(made(options).recompute);
  options.allow = "recompute,reorder,rewrite";
  EXPECT_TRUE(made(options).split.empty());
  options.allow.clear();
  options.more_levers = false;
  EXPECT_TRUE(made(options).split.empty());
}

TEST(Levers, ASlowdownBelowZeroIsToldTheLeast) {
  const auto model = Model::parse(R"(graph "small" "by hand"
given "x" f32 [4, 4] input fed
op "Relu" "relu" "" forward v0
  out "y" f32 [4, 4] activation own output
)",
                                  "small.graph");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  PlanOptions options;
  options.slowdown = -0.05;
  const auto refused = Plan::make(*model, options);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUsage);
  EXPECT_NE(refused.error().message.find("--slowdown: -5% is below the least, 0%"),
            std::string::npos)
      << refused.error().message;
}

TEST(Levers, RefusesWhatContradictsItself) {
  EXPECT_EQ(refusal(asked("split,cut")),
            "--allow: 'cut' is no lever; levers are split, recompute, swap, reorder, rewrite");
  EXPECT_EQ(refusal(asked("split,")),
            "--allow: '' is no lever; levers are split, recompute, swap, reorder, rewrite");
  EXPECT_EQ(refusal(asked("split", "swap")),
            "--allow split and --forbid swap are two answers to one question: give one");
  PlanOptions options = asked({}, "split");
  options.split = "4";
  EXPECT_EQ(refusal(options), "--forbid split: split is not allowed, but --split 4 asks for it");
  options = asked("recompute");
  options.cuts = {"a:m:2"};
  EXPECT_EQ(refusal(options),
            "--allow recompute: split is not allowed, but --cut a:m:2 asks for it");
  options = asked("recompute");
  options.swap = "host";
  EXPECT_EQ(refusal(options),
            "--allow recompute: swap is not allowed, but --swap host asks for it");
  options = asked("recompute");
  options.recompute = false;
  EXPECT_EQ(refusal(options), "--no-recompute: --allow names recompute");
  options = asked({}, "rewrite");
  options.rewrites = {"reassociate"};
  EXPECT_EQ(refusal(options),
            "--forbid rewrite: rewrite is not allowed, but --rewrite reassociate asks for it");
  cost::DeviceProfile bare = device("rtx3090");
  bare.slow_tiers.clear();
  const auto none = with_levers(asked("swap"), bare);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().message,
            "--allow swap: the device 'NVIDIA GeForce RTX 3090' knows no slow tier; name one and "
            "give its "
            "speed, as in --swap host --link 12GiB/s");
}

}  // namespace
}  // namespace lowtide
