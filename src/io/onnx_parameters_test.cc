// Which tensors of a file are parameters: exporters write weights as initializers or as Constant
// nodes, and not all say what is what.
#include "io/onnx_parameters.h"

#include <gtest/gtest.h>

#include "io/onnx_reader.h"
#include "io/onnx_wire.h"
#include "io/testing/test_models.h"

namespace lowtide::io {
namespace {

using Names = std::vector<std::string>;

void constant_node(ModelMaker& maker, const std::string& name, const std::vector<int64_t>& dims) {
  onnx_wire::Attribute& value = *maker.node("Constant", {}, {name}).add_attribute();
  value.set_name("value");
  value.set_type(4);
  value.mutable_t()->set_data_type(1);
  int64_t count = 1;
  for (int64_t dim : dims) value.mutable_t()->add_dims(dim), count *= dim;
  for (int64_t i = 0; i < count; ++i) value.mutable_t()->add_float_data(0.5F);
}

// A convolution with its bias in an Add behind it, normalized and scaled, all from Constant nodes.
ModelMaker written_as_nodes() {
  ModelMaker maker;
  maker.input("x", {"1", "3", "4", "4"}).output("y");
  constant_node(maker, "w", {5, 3, 1, 1});
  constant_node(maker, "bias", {1, 5, 1, 1});
  for (const char* name : {"scale", "shift", "mean", "variance"}) constant_node(maker, name, {5});
  constant_node(maker, "factor", {});
  maker.node("Identity", {"w"}, {"w.same"});
  maker.node("Conv", {"x", "w.same"}, {"c"});
  maker.node("Add", {"c", "bias"}, {"d"});
  maker.node("BatchNormalization", {"d", "scale", "shift", "mean", "variance"}, {"n"});
  maker.node("Mul", {"n", "factor"}, {"y"});
  return maker;
}

Names of_role(const ModelMaker& maker, TensorRole role) {
  auto model = decode_onnx_model(maker.bytes(), "made.onnx", "");
  if (!model) return {model.error().message};
  constants_to_initializers(*model);
  Names names;
  for (const auto& [name, found] : tensor_roles(*model))
    if (found == role) names.push_back(name);
  return names;
}

// As PyTorch's exporter says it of an initializer.
void tell_parameter(ModelMaker& maker, const std::string& name) {
  onnx_wire::ValueInfo& info = *maker.graph().add_value_info();
  info.set_name(name);
  onnx_wire::StringPair& kind = *info.add_metadata_props();
  kind.set_key("pkg.torch.export.graph_signature.InputSpec.kind");
  kind.set_value("PARAMETER");
}

TEST(Parameters, ConstantNodesAreWeightsWhereNothingElseIs) {
  const ModelMaker maker = written_as_nodes();
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), (Names{"bias", "scale", "shift", "w"}));
  EXPECT_EQ(of_role(maker, TensorRole::kMean), Names{"mean"});
  EXPECT_EQ(of_role(maker, TensorRole::kVariance), Names{"variance"});
  EXPECT_EQ(of_role(maker, TensorRole::kConstant), Names{"factor"});
}

TEST(Parameters, BesideInitializersOnlyConstantNodesReadAsWeightsAre) {
  ModelMaker maker = written_as_nodes();
  maker.floats("another", {2}, {1, 2});
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), (Names{"another", "scale", "shift", "w"}));
  EXPECT_EQ(of_role(maker, TensorRole::kConstant), (Names{"bias", "factor"}));
}

TEST(Parameters, PyTorchMakesUpConstantNodesBesideItsOwnNames) {
  ModelMaker maker;
  maker.wire().set_producer_name("pytorch");
  maker.input("x", {"2", "4", "8"}).output("y").output("h");
  maker.floats("n.weight", {4}, {1, 2, 3, 4});
  constant_node(maker, "/n/Constant_1_output_0", {4});
  constant_node(maker, "/n/Constant_2_output_0", {4});
  maker.floats("frozen.running_mean", {4, 1}, {1, 2, 3, 4});
  maker.floats("state", {1, 4, 5}, std::vector<float>(20, 0.5F));
  maker.floats("onnx::GRU_7", {1, 4, 5}, std::vector<float>(20, 0.5F));
  for (const char* name : {"w", "r"})
    maker.floats(name, {1, 15, name[0] == 'w' ? 8 : 5},
                 std::vector<float>(name[0] == 'w' ? 120 : 75));
  const std::string ones = "/n/Constant_1_output_0", zeros = "/n/Constant_2_output_0";
  maker.node("InstanceNormalization", {"x", ones, zeros}, {"a"});
  maker.node("Sub", {"a", "frozen.running_mean"}, {"b"});
  maker.node("GRU", {"b", "w", "r", "", "", "state"}, {"c", "d"});
  maker.node("GRU", {"b", "w", "r", "", "", "onnx::GRU_7"}, {"e", "h"});
  maker.node("Mul", {"d", "n.weight"}, {"y"});
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), (Names{"n.weight", "r", "state", "w"}));
  EXPECT_EQ(of_role(maker, TensorRole::kBuffer), Names{"frozen.running_mean"});
  EXPECT_EQ(of_role(maker, TensorRole::kConstant), (Names{ones, zeros, "onnx::GRU_7"}));
}

