// Opaque ops: what their attributes say is what the op table answers, and what contradicts itself
// is refused by name.
#include "ops/rows_opaque.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/testing/dimension_edges.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

struct Given {
  std::string kind = "Opaque";
  ir::Attrs attrs = {{"op", std::string("mylib::scan")},
                     {"types", std::string("f32 i64")},
                     {"ranks", ir::Dims{2, 1}},
                     {"dims", ir::Dims{Expr::symbol("batch"), 8, Expr::symbol("batch")}}};
  std::vector<std::optional<Type>> inputs = {Type{DType::kF16, {Expr::symbol("batch"), 8}, {}},
                                             std::nullopt};

  Instance instance() const { return {.kind = kind, .attrs = &attrs, .inputs = inputs}; }
  ir::Op op() const {
    ir::Op made;
    made.kind = kind;
    made.attrs = attrs;
    return made;
  }
  std::string refusal() const {
    const auto outputs = infer(instance());
    EXPECT_FALSE(outputs.has_value());
    return outputs ? "" : outputs.error().message;
  }
};

TEST(Opaque, ItsAttributesSayItsOutputs) {
  const auto outputs = infer(Given().instance());
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  ASSERT_EQ(outputs->size(), 2U);
  EXPECT_EQ((*outputs)[0].type, (Type{DType::kF32, {Expr::symbol("batch"), 8}, {}}));
  EXPECT_EQ((*outputs)[1].type, (Type{DType::kI64, {Expr::symbol("batch")}, {}}));
  for (const OutputType& output : *outputs) EXPECT_EQ(output.alias, ir::Alias::kOwn);
}

TEST(Opaque, NothingSplitsIt) {
  const auto map = axis_map(Given().instance());
  ASSERT_TRUE(map.has_value()) << map.error().message;
  ASSERT_EQ(map->axes.size(), 5U);
  for (int axis = 0; axis < 5; ++axis) EXPECT_FALSE(can_split(*map, axis));
  const auto edges = dimension_edges(Given().instance());
  ASSERT_TRUE(edges.has_value());
  EXPECT_TRUE(edges->empty());
  EXPECT_FALSE(part(Given().instance(), 0, 0, 1).has_value());
  EXPECT_TRUE(in_place_pairs(Given().instance()).empty());
}

TEST(Opaque, UpdatesAndViews) {
  Given update;
  update.attrs["types"] = std::string("f16");
  update.attrs["ranks"] = ir::Dims{2};
  update.attrs["dims"] = ir::Dims{Expr::symbol("batch"), 8};
  update.attrs["aliases"] = std::string("update:0");
  auto outputs = infer(update.instance());
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].alias, ir::Alias::kUpdate);
  EXPECT_EQ((*outputs)[0].base_input, 0);

  Given view = update;
  view.attrs["dims"] = ir::Dims{1, 4};
  view.attrs["aliases"] = std::string("view:0");
  view.attrs["offsets"] = ir::Dims{8};
  outputs = infer(view.instance());
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  EXPECT_EQ((*outputs)[0].alias, ir::Alias::kView);
  EXPECT_TRUE((*outputs)[0].offset_bytes == Expr(8));
  EXPECT_TRUE(work(view.instance())->bytes_written == Expr(0));
}

TEST(Opaque, StridesAreReadAndMadeWhereItSaysSo) {
  Given op;
  op.attrs["types"] = std::string("f32");
  op.attrs["ranks"] = ir::Dims{2};
  op.attrs["dims"] = ir::Dims{4, 2};
  op.inputs = {Type{DType::kF32, {4, 6}, {}}};
  Given view = op;
  view.attrs["aliases"] = std::string("view:0");
  view.attrs["offsets"] = ir::Dims{8};
  view.attrs["layouts"] = std::string("strided:6,1");
  const auto made = infer(view.instance());
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(print(made->front().type.layout), "strided:6,1");
  EXPECT_EQ(made->front().alias, ir::Alias::kView);
  for (const char* wrong :
       {"strided:6", "strided:2,1", "perm:10", "strided:6,1 row_major", "any"}) {
    view.attrs["layouts"] = std::string(wrong);
    EXPECT_NE(view.refusal(), "") << wrong;
  }
  Given own = op;
  own.attrs["layouts"] = std::string("strided:6,1");
  EXPECT_NE(own.refusal(), "");

  op.inputs[0]->layout.strides = {6, 1};
  EXPECT_EQ(op.refusal(), "Opaque: input 0 [4, 6] has layout strided:6,1, wanted dense values");
  op.attrs["strided"] = int64_t{1};
  EXPECT_TRUE(infer(op.instance()).has_value());
  op.attrs["aliases"] = std::string("update:0");
  EXPECT_EQ(op.refusal(), "Opaque: output 0 updates input 0, a strided view");
}

