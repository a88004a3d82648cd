// What the op table says of results in slices: types, the pair that may share a buffer, work, axes;
// what it refuses; and which chains of such ops make a whole.
#include "ops/destinations.h"

#include <gtest/gtest.h>

#include "ops/testing/dimension_edges.h"

namespace lowtide::ops {
namespace {

using ir::ValueId;

Type type(ir::Dims dims, Layout layout = {}) {
  return {DType::kF32, std::move(dims), std::move(layout)};
}

struct Call {
  std::string kind;
  ir::Attrs attrs;
  std::vector<std::optional<Type>> inputs;
  Instance instance() const { return {.kind = kind, .attrs = &attrs, .inputs = inputs}; }
};

Call relu(ir::Dims into, std::optional<Type> rest = std::nullopt) {
  Call call{"Relu", {{"into", std::move(into)}}, {type({2, 3, 5})}};
  if (rest) call.inputs.push_back(rest);
  return call;
}

TEST(Destinations, TheResultIsTheWhole) {
  const Call first = relu({1, 4, 7, 8}), next = relu({1, 4, 7, 8}, type({2, 8, 5}));
  for (const Call& call : {first, next}) {
    const auto made = infer(call.instance());
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_EQ(made->front().type, type({2, 8, 5}));
    EXPECT_EQ(made->front().alias, ir::Alias::kOwn);
    const auto to = destination_of(call.instance());
    ASSERT_TRUE(to.has_value());
    EXPECT_EQ(to->axis, 1u);
    EXPECT_EQ(to->begin, 4);
    EXPECT_EQ(to->end, 7);
    EXPECT_EQ(to->extent, 8);
    EXPECT_EQ(to->rest, 1u);
  }
  using Pairs = std::vector<std::pair<int, int>>;
  EXPECT_EQ(in_place_pairs(first.instance()), Pairs());
  EXPECT_EQ(in_place_pairs(next.instance()), Pairs({{1, 0}}));
  const Call product{"MatMul",
                     {{"into", ir::Dims{1, 0, 4, 6}}},
                     {type({3, 5}), type({5, 4}), std::nullopt, std::nullopt, type({3, 6})}};
  EXPECT_EQ(in_place_pairs(product.instance()), Pairs({{4, 0}}));
}

TEST(Destinations, TheWorkIsThatOfTheSlice) {
  const Call call = relu({1, 4, 7, 8}, type({2, 8, 5}));
  const auto done = work(call.instance());
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->flops, sym::Expr(30));
  EXPECT_EQ(done->bytes_read, sym::Expr(120));
  EXPECT_EQ(done->bytes_written, sym::Expr(120));
}

TEST(Destinations, TheSliceIsNotCutFurther) {
  const Call call = relu({1, 4, 7, 8}, type({2, 8, 5}));
  EXPECT_TRUE(dimension_edges(call.instance())->empty());
  EXPECT_FALSE(part(call.instance(), 0, 0, 1).has_value());
}

TEST(Destinations, TheRestLiesAsTheWholeDoes) {
  Call call = relu({1, 4, 7, 8}, type({2, 8, 5}, {.order = {0, 2, 1}, .blocked = {}}));
  EXPECT_FALSE(infer(call.instance()).has_value());
  call.inputs[0]->layout.order = {0, 2, 1};
  EXPECT_TRUE(infer(call.instance()).has_value());
}

TEST(Destinations, WhatFitsNotIsRefused) {
  const Type rest = type({2, 8, 5});
  for (const ir::Dims& into : {ir::Dims{3, 4, 7, 8},
                               {-1, 4, 7, 8},
                               {1, 4, 6, 8},
                               {1, -3, 0, 8},
                               {1, 6, 9, 8},
                               {1, 0, 3, 3},
                               {1, 4, 7},
                               {1, 4, 7, 9}})
    EXPECT_FALSE(infer(relu(into, rest).instance()).has_value());
  // Two outputs, a view, a sum, a further operand, another type.
  const Type x = type({2, 4});
  const ir::Dims into{1, 0, 4, 6};
  for (const Call& call :
       {Call{"TopK", {{"axis", int64_t{0}}, {"count", int64_t{2}}, {"into", into}}, {x}},
        Call{"Reshape", {{"shape", ir::Dims{2, 4}}, {"into", into}}, {x}},
        Call{"MatMul", {{"into", into}}, {x, type({4, 4}), std::nullopt, x}},
        Call{"Relu", {{"into", into}}, {x, type({2, 6}), x}},
        Call{"Relu", {{"into", into}}, {x, Type{DType::kF64, {2, 6}, {}}}}})
    EXPECT_FALSE(infer(call.instance()).has_value()) << call.kind;
}

class WrittenChain {
 public:
  WrittenChain() {
    ir::Value value;
    value.name = "x";
    value.dims = {2, 3};
    x_ = graph_.add_value(std::move(value));
  }
  // A Relu of x at [begin, begin + 3) of `axis`, 9 there in all.
  ValueId write(int64_t begin, ValueId rest = {}, int64_t axis = 1) {
    std::vector<ValueId> inputs = {x_};
    if (rest.valid()) inputs.push_back(rest);
    const int64_t end = begin + (axis == 1 ? 3 : 2);
    const auto made =
        append(graph_, "Relu", inputs, {{"into", ir::Dims{axis, begin, end, int64_t{9}}}});
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return graph_.op(*made).outputs[0];
  }
  ValueId op(std::string_view kind, ValueId input, ir::Attrs attrs = {}) {
    return graph_.op(*append(graph_, kind, {input}, std::move(attrs))).outputs[0];
  }
  std::string refusal() const {
    const Status status = check_destinations(graph_);
    return status ? "" : status.error().message;
  }
  ir::Graph& graph() { return graph_; }

 private:
  ir::Graph graph_;
  ValueId x_;
};

TEST(DestinationChains, EachPlaceIsWrittenOnceAndThenRead) {
  WrittenChain whole;
  whole.graph().set_output(whole.op("Exp", whole.write(3, whole.write(0, whole.write(6)))), true);
  EXPECT_EQ(whole.refusal(), "");
  WrittenChain twice;
  twice.write(0, twice.write(5, twice.write(6)));
  EXPECT_EQ(twice.refusal(), "op 'Relu.1' writes [5, 8) of axis 1, and part of it is there");
  WrittenChain early;
  early.op("Exp", early.write(0, early.write(6)));
  EXPECT_EQ(early.refusal(),
            "op 'Exp' reads 'Relu.1', of which only 6 of 9 along axis 1 are written");
  WrittenChain seen;  // through a view
  seen.op("Exp", seen.op("Reshape", seen.write(0), {{"shape", ir::Dims{18}}}));
  EXPECT_NE(seen.refusal().find("op 'Reshape' reads"), std::string::npos);
  WrittenChain returned;
  returned.graph().set_output(returned.write(0), true);
  EXPECT_NE(returned.refusal().find("the step returns"), std::string::npos);
  WrittenChain over;
  over.write(0, over.write(3, over.write(0, over.write(6))));
  EXPECT_NE(over.refusal().find("that lacks a part"), std::string::npos);
}

}  // namespace
}  // namespace lowtide::ops
