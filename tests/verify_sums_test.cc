// The verifier beside the graph whose sums were in any order (verify/sums.h). Random networks that
// use a few weights again and again are trained; their plans, whose sums were put in order, are the
// same step. Then every share of every sum is dropped once, every reader of a sum gets an earlier
// version of it, operands are exchanged, an op is left out, named as another or given another
// attribute, what is given has other contents, and results are taken from elsewhere: each must be
// found. So must a wait that is lost; and attributes that are no numbers, and ops that make
// nothing, are no difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "io/graph_file.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "pipeline/prepare.h"
#include "support/shared_weights.h"
#include "verify/facts.h"
#include "verify/parts.h"
#include "verify/sums.h"

namespace lowtide::verify_sums_test {
namespace {

using plan::PlanOpId;
using plan::PlanValueId;

struct Settled {
  ir::Graph before;
  plan::Plan plan;
};

Settled settled(uint64_t seed) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.training->optimizer.kind = autodiff::OptimizerKind::kSgd;
  options.find_smallest = false;
  const SharedWeights network(seed, 12);
  auto ready = pipeline::prepare(network.graph(), options);
  auto made = pipeline::optimize(network.graph(), options);
  EXPECT_TRUE(ready.has_value() && made.has_value()) << (made ? "" : made.error().message);
  EXPECT_FALSE(ready->view.sums.empty()) << "nothing was settled";
  return {std::move(ready->graph), std::move(made->plan)};
}

class Spoiler {
 public:
  explicit Spoiler(const Settled& settled) : settled_(settled), facts_(settled.plan) {}

  // All ways, each on a copy of the plan.
  void spoil_all() {
    for (const PlanOpId o : settled_.plan.ops.ids()) {
      for (const auto& [input, output] : ops::accumulators(facts_.instance(o))) {
        const auto i = static_cast<size_t>(input);
        drops += found(o, [&](plan::Plan& plan) { plan.ops[o].inputs[i] = PlanValueId::none(); });
        read_too_early(o, settled_.plan.ops[o].outputs[static_cast<size_t>(output)],
                       settled_.plan.ops[o].inputs[i]);
      }
      exchange_operands(o);
      others += found(o, [&](plan::Plan& plan) { plan.ops[o].attrs["extra"] = int64_t{1}; });
      others += found(o, [&](plan::Plan& plan) { plan.ops[o].name += "/other"; });
      if (o != PlanOpId(0))
        others +=
            found(o, [&](plan::Plan& plan) { plan.ops[o].name = plan.ops[PlanOpId(0)].name; });
    }
    for (const PlanValueId v : settled_.plan.values.ids()) {
      const plan::PlanValue& value = settled_.plan.values[v];
      if (value.is_output)
        others +=
            found(value.producer, [&](plan::Plan& plan) { plan.values[v].is_output = false; });
      if (value.producer.valid()) continue;
      others += found(PlanOpId(0), [&](plan::Plan& plan) { plan.values[v].initial.bytes += 'x'; });
      others += found(PlanOpId(0), [&](plan::Plan& plan) {
        plan.storages[value.storage].category = Category::kTemporary;
      });
    }
  }

  int drops = 0, early = 0, exchanges = 0, others = 0;

 private:
  int found(PlanOpId at, const std::function<void(plan::Plan&)>& spoil) const {
    plan::Plan plan = settled_.plan;
    spoil(plan);
    const bool is_found = !verify::verify_sums(plan, settled_.before).empty();
    EXPECT_TRUE(is_found) << settled_.plan.ops[at].name << " (" << settled_.plan.ops[at].kind
                          << ")";
    return is_found ? 1 : 0;
  }

  // Whoever reads this version without adding to it reads the one before.
  void read_too_early(PlanOpId adds, PlanValueId version, PlanValueId earlier) {
    for (const PlanOpId o : settled_.plan.ops.ids()) {
      const auto sums = ops::accumulators(facts_.instance(o));
      for (size_t i = 0; i < settled_.plan.ops[o].inputs.size(); ++i) {
        const bool is_added_into = std::any_of(sums.begin(), sums.end(), [&](const auto& sum) {
          return static_cast<size_t>(sum.first) == i;
        });
        if (settled_.plan.ops[o].inputs[i] != version || is_added_into) continue;
        early += found(adds, [&](plan::Plan& plan) { plan.ops[o].inputs[i] = earlier; });
      }
    }
  }

  void exchange_operands(PlanOpId o) {
    const std::vector<PlanValueId>& inputs = settled_.plan.ops[o].inputs;
    if (inputs.size() < 2 || !inputs[1].valid() || inputs[0] == inputs[1]) return;
    if (!ops::accumulators(facts_.instance(o)).empty()) return;
    exchanges += found(
        o, [&](plan::Plan& plan) { std::swap(plan.ops[o].inputs[0], plan.ops[o].inputs[1]); });
  }