TEST(Opaque, CostsAreGivenOrFollowFromBytesAndFlops) {
  Given given;
  EXPECT_FALSE(given_cost(given.op())->seconds.has_value());
  given.attrs["seconds"] = 1.5e-4;
  given.attrs["workspace"] = int64_t{4096};
  given.attrs["flops"] = int64_t{1000};
  EXPECT_EQ(given_cost(given.op())->seconds, 1.5e-4);
  EXPECT_EQ(given_cost(given.op())->workspace_bytes, 4096);
  const auto total = work(given.instance());
  ASSERT_TRUE(total.has_value());
  EXPECT_TRUE(total->flops == Expr(1000));
  EXPECT_TRUE(total->bytes_read == Expr::symbol("batch") * 16);
  EXPECT_TRUE(total->bytes_written == Expr::symbol("batch") * 40);
  given.kind = "Relu";
  EXPECT_FALSE(given_cost(given.op()).has_value());
}

TEST(Opaque, ItMaySayWhoseItsPlaceItTakes) {
  Given add;
  add.inputs = {Type{DType::kF32, {Expr::symbol("batch"), 8}, {}},
                Type{DType::kF32, {Expr::symbol("batch"), 8}, {}}};
  add.attrs["in_place"] = ir::Dims{0, 0, 1, 0};
  using Pairs = std::vector<std::pair<int, int>>;
  EXPECT_EQ(in_place_pairs(add.instance()), (Pairs{{0, 0}, {1, 0}}));
  add.inputs[0] = Type{DType::kF32, {8}, {}};  // too small for it
  EXPECT_EQ(in_place_pairs(add.instance()), (Pairs{{1, 0}}));
}

// [4, 6] and [4, 3] -> [4, 3] and [3].
Given with_axes(const std::string& axes) {
  Given given;
  given.attrs["types"] = std::string("f32 f32");
  given.attrs["dims"] = ir::Dims{4, 3, 3};
  given.attrs["seconds"] = 1.0;
  given.attrs["axes"] = axes;
  given.inputs = {Type{DType::kF32, {4, 6}, {}}, Type{DType::kF32, {4, 3}, {}}};
  return given;
}

TEST(Opaque, ItMaySayItsAxes) {
  const Given given = with_axes("n k, n c -> n c, c");
  const auto map = axis_map(given.instance());
  ASSERT_TRUE(map.has_value()) << map.error().message;
  ASSERT_EQ(map->axes.size(), 3U);
  const auto halves = part(given.instance(), 0, 2, 4);
  ASSERT_TRUE(halves.has_value()) << halves.error().message;
  EXPECT_EQ(halves->inputs[1].begin, Expr(2));
  EXPECT_EQ(halves->merges, (std::vector<Merge>{Merge::kConcat, Merge::kSum}));
  EXPECT_EQ(std::get<ir::Dims>(halves->attrs.at("dims")), (ir::Dims{2, 3, 3}));
  EXPECT_EQ(std::get<double>(halves->attrs.at("seconds")), 0.5) << "its share";
  const auto columns = part(given.instance(), 2, 0, 1);
  ASSERT_TRUE(columns.has_value()) << columns.error().message;
  EXPECT_TRUE(columns->inputs[0].whole);
  EXPECT_EQ(std::get<ir::Dims>(columns->attrs.at("dims")), (ir::Dims{4, 1, 1}));
}

TEST(Opaque, AxesThatCannotBeCutStayWhole) {
  const Given coupled = with_axes("n [k], n [c] -> n [c], [c]");
  const auto map = axis_map(coupled.instance());
  ASSERT_TRUE(map.has_value()) << map.error().message;
  EXPECT_TRUE(can_split(*map, 0));
  EXPECT_FALSE(can_split(*map, 1));
  Given twice = with_axes("a a, b c -> b c, c");  // one slice cannot be both
  twice.inputs[0] = Type{DType::kF32, {4, 4}, {}};
  const auto other = axis_map(twice.instance());
  ASSERT_TRUE(other.has_value()) << other.error().message;
  EXPECT_FALSE(can_split(*other, 0));
}

