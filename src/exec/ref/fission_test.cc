// Fission says what it means: for every op, every axis along which it can be split and random
// boundaries, the parts run on the reference executor and merged as ops::part says equal the whole.
// Bit for bit where parts are laid one after another (each element is computed by the same loop),
// within rounding where partial results are added.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>

#include "base/rng.h"
#include "exec/ref/interpreter.h"
#include "ops/testing/random_instance.h"
#include "support/splittable_axes.h"

namespace lowtide::ref {
namespace {

using ops::Merge;
using ops::Part;
using ops::RandomInstance;
using ops::SliceOf;

// Drawn of each op, and as many more as it takes to see all of its axes.
constexpr uint64_t kInstances = 100, kMost = 400;

Sizes sizes_of(const ir::Dims& dims) {
  Sizes sizes;
  for (const sym::Expr& dim : dims) sizes.push_back(*dim.constant());
  return sizes;
}

std::vector<std::optional<Tensor>> random_inputs(const RandomInstance& made, Rng& rng) {
  std::vector<std::optional<Tensor>> tensors;
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    if (!made.inputs[i]) {
      tensors.push_back(std::nullopt);
      continue;
    }
    Tensor tensor = Tensor::zeros(made.inputs[i]->dtype, sizes_of(made.inputs[i]->dims));
    const std::vector<double> values = ops::random_values(made.values[i], tensor.count(), rng);
    for (size_t e = 0; e < values.size(); ++e) {
      if (tensor.real()) tensor.f[e] = static_cast<float>(values[e]);
      if (!tensor.real()) tensor.i[e] = static_cast<int64_t>(values[e]);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// The elements of `whole` in a slice.
Tensor take(const Tensor& whole, const SliceOf& slice) {
  const auto d = static_cast<size_t>(slice.dim);
  const int64_t begin = *slice.begin.constant();
  Sizes dims = whole.dims;
  dims[d] = *slice.end.constant() - begin;
  Tensor piece = Tensor::zeros(whole.dtype, dims);
  const Sizes strides = row_major_strides(whole.dims);
  for (Odometer at(dims); at.live(); at.next())
    copy_element(piece, at.flat(), whole, at.dot(strides) + begin * strides[d]);
  return piece;
}

void merge_element(Tensor& total, int64_t to, const Tensor& piece, int64_t from, Merge merge,
                   double scale) {
  if (merge == Merge::kConcat) return copy_element(total, to, piece, from);
  ASSERT_NE(merge, Merge::kNone);
  const auto t = static_cast<size_t>(to), p = static_cast<size_t>(from);
  if (!total.real())
    total.i[t] = merge == Merge::kSum ? total.i[t] + piece.i[p] : std::max(total.i[t], piece.i[p]);
  else if (merge == Merge::kLogSumExp)
    total.f[t] = std::log(std::exp(total.f[t]) + std::exp(piece.f[p]));
  else
    total.f[t] =
        merge == Merge::kSum ? total.f[t] + scale * piece.f[p] : std::max(total.f[t], piece.f[p]);
}

// Starts a maximum, or a log-sum-exp, from below everything.
Tensor start(const Tensor& like, Merge merge) {
  Tensor total = Tensor::zeros(like.dtype, like.dims);
  if (merge == Merge::kMax || merge == Merge::kLogSumExp) {
    std::fill(total.f.begin(), total.f.end(), -INFINITY);
    std::fill(total.i.begin(), total.i.end(), INT64_MIN);
  }
  return total;
}

void merge_into(Tensor& total, const Tensor& piece, const SliceOf& slice, Merge merge,
                double scale) {
  const Sizes strides = row_major_strides(total.dims);
  const int64_t begin =
      slice.whole ? 0 : *slice.begin.constant() * strides[static_cast<size_t>(slice.dim)];
  for (Odometer at(piece.dims); at.live(); at.next())
    merge_element(total, begin + at.dot(strides), piece, at.flat(), merge, scale);
}

// Random boundaries: 0, one or two cuts, the extent, which is at least 2.
std::vector<int64_t> boundaries(int64_t extent, Rng& rng) {
  std::vector<int64_t> cuts = {0, extent};
  for (int cut = 0; cut < 2; ++cut) cuts.push_back(rng.between(1, extent - 1));
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

void expect_equal(const Tensor& got, const Tensor& wanted, bool exact) {
  ASSERT_EQ(got.dims, wanted.dims);
  EXPECT_EQ(got.i, wanted.i);
  for (size_t e = 0; e < wanted.f.size(); ++e) {
    if (exact && std::isnan(wanted.f[e]) && std::isnan(got.f[e])) continue;
    if (exact) {
      ASSERT_EQ(got.f[e], wanted.f[e]) << "element " << e;
    } else {
      ASSERT_NEAR(got.f[e], wanted.f[e], 1e-4 * (1 + std::abs(wanted.f[e]))) << "element " << e;
    }
  }
}

// Runs the parts of one axis and compares. False when a part would read nothing but padding.
bool check_axis(const RandomInstance& made, const std::vector<std::optional<Tensor>>& inputs,
                const std::vector<Tensor>& whole, int axis, const std::vector<int64_t>& cuts) {
  std::vector<Tensor> totals;
  std::vector<Merge> merges;
  for (size_t c = 0; c + 1 < cuts.size(); ++c) {
    const Result<Part> part = ops::part(made.instance(), axis, cuts[c], cuts[c + 1]);
    if (!part && part.error().message.find("padding") != std::string::npos) return false;
    EXPECT_TRUE(part) << part.error().message;
    if (!part) return true;
    std::vector<std::optional<Tensor>> pieces;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const SliceOf& slice = part->inputs[i];
      if (!inputs[i] || slice.absent)
        pieces.push_back(std::nullopt);
      else
        pieces.push_back(slice.whole ? *inputs[i] : take(*inputs[i], slice));
    }
    const auto outputs = evaluate(made.kind, part->attrs, pieces);
    EXPECT_TRUE(outputs) << outputs.error().message;
    if (!outputs) return true;
    for (size_t o = 0; o < outputs->size(); ++o) {
      if (c == 0) totals.push_back(start(whole[o], part->merges[o]));
      merge_into(totals[o], (*outputs)[o], part->outputs[o], part->merges[o], part->scale);
    }
    merges = part->merges;
  }
  for (size_t o = 0; o < whole.size(); ++o)
    expect_equal(totals[o], whole[o],
                 (merges[o] == Merge::kConcat || merges[o] == Merge::kMax) &&
                     made.kind.find("Loss") == std::string::npos &&
                     made.kind != "CrossEntropyGrad");
  return true;
}

// Where most boundaries drawn make a part of padding alone, which says nothing: so many of its axes
// are checked, in per cent; of all others nearly all.
const std::map<std::string_view, int> kOftenPadding = {{"Pad", 20}};
constexpr int kNearlyAll = 95;

class Fission : public testing::TestWithParam<std::string_view> {};

// Every axis of the row that can be split is split with an extent of 2 or more, and compared.
TEST_P(Fission, PartsEqualTheWhole) {
  int checked = 0, splittable = 0;
  const AxesOfRows all = splittable_axes();
  ASSERT_TRUE(all.contains(GetParam()));
  const std::set<std::string>& wanted = all.find(GetParam())->second;
  std::set<std::string> axes;
  for (uint64_t seed = 0; seed < (axes == wanted ? kInstances : kMost); ++seed) {
    Rng rng(seed * 104729 + 7);  // as the axes in the file were found
    const auto made = ops::random_instance(GetParam(), rng);
    ASSERT_TRUE(made) << made.error().message;
    const std::vector<std::optional<Tensor>> inputs = random_inputs(*made, rng);
    const auto whole = evaluate(made->kind, made->attrs, inputs);
    ASSERT_TRUE(whole) << "seed " << seed << ": " << whole.error().message;
    const auto map = ops::axis_map(made->instance());
    ASSERT_TRUE(map);
    for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis) {
      const std::string& name = map->axes[static_cast<size_t>(axis)].name;
      const int64_t extent = *map->axes[static_cast<size_t>(axis)].extent.constant();
      if (extent < 2 || !ops::can_split(*map, axis)) continue;
      ++splittable;
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", axis " << name);
      if (!check_axis(*made, inputs, *whole, axis, boundaries(extent, rng))) continue;
      if (HasFailure()) return;
      ++checked;
      axes.insert(name);
    }
  }
  RecordProperty("axes_checked", static_cast<int>(axes.size()));
  std::printf("%zu axes; %d cuts checked of %d\n", axes.size(), checked, splittable);
  EXPECT_EQ(axes, wanted);
  const auto often = kOftenPadding.find(GetParam());
  EXPECT_GE(100 * checked, (often == kOftenPadding.end() ? kNearlyAll : often->second) * splittable)
      << "too many parts lie in padding to mean anything";
}

INSTANTIATE_TEST_SUITE_P(EveryOp, Fission, testing::ValuesIn(ops::kinds()),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace lowtide::ref
