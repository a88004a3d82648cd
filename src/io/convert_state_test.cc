// Ops with a state that the caller keeps, and other ops that are composed: as which ops they come
// through the door, and what is refused. That results are right is what the official node cases and
// the comparison with ONNX Runtime say.
#include <gtest/gtest.h>

#include "io/onnx_reader.h"
#include "io/testing/test_models.h"
#include "ir/graph.h"

namespace lowtide::io {
namespace {

std::vector<std::string> kinds_of(const ModelMaker& maker) {
  const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
  if (!graph) return {graph.error().message};
  std::vector<std::string> kinds;
  for (const ir::OpId op : graph->ops()) kinds.push_back(graph->op(op).kind);
  return kinds;
}

using Words = std::vector<std::string>;

ModelMaker causal(const std::string& length, bool past) {
  ModelMaker maker(27);
  maker.input("x", {"batch", "4", length}).output("y").output("state");
  maker.floats("w", {4, 1, 3}, std::vector<float>(12, 0.5F));
  Words inputs = {"x", "w"};
  if (past) {
    maker.input("past", {"batch", "4", "2"});
    inputs = {"x", "w", "", "past"};
  }
  maker.node("CausalConvWithState", inputs, {"y", "state"}, "conv");
  return maker;
}

// The state is cut from the input where all of it is new, and from zeros and the input where only
// the sizes of a run decide.
TEST(CausalConvolution, IsAConvolutionAndACut) {
  EXPECT_EQ(kinds_of(causal("7", false)), (Words{"Slice", "Conv"}));
  EXPECT_EQ(kinds_of(causal("1", false)), (Words{"Pad", "Slice", "Conv"}));
  EXPECT_EQ(kinds_of(causal("length", true)), (Words{"Concat", "Slice", "Conv"}));
}

TEST(CausalConvolution, RefusesWhatDoesNotFit) {
  ModelMaker wrong_state = causal("7", false);
  wrong_state.input("past", {"batch", "4", "3"});
  onnx_wire::Node& node = *wrong_state.graph().mutable_node(0);
  node.add_input("");
  node.add_input("past");
  EXPECT_EQ(kinds_of(wrong_state),
            Words{"made.onnx: node 'conv' (CausalConvWithState): input 3 ('past') is no state of 2 "
                  "places of 4 channels"});
  ModelMaker activated = causal("7", false);
  set_word(*activated.graph().mutable_node(0), "activation", "relu");
  EXPECT_EQ(kinds_of(activated),
            Words{"made.onnx: node 'conv' (CausalConvWithState): activation 'relu' is not none, "
                  "silu or swish"});
}

ModelMaker scatter(const std::string& length, bool places) {
  ModelMaker maker(24);
  maker.input("cache", {"2", "3", "8", "4"}).input("update", {"2", "3", length, "4"}).output("y");
  if (places) maker.input("at", {"2"}, 7);
  maker.node("TensorScatter", places ? Words{"cache", "update", "at"} : Words{"cache", "update"},
             {"y"}, "write");
  return maker;
}

TEST(TensorScatter, WritesWhereTheSequencesStand) {
  EXPECT_EQ(kinds_of(scatter("2", false)), (Words{"Slice", "Concat"}));
  EXPECT_EQ(kinds_of(scatter("new", true)),
            (Words{"Fill", "CumSum", "Reshape", "Add", "Expand", "ScatterND"}));
  EXPECT_EQ(kinds_of(scatter("9", true)),
            Words{"made.onnx: node 'write' (TensorScatter): an update of 9 places into a cache of "
                  "8"});
}

TEST(Columns, ThatDoNotFitAreRefused) {
  ModelMaker maker;
  maker.input("x", {"1", "8", "5"}).output("y");
  maker.ints("image", {2}, {4, 4});
  maker.ints("block", {2}, {2, 2});
  set_ints(maker.node("Col2Im", {"x", "image", "block"}, {"y"}, "fold"), "strides", {2, 2});
  EXPECT_EQ(kinds_of(maker),
            Words{"made.onnx: node 'fold' (Col2Im): an input of [1, 8, 5] for blocks of 4 elements "
                  "at 4 places"});
}

TEST(DeformableConvolution, WantsAnOffsetForEachTap) {
  ModelMaker maker;
  maker.input("x", {"n", "4", "6", "6"}).input("offset", {"n", "18", "4", "5"}).output("y");
  maker.floats("w", {2, 4, 3, 3}, std::vector<float>(72, 0.5F));
  maker.node("DeformConv", {"x", "w", "offset"}, {"y"}, "bend");
  EXPECT_EQ(kinds_of(maker),
            Words{"made.onnx: node 'bend' (DeformConv): input 2 ('offset') is [n, 18, 4, 5], "
                  "wanted [n, 18, 4, 4]"});
}

TEST(Conditions, FromDataAreRefused) {
  ModelMaker maker;
  maker.input("x", {"4"}).input("keep", {"4"}, 9).output("y");
  maker.node("Compress", {"x", "keep"}, {"y"}, "pick");
  EXPECT_EQ(kinds_of(maker),
            Words{"made.onnx: node 'pick' (Compress): its condition 'keep' is computed from data; "
                  "it must be known when the model is read"});
}

TEST(BitCast, KeepsTheWidth) {
  ModelMaker maker(26);
  maker.input("x", {"4"}).output("y");
  set_int(maker.node("BitCast", {"x"}, {"y"}, "bits"), "to", 7);
  EXPECT_EQ(kinds_of(maker), Words{"made.onnx: node 'bits' (BitCast): the bits of f32 are not "
                                   "those of i64"});
}

}  // namespace
}  // namespace lowtide::io
