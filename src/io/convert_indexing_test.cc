// How recurrent networks and ops at places given by data come through the door: as which ops, with
// what left out, and what is refused. That results are right is what the official node cases and
// the comparison with ONNX Runtime say.
#include <gtest/gtest.h>

#include "io/onnx_reader.h"
#include "io/testing/test_models.h"
#include "ir/graph.h"

namespace lowtide::io {
namespace {

std::string error_of(const ModelMaker& maker) {
  const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
  return graph ? "" : graph.error().message;
}

// x [5, batch, 3] -> LSTM of 2 units -> what the node's outputs are called.
ModelMaker lstm(const std::vector<std::string>& outputs, const std::string& direction) {
  const int64_t ways = direction == "bidirectional" ? 2 : 1;
  ModelMaker maker;
  maker.input("x", {"5", "batch", "3"});
  maker.floats("W", {ways, 8, 3}, std::vector<float>(static_cast<size_t>(ways * 24), 0.1f));
  maker.floats("R", {ways, 8, 2}, std::vector<float>(static_cast<size_t>(ways * 16), 0.1f));
  onnx_wire::Node& node = maker.node("LSTM", {"x", "W", "R"}, outputs, "cell");
  set_int(node, "hidden_size", 2);
  set_word(node, "direction", direction);
  return maker;
}

TEST(RecurrentDoor, OneProductForAllStepsFeedsTheCell) {
  ModelMaker maker = lstm({"y", "", "c"}, "forward");
  maker.output("y").output("c");
  const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(count_ops(*graph, "MatMul"), 1);
  EXPECT_EQ(count_ops(*graph, "Lstm"), 1);
  EXPECT_EQ(count_ops(*graph, "Transpose"), 0);
  const ir::Value& y = graph->value(*graph->find_value("y"));
  EXPECT_EQ(y.dims, (ir::Dims{5, 1, sym::Expr::symbol("batch"), 2}));
  EXPECT_EQ(y.alias, ir::Alias::kView);
  EXPECT_TRUE(graph->value(*graph->find_value("c")).is_output);
}

TEST(RecurrentDoor, KeepsWhatAGradientNeedsOnlyForTraining) {
  ModelMaker maker = lstm({"y"}, "forward");
  maker.output("y");
  const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {.training = true});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(count_ops(*graph, "LstmTrain"), 1);
  EXPECT_EQ(count_ops(*graph, "Lstm"), 0);
}

// PyTorch puts the directions last behind a bidirectional network: twice turned is not turned.
TEST(RecurrentDoor, TransposesThatUndoEachOtherVanish) {
  ModelMaker maker = lstm({"y"}, "bidirectional");
  set_ints(maker.node("Transpose", {"y"}, {"t"}, "turn"), "perm", {0, 2, 1, 3});
  maker.ints("shape", {3}, {0, 0, -1});
  maker.node("Reshape", {"t", "shape"}, {"z"});
  maker.output("z");
  const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(count_ops(*graph, "Transpose"), 0);
  EXPECT_EQ(graph->value(*graph->find_value("z")).dims,
            (ir::Dims{5, sym::Expr::symbol("batch"), 4}));
}

TEST(RecurrentDoor, StatesToStartFromAreNotTrained) {
  ModelMaker maker;
  maker.input("x", {"5", "1", "3"});
  maker.floats("W", {1, 2, 3}, std::vector<float>(6, 0.1f));
  maker.floats("R", {1, 2, 2}, std::vector<float>(4, 0.1f));
  maker.floats("start", {1, 1, 2}, {1, 2});
  set_int(maker.node("RNN", {"x", "W", "R", "", "", "start"}, {"y"}, "cell"), "hidden_size", 2);
  maker.output("y");
  const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {.training = true});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(graph->value(*graph->find_value("R")).category, Category::kParameter);
  for (const ir::ValueId id : graph->values())
    if (graph->value(id).name.find("start") != std::string::npos) {
      EXPECT_NE(graph->value(id).category, Category::kParameter);
    }
}

TEST(RecurrentDoor, RefusesWhatItDoesNotKnowByName) {
  ModelMaker maker = lstm({"y"}, "forward");
  onnx_wire::Attribute& words = *maker.graph().mutable_node(0)->add_attribute();
  words.set_name("activations");
  words.set_type(8);
  for (const char* word : {"HardSigmoid", "Tanh", "Tanh"}) words.add_strings(word);
  maker.output("y");
  EXPECT_EQ(error_of(maker),
            "made.onnx: node 'cell' (LSTM): activation 'HardSigmoid' is not taken, only Sigmoid, "
            "Tanh and Relu");
  ModelMaker narrow = lstm({"y"}, "forward");
  narrow.graph().mutable_initializer(0)->set_dims(1, 6);
  for (int i = 0; i < 6; ++i)
    narrow.graph().mutable_initializer(0)->mutable_float_data()->RemoveLast();
  narrow.output("y");
  EXPECT_EQ(error_of(narrow), "made.onnx: node 'cell' (LSTM): W is [1, 6, 3], wanted [1, 8, 3]");
}

// ---- places

TEST(IndexingDoor, KnownIndicesOutsideAreRefused) {
  ModelMaker maker;
  maker.input("x", {"3", "4"}).output("y");
  maker.ints("i", {1, 2}, {0, 4});
  set_int(maker.node("GatherElements", {"x", "i"}, {"y"}, "pick"), "axis", 1);
  EXPECT_EQ(error_of(maker),
            "made.onnx: node 'pick' (GatherElements): input 1 ('i') holds the index 4 into 4");
  ModelMaker tuples;
  tuples.input("x", {"3", "4"}).output("y");
  tuples.ints("i", {1, 2}, {0, -5});
  tuples.node("GatherND", {"x", "i"}, {"y"}, "pick");
  EXPECT_EQ(error_of(tuples),
            "made.onnx: node 'pick' (GatherND): input 1 ('i') holds the index -5 into dim 1 of 4");
}

TEST(IndexingDoor, EinsumOfTwoMatricesIsOneProduct) {
  ModelMaker maker;
  maker.input("a", {"b", "3", "4"}).input("w", {"5", "4"}).output("y");
  set_word(maker.node("Einsum", {"a", "w"}, {"y"}, "sum"), "equation", "bij, kj -> bik");
  const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(count_ops(*graph, "MatMul"), 1);
  EXPECT_EQ(count_ops(*graph, "Transpose"), 0);
  EXPECT_EQ(graph->value(*graph->find_value("y")).dims, (ir::Dims{sym::Expr::symbol("b"), 3, 5}));
}

TEST(IndexingDoor, AnEquationThatDoesNotFitIsRefused) {
  ModelMaker maker;
  maker.input("a", {"3", "4"}).output("y");
  set_word(maker.node("Einsum", {"a"}, {"y"}, "sum"), "equation", "ijk->i");
  EXPECT_EQ(error_of(maker),
            "made.onnx: node 'sum' (Einsum): equation 'ijk->i' does not fit 1 inputs, input 0 of "
            "rank 2");
}

}  // namespace
}  // namespace lowtide::io
