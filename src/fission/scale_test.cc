// Labels judged without a graph in parts: what parts take, the scaled problem of one part, and its
// schedule unfolded. How near the estimates are to real plans: tests/split_test.cc.
#include "fission/scale.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "fission/part_seconds.h"
#include "fission/passes.h"
#include "fission/testing/net.h"
#include "fission/unfold.h"
#include "ops/op_table.h"

namespace lowtide::fission {
namespace {

using ir::OpId;
using ir::ValueId;
using plan::SchedOpId;

int64_t elements(const plan::TensorDesc& tensor) {
  int64_t product = 1;
  for (const int64_t dim : tensor.dims) product *= dim;
  return product;
}

// ---- seconds

TEST(PartSeconds, AreThoseOfAllPartsAtTheirShapes) {
  Net net;
  const ValueId x = net.given({8, 6});
  net.op("a", "Tanh", {x});
  net.op("same", "Tanh", {x});
  std::vector<int64_t> sizes;
  auto seconds = PartSeconds::make(net.graph, [&](const plan::OpDesc& op) -> Result<double> {
    sizes.push_back(elements(op.outputs[0]));
    return 1 + static_cast<double>(sizes.back());
  });
  ASSERT_TRUE(seconds.has_value());
  const Cut cut{0, {0, 3, 6, 8}};
  EXPECT_EQ(seconds->of(OpId(0), nullptr).value(), 49);
  EXPECT_EQ(seconds->of(OpId(0), &cut).value(), 48 + 3);
  EXPECT_EQ(seconds->of(OpId(1), &cut).value(), 48 + 3);
  EXPECT_EQ(sizes, (std::vector<int64_t>{48, 18, 18, 12}));  // equal ops are priced once
}

TEST(PartSeconds, OfAllOpsAreThoseOfEachWhoeverAsksFirst) {
  Net net;
  ValueId x = net.given({64, 6});
  for (int k = 0; k < 6; ++k)
    x = net.op("op" + std::to_string(k), k % 2 == 0 ? "Tanh" : "Exp", {x});
  std::atomic<int> priced = 0;
  auto seconds = PartSeconds::make(net.graph, [&](const plan::OpDesc& op) -> Result<double> {
    ++priced;
    return 1 + static_cast<double>(elements(op.outputs[0]));
  });
  ASSERT_TRUE(seconds.has_value());
  std::vector<Cuts> all(8, Cuts(net.graph.op_count()));
  for (size_t k = 1; k < all.size(); ++k)
    for (const OpId op : net.graph.ops())
      if (op.index() != k % 6) all[k][op] = Cut{0, {0, static_cast<int64_t>(k), 64}};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < all.size(); ++k) {
        const Cuts& cuts = all[(k + 2 * t) % all.size()];
        const auto found = seconds->all(cuts);
        ASSERT_TRUE(found.has_value());
        for (const OpId op : net.graph.ops()) EXPECT_EQ((*found)[op], 64 * 6 + (cuts[op] ? 2 : 1));
      }
    });
  for (std::thread& thread : threads) thread.join();
  const int before = priced;
  for (const Cuts& cuts : all)
    for (const OpId op : net.graph.ops())
      EXPECT_EQ(seconds->of(op, cuts[op] ? &*cuts[op] : nullptr), (*seconds->all(cuts))[op]);
  EXPECT_EQ(priced, before);
}

