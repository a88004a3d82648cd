// Against the definition, on random orders.
#include "analysis/common_ancestor.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"

namespace lowtide::analysis {
namespace {

using plan::SchedOpId;

// All that an op waits for, ops that are left out and what is behind them alone not among them.
std::set<SchedOpId> ancestors(const CommonAncestors::Before& before, SchedOpId of,
                              const std::set<SchedOpId>& left_out) {
  std::set<SchedOpId> found;
  std::vector<SchedOpId> open = {of};
  while (!open.empty()) {
    const SchedOpId op = open.back();
    open.pop_back();
    for (const SchedOpId p : before[op])
      if (!left_out.contains(p) && found.insert(p).second) open.push_back(p);
  }
  return found;
}

std::optional<SchedOpId> by_definition(const CommonAncestors::Before& before,
                                       const std::vector<SchedOpId>& all,
                                       const std::set<SchedOpId>& left_out) {
  std::set<SchedOpId> common = ancestors(before, all.front(), left_out);
  for (const SchedOpId op : all) {
    const std::set<SchedOpId> other = ancestors(before, op, left_out);
    std::erase_if(common, [&](SchedOpId each) { return !other.contains(each); });
  }
  if (common.empty()) return std::nullopt;
  return *common.rbegin();
}

TEST(CommonAncestors, AreThoseOfTheDefinition) {
  int found = 0, wide = 0;
  for (uint64_t seed = 1; seed <= 900; ++seed) {
    Rng rng(seed);
    const size_t ops = 5 + rng.below(150);
    CommonAncestors::Before before(ops);
    for (size_t i = 1; i < ops; ++i)
      for (size_t k = rng.below(3); k-- > 0;)
        before[SchedOpId(i)].emplace_back(i - 1 - rng.below(std::min<size_t>(i, 12)));
    std::set<SchedOpId> left_out;
    for (size_t i = 0; i < ops; ++i)
      if (rng.below(20) == 0) left_out.insert(SchedOpId(i));
    CommonAncestors searches(before, ops);
    for (int search = 0; search < 3; ++search) {  // rows of one are none of the next
      std::vector<SchedOpId> all;
      const size_t rate = 1 + rng.below(12);
      for (size_t i = ops / 2; i < ops; ++i)
        if (rng.below(rate) == 0) all.emplace_back(i);
      if (all.empty()) continue;
      const auto latest = searches.latest(all, [&](SchedOpId op) { return left_out.contains(op); });
      ASSERT_EQ(latest, by_definition(before, all, left_out)) << "seed " << seed;
      found += latest.has_value();
      wide += all.size() > 64;
    }
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(wide, 20);
}

TEST(CommonAncestors, EndAfterSoMany) {
  CommonAncestors::Before before(10);  // a chain with two ends
  for (size_t i = 1; i < 9; ++i) before[SchedOpId(i)] = {SchedOpId(i - 1)};
  before[SchedOpId(9)] = {SchedOpId(2)};
  const std::vector<SchedOpId> all = {SchedOpId(8), SchedOpId(9)};
  const auto none = [](SchedOpId) { return false; };
  EXPECT_EQ(CommonAncestors(before, 6).latest(all, none), SchedOpId(2));
  EXPECT_EQ(CommonAncestors(before, 5).latest(all, none), std::nullopt);
}

}  // namespace
}  // namespace lowtide::analysis
