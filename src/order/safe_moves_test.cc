// The claim behind every pruning here: after safe moves within B, a completion within B still
// exists if one existed before.
#include "order/safe_moves.h"

#include <gtest/gtest.h>

#include "order/testing/subset_dp_oracle.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

uint32_t mask_of(const Prefix& prefix) {
  return prefix.words().empty() ? 0 : static_cast<uint32_t>(prefix.words()[0]);
}

TEST(SafeMoves, NeverLoseACompletionWithinTheBudget) {
  Rng rng(11);
  const RandomShape shapes[] = {{.reader_rate = 0.15, .output_rate = 0.03},
                                {.max_bytes = 40, .window = 5, .reader_rate = 0.3},
                                {.reader_rate = 0.2, .in_place_rate = 0.9, .control_rate = 0.1}};
  int moved = 0;
  for (int i = 0; i < 9000; ++i) {
    const auto problem = random_problem(shapes[i % 3], rng);
    const SubsetDp dp(problem);
    const OrderGraph graph = make_order_graph(problem);
    Prefix prefix(graph);
    for (uint64_t steps = rng.below(graph.size()); steps > 0 && !prefix.complete(); --steps)
      prefix.run(prefix.ready()[rng.below(prefix.ready().size())]);
    const uint32_t before = mask_of(prefix);
    const int64_t best = dp.best_completion(before);
    // At the least sufficient budget, and at one where more is allowed.
    const int64_t budget = best - problem.resident_bytes + (i % 2 == 0 ? 0 : rng.between(0, 6));
    WorkBudget work({.max_units = int64_t{1} << 40});
    SafeMoves safe({.excursions = i % 5 != 0}, budget, work);
    const size_t length = prefix.sequence().size();
    const int64_t live_before = prefix.live_bytes();
    safe.close(prefix);
    moved += prefix.sequence().size() > length;
    EXPECT_LE(prefix.live_bytes(), live_before);
    EXPECT_LE(dp.best_completion(mask_of(prefix)), problem.resident_bytes + budget)
        << plan::print(problem) << "from set " << before << " to " << mask_of(prefix);
    EXPECT_EQ(dp.live(mask_of(prefix)), problem.resident_bytes + prefix.live_bytes());
    if (HasFailure()) FAIL() << "problem " << i;
  }
  EXPECT_GT(moved, 4000);
}

// Gradient (makes 10), then update (frees 10): no single op is safe, the pair is.
TEST(SafeMoves, CommitToAGradientAndItsUpdate) {
  ProblemMaker make;
  const auto source = make.op(), gradient = make.op(), update = make.op(), other = make.op();
  const auto x = make.value(source, 4), g = make.value(gradient, 10);
  make.read(gradient, x);
  make.read(update, g);
  make.read(other, x);
  make.value(other, 3, true);
  const OrderGraph graph = make_order_graph(make.problem);
  WorkBudget work({.max_units = 1000});
  for (const bool excursions : {false, true}) {
    Prefix prefix(graph);
    prefix.run(source);
    SafeMoves safe({.excursions = excursions}, 14, work);
    safe.close(prefix);
    EXPECT_EQ(prefix.done(update), excursions);
  }
}

TEST(SafeMoves, ReportTheLowestPeakThatWasRefused) {
  ProblemMaker make;
  const auto source = make.op();
  const auto reader = make.op(7);
  make.read(reader, make.value(source, 4));
  const OrderGraph graph = make_order_graph(make.problem);
  WorkBudget work({.max_units = 1000});
  Prefix prefix(graph);
  prefix.run(source);
  SafeMoves safe({}, 10, work);
  safe.close(prefix);
  EXPECT_FALSE(prefix.complete());
  EXPECT_EQ(safe.least_rejected(), 11);
}

// The executed set from which `op` runs: its pending late trees come first.
uint32_t with_late(const OrderGraph& graph, uint32_t set, OpId op) {
  for (OpId late : graph.late_before[op]) set |= 1u << late.index();
  return set;
}

TEST(Prefix, UndoRestoresEverything) {
  Rng rng(3);
  int late = 0;
  for (int i = 0; i < 300; ++i) {
    const auto problem = random_problem({}, rng);
    const OrderGraph graph = make_order_graph(problem);
    const SubsetDp dp(problem);
    Prefix prefix(graph);
    for (int step = 0; step < 60; ++step) {
      if (!prefix.complete() && rng.below(3) > 0) {
        prefix.run(prefix.ready()[rng.below(prefix.ready().size())]);
      } else if (!prefix.sequence().empty()) {
        prefix.undo();
      }
      const uint32_t set = mask_of(prefix);
      EXPECT_EQ(problem.resident_bytes + prefix.live_bytes(), dp.live(set));
      size_t ready = 0;
      for (size_t v = 0; v < graph.size(); ++v)
        ready += !graph.late[OpId(v)] && dp.can_run(with_late(graph, set, OpId(v)), v);
      EXPECT_EQ(prefix.ready().size(), ready);
      for (OpId op : prefix.ready()) {
        const uint32_t from = with_late(graph, set, op);
        EXPECT_FALSE(graph.late[op]);
        EXPECT_TRUE(dp.can_run(from, op.index()));
        EXPECT_EQ(problem.resident_bytes + prefix.peak(op), dp.step_peak(from, op.index()));
        EXPECT_EQ(prefix.growth(op), dp.live(from | 1u << op.index()) - dp.live(set));
        late += from != set;
      }
      if (HasFailure()) FAIL() << plan::print(problem);
    }
  }
  EXPECT_GT(late, 100);
}

}  // namespace
}  // namespace lowtide::order