TEST(PartSeconds, OfSumsHaveWhatTheyAddInto) {
  Net net;
  net.op("product", "MatMul", {net.given({4, 8}), net.given({8, 6})});
  const ir::Attrs rows = {{"axes", ir::Dims{0}}, {"keepdims", int64_t{0}}};
  net.op("largest", "ReduceMax", {net.given({8, 6})}, rows);
  net.op("mean", "ReduceMean", {net.given({8, 6})}, rows);
  std::vector<std::string> priced;
  auto seconds = PartSeconds::make(net.graph, [&](const plan::OpDesc& op) -> Result<double> {
    int64_t present = 0;
    for (const auto& input : op.inputs) present += input.has_value();
    priced.push_back(op.kind + std::to_string(present));
    return 1;
  });
  ASSERT_TRUE(seconds.has_value());
  const auto cut_along = [&](OpId op, const std::string& name) {
    const auto map = ops::axis_map(ops::instance_of(net.graph, op)).value();
    for (size_t a = 0; a < map.axes.size(); ++a)
      if (map.axes[a].extent.constant() == 8) return Cut{static_cast<int>(a), {0, 4, 8}};
    ADD_FAILURE() << name;
    return Cut{};
  };
  const Cut of_product = cut_along(OpId(0), "k"), of_largest = cut_along(OpId(1), "rows");
  EXPECT_EQ(seconds->of(OpId(0), &of_product).value(), 2);
  EXPECT_EQ(priced, (std::vector<std::string>{"MatMul2", "MatMul3"}));
  priced.clear();
  EXPECT_EQ(seconds->of(OpId(1), &of_largest).value(), 3);  // a merge of both parts
  EXPECT_EQ(priced.size(), 3U);
  priced.clear();
  const Cut of_mean = cut_along(OpId(2), "rows");
  EXPECT_EQ(seconds->of(OpId(2), &of_mean).value(), 5);  // each part is weighed
  std::sort(priced.begin(), priced.end());
  EXPECT_EQ(priced, (std::vector<std::string>{"Add2", "AffineScalar1", "AffineScalar1",
                                              "ReduceMean1", "ReduceMean1"}));
  auto failed = PartSeconds::make(net.graph, [](const plan::OpDesc&) -> Result<double> {
    return error(ErrorCode::kInput, "no price");
  });
  EXPECT_FALSE(failed->of(OpId(0), nullptr).has_value());
  EXPECT_FALSE(failed->of(OpId(0), nullptr).has_value());  // nothing is remembered of it
}

// ---- a step

//     x -> a -> wide -> small -> of_wide -> end        (end reads a, of_wide reads wide)
//          weight <- small, a
struct SumStep : Net {
  SumStep() {
    const ValueId x = op("x", "Tanh", {given({64, 4})});
    const ValueId a = op("a", "Tanh", {x});
    const ValueId wide = op("wide", "MatMul", {a, given({4, 100})});
    const ValueId small = op("small", "MatMul", {wide, given({100, 4})});
    const ValueId of_wide = op("of_wide", "MatMul", {small, given({4, 100})});
    const ValueId both = op("both", "Mul", {of_wide, wide});
    const ValueId back = op("back", "MatMul", {both, given({100, 4})});
    graph.set_output(op("end", "Add", {back, x}), true);
    graph.set_output(
        op("weight", "MatMul", {op("turned", "Transpose", {a}, {{"perm", ir::Dims{1, 0}}}), both}),
        true);
  }
};

class Scaled4 : public testing::Test {
 protected:
  Scaled made(const Labels& labels) {
    const AxisClass axis_class = step_.largest();
    const auto levels = levels_of(step_.graph, axis_class, labels).value();
    const Cuts cuts = cuts_of(step_.graph, axis_class, levels);
    const IdVector<OpId, double> seconds(step_.graph.op_count(), 2);
    const auto scale = Scale::make(step_.graph, view_, axis_class, 1).value();
    Scaled scaled = scale.problem(levels, cuts, seconds);
    EXPECT_TRUE(plan::check(scaled.problem).has_value())
        << plan::check(scaled.problem).error().message;
    return scaled;
  }
  // What is there while an op runs, of given values, without a problem.
  int64_t bytes_at(const Labels& labels, SchedOpId op,
                   const std::vector<plan::SchedValueId>& values) {
    const AxisClass axis_class = step_.largest();
    const auto levels = levels_of(step_.graph, axis_class, labels).value();
    const Cuts cuts = cuts_of(step_.graph, axis_class, levels);
    const auto scale = Scale::make(step_.graph, view_, axis_class, 1).value();
    return scale.bytes_at(op, values, levels, levels_as_cut(levels, cuts), cuts);
  }
  int64_t bytes(const plan::ScheduleProblem& problem, const std::string& producer) const {
    for (const plan::SchedValue& value : problem.values)
      if (problem.ops[value.producer].name == producer) return value.bytes;
    ADD_FAILURE() << producer;
    return -1;
  }
  const SumStep step_;
  const analysis::ScheduleView view_ = step_.view();
};

TEST_F(Scaled4, WholeIsTheProblemItself) {
  const Scaled scaled = made({});
  plan::ScheduleProblem expected = view_.problem;
  for (plan::SchedOp& op : expected.ops) op.seconds = 2;
  EXPECT_EQ(scaled.problem, expected);
}