  const Settled& settled_;
  const verify::Facts facts_;
};

TEST(VerifySums, WhatLosesAShareOrReadsTooEarlyIsFound) {
  int drops = 0, early = 0, exchanges = 0, others = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Settled made = settled(seed);
    if (HasFailure()) return;
    const std::vector<std::string> right = verify::verify_sums(made.plan, made.before);
    ASSERT_TRUE(right.empty()) << right.front();
    Spoiler spoiler(made);
    spoiler.spoil_all();
    if (HasFailure()) return;
    drops += spoiler.drops, early += spoiler.early;
    exchanges += spoiler.exchanges, others += spoiler.others;
  }
  std::printf("%d shares dropped, %d sums read too early, %d exchanges, %d other changes\n", drops,
              early, exchanges, others);
  EXPECT_GT(drops, 40);
  EXPECT_GT(early, 15);
  EXPECT_GT(exchanges, 100);
  EXPECT_GT(others, 1000);
}

// Each op once, as it came.
plan::Plan planned(const ir::Graph& graph) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.find_smallest = false;
  auto made = pipeline::optimize(graph, options);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(made->plan);
}

TEST(VerifySums, AWaitThatIsLostIsFoundAndWhatMakesNothingIsThere) {
  const std::string text = R"(graph "t" "by hand"
given "x" f32 [64] input fed
op "OpaqueEffect" "first" "" forward v0
  attr "op" word "l::a"
op "LeakyRelu" "b" "" forward v0
  attr "alpha" real nan
  out "z" f32 [64] activation own output
op "Tanh" "a" "" forward v0
)";
  const std::string end = "  out \"y\" f32 [64] activation own output\n";
  const auto free = io::read_graph_text(text + end, "free");
  const auto waiting = io::read_graph_text(text + "  control n0 n1\n" + end, "waiting");
  ASSERT_TRUE(free.has_value() && waiting.has_value()) << free.error().message;
  for (const ir::Graph* graph : {&*free, &*waiting}) {
    const plan::Plan plan = planned(*graph);
    EXPECT_TRUE(verify::verify_sums(plan, *graph).empty());
    const verify::PartsReport whole = verify::verify_parts(plan, *graph);
    EXPECT_TRUE(whole.ok()) << whole.findings.front();
  }
  const plan::Plan lost = planned(*free);
  const auto findings = verify::verify_sums(lost, *waiting);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0],
            "op 'a' does not wait for op 'first', as it did before its sums were ordered");
  const verify::PartsReport whole = verify::verify_parts(lost, *waiting);
  ASSERT_EQ(whole.findings.size(), 2U);
  EXPECT_EQ(whole.findings[1], "op 'a' does not wait for op 'b', as in the whole step");
}

// By way of others is waiting, too.
TEST(VerifySums, AWaitThatFollowsFromOthersIsNotLost) {
  const std::string text = R"(graph "t" "by hand"
given "x" f32 [64] input fed
op "Tanh" "a" "" forward v0
  out "y" f32 [64] activation own
op "Sigmoid" "b" "" forward v1
  out "z" f32 [64] activation own
op "Tanh" "c" "" forward v2
)";
  const std::string end = "  out \"w\" f32 [64] activation own output\n";
  const auto free = io::read_graph_text(text + end, "free");
  const auto waiting = io::read_graph_text(text + "  control n0\n" + end, "waiting");
  ASSERT_TRUE(free.has_value() && waiting.has_value());
  EXPECT_TRUE(verify::verify_sums(planned(*free), *waiting).empty());
}

TEST(VerifySums, OtherContentsAreFoundBesideTheWholeStepToo) {
  const auto step = io::read_graph_text(R"(graph "t" "by hand"
given "x" f32 [2] input fed
given "c" f32 [2] input inline "0000803f0000803f"
op "Mul" "m" "" forward v0 v1
  out "y" f32 [2] activation own output
)",
                                        "step");
  ASSERT_TRUE(step.has_value()) << step.error().message;
  plan::Plan plan = planned(*step);
  EXPECT_TRUE(verify::verify_parts(plan, *step).ok());
  for (plan::PlanValue& value : plan.values)
    if (value.name == "c") value.initial.bytes[3] = '\x40';
  const verify::PartsReport other = verify::verify_parts(plan, *step);
  ASSERT_EQ(other.findings.size(), 1U);
  EXPECT_EQ(other.findings[0], "'c' differs in its initial contents from the whole step");
}

TEST(VerifySums, AFindingNamesTheOp) {
  const Settled made = settled(1);
  const verify::Facts facts(made.plan);
  plan::Plan plan = made.plan;
  std::string name;
  for (const PlanOpId o : plan.ops.ids()) {
    const auto sums = ops::accumulators(facts.instance(o));
    if (sums.empty() || !name.empty()) continue;
    name = plan.ops[o].name;
    plan.ops[o].inputs[static_cast<size_t>(sums[0].first)] = PlanValueId::none();
  }
  const auto findings = verify::verify_sums(plan, made.before);
  ASSERT_FALSE(findings.empty());
  EXPECT_NE(findings[0].find("is not what it was before its sums were ordered"), std::string::npos)
      << findings[0];
  plan = made.plan;
  plan.ops[PlanOpId(0)].name = "other";
  EXPECT_EQ(verify::verify_sums(plan, made.before).front(),
            "op 'other' (" + plan.ops[PlanOpId(0)].kind +
                ") is not there before its sums were ordered, or twice in the plan");
}

}  // namespace
}  // namespace lowtide::verify_sums_test
