// Nodes that are taken only in part, elementwise ones above all: what is refused, each in one line.
// That results are right is what the official node cases and the comparison with ONNX Runtime say.
#include <gtest/gtest.h>

#include "io/onnx_reader.h"
#include "io/testing/test_models.h"
#include "ir/graph.h"

namespace lowtide::io {
namespace {

constexpr int kFloatCode = 1, kU8Code = 2, kI32Code = 6, kBoolCode = 9;

struct RefusedNode {
  std::string op, direction;
  int type = kFloatCode;
  std::string message;
};

TEST(Bitwise, TakesIntegersAndShiftsOnlyUnsignedOnes) {
  const RefusedNode cases[] = {
      {"BitwiseAnd", "", kFloatCode, "input 0 has type f32, wanted an integer type"},
      {"BitwiseOr", "", kBoolCode, "input 0 has type bool, wanted an integer type"},
      {"BitShift", "LEFT", kI32Code, "input 0 is i32, not unsigned integers"},
      {"BitShift", "UP", kU8Code, "direction is 'UP', not LEFT or RIGHT"},
      {"BitShift", "", kU8Code, "direction is '', not LEFT or RIGHT"},
  };
  for (const RefusedNode& test : cases) {
    ModelMaker maker;
    maker.input("a", {"3"}, test.type).input("b", {"2", "3"}, test.type).output("y");
    onnx_wire::Node& node = maker.node(test.op, {"a", "b"}, {"y"}, "bits");
    if (!test.direction.empty()) set_word(node, "direction", test.direction);
    const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
    ASSERT_FALSE(graph) << test.op;
    EXPECT_EQ(graph.error().message, "made.onnx: node 'bits' (" + test.op + "): " + test.message);
  }
}

// A node that is written out as other ops is refused in its own terms: no op that the file does not
// have, and none called by the node's name.
TEST(WrittenOut, IsRefusedInTheNodesOwnTerms) {
  const std::pair<std::string, std::string> cases[] = {
      {"ReduceL2", "input 0 is i32; only floats are taken"},
      {"ReduceLogSum", "input 0 is i32; only floats are taken"},
      {"ReduceLogSumExp", "input 0 has type i32, wanted a float type"},
      {"MeanVarianceNormalization", "input 0 is i32; only floats are taken"},
      {"GlobalLpPool", "input 0 is i32; only floats are taken"},
      {"Mean", "input 0 is i32; only floats are taken"},
      {"Softsign", "input 0 is i32; only floats are taken"},
      {"Sqrt", "input 0 has type i32, wanted a float type"},
      {"LpNormalization",
       "written out with LpNormalize: input 0 has type i32, wanted a float type"},
  };
  for (const auto& [op, message] : cases) {
    ModelMaker maker;
    maker.input("x", {"2", "3", "4", "5"}, kI32Code).output("y");
    maker.node(op, {"x"}, {"y"}, "here");
    const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
    ASSERT_FALSE(graph) << op;
    EXPECT_EQ(graph.error().message, "made.onnx: node 'here' (" + op + "): " + message);
  }
}

// ~x is -x - 1: one op with its numbers, no constant beside it.
TEST(Bitwise, NotIsOneOp) {
  ModelMaker maker;
  maker.input("x", {"3"}, kU8Code).output("y");
  maker.node("BitwiseNot", {"x"}, {"y"});
  const auto graph = read_onnx_bytes(maker.bytes(), "", "made.onnx", {});
  ASSERT_TRUE(graph) << graph.error().message;
  ASSERT_EQ(graph->op_count(), 1U);
  EXPECT_EQ(graph->op(*graph->ops().begin()).kind, "AffineScalar");
}

}  // namespace
}  // namespace lowtide::io