TEST_F(Scaled4, ValuesHaveThePartsThatAllWhoUseThemShare) {
  const Scaled scaled = made({2, {{"a", 4}}});
  const plan::ScheduleProblem& p = scaled.problem;
  EXPECT_EQ(bytes(p, "x"), 64 * 4 * 4 / 2);  // read by `end`, around the level
  EXPECT_EQ(bytes(p, "a"), 64 * 4 * 4 / 2);  // the head is around it, too
  EXPECT_EQ(bytes(p, "wide"), 64 * 100 * 4 / 4);
  // What is added up, and pieces that are handed out, are resident in a level around everything.
  EXPECT_EQ(bytes(p, "weight"), 0);
  EXPECT_EQ(bytes(p, "end"), 0);
  EXPECT_EQ(p.resident_bytes, view_.problem.resident_bytes + 4 * 100 * 4 + 64 * 4 * 4);
  EXPECT_EQ(bytes(p, "back"), 64 * 4 * 4 / 2);  // handed out by the level behind `a`
  EXPECT_EQ(p.ops.size(), view_.problem.ops.size() + 1);
}

// What a transfer stands for: a piece moves in each part of its level, a head's result in each of
// those that read it, what nobody cuts once.
TEST_F(Scaled4, ATransferStandsForThoseOfAllParts) {
  const auto moved_parts = [](const plan::ScheduleProblem& p, const std::string& producer) {
    for (const plan::SchedValue& value : p.values)
      if (p.ops[value.producer].name == producer) return value.moved_parts;
    return int64_t{-1};
  };
  const plan::ScheduleProblem in_two = made({2, {{"a", 4}}}).problem;
  EXPECT_EQ(moved_parts(in_two, "x"), 2);
  EXPECT_EQ(moved_parts(in_two, "wide"), 4);
  EXPECT_EQ(moved_parts(in_two, "a"), 4);
  const plan::ScheduleProblem deeper = made({1, {{"a", 4}}}).problem;
  EXPECT_EQ(moved_parts(deeper, "x"), 1);
  EXPECT_EQ(moved_parts(deeper, "a"), 4);
  EXPECT_EQ(moved_parts(deeper, "both"), 4);
  EXPECT_EQ(moved_parts(deeper, "weight"), 4);  // each part adds to it
  for (const plan::SchedValue& value : made({}).problem.values) EXPECT_EQ(value.moved_parts, 1);
}

TEST_F(Scaled4, BytesAtAnOpAreThoseOfTheProblem) {
  // Outside of all levels but the one around everything, where sums and results are resident.
  const auto first = SchedOpId(0);
  ASSERT_EQ(view_.problem.ops[first].name, "x");
  for (const Labels& labels : {Labels{}, Labels{2, {}}, Labels{2, {{"a", 4}}}}) {
    const plan::ScheduleProblem p = made(labels).problem;
    const int64_t resident = p.resident_bytes - view_.problem.resident_bytes;
    EXPECT_EQ(bytes_at(labels, first, {}), resident) << print(labels);
    for (const plan::SchedValueId v : view_.problem.values.ids())
      EXPECT_EQ(bytes_at(labels, first, {v}), resident + p.values[v].bytes) << print(labels);
    const plan::SchedValueId none(view_.problem.values.size());
    EXPECT_EQ(bytes_at(labels, first, {none}), resident);
  }
  // Within a level: what its head makes, a sum and what is handed out, each once.
  const Labels deeper{1, {{"a", 4}}};
  const plan::ScheduleProblem p = made(deeper).problem;
  for (const SchedOpId op : view_.problem.ops.ids()) {
    if (view_.problem.ops[op].name != "small") continue;
    const int64_t around = bytes(p, "a") + 4 * 100 * 4 + 64 * 4 * 4;
    EXPECT_EQ(bytes_at(deeper, op, {}), around);
    for (const plan::SchedValueId v : view_.problem.values.ids())
      if (p.ops[p.values[v].producer].name == "a") {
        EXPECT_EQ(bytes_at(deeper, op, {v}), around);
      }
  }
}

