#include "rewrite/enlarged_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "rewrite/slice_concat.h"
#include "support/graph_writer.h"
#include "support/same_results.h"

namespace lowtide::rewrite {
namespace {

using ir::ValueId;
using Numbers = std::vector<int64_t>;

// A convolution takes a second, whatever its size; all else a millisecond.
Result<double> by_count(const plan::OpDesc& op) {
  return op.kind == "Conv" ? 1.0 : 1e-3;
}
// A second to start a convolution, and so much for each element of its weights.
OpSeconds by_weights(double seconds) {
  return [seconds](const plan::OpDesc& op) -> Result<double> {
    if (op.kind != "Conv") return 1e-3;
    return 1.0 + seconds * static_cast<double>(plan::element_count(*op.inputs[1]));
  };
}

struct Shape {
  Numbers kernel = {}, pads = {}, dilations = {}, strides = {};
  int64_t group = 1;
  bool bias = false;
};

struct Branches : GraphWriter {
  ValueId conv(ValueId x, int64_t channels, const Shape& shape) {
    const auto dims = [](const Numbers& numbers) {
      return ir::Dims(numbers.begin(), numbers.end());
    };
    ir::Dims weights = dims(shape.kernel);
    weights.insert(weights.begin(), {channels, graph_.value(x).dims[1]});
    if (shape.group > 1) weights[1] = *weights[1].constant() / shape.group;
    const ValueId w = given("w", weights, Category::kParameter);
    const ValueId bias =
        shape.bias ? given("b", {channels}, Category::kParameter) : ValueId::none();
    ir::Attrs attrs;
    if (!shape.pads.empty()) attrs["pads"] = dims(shape.pads);
    if (!shape.dilations.empty()) attrs["dilations"] = dims(shape.dilations);
    if (!shape.strides.empty()) attrs["strides"] = dims(shape.strides);
    if (shape.group > 1) attrs["group"] = shape.group;
    return op("Conv", {x, w, bias}, attrs);
  }
  ValueId image() { return given("x", {2, 4, 7, 6}); }
};

ir::Graph enlarged(const ir::Graph& graph, int64_t convolutions,
                   const OpSeconds& seconds = by_count) {
  const auto report = enlarge_kernels(graph, seconds);
  EXPECT_TRUE(report.has_value()) << (report ? "" : report.error().message);
  if (!report) return {};
  EXPECT_EQ(report->products, convolutions);
  expect_same_results(graph, report->graph);
  return report->graph;
}

const ir::Op& only_convolution(const ir::Graph& graph) {
  EXPECT_EQ(ops_called(graph, "Conv"), 1);
  const auto found = std::find_if(graph.ops().begin(), graph.ops().end(),
                                  [&](ir::OpId id) { return graph.op(id).kind == "Conv"; });
  return graph.op(*found);
}

ir::Dims list_of(const ir::Op& op, const char* name) {
  return std::get<ir::Dims>(op.attrs.at(name));
}

// ---- what is joined ----

TEST(EnlargedKernels, BranchesOfAnInceptionAreOne) {
  Branches w;
  const ValueId x = w.image();
  w.result(w.op("Tanh", {w.conv(x, 3, {.kernel = {1, 1}, .bias = true})}));
  w.result(w.op("Exp", {w.conv(x, 2, {.kernel = {5, 5}, .pads = {2, 2, 2, 2}, .bias = true})}));
  w.result(w.op("Tanh", {w.conv(x, 1, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}, .bias = true})}));
  const ir::Graph after = enlarged(w.graph(), 3);
  EXPECT_EQ(ops_called(after, "Pad"), 2);
  EXPECT_EQ(ops_called(after, "Slice"), 3);
  const ir::Op& conv = only_convolution(after);
  EXPECT_EQ(list_of(conv, "pads"), (ir::Dims{2, 2, 2, 2}));
  EXPECT_EQ(after.value(conv.inputs[1]).dims, (ir::Dims{6, 4, 5, 5}));
}

