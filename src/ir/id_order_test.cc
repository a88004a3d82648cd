#include "ir/id_order.h"

#include <gtest/gtest.h>

#include "ir/testing/plain_ops.h"

namespace lowtide::ir {
namespace {

using testing::add, testing::alias_of, testing::op, testing::value;

// Values that no op makes lie before, between and behind those of ops; one op makes two, one none.
Graph mixed() {
  Graph graph;
  graph.name = "mixed";
  graph.producer = "test";
  graph.bindings = {{"batch", 2}};
  const ValueId x = graph.add_value(value("x", {4}));
  const ValueId y = add(graph, op("first", {x}), value("y", {4}));
  const ValueId w = graph.add_value(value("w", {4}));
  graph.add_op(op("second", {y, w}), {value("a", {4}), value("b", {4})});
  graph.add_op(op("nothing", {w}), {});
  add(graph, op("third", {w}), alias_of(w, Alias::kUpdate, "w'", {4}));
  graph.add_value(value("last", {4}));
  return graph;
}

TEST(IdOrder, AddingInItsOrderGivesTheSameIds) {
  const Graph graph = mixed();
  Graph again = empty_like(graph);
  for (const GraphItem& item : in_id_order(graph)) {
    EXPECT_NE(item.given.valid(), item.op.valid());
    if (item.given.valid()) {
      again.add_value(graph.value(item.given));
      continue;
    }
    std::vector<Value> outputs;
    for (const ValueId out : graph.op(item.op).outputs) outputs.push_back(graph.value(out));
    again.add_op(graph.op(item.op), std::move(outputs));
  }
  ASSERT_EQ(again.value_count(), graph.value_count());
  ASSERT_EQ(again.op_count(), graph.op_count());
  for (const ValueId v : graph.values()) {
    EXPECT_EQ(again.value(v).name, graph.value(v).name);
    EXPECT_EQ(again.value(v).producer, graph.value(v).producer);
  }
  for (const OpId o : graph.ops()) EXPECT_EQ(again.op(o).name, graph.op(o).name);
}

TEST(IdOrder, CopiedOpByOpAGraphIsTheSame) {
  Graph graph = mixed();
  graph.add_control(OpId(0), OpId(2));
  Rewritten again(graph);
  for (const GraphItem& item : in_id_order(graph)) {
    if (item.given.valid()) {
      again.give(item.given, graph.value(item.given));
      continue;
    }
    std::vector<Value> outputs;
    for (const ValueId out : graph.op(item.op).outputs) outputs.push_back(graph.value(out));
    again.copy(item.op, graph.op(item.op), std::move(outputs));
  }
  EXPECT_TRUE(again.graph == graph);
  for (const ValueId v : graph.values()) EXPECT_EQ(again.value[v], v);
  for (const OpId o : graph.ops()) EXPECT_EQ(again.op[o], o);
}

TEST(IdOrder, WhatIsWrittenAgainIsWhereItWentAndNoneStaysNone) {
  const Graph graph = mixed();
  const ValueId w = *graph.find_value("w");
  Rewritten again(graph);
  again.give(w, graph.value(w));
  const OpId nothing(2);
  again.copy(nothing, graph.op(nothing), {});
  EXPECT_EQ(again.now(std::vector{w, ValueId::none()}), (std::vector{ValueId(0), ValueId::none()}));
  EXPECT_EQ(again.now(std::vector{nothing}), std::vector{OpId(0)});
  EXPECT_FALSE(again.value[*graph.find_value("y")].valid());
  EXPECT_FALSE(again.op[OpId(0)].valid());
}

TEST(IdOrder, AnEmptyGraphKeepsWhatIsSaidOfTheWhole) {
  const Graph graph = mixed();
  const Graph empty = empty_like(graph);
  EXPECT_EQ(empty.name, "mixed");
  EXPECT_EQ(empty.producer, "test");
  EXPECT_EQ(empty.bindings, graph.bindings);
  EXPECT_EQ(empty.value_count() + empty.op_count(), 0u);
}

}  // namespace
}  // namespace lowtide::ir
