#include "ir/bind.h"

#include <gtest/gtest.h>

#include "ir/graph_text.h"
#include "ir/testing/plain_ops.h"

namespace lowtide::ir {
namespace {

using testing::add, testing::alias_of, testing::batch, testing::op, testing::value;

TEST(GraphBindTest, ReplacesSymbolsEverywhere) {
  Graph graph;
  graph.name = "g";
  const ValueId x = graph.add_value(value("x", {batch, sym::Expr::symbol("seq")}));
  const ValueId y = add(graph, op("first", {x}), value("y", {batch * 2}));
  graph.add_value(value("between", {batch}));
  Op sliced = op("second", {y});
  sliced.attrs["sizes"] = Dims{batch};
  sliced.control = {OpId(0)};
  add(graph, std::move(sliced), alias_of(y, Alias::kView, "v", {batch}, batch * 4));
  graph.set_output(ValueId(3), true);
  const auto bound = bind(graph, {{"batch", 3}, {"unused", 7}});
  ASSERT_TRUE(bound.has_value()) << bound.error().message;
  EXPECT_EQ(bound->value(x).dims, (Dims{3, sym::Expr::symbol("seq")}));
  EXPECT_EQ(bound->value(ValueId(3)).dims, Dims{3});
  EXPECT_EQ(bound->value(ValueId(3)).offset_bytes, sym::Expr(12));
  EXPECT_TRUE(bound->value(ValueId(3)).is_output);
  EXPECT_EQ(std::get<Dims>(bound->op(OpId(1)).attrs.at("sizes")), Dims{3});
  EXPECT_EQ(bound->op(OpId(1)).control, std::vector<OpId>{OpId(0)});
  EXPECT_EQ(bound->bindings, (std::map<std::string, int64_t, std::less<>>{{"batch", 3}}));
  EXPECT_EQ(free_symbols(graph), (std::vector<std::string>{"batch", "seq"}));
  EXPECT_EQ(free_symbols(*bound), std::vector<std::string>{"seq"});
  EXPECT_EQ(bind(*bound, {}).value(), *bound);
  // Twice in parts is once as a whole.
  EXPECT_EQ(print(*bind(*bound, {{"seq", 5}})), print(*bind(graph, {{"batch", 3}, {"seq", 5}})));
}

TEST(GraphBindTest, RefusesWhatDoesNotFit) {
  Graph graph;
  graph.add_value(value("x", {batch - 4}));
  EXPECT_TRUE(bind(graph, {{"batch", 4}}).has_value());
  EXPECT_NE(bind(graph, {{"batch", 3}}).error().message.find("'x' has a dimension of -1"),
            std::string::npos);
  Graph large;
  large.add_value(value("l", {batch, batch}));
  EXPECT_NE(bind(large, {{"batch", int64_t{1} << 40}}).error().message.find("'l' is larger"),
            std::string::npos);
  Graph view;
  const ValueId x = view.add_value(value("x", {8}));
  add(view, op("cut", {x}), alias_of(x, Alias::kView, "v", {batch}));
  EXPECT_FALSE(bind(view, {{"batch", 9}}).has_value());
}

}  // namespace
}  // namespace lowtide::ir
