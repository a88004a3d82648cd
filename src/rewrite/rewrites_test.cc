#include "rewrite/rewrites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "support/graph_writer.h"

namespace lowtide::rewrite {
namespace {

TEST(Rewrites, EveryRowIsWhole) {
  std::set<std::string_view> seen;
  for (const Rewrite& rewrite : rewrites()) {
    EXPECT_TRUE(seen.insert(rewrite.name).second) << rewrite.name;
    EXPECT_TRUE(rewrite.on_forward || rewrite.on_step) << rewrite.name;
    EXPECT_FALSE(rewrite.effect.empty()) << rewrite.name;
    EXPECT_NE(rewrite.run, nullptr) << rewrite.name;
  }
  EXPECT_FALSE(seen.empty());
}

// Half of what is joined is cut away again: its parameter has no gradient then, or one of zeros.
TEST(Rewrites, KeepParametersThatTrainWithoutCounting) {
  GraphWriter w;
  const ir::ValueId x = w.given("x", {2, 3});
  const ir::ValueId p = w.given("p", {2, 3}, Category::kParameter);
  const ir::ValueId both = w.op("Concat", {w.op("Exp", {x}), p}, {{"axis", int64_t{1}}});
  w.result(w.op("Slice", {both}, {{"starts", ir::Dims{0, 0}}, {"sizes", ir::Dims{2, 2}}}));
  const auto slices = std::find_if(rewrites().begin(), rewrites().end(),
                                   [](const Rewrite& r) { return r.name == "slices"; });
  ASSERT_NE(slices, rewrites().end());
  const auto forward = run(*slices, RewriteStage::kForward, w.graph(), {});
  ASSERT_TRUE(forward.has_value());
  EXPECT_EQ(forward->ops, 0);
  const auto step = run(*slices, RewriteStage::kStep, w.graph(), {});
  ASSERT_TRUE(step.has_value());
  EXPECT_EQ(step->ops, 2);
}

TEST(Rewrites, AreChosenByName) {
  for (const Rewrite& rewrite : rewrites()) {
    const std::string name(rewrite.name);
    EXPECT_EQ(is_chosen(rewrite, {}), rewrite.by_default);
    EXPECT_TRUE(is_chosen(rewrite, {.with = {name}}));
    EXPECT_FALSE(is_chosen(rewrite, {.without = {name}}));
    EXPECT_TRUE(check({.with = {name}}).has_value());
    const Status both = check({.with = {name}, .without = {name}});
    ASSERT_FALSE(both.has_value());
    EXPECT_EQ(both.error().message, "--rewrite: '" + name + "' is also named by --no-rewrite");
  }
}

TEST(Rewrites, UnknownNamesAreRefused) {
  const Status with = check({.with = {"commmon-ops"}});
  ASSERT_FALSE(with.has_value());
  EXPECT_EQ(with.error().code, ErrorCode::kUsage);
  EXPECT_TRUE(
      with.error().message.starts_with("--rewrite: there is no rewrite 'commmon-ops' (known: "))
      << with.error().message;
  const Status without = check({.without = {""}});
  ASSERT_FALSE(without.has_value());
  EXPECT_TRUE(without.error().message.starts_with("--no-rewrite: there is no rewrite ''"));
}

}  // namespace
}  // namespace lowtide::rewrite