// Weights of classes, rotary tables, scales, masks: with PyTorch's names, with another exporter's.
TEST(Parameters, WhatNoTrainingChangesIsAConstantWhateverItIsCalled) {
  for (const char* producer : {"pytorch", "onnx.quantize"}) {
    SCOPED_TRACE(producer);
    ModelMaker maker;
    maker.wire().set_producer_name(producer);
    maker.input("x", {"2", "4"}).input("t", {"2"}, 7).output("y");
    for (const char* name : {"l.weight", "ce.weight", "cos", "sin", "l.scale", "mask"})
      maker.floats(name, {2, 2}, {1, 2, 3, 4});
    maker.node("MatMul", {"x", "l.weight"}, {"a"});
    maker.node("RotaryEmbedding", {"a", "cos", "sin"}, {"b"});
    maker.node("QuantizeLinear", {"b", "l.scale"}, {"c"});
    maker.node("DequantizeLinear", {"c", "l.scale"}, {"d"});
    maker.node("Attention", {"d", "d", "d", "mask"}, {"e"});
    maker.node("NegativeLogLikelihoodLoss", {"e", "t", "ce.weight"}, {"y"});
    EXPECT_EQ(of_role(maker, TensorRole::kTrained), Names{"l.weight"});
    EXPECT_EQ(of_role(maker, TensorRole::kConstant),
              (Names{"ce.weight", "cos", "l.scale", "mask", "sin"}));
  }
}

// torch.export folds a network of LSTMs alone to weights that are all called after ops.
TEST(Parameters, AnInitialStateCalledAfterAnOpIsAConstant) {
  ModelMaker maker;
  maker.wire().set_producer_name("pytorch");
  maker.input("x", {"2", "4", "8"}).output("d");
  for (const char* name : {"val_16", "val_41", "val_42"})
    maker.floats(name, {1, 15, 8}, std::vector<float>(120));
  maker.node("GRU", {"x", "val_41", "val_42", "", "", "val_16"}, {"c", "d"});
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), (Names{"val_41", "val_42"}));
  EXPECT_EQ(of_role(maker, TensorRole::kConstant), Names{"val_16"});
}

TEST(Parameters, ConstantNodesOfAGraphWithoutWeightsAreConstants) {
  ModelMaker maker;
  maker.input("x", {"2"}, 7).output("y");
  constant_node(maker, "table", {5, 3});
  constant_node(maker, "shift", {3});
  maker.node("Gather", {"table", "x"}, {"rows"});
  maker.node("Add", {"rows", "shift"}, {"y"});
  EXPECT_EQ(of_role(maker, TensorRole::kConstant), (Names{"shift", "table"}));
}

TEST(Parameters, AFileThatTellsItsParametersHasNoOthersInConstantNodes) {
  ModelMaker maker = written_as_nodes();
  maker.floats("told", {2}, {1, 2});
  tell_parameter(maker, "told");
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), Names{"told"});
  EXPECT_EQ(of_role(maker, TensorRole::kVariance), Names{"variance"});
}

TEST(Parameters, WhatAFileThatTellsSaysNothingOfIsNamed) {
  ModelMaker maker = written_as_nodes();
  maker.floats("told", {2}, {1, 2});
  maker.floats("val_30", {2}, {1, 2});
  maker.floats("val_31", {}, {1});
  maker.node("Mul", {"told", "val_30"}, {"told_times"});
  tell_parameter(maker, "told");
  for (const bool training : {true, false}) {
    std::vector<std::string> notes;
    ASSERT_TRUE(
        read_onnx_bytes(maker.bytes(), "", "made.onnx", {.training = training, .notes = &notes}));
    ASSERT_EQ(notes.size(), training ? 1U : 0U);
    const std::string start =
        "1 initializers of floats are not said to be parameters and stay as they are (val_30)";
    EXPECT_TRUE(!training || notes[0].starts_with(start)) << notes[0];
  }
}

TEST(Parameters, ABiasOfOneElementIsOne) {
  ModelMaker maker;
  maker.input("x", {"2", "4"}).output("y");
  maker.floats("w", {4, 1}, {1, 2, 3, 4});
  maker.floats("bias", {1}, {0.5F});
  maker.floats("half", {1}, {0.5F});
  maker.floats("eps", {1}, {1e-5F});
  maker.floats("addend", {}, {2});
  maker.floats("slope", {1}, {0.25F});
  maker.ints("shape", {2}, {1, 2});
  maker.node("MatMul", {"x", "w"}, {"p"});
  maker.node("Reshape", {"p", "shape"}, {"r"});
  maker.node("Add", {"bias", "r"}, {"s"});
  maker.node("Mul", {"s", "half"}, {"h"});
  maker.node("Add", {"h", "eps"}, {"e"});
  maker.node("Add", {"r", "addend"}, {"a"});
  maker.node("PRelu", {"e", "slope"}, {"l"});
  maker.node("Add", {"l", "a"}, {"y"});
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), (Names{"bias", "slope", "w"}));
}

