// The parts of random problems by what they promise: each op once, nothing that needs a later part,
// bytes left behind by the last alone; and the best orders of the parts, by brute force, one after
// another are a best order of the whole.
#include "order/decompose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "order/testing/subset_dp_oracle.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

using plan::ScheduleProblem;

// The problem with these ops alone. What they read and others make has no bytes.
ScheduleProblem only(const ScheduleProblem& problem, const std::vector<OpId>& ops) {
  ScheduleProblem part;
  IdVector<OpId, OpId> local(problem.ops.size());
  for (const OpId op : ops) local[op] = part.ops.push_back(problem.ops[op]);
  IdVector<plan::SchedValueId, plan::SchedValueId> of(problem.values.size());
  for (const plan::SchedValueId v : problem.values.ids()) {
    plan::SchedValue value = problem.values[v];
    const std::vector<OpId> readers = std::move(value.readers);
    value.readers.clear();
    for (const OpId reader : readers) {
      EXPECT_TRUE(value.bytes == 0 || local[reader].valid() == local[value.producer].valid())
          << "a value with bytes is read in another part";
      if (local[reader].valid()) value.readers.push_back(local[reader]);
    }
    if (!local[value.producer].valid()) continue;
    value.producer = local[value.producer];
    of[v] = part.values.push_back(std::move(value));
  }
  for (const auto& [first, second] : problem.control)
    if (local[first].valid() && local[second].valid())
      part.control.emplace_back(local[first], local[second]);
  for (const plan::InPlacePair& pair : problem.in_place)
    if (local[pair.op].valid() && of[pair.input].valid() && of[pair.output].valid())
      part.in_place.push_back({local[pair.op], of[pair.input], of[pair.output]});
  return part;
}

TEST(Decompose, PartsCoverAllOpsAndOnlyTheLastLeavesBytes) {
  Rng rng(25);
  size_t several = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto problem = random_problem(
        {.reader_rate = 0.08, .output_rate = 0.04, .workspace_rate = 0.5, .control_rate = 0.08},
        rng);
    const auto parts = decompose(problem);
    const SubsetDp dp(problem);
    uint32_t set = 0;
    for (size_t k = 0; k < parts.size(); ++k) {
      for (OpId op : parts[k].problem_op) {
        EXPECT_TRUE(dp.can_run(set, op.index()));  // the given order within a part is valid
        set |= 1u << op.index();
      }
      if (k + 1 < parts.size()) {
        EXPECT_EQ(dp.live(set), problem.resident_bytes);
      }
    }
    EXPECT_EQ(set, (1u << problem.ops.size()) - 1);
    several += parts.size() > 1;
    if (HasFailure()) FAIL() << plan::print(problem);
  }
  EXPECT_GT(several, 500u);
}

TEST(Decompose, TheBestOrdersOfThePartsAreABestOrder) {
  int several = 0;
  size_t most = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    RandomShape shape;
    shape.max_ops = 12;
    shape.window = rng.between(1, 4);
    shape.output_rate = 0.04;
    shape.control_rate = 0.05;
    shape.source_rate = 0.3;
    const ScheduleProblem problem = random_problem(shape, rng);
    const std::vector<OrderGraph> parts = decompose(problem);
    int64_t peak = problem.resident_bytes;
    for (const OrderGraph& part : parts)
      peak = std::max(peak,
                      problem.resident_bytes + SubsetDp(only(problem, part.problem_op)).optimum());
    EXPECT_EQ(peak, SubsetDp(problem).optimum());
    several += parts.size() > 1;
    most = std::max(most, parts.size());
  }
  std::printf("%d problems of several parts, %zu at most\n", several, most);
  EXPECT_GT(several, 200);
  EXPECT_GT(most, 3U);
}

}  // namespace
}  // namespace lowtide::order
