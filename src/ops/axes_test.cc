// Signatures as axes: the notation's parser, dimension edges and parts of known ops, written out.
#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "ops/signature.h"
#include "ops/testing/dimension_edges.h"
#include "ops/testing/instance_text.h"

namespace lowtide::ops {
namespace {

using D = ir::Dims;

// "0.1->0.2" for each edge from dimension 1 of input 0 to dimension 2 of output 0; "->sum" for a
// reduction.
std::string edges(const Example& example) {
  const auto found = dimension_edges(example.instance());
  if (!found) return found.error().message;
  std::string text;
  for (const DimEdge& e : *found) {
    text += text.empty() ? "" : " ";
    text += fmt::format("{}.{}->", e.input, e.input_dim);
    text += e.output < 0 ? "sum" : fmt::format("{}.{}", e.output, e.output_dim);
    if (e.kind == LinkKind::kWindow) text += "w";
    if (e.kind == LinkKind::kGroup) text += "g";
  }
  return text;
}

int axis_named(const AxisMap& map, std::string_view name) {
  for (size_t a = 0; a < map.axes.size(); ++a)
    if (map.axes[a].name == name) return static_cast<int>(a);
  ADD_FAILURE() << "no axis " << name;
  return 0;
}

std::string printed(const SliceOf& slice) {
  if (slice.absent) return "absent";
  if (slice.whole) return "whole";
  return fmt::format("{}:[{},{})", slice.dim, sym::print(slice.begin), sym::print(slice.end));
}

// "inputs -> outputs" of a part of the named axis.
std::string slices(const Example& example, std::string_view axis, int64_t begin, int64_t end) {
  const auto map = axis_map(example.instance());
  const auto made = part(example.instance(), axis_named(*map, axis), begin, end);
  if (!made) return made.error().message;
  std::string text;
  for (const SliceOf& slice : made->inputs) text += printed(slice) + " ";
  text += "->";
  for (const SliceOf& slice : made->outputs) text += " " + printed(slice);
  return text;
}

Part part_of(const Example& example, std::string_view axis, int64_t begin, int64_t end) {
  const auto map = axis_map(example.instance());
  return *part(example.instance(), axis_named(*map, axis), begin, end);
}

TEST(Pattern, ReadsTheNotation) {
  const auto conv = parse_pattern(
      "n (g:group c) (o*strides+[r:kernel]*dilations-pads)..:size, c? -> [n], {v:dim}");
  ASSERT_TRUE(conv) << conv.error().message;
  const PatternItem& window = conv->inputs[0].items[2];
  EXPECT_EQ(window.form, LinkKind::kWindow);
  EXPECT_TRUE(window.pack);
  EXPECT_TRUE(window.axes[1].coupled);
  EXPECT_EQ(window.axes[1].extent_attr, "kernel");
  EXPECT_EQ(window.stride, "strides");
  EXPECT_EQ(window.dilation, "dilations");
  EXPECT_EQ(window.padding, "pads");
  EXPECT_EQ(window.extent_attr, "size");
  EXPECT_TRUE(conv->inputs[1].optional);
  EXPECT_TRUE(conv->outputs[0].items[0].coupled);
  EXPECT_EQ(conv->outputs[1].items[0].form, LinkKind::kChosen);
  EXPECT_EQ(arity(*conv).required, 1u);
  EXPECT_EQ(arity(*conv).allowed, 2u);
  EXPECT_TRUE(parse_pattern("a.. -> ()")->outputs[0].items.empty());
}

TEST(Pattern, NamesTheColumnOfAMistake) {
  EXPECT_EQ(parse_pattern("a, b").error().message, "signature \"a, b\", column 5: expected '->'");
  EXPECT_FALSE(parse_pattern("(a -> b"));
  EXPECT_FALSE(parse_pattern("[a -> b"));
  EXPECT_FALSE(parse_pattern("a -> b -> c"));
  EXPECT_FALSE(parse_pattern("a) -> b"));
}

TEST(DimensionEdges, OfKnownOps) {
  EXPECT_EQ(edges(Example("MatMul", {}, "f32[7,2,3] f32[3,4]")),
            "0.0->0.0 0.1->0.1 0.2->sum 1.0->sum 1.1->0.2");
  EXPECT_EQ(edges(Example("Conv", {}, "f32[2,3,8] f32[4,3,3]")),
            "0.0->0.0 0.1->sum 0.2->0.2w 1.0->0.1 1.1->sum 1.2->sum");
  EXPECT_EQ(edges(Example("Softmax", {{"axis", int64_t{1}}}, "f32[2,3,4]")), "0.0->0.0 0.2->0.2");
  EXPECT_EQ(edges(Example("Reshape", {{"shape", D{2, 3, 4}}}, "f32[2,12]")), "0.0->0.0 0.1->0.1g");
  EXPECT_EQ(edges(Example("Reshape", {{"shape", D{6, 4}}}, "f32[2,3,4]")), "0.0->0.0g 0.2->0.1");
  EXPECT_EQ(edges(Example("Add", {}, "f32[2,3] f32[1,3]")), "0.0->0.0 0.1->0.1 1.1->0.1");
  EXPECT_EQ(edges(Example("Gather", {{"axis", int64_t{0}}}, "f32[9,4] i64[2,3]")),
            "0.1->0.2 1.0->0.0 1.1->0.1");
  EXPECT_EQ(edges(Example("Concat", {{"axis", int64_t{0}}}, "f32[2,3] f32[5,3]")),
            "0.1->0.1 1.1->0.1");
}

TEST(AxisMap, ReshapeFindsTheFinestNesting) {
  // 4*6 = 8*3: blocks of 6, 3 and 1 nest, so the axes are 4, 2 and 3.
  const auto map = axis_map(Example("Reshape", {{"shape", D{8, 3}}}, "f32[4,6]").instance());
  ASSERT_EQ(map->axes.size(), 3u);
  EXPECT_EQ(map->axes[0].extent, sym::Expr(4));
  EXPECT_EQ(map->axes[1].extent, sym::Expr(2));
  EXPECT_EQ(map->axes[2].extent, sym::Expr(3));
  // Blocks of 6 and 4 do not.
  const auto crossed = axis_map(Example("Reshape", {{"shape", D{3, 4}}}, "f32[2,6]").instance());
  for (const Axis& axis : crossed->axes) EXPECT_TRUE(axis.coupled);
  // Symbols: [batch*seq, 768] -> [batch, seq, 12, 64].
  const Example heads("Reshape",
                      {{"shape", D{sym::Expr::symbol("batch"), sym::Expr::symbol("seq"), 12, 64}}},
                      "f32[batch*seq,768]");
  EXPECT_EQ(edges(heads), "0.0->0.0g 0.1->0.2g");
}

TEST(AxisMap, WindowsKnowTheirHalo) {
  const Example conv("Conv", {{"strides", D{2}}, {"pads", D{1, 1}}, {"dilations", D{3}}},
                     "f32[1,2,16] f32[4,2,3]");
  const auto map = axis_map(conv.instance());
  const int position = axis_named(*map, "o0"), tap = axis_named(*map, "r0");
  for (const AxisUse& use : map->uses) {
    if (use.kind != LinkKind::kWindow) continue;
    EXPECT_EQ(use.dim, 2);
    EXPECT_EQ(use.outermost, use.axis == position);
    EXPECT_EQ(use.stride, sym::Expr(use.axis == tap ? 3 : 2));
    EXPECT_EQ(use.halo_low, sym::Expr(1));
    // Positions [b, e) end at 2*(e-1) + 6 + 1 - 1 = 2*e + 4; taps [b, e) at 2*5 + 3*(e-1) + 1 - 1 =
    // 3*e + 7 (6 positions).
    EXPECT_EQ(use.halo_high, sym::Expr(use.axis == tap ? 7 : 4));
  }
  EXPECT_EQ(map->axes[static_cast<size_t>(position)].extent, sym::Expr(6));
  EXPECT_EQ(map->axes[static_cast<size_t>(position)].role, AxisRole::kParallel);
  EXPECT_EQ(map->axes[static_cast<size_t>(tap)].role, AxisRole::kReduction);
  EXPECT_EQ(map->axes[static_cast<size_t>(tap)].merge, Merge::kSum);
}

TEST(Part, WindowsTakeTheirHaloAndLeaveThePadding) {
  const Example conv("Conv", {{"pads", D{1, 1}}}, "f32[1,2,8] f32[4,2,3] f32[4]");
  EXPECT_EQ(slices(conv, "o0", 0, 4), "2:[0,5) whole whole -> 2:[0,4)");
  EXPECT_EQ(slices(conv, "o0", 4, 8), "2:[3,8) whole whole -> 2:[4,8)");
  EXPECT_EQ(std::get<D>(part_of(conv, "o0", 0, 4).attrs.at("pads")), (D{1, 0}));
  EXPECT_EQ(std::get<D>(part_of(conv, "o0", 4, 8).attrs.at("pads")), (D{0, 1}));
  // A pad list that was left out appears only with zeros.
  const Example plain("Conv", {}, "f32[1,2,8] f32[4,2,3]");
  EXPECT_EQ(std::get<D>(part_of(plain, "o0", 2, 4).attrs.at("pads")), (D{0, 0}));
}

TEST(Part, ReductionsAddTheBiasOnce) {
  const Example product("MatMul", {}, "f32[2,6] f32[6,4] f32[4] f32[2,4]");
  EXPECT_EQ(slices(product, "k", 0, 3), "1:[0,3) 0:[0,3) whole whole -> whole");
  EXPECT_EQ(slices(product, "k", 3, 6), "1:[3,6) 0:[3,6) absent absent -> whole");
  EXPECT_EQ(part_of(product, "k", 3, 6).merge, Merge::kSum);
  EXPECT_EQ(slices(product, "n", 1, 2), "whole 1:[1,2) 0:[1,2) 1:[1,2) -> 1:[1,2)");
}

TEST(Part, GroupsSplitBetweenGroupsOnly) {
  const Example conv("Conv", {{"group", int64_t{2}}}, "f32[1,4,8] f32[6,2,3]");
  EXPECT_EQ(slices(conv, "g", 1, 2), "1:[2,4) 0:[3,6) -> 1:[3,6)");
  EXPECT_EQ(std::get<int64_t>(part_of(conv, "g", 1, 2).attrs.at("group")), 1);
  EXPECT_EQ(slices(conv, "k", 0, 1), "Conv: cannot be split along axis k");
}

TEST(Part, ScattersHaveRowsOfTheirOwn) {
  const Example grad("ConvDataGrad", {{"output_spatial", D{8}}, {"pads", D{1, 1}}},
                     "f32[1,4,8] f32[4,2,3]");
  EXPECT_EQ(slices(grad, "o0", 0, 4), "2:[0,5) whole -> 2:[0,4)");
  EXPECT_EQ(slices(grad, "o0", 4, 8), "2:[3,8) whole -> 2:[4,8)");
  const Part made = part_of(grad, "o0", 4, 8);
  EXPECT_EQ(made.merges, std::vector<Merge>{Merge::kConcat});
  EXPECT_EQ(std::get<D>(made.attrs.at("output_spatial")), D{4});
  EXPECT_EQ(std::get<D>(made.attrs.at("pads")), (D{2, 1}));
  const Example biased("ConvDataGrad", {{"output_spatial", D{8}}, {"pads", D{1, 1}}},
                       "f32[1,4,8] f32[4,2,3] f32[2]");
  EXPECT_EQ(slices(biased, "o0", 4, 8), "2:[3,8) whole whole -> 2:[4,8)");
  // A stride of two has two rows for each position; a row is left for the last one.
  const Example strided("ConvDataGrad",
                        {{"output_spatial", D{9}}, {"pads", D{1, 1}}, {"strides", D{2}}},
                        "f32[1,4,5] f32[4,2,3]");
  EXPECT_EQ(slices(strided, "o0", 1, 3), "2:[1,4) whole -> 2:[2,6)");
  EXPECT_EQ(slices(strided, "o0", 3, 5), "2:[3,5) whole -> 2:[6,9)");
  // Nothing is read twice where windows lie side by side.
  const Example upward("ConvDataGrad", {{"output_spatial", D{8}}, {"strides", D{2}}},
                       "f32[1,4,4] f32[4,2,2] f32[2]");
  EXPECT_EQ(slices(upward, "o0", 1, 3), "2:[1,3) whole whole -> 2:[2,6)");
}

// Of an average, a window at the end is divided by what of it is not padding: cut off, it would be
// divided by less. With gaps between windows nobody makes the rows there.
TEST(Part, OtherScattersAddIntoOverlappingSlices) {
  const ir::Attrs attrs = {{"kernel", D{3}}, {"input_spatial", D{8}}, {"pads", D{1, 1}}};
  const Example grad("AvgPoolGrad", attrs, "f32[1,4,8]");
  EXPECT_EQ(slices(grad, "o0", 4, 8), "2:[4,8) -> 2:[3,8)");
  const Part made = part_of(grad, "o0", 4, 8);
  EXPECT_EQ(made.merges, std::vector<Merge>{Merge::kSum});
  EXPECT_EQ(std::get<D>(made.attrs.at("input_spatial")), D{5});
  ir::Attrs divided = attrs;
  divided["divisor"] = int64_t{3};
  EXPECT_EQ(slices(Example("AvgPoolGrad", divided, "f32[1,4,8]"), "o0", 4, 8),
            "2:[3,8) -> 2:[4,8)");
  const Example gaps("ConvDataGrad", {{"output_spatial", D{7}}, {"strides", D{2}}},
                     "f32[1,4,4] f32[4,2,1]");
  EXPECT_EQ(slices(gaps, "o0", 2, 4), "2:[2,4) whole -> 2:[4,7)");
  EXPECT_EQ(part_of(gaps, "o0", 2, 4).merges, std::vector<Merge>{Merge::kSum});
  const Example biased("ConvDataGrad", {{"output_spatial", D{7}}, {"strides", D{2}}},
                       "f32[1,4,4] f32[4,2,1] f32[2]");
  EXPECT_EQ(slices(biased, "o0", 2, 4), "ConvDataGrad: cannot be split along axis o0");
}

TEST(Part, MeansAreWeighted) {
  const Example loss("CrossEntropy", {{"axis", int64_t{1}}}, "f32[8,5] i64[8]");
  const Part made = part_of(loss, "a0", 2, 4);
  EXPECT_EQ(made.scale, 0.25);
  EXPECT_EQ(made.merges, (std::vector<Merge>{Merge::kSum, Merge::kConcat}));
  const Example grad("MseLossGrad", {{"scale", 2.0}}, "f32[8] f32[8]");
  EXPECT_EQ(std::get<double>(part_of(grad, "a0", 2, 4).attrs.at("scale")), 0.5);
  const Example ignoring("CrossEntropy", {{"axis", int64_t{1}}, {"ignore_index", int64_t{-1}}},
                         "f32[8,5] i64[8]");
  EXPECT_EQ(slices(ignoring, "a0", 2, 4), "CrossEntropy: cannot be split along axis a0");
}

// With an operand that says what all rows divide by, parts add up as they are.
TEST(Part, MeansWithAGivenDivisorAreSums) {
  const ir::Attrs ignores = {{"axis", int64_t{1}}, {"ignore_index", int64_t{-1}}, {"scale", 0.5}};
  ir::Attrs of_loss = ignores;
  of_loss.erase("scale");
  for (const ir::Attrs& attrs : {of_loss, ir::Attrs{{"axis", int64_t{1}}}}) {
    const Example loss("CrossEntropy", attrs, "f32[8,5] i64[8] i64[]");
    EXPECT_EQ(slices(loss, "a0", 2, 4), "0:[2,4) 0:[2,4) whole -> whole 0:[2,4)");
    EXPECT_EQ(part_of(loss, "a0", 2, 4).scale, 1.0);
    EXPECT_EQ(part_of(loss, "a0", 2, 4).merges[0], Merge::kSum);
  }
  const Example grad("CrossEntropyGrad", ignores, "f32[8,5] i64[8] f32[8] i64[]");
  EXPECT_EQ(slices(grad, "a0", 2, 4), "0:[2,4) 0:[2,4) 0:[2,4) whole -> 0:[2,4)");
  EXPECT_EQ(std::get<double>(part_of(grad, "a0", 2, 4).attrs.at("scale")), 0.5);
  EXPECT_EQ(std::get<int64_t>(part_of(grad, "c", 2, 4).attrs.at("first_class")), 2);
  const ir::Attrs classes = {{"classes", int64_t{9}}, {"ignore_index", int64_t{-1}}};
  const Example mean("CrossEntropyMean", classes, "f32[8] f32[8] i64[8] i64[]");
  EXPECT_EQ(slices(mean, "a0", 2, 4), "0:[2,4) 0:[2,4) 0:[2,4) whole -> whole");
  EXPECT_EQ(part_of(mean, "a0", 2, 4).scale, 1.0);
  const Example counting("LabelCount", classes, "i64[8]");
  EXPECT_EQ(slices(counting, "a0", 2, 4), "LabelCount: cannot be split along axis a0");
}

// Classes: the log-sum-exp is one of parts, each label is among those of one part, and the gradient
// is element by element. Labels count from the first class of all.
TEST(Part, ClassesOfALossCountOn) {
  const Example sum("ReduceLogSumExp", {{"axes", D{1}}}, "f32[8,5]");
  EXPECT_EQ(slices(sum, "r1", 2, 5), "1:[2,5) -> whole");
  EXPECT_EQ(part_of(sum, "r1", 2, 5).merges, std::vector<Merge>{Merge::kLogSumExp});
  EXPECT_EQ(part_of(sum, "a0", 2, 5).merges, std::vector<Merge>{Merge::kConcat});
  EXPECT_EQ(merging_kind(Merge::kLogSumExp), "LogAddExp");
  EXPECT_EQ(merging_kind(Merge::kConcat), "");

  const Example picked("LabelLogits", {{"axis", int64_t{1}}}, "f32[8,5] i64[8]");
  const Part some = part_of(picked, "c", 2, 5);
  EXPECT_EQ(slices(picked, "c", 2, 5), "1:[2,5) whole -> whole");
  EXPECT_EQ(some.merges, std::vector<Merge>{Merge::kSum});
  EXPECT_EQ(std::get<int64_t>(some.attrs.at("first_class")), 2);
  EXPECT_EQ(std::get<int64_t>(some.attrs.at("classes")), 5);
  EXPECT_FALSE(part_of(picked, "a0", 2, 5).attrs.contains("first_class"));

  const Example grad("CrossEntropyGrad", {{"axis", int64_t{1}}, {"scale", 0.5}},
                     "f32[8,5] i64[8] f32[8]");
  EXPECT_EQ(slices(grad, "c", 2, 5), "1:[2,5) whole whole -> 1:[2,5)");
  const Part classes = part_of(grad, "c", 2, 5);
  EXPECT_EQ(std::get<double>(classes.attrs.at("scale")), 0.5) << "rows are all there";
  const Part rows =
      part_of(Example("CrossEntropyGrad", classes.attrs, "f32[8,3] i64[8] f32[8]"), "a0", 0, 4);
  EXPECT_EQ(std::get<double>(rows.attrs.at("scale")), 0.25);
  EXPECT_EQ(std::get<int64_t>(rows.attrs.at("first_class")), 2);
  const Example part("CrossEntropyGrad", classes.attrs, "f32[8,3] i64[8] f32[8]");
  EXPECT_EQ(std::get<int64_t>(part_of(part, "c", 1, 3).attrs.at("first_class")), 3);
  EXPECT_EQ(std::get<int64_t>(part_of(part, "c", 1, 3).attrs.at("classes")), 5);
  const Example ignoring("CrossEntropyGrad", {{"axis", int64_t{1}}, {"ignore_index", int64_t{-1}}},
                         "f32[8,5] i64[8] f32[8]");
  EXPECT_EQ(slices(ignoring, "c", 2, 5), "1:[2,5) whole whole -> 1:[2,5)");
  EXPECT_EQ(slices(ignoring, "a0", 2, 4), "CrossEntropyGrad: cannot be split along axis a0");
  const Example loss("CrossEntropy", {{"axis", int64_t{1}}}, "f32[8,5] i64[8]");
  EXPECT_EQ(slices(loss, "c", 2, 5), "CrossEntropy: cannot be split along axis c");
}

TEST(Part, RandomPartsOfPartsKnowTheirPlace) {
  Example dropout("Dropout", {{"ratio", 0.5}, {"stream", int64_t{1}}}, "f32[8,6]");
  const Part half = part_of(dropout, "a0", 4, 8);
  EXPECT_EQ(std::get<D>(half.attrs.at("whole_dims")), (D{8, 6}));
  EXPECT_EQ(std::get<D>(half.attrs.at("part_begin")), (D{4, 0}));
  Example nested("Dropout", half.attrs, "f32[4,6]");
  const Part quarter = part_of(nested, "a1", 3, 6);
  EXPECT_EQ(std::get<D>(quarter.attrs.at("whole_dims")), (D{8, 6}));
  EXPECT_EQ(std::get<D>(quarter.attrs.at("part_begin")), (D{4, 3}));
}

TEST(Part, RefusesWhatIsNoPart) {
  const Example relu("Relu", {}, "f32[8]");
  EXPECT_EQ(slices(relu, "a0", 4, 9), "Relu: [4, 9) is no part of axis a0 of extent 8");
  EXPECT_EQ(slices(relu, "a0", 4, 4), "Relu: [4, 4) is no part of axis a0 of extent 8");
  EXPECT_EQ(part(relu.instance(), 3, 0, 1).error().message, "Relu: has 1 axes, no axis 3");
  const Example softmax("Softmax", {{"axis", int64_t{0}}}, "f32[8]");
  EXPECT_EQ(slices(softmax, "c", 0, 4), "Softmax: cannot be split along axis c");
  const Example pad("Pad", {{"begins", D{3}}, {"ends", D{0}}}, "f32[8]");
  EXPECT_EQ(slices(pad, "a0", 0, 2), "Pad: part [0, 2) of axis a0 reads nothing but padding");
}

}  // namespace
}  // namespace lowtide::ops