// torch.export's file after a tool that lost what it says of its initializers.
TEST(Parameters, OneNumberCalledAfterAnOpIsArithmetic) {
  ModelMaker maker;
  maker.wire().set_producer_name("pytorch");
  maker.input("x", {"2", "4"}).output("y");
  for (const char* number : {"val_274", "scalar_tensor_default", "zeros_1", "temperature"})
    maker.floats(number, {}, {2});
  maker.floats("add_324", {4}, {1, 2, 3, 4});
  maker.floats("rotary_emb.inv_freq", {4}, {1, 2, 3, 4});
  maker.floats("model.embed_scale", {}, {8});
  maker.node("Mul", {"x", "val_274"}, {"a"});
  maker.node("Add", {"a", "scalar_tensor_default"}, {"b"});
  maker.node("Mul", {"b", "zeros_1"}, {"c"});
  maker.node("Div", {"c", "temperature"}, {"d"});
  maker.node("Mul", {"d", "add_324"}, {"e"});
  maker.node("Mul", {"e", "rotary_emb.inv_freq"}, {"f"});
  maker.node("Mul", {"f", "model.embed_scale"}, {"y"});
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), (Names{"add_324", "temperature"}));
  EXPECT_EQ(of_role(maker, TensorRole::kBuffer),
            (Names{"model.embed_scale", "rotary_emb.inv_freq"}));
}

TEST(Parameters, NamesOfPyTorchModulesAreOfItsParameters) {
  for (const bool pytorch : {false, true}) {
    ModelMaker maker;
    if (pytorch) maker.wire().set_producer_name("pytorch");
    maker.input("x", {"2", "4"}).output("y");
    maker.floats("blocks.0.alpha", {}, {1});
    maker.floats("temperature", {1}, {2});
    maker.floats("onnx::Mul_7", {1}, {3});
    maker.floats("/Constant_output_0", {}, {4});
    maker.floats("12", {1}, {5});
    maker.floats("least", {}, {-1});
    std::string last = "x";
    for (const char* name :
         {"blocks.0.alpha", "temperature", "onnx::Mul_7", "/Constant_output_0", "12"}) {
      const std::string next = std::string("of ") + name;
      maker.node("Mul", {last, name}, {next});
      last = next;
    }
    maker.node("Clip", {last, "least"}, {"y"});
    EXPECT_EQ(of_role(maker, TensorRole::kTrained),
              pytorch ? (Names{"blocks.0.alpha", "temperature"}) : Names{});
  }
}

TEST(Parameters, WhatAnOpMustKnowIsNone) {
  ModelMaker maker;
  maker.input("x", {"1", "1", "2", "2"}).output("y");
  maker.floats("scales", {4}, {1, 1, 2, 2});
  maker.node("Resize", {"x", "", "scales"}, {"y"});
  EXPECT_EQ(of_role(maker, TensorRole::kConstant), Names{"scales"});
}

TEST(Parameters, WhatAShapeIsComputedFromIsNone) {
  ModelMaker maker;
  maker.input("x", {"n", "1", "h", "w"}).output("y");
  maker.floats("factors", {4}, {1, 1, 1.5, 0.5});
  maker.floats("wanted", {2}, {10, 14});
  maker.floats("learnt", {2}, {1, 2});
  maker.node("Shape", {"x"}, {"shape"});
  set_int(maker.node("Cast", {"shape"}, {"real"}), "to", 1);
  maker.node("Mul", {"real", "factors"}, {"scaled"});
  maker.node("Floor", {"scaled"}, {"floored"});
  set_int(maker.node("Cast", {"floored"}, {"sizes"}), "to", 7);
  maker.node("Resize", {"x", "", "", "sizes"}, {"a"});
  maker.ints("spatial", {2}, {2, 3});
  maker.node("Gather", {"real", "spatial"}, {"extents"});
  maker.node("Div", {"wanted", "extents"}, {"ratios"});
  maker.floats("ones", {2}, {1, 1});
  set_int(maker.node("Concat", {"ones", "ratios"}, {"scales"}), "axis", 0);
  maker.node("Resize", {"a", "", "scales"}, {"b"});
  maker.node("Mul", {"b", "learnt"}, {"y"});
  EXPECT_EQ(of_role(maker, TensorRole::kConstant), (Names{"factors", "ones", "spatial", "wanted"}));
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), Names{"learnt"});
}

TEST(Parameters, AWeightIsOneThroughOtherForms) {
  ModelMaker maker;
  maker.input("x", {"2", "4"}).output("y");
  maker.floats("w", {1}, {1});
  maker.floats("told", {2}, {1, 2});
  tell_parameter(maker, "told");
  maker.ints("shape", {2}, {1, 1});
  maker.node("Reshape", {"w", "shape"}, {"a"});
  maker.node("Transpose", {"a"}, {"b"});
  maker.node("MatMul", {"x", "b"}, {"y"});
  EXPECT_EQ(of_role(maker, TensorRole::kTrained), (Names{"told", "w"}));
}

}  // namespace
}  // namespace lowtide::io
