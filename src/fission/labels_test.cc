// Labels: their text, dominators against the definition, regions of a training step, and where the
// parts of nested levels begin.
#include "fission/labels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "fission/class_ends.h"
#include "fission/testing/net.h"

namespace lowtide::fission {
namespace {

using ir::OpId;
using ir::ValueId;

std::vector<std::string> names(const ir::Graph& graph, const std::vector<OpId>& ops) {
  std::vector<std::string> all;
  for (const OpId id : ops) all.push_back(graph.op(id).name);
  return all;
}

TEST(Labels, TextIsReadAsItIsPrinted) {
  for (const std::string text : {"auto", "1", "4", "2,norm:8", "1,block7:2,norm:8", "2,a,b:c:8",
                                 "2,a:b,c:4,d:8", "3,x:1:2:6"}) {
    const auto labels = parse_labels(text);
    ASSERT_TRUE(labels.has_value()) << text;
    EXPECT_EQ(print(*labels), text);
  }
  EXPECT_EQ(parse_labels("2,a:b,c:4,d:8")->nests, (std::vector<Nest>{{"a:b,c", 4}, {"d", 8}}));
  EXPECT_TRUE(parse_labels("1")->whole());
  for (const std::string text : {"", "0", "-1", "x", "2,", "2,norm", "2,norm:", "2,norm:0", "2,:8",
                                 "2,norm:x", "2 ", "2,norm:8,"}) {
    const auto labels = parse_labels(text);
    ASSERT_FALSE(labels.has_value()) << text;
    EXPECT_EQ(labels.error().code, ErrorCode::kUsage);
    EXPECT_NE(labels.error().message.find("'" + text + "'"), std::string::npos);
  }
}

// One op dominates another if no way from an op without predecessors to it avoids the one.
TEST(Labels, DominatorsAreThoseOfTheDefinition) {
  int dominated = 0, roots = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    Net net;
    std::vector<ValueId> values = {net.given({4, 8})};
    for (int k = 0; k < 12; ++k) {
      const auto any = [&] { return values[static_cast<size_t>(rng.below(values.size()))]; };
      values.push_back(rng.below(3) == 0 ? net.op("op" + std::to_string(k), "Tanh", {any()})
                                         : net.op("op" + std::to_string(k), "Add", {any(), any()}));
    }
    const AxisClass axis_class = net.largest();
    const auto parents = immediate_dominators(net.graph, axis_class);
    const auto reached_without = [&](OpId avoided) {
      std::set<OpId> reached;
      for (const OpId id : net.graph.ops()) {
        if (id == avoided) continue;
        bool is_source = true, is_reached = false;
        for (const ValueId input : net.graph.op(id).inputs) {
          const OpId maker = net.graph.value(input).producer;
          is_source &= !maker.valid();
          is_reached |= reached.contains(maker);
        }
        if (is_source || is_reached) reached.insert(id);
      }
      return reached;
    };
    for (const OpId one : net.graph.ops()) {
      const std::set<OpId> reached = reached_without(one);
      for (const OpId other : net.graph.ops()) {
        if (one == other) continue;
        bool is_above = false;
        for (OpId at = parents[other]; at.valid(); at = parents[at]) is_above |= at == one;
        EXPECT_EQ(is_above, !reached.contains(other));
        dominated += is_above;
      }
      roots += !parents[one].valid();
    }
  }
  EXPECT_GT(dominated, 1000);
  EXPECT_GT(roots, 200);
}

// Two layers, a loss between, and the way back:  x, a, b, c, dc, db, da.
struct Step : Net {
  Step() {
    const ValueId x = op("x", "Tanh", {given({8, 6})});
    const ValueId a = op("a", "Tanh", {x}), b = op("b", "Exp", {a}), c = op("c", "Tanh", {b});
    const ValueId dc = op("dc", "Mul", {c, c}), db = op("db", "Mul", {dc, b});
    op("of_db", "Tanh", {db});  // what only the end of a region dominates
    graph.set_output(op("da", "Mul", {db, x}), true);
  }
};

TEST(Labels, RegionsAreWhatIsBehindAHead) {
  const Step step;
  const AxisClass axis_class = step.largest();
  const auto dominators = immediate_dominators(step.graph, axis_class);
  const auto behind = [&](size_t op) {
    return names(step.graph, region_of(step.graph, axis_class, dominators, OpId(op)));
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(behind(1), (Names{"b", "c", "dc", "db"}));  // `da` reads x, too
  EXPECT_EQ(behind(2), (Names{"c", "dc", "db"}));
  EXPECT_EQ(behind(3), (Names{"dc"}));  // `db` reads b
  EXPECT_EQ(behind(7), Names{});
}

TEST(Labels, LevelsLieInEachOther) {
  const Step step;
  const AxisClass axis_class = step.largest();
  const auto levels = levels_of(step.graph, axis_class, {2, {{"b", 8}, {"a", 4}}});
  ASSERT_TRUE(levels.has_value()) << levels.error().message;
  ASSERT_EQ(levels->levels.size(), 3U);
  EXPECT_EQ(levels->levels[1].parts, 4);
  EXPECT_EQ(levels->levels[2].parts, 8);
  EXPECT_EQ(levels->levels[2].parent, 1);
  EXPECT_EQ(levels->levels[0].ops, 4U);  // x, a, of_db, da
  EXPECT_EQ(levels->levels[1].ops, 1U);
  EXPECT_EQ(levels->levels[2].ops, 3U);
  EXPECT_EQ(levels->common(1, 2), 1);
  EXPECT_EQ(levels->common(2, 0), 0);
  EXPECT_EQ(levels->common(2, Levels::kOutside), Levels::kOutside);
  const Cuts cuts = cuts_of(step.graph, axis_class, *levels);
  using Bounds = std::vector<int64_t>;
  EXPECT_EQ(cuts[OpId(1)]->bounds, (Bounds{0, 4, 8}));
  EXPECT_EQ(cuts[OpId(2)]->bounds, (Bounds{0, 2, 4, 6, 8}));
  EXPECT_EQ(cuts[OpId(3)]->bounds, (Bounds{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Labels, ALevelWhoseOpsRunInOtherPartsIsIdle) {
  const Step step;
  const AxisClass axis_class = step.largest();
  const auto is_idle = [&](const Labels& labels) {
    const Levels levels = levels_of(step.graph, axis_class, labels).value();
    return has_idle_level(levels, levels_as_cut(levels, cuts_of(step.graph, axis_class, levels)));
  };
  EXPECT_FALSE(is_idle({.parts = 2}));
  EXPECT_FALSE(is_idle({2, {{"b", 8}, {"a", 4}}}));
  EXPECT_TRUE(is_idle({2, {{"a", 2}}}));  // those around it
  EXPECT_TRUE(is_idle({2, {{"b", 8}, {"a", 8}}}));
  EXPECT_TRUE(is_idle({2, {{"a", 4}, {"b", 1024}}}));  // more than any op has
}

TEST(Labels, OfLevelsThatAreNoneAreRefused) {
  const Step step;
  const AxisClass axis_class = step.largest();
  const auto message = [&](const Labels& labels) {
    const auto levels = levels_of(step.graph, axis_class, labels);
    EXPECT_FALSE(levels.has_value());
    return levels ? "" : levels.error().message;
  };
  EXPECT_EQ(message({2, {{"none", 4}}}), "--split: 'none' is no op that runs in parts");
  EXPECT_EQ(
      message({2, {{"of_db", 4}}}),
      "--split: every way to an op leads past 'of_db', so nothing is behind it that could run "
      "in 4 parts");
  EXPECT_EQ(message({2, {{"b", 3}}}),
            "--split: 3 parts behind 'b' are no multiple of the 2 around it");
  EXPECT_EQ(message({1, {{"a", 4}, {"b", 6}}}),
            "--split: 6 parts behind 'b' are no multiple of the 4 around it");
}

// Uneven parts; an op whose extent has not so many stays with those around; where extents are
// multiples, all are cut at the same samples.
TEST(Labels, PartsOfLevelsBeginWhereThoseAroundDo) {
  Net net;
  const ValueId x = net.given({7, 5, 4});
  const ValueId a = net.op("a", "Tanh", {x});
  const ValueId rows = net.op("rows", "Reshape", {a}, {{"shape", ir::Dims{35, 4}}});
  const ValueId b = net.op("b", "Tanh", {rows});
  net.graph.set_output(b, true);
  const AxisClass axis_class = net.largest();
  const auto bounds = [&](const Labels& labels, size_t op) {
    const auto levels = levels_of(net.graph, axis_class, labels);
    EXPECT_TRUE(levels.has_value()) << levels.error().message;
    const Cuts cuts = cuts_of(net.graph, axis_class, *levels);
    return cuts[OpId(op)] ? cuts[OpId(op)]->bounds.list() : std::vector<int64_t>{};
  };
  using Bounds = std::vector<int64_t>;
  EXPECT_EQ(bounds({2, {}}, 0), (Bounds{0, 4, 7}));
  EXPECT_EQ(bounds({2, {}}, 2), (Bounds{0, 20, 35}));
  EXPECT_EQ(bounds({2, {{"rows", 4}}}, 0), (Bounds{0, 4, 7}));
  EXPECT_EQ(bounds({2, {{"rows", 4}}}, 2), (Bounds{0, 10, 20, 28, 35}));
  EXPECT_EQ(bounds({1, {{"rows", 12}}}, 2).size(), 13U);
  EXPECT_EQ(bounds({1, {{"rows", 40}}}, 2), Bounds{});
  EXPECT_EQ(bounds({2, {{"rows", 40}}}, 2), (Bounds{0, 20, 35}));
}

// Sixteen parts of rows and of heads, and eight samples between them.
TEST(Labels, ALoopThatAnOpOfFewerPartsInterruptsIsBroken) {
  const auto is_broken = [](bool back_to_rows, int64_t parts) {
    Net net;
    const ValueId x = net.given({8, 2, 6});
    const ValueId tokens = net.op("tokens", "Tanh", {x});
    const ValueId rows = net.op("rows", "Reshape", {tokens}, {{"shape", ir::Dims{16, 6}}});
    const ValueId a = net.op("a", "Tanh", {rows});
    const ValueId samples = net.op("samples", "Reshape", {a}, {{"shape", ir::Dims{8, 2, 6}}});
    ValueId last = net.op("moved", "Transpose", {samples}, {{"perm", ir::Dims{0, 2, 1}}});
    if (back_to_rows) {
      last = net.op("heads", "Reshape", {last}, {{"shape", ir::Dims{48, 2}}});
      last = net.op("b", "Tanh", {last});
    }
    net.graph.set_output(last, true);
    const AxisClass axis_class = net.largest();
    const Levels levels = levels_of(net.graph, axis_class, {2, {{"rows", parts}}}).value();
    const auto as_cut = levels_as_cut(levels, cuts_of(net.graph, axis_class, levels));
    EXPECT_FALSE(has_idle_level(levels, as_cut));
    return has_broken_loop(net.graph, levels, as_cut);
  };
  EXPECT_FALSE(is_broken(true, 8));    // as many parts as samples
  EXPECT_FALSE(is_broken(false, 16));  // nothing of the level is behind them
  EXPECT_TRUE(is_broken(true, 16));
}

// The first half of the padded rows is nothing but zeros.
TEST(Labels, AnOpWithAPartOfNothingButPaddingStaysWhole) {
  Net net;
  const ValueId a = net.op("a", "Tanh", {net.given({4, 6})});
  const ValueId padded =
      net.op("padded", "Pad", {a}, {{"begins", ir::Dims{4, 0}}, {"ends", ir::Dims{0, 0}}});
  net.graph.set_output(net.op("b", "Exp", {padded}), true);
  const AxisClass axis_class = net.largest();
  ASSERT_EQ(axis_class.axes.size(), 3U);
  const auto levels = levels_of(net.graph, axis_class, {.parts = 2});
  ASSERT_TRUE(levels.has_value()) << levels.error().message;
  const Cuts cuts = cuts_of(net.graph, axis_class, *levels);
  EXPECT_TRUE(cuts[OpId(0)].has_value());
  EXPECT_FALSE(cuts[OpId(1)].has_value());
  EXPECT_TRUE(cuts[OpId(2)].has_value());
  EXPECT_TRUE(expand(net.graph, cuts).has_value());
}

// Two runs of ops along the rows, with a sum over all of them that is needed at once in between.
TEST(ClassEnds, AreOpsThatNeedAllOfADimension) {
  Net net;
  ValueId x = net.given({6, 4});
  x = net.op("before", "Exp", {net.op("first", "Tanh", {x})});
  x = net.op("all", "Softmax", {x}, {{"axis", int64_t{0}}});
  x = net.op("last", "Tanh", {net.op("behind", "Exp", {x})});
  const UnbrokenClass unbroken = unbroken_class(net.graph).value();
  ASSERT_EQ(unbroken.ends.size(), 1U);
  EXPECT_EQ(net.graph.op(unbroken.ends[0].op).name, "all");
  EXPECT_EQ(unbroken.bytes, made_bytes(net.graph));
  const std::vector<AxisClass> classes = axis_classes(net.graph).value();
  for (const AxisClass& one : classes) EXPECT_LE(one.bytes, unbroken.bytes);
  // Columns can be cut from one end to the other.
  Net columns;
  x = columns.given({6, 4});
  columns.op("exp", "Exp", {columns.op("tanh", "Tanh", {x})});
  EXPECT_TRUE(unbroken_class(columns.graph).value().ends.empty());
}

}  // namespace
}  // namespace lowtide::fission