TEST(Opaque, AxesThatDoNotFitAreRefused) {
  const auto refusal = [](const std::string& axes) { return with_axes(axes).refusal(); };
  EXPECT_EQ(refusal("n k, n c -> n c"), "Opaque: axes has other outputs than types and ranks");
  EXPECT_NE(refusal("n k, n c -> n k, c").find("where axis k has"), std::string::npos);
  EXPECT_NE(refusal("n k, c -> n c, c").find("input 1 has rank 2"), std::string::npos);
  EXPECT_NE(refusal("n k, n c").find("expected '->'"), std::string::npos);
  for (const char* windowed : {"n (o*strides+r*dilations-pads), n c -> n c, c",
                               "n k:kernel, n c -> n c, c", "n a..@axis, n c -> n c, c"})
    EXPECT_NE(refusal(windowed).find("no windows and no attributes"), std::string::npos)
        << windowed;
  Given view = with_axes("n k, n c -> n c, c");
  view.attrs["aliases"] = std::string("view:1 view:1");
  EXPECT_EQ(view.refusal(), "Opaque: an op with axes owns all of its results");
  Given random = with_axes("n k, n c -> n c, c");
  random.kind = "OpaqueRandom";
  EXPECT_NE(random.refusal().find("has no attribute axes"), std::string::npos);
}

TEST(Opaque, WhatRunsOnceSaysSo) {
  for (std::string_view kind : {"Opaque", "OpaqueEffect", "OpaqueRandom"})
    EXPECT_TRUE(traits(*find(kind)).opaque) << kind;
  EXPECT_TRUE(traits(*find("Opaque")).recomputable);
  EXPECT_FALSE(traits(*find("OpaqueRandom")).recomputable);
  EXPECT_TRUE(traits(*find("OpaqueRandom")).random);
  EXPECT_FALSE(traits(*find("OpaqueEffect")).recomputable);
  EXPECT_TRUE(traits(*find("OpaqueEffect")).has_effect);
  for (std::string_view kind : kinds()) EXPECT_FALSE(traits(*find(kind)).opaque) << kind;
}

TEST(Opaque, AnEffectNeedsNoOutput) {
  Given print;
  print.kind = "OpaqueEffect";
  print.attrs["types"] = std::string();
  print.attrs["ranks"] = ir::Dims{};
  print.attrs["dims"] = ir::Dims{};
  const auto outputs = infer(print.instance());
  ASSERT_TRUE(outputs.has_value()) << outputs.error().message;
  EXPECT_TRUE(outputs->empty());
  EXPECT_TRUE(work(print.instance())->bytes_read == Expr::symbol("batch") * 16);
}

TEST(Opaque, ContradictionsAreRefused) {
  const auto with = [](const char* attr, ir::AttrValue value) {
    Given given;
    given.attrs[attr] = std::move(value);
    return given.refusal();
  };
  EXPECT_EQ(with("types", std::string("f32 f33")),
            "Opaque: types has 'f33', which is no element type");
  EXPECT_EQ(with("types", std::string("f32")), "Opaque: attribute ranks has 2 entries, not 1");
  EXPECT_EQ(with("ranks", ir::Dims{2, 2}), "Opaque: output 1 has rank 2, and 1 of 3 dims are left");
  EXPECT_EQ(with("ranks", ir::Dims{1, 1}),
            "Opaque: the ranks of its outputs add up to 2, and there are 3 dims");
  EXPECT_NE(with("aliases", std::string("own view:2")).find("an input from 0 to 1"),
            std::string::npos);
  EXPECT_NE(with("aliases", std::string("own view:1")).find("that is there"), std::string::npos);
  EXPECT_NE(with("aliases", std::string("own view:0")).find("1 of 2 outputs are views"),
            std::string::npos);
  EXPECT_NE(with("aliases", std::string("update:0 own")).find("updates input 0, which is f16"),
            std::string::npos);
  EXPECT_NE(with("aliases", std::string("own")).find("1 words for 2 outputs"), std::string::npos);
  EXPECT_NE(with("seconds", -1.0).find("seconds is -1"), std::string::npos);
  EXPECT_NE(with("workspace", int64_t{-1}).find("workspace is -1"), std::string::npos);
  EXPECT_NE(with("in_place", ir::Dims{0}).find("in_place has 1 numbers"), std::string::npos);
  for (const ir::Dims& pair : {ir::Dims{1, 0}, ir::Dims{0, 2}, ir::Dims{-1, 0}})
    EXPECT_NE(with("in_place", pair).find("an input that is there"), std::string::npos);
  EXPECT_NE(with("axis", int64_t{1}).find("has no attribute axis"), std::string::npos);
  Given nameless;
  nameless.attrs.erase("op");
  EXPECT_EQ(nameless.refusal(), "Opaque: attribute op is missing");
}

}  // namespace
}  // namespace lowtide::ops
