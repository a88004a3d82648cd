// Groups of parts by hand, and random plans against the definition, step by step.
#include "report/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "report/testing/small_plans.h"
#include "verify/testing/example_plans.h"

namespace lowtide::report {
namespace {

TEST(Parts, NamesOfParts) {
  EXPECT_EQ(whole_of_part("fc/part0"), "fc");
  EXPECT_EQ(whole_of_part("a/part1/part12"), "a");
  EXPECT_EQ(whole_of_part("a/part3/part1/part12"), "a/part3");  // the model's own name
  for (const char* name : {"", "fc", "fc/part", "fc/part1x", "/parts", "fc/part-1"})
    EXPECT_EQ(whole_of_part(name), "") << name;
}

// Four ops: a in two parts, each read at once by a part of b, whose parts stay to the end.
Plan plan_in_parts() {
  PlanMaker make;
  const auto x = make.given("x", Category::kInput);
  const auto op = [&](const std::string& name, const std::string& module, PlanValueId input) {
    return make.op({.kind = "Relu", .name = name, .module = module, .inputs = {input}},
                   Category::kActivation);
  };
  const auto a0 = op("a/part0", "m.a", x);
  op("b/part0", "m.b", a0);
  const auto a1 = op("a/part1", "m.a", x);
  op("b/part1", "m.b", a1);
  const auto free = [&](PlanValueId value, size_t before) {
    plan::Step step{.kind = plan::Step::Kind::kFree, .storage = make.plan.values[value].storage};
    make.plan.steps.insert(make.plan.steps.begin() + static_cast<std::ptrdiff_t>(before), step);
  };
  free(a0, 2);
  free(a1, 5);
  for (plan::PlanOp& each : make.plan.ops) each.predicted_seconds = 1;
  make.plan.ops[PlanOpId(0)].unsplit = plan::PlanUnsplit{1.5, 0, {128}};
  make.plan.ops[PlanOpId(1)].unsplit = plan::PlanUnsplit{1.5, 32, {128}};
  for (size_t later : {2, 3}) make.plan.ops[PlanOpId(later)].unsplit.emplace();
  return make.plan;
}

TEST(Parts, ByHand) {
  const Plan plan = plan_in_parts();
  const auto [groups, all] = parts_of(plan, stays_of(plan));
  ASSERT_EQ(groups.size(), 2u);
  // x, a0; x, a0, b0; x, b0, a1; x, b0, a1, b1: the peak is 256. With a in one piece of 128 from
  // its first part to its last use: x, b0, b1 and 128 are 320.
  EXPECT_EQ(groups[0].module, "m.a");
  EXPECT_EQ(groups[0].parts, 2);
  EXPECT_TRUE(groups[0].priced);
  EXPECT_EQ(groups[0].benefit_bytes, 64);
  EXPECT_EQ(groups[0].freed_bytes, 128);  // when a0 is gone and a1 is not there yet
  EXPECT_DOUBLE_EQ(groups[0].seconds, 0.5);
  // b is all there at the peak anyway; its workspace of 32 comes on top of that.
  EXPECT_EQ(groups[1].benefit_bytes, 32);
  EXPECT_EQ(groups[1].freed_bytes, 64);
  // At the last step both: x, 128, 128 and 32.
  EXPECT_EQ(all.parts, 4);
  EXPECT_EQ(all.benefit_bytes, 352 - 256);
  EXPECT_DOUBLE_EQ(all.seconds, 1);
  EXPECT_EQ(seconds_in_one_part(training_plan()), std::nullopt);
  Plan once = plan;
  once.claims.once_seconds = 4;
  EXPECT_DOUBLE_EQ(seconds_in_one_part(once).value(), 3);
}

TEST(Parts, ContributionsToASumAreNoPieces) {
  Plan plan = plan_in_parts();
  plan.ops[PlanOpId(0)].unsplit->output_bytes = {0};  // as the two parts are larger than all of it
  plan.alignment_bytes = 1;
  EXPECT_EQ(parts_of(plan, stays_of(plan)).modules[0].benefit_bytes, 0);
}

TEST(Parts, WithoutTheOpsInOnePartNothingIsKnown) {
  Plan plan = plan_in_parts();
  for (plan::PlanOp& op : plan.ops) op.unsplit.reset();
  for (const ModuleParts& group : parts_of(plan, stays_of(plan)).modules) {
    EXPECT_FALSE(group.priced);
    EXPECT_EQ(group.parts, 2);
    EXPECT_EQ(group.benefit_bytes, 0);
  }
  EXPECT_TRUE(parts_of(training_plan(), stays_of(training_plan())).modules.empty());
}

// Some ops of the plan become parts of others, with drawn sizes of what these make in one part.
void draw_parts(Plan& plan, Rng& rng) {
  std::vector<PlanOpId> ids(plan.ops.ids().begin(), plan.ops.ids().end());
  for (size_t i = 0, op = 0; i < ids.size(); ++op) {
    const size_t parts = std::min<size_t>(1 + rng.below(3), ids.size() - i);
    const std::string module = rng.below(2) ? "m" : "n";
    for (size_t k = 0; k < parts; ++k) {
      plan::PlanOp& part = plan.ops[ids[i + k]];
      part.module = module;
      if (parts == 1) continue;
      part.name = "op" + std::to_string(op) + "/part" + std::to_string(k);
      part.unsplit.emplace();
      if (k > 0) continue;
      part.unsplit->workspace_bytes = rng.between(0, 9) * 64;
      for (size_t o = 0; o < part.outputs.size(); ++o)
        part.unsplit->output_bytes.push_back(rng.between(0, 40) * 64);
    }
    i += parts;
  }
}

bool present(const std::vector<Stay>& stays, PlanStorageId storage, size_t round, size_t step) {
  for (const Stay& stay : stays)
    if (stay.storage == storage && round-- == 0) return stay.begin <= step && step < stay.end;
  return false;
}

// Of one step: how much more there would be if the parts that `of` are were one op.
int64_t more_at(const Plan& plan, const std::vector<Stay>& stays, const std::vector<PlanOpId>& of,
                size_t step) {
  constexpr size_t kRounds = 40;
  const plan::PlanUnsplit& unsplit = *plan.ops[of[0]].unsplit;
  int64_t more = 0;
  for (size_t o = 0; o < unsplit.output_bytes.size(); ++o) {
    bool pieces = true;
    int64_t all = 0, there = 0;
    for (PlanOpId part : of) {
      pieces = pieces && o < plan.ops[part].outputs.size() &&
               plan.values[plan.ops[part].outputs[o]].alias == PlanAlias::kOwn;
      if (pieces) all += plan.storages[plan.values[plan.ops[part].outputs[o]].storage].bytes;
    }
    if (!pieces ||
        all > unsplit.output_bytes[o] + static_cast<int64_t>(of.size()) * plan.alignment_bytes)
      continue;
    bool joined = false;
    for (size_t round = 0; round < kRounds; ++round) {
      bool before = false, after = false;
      for (PlanOpId part : of) {
        const PlanStorageId s = plan.values[plan.ops[part].outputs[o]].storage;
        if (present(stays, s, round, step)) there += plan.storages[s].bytes;
        for (size_t at = 0; at < plan.steps.size(); ++at) {
          before = before || (at <= step && present(stays, s, round, at));
          after = after || (at >= step && present(stays, s, round, at));
        }
      }
      joined = joined || (before && after);
    }
    more += (joined ? unsplit.output_bytes[o] : 0) - there;
  }
  std::vector<std::vector<size_t>> runs(of.size());
  for (size_t at = 0; at < plan.steps.size(); ++at)
    for (size_t k = 0; k < of.size(); ++k)
      if (plan.steps[at].kind == plan::Step::Kind::kCompute && plan.steps[at].op == of[k])
        runs[k].push_back(at);
  for (size_t round = 0; round < kRounds; ++round) {
    size_t last = 0;
    bool ran = false;
    for (const auto& of_part : runs)
      if (round < of_part.size()) last = std::max(last, of_part[round]), ran = true;
    if (ran && last == step)
      more += std::max<int64_t>(
          unsplit.workspace_bytes - plan.ops[plan.steps[step].op].workspace_bytes, 0);
  }
  return more;
}

TEST(Parts, AreWhatTheDefinitionSays) {
  size_t groups = 0, worth = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    Rng rng(seed);
    Plan plan = verify::lower(verify::random_graph(rng, static_cast<int>(3 + seed % 10)), rng,
                              {.certificate = false});
    if (seed % 2 > 0) plan = verify::rerun_and_move(plan, rng, 10);
    draw_parts(plan, rng);
    const std::vector<Stay> stays = stays_of(plan);
    const std::vector<int64_t> bytes = bytes_of(plan, stays);
    std::map<std::pair<std::string, std::string>, std::vector<PlanOpId>> ops;
    for (PlanOpId id : plan.ops.ids())
      if (const std::string whole(whole_of_part(plan.ops[id].name)); !whole.empty())
        ops[{plan.ops[id].module, whole}].push_back(id);
    PartsTable table = parts_of(plan, stays);
    table.modules.push_back(table.all);
    table.modules.back().module = "all";
    for (const ModuleParts& group : table.modules) {
      int64_t peak = 0, without = 0, freed = 0;
      for (size_t step = 0; step < bytes.size(); ++step) {
        int64_t more = 0;
        for (const auto& [key, parts] : ops)
          if (group.module == "all" || key.first == group.module)
            more += more_at(plan, stays, parts, step);
        peak = std::max(peak, bytes[step]);
        without = std::max(without, bytes[step] + more);
        freed = std::max(freed, more);
      }
      ASSERT_EQ(group.benefit_bytes, without - peak) << "seed " << seed;
      ASSERT_EQ(group.freed_bytes, freed) << "seed " << seed;
      ++groups;
      worth += group.benefit_bytes > 0;
    }
  }
  EXPECT_GT(groups, 50u);
  EXPECT_GT(worth, 10u);
}

}  // namespace
}  // namespace lowtide::report
