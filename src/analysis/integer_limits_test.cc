// Limits of integers by their readers, on graphs small enough to see them.
#include "analysis/integer_limits.h"

#include <gtest/gtest.h>

#include "ops/op_table.h"

namespace lowtide::analysis {
namespace {

class IntegerLimits : public testing::Test {
 protected:
  ir::ValueId feed(const char* name, DType dtype, ir::Dims dims) {
    ir::Value value;
    value.name = name;
    value.dtype = dtype;
    value.dims = std::move(dims);
    value.category = Category::kInput;
    return graph_.add_value(std::move(value));
  }
  ir::ValueId op(const char* kind, std::vector<ir::ValueId> inputs, ir::Attrs attrs) {
    const auto id = ops::append(graph_, kind, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(id.has_value()) << id.error().message;
    return graph_.op(*id).outputs[0];
  }
  int64_t limit(ir::ValueId id) const { return integer_limits(graph_)[id]; }

  ir::Graph graph_;
};

TEST_F(IntegerLimits, AreTheExtentsThatPositionsRunOver) {
  const auto rows = feed("rows", DType::kF32, {10, 4});
  const auto ids = feed("ids", DType::kI64, {2, 3});
  const auto labels = feed("labels", DType::kI64, {2, 3});
  const auto picked = op("Gather", {rows, ids}, {{"axis", int64_t{0}}});
  op("CrossEntropy", {picked, labels}, {{"axis", int64_t{2}}});
  EXPECT_EQ(limit(ids), 10);
  EXPECT_EQ(limit(labels), 4);
  EXPECT_EQ(limit(rows), 0) << "no integers";
}

TEST_F(IntegerLimits, TheLeastOfAllReadersCounts) {
  const auto many = feed("many", DType::kF32, {10, 4}), few = feed("few", DType::kF32, {7, 4});
  const auto ids = feed("ids", DType::kI64, {3});
  op("Gather", {many, ids}, {{"axis", int64_t{0}}});
  op("Gather", {few, ids}, {{"axis", int64_t{0}}});
  op("Gather", {many, ids}, {{"axis", int64_t{0}}});
  EXPECT_EQ(limit(ids), 7);
}

TEST_F(IntegerLimits, GoThroughViewsCopiesAndCasts) {
  const auto rows = feed("rows", DType::kF32, {10, 4});
  const auto ids = feed("ids", DType::kI64, {2, 3});
  const auto flat = op("Reshape", {ids}, {{"shape", ir::Dims{6}}});
  const auto narrow = op("Cast", {flat}, {{"to", std::string("i32")}});
  op("GatherGrad", {op("Gather", {rows, narrow}, {{"axis", int64_t{0}}}), narrow},
     {{"axis", int64_t{0}}, {"dim", int64_t{9}}});
  EXPECT_EQ(limit(ids), 9);
}

TEST_F(IntegerLimits, GoThroughChoices) {
  const auto rows = feed("rows", DType::kF32, {10, 4});
  const auto ids = feed("ids", DType::kI64, {3}), other = feed("other", DType::kI64, {});
  const auto which = feed("which", DType::kBool, {3});
  op("Gather", {rows, op("Where", {which, other, ids}, {})}, {{"axis", int64_t{0}}});
  EXPECT_EQ(limit(ids), 10);
}

TEST_F(IntegerLimits, AMaskHoldsTwoValues) {
  const auto mask = feed("mask", DType::kI64, {2, 3});
  op("Cast", {mask}, {{"to", std::string("bool")}});
  EXPECT_EQ(limit(mask), 2);
}

TEST_F(IntegerLimits, ArithmeticBoundsNothing) {
  const auto rows = feed("rows", DType::kF32, {10, 4});
  const auto ids = feed("ids", DType::kI64, {3}), offsets = feed("offsets", DType::kI64, {3});
  op("Gather", {rows, op("Add", {ids, offsets}, {})}, {{"axis", int64_t{0}}});
  EXPECT_EQ(limit(ids), 0);
}

TEST_F(IntegerLimits, SymbolicExtentsBoundNothing) {
  const auto rows = feed("rows", DType::kF32, {sym::Expr::symbol("rows"), 4});
  const auto ids = feed("ids", DType::kI64, {3});
  op("Gather", {rows, ids}, {{"axis", int64_t{0}}});
  EXPECT_EQ(limit(ids), 0);
}

}  // namespace
}  // namespace lowtide::analysis
