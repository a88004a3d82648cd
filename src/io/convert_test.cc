// Which names of a file are the same tensor, and what an output is called. An alias of a parameter
// that became a second one would be trained apart from it, and drawn differently.
#include "io/convert.h"

#include <gtest/gtest.h>

#include "io/onnx_wire.h"
#include "io/testing/test_models.h"

namespace lowtide::io {
namespace {

ir::Graph graph_from(ModelMaker& maker, const OnnxOptions& options = {}) {
  auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", options);
  if (!graph) ADD_FAILURE() << graph.error().message;
  return graph ? std::move(*graph) : ir::Graph();
}

std::vector<std::string> parameters(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::ValueId id : graph.values())
    if (graph.value(id).category == Category::kParameter &&
        graph.value(id).alias == ir::Alias::kOwn)
      names.push_back(graph.value(id).name);
  return names;
}

std::vector<std::string> outputs(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::ValueId id : graph.values())
    if (graph.value(id).is_output) names.push_back(graph.value(id).name);
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

// (x w) w2, where `op` makes w2 of w.
struct TiedCase {
  std::string op;
  Names more_inputs;
};

ModelMaker tied(const TiedCase& test, bool drawn) {
  ModelMaker maker;
  maker.input("x", {"2", "4"}).output("y");
  if (drawn)
    maker.external("w", {4, 4}, "absent.bin");
  else
    maker.floats("w", {4, 4}, std::vector<float>(16, 0.5F));
  maker.ints("shape", {2}, {4, 4});
  maker.ints("starts", {1}, {0});
  maker.ints("ends", {1}, {4});
  maker.ints("copied", {2}, {0, -1});
  maker.ints("once", {2}, {1, 1});
  Names inputs = {"w"};
  inputs.insert(inputs.end(), test.more_inputs.begin(), test.more_inputs.end());
  onnx_wire::Node& alias = maker.node(test.op, inputs, {"w2"});
  if (test.op == "Cast") set_int(alias, "to", 1);
  if (test.op == "Transpose") set_ints(alias, "perm", {0, 1});
  if (test.op == "Concat") set_int(alias, "axis", 0);
  maker.node("MatMul", {"x", "w2"}, {"p"});
  maker.node("MatMul", {"p", "w"}, {"y"});
  return maker;
}

TEST(Alias, OfAParameterIsTheParameter) {
  for (const TiedCase& test : std::vector<TiedCase>{{"Identity", {}},
                                                    {"Reshape", {"shape"}},
                                                    {"Reshape", {"copied"}},
                                                    {"Squeeze", {}},
                                                    {"Flatten", {}},
                                                    {"Cast", {}},
                                                    {"CastLike", {"x"}},
                                                    {"Dropout", {}},
                                                    {"Transpose", {}},
                                                    {"Expand", {"shape"}},
                                                    {"Tile", {"once"}},
                                                    {"Slice", {"starts", "ends"}},
                                                    {"Concat", {}},
                                                    {"Sum", {}},
                                                    {"Max", {}}})
    for (const bool drawn : {false, true}) {
      ModelMaker maker = tied(test, drawn);
      const ir::Graph graph = graph_from(maker);
      EXPECT_EQ(parameters(graph), Names{"w"}) << test.op << (drawn ? ", drawn" : "");
      ASSERT_EQ(graph.op_count(), 2U) << test.op;
      for (const ir::OpId op : graph.ops())
        EXPECT_EQ(graph.value(graph.op(op).inputs[1]).name, "w") << test.op;
    }
}

TEST(Alias, OfAnAliasIsTheParameterToo) {
  ModelMaker maker;
  maker.input("x", {"2", "4"}).output("y");
  maker.floats("w", {4, 4}, std::vector<float>(16, 0.5F));
  maker.ints("shape", {2}, {4, 4});
  maker.node("Identity", {"w"}, {"a"});
  maker.node("Reshape", {"a", "shape"}, {"b"});
  maker.node("MatMul", {"x", "b"}, {"p"});
  maker.node("MatMul", {"p", "a"}, {"y"});
  EXPECT_EQ(parameters(graph_from(maker)), Names{"w"});
}

TEST(Output, BearsTheModelsNameWhateverItIs) {
  ModelMaker maker;
  maker.input("x", {"2", "3"});
  for (const char* name : {"shape", "sum", "x", "w", "c", "y", "y2", "x2", "w2"})
    maker.output(name);
  maker.floats("w", {3, 3}, std::vector<float>(9, 0.5F));
  maker.floats("c", {}, {2});
  maker.node("Shape", {"x"}, {"shape"});
  maker.node("Add", {"shape", "shape"}, {"sum"});
  maker.node("MatMul", {"x", "w"}, {"y"});
  maker.node("Identity", {"y"}, {"y2"});
  maker.node("Identity", {"x"}, {"x2"});
  maker.node("Identity", {"w"}, {"w2"});
  const ir::Graph graph = graph_from(maker);
  EXPECT_EQ(outputs(graph), (Names{"c", "shape", "sum", "w", "w2", "x", "x2", "y", "y2"}));
  EXPECT_EQ(parameters(graph), Names{"w"});
  // What is there before the step is the result itself, and another name of what is not updated is
  // a view: only a parameter under another name is copied.
  EXPECT_FALSE(graph.value(*graph.find_value("x")).producer.valid());
  EXPECT_FALSE(graph.value(*graph.find_value("shape")).producer.valid());
  EXPECT_EQ(graph.value(*graph.find_value("x2")).alias, ir::Alias::kView);
  EXPECT_EQ(graph.value(*graph.find_value("y2")).alias, ir::Alias::kView);
  EXPECT_EQ(graph.value(*graph.find_value("w2")).alias, ir::Alias::kOwn);
}

TEST(Output, NamedTwiceIsOneResult) {
  ModelMaker maker;
  maker.input("x", {"2"}).output("y").output("y");
  maker.node("Relu", {"x"}, {"y"});
  EXPECT_EQ(outputs(graph_from(maker)), Names{"y"});
}

TEST(Output, KeepsItsNameBesideInnerOnesOfTheSameForm) {
  ModelMaker maker;
  maker.input("x", {"2"}).output("y/Abs");
  maker.node("Softsign", {"x"}, {"y"});  // inside, its Abs would be called y/Abs
  maker.node("Neg", {"y"}, {"y/Abs"});
  const ir::Graph graph = graph_from(maker);
  EXPECT_EQ(outputs(graph), Names{"y/Abs"});
  const ir::Value& output = graph.value(*graph.find_value("y/Abs"));
  EXPECT_EQ(graph.op(output.producer).kind, "Neg");
}

}  // namespace
}  // namespace lowtide::io
