// Ops in parts along two axes, one within the other. Of the training steps of several families of
// networks, ops drawn at random run in parts of parts: the reference executor, in double precision,
// gets the same results from them, with windows that read wholes and with copies of what they
// reach; the verifier finds the same step in their plans, and none where a share is lost; and they
// run in one arena of the planned size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/labels.h"
#include "fission/part_order.h"
#include "fission/rules.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "pipeline/take_rewrites.h"
#include "support/drawn_cuts.h"
#include "support/long_checks.h"
#include "support/quick_plans.h"
#include "support/run_against_reference.h"
#include "support/small_steps.h"
#include "support/step_families.h"
#include "verify/parts.h"

namespace lowtide::nested_parts_test {
namespace {

using fission::Cut;
using fission::Cuts;
using fission::NestedCuts;
using fission::Windows;

struct Drawn {
  int cut = 0, nested = 0, sums_in_sums = 0, windows = 0;
  std::set<std::string> kinds;  // of op and both axes
};

bool is_summed(const ops::Instance& op, const Cut& cut) {
  const auto part = ops::part(op, cut.axis, cut.bounds[0], cut.bounds[1]);
  return part->merges[0] == ops::Merge::kSum;
}

NestedCuts draw_cuts(const ir::Graph& step, Rng& rng, Drawn& drawn) {
  NestedCuts cuts(2, Cuts(step.op_count()));
  for (const ir::OpId id : step.ops()) {
    const std::vector<Choice> all = choices(step, id, rng);
    if (all.empty() || rng.below(4) == 0) continue;
    const Choice& outer = all[rng.below(all.size())];
    const Choice& inner = all[rng.below(all.size())];
    cuts[0][id] = outer.cut;
    ++drawn.cut;
    const ops::Instance op = ops::instance_of(step, id);
    if (!can_nest(op, outer.cut, inner.cut)) continue;
    cuts[1][id] = inner.cut;
    ++drawn.nested;
    drawn.sums_in_sums += is_summed(op, outer.cut) && is_summed(op, inner.cut);
    drawn.kinds.insert(step.op(id).kind + " " + outer.axis + " " + inner.axis);
  }
  return cuts;
}

TEST(NestedParts, OfRandomLabellingsEqualTheStepAndAreKnownByTheVerifier) {
  Drawn drawn;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(600, 14)); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 19 + 4);
    const ir::Graph step = step_of_family(seed, rng);
    if (HasFailure()) return;
    const NestedCuts cuts = draw_cuts(step, rng, drawn);
    for (const Windows windows : {Windows::kOfWholes, Windows::kOfPieces}) {
      const auto expanded = fission::expand(step, cuts, windows);
      ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
      drawn.windows += static_cast<int>(expanded->windows);
      expect_equal_effects(expanded->graph, step);
      const auto by_part = fission::part_by_part(*expanded);
      expect_equal_effects(by_part.graph, step);
      if (HasFailure()) return;
      const auto plan = pipeline::optimize(by_part.graph, quick(nullptr));
      ASSERT_TRUE(plan.has_value()) << plan.error().message;
      const verify::PartsReport same = verify::verify_parts(plan->plan, step);
      ASSERT_TRUE(same.ok()) << same.findings.front();
    }
  }
  std::printf("%d ops cut, %d along two axes, %zu kinds, %d sums in sums, %d windows\n", drawn.cut,
              drawn.nested, drawn.kinds.size(), drawn.sums_in_sums, drawn.windows);
  EXPECT_GT(3 * drawn.nested, drawn.cut);
  EXPECT_GT(drawn.kinds.size(), 60U);
  EXPECT_GT(drawn.sums_in_sums, 8);
  EXPECT_GT(drawn.windows, 20);
}