// Neither has all taps of the other.
TEST(EnlargedKernels, ARowAndAColumnAreASquare) {
  Branches w;
  const ValueId x = w.image();
  w.result(w.op("Tanh", {w.conv(x, 3, {.kernel = {1, 3}, .pads = {0, 1, 0, 1}})}));
  w.result(w.op("Tanh", {w.conv(x, 3, {.kernel = {3, 1}, .pads = {1, 0, 1, 0}})}));
  const ir::Graph after = enlarged(w.graph(), 2);
  EXPECT_EQ(ops_called(after, "Pad"), 2);
  EXPECT_EQ(after.value(only_convolution(after).inputs[1]).dims, (ir::Dims{6, 4, 3, 3}));
}

// Zeros come where the taps of the larger one are that the smaller one does not have: here behind
// it, and in steps of the dilation.
TEST(EnlargedKernels, TapsAreWhereTheyWere) {
  Branches w;
  const ValueId x = w.image();
  w.result(
      w.op("Tanh", {w.conv(x, 3, {.kernel = {1, 2}, .pads = {0, 2, 0, 0}, .dilations = {1, 2}})}));
  w.result(
      w.op("Tanh", {w.conv(x, 3, {.kernel = {1, 3}, .pads = {0, 2, 0, 2}, .dilations = {1, 2}})}));
  const ir::Graph after = enlarged(w.graph(), 2);
  ASSERT_EQ(ops_called(after, "Pad"), 1);
  for (ir::OpId id : after.ops())
    if (after.op(id).kind == "Pad") {
      EXPECT_EQ(list_of(after.op(id), "begins"), (ir::Dims{0, 0, 0, 0}));
      EXPECT_EQ(list_of(after.op(id), "ends"), (ir::Dims{0, 0, 0, 1}));
    }
}

// A dilation says nothing of a kernel of one tap.
TEST(EnlargedKernels, OneTapHasAnyDilation) {
  Branches w;
  const ValueId x = w.image();
  w.result(w.op("Tanh", {w.conv(x, 3, {.kernel = {1, 1}, .dilations = {3, 3}})}));
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {1, 1}})}));
  EXPECT_EQ(ops_called(enlarged(w.graph(), 2), "Pad"), 0);
  w.result(
      w.op("Tanh", {w.conv(x, 2, {.kernel = {3, 3}, .pads = {2, 2, 2, 2}, .dilations = {2, 2}})}));
  const ir::Graph after = enlarged(w.graph(), 3);
  EXPECT_EQ(list_of(only_convolution(after), "dilations"), (ir::Dims{2, 2}));
}

// The slices of what is joined cancel the Concat that reads the branches.
TEST(EnlargedKernels, AnInceptionsConcatGoes) {
  Branches w;
  const ValueId x = w.image();
  const ValueId wide = w.conv(x, 2, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}});
  const ValueId narrow = w.conv(x, 3, {.kernel = {1, 1}});
  w.result(w.op("Tanh", {w.op("Concat", {narrow, wide}, {{"axis", int64_t{1}}})}));
  const auto after = apply_rules(enlarged(w.graph(), 2), slice_concat_rules());
  ASSERT_TRUE(after.has_value());
  expect_same_results(w.graph(), after->graph);
  EXPECT_EQ(ops_called(after->graph, "Slice"), 0);
  EXPECT_EQ(ops_called(after->graph, "Concat"), 1);  // of the weights
}

// Where the same places are read is decided here by sets of places, for each axis.
std::set<int64_t> places(int64_t kernel, int64_t pad, int64_t dilation) {
  std::set<int64_t> all;
  for (int64_t i = 0; i < kernel; ++i) all.insert(i * dilation - pad);
  return all;
}

