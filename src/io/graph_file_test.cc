// Graphs as text from outside: believed in nothing, opaque ops completed, effects in order.
#include "io/graph_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "ir/graph_text.h"

namespace lowtide::io {
namespace {

// A step with an op that the table does not know.
const std::string kText = R"(graph "step" "by hand"
given "x" f32 [batch, 8] input fed
given "w" f32 [8, 4] parameter seeded
op "MatMul" "fc" "" forward v0 v1
  out "h" f32 [batch, 4] activation own
op "Opaque" "scan" "" forward v2 -
  attr "op" word "mylib::scan"
  attr "seconds" real 0.001
  out "s" f32 [batch, 4] activation own
  out "i" i64 [batch] activation own
op "Relu" "act" "" forward v3
  out "y" f32 [batch, 4] activation own output
)";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

std::string refusal(const std::string& text, const sym::Bindings& bindings = {}) {
  const auto graph = read_graph_text(text, "t.graph", bindings);
  EXPECT_FALSE(graph.has_value());
  if (graph) return "";
  EXPECT_EQ(graph.error().message.find('\n'), std::string::npos);
  EXPECT_TRUE(graph.error().message.starts_with("t.graph")) << graph.error().message;
  return graph.error().message;
}

TEST(GraphFile, OpaqueOpsTakeTheirTypesFromTheirOutputs) {
  const auto graph = read_graph_text(kText, "t.graph", {{"batch", 3}});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->bindings.at("batch"), 3);
  const ir::Op& scan = graph->op(ir::OpId(1));
  EXPECT_EQ(std::get<std::string>(scan.attrs.at("types")), "f32 i64");
  EXPECT_EQ(std::get<ir::Dims>(scan.attrs.at("dims")), (ir::Dims{3, 4, 3}));
  // What was read is what is written, with all that was completed.
  const auto again = read_graph_text(ir::print(*graph), "t.graph");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(*again == *graph);
}

TEST(GraphFile, SymbolsStayWithoutANumber) {
  const auto graph = read_graph_text(kText, "t.graph");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(ir::free_symbols(*graph), std::vector<std::string>{"batch"});
}

TEST(GraphFile, WhatIsDeclaredOtherwiseIsRefused) {
  EXPECT_EQ(refusal(replaced(kText, "\"h\" f32 [batch, 4]", "\"h\" f32 [batch, 5]")),
            "t.graph: op 'fc' (MatMul): output 'h' is declared f32 [batch, 5], and the op makes "
            "f32 [batch, 4]");
  EXPECT_EQ(refusal(replaced(kText, "\"y\" f32", "\"y\" f16")),
            "t.graph: op 'act' (Relu): output 'y' is declared f16 [batch, 4], and the op makes f32 "
            "[batch, 4]");
  EXPECT_EQ(refusal(replaced(kText, "activation own output", "activation update v3 [0] output")),
            "t.graph: op 'act' (Relu): output 'y' is declared 'update', and is 'own' by the op "
            "table");
  EXPECT_EQ(refusal(replaced(kText, "op \"Relu\"", "op \"Rely\"")),
            "t.graph: op 'act' (Rely): the op table has no such kind; what it does not know is "
            "written as kind \"Opaque\" with the attribute \"op\"");
  EXPECT_EQ(refusal(replaced(kText, "  attr \"op\" word \"mylib::scan\"\n", "")),
            "t.graph: op scan: Opaque: attribute op is missing");
  EXPECT_NE(refusal(replaced(kText, "w\" f32 [8, 4]", "w\" f32 [9, 4]")).find("op fc: MatMul"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(kText, "op \"Relu\" \"act\" \"\" forward v3",
                             "op \"Relu\" \"act\" \"\" forward v3 v2"))
                .find("op act: Relu"),
            std::string::npos);
  EXPECT_EQ(refusal("graph"), "t.graph:1: expected a quoted name, found ''");
}

TEST(GraphFile, ASlightlyWrongSizeShowsOnceItIsANumber) {
  const std::string text = replaced(kText, "\"h\" f32 [batch, 4]", "\"h\" f32 [2*batch, 4]");
  EXPECT_NE(refusal(text, {{"batch", 3}}).find("is declared f32 [6, 4]"), std::string::npos);
}

TEST(GraphFile, BindingsAreOfSymbolsThatItHas) {
  EXPECT_EQ(refusal(kText, {{"seq", 3}}),
            "t.graph: --dim seq=3: the graph has no such symbol, but batch");
  EXPECT_EQ(refusal(kText, {{"batch", 0}}), "t.graph: --dim batch=0: a size is at least 1");
}

