// Elementwise nodes that are taken only in part: what is refused, each in one line. That results
// are right is what the official node cases and the comparison with ONNX Runtime say.
#include <gtest/gtest.h>

#include "io/onnx_reader.h"
#include "io/test_models.h"
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
      {"BitwiseAnd", "", kFloatCode,
       "op bits: BitwiseAnd: input 0 has type f32, wanted an integer type"},
      {"BitwiseOr", "", kBoolCode,
       "op bits: BitwiseOr: input 0 has type bool, wanted an integer type"},
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
