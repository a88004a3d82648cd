// Shape inference on symbols, its errors, layouts, views, storage sharing, and how ops go into a
// graph.
#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "ops/testing/instance_text.h"

namespace lowtide::ops {
namespace {

using D = ir::Dims;
using Facts = std::vector<std::pair<sym::Expr, sym::Expr>>;

const Layout kChannelsLast = Layout::channels_last(4);

TEST(InferSymbolic, WindowsGiveFloorDivisions) {
  const ir::Attrs attrs = {{"strides", D{2, 2}}, {"pads", D{3, 3, 3, 3}}};
  EXPECT_EQ(inferred(Example("Conv", attrs, "f32[batch,3,h,224] f32[64,3,7,7]")),
            "f32[batch,64," + sym::print(floordiv(sym::Expr::symbol("h") - 1, 2) + 1) + ",112]");
  EXPECT_EQ(inferred(Example("MaxPool",
                             {{"kernel", D{2, 2}}, {"strides", D{2, 2}}, {"ceil_mode", int64_t{1}}},
                             "f32[1,1,7,8]")),
            "f32[1,1,4,4] u8[1,1,4,4]");
  // The fifth window would begin in the high padding.
  EXPECT_EQ(inferred(Example(
                "AvgPool",
                {{"kernel", D{2}}, {"strides", D{2}}, {"pads", D{1, 1}}, {"ceil_mode", int64_t{1}}},
                "f32[1,1,5]")),
            "f32[1,1,3]");
}

TEST(InferSymbolic, AttentionKeepsBatchAndSequence) {
  EXPECT_EQ(inferred(Example("MatMul", {{"trans_b", int64_t{1}}},
                             "f32[batch,12,seq,64] f32[batch,12,seq,64]")),
            "f32[batch,12,seq,seq]");
  EXPECT_EQ(inferred(Example("Gather", {{"axis", int64_t{0}}}, "f32[50257,768] i64[batch,seq]")),
            "f32[batch,seq,768]");
  EXPECT_EQ(inferred(Example("Concat", {{"axis", int64_t{1}}}, "f32[2,seq] f32[2,3]")),
            "f32[2,seq + 3]");
}

TEST(InferSymbolic, DifferentSymbolsBecomeFacts) {
  Facts facts;
  EXPECT_EQ(inferred(Example("Mul", {}, "f32[n,4] f32[m,4]"), &facts), "f32[n,4]");
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_EQ(facts[0], std::pair(sym::Expr::symbol("n"), sym::Expr::symbol("m")));
  facts.clear();
  EXPECT_EQ(inferred(Example("Mul", {}, "f32[n,4] f32[7,4]"), &facts), "f32[7,4]");
  EXPECT_EQ(facts.size(), 1u);
  facts.clear();
  EXPECT_EQ(inferred(Example("Mul", {}, "f32[n,4] f32[1,4]"), &facts), "f32[n,4]");
  EXPECT_TRUE(facts.empty());
}

TEST(InferErrors, NameKindOperandAndExtents) {
  EXPECT_EQ(inferred(Example("MatMul", {}, "f32[2,5] f32[4,6]")),
            "MatMul: input 1, dimension 0 of [4, 6]: 4 where axis k has 5");
  EXPECT_EQ(inferred(Example("Add", {}, "f32[2,3] f32[2,4]")),
            "Add: input 1, dimension 1 of [2, 4]: 4 where axis a1 has 3");
  EXPECT_EQ(inferred(Example("Relu", {}, "f32[2] f32[2]")), "Relu: 2 inputs given, wanted 1 to 1");
  EXPECT_EQ(inferred(Example("Add", {}, "f32[2] -")), "Add: input 1 is not optional");
  EXPECT_EQ(inferred(Example("Exp", {}, "i64[2]")),
            "Exp: input 0 has type i64, wanted a float type");
  EXPECT_EQ(inferred(Example("Add", {}, "f32[2] i64[2]")),
            "Add: input 1 has type i64, but input 0 has f32");
  EXPECT_EQ(inferred(Example("Elu", {}, "f32[2]")), "Elu: attribute alpha is missing");
  EXPECT_EQ(inferred(Example("Elu", {{"alpha", std::string("x")}}, "f32[2]")),
            "Elu: attribute alpha must be of type real");
  EXPECT_EQ(inferred(Example("Softmax", {{"axis", int64_t{1}}, {"axes", int64_t{1}}}, "f32[2,2]")),
            "Softmax: has no attribute axes; it has: axis:int");
  EXPECT_EQ(inferred(Example("Reshape", {{"shape", D{7}}}, "f32[2,3]")),
            "Reshape: [2, 3] has 6 elements, [7] has 7");
  EXPECT_NE(inferred(Example("Conv", {{"group", int64_t{3}}}, "f32[1,4,5] f32[3,1,3]"))
                .find("4 is no multiple of 3"),
            std::string::npos);
  EXPECT_NE(inferred(Example("Conv", {}, "f32[1,4,5] f32[3,4,9]")).find("a window of 9"),
            std::string::npos);
  EXPECT_NE(inferred(Example("Slice", {{"starts", D{3}}, {"sizes", D{4}}}, "f32[6]"))
                .find("lies outside"),
            std::string::npos);
  EXPECT_EQ(inferred(Example("NoSuchOp", {}, "f32[6]")), "there is no op of kind NoSuchOp");
  EXPECT_EQ(inferred(Example("MatMul", {}, "f32[2,3,4] f32[4,5] - f32[1,3,5]")),
            "MatMul: the accumulator, input 3, is [1, 3, 5], the result [2, 3, 5]");
}

TEST(InferLayout, ElementwiseKeepsAPermutation) {
  Example add("Add", {}, "f32[2,8,4,4] f32[8,1,1]");
  add.inputs[0]->layout = kChannelsLast;
  EXPECT_EQ((*infer(add.instance()))[0].type.layout, kChannelsLast);
  Example gate("Mul", {}, "f32[2,8,4,4] f32[2,8,1,1]");
  gate.inputs[0]->layout = kChannelsLast;
  EXPECT_EQ((*infer(gate.instance()))[0].type.layout, kChannelsLast);
  Example mixed("Add", {}, "f32[2,8,4,4] f32[2,8,4,4]");
  mixed.inputs[0]->layout = kChannelsLast;
  EXPECT_EQ(
      inferred(mixed),
      "Add: input 1 [2, 8, 4, 4] has layout row_major, wanted perm:0231 as input 0 [2, 8, 4, 4]");
}

TEST(InferLayout, RowsSayWhatTheyNeed) {
  Example conv("Conv", {}, "f32[2,8,4,4] f32[8,8,1,1] f32[8]");
  conv.inputs[0]->layout = kChannelsLast;
  conv.inputs[1]->layout = {.order = {}, .blocked = "OIhw8i8o", .blocked_bytes = 256};
  EXPECT_EQ((*infer(conv.instance()))[0].type.layout, kChannelsLast);
  EXPECT_EQ(work(conv.instance())->bytes_read, sym::Expr(2 * 8 * 16 * 4 + 256 + 32));
  Example sum("ReduceSum", {{"axes", D{2, 3}}}, "f32[2,8,4,4]");
  sum.inputs[0]->layout = kChannelsLast;
  EXPECT_TRUE((*infer(sum.instance()))[0].type.layout.row_major());
  Example flat("Reshape", {{"shape", D{2, 128}}}, "f32[2,8,4,4]");
  flat.inputs[0]->layout = kChannelsLast;
  EXPECT_EQ(inferred(flat), "Reshape: input 0 [2, 8, 4, 4] has layout perm:0231, wanted row_major");
  Example pooled("Reshape", {{"shape", D{2, 8}}}, "f32[2,8,1,1]");
  pooled.inputs[0]->layout = kChannelsLast;
  EXPECT_EQ(inferred(pooled), "f32[2,8]");
  Example reorder("Reorder", {{"layout", std::string("perm:0231")}}, "f32[2,8,4,4]");
  EXPECT_EQ((*infer(reorder.instance()))[0].type.layout, kChannelsLast);
  Example loss("CrossEntropy", {{"axis", int64_t{1}}}, "f32[2,8,4,4] i64[2,4,4]");
  loss.inputs[0]->layout = kChannelsLast;
  const auto outputs = infer(loss.instance());
  EXPECT_TRUE((*outputs)[1].type.layout.row_major());
}

TEST(InferLayout, AnOptionalAttributeMayChooseIt) {
  EXPECT_EQ(free_layout_attr(*find("ConvWgtGrad"), 0), "dw_layout");
  EXPECT_EQ(free_layout_attr(*find("Reorder"), 0), "") << "it must be given";
  EXPECT_EQ(free_layout_attr(*find("Conv"), 0), "");
  EXPECT_EQ(free_layout_attr(*find("ConvWgtGrad"), 1), "");
}

TEST(InferView, ASliceIsAViewWhenItsElementsAreAdjacent) {
  const auto slice = [](D starts, D sizes, const char* text, const Layout& layout = {}) {
    Example example("Slice", {{"starts", starts}, {"sizes", sizes}}, text);
    example.inputs[0]->layout = layout;
    return (*infer(example.instance()))[0];
  };
  EXPECT_EQ(slice({1, 0}, {2, 6}, "f32[4,6]").alias, ir::Alias::kView);
  EXPECT_EQ(slice({1, 0}, {2, 6}, "f32[4,6]").offset_bytes, sym::Expr(24));
  EXPECT_EQ(slice({1, 1}, {2, 5}, "f32[4,6]").alias, ir::Alias::kOwn);
  EXPECT_EQ(slice({3, 1}, {1, 5}, "f32[4,6]").offset_bytes, sym::Expr(76));
  EXPECT_EQ(slice({1, 0}, {2, 6}, "f32[4,seq]").alias, ir::Alias::kOwn);
  EXPECT_EQ(slice({0, 4, 0, 0}, {1, 4, 2, 2}, "f32[1,8,2,2]").alias, ir::Alias::kView);
  EXPECT_EQ(slice({0, 4, 0, 0}, {1, 4, 2, 2}, "f32[1,8,2,2]", kChannelsLast).alias,
            ir::Alias::kOwn);
  EXPECT_EQ(slice({0, 0, 1, 0}, {1, 8, 1, 2}, "f32[1,8,2,2]", kChannelsLast).offset_bytes,
            sym::Expr(64));
}

TEST(Positions, AreBoundedByTheAxisThatTheyRunOver) {
  const auto limit = [](const Example& example, size_t input) {
    return position_limit(example.instance(), input);
  };
  const ir::Attrs first = {{"axis", int64_t{0}}}, last = {{"axis", int64_t{1}}};
  EXPECT_EQ(limit(Example("Gather", first, "f32[rows,4] i64[3]"), 1), sym::Expr::symbol("rows"));
  EXPECT_EQ(limit(Example("Gather", last, "f32[10,4] i32[3]"), 1), sym::Expr(4));
  EXPECT_EQ(limit(Example("Gather", last, "f32[10,4] i32[3]"), 0), std::nullopt);
  EXPECT_EQ(limit(Example("CrossEntropy", last, "f32[2,7] i64[2]"), 1), sym::Expr(7));
  EXPECT_EQ(limit(Example("LabelLogits", last, "f32[2,7] i64[2]"), 1), sym::Expr(7));
  ir::Attrs part = last;
  part["first_class"] = int64_t{7};
  part["classes"] = int64_t{21};
  EXPECT_EQ(limit(Example("LabelLogits", part, "f32[2,7] i64[2]"), 1), sym::Expr(21));
  const Example mean("CrossEntropyMean", {{"classes", int64_t{21}}}, "f32[2] f32[2] i64[2]");
  EXPECT_EQ(limit(mean, 2), sym::Expr(21));
  for (const int64_t beyond : {15, 21}) {
    part["first_class"] = beyond;
    EXPECT_EQ(
        infer(Example("LabelLogits", part, "f32[2,7] i64[2]").instance()).error().message,
        "LabelLogits: classes is 21, for 7 from first_class " + std::to_string(beyond) + " on");
  }
  EXPECT_EQ(limit(Example("Add", {}, "i64[2] i64[2]"), 1), std::nullopt);
}

TEST(InPlace, PairsInOrderOfPreference) {
  using Pairs = std::vector<std::pair<int, int>>;
  EXPECT_EQ(in_place_pairs(Example("Add", {}, "f32[2,3] f32[2,3]").instance()),
            (Pairs{{0, 0}, {1, 0}}));
  EXPECT_EQ(in_place_pairs(Example("Add", {}, "f32[3] f32[2,3]").instance()), (Pairs{{1, 0}}));
  EXPECT_EQ(in_place_pairs(Example("Where", {}, "bool[3] f32[3] f32[]").instance()),
            (Pairs{{1, 0}}));
  EXPECT_EQ(in_place_pairs(Example("Equal", {}, "f32[3] f32[3]").instance()), Pairs{});
  EXPECT_EQ(in_place_pairs(Example("Cast", {{"to", std::string("i32")}}, "f32[3]").instance()),
            (Pairs{{0, 0}}));
  EXPECT_EQ(in_place_pairs(Example("Cast", {{"to", std::string("i64")}}, "f32[3]").instance()),
            Pairs{});
  const Example sum("MatMul", {}, "f32[2,3] f32[3,4] - f32[2,4]");
  EXPECT_EQ(in_place_pairs(sum.instance()), (Pairs{{3, 0}}));
  EXPECT_EQ(accumulators(sum.instance()), (std::vector<std::pair<int, int>>{{3, 0}}));
  EXPECT_TRUE(accumulators(Example("MatMul", {}, "f32[2,3] f32[3,4]").instance()).empty());
}

ir::ValueId feed(ir::Graph& graph, const char* name, ir::Dims dims) {
  ir::Value value;
  value.name = name;
  value.dims = std::move(dims);
  value.category = Category::kInput;
  return graph.add_value(std::move(value));
}

TEST(Append, NamesOutputsAndPlacesViews) {
  ir::Graph graph;
  const ir::ValueId x = feed(graph, "x", {4, 6});
  const auto first = append(graph, "Slice", {x}, {{"starts", D{1, 0}}, {"sizes", D{2, 6}}});
  ASSERT_TRUE(first) << first.error().message;
  const ir::ValueId cut = graph.op(*first).outputs[0];
  const auto second = append(graph, "Slice", {cut}, {{"starts", D{1, 0}}, {"sizes", D{1, 6}}});
  const ir::Value& view = graph.value(graph.op(*second).outputs[0]);
  EXPECT_EQ(view.name, "Slice.1");
  EXPECT_EQ(view.offset_bytes, sym::Expr(48));
  EXPECT_EQ(view.storage, graph.value(x).storage);
  EXPECT_EQ(view.category, Category::kInput);
  const ir::ValueId scale = feed(graph, "scale", {6});
  const auto norm =
      append(graph, "LayerNorm", {x, scale}, {{"axis", int64_t{1}}, {"epsilon", 1e-5}},
             {.name = "norm", .output_names = {"y"}});
  ASSERT_TRUE(norm) << norm.error().message;
  EXPECT_EQ(graph.value(graph.op(*norm).outputs[0]).name, "y");
  EXPECT_EQ(graph.value(graph.op(*norm).outputs[2]).name, "norm.2");
  EXPECT_TRUE(ir::check(graph));
  const Instance back = instance_of(graph, *norm);
  EXPECT_EQ(back.kind, "LayerNorm");
  EXPECT_EQ(back.inputs.size(), 2u);
  EXPECT_TRUE(infer(back));
}

TEST(Append, UpdatesTakeTheStorageOfTheirInput) {
  ir::Graph graph;
  const ir::ValueId param = feed(graph, "w", {3}), grad = feed(graph, "g", {3});
  const auto op = append(graph, "SgdUpdate", {param, grad}, {{"learning_rate", 0.1}},
                         {.phase = Phase::kUpdate});
  ASSERT_TRUE(op) << op.error().message;
  const ir::Value& updated = graph.value(graph.op(*op).outputs[0]);
  EXPECT_EQ(updated.alias, ir::Alias::kUpdate);
  EXPECT_EQ(updated.base, param);
  EXPECT_EQ(updated.storage, graph.value(param).storage);
  const auto failed = append(graph, "Add", {param, ir::ValueId()}, {}, {.name = "sum"});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "op sum: Add: input 1 is not optional");
}

}  // namespace
}  // namespace lowtide::ops