TEST(GraphFile, EffectsKeepTheirOrder) {
  const std::string effect = R"(op "OpaqueEffect" "%" "" forward v2
  attr "op" word "log"
)";
  const auto graph =
      read_graph_text(kText + replaced(effect, "%", "first") + replaced(effect, "%", "second") +
                          replaced(effect, "%", "third") + "  control n3\n",
                      "t.graph", {{"batch", 3}});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_TRUE(graph->op(ir::OpId(3)).control.empty());
  EXPECT_EQ(graph->op(ir::OpId(4)).control, std::vector<ir::OpId>{ir::OpId(3)});
  EXPECT_EQ(graph->op(ir::OpId(5)).control, (std::vector<ir::OpId>{ir::OpId(3), ir::OpId(4)}));
}

// A forward op and a backward op that read a view's copy, one for both; of a parameter one for
// each; and an update whose gradient is a view.
TEST(GraphFile, StridedViewsAreCopiedForOpaqueOpsThatDoNotReadThem) {
  const std::string view = R"(graph "views" ""
given "x" f32 [4, 6] input fed
given "w" f32 [4, 6] parameter seeded
op "Opaque" "t" "" forward v0
  attr "op" word "t"
  out "xt" f32 [6, 4] activation view v0 [0] layout "strided:1,6"
op "Opaque" "u" "" forward v1
  attr "op" word "t"
  out "wt" f32 [6, 4] activation view v1 [0] layout "strided:1,6"
op "Opaque" "mm" "" forward v2 v3
  attr "op" word "mm"
  out "y" f32 [6, 6] activation own
op "Opaque" "nn" "" backward v2 v3 v4
  attr "op" word "nn"
  out "g" f32 [6, 4] gradient own
op "Opaque" "s" "" backward v5
  attr "op" word "t"
  out "gt" f32 [4, 6] gradient view v5 [0] layout "strided:1,4"
op "Opaque" "step" "" update v1 v6
  attr "op" word "sgd"
  out "w/1" f32 [4, 6] parameter update v1 [0]
)";
  const auto graph = read_graph_text(view, "t.graph");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  std::vector<std::string> copies;
  for (const ir::OpId id : graph->ops()) {
    const ir::Op& op = graph->op(id);
    if (op.kind == "Reorder")
      copies.push_back(op.name + " " + std::string(name(graph->value(op.outputs[0]).category)));
    for (const ir::ValueId input : op.inputs)
      EXPECT_TRUE(op.kind == "Reorder" || !graph->value(input).layout.strided()) << op.name;
  }
  EXPECT_EQ(copies, (std::vector<std::string>{
                        "copy/xt/row_major activation", "copy/wt/row_major activation",
                        "copy/wt/row_major.1 temporary", "copy/gt/row_major gradient"}));
  const std::string wrong =
      replaced(view, "\"g\" f32 [6, 4] gradient", "\"g\" f32 [6, 4] temporary");
  EXPECT_EQ(refusal(wrong).substr(0, 11), "t.graph:15:") << "ids of the text, not of the graph";
  const std::string named = replaced(view, "\"y\" f32", "\"xt/row_major\" f32");
  const auto other = read_graph_text(named, "t.graph");
  ASSERT_TRUE(other.has_value()) << other.error().message;
  EXPECT_TRUE(other->find_value("xt/row_major.1").has_value()) << "the text's names stay";
}

// Bytes and lines of a right text changed at random: nothing crashes, and what is still taken is
// the same when it is written and read again.
TEST(GraphFile, SurvivesAnyText) {
  Rng rng(1);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = kText;
    for (uint64_t edits = 1 + rng.below(3); edits > 0; --edits) {
      const size_t at = rng.below(text.size()),
                   end = std::min(text.find('\n', at), text.size() - 1);
      const size_t other = rng.below(text.size());
      switch (rng.below(4)) {
        case 0:
          text[at] = static_cast<char>(' ' + rng.below(95));
          break;
        case 1:
          text.erase(at, 1 + rng.below(4));
          break;
        case 2:
          text.insert(end + 1, text.substr(other, text.find('\n', other) - other + 1));
          break;
        default:
          text[at] = text[other];
      }
    }
    const auto graph = read_graph_text(text, "t.graph");
    if (!graph) continue;
    ++taken;
    const auto again = read_graph_text(ir::print(*graph), "again");
    ASSERT_TRUE(again.has_value()) << again.error().message << "\n" << text;
    ASSERT_TRUE(*again == *graph) << text;
  }
  EXPECT_GT(taken, 1'000);
}

TEST(GraphFile, ItsPathsEndWithGraph) {
  EXPECT_TRUE(is_graph_path("a/step.graph"));
  EXPECT_FALSE(is_graph_path("a/step.onnx"));
  EXPECT_FALSE(is_graph_path("graph"));
}

}  // namespace
}  // namespace lowtide::io
