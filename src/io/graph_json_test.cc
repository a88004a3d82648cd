#include "io/graph_json.h"

#include <gtest/gtest.h>

#include <string>

#include "io/graph_file.h"
#include "ir/graph_text.h"
#include "ir/testing/random_graph.h"

namespace lowtide::io {
namespace {

// The small example of docs/formats.md: a weight in a file, a view, an op of somebody else's.
constexpr std::string_view kStep = R"({
"format": "lowtide-graph", "version": 1, "name": "step", "producer": "by hand",
"values": [
{"name": "x", "dtype": "f32", "dims": ["batch", 8], "category": "input",
 "initial": {"kind": "fed"}},
{"name": "w", "dtype": "f32", "dims": [8, 4], "category": "parameter",
 "initial": {"kind": "external", "file": "w.bin", "offset": 64, "length": 128}},
{"name": "h", "dtype": "f32", "dims": ["batch", 4], "category": "activation"},
{"name": "s", "dtype": "f32", "dims": ["batch", 4], "category": "activation"},
{"name": "i", "dtype": "i64", "dims": ["batch"], "category": "activation"},
{"name": "y", "dtype": "f32", "dims": ["4*batch"], "category": "activation", "alias": "view",
 "base": 3, "storage": 3, "is_output": true}],
"ops": [
{"kind": "MatMul", "name": "fc", "inputs": [0, 1], "outputs": [2]},
{"kind": "Opaque", "name": "scan", "module": "layers.0", "source": "m.py:3",
 "inputs": [2, null], "outputs": [3, 4],
 "attrs": {"op": "mylib::scan", "seconds": 0.001, "workspace": 64}},
{"kind": "Reshape", "name": "flat", "inputs": [3], "outputs": [5], "control": [0],
 "attrs": {"shape": ["4*batch"]}}]
})";

std::string json_replaced(std::string_view what, std::string_view with) {
  std::string text(kStep);
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

std::string json_refusal(const std::string& text, const sym::Bindings& bindings = {}) {
  const auto graph = read_graph_json(text, "t.json", bindings);
  EXPECT_FALSE(graph.has_value()) << text;
  if (graph) return "";
  EXPECT_EQ(graph.error().message.find('\n'), std::string::npos);
  return graph.error().message;
}

TEST(GraphJson, BoundSizesAreAtLeastOne) {
  ir::Graph graph = ir::testing::random_graph(3);
  graph.bindings = {{"n", 7}};
  const std::string text = print_graph_json(graph);
  for (const char* size : {"0", "-2", "-9223372036854775808"}) {
    std::string bound = text;
    bound.replace(bound.find("7", bound.find("\"bindings\"")), 1, size);
    EXPECT_EQ(json_refusal(bound),
              std::string("t.json: the size 'n' is bound to ") + size + "; a size is at least 1");
  }
}

TEST(GraphJson, WhatIsPrintedReadsBackEqual) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    const ir::Graph graph = ir::testing::random_graph(seed);
    const std::string text = print_graph_json(graph);
    const auto again = parse_graph_json(text, "g.json");
    ASSERT_TRUE(again.has_value()) << "seed " << seed << ": " << again.error().message << "\n"
                                   << text;
    ASSERT_EQ(*again, graph) << "seed " << seed << "\n" << text;
    ASSERT_EQ(print_graph_json(*again), text);
  }
}

TEST(GraphJson, NamesThatAreNoUtf8KeepTheirBytes) {
  ir::Graph graph;
  graph.name = "caf\xE9";
  ir::Value value;
  value.name = "\xFF\x01";
  value.category = Category::kInput;
  graph.add_value(std::move(value));
  const auto again = parse_graph_json(print_graph_json(graph), "g.json");
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(*again, graph);
}

TEST(GraphJson, SaysTheSameAsText) {
  const auto graph = read_graph_json(kStep, "t.json", {{"batch", 3}});
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto text = read_graph_text(ir::print(*graph), "t.graph");
  ASSERT_TRUE(text.has_value()) << text.error().message;
  EXPECT_EQ(*text, *graph);
  // What begins with a brace is taken for JSON wherever text is.
  const auto told_apart = read_graph_text(kStep, "t.json", {{"batch", 3}});
  ASSERT_TRUE(told_apart.has_value()) << told_apart.error().message;
  EXPECT_EQ(*told_apart, *graph);
  EXPECT_EQ(std::get<std::string>(graph->op(ir::OpId(1)).attrs.at("types")), "f32 i64");
}