// Whether some kernel without gaps but those of a dilation has these places, and both kernels are
// dilated so.
bool lie_on_one_grid(const std::set<int64_t>& a, const std::set<int64_t>& b) {
  const int64_t first = std::min(*a.begin(), *b.begin());
  for (int64_t step = 1; step <= 8; ++step) {
    bool fits = true;
    for (const auto* one : {&a, &b})
      for (auto at = one->begin(); at != one->end(); ++at) {
        fits = fits && (*at - first) % step == 0;
        fits = fits && (std::next(at) == one->end() || *std::next(at) - *at == step);
      }
    if (fits) return true;
  }
  return false;
}

Shape any_shape(Rng& rng, const Shape& like, size_t axes) {
  Shape shape = {.strides = like.strides,
                 .group = rng.below(12) == 0 ? 2 : 1,
                 .bias = rng.below(8) == 0 ? !like.bias : like.bias};
  for (size_t d = 0; d < axes; ++d) {
    shape.kernel.push_back(rng.between(1, 4));
    shape.dilations.push_back(rng.below(4) == 0 ? rng.between(1, 2) : like.dilations[d]);
  }
  shape.pads.resize(2 * axes);
  for (size_t d = 0; d < axes; ++d) {
    // The result as large as with one tap, or whatever comes.
    const int64_t reach = (shape.kernel[d] - 1) * shape.dilations[d];
    shape.pads[d] = rng.between(0, 4);
    shape.pads[axes + d] = rng.between(0, 4);
    if (rng.below(6) == 0) continue;
    shape.pads[d] = rng.between(0, reach);
    shape.pads[axes + d] = reach - shape.pads[d];
  }
  return shape;
}

bool can_be_joined(const ir::Graph& graph, ValueId p, ValueId q, const Shape& a, const Shape& b) {
  const ir::Dims &of_p = graph.value(p).dims, &of_q = graph.value(q).dims;
  bool can = a.group == 1 && b.group == 1 && a.bias == b.bias &&
             std::equal(of_p.begin() + 2, of_p.end(), of_q.begin() + 2, of_q.end());
  for (size_t d = 0; d < a.kernel.size(); ++d)
    can = can && lie_on_one_grid(places(a.kernel[d], a.pads[d], a.dilations[d]),
                                 places(b.kernel[d], b.pads[d], b.dilations[d]));
  return can;
}

TEST(EnlargedKernels, AreJoinedWhereTheyCanBeAndComputeTheSame) {
  int joined = 0, apart = 0, padded = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Branches w;
    const size_t axes = rng.below(3) == 0 ? 1 : 2;
    ir::Dims dims = {2, 4};
    Shape first = {.bias = rng.below(2) == 0};
    for (size_t d = 0; d < axes; ++d) {
      dims.emplace_back(rng.between(10, 14));
      first.dilations.push_back(rng.between(1, 3));
      first.strides.push_back(rng.between(1, 3));
    }
    first = any_shape(rng, first, axes);
    first.group = 1;
    const Shape second = any_shape(rng, first, axes);
    const ValueId x = w.given("x", dims);
    const ValueId p = w.conv(x, 2, first), q = w.conv(x, 4, second);
    w.result(w.op("Tanh", {p}));
    w.result(w.op("Tanh", {q}));
    const bool equal = first.kernel == second.kernel && first.pads == second.pads &&
                       first.dilations == second.dilations;
    const bool can = !equal && can_be_joined(w.graph(), p, q, first, second);
    const ir::Graph after = enlarged(w.graph(), can ? 2 : 0);
    ASSERT_EQ(ops_called(after, "Conv"), can ? 1 : 2);
    (can ? joined : apart) += 1;
    padded += ops_called(after, "Pad") > 0;
  }
  EXPECT_GT(joined, 100);
  EXPECT_GT(apart, 150);
  EXPECT_GT(padded, 100);
}

// ---- conditions ----

