// The generator of instances, and through it what must hold for every op of the table, whatever it
// is.
#include "ops/testing/random_instance.h"

#include <gtest/gtest.h>

#include "ops/bind.h"
#include "ops/row.h"

namespace lowtide::ops {
namespace {

constexpr int kInstances = 60;

// Calls use(instance, seed) on many instances of every op.
template <class Use>
void for_each_instance(Use use) {
  for (std::string_view kind : kinds())
    for (uint64_t seed = 0; seed < kInstances; ++seed) {
      Rng rng(seed * 1000003 + 17);
      const Result<RandomInstance> made = random_instance(kind, rng);
      ASSERT_TRUE(made) << kind << " seed " << seed << ": " << made.error().message;
      SCOPED_TRACE(testing::Message() << kind << " seed " << seed);
      use(*made, rng);
      if (testing::Test::HasFailure()) return;
    }
}

TEST(RandomInstance, IsValidForEveryKind) {
  for_each_instance([](const RandomInstance& made, Rng& rng) {
    EXPECT_EQ(made.values.size(), made.inputs.size());
    for (size_t i = 0; i < made.inputs.size(); ++i)
      for (double value : random_values(made.values[i], 5, rng)) EXPECT_LT(value, 300);
  });
}

TEST(EveryOp, TouchesNoMoreBytesThanItsOperandsHave) {
  for_each_instance([](const RandomInstance& made, Rng&) {
    const Result<Work> cost = work(made.instance());
    ASSERT_TRUE(cost) << cost.error().message;
    int64_t operands = 0, results = 0;
    for (const auto& input : made.inputs)
      if (input) {
        int64_t count = size_bytes(input->dtype);
        for (const sym::Expr& dim : input->dims) count *= *dim.constant();
        operands += count;
      }
    const Result<std::vector<OutputType>> outputs = infer(made.instance());
    for (const OutputType& output : *outputs) {
      int64_t count = size_bytes(output.type.dtype);
      for (const sym::Expr& dim : output.type.dims) count *= *dim.constant();
      results += count;
    }
    EXPECT_GE(*cost->flops.constant(), 0);
    // What is chosen by data may be read several times, once for each result.
    const bool chosen = made.kind.starts_with("Gather") || made.kind.starts_with("GridSample") ||
                        made.kind == "RoiAlign";
    const int64_t again = chosen ? results * static_cast<int64_t>(made.inputs.size()) : 0;
    EXPECT_LE(*cost->bytes_read.constant(), operands + again);
    EXPECT_LE(*cost->bytes_written.constant(), results);
  });
}

TEST(EveryOp, InPlacePairsHaveEqualSizes) {
  for_each_instance([](const RandomInstance& made, Rng&) {
    const auto outputs = infer(made.instance());
    for (const auto& [input, output] : in_place_pairs(made.instance())) {
      const Type& from = *made.inputs[static_cast<size_t>(input)];
      const Type& to = (*outputs)[static_cast<size_t>(output)].type;
      EXPECT_EQ(from.dims, to.dims);
      EXPECT_EQ(size_bytes(from.dtype), size_bytes(to.dtype));
    }
    const auto into = accumulators(made.instance());
    const auto pairs = in_place_pairs(made.instance());
    ASSERT_GE(pairs.size(), into.size());
    EXPECT_TRUE(std::equal(into.begin(), into.end(), pairs.begin()));
  });
}

// A part is itself an instance of the op: from the slices that it names, inference gives exactly
// the slices that it writes.
TEST(EveryOp, PartsInferTheSlicesThatTheyWrite) {
  int parts = 0;
  for_each_instance([&](const RandomInstance& made, Rng& rng) {
    const Result<AxisMap> map = axis_map(made.instance());
    ASSERT_TRUE(map) << map.error().message;
    const auto whole = infer(made.instance());
    for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis) {
      const int64_t extent = *map->axes[static_cast<size_t>(axis)].extent.constant();
      if (!can_split(*map, axis)) {
        EXPECT_FALSE(part(made.instance(), axis, 0, extent));
        continue;
      }
      const int64_t begin = static_cast<int64_t>(rng.below(static_cast<uint64_t>(extent)));
      const int64_t end = rng.between(begin + 1, extent);
      const Result<Part> made_part = part(made.instance(), axis, begin, end);
      if (!made_part) {
        EXPECT_NE(made_part.error().message.find("padding"), std::string::npos)
            << made_part.error().message;
        continue;
      }
      Instance piece{.kind = made.kind, .attrs = &made_part->attrs, .inputs = made.inputs};
      for (size_t i = 0; i < piece.inputs.size(); ++i) {
        const SliceOf& slice = made_part->inputs[i];
        if (slice.absent) piece.inputs[i] = std::nullopt;
        if (slice.whole || !piece.inputs[i]) continue;
        piece.inputs[i]->dims[static_cast<size_t>(slice.dim)] = slice.end - slice.begin;
      }
      const auto outputs = infer(piece);
      ASSERT_TRUE(outputs) << "axis " << axis << " [" << begin << ", " << end
                           << "): " << outputs.error().message;
      for (size_t o = 0; o < outputs->size(); ++o) {
        ir::Dims wanted = (*whole)[o].type.dims;
        const SliceOf& slice = made_part->outputs[o];
        if (!slice.whole) wanted[static_cast<size_t>(slice.dim)] = slice.end - slice.begin;
        EXPECT_EQ(print((*outputs)[o].type.dims), print(wanted)) << "axis " << axis;
      }
      ++parts;
    }
  });
  EXPECT_GT(parts, 5000);
}

bool adds_into(const Instance& instance, int input) {
  const auto all = accumulators(instance);
  return std::any_of(all.begin(), all.end(), [&](const auto& pair) { return pair.first == input; });
}

// What an axis map says of a dimension is what a part cuts out of it: stride * range with its halo,
// inside the dimension.
TEST(EveryOp, PartsCutWhatTheAxisMapSays) {
  int windows = 0, rests = 0;
  for_each_instance([&](const RandomInstance& made, Rng&) {
    const auto map = axis_map(made.instance());
    for (const AxisUse& use : map->uses) {
      if (use.is_output || use.kind == LinkKind::kBroadcast || !can_split(*map, use.axis)) continue;
      const int64_t extent = *map->axes[static_cast<size_t>(use.axis)].extent.constant();
      const int64_t size = *made.inputs[static_cast<size_t>(use.operand)]
                                ->dims[static_cast<size_t>(use.dim)]
                                .constant();
      const Result<Part> last = part(made.instance(), use.axis, extent - 1, extent);
      if (!last) continue;
      const SliceOf& slice = last->inputs[static_cast<size_t>(use.operand)];
      EXPECT_EQ(slice.dim, use.dim);
      const int64_t stride = *use.stride.constant();
      int64_t begin = (extent - 1) * stride, end = extent * stride;
      if (use.kind == LinkKind::kWindow) {
        begin -= *use.halo_low.constant();
        end += *use.halo_high.constant();
        ++windows;
      } else if (use.kind == LinkKind::kShift) {
        begin += *use.shift.constant();
        end = begin + 1;
      }
      // What is added to is cut as the result is, whose last rows are the last part's (own_rows.h).
      const bool is_rest = end < size && adds_into(made.instance(), use.operand);
      rests += is_rest;
      EXPECT_EQ(*slice.begin.constant(), std::max<int64_t>(begin, 0));
      EXPECT_EQ(*slice.end.constant(), is_rest ? size : std::min(end, size));
    }
  });
  EXPECT_GT(windows, 200);
  EXPECT_GT(rests, 5);
}

// Index tuples, the two values of a OneHot and the weights of recurrent networks have extents that
// are numbers.
bool must_be_number(std::string_view kind, std::string_view axis) {
  if (kind == "OneHot") return axis == "w";
  if (kind == "GatherND" || kind == "ScatterND") return axis == "k";
  for (std::string_view cell : {"Lstm", "Gru", "Rnn"})
    if (kind.starts_with(cell)) return axis != "t" && axis != "b";
  return false;
}

// Binding a symbol before inference and after it gives the same dimensions.
TEST(EveryOp, InfersOnSymbolsWhatItInfersOnNumbers) {
  for_each_instance([&](const RandomInstance& made, Rng& rng) {
    // One axis that goes from an input dimension straight to an output is made a symbol.
    const Result<AxisMap> map = axis_map(made.instance());
    if (map->axes.empty()) return;
    const int axis = static_cast<int>(rng.below(map->axes.size()));
    if (must_be_number(made.kind, map->axes[static_cast<size_t>(axis)].name)) return;
    const int64_t extent = *map->axes[static_cast<size_t>(axis)].extent.constant();
    RandomInstance symbolic = made;
    for (const AxisUse& use : map->uses) {
      if (use.axis != axis) continue;
      if (use.kind == LinkKind::kBroadcast) continue;
      if (use.kind != LinkKind::kDirect || extent == 1) return;
      if (!use.is_output)
        symbolic.inputs[static_cast<size_t>(use.operand)]->dims[static_cast<size_t>(use.dim)] =
            sym::Expr::symbol("s");
    }
    for (const auto& [name, value] : made.attrs)
      if (name == "shape" || name == "sizes" || name == "dim" || name == "kernel") return;
    const auto numbers = infer(made.instance());
    const auto symbols = infer(symbolic.instance());
    ASSERT_TRUE(symbols) << symbols.error().message;
    for (size_t o = 0; o < numbers->size(); ++o)
      for (size_t d = 0; d < (*numbers)[o].type.dims.size(); ++d)
        EXPECT_EQ((*symbols)[o].type.dims[d].substitute({{"s", extent}}),
                  (*numbers)[o].type.dims[d]);
    const auto cost = work(made.instance()), symbolic_cost = work(symbolic.instance());
    ASSERT_TRUE(symbolic_cost);
    EXPECT_EQ(symbolic_cost->flops.substitute({{"s", extent}}), cost->flops);
    EXPECT_EQ(symbolic_cost->bytes_read.substitute({{"s", extent}}), cost->bytes_read);
    EXPECT_EQ(symbolic_cost->bytes_written.substitute({{"s", extent}}), cost->bytes_written);
  });
}

}  // namespace
}  // namespace lowtide::ops
