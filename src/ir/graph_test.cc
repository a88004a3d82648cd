#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/graph_text.h"
#include "ir/testing/plain_ops.h"

namespace lowtide::ir {
namespace {

using testing::add, testing::alias_of, testing::batch, testing::op, testing::value;

TEST(GraphTest, KeepsStoragesReadersAndNames) {
  Graph graph;
  const ValueId x = graph.add_value(value("x", {batch, 4}));
  const ValueId y = add(graph, op("double", {x, x}), value("y", {batch, 4}));
  const ValueId view = add(graph, op("view", {y}), alias_of(y, Alias::kView, "view", {batch * 4}));
  const ValueId later =
      add(graph, op("step", {view, x}), alias_of(view, Alias::kUpdate, "later", {batch * 4}));
  EXPECT_EQ(graph.storage_count(), 2u);
  EXPECT_EQ(graph.value(later).storage, graph.value(y).storage);
  EXPECT_EQ(std::vector<ValueId>(graph.values_in(graph.value(y).storage).begin(),
                                 graph.values_in(graph.value(y).storage).end()),
            (std::vector<ValueId>{y, view, later}));
  EXPECT_EQ(graph.readers(x).size(), 2u);
  EXPECT_EQ(graph.readers(x)[1], OpId(2));
  EXPECT_EQ(graph.find_value("view"), view);
  EXPECT_FALSE(graph.find_value("none").has_value());
  EXPECT_EQ(graph.fresh_name("new"), "new");
  EXPECT_EQ(graph.fresh_name("view"), "view.1");
  graph.add_control(OpId(0), OpId(2));
  graph.add_control(OpId(0), OpId(2));
  EXPECT_EQ(graph.op(OpId(2)).control.size(), 1u);
  EXPECT_EQ(size_bytes(graph.value(y)), batch * 16);
  EXPECT_TRUE(check(graph).has_value());
}

TEST(GraphTest, KeepsTheOrderOfItsOutputs) {
  Graph graph;
  std::vector<ValueId> v;
  for (const char* name : {"a", "b", "c", "d"}) v.push_back(graph.add_value(value(name, {4})));
  for (const size_t i : {2, 0, 3}) graph.set_output(v[i], true);
  EXPECT_EQ(graph.outputs(), (std::vector{v[2], v[0], v[3]}));
  graph.set_output(v[2], true);  // it is one already
  EXPECT_EQ(graph.outputs(), (std::vector{v[2], v[0], v[3]}));
  graph.set_output(v[0], false);
  EXPECT_EQ(graph.value(v[0]).output_rank, 0);
  graph.set_output(v[1], true);
  EXPECT_EQ(graph.outputs(), (std::vector{v[2], v[3], v[1]}));
  Graph again;
  for (const char* name : {"b", "c", "d"})
    again.keep_output(again.add_value(value(name, {4})), graph.value(*graph.find_value(name)));
  EXPECT_EQ(again.outputs(), (std::vector{ValueId(1), ValueId(2), ValueId(0)}));
}

TEST(GraphTest, BlockedLayoutsHaveTheirOwnSize) {
  Value v = value("w", {3, 5});
  v.layout = {{}, "aB16b", 256};
  EXPECT_EQ(size_bytes(v), sym::Expr(256));
  EXPECT_EQ(element_count(v), sym::Expr(15));
}

std::string problem(const Graph& graph) {
  const Status status = check(graph);
  return status ? "" : status.error().message;
}

TEST(GraphCheckTest, SizesMustBeSizes) {
  Graph negative;
  negative.add_value(value("n", {4, -1}));
  EXPECT_NE(problem(negative).find("'n' has a dimension of -1"), std::string::npos);
  Graph huge;
  huge.add_value(value("h", {int64_t{1} << 40, int64_t{1} << 21}));
  EXPECT_NE(problem(huge).find("'h' is larger than 2^62"), std::string::npos);
  Graph overflowing;
  overflowing.add_value(value("o", {int64_t{1} << 40, int64_t{1} << 40}));
  EXPECT_NE(problem(overflowing).find("'o' is larger than 2^62"), std::string::npos);
  Graph permuted;
  Value v = value("p", {2, 3});
  v.layout.order = {0, 2, 1};
  permuted.add_value(std::move(v));
  EXPECT_NE(problem(permuted).find("layout of 3"), std::string::npos);
  Graph empty;
  empty.add_value(value("e", {0, 3}));
  EXPECT_EQ(problem(empty), "");
}

TEST(GraphCheckTest, ViewsLieInsideTheirStorage) {
  const auto with_view = [](Dims dims, sym::Expr offset) {
    Graph graph;
    const ValueId x = graph.add_value(value("x", {8}));
    add(graph, op("view", {x}), alias_of(x, Alias::kView, "v", std::move(dims), std::move(offset)));
    return problem(graph);
  };
  EXPECT_EQ(with_view({8}, 0), "");
  EXPECT_EQ(with_view({4}, 16), "");
  EXPECT_EQ(with_view({batch}, 16), "");  // decided when batch is bound
  EXPECT_NE(with_view({4}, 17).find("ends at byte 33"), std::string::npos);
  EXPECT_NE(with_view({9}, 0).find("ends at byte 36"), std::string::npos);
  EXPECT_NE(with_view({1}, -4).find("4 bytes before"), std::string::npos);
}

TEST(GraphCheckTest, StridedViewsLieInsideTheirStorage) {
  const auto problem = [](Alias alias, Dims dims, std::vector<int64_t> strides, int64_t offset) {
    Graph graph;
    const ValueId x = graph.add_value(value("x", {4, 6}));  // 96 bytes
    Value v = alias_of(x, alias, "v", std::move(dims), offset);
    v.layout.strides = std::move(strides);
    add(graph, op("see", {x}), std::move(v));
    const Status status = check(graph);
    return status ? std::string() : status.error().message;
  };
  EXPECT_EQ(problem(Alias::kView, {6, 4}, {1, 6}, 0), "");
  EXPECT_EQ(problem(Alias::kView, {100, 6, 4}, {0, 1, 6}, 0), "");  // larger than its storage
  EXPECT_EQ(problem(Alias::kView, {4, 2}, {6, 1}, 16), "");
  EXPECT_EQ(problem(Alias::kView, {4, 2}, {6, 1}, 20),
            "value 'v' ends at byte 100 of the storage of 'x', which has 96");
  EXPECT_EQ(problem(Alias::kView, {4, 0}, {600, 1}, 96), "");
  EXPECT_EQ(problem(Alias::kUpdate, {6, 4}, {1, 6}, 0),
            "value 'v' has layout strided:1,6 and is no view");
  EXPECT_EQ(problem(Alias::kView, {6, 4}, {1}, 0),
            "value 'v' has 2 dimensions and layout strided:1");
  EXPECT_NE(problem(Alias::kView, {6, 4}, {-1, 6}, 0), "");
  EXPECT_NE(problem(Alias::kView, {batch, 4}, {1, 6}, 0), "");
  EXPECT_NE(problem(Alias::kView, {4, 4}, {int64_t{1} << 61, 1}, 0), "");
  Graph graph;
  Value owner = value("x", {4, 6});
  owner.layout.strides = {6, 1};
  graph.add_value(owner);
  EXPECT_FALSE(check(graph).has_value());
}

TEST(GraphTest, AWholeLiesInTheStoragesOfItsPieces) {
  Graph graph;
  const ValueId x = graph.add_value(value("x", {4}));
  const ValueId a = add(graph, op("a", {x}), value("a", {4}));
  const ValueId b = add(graph, op("b", {x}), value("b", {8}));
  const ValueId c = add(graph, op("c", {x}), value("c", {2}));
  const auto whole = [](std::string name, Dims dims) {
    Value v = value(std::move(name), std::move(dims));
    v.alias = Alias::kPieces;
    return v;
  };
  const ValueId inner = add(graph, op("inner", {a, b}), whole("inner", {12}));
  const ValueId outer = add(graph, op("outer", {c, inner}), whole("outer", {14}));
  EXPECT_TRUE(check(graph).has_value());
  const auto storage = [&](ValueId v) { return graph.value(v).storage; };
  EXPECT_EQ(graph.memory_of(outer),
            (std::vector<Piece>{{storage(c), 0}, {storage(a), 8}, {storage(b), 24}}));
  EXPECT_EQ(graph.memory_of(a), (std::vector<Piece>{{storage(a), 0}}));
  EXPECT_TRUE(graph.may_join(std::vector{inner, c}));
  EXPECT_FALSE(graph.may_join(std::vector{inner, a})) << "a is there already";
  EXPECT_FALSE(graph.may_join(std::vector{a, ValueId::none()}));
  EXPECT_FALSE(graph.may_join({}));
  Graph given = graph;
  add(given, op("bad", {c, x}), whole("bad", {6}));
  EXPECT_FALSE(check(given).has_value()) << "no op makes x";
  Graph part = graph;
  const ValueId cut = add(part, op("cut", {b}), alias_of(b, Alias::kView, "cut", {4}));
  add(part, op("bad", {c, cut}), whole("bad", {6}));
  EXPECT_FALSE(check(part).has_value()) << "the view does not fill its storage";
  Graph overwritten = graph;
  add(overwritten, op("step", {a}), alias_of(a, Alias::kUpdate, "a'", {4}));
  EXPECT_FALSE(check(overwritten).has_value());
}

TEST(GraphCheckTest, NobodyReadsWhatWasOverwritten) {
  Graph graph;
  const ValueId w = graph.add_value(value("w", {8}));
  const ValueId view = add(graph, op("view", {w}), alias_of(w, Alias::kView, "view", {8}));
  const ValueId updated = add(graph, op("step", {w}), alias_of(w, Alias::kUpdate, "w'", {8}));
  Graph good = graph, stale = graph, stale_view = graph;
  add(good, op("read", {updated}), value("r", {8}));
  add(stale, op("read", {w}), value("r", {8}));
  add(stale_view, op("read", {view}), value("r", {8}));
  EXPECT_EQ(problem(good), "");
  EXPECT_NE(problem(stale).find("'read' reads 'w' after it was overwritten"), std::string::npos);
  EXPECT_NE(problem(stale_view).find("'read' reads 'view' after it was overwritten"),
            std::string::npos);
}

TEST(GraphTest, ListsItsSymbolsAndRenamesItsValues) {
  Graph graph;
  const ValueId x = graph.add_value(value("x", {batch, sym::Expr::symbol("seq")}));
  const ValueId y = add(graph, op("first", {x}), value("y", {batch * 2}));
  EXPECT_EQ(free_symbols(graph), (std::vector<std::string>{"batch", "seq"}));
  graph.rename(y, "z");
  EXPECT_EQ(graph.value(y).name, "z");
  EXPECT_EQ(graph.find_value("z"), y);
  EXPECT_FALSE(graph.find_value("y").has_value());
  EXPECT_EQ(graph.fresh_name("y"), "y");
  EXPECT_TRUE(check(graph).has_value());
}

}  // namespace
}  // namespace lowtide::ir
