// Ops of a step in parts find what they are in one part; whatever finds none, the seconds add up.
#include "pipeline/unsplit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "base/rng.h"

namespace lowtide::pipeline {
namespace {

using plan::PlanOpId;
using plan::PlanUnsplit;

PlanOpId add(plan::Plan& plan, const std::string& name, const std::string& module, double seconds) {
  plan::PlanOp op;
  op.name = name;
  op.module = module;
  op.predicted_seconds = seconds;
  op.outputs = {plan::PlanValueId(0)};
  return plan.ops.push_back(std::move(op));
}

// By how much the plan's ops take longer than those of the step in one part.
double more_seconds(const plan::Plan& plan) {
  double more = 0;
  for (const plan::PlanOp& op : plan.ops)
    if (op.unsplit) more += op.predicted_seconds - op.unsplit->seconds;
  return more;
}

TEST(Unsplit, TheFirstPartStandsForTheOp) {
  const UnsplitOps unsplit = {{"fc", {{4, 128, {256}}, "m"}}, {"relu", {{1, 0, {256}}, "m"}}};
  plan::Plan plan;
  const PlanOpId first = add(plan, "fc/part0", "m", 2.5), second = add(plan, "fc/part1", "m", 2.5),
                 join = add(plan, "relu/Concat", "m", 0.5), relu = add(plan, "relu", "m", 1);
  tell_unsplit(unsplit, plan);
  EXPECT_EQ(plan.ops[first].unsplit, (PlanUnsplit{4, 128, {256}}));
  EXPECT_EQ(plan.ops[second].unsplit, PlanUnsplit{});
  EXPECT_EQ(plan.ops[join].unsplit, PlanUnsplit{});
  EXPECT_EQ(plan.ops[relu].unsplit, std::nullopt);
  EXPECT_EQ(more_seconds(plan), 1.5);
}

TEST(Unsplit, WhatWasTakenApartIsToldOfItsFirstPieceOrItsModule) {
  const UnsplitOps unsplit = {{"bn", {{3, 0, {64}}, "m.bn"}},
                              {"reorder/x", {{0.5, 0, {64}}, "m.fc"}},
                              {"away", {{0.25, 0, {64}}, "of no op"}}};
  plan::Plan plan;
  const PlanOpId other = add(plan, "other", "m", 1), mean = add(plan, "bn/mean/part0", "m.bn", 2),
                 fc = add(plan, "fc", "m.fc", 1);
  tell_unsplit(unsplit, plan);
  EXPECT_EQ(plan.ops[mean].unsplit->seconds, 3);
  EXPECT_EQ(plan.ops[fc].unsplit->seconds, 0.5);
  EXPECT_EQ(plan.ops[other].unsplit->seconds, 0.25);
}

TEST(Unsplit, NamesThatOnlyLookLikePartsAreNone) {
  const UnsplitOps unsplit = {
      {"a", {{4, 0, {64}}, ""}}, {"a/part", {{1, 0, {64}}, ""}}, {"a/part01", {{1, 0, {64}}, ""}}};
  plan::Plan plan;
  for (const char* name : {"a", "a/part", "a/part01"}) add(plan, name, "", name[1] ? 1 : 4);
  tell_unsplit(unsplit, plan);
  for (const plan::PlanOp& op : plan.ops) EXPECT_EQ(op.unsplit, std::nullopt) << op.name;
}

TEST(Unsplit, SecondsAddUpWhateverTheNames) {
  const auto name = [](Rng& rng) {
    std::string text(1, static_cast<char>('a' + rng.below(4)));
    const char* const ends[] = {"", "/part0", "/part1", "/Concat", "/part10", "/b/part0"};
    return text + ends[rng.below(std::size(ends))];
  };
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Rng rng(seed);
    UnsplitOps unsplit;
    double in_one = 0;
    for (uint64_t n = rng.below(8); n > 0; --n) {
      const std::string called = name(rng);
      if (unsplit.contains(called)) continue;
      unsplit[called] = {{static_cast<double>(rng.below(9)), 0, {64}}, called.substr(0, 1)};
      in_one += unsplit[called].op.seconds;
    }
    plan::Plan plan;
    double in_parts = 0;
    std::set<std::string> taken;
    for (uint64_t n = 1 + rng.below(8); n > 0; --n) {
      const std::string called = name(rng);
      if (!taken.insert(called).second) continue;
      // A later part without the first is none.
      if (called.ends_with("/part1") || called.ends_with("/part10"))
        if (taken.insert(called.substr(0, called.rfind('/')) + "/part0").second)
          add(plan, called.substr(0, called.rfind('/')) + "/part0", "a", 0);
      add(plan, called, called.substr(0, 1), static_cast<double>(rng.below(9)));
      in_parts += plan.ops[PlanOpId(plan.ops.size() - 1)].predicted_seconds;
    }
    // An op is there whole or in parts.
    if (std::any_of(taken.begin(), taken.end(),
                    [&](const std::string& op) { return taken.contains(op + "/part0"); }))
      continue;
    tell_unsplit(unsplit, plan);
    EXPECT_EQ(more_seconds(plan), in_parts - in_one) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lowtide::pipeline