TEST_F(Scaled4, SumsOfADeeperLevelBeginBeforeIt) {
  const Scaled scaled = made({1, {{"a", 4}}});
  const plan::ScheduleProblem& p = scaled.problem;
  EXPECT_EQ(p.resident_bytes, view_.problem.resident_bytes);
  ASSERT_EQ(p.ops.size(), view_.problem.ops.size() + 1);
  SchedOpId begin;
  for (const SchedOpId op : p.ops.ids()) {
    if (!scaled.op[op].valid()) begin = op;
    if (scaled.op[op].valid()) {
      EXPECT_EQ(p.ops[op].name, view_.problem.ops[scaled.op[op]].name);
    }
  }
  ASSERT_TRUE(begin.valid());
  EXPECT_FALSE(p.ops[begin].may_rerun);
  std::vector<std::pair<std::string, int64_t>> spaces;  // for whom, and how large
  for (const plan::SchedValue& value : p.values) {
    if (value.producer != begin) continue;
    ASSERT_EQ(value.readers.size(), 1U);
    spaces.emplace_back(p.ops[value.readers[0]].name, value.bytes);
  }
  using Spaces = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(spaces, (Spaces{{"back", 64 * 4 * 4}, {"weight", 4 * 100 * 4}}));
  int taken = 0, waiting = 0;
  for (const plan::InPlacePair& pair : p.in_place) taken += p.values[pair.input].producer == begin;
  for (const auto& [first, second] : p.control) waiting += first == begin;
  EXPECT_EQ(taken, 2);
  EXPECT_GE(waiting, 5);
  // The head is there until the level ends, and is not made anew.
  for (const plan::SchedValue& value : p.values)
    if (p.ops[value.producer].name == "a") {
      EXPECT_FALSE(p.ops[value.producer].may_rerun);
      EXPECT_EQ(p.ops[value.readers.back()].name, "weight");
    }
}

TEST_F(Scaled4, TheLeastPartOfTheLargestProductHoldsForAllLabels) {
  // Every element alone, along the two axes of a product.
  const auto parts = least_parts(step_.graph);
  ASSERT_TRUE(parts.has_value()) << parts.error().message;
  const auto largest =
      std::max_element(parts->begin(), parts->end(),
                       [](const auto& a, const auto& b) { return a.bytes() < b.bytes(); });
  EXPECT_EQ(largest->bytes(), 4);
  const auto wide = std::find_if(parts->begin(), parts->end(), [&](const LeastPart& part) {
    return step_.graph.op(part.op).name == "wide";
  });
  ASSERT_NE(wide, parts->end());
  EXPECT_EQ(wide->parts, 64 * 100);
}

// ---- passes

AxisClass class_of(const ir::Graph& graph, int64_t extent) {
  const std::vector<AxisClass> all = axis_classes(graph).value();
  for (const AxisClass& one : all)
    if (one.least_extent == extent) return one;
  ADD_FAILURE() << "no class of extent " << extent;
  return {};
}

//     a -> mean -> variance -> norm -> end      (variance and norm read a, norm reads mean)
struct NormStep : Net {
  NormStep() {
    const ValueId a = op("a", "Tanh", {given({8, 6})});
    const ir::Attrs count = {{"count", int64_t{8}}};
    const ValueId mean = op("mean", "BatchMean", {a}, count);
    const ValueId variance = op("variance", "BatchVariance", {a, mean}, count);
    const ValueId norm = op("norm", "BatchNormInference",
                            {a, given({6}), given({6}), mean, variance}, {{"epsilon", 1e-3}});
    graph.set_output(op("end", "Exp", {norm}), true);
  }
  AxisClass samples() const { return class_of(graph, 8); }
};

TEST(Passes, BeginWhereAllPartsAreNeeded) {
  const NormStep step;
  const AxisClass samples = step.samples();
  ASSERT_EQ(samples.axes.size(), 5U);
  const Passes passes = passes_of(step.graph, samples).value();
  EXPECT_EQ(passes.count, 3);
  const auto of = [&](size_t op) { return passes.of[OpId(op)]; };
  EXPECT_EQ((std::vector{of(0), of(1), of(2), of(3), of(4)}), (std::vector{0, 0, 1, 2, 2}));
  EXPECT_EQ(passes.waits_for[OpId(2)], (std::vector{OpId(1)}));
  EXPECT_EQ(passes.waits_for[OpId(3)], (std::vector{OpId(1), OpId(2)}));
  EXPECT_TRUE(passes.waits_for[OpId(4)].empty());
  EXPECT_EQ(awaited_of(step.graph, samples, axis_maps(step.graph).value()),
            (std::set{OpId(1), OpId(2)}));
}

