// What a graph becomes as an ordering question: views vanish, overwriting orders its readers,
// in-place pairs only where legal.
#include "analysis/schedule_view.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/op_table.h"
#include "plan/schedule_simulator.h"

namespace lowtide::analysis {
namespace {

ir::ValueId input(ir::Graph& graph, std::string name, ir::Dims dims,
                  Category category = Category::kInput) {
  ir::Value value;
  value.name = std::move(name);
  value.dims = std::move(dims);
  value.category = category;
  return graph.add_value(std::move(value));
}

ir::ValueId apply(ir::Graph& graph, std::string_view kind, std::vector<ir::ValueId> inputs,
                  ir::Attrs attrs = {}) {
  const auto op = ops::append(graph, kind, std::move(inputs), std::move(attrs));
  EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
  return graph.op(*op).outputs[0];
}

OpCosts no_costs(const ir::Graph& graph) {
  return {IdVector<ir::OpId, double>(graph.op_count(), 1e-3),
          IdVector<ir::OpId, int64_t>(graph.op_count(), 0)};
}

bool has_edge(const ScheduleView& view, ir::OpId before, ir::OpId after) {
  const auto edge = std::pair(view.sched_op[before], view.sched_op[after]);
  return std::count(view.problem.control.begin(), view.problem.control.end(), edge) == 1;
}

TEST(ScheduleView, ViewsVanishAndTheirReadersReadTheBase) {
  ir::Graph graph;
  const auto x = input(graph, "x", {4, 8});
  const auto a = apply(graph, "Exp", {x});
  const auto flat = apply(graph, "Reshape", {a}, {{"shape", ir::Dims{32}}});
  const auto y = apply(graph, "Neg", {flat});
  graph.set_output(y, true);
  const auto view = make_schedule_view(graph, no_costs(graph), 64).value();
  ASSERT_EQ(view.problem.ops.size(), 2u);
  ASSERT_EQ(view.problem.values.size(), 2u);
  EXPECT_FALSE(view.sched_op[graph.value(flat).producer].valid());
  const auto& base = view.problem.values[plan::SchedValueId(0)];
  EXPECT_EQ(base.readers, std::vector<plan::SchedOpId>{view.sched_op[graph.value(y).producer]});
  EXPECT_EQ(base.bytes, 128);
  EXPECT_EQ(view.problem.resident_bytes, 128);
  EXPECT_TRUE(view.problem.values[plan::SchedValueId(1)].is_output);
}

TEST(ScheduleView, SizesAreRoundedUpToTheAlignment) {
  ir::Graph graph;
  const auto x = input(graph, "x", {1});
  apply(graph, "Exp", {x});
  OpCosts costs = no_costs(graph);
  costs.workspace_bytes[ir::OpId(0)] = 65;
  const auto view = make_schedule_view(graph, costs, 64).value();
  EXPECT_EQ(view.problem.resident_bytes, 64);
  EXPECT_EQ(view.problem.values[plan::SchedValueId(0)].bytes, 64);
  EXPECT_EQ(view.problem.ops[plan::SchedOpId(0)].workspace_bytes, 128);
}

TEST(ScheduleView, AnUpdateComesAfterReadersOfTheOldVersionAndBeforeThoseOfTheNew) {
  ir::Graph graph;
  const auto w = input(graph, "w", {16}, Category::kParameter);
  const auto g = input(graph, "g", {16});
  const auto before = apply(graph, "Exp", {w});
  const auto alias = apply(graph, "Reshape", {w}, {{"shape", ir::Dims{4, 4}}});
  const auto through_view = apply(graph, "Neg", {alias});
  const auto updated = apply(graph, "SgdUpdate", {w, g, ir::ValueId::none()},
                             {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}});
  const auto after = apply(graph, "Neg", {updated});
  const auto view = make_schedule_view(graph, no_costs(graph), 64).value();
  const auto producer = [&](ir::ValueId v) { return graph.value(v).producer; };
  EXPECT_TRUE(has_edge(view, producer(before), producer(updated)));
  EXPECT_TRUE(has_edge(view, producer(through_view), producer(updated)));
  EXPECT_TRUE(has_edge(view, producer(updated), producer(after)));
  EXPECT_FALSE(has_edge(view, producer(after), producer(updated)));
  EXPECT_EQ(view.problem.resident_bytes, 128) << "the update brings no bytes of its own";
}

TEST(ScheduleView, InPlacePairsOnlyWhereTheInputMayDie) {
  ir::Graph graph;
  const auto x = input(graph, "x", {16});
  const auto a = apply(graph, "Exp", {x});     // x is resident: no pair
  const auto b = apply(graph, "Relu", {a});    // pair a -> b
  const auto c = apply(graph, "Mul", {b, b});  // one storage through two operands: no pair
  const auto d = apply(graph, "Neg", {c});     // c is an output of the step: no pair
  graph.set_output(c, true);
  graph.set_output(d, true);
  const auto view = make_schedule_view(graph, no_costs(graph), 64).value();
  ASSERT_EQ(view.problem.in_place.size(), 1u);
  EXPECT_EQ(view.problem.in_place[0].op, view.sched_op[graph.value(b).producer]);
  const auto profile =
      plan::simulate(view.problem,
                     std::vector<plan::SchedOpId>{plan::SchedOpId(0), plan::SchedOpId(1),
                                                  plan::SchedOpId(2), plan::SchedOpId(3)})
          .value();
  EXPECT_EQ(profile.reused.size(), 1u);
  EXPECT_EQ(profile.peak_bytes, 64 + 2 * 64) << "resident, c and d; a and b shared a buffer";
}

TEST(ScheduleView, ASymbolicSizeIsNamed) {
  ir::Graph graph;
  const auto x = input(graph, "tokens", {sym::Expr::symbol("batch")});
  apply(graph, "Exp", {x});
  const auto view = make_schedule_view(graph, no_costs(graph), 64);
  ASSERT_FALSE(view.has_value());
  EXPECT_NE(view.error().message.find("tokens"), std::string::npos) << view.error().message;
  EXPECT_NE(view.error().message.find("batch"), std::string::npos) << view.error().message;
}

}  // namespace
}  // namespace lowtide::analysis
