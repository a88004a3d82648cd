#include "ir/graph_text.h"

#include <gtest/gtest.h>

#include "ir/testing/random_graph.h"

namespace lowtide::ir {
namespace {

TEST(GraphTextTest, PrintedGraphsReadBackEqual) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Graph graph = testing::random_graph(seed);
    ASSERT_TRUE(check(graph).has_value()) << check(graph).error().message;
    const std::string text = print(graph);
    const auto again = parse_graph(text, "g.txt");
    ASSERT_TRUE(again.has_value()) << "seed " << seed << ": " << again.error().message << "\n"
                                   << text;
    ASSERT_EQ(*again, graph) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print(*again), text);
    ++compared;
  }
  EXPECT_EQ(compared, 2000);
}

constexpr std::string_view kSmall = R"(graph "mlp" "by hand"
binding "batch" 8

given "x" f32 [batch, 784] input fed
given "w" f32 [10, 784] parameter external "w.bin" 0 31360
given "c" u8 [2] input inline "00ff"
op "MatMul" "fc" "model.fc" forward v0 v1 -
  source "net/model.py:3"
  attr "scale" real 0.5
  attr "trans_b" int 1
  out "y" f32 [batch, 10] activation own
op "Reshape" "flat" "" forward v3
  attr "shape" list [10*batch]
  control n0
  out "z" f32 [10*batch] activation view v3 [0] layout "perm:0" output
)";

TEST(GraphTextTest, ReadsWhatPeopleWrite) {
  const auto graph = parse_graph(kSmall, "mlp.txt");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->op_count(), 2u);
  EXPECT_EQ(graph->value_count(), 5u);
  EXPECT_EQ(graph->value(ValueId(4)).storage, graph->value(ValueId(3)).storage);
  EXPECT_EQ(graph->value(ValueId(2)).initial.bytes, std::string("\0\xFF", 2));
  EXPECT_FALSE(graph->op(OpId(0)).inputs[2].valid());
  EXPECT_EQ(free_symbols(*graph), (std::vector<std::string>{"batch"}));
  std::string blank_removed(kSmall);
  blank_removed.erase(blank_removed.find("\n\n"), 1);
  EXPECT_EQ(print(*graph), blank_removed);
}

TEST(GraphTextTest, ReadsWholes) {
  constexpr std::string_view kText = R"(graph "joined" ""
given "x" f32 [4, 16] input fed
op "Relu" "a" "" forward v0
  out "a" f32 [4, 16] activation own
op "Tanh" "b" "" forward v0
  out "b" f32 [4, 16] activation own
op "Join" "w" "" forward v1 v2
  attr "axis" int 0
  out "w" f32 [8, 16] activation pieces output
)";
  const auto graph = parse_graph(kText, "g");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->memory_of(ValueId(3)).size(), 2u);
  EXPECT_EQ(print(*graph), kText);
  for (const char* inputs : {"v1 v1", "v1 -"}) {
    std::string text(kText);
    text.replace(text.find("v1 v2"), 5, inputs);
    const auto refused = parse_graph(text, "g");
    ASSERT_FALSE(refused.has_value()) << inputs;
    EXPECT_TRUE(refused.error().message.starts_with("g:9: expected an op before this"))
        << refused.error().message;
  }
}

TEST(GraphTextTest, MessagesNameOriginLineAndWhatWasExpected) {
  struct Case {
    std::string_view from, to, expected;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"graph \"mlp\"", "grph \"mlp\"", "g:1: expected 'graph'"},
           {"\"by hand\"", "\"by hand", "g:1: expected a closing quote"},
           {"\"by hand\"", "\"by hand\" more", "g:1: expected the end of the line"},
           {"\"batch\" 8", "\"batch\" eight", "g:2: expected an integer"},
           {"given \"w\"", "given \"x\"", "g:5: expected a name that no other value has"},
           {"f32 [10, 784]", "f33 [10, 784]", "g:5: expected a dtype"},
           {"f32 [10, 784]", "f32 [10, 784", "g:5: expected ',' or ']'"},
           {"f32 [10, 784]", "f32 [10, 7 84]", "g:5: expected a size"},
           {"f32 [10, 784]", "f32 [10, -1]", "dimension of -1"},
           {"parameter external", "weight external", "g:5: expected a category"},
           {"parameter external", "parameter outside", "g:5: expected one of fed"},
           {"0 31360", "0 -1", "g:5: expected an offset"},
           {"\"00ff\"", "\"00f\"", "g:6: expected an even"},
           {"\"00ff\"", "\"00fg\"", "g:6: expected hexadecimal"},
           {"v0 v1 -", "v0 v9 -", "g:7: expected v<id> with an id below 3"},
           {"v0 v1 -", "v0 n1 -", "g:7: expected v<id>"},
           {"forward v0", "sideways v0", "g:7: expected forward"},
           {"source \"net", "source net", "g:8: expected a quoted"},
           {"  attr \"scale\" real 0.5", "  source \"again\"", "g:9: expected one source"},
           {"int 1", "int 1.5", "g:10: expected an integer"},
           {"int 1", "bool 1", "g:10: expected int, real"},
           {"\"trans_b\"", "\"scale\"", "g:10: expected each attribute once"},
           {"\"flat\"", "\"fc\"", "g:12: expected a name that no other op has"},
           {"control n0", "control n1", "g:14: expected n<id> with an id below 1"},
           {"view v3", "view v0", "g:15: expected an input of the op"},
           {"view v3", "copy v3", "g:15: expected one of own"},
           {"v3 [0]", "v3 [0, 1]", "g:15: expected one offset"},
           {"perm:0\"", "perm:1\"", "g:15: expected a layout"},
           {"  control n0", "  contrl n0", "g:14: expected binding"},
       }) {
    std::string text(kSmall);
    text.replace(text.find(c.from), c.from.size(), c.to);
    const auto result = parse_graph(text, "g");
    ASSERT_FALSE(result.has_value()) << c.to;
    EXPECT_NE(result.error().message.find(c.expected), std::string::npos)
        << c.to << " gave: " << result.error().message;
  }
  EXPECT_FALSE(parse_graph("", "g").has_value());
  EXPECT_FALSE(parse_graph("graph \"\" \"\"\nattr \"a\" int 1", "g").has_value());
  EXPECT_FALSE(parse_graph("graph \"\" \"\"\nsource \"a\"", "g").has_value());
  EXPECT_FALSE(parse_graph("graph \"\" \"\"\nout \"a\" f32 [] activation own", "g").has_value());
}

TEST(GraphTextTest, SurvivesAnyText) {
  size_t read = 0;
  for (uint64_t seed = 0; seed < 30000; ++seed) {
    Rng rng(seed);
    std::string text(kSmall);
    for (uint64_t n = 1 + rng.below(4); n > 0 && !text.empty(); --n) {
      const size_t at = rng.below(text.size());
      if (rng.below(3) == 0)
        text.erase(at, rng.below(30));
      else if (rng.below(2) == 0)
        text[at] = "\"[](), v09-\n\\x"[rng.below(14)];
      else
        text.insert(at, text.substr(rng.below(text.size()), rng.below(40)));
    }
    const auto result = parse_graph(text, "g");
    if (!result) {
      ASSERT_EQ(result.error().message.find('\n'), std::string::npos);
      continue;
    }
    ++read;
    ASSERT_EQ(*parse_graph(print(*result), "again"), *result);
  }
  EXPECT_GT(read, 500u);
}

}  // namespace
}  // namespace lowtide::ir