TEST(EnlargedKernels, WhatDiffersInMoreStays) {
  Branches w;
  const ValueId x = w.given("x", {2, 4, 9, 9});
  const auto conv = [&](ValueId v, const Shape& shape) {
    w.result(w.op("Tanh", {w.conv(v, 2, shape)}));
  };
  conv(x, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}});
  conv(x, {.kernel = {1, 1}, .bias = true});
  conv(x, {.kernel = {1, 1}, .pads = {1, 1, 0, 0}, .strides = {2, 2}});
  conv(x, {.kernel = {1, 1}, .group = 2});
  conv(x, {.kernel = {2, 2}});  // a smaller result
  conv(w.op("Tanh", {x}), {.kernel = {1, 1}});
  enlarged(w.graph(), 0);
}

// Those of equal kernels are somebody else's: shared_operand.h.
TEST(EnlargedKernels, EqualKernelsAloneStay) {
  Branches w;
  const ValueId x = w.image();
  w.result(w.op("Tanh", {w.conv(x, 3, {.kernel = {1, 1}})}));
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {1, 1}})}));
  enlarged(w.graph(), 0);
}

// The 3x3's kernel is made of the result of the 1x1.
TEST(EnlargedKernels, NoCycleArises) {
  Branches w;
  const ValueId x = w.given("x", {1, 1, 3, 3});
  const ValueId first = w.conv(x, 1, {.kernel = {1, 1}});
  const ir::Attrs same = {{"pads", ir::Dims{1, 1, 1, 1}}};
  w.result(w.op("Conv", {x, w.op("Tanh", {first})}, same));
  w.result(w.op("Exp", {w.conv(x, 1, {.kernel = {3, 1}, .pads = {1, 0, 1, 0}})}));
  EXPECT_EQ(ops_called(enlarged(w.graph(), 2), "Conv"), 2);
}

TEST(EnlargedKernels, NothingIsDoneThatTakesLonger) {
  Branches w;
  const ValueId x = w.image();
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {1, 1}})}));
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}})}));
  // Of 8 + 72 weights it makes 144, for one start less.
  enlarged(w.graph(), 0, by_weights(1.0 / 64));
  enlarged(w.graph(), 2, by_weights(1.0 / 72));
}

// A 5x5 as a neighbour is too much; the other two are worth it.
TEST(EnlargedKernels, TheSetThatGainsMostIsTaken) {
  Branches w;
  const ValueId x = w.image();
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {5, 5}, .pads = {2, 2, 2, 2}})}));
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {1, 1}})}));
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}})}));
  const ir::Graph after = enlarged(w.graph(), 2, by_weights(1.0 / 100));
  EXPECT_EQ(ops_called(after, "Conv"), 2);
  ASSERT_EQ(ops_called(after, "Pad"), 1);
  EXPECT_EQ(ops_called(enlarged(w.graph(), 3, by_weights(1.0 / 1000)), "Conv"), 1);
}

// Two of 1x1 are joined by themselves for less than with a 3x3, though this, too, is less than all
// three apart.
TEST(EnlargedKernels, EqualKernelsComeFirst) {
  const double seconds = 1.0 / 100;
  Branches w;
  const ValueId x = w.image();
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {1, 1}})}));
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {1, 1}})}));
  w.result(w.op("Tanh", {w.conv(x, 2, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}})}));
  // Apart 3 starts and 88 weights, together 1 and 216; with the two of 1x1 as one 2 and 88.
  EXPECT_LT(1 + 216 * seconds, 3 + 88 * seconds);
  enlarged(w.graph(), 0, by_weights(seconds));
  enlarged(w.graph(), 3, by_weights(1.0 / 150));
}

TEST(EnlargedKernels, ErrorsOfThePriceAreHandedOn) {
  Branches w;
  const ValueId x = w.image();
  w.result(w.conv(x, 2, {.kernel = {1, 1}}));
  w.result(w.conv(x, 2, {.kernel = {3, 3}, .pads = {1, 1, 1, 1}}));
  const auto report = enlarge_kernels(w.graph(), [](const plan::OpDesc& op) -> Result<double> {
    return error(ErrorCode::kInput, "no price for " + op.kind);
  });
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().message, "no price for Conv");
}

}  // namespace
}  // namespace lowtide::rewrite
