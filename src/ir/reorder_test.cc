// A graph in another order: the same contents, and what overwrites waits for who reads.
#include "ir/reorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ir/testing/plain_ops.h"

namespace lowtide::ir {
namespace {

using testing::add, testing::alias_of, testing::op, testing::value;

// x -> a, b -> sum; b's storage is read by c before it is overwritten; the end reads the update.
struct Step {
  Graph graph;
  ValueId x, a, b, c, updated, end;
  Step() {
    x = graph.add_value(value("x", {4}));
    a = add(graph, op("double", {x}), value("a", {4}));
    b = add(graph, op("half", {x}), value("b", {4}));
    c = add(graph, op("sum", {a, b}), value("c", {4}));
    updated = add(graph, op("update", {b, a}), alias_of(b, Alias::kUpdate, "updated", {4}));
    end = add(graph, op("last", {updated, c}), value("end", {4}));
    graph.set_output(end, true);
  }
};

TEST(Reorder, KeepsTheGraphInItsOwnOrder) {
  const Step step;
  const auto ids = step.graph.ops();
  const std::vector<OpId> order(ids.begin(), ids.end());
  const Rewritten same = reorder(step.graph, order);
  EXPECT_TRUE(same.graph == step.graph);
  EXPECT_EQ(same.value[step.updated], step.updated);
}

TEST(Reorder, WhatOverwritesWaitsForWhoReads) {
  const Step step;
  const auto before = must_precede(step.graph);
  EXPECT_EQ(before[OpId(3)], (std::vector<OpId>{OpId(0), OpId(1), OpId(2)}));
  EXPECT_EQ(before[OpId(4)], (std::vector<OpId>{OpId(2), OpId(3)}));
}

// The values that each op reads, by names.
std::vector<std::string> contents(const Graph& graph) {
  std::vector<std::string> lines;
  for (const OpId id : graph.ops()) {
    std::string line = graph.op(id).kind;
    for (const ValueId input : graph.op(id).inputs) line += " " + graph.value(input).name;
    for (const ValueId output : graph.op(id).outputs) {
      const Value& made = graph.value(output);
      line += " -> " + made.name + (made.is_output ? "!" : "") +
              (made.base.valid() ? " on " + graph.value(made.base).name : "");
    }
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Reorder, AnyValidOrderHasTheSameContents) {
  const Step step;
  const auto before = must_precede(step.graph);
  Rng rng(1);
  int changed = 0;
  for (int i = 0; i < 50; ++i) {
    std::vector<OpId> order;
    while (order.size() < step.graph.op_count()) {
      const OpId next(rng.below(step.graph.op_count()));
      const auto has = [&](OpId id) {
        return std::find(order.begin(), order.end(), id) != order.end();
      };
      if (!has(next) && std::all_of(before[next].begin(), before[next].end(), has))
        order.push_back(next);
    }
    const Rewritten made = reorder(step.graph, order);
    ASSERT_TRUE(check(made.graph).has_value());
    EXPECT_EQ(contents(made.graph), contents(step.graph));
    for (size_t k = 0; k < order.size(); ++k) EXPECT_EQ(made.op[order[k]], OpId(k));
    changed += !(made.graph == step.graph);
  }
  EXPECT_GT(changed, 10);
}

}  // namespace
}  // namespace lowtide::ir
