// What a graph becomes as an ordering question: views vanish, overwriting orders its readers,
// in-place pairs only where legal.
#include "analysis/schedule_view.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/op_table.h"
#include "plan/schedule_simulator.h"
#include "plan/sequence_simulator.h"

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

TEST(ScheduleView, WhoReadsAWholeReadsItsPieces) {
  ir::Graph graph;
  const auto x = input(graph, "x", {4, 16});
  const auto a = apply(graph, "Exp", {x}), b = apply(graph, "Neg", {x});
  const auto whole = apply(graph, "Join", {a, b}, {{"axis", int64_t{0}}});
  const auto flat = apply(graph, "Reshape", {whole}, {{"shape", ir::Dims{128}}});
  const auto y = apply(graph, "Neg", {flat}), z = apply(graph, "Neg", {a});
  graph.set_output(y, true);
  graph.set_output(z, true);
  const auto view = make_schedule_view(graph, no_costs(graph), 64).value();
  ASSERT_EQ(view.problem.values.size(), 4u) << "the whole is none";
  const auto reader = [&](ir::ValueId v) { return view.sched_op[graph.value(v).producer]; };
  const auto& values = view.problem.values;
  EXPECT_EQ(values[plan::SchedValueId(0)].readers, (std::vector{reader(y), reader(z)}));
  EXPECT_EQ(values[plan::SchedValueId(1)].readers, std::vector{reader(y)});
  EXPECT_FALSE(reader(whole).valid()) << "nothing is computed";
  ASSERT_EQ(view.wholes.size(), 1u);
  EXPECT_EQ(view.wholes[0].readers, std::vector{reader(y)});
  EXPECT_FALSE(view.wholes[0].is_output);
  ASSERT_EQ(view.wholes[0].pieces.size(), 2u);
  EXPECT_EQ(view.wholes[0].pieces[1].offset_bytes, 256);
  for (const plan::InPlacePair& pair : view.problem.in_place)
    EXPECT_NE(pair.input, plan::SchedValueId(0)) << "nobody takes over a piece";
  graph.set_output(flat, true);
  const auto result = make_schedule_view(graph, no_costs(graph), 64).value();
  EXPECT_TRUE(result.wholes[0].is_output);
  EXPECT_TRUE(result.problem.values[plan::SchedValueId(1)].is_output);
}

