// Random labellings: in small training steps, ops drawn at random run in parts, along axes and with
// boundaries drawn at random. The step in parts equals the step as it was on the reference executor
// in double precision, for every result and every updated parameter; and it is planned, proven
// (the gate), judged by definition and run in one arena of the planned size.
#include "verify/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "analysis/sums.h"
#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/labels.h"
#include "fission/part_order.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "pipeline/take_rewrites.h"
#include "support/long_checks.h"
#include "support/quick_plans.h"
#include "support/run_against_reference.h"
#include "support/small_steps.h"
#include "verify/testing/definition.h"

namespace lowtide::parts_test {
namespace {

using fission::Cuts;
using ir::ValueId;

struct Seen {
  int labellings = 0, ops = 0, parts = 0, wholes = 0, sums = 0;
  int planned = 0, budgets = 0;  // run in one arena: without a budget, within one
  std::set<std::string> kinds;   // op and axis
};

Cuts random_cuts(const ir::Graph& graph, Rng& rng, Seen& seen) {
  Cuts cuts(graph.op_count());
  const size_t rate = 1 + rng.below(4);
  for (ir::OpId id : graph.ops()) {
    std::vector<Choice> all = choices(graph, id, rng);
    if (all.empty() || rng.below(4) >= rate) continue;
    const Choice& chosen = all[rng.below(all.size())];
    cuts[id] = chosen.cut;
    ++seen.ops;
    seen.kinds.insert(graph.op(id).kind + " " + chosen.axis);
  }
  return cuts;
}

void plan_and_run(const ir::Graph& parts, const ir::Graph& step,
                  const runtime::KernelFactory& kernels, Seen& seen) {
  // What is right does not hang on how good the order and the addresses are.
  pipeline::OptimizeOptions options = quick(&kernels);
  const auto free = pipeline::optimize(parts, options);
  ASSERT_TRUE(free.has_value()) << free.error().message;
  for (const plan::PlanValue& value : free->plan.values)
    seen.wholes += value.alias == plan::PlanAlias::kPieces;
  std::string why;
  EXPECT_TRUE(verify::valid_by_definition(free->plan, &why, &free->plan)) << why;
  expect_right_results(free->plan, step, kernels);
  const verify::PartsReport same = verify::verify_parts(free->plan, step);
  EXPECT_TRUE(same.ok()) << same.findings.front();
  ++seen.planned;
  const auto least = pipeline::least_bytes(parts, options);
  ASSERT_TRUE(least.has_value()) << least.error().message;
  options.schedule.remat.limits.max_units = some_of(500'000, 5);
  options.budget_bytes = *least + (free->plan.arena_bytes - *least) * 3 / 4;
  const auto tight = pipeline::optimize(parts, options);
  if (!tight) {
    EXPECT_NE(tight.error().message.find("bytes was not reached"), std::string::npos)
        << tight.error().message;
    return;
  }
  ++seen.budgets;
  const verify::PartsReport same_within = verify::verify_parts(tight->plan, step);
  EXPECT_TRUE(same_within.ok()) << same_within.findings.front();
  expect_right_results(tight->plan, step, kernels);
}

TEST(Parts, OfRandomLabellingsEqualTheStepAndRunInOneArena) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  Seen seen;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(360, 20)); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 7 + 1);
    const ir::Graph step = training_step(seed, rng);
    const auto expanded = fission::expand(step, random_cuts(step, rng, seen));
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    ++seen.labellings;
    for (const auto& parts : expanded->parts)
      seen.parts += parts.size() > 1 ? static_cast<int>(parts.size()) : 0;
    seen.sums += static_cast<int>(analysis::find_sums(expanded->graph).size());
    expect_equal_effects(expanded->graph, step);
    if (HasFailure()) return;
    plan_and_run(expanded->graph, step, *kernels, seen);
    if (HasFailure()) return;
  }
  std::printf(
      "%d labellings, %d ops in %d parts, %zu kinds of axis, %d sums, %d wholes, %d run in one "
      "arena, %d within a budget\n",
      seen.labellings, seen.ops, seen.parts, seen.kinds.size(), seen.sums, seen.wholes,
      seen.planned, seen.budgets);
  EXPECT_EQ(seen.labellings, some_of(360, 20));
  EXPECT_EQ(seen.planned, seen.labellings);
  EXPECT_GE(3 * seen.budgets, 2 * seen.planned) << "in the others nothing was found";
  EXPECT_GT(seen.ops, 450);
  EXPECT_GT(seen.kinds.size(), 60U);
  EXPECT_GT(seen.sums, 35);
  EXPECT_GT(seen.wholes, 60);
}