TEST(NestedParts, RunInOneArena) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  Drawn drawn;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(60, 6)); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 23 + 1);
    const ir::Graph step = training_step(seed, rng);
    const auto windows = seed % 2 == 0 ? Windows::kOfWholes : Windows::kOfPieces;
    const auto expanded = fission::expand(step, draw_cuts(step, rng, drawn), windows);
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    const auto made = pipeline::optimize(expanded->graph, quick(kernels.get()));
    ASSERT_TRUE(made.has_value()) << made.error().message;
    expect_right_results(made->plan, step, *kernels);
    const verify::PartsReport same = verify::verify_parts(made->plan, step);
    EXPECT_TRUE(same.ok()) << same.findings.front();
    if (HasFailure()) return;
  }
  EXPECT_GT(drawn.nested, 60);
}

// Of a product's parts along rows and columns of a sum's, one goes: the verifier says so, whichever
// it is.
TEST(NestedParts, ALostShareOfASumInASumIsFound) {
  Rng rng(3);
  int lost = 0;
  for (uint64_t seed = 0; seed < 2; ++seed) {
    const ir::Graph step = training_step(seed, rng);
    Drawn drawn;
    const auto expanded = fission::expand(step, draw_cuts(step, rng, drawn));
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    for (const ir::OpId id : expanded->graph.ops()) {
      const auto sums = ops::accumulators(ops::instance_of(expanded->graph, id));
      const std::string& name = expanded->graph.op(id).name;
      const bool is_nested = name.find("/part") != name.rfind("/part");
      if (!is_nested || sums.empty()) continue;
      const auto input = static_cast<size_t>(sums[0].first);
      ir::Rewritten without(expanded->graph);
      for (const ir::GraphItem& item : ir::in_id_order(expanded->graph)) {
        if (item.given.valid()) {
          without.give(item.given, expanded->graph.value(item.given));
          continue;
        }
        const ir::Op& op = expanded->graph.op(item.op);
        std::vector<ir::ValueId> inputs = without.now(op.inputs);
        if (item.op == id) inputs[input] = ir::ValueId::none();
        ASSERT_TRUE(ops::append_again(without, expanded->graph, item.op, inputs, op.attrs));
      }
      const auto plan = pipeline::optimize(without.graph, quick(nullptr));
      ASSERT_TRUE(plan.has_value()) << plan.error().message;
      EXPECT_FALSE(verify::verify_parts(plan->plan, step).ok()) << name;
      ++lost;
    }
  }
  std::printf("%d shares lost\n", lost);
  EXPECT_GT(lost, 10);
}

// The same cuts in the other order: parts of parts change names, and no others.
TEST(NestedParts, AreCalledByTheOrderOfTheLayers) {
  EXPECT_EQ(fission::with_layers_exchanged("conv/part12/part3"), "conv/part3/part12");
  for (const char* other :
       {"conv", "conv/part1", "conv/part", "a/part1/part", "/partial/part1", ""})
    EXPECT_EQ(fission::with_layers_exchanged(other), other);
  Rng rng(7);
  const ir::Graph step = training_step(7, rng);
  int nested = 0;
  for (const ir::OpId op : step.ops()) {
    const std::vector<Choice> all = choices(step, op, rng);
    if (all.size() < 2 || all[0].cut.axis == all[1].cut.axis) continue;
    const auto names = [&](const Cut& outer, const Cut& inner) {
      NestedCuts cuts(2, Cuts(step.op_count()));
      cuts[0][op] = outer, cuts[1][op] = inner;
      std::set<std::string> found;
      const auto expanded = fission::expand(step, cuts);
      if (!expanded) return found;
      for (const ir::OpId part : expanded->parts[op]) found.insert(expanded->graph.op(part).name);
      return found;
    };
    const std::set<std::string> one = names(all[0].cut, all[1].cut);
    const std::set<std::string> other = names(all[1].cut, all[0].cut);
    if (one.empty() || other.empty()) continue;
    std::set<std::string> exchanged;
    for (const std::string& name : one) exchanged.insert(fission::with_layers_exchanged(name));
    EXPECT_EQ(exchanged, other);
    ++nested;
  }
  EXPECT_GT(nested, 0);
}

}  // namespace
}  // namespace lowtide::nested_parts_test