TEST(ScheduleView, PiecesBeginWhereBuffersMayAndAreRead) {
  const auto refusal = [](int64_t width, bool read) {
    ir::Graph graph;
    const auto x = input(graph, "x", {1, width});
    const auto whole = apply(graph, "Join", {apply(graph, "Exp", {x}), apply(graph, "Neg", {x})},
                             {{"axis", int64_t{0}}});
    if (read) apply(graph, "Exp", {whole});
    const auto view = make_schedule_view(graph, no_costs(graph), 64);
    return view ? std::string() : view.error().message;
  };
  EXPECT_EQ(refusal(16, true), "");
  EXPECT_EQ(refusal(3, true),
            "piece 'Neg' begins at byte 12 of 'Join', which is no multiple of 64");
  EXPECT_EQ(refusal(16, false), "nobody reads 'Join', a view on the pieces of 'Join'");
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

constexpr plan::Link kLink{1e9, 2e9, 1e-6};

bool may_rerun(const ScheduleView& view, const ir::Graph& graph, ir::ValueId made) {
  return view.problem.ops[view.sched_op[graph.value(made).producer]].may_rerun;
}

TEST(ScheduleView, PureAndRandomOpsMayRunAgainUpdatesMayNot) {
  ir::Graph graph;
  const auto x = input(graph, "x", {2, 4, 8});
  const auto scale = input(graph, "scale", {4}, Category::kParameter);
  const auto mean = input(graph, "running_mean", {4}, Category::kParameter);
  const auto norm = ops::append(graph, "BatchNormTrain", {x, scale, scale}, {{"epsilon", 1e-5}});
  ASSERT_TRUE(norm.has_value()) << norm.error().message;
  const std::vector<ir::ValueId> made = graph.op(*norm).outputs;
  const auto updated = apply(graph, "RunningUpdate", {mean, made[1]}, {{"momentum", 0.1}});
  const auto dropped = apply(graph, "Dropout", {made[0]}, {{"ratio", 0.5}, {"stream", int64_t{1}}});
  graph.set_output(dropped, true);
  const auto view = make_schedule_view(graph, no_costs(graph), 64, {.links = {&kLink, 1}}).value();
  EXPECT_TRUE(may_rerun(view, graph, made[0])) << "its clones leave the running statistics alone";
  EXPECT_TRUE(may_rerun(view, graph, dropped)) << "the same bits on every run";
  EXPECT_FALSE(may_rerun(view, graph, updated));
}

TEST(ScheduleView, AnAccumulatedStorageIsMadeOnceAndKnowsItsWriters) {
  ir::Graph graph;
  const auto x = input(graph, "x", {16});
  const auto sum = apply(graph, "Exp", {x});
  const auto part = apply(graph, "Neg", {x});
  const auto added = apply(graph, "SgdUpdate", {sum, part, ir::ValueId::none()},
                           {{"learning_rate", -1.0}, {"momentum", 0.0}, {"weight_decay", 0.0}});
  const auto result = apply(graph, "Neg", {added});
  graph.set_output(result, true);
  const auto view = make_schedule_view(graph, no_costs(graph), 64).value();
  EXPECT_FALSE(may_rerun(view, graph, sum)) << "what was added would be lost";
  EXPECT_FALSE(may_rerun(view, graph, added));
  EXPECT_TRUE(may_rerun(view, graph, part));
  EXPECT_TRUE(may_rerun(view, graph, result));
  const auto writer = view.sched_op[graph.value(added).producer];
  EXPECT_EQ(view.problem.values[plan::SchedValueId(0)].writers,
            std::vector<plan::SchedOpId>{writer});
}

TEST(ScheduleView, WithALinkResidentsThatOpsReadMayMove) {
  ir::Graph graph;
  const auto x = input(graph, "x", {16});
  const auto w = input(graph, "w", {16}, Category::kParameter);
  input(graph, "unused", {16}, Category::kParameter);
  const auto returned = input(graph, "returned", {16});
  graph.set_output(returned, true);
  const auto view_of_w = apply(graph, "Reshape", {w}, {{"shape", ir::Dims{4, 4}}});
  const auto first = apply(graph, "Exp", {view_of_w});
  const auto second = apply(graph, "Mul", {x, w});  // tied: w is read twice
  const auto third = apply(graph, "Mul", {returned, second});
  const auto updated = apply(graph, "SgdUpdate", {w, third, ir::ValueId::none()},
                             {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}});
  graph.set_output(updated, true);
  graph.set_output(first, true);
  EXPECT_TRUE(make_schedule_view(graph, no_costs(graph), 64)->problem.residents.empty());
  const auto view = make_schedule_view(graph, no_costs(graph), 64, {.links = {&kLink, 1}}).value();
  EXPECT_EQ(view.problem.link, kLink);
  EXPECT_EQ(view.problem.resident_bytes, 4 * 64);
  ASSERT_EQ(view.problem.residents.size(), 2u) << "neither the unused nor the returned one";
  const auto op = [&](ir::ValueId v) { return view.sched_op[graph.value(v).producer]; };
  const plan::SchedResident& moved_x = view.problem.residents[plan::SchedResidentId(0)];
  const plan::SchedResident& moved_w = view.problem.residents[plan::SchedResidentId(1)];
  EXPECT_EQ(moved_x.name, "x");
  EXPECT_EQ(moved_x.readers, std::vector<plan::SchedOpId>{op(second)});
  EXPECT_TRUE(moved_x.writers.empty());
  EXPECT_EQ(moved_w.bytes, 64);
  EXPECT_EQ(moved_w.readers, (std::vector<plan::SchedOpId>{op(first), op(second), op(updated)}));
  EXPECT_EQ(moved_w.writers, std::vector<plan::SchedOpId>{op(updated)});
  EXPECT_EQ(view.resident[plan::SchedResidentId(1)], graph.value(w).storage);
  EXPECT_TRUE(has_edge(view, graph.value(first).producer, graph.value(updated).producer));
  EXPECT_TRUE(has_edge(view, graph.value(second).producer, graph.value(updated).producer));
}

TEST(ScheduleView, ARerunMayReadAnOldVersionOnlyBeforeTheUpdate) {
  ir::Graph graph;
  const auto w = input(graph, "w", {16}, Category::kParameter);
  const auto used = apply(graph, "Exp", {w});
  const auto gradient = apply(graph, "Neg", {used});
  apply(graph, "SgdUpdate", {w, gradient, ir::ValueId::none()},
        {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}});
  const auto view = make_schedule_view(graph, no_costs(graph), 64).value();
  const auto run = [](size_t op) { return plan::SchedAction::run(plan::SchedOpId(op)); };
  using Sequence = std::vector<plan::SchedAction>;
  EXPECT_TRUE(
      plan::simulate_sequence(view.problem, Sequence{run(0), run(0), run(1), run(2)}).has_value());
  EXPECT_FALSE(
      plan::simulate_sequence(view.problem, Sequence{run(0), run(1), run(2), run(0)}).has_value());
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