TEST(Passes, AreOneWhereNothingWaits) {
  const SumStep step;
  EXPECT_TRUE(awaited_of(step.graph, step.largest(), axis_maps(step.graph).value()).empty());
  EXPECT_EQ(passes_of(step.graph, step.largest())->count, 1);  // sums are only handed out
}

// What adds into a sum does not wait for it.
TEST(Passes, GoThroughViewsAndOpsOutsideButNotThroughAccumulators) {
  Net net;
  const ValueId x = net.given({8, 6}), w = net.given({8, 5});
  const ir::Attrs turned = {{"trans_a", int64_t{1}}};
  const ValueId sum = net.op("sum", "MatMul", {x, w}, turned);
  const ValueId more = net.op("more", "MatMul", {x, w, ValueId::none(), sum}, turned);
  const ValueId flat = net.op("flat", "Reshape", {more}, {{"shape", ir::Dims{30}}});
  const ValueId outside = net.op("outside", "Exp", {flat});
  const ValueId back = net.op("back", "Reshape", {outside}, {{"shape", ir::Dims{6, 5}}});
  net.graph.set_output(net.op("last", "MatMul", {x, back}), true);
  const AxisClass samples = class_of(net.graph, 8);
  ASSERT_EQ(samples.axes.size(), 3U);
  const Passes passes = passes_of(net.graph, samples).value();
  EXPECT_EQ(passes.count, 2);
  EXPECT_EQ(passes.of[OpId(1)], 0);
  EXPECT_TRUE(passes.waits_for[OpId(1)].empty());
  EXPECT_EQ(passes.of[OpId(5)], 1);
  EXPECT_EQ(passes.waits_for[OpId(5)], (std::vector{OpId(1)}));
  EXPECT_EQ(awaited_of(net.graph, samples, axis_maps(net.graph).value()), std::set{OpId(1)});
}

// Rows of an image: a kernel of one row, or one that moves on by its own size, takes its part's
// rows alone; one of three rows needs those of other parts, too, so all of them are made first.
TEST(Passes, OfOverlappingWindowsWait) {
  for (const auto& [size, stride, waits] :
       {std::tuple{1, 1, false}, {2, 2, false}, {3, 1, true}, {3, 2, true}}) {
    SCOPED_TRACE(testing::Message() << size << " rows by " << stride);
    Net net;
    const ValueId a = net.op("a", "Tanh", {net.given({1, 4, 16, 1})});
    const int64_t pad = size == 3 ? 1 : 0;
    const ValueId conv =
        net.op("conv", "Conv", {a, net.given({4, 4, size, 1})},
               {{"strides", ir::Dims{stride, 1}}, {"pads", ir::Dims{pad, 0, pad, 0}}});
    net.graph.set_output(net.op("end", "Exp", {conv}), true);
    const AxisClass rows = class_of(net.graph, 16 / stride);
    ASSERT_EQ(rows.axes.size(), 3U);
    EXPECT_EQ(passes_of(net.graph, rows)->count, waits ? 2 : 1);
  }
}

TEST(Passes, KeepWholeWhatALaterOneReads) {
  const NormStep step;
  const auto view = step.view();
  const AxisClass samples = step.samples();
  const auto levels = levels_of(step.graph, samples, {4}).value();
  const auto scale = Scale::make(step.graph, view, samples, 1).value();
  const IdVector<OpId, double> seconds(step.graph.op_count(), 1);
  const Scaled scaled = scale.problem(levels, cuts_of(step.graph, samples, levels), seconds);
  const plan::ScheduleProblem& p = scaled.problem;
  ASSERT_TRUE(plan::check(p).has_value()) << plan::check(p).error().message;
  const auto bytes = [&](const std::string& producer) {
    for (const plan::SchedValue& value : p.values)
      if (p.ops[value.producer].name == producer) return value.bytes;
    return int64_t{-1};
  };
  EXPECT_EQ(bytes("a"), 8 * 6 * 4);
  EXPECT_EQ(bytes("norm"), 8 * 6 * 4 / 4);
  EXPECT_EQ(bytes("mean"), 6 * 4);
  EXPECT_EQ(bytes("end"), 8 * 6 * 4);
  EXPECT_EQ(p.resident_bytes, view.problem.resident_bytes);
  EXPECT_EQ(p.ops.size(), view.problem.ops.size() + 3);  // each pass begins what it adds up
  const auto waits = scale.waits_for();
  EXPECT_EQ(waits[SchedOpId(3)], (std::vector{SchedOpId(1), SchedOpId(2)}));
}

