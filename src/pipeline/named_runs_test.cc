// A schedule as names, on a problem that has other ops, too.
#include "pipeline/named_runs.h"

#include <gtest/gtest.h>

#include <string>

#include "plan/sequence_simulator.h"

namespace lowtide::pipeline {
namespace {

using plan::SchedOpId;

// a -> copy -> b -> c, first before b by control; c may not run again.
plan::ScheduleProblem problem() {
  plan::ScheduleProblem p;
  for (const char* name : {"a", "first", "copy", "b", "c", "last"}) {
    p.ops.push_back({.name = name, .seconds = 1, .may_rerun = std::string(name) != "c"});
    plan::SchedValue value;
    value.bytes = 1;
    value.producer = SchedOpId(p.ops.size() - 1);
    p.values.push_back(value);
  }
  const auto reads = [&](size_t reader, size_t value) {
    p.values[plan::SchedValueId(value)].readers.push_back(SchedOpId(reader));
  };
  reads(2, 0);
  reads(3, 2);
  reads(4, 3);
  p.control.emplace_back(SchedOpId(1), SchedOpId(3));
  EXPECT_TRUE(plan::check(p).has_value());
  return p;
}

std::string runs(const std::vector<std::string>& names) {
  const plan::ScheduleProblem p = problem();
  std::string text;
  const auto sequence = named_runs(p, names);
  EXPECT_TRUE(plan::simulate_sequence(p, sequence).has_value());
  for (const plan::SchedAction& action : sequence) text += p.ops[action.op].name + " ";
  return text;
}

TEST(NamedRuns, AreMadeComplete) {
  EXPECT_EQ(runs({}), "a first copy b c last ");
  EXPECT_EQ(runs({"a", "b", "c"}), "a first copy b c last ");
  EXPECT_EQ(runs({"last", "b"}), "last first a copy b c ");
  EXPECT_EQ(runs({"none", "c"}), "first a copy b c last ");
}

TEST(NamedRuns, AreRepeatedWhereTheyMayBe) {
  EXPECT_EQ(runs({"a", "b", "a", "b", "c", "c"}), "a first copy b a b c last ");
}

TEST(NamedRuns, KnowsAnOpByItsName) {
  const plan::ScheduleProblem p = problem();
  EXPECT_EQ(op_named(p, "b"), SchedOpId(3));
  EXPECT_EQ(op_named(p, "d"), SchedOpId::none());
  EXPECT_EQ(op_named(p, ""), SchedOpId::none());
}

}  // namespace
}  // namespace lowtide::pipeline
