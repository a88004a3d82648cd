// Layouts: kernels get what they wish, everything still types, and conversions are ops.
#include "rewrite/layouts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/op_table.h"

namespace lowtide::rewrite {
namespace {

// Wants channels-last data for convolutions and one blocked format for their weights.
class PickyCatalog : public plan::KernelCatalog {
 public:
  Result<int64_t> workspace_bytes(const plan::OpDesc&) const override { return 0; }
  plan::LayoutWish wish(const plan::OpDesc& op) const override {
    if (op.kind != "Conv") return {};
    Layout blocked;
    blocked.blocked = "test";
    blocked.blocked_bytes = 4096;
    return {{Layout::channels_last(4), blocked}, {Layout::channels_last(4)}};
  }
};

ir::ValueId add_value(ir::Graph& graph, std::string name, ir::Dims dims, Category category) {
  ir::Value value;
  value.name = std::move(name);
  value.dims = std::move(dims);
  value.category = category;
  return graph.add_value(std::move(value));
}

ir::ValueId conv(ir::Graph& graph, ir::ValueId x, ir::ValueId w) {
  const ir::Attrs attrs{{"strides", ir::Dims{1, 1}},
                        {"pads", ir::Dims{1, 1, 1, 1}},
                        {"dilations", ir::Dims{1, 1}},
                        {"group", int64_t{1}}};
  const auto op = ops::append(graph, "Conv", {x, w, ir::ValueId::none()}, attrs);
  EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
  return graph.op(*op).outputs[0];
}

int count(const ir::Graph& graph, std::string_view kind) {
  int n = 0;
  for (ir::OpId id : graph.ops()) n += graph.op(id).kind == kind;
  return n;
}

TEST(Layouts, AnActivationIsConvertedOnceAndAParameterForEachUse) {
  ir::Graph graph;
  const auto x = add_value(graph, "x", {2, 8, 6, 6}, Category::kInput);
  const auto w = add_value(graph, "w", {8, 8, 3, 3}, Category::kParameter);
  const auto a = conv(graph, x, w);
  const auto b = conv(graph, x, w);
  const auto sum = ops::append(graph, "Add", {a, b}, {}).value();
  graph.set_output(graph.op(sum).outputs[0], true);
  const auto report = choose_layouts(graph, PickyCatalog());
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->reorders, 3) << "x once, w twice";
  EXPECT_EQ(count(report->graph, "Reorder"), 3);
  const auto result = report->graph.find_value(graph.value(graph.op(sum).outputs[0]).name);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(report->graph.value(*result).layout, Layout::channels_last(4))
      << "Add follows its operands";
}

TEST(Layouts, MixedOperandsFollowThePermutedOneAndReshapeGoesBack) {
  ir::Graph graph;
  const auto x = add_value(graph, "x", {2, 8, 6, 6}, Category::kInput);
  const auto w = add_value(graph, "w", {8, 8, 3, 3}, Category::kParameter);
  const auto plain = add_value(graph, "plain", {2, 8, 6, 6}, Category::kInput);
  const auto mixed = ops::append(graph, "Add", {conv(graph, x, w), plain}, {}).value();
  const auto flat =
      ops::append(graph, "Reshape", {graph.op(mixed).outputs[0]}, {{"shape", ir::Dims{2, 288}}});
  ASSERT_TRUE(flat.has_value());
  const auto report = choose_layouts(graph, PickyCatalog());
  ASSERT_TRUE(report.has_value()) << report.error().message;
  // x, w, plain to channels-last; the sum back to row-major for the view.
  EXPECT_EQ(report->reorders, 4);
  EXPECT_TRUE(ir::check(report->graph).has_value());
}

// Convolutions wish for channels-last data; of what follows them only some kernels take it.
class NarrowCatalog : public PickyCatalog {
 public:
  explicit NarrowCatalog(std::string taken) : taken_(std::move(taken)) {}
  Result<int64_t> workspace_bytes(const plan::OpDesc& op) const override {
    const bool permuted = !op.inputs[0]->layout.row_major();
    if (op.kind == "Conv" || (permuted ? taken_ == "permuted" : taken_ == "plain")) return 0;
    return error(ErrorCode::kInput, "no kernel");
  }

 private:
  std::string taken_;
};

TEST(Layouts, WhatNobodyWishedForMustHaveAKernel) {
  for (const auto& [taken, reorders] : {std::pair("permuted", 2), {"plain", 3}, {"neither", 2}}) {
    ir::Graph graph;
    const auto x = add_value(graph, "x", {2, 8, 6, 6}, Category::kInput);
    const auto w = add_value(graph, "w", {8, 8, 3, 3}, Category::kParameter);
    ASSERT_TRUE(ops::append(graph, "Exp", {conv(graph, x, w)}, {}).has_value());
    const auto report = choose_layouts(graph, NarrowCatalog(taken));
    ASSERT_TRUE(report.has_value()) << report.error().message;
    EXPECT_EQ(report->reorders, reorders) << taken;
  }
}

TEST(Layouts, WithoutWishesNothingChanges) {
  ir::Graph graph;
  const auto x = add_value(graph, "x", {2, 8}, Category::kInput);
  ASSERT_TRUE(ops::append(graph, "Exp", {x}, {}).has_value());
  const auto report = choose_layouts(graph, PickyCatalog());
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->reorders, 0);
  EXPECT_TRUE(report->graph == graph);
}

}  // namespace
}  // namespace lowtide::rewrite