// ---- unfolding

struct Unfolding : testing::Test {
  Unfolding() {
    for (int i = 0; i < 5; ++i) problem.ops.push_back({.name = std::to_string(i)});
    const auto value = [&](size_t producer, std::vector<size_t> readers) {
      plan::SchedValue made;
      made.producer = SchedOpId(producer);
      for (const size_t reader : readers) made.readers.push_back(SchedOpId(reader));
      problem.values.push_back(made);
    };
    value(0, {1, 2});  // 1 makes something for 2; 3 reads what 2 makes
    value(1, {2});
    value(2, {3, 4});
    levels.levels.push_back({.parts = 2});
    levels.levels.push_back({.parent = 0, .parts = 6});
    level_of = IdVector<SchedOpId, int>(5, 0);
  }
  std::string unfolded(std::vector<size_t> ops) {
    std::vector<SchedOpId> runs;
    for (const size_t op : ops) runs.push_back(SchedOpId(op));
    std::string text;
    for (const PartRun& run : unfold(problem, levels, level_of, runs, waits_for))
      text += std::to_string(run.op.index()) + "." + std::to_string(run.part) + " ";
    return text;
  }
  plan::ScheduleProblem problem;
  Levels levels;
  IdVector<SchedOpId, int> level_of;
  IdVector<SchedOpId, std::vector<SchedOpId>> waits_for;
};

TEST_F(Unfolding, RunsEachLevelOncePerPart) {
  level_of[SchedOpId(4)] = Levels::kOutside;
  level_of[SchedOpId(2)] = 1;
  EXPECT_EQ(unfolded({0, 1, 2, 3, 4}), "0.0 1.0 2.0 2.1 2.2 3.0 0.1 1.1 2.3 2.4 2.5 3.1 4.0 ");
}

TEST_F(Unfolding, WhatRunsBetweenRunsWithTheFirstOrTheLastPart) {
  level_of[SchedOpId(0)] = level_of[SchedOpId(2)] = level_of[SchedOpId(3)] = 1;
  level_of[SchedOpId(4)] = Levels::kOutside;
  levels.levels[0].parts = 1;
  levels.levels[1].parts = 2;
  // 1 makes something for 2; 4 makes nothing for 3.
  EXPECT_EQ(unfolded({0, 1, 2, 4, 3}), "0.0 1.0 2.0 3.0 0.1 2.1 4.0 3.1 ");
}

// 2 needs both parts of 1 and makes what both of 3 read.
TEST_F(Unfolding, ALoopEndsWhereItsPartsHandNothingOn) {
  level_of[SchedOpId(1)] = level_of[SchedOpId(3)] = 1;
  level_of[SchedOpId(4)] = Levels::kOutside;
  levels.levels[0].parts = 1;
  levels.levels[1].parts = 2;
  EXPECT_EQ(unfolded({0, 1, 2, 3, 4}), "0.0 1.0 1.1 2.0 3.0 3.1 4.0 ");
}

TEST_F(Unfolding, ARunAgainIsOneInEachPart) {
  EXPECT_EQ(unfolded({0, 1, 0, 2}), "0.0 1.0 0.0 2.0 0.1 1.1 0.1 2.1 ");
}

// 2 waits for all of 1; 0 runs again behind it, in its part.
TEST_F(Unfolding, ALoopEndsBeforeWhatWaitsForAllOfIt) {
  waits_for = IdVector<SchedOpId, std::vector<SchedOpId>>(5);
  waits_for[SchedOpId(2)] = {SchedOpId(1)};
  EXPECT_EQ(unfolded({0, 1, 0, 2, 3}), "0.0 1.0 0.0 0.1 1.1 0.1 2.0 3.0 2.1 3.1 ");
  EXPECT_EQ(unfolded({0, 1}), "0.0 1.0 0.1 1.1 ");
}

TEST_F(Unfolding, OfLevelsThatMixIsNothing) {
  levels.levels.push_back({.parent = 0, .parts = 4});
  level_of[SchedOpId(0)] = level_of[SchedOpId(2)] = 1;
  level_of[SchedOpId(1)] = 2;
  EXPECT_EQ(unfolded({0, 1, 2}), "");
  EXPECT_NE(unfolded({0, 2, 1}), "");
}

}  // namespace
}  // namespace lowtide::fission