// Alone, every op of the steps along every axis that can be split.
TEST(Parts, OfEveryOpAlongEveryAxisEqualTheStep) {
  int checked = 0;
  std::set<std::string> kinds;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Rng rng(seed + 50);
    const ir::Graph step = training_step(seed, rng);
    for (ir::OpId id : step.ops())
      for (const Choice& choice : choices(step, id, rng)) {
        SCOPED_TRACE(step.op(id).kind + " " + choice.axis);
        if (!kinds.insert(step.op(id).kind + " " + choice.axis).second) continue;
        Cuts cuts(step.op_count());
        cuts[id] = choice.cut;
        const auto expanded = fission::expand(step, cuts);
        ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
        expect_equal_effects(expanded->graph, step);
        ++checked;
        if (HasFailure()) return;
      }
  }
  std::printf("%d axes\n", checked);
  EXPECT_GT(checked, 60);
}

// Every class of axes, all of its ops in parts together. Linked ops pass pieces on, so that a class
// makes far fewer slices than its ops would one by one. Part by part the same is computed, and of
// the largest class (samples) less is there at once.
TEST(Parts, OfEveryClassEqualTheStep) {
  int checked = 0, ops = 0, largest = 0, lower = 0;
  size_t most_ops = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    Rng rng(seed + 90);
    const ir::Graph step = training_step(seed, rng);
    const auto classes = fission::axis_classes(step);
    ASSERT_TRUE(classes.has_value()) << classes.error().message;
    ASSERT_FALSE(classes->empty());
    most_ops = std::max(most_ops, classes->front().axes.size());
    for (const fission::AxisClass& axis_class : *classes)
      for (const int64_t parts : {2, 3}) {
        if (parts > axis_class.least_extent) continue;
        SCOPED_TRACE(testing::Message()
                     << "seed " << seed << ", " << axis_class.axes.size() << " ops from '"
                     << step.op(axis_class.axes[0].op).name << "' in " << parts << " parts");
        const Cuts cuts = fission::cut_class(step, axis_class, parts);
        const auto expanded = fission::expand(step, cuts);
        ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
        ++checked;
        ops += static_cast<int>(axis_class.axes.size());
        expect_equal_effects(expanded->graph, step);
        const auto ordered = fission::part_by_part(*expanded);
        expect_equal_effects(ordered.graph, step);
        if (&axis_class != &classes->front()) continue;
        ++largest;
        lower += pipeline::peak_as_given(ordered.graph, 64).value() <
                 pipeline::peak_as_given(expanded->graph, 64).value();
        if (HasFailure()) return;
      }
  }
  std::printf("%d classes in parts, %d ops, %zu in one; the largest ones: %d of %d need less\n",
              checked, ops, most_ops, lower, largest);
  EXPECT_GT(checked, 40);
  EXPECT_GT(most_ops, 20U);
  EXPECT_GE(4 * lower, 3 * largest);
}

TEST(Parts, OfAnOpThatOverwritesAreRefused) {
  Rng rng(1);
  const ir::Graph step = training_step(0, rng);
  for (ir::OpId id : step.ops()) {
    if (!overwrites(step, id)) continue;
    Cuts cuts(step.op_count());
    cuts[id] = fission::Cut{0, {0, 1, 2}};
    const auto refused = fission::expand(step, cuts);
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().message.find(step.op(id).name), std::string::npos);
    return;
  }
  FAIL() << "no update";
}

}  // namespace
}  // namespace lowtide::parts_test
