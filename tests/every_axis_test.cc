// Every axis of every row of the op table, through the graph in parts: a graph of one drawn op, cut
// along each axis that can be split at drawn boundaries, with pieces, sums, means, maxima and
// log-sum-exps as fission::expand makes them and wholes that are views where they can be, equals
// the whole op on the reference executor in double precision. What was split is held against
// tests/data, axis by axis. Operands with strides are in strided_parts_test.cc.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "base/file.h"
#include "base/rng.h"
#include "fission/expand.h"
#include "ops/op_table.h"
#include "ops/testing/random_instance.h"
#include "rewrite/pieces.h"
#include "support/drawn_op.h"
#include "support/long_checks.h"
#include "support/splittable_axes.h"

namespace lowtide::every_axis_test {
namespace {

// Rows whose ops a graph in parts leaves whole along every axis, by the words of the refusal. Their
// parts are held against the whole by themselves, without a graph: exec/ref/fission_test.cc.
const std::map<std::string, std::string, std::less<>> kLeftWhole = {
    {"AdamWUpdate", "overwrites"},
    {"RunningUpdate", "overwrites"},
    {"SgdUpdate", "overwrites"},
};

// Rows of which some ops are left whole, and by what words; every axis is split in others.
const std::map<std::string, std::string, std::less<>> kAtTimesLeftWhole = {
    {"Join", "does not fill its storage"},  // a piece that is a slice of a given value is a view
};

// Axes are looked for in so many drawn instances of a row.
constexpr uint64_t kMostDrawn = 400;

Result<ops::RandomInstance> drawn_instance(std::string_view kind, uint64_t seed, Rng& rng) {
  rng = Rng(seed * 104729 + 7);
  return ops::random_instance(kind, rng);
}

// Rows without an axis that can be split.
const std::set<std::string> kWithoutAxes = {"LabelCount",         // all parts want it
                                            "MaxPoolPositions"};  // its results count all inputs

// How many rows the table has, how many axes of them can be split, and how many of these the rows
// of kLeftWhole have. All of the others are split here.
constexpr size_t kRows = 164, kAxes = 476, kAxesLeftWhole = 6;

// What was done to one row.
struct Seen {
  std::set<std::string> compared;                           // axes
  std::map<std::string, std::set<std::string>> left_whole;  // axis to the refusals
  int cuts = 0, joined = 0, padding = 0;
};

// One op in two parts. Extents are at least 2.
void check_cut(const DrawnOp& drawn, const NamedTensors& wanted, const std::string& name,
               const fission::Cut& cut, Seen& seen) {
  fission::Cuts cuts(drawn.graph.op_count());
  cuts[drawn.op] = cut;
  const auto parts = fission::expand(drawn.graph, cuts);
  if (!parts) {
    if (parts.error().message.find("nothing but padding") != std::string::npos)
      ++seen.padding;  // other boundaries of the axis will do
    else
      seen.left_whole[name].insert(parts.error().message);
    return;
  }
  ASSERT_EQ(parts->parts[drawn.op].size(), cut.bounds.size() - 1);
  expect_equal(results(parts->graph, drawn.given), wanted);
  const auto views = rewrite::join_pieces(parts->graph, 1);
  ASSERT_TRUE(views.has_value()) << views.error().message;
  seen.joined += views->joined;
  if (views->changed()) expect_equal(results(views->graph, drawn.given), wanted);
  ++seen.cuts;
  seen.compared.insert(name);
}

// One drawn instance, along each of its axes that has two elements to part.
void check_instance(std::string_view kind, uint64_t seed, Seen& seen) {
  Rng rng(0);
  const auto made = drawn_instance(kind, seed, rng);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const DrawnOp drawn = graph_of(*made, rng);
  if (testing::Test::HasFailure()) return;
  const auto wanted = results(drawn.graph, drawn.given);
  const auto map = ops::axis_map(made->instance());
  ASSERT_TRUE(map.has_value());
  for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis) {
    const ops::Axis& walked = map->axes[static_cast<size_t>(axis)];
    const int64_t extent = *walked.extent.constant();
    if (extent < 2 || !ops::can_split(*map, axis)) continue;
    SCOPED_TRACE(testing::Message() << kind << ", seed " << seed << ", axis " << walked.name);
    check_cut(drawn, wanted, walked.name, {axis, {0, rng.between(1, extent - 1), extent}}, seen);
    if (testing::Test::HasFailure()) return;
  }
}

// Draws until every axis of the row was seen with an extent of 2 or more and boundaries that leave
// no part to padding alone.
Seen check_row(std::string_view kind, size_t axes) {
  const auto least = static_cast<uint64_t>(some_of(200, 30));
  Seen seen;
  for (uint64_t seed = 0; seed < kMostDrawn; ++seed) {
    const size_t done = kLeftWhole.contains(kind) ? seen.left_whole.size() : seen.compared.size();
    if (seed >= least && done >= axes) break;
    check_instance(kind, seed, seen);
    if (testing::Test::HasFailure()) break;
  }
  return seen;
}

// The axes that were split and compared are those of the file, no fewer, no more; of the rows that
// are left whole, every axis was refused; and whatever was refused, for the reason that is listed.
void expect_complete(std::string_view kind, const std::set<std::string>& axes, const Seen& seen) {
  std::set<std::string> refused;
  const bool always = kLeftWhole.contains(kind);
  const auto& reasons = always ? kLeftWhole : kAtTimesLeftWhole;
  const auto reason = reasons.find(kind);
  for (const auto& [axis, messages] : seen.left_whole) {
    refused.insert(axis);
    for (const std::string& message : messages)
      EXPECT_TRUE(reason != reasons.end() && message.find(reason->second) != std::string::npos)
          << kind << ", axis " << axis << ": " << message;
  }
  EXPECT_EQ(seen.compared, always ? std::set<std::string>() : axes) << kind;
  EXPECT_EQ(refused.empty(), reason == reasons.end()) << kind;
  if (always) {
    EXPECT_EQ(refused, axes) << kind;
  }
}

TEST(EveryAxis, InPartsEqualsTheWhole) {
  const AxesOfRows wanted = splittable_axes();
  AxesOfRows compared, left_whole;
  std::set<std::string> without;
  Seen all;
  for (const std::string_view kind : ops::kinds()) {
    ASSERT_TRUE(wanted.contains(kind)) << kind;
    const std::set<std::string>& axes = wanted.find(kind)->second;
    const std::string row(kind);
    const Seen seen = check_row(kind, axes.size());
    expect_complete(kind, axes, seen);
    if (HasFailure()) return;
    if (axes.empty()) without.insert(row);
    if (kLeftWhole.contains(kind)) left_whole[row] = axes;
    if (!seen.compared.empty()) compared[row] = seen.compared;
    all.cuts += seen.cuts;
    all.joined += seen.joined;
    all.padding += seen.padding;
  }
  std::printf(
      "%zu axes of %zu rows in parts, %d cuts, %d wholes as views; %zu axes of %zu rows "
      "left whole; %d times other boundaries for parts of padding alone\n",
      count_axes(compared), compared.size(), all.cuts, all.joined, count_axes(left_whole),
      left_whole.size(), all.padding);
  RecordProperty("rows", static_cast<int>(compared.size()));
  RecordProperty("axes", static_cast<int>(count_axes(compared)));
  EXPECT_EQ(wanted.size(), kRows);
  EXPECT_EQ(without, kWithoutAxes);
  EXPECT_EQ(compared.size(), kRows - kWithoutAxes.size() - kLeftWhole.size());
  EXPECT_EQ(count_axes(wanted), kAxes);
  EXPECT_EQ(count_axes(left_whole), kAxesLeftWhole);
  EXPECT_EQ(count_axes(compared), kAxes - kAxesLeftWhole);
}

// "Kind: axis axis", by what the table says of drawn instances: an axis that cannot be split now
// is missed here, whatever is left of its row. One that has one element wherever it can be split
// (as what stands before the joined axis of a Join) is none. After a wanted change the new text
// goes into the file.
TEST(EveryAxisOfTheTable, IsAsItWas) {
  std::string text;
  for (const std::string_view kind : ops::kinds()) {
    std::set<std::string> axes;
    for (uint64_t seed = 0; seed < kMostDrawn; ++seed) {
      Rng rng(0);
      const auto made = drawn_instance(kind, seed, rng);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      const auto map = ops::axis_map(made->instance());
      ASSERT_TRUE(map.has_value());
      for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis)
        if (ops::can_split(*map, axis) &&
            *map->axes[static_cast<size_t>(axis)].extent.constant() > 1)
          axes.insert(map->axes[static_cast<size_t>(axis)].name);
    }
    text += std::string(kind) + ":";
    for (const std::string& axis : axes) text += " " + axis;
    text += "\n";
  }
  const auto wanted = read_file(splittable_axes_file().string());
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  EXPECT_EQ(text, *wanted);
}

}  // namespace
}  // namespace lowtide::every_axis_test