TEST(GraphJson, ValuesThatNoOpMakesMayStandWhereverNoOpBeforeReadsThem) {
  const std::string late = json_replaced(R"("ops": [
{"kind": "MatMul")",
                                         R"("ops": [
{"kind": "OpaqueEffect", "name": "log", "inputs": [0], "outputs": [], "attrs": {"op": "log"}},
{"kind": "MatMul")");
  const auto graph = read_graph_json(late, "t.json");
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  EXPECT_EQ(graph->op(ir::OpId(0)).name, "log");
}

TEST(GraphJson, RefusalsNameTheMember) {
  const struct {
    std::string_view what, with, says;
  } cases[] = {
      {"\"version\": 1", "\"version\": 2", "t.json: version: expected version 1, found 2"},
      {"lowtide-graph", "other", "t.json: the file: expected an object with the format"},
      {"\"kind\": \"fed\"", "\"kind\": \"feed\"",
       "t.json: values[0].initial.kind: expected a word such as 'fed', found 'feed'"},
      {"\"dtype\": \"i64\"", "\"dtype\": \"int64\"", "t.json: values[4].dtype: expected a dtype"},
      {"[\"batch\", 8]", "[\"batch*\", 8]", "t.json: values[0].dims[0]: expected a size ("},
      {"[\"batch\", 8]", "[8.0, 8]", "t.json: values[0].dims[0]: expected an integer"},
      {"\"storage\": 3", "\"storage\": 2", "t.json: values[5]: expected storage 3"},
      {"\"base\": 3", "\"base\": 2", "t.json: ops[2]: expected an input that is value 2"},
      {"\"inputs\": [2, null]", "\"inputs\": [5]", "t.json: ops[1]: expected inputs below 3"},
      {"\"outputs\": [3, 4]", "\"outputs\": [3]",
       "t.json: ops[2]: expected output 0 to be value 4"},
      {"\"outputs\": [2]", "\"outputs\": [0]", "t.json: ops[0]: expected output 0 to be value 2"},
      {"\"control\": [0]", "\"control\": [2]", "t.json: ops[2]: expected control edges from ops"},
      {"\"kind\": \"MatMul\"", "\"kind\": \"aten::mm\"", "t.json: ops[0]: op 'fc' (aten::mm):"},
      {"[\"batch\", 4], \"cat", "[\"batch\", 5], \"cat",
       "t.json: ops[0]: op 'fc' (MatMul): output 'h' is declared f32 [batch, 5]"},
      {"\"category\": \"input\"", "\"category\": \"gradient\"", "t.json: values[0]: 'x' is called"},
      {"\"length\": 128", "\"length\": 100", "t.json: values[1]: 'w' has 100 bytes"},
      {"\"name\": \"i\"", "\"name\": \"s\"", "t.json: values[4]: expected a name that no other"},
      {"\"module\"", "\"modul\"", "t.json: ops[1].modul: expected no member of this name"},
      {"\"name\": \"flat\", ", "", "t.json: ops[2]: expected a member 'name'"},
  };
  for (const auto& each : cases)
    EXPECT_TRUE(json_refusal(json_replaced(each.what, each.with)).starts_with(each.says))
        << each.says << "\n"
        << json_refusal(json_replaced(each.what, each.with));
}

TEST(GraphJson, WhatIsNoJsonOrTooDeepIsRefused) {
  EXPECT_TRUE(json_refusal("{").starts_with("t.json: no JSON: "));
  EXPECT_TRUE(json_refusal(std::string(kStep.substr(0, 900))).starts_with("t.json: no JSON: "));
  const std::string deep = std::string(100000, '[');
  EXPECT_EQ(json_refusal(deep),
            "t.json: no JSON that is read: arrays and objects 100000 deep, at most 16 are read");
}

TEST(GraphJson, AValueNeedsContentsOrAMaker) {
  EXPECT_TRUE(json_refusal(json_replaced(R"(,
 "initial": {"kind": "fed"})",
                                         ""))
                  .starts_with("t.json: ops[0]: expected inputs below 0"));
  const std::string orphan = R"({"format": "lowtide-graph", "version": 1, "values": [
    {"name": "x", "dtype": "f32", "dims": [1], "category": "input"}], "ops": []})";
  EXPECT_TRUE(json_refusal(orphan).starts_with("t.json: values[0]: expected a member 'initial'"));
}

TEST(GraphJson, BindingsAreForSymbolsOfTheGraph) {
  EXPECT_EQ(json_refusal(std::string(kStep), {{"seq", 3}}),
            "t.json: --dim seq=3: the graph has no such symbol, but batch");
}

}  // namespace
}  // namespace lowtide::io
