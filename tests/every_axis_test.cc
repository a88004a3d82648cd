// Every axis of every row of the op table, through the graph in parts: a graph of one drawn op, cut
// along each axis that can be split at drawn boundaries, with pieces, sums, means and maxima as
// fission::expand makes them and wholes that are views where they can be, equals the whole op on
// the reference executor in double precision. Every other op reads strided views. Which axes these
// are stands in tests/data/splittable_axes.txt; each of them is met, or its refusal is named here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/rng.h"
#include "base/testing/test_data.h"
#include "exec/ref/interpreter.h"
#include "fission/expand.h"
#include "ops/op_table.h"
#include "ops/testing/random_instance.h"
#include "rewrite/pieces.h"

namespace lowtide {
namespace {

struct Drawn {
  ir::Graph graph;
  ref::Named given;
  ir::OpId op = {};  // the drawn one
  int strided = 0;   // of its operands
};

ref::Tensor drawn_tensor(const ops::Type& type, const ops::InputValues& values, Rng& rng) {
  ref::Sizes sizes;
  for (const sym::Expr& dim : type.dims) sizes.push_back(*dim.constant());
  ref::Tensor tensor = ref::Tensor::zeros(type.dtype, sizes);
  const std::vector<double> drawn = ops::random_values(values, tensor.count(), rng);
  for (size_t e = 0; e < drawn.size(); ++e) {
    if (tensor.real()) tensor.f[e] = drawn[e];
    if (!tensor.real()) tensor.i[e] = static_cast<int64_t>(drawn[e]);
  }
  return tensor;
}

// The operand as a strided view of `value`, whose last two dimensions it exchanges.
Result<ir::ValueId> transposed_view(ir::Graph& graph, ir::ValueId value) {
  ir::Dims perm;
  const auto rank = static_cast<int64_t>(graph.value(value).dims.size());
  for (int64_t d = 0; d < rank; ++d) perm.emplace_back(d < rank - 2 ? d : 2 * rank - 3 - d);
  LT_ASSIGN(const ir::OpId op,
            ops::append(graph, "Transpose", {value}, {{"perm", perm}, {"view", int64_t{1}}}));
  return graph.op(op).outputs[0];
}

// The rows of each matrix become columns, so that a view which exchanges them shows the tensor.
ref::Tensor exchanged(const ref::Tensor& tensor) {
  ref::Tensor result = tensor;
  const size_t rank = tensor.dims.size();
  std::swap(result.dims[rank - 1], result.dims[rank - 2]);
  const ref::Sizes from = ref::row_major_strides(tensor.dims);
  for (ref::Odometer at(result.dims); at.live(); at.next()) {
    ref::Sizes strides = from;
    std::swap(strides[rank - 1], strides[rank - 2]);
    ref::copy_element(result, at.flat(), tensor, at.dot(strides));
  }
  return result;
}

// One op with what it reads; nothing where its row does not let an operand be strided.
std::optional<Drawn> graph_of(const ops::RandomInstance& made, bool strided, Rng& rng) {
  Drawn drawn;
  std::vector<ir::ValueId> inputs;
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    if (!made.inputs[i]) {
      inputs.emplace_back();
      continue;
    }
    ref::Tensor contents = drawn_tensor(*made.inputs[i], made.values[i], rng);
    const bool as_view = strided && made.inputs[i]->dims.size() >= 2;
    if (as_view) contents = exchanged(contents);
    ir::Value value;
    value.name = "in" + std::to_string(i);
    value.dtype = made.inputs[i]->dtype;
    for (const int64_t dim : contents.dims) value.dims.emplace_back(dim);
    value.category = Category::kInput;
    drawn.given[value.name] = std::move(contents);
    inputs.push_back(drawn.graph.add_value(std::move(value)));
    if (!as_view) continue;
    inputs.back() = transposed_view(drawn.graph, inputs.back()).value();
    ++drawn.strided;
  }
  const auto op = ops::append(drawn.graph, made.kind, inputs, made.attrs);
  if (!op && drawn.strided > 0) return std::nullopt;
  EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
  if (!op) return drawn;
  drawn.op = *op;
  for (const ir::ValueId output : drawn.graph.op(*op).outputs) drawn.graph.set_output(output, true);
  return drawn;
}

std::map<std::string, ref::Tensor> results(const ir::Graph& graph, const ref::Named& given) {
  ref::Context context;
  context.precision = ref::Precision::kF64;
  const auto values = ref::interpret(graph, given, context);
  EXPECT_TRUE(values.has_value()) << (values ? "" : values.error().message);
  std::map<std::string, ref::Tensor> all;
  if (values)
    for (const ir::ValueId v : graph.outputs()) all[graph.value(v).name] = values->at(v);
  return all;
}

// In double precision; a sum in another order differs in the last bits.
void expect_equal(const std::map<std::string, ref::Tensor>& got,
                  const std::map<std::string, ref::Tensor>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, exact] : wanted) {
    ASSERT_TRUE(got.contains(name)) << name;
    const ref::Tensor& ours = got.at(name);
    ASSERT_EQ(ours.dims, exact.dims) << name;
    ASSERT_EQ(ours.i, exact.i) << name;
    for (size_t e = 0; e < exact.f.size(); ++e) {
      if (std::isnan(exact.f[e]) && std::isnan(ours.f[e])) continue;
      if (ours.f[e] == exact.f[e]) continue;  // infinite, too
      ASSERT_NEAR(ours.f[e], exact.f[e], 1e-11 * (1 + std::abs(exact.f[e])))
          << name << "[" << e << "]";
    }
  }
}

constexpr uint64_t kLeastDraws = 100, kMostDraws = 400;

using Axes = std::set<std::string>;

// Rows of which a graph in parts refuses axes, with the words of the refusal.
struct Refused {
  std::string_view reason;
  Axes only = {};  // axes that are always refused
};
const std::map<std::string_view, Refused> kRefused = {
    {"AdamWUpdate", {"overwrites", {"a0", "a1"}}},
    {"SgdUpdate", {"overwrites", {"a0", "a1"}}},
    {"RunningUpdate", {"overwrites", {"a0", "a1"}}},
    // The axis along which the pieces lie: a slice of the whole would cross them.
    {"Join", {"does not fill its storage", {"a0"}}},
};

// Rows no operand of which is ever a strided view here, and why.
const std::map<std::string_view, std::string_view> kDense = {{"Fill", "it reads nothing"}};

// The axes of each row, as the file has them.
std::map<std::string, Axes, std::less<>> axes_of_the_table() {
  const auto text = read_file((captured_steps() / "splittable_axes.txt").string());
  EXPECT_TRUE(text.has_value());
  std::map<std::string, Axes, std::less<>> result;
  std::istringstream lines(text.value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind, axis;
    words >> kind;
    Axes& axes = result[kind.substr(0, kind.size() - 1)];
    while (words >> axis) axes.insert(axis);
  }
  return result;
}

Axes both(Axes one, const Axes& other) {
  one.insert(other.begin(), other.end());
  return one;
}

class EveryAxis : public testing::TestWithParam<std::string_view> {
 protected:
  // Every axis of one drawn op.
  void cut_each(const Drawn& drawn, const ops::AxisMap& map, Rng& rng) {
    const auto wanted = results(drawn.graph, drawn.given);
    for (int axis = 0; axis < static_cast<int>(map.axes.size()); ++axis) {
      const ops::Axis& walked = map.axes[static_cast<size_t>(axis)];
      const int64_t extent = *walked.extent.constant();
      if (extent < 2 || !ops::can_split(map, axis)) continue;
      SCOPED_TRACE(testing::Message() << "axis " << walked.name);
      fission::Cuts cuts(drawn.graph.op_count());
      cuts[drawn.op] = fission::Cut{axis, {0, rng.between(1, extent - 1), extent}};
      cut(drawn, cuts, std::string(walked.name), wanted);
      if (HasFailure()) return;
    }
  }

  void cut(const Drawn& drawn, const fission::Cuts& cuts, const std::string& axis,
           const std::map<std::string, ref::Tensor>& wanted) {
    const auto parts = fission::expand(drawn.graph, cuts);
    if (!parts) {
      // A part of a window that would see nothing but padding: not this op, but another one.
      if (parts.error().message.find("padding") != std::string::npos) return;
      refused_.insert(axis);
      const auto reason = kRefused.find(GetParam());
      EXPECT_TRUE(reason != kRefused.end() &&
                  parts.error().message.find(reason->second.reason) != std::string::npos)
          << parts.error().message;
      return;
    }
    expect_equal(results(parts->graph, drawn.given), wanted);
    const auto views = rewrite::join_pieces(parts->graph, 1);
    ASSERT_TRUE(views.has_value()) << views.error().message;
    joined_ += views->joined;
    if (views->changed()) expect_equal(results(views->graph, drawn.given), wanted);
    split_.insert(axis);
    strided_ += drawn.strided;
    ++checked_;
  }

  Axes split_, refused_;
  int checked_ = 0, joined_ = 0, strided_ = 0;
};

// Draws until every axis was met with two elements or more, and some more.
TEST_P(EveryAxis, InPartsEqualsTheWhole) {
  const Axes wanted = axes_of_the_table().at(std::string(GetParam()));
  for (uint64_t seed = 0; seed < kMostDraws; ++seed) {
    const bool all_met = both(split_, refused_) == wanted;
    if (all_met && seed >= kLeastDraws) break;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed * 104729 + 7);
    const auto made = ops::random_instance(GetParam(), rng);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    std::optional<Drawn> drawn = graph_of(*made, seed % 2 == 1, rng);
    if (!drawn) drawn = graph_of(*made, false, rng);
    if (HasFailure()) return;
    const auto map = ops::axis_map(made->instance());
    ASSERT_TRUE(map.has_value());
    cut_each(*drawn, *map, rng);
    if (HasFailure()) return;
  }
  std::printf("%d cuts along %zu axes, %d wholes as views, %d strided operands\n", checked_,
              split_.size(), joined_, strided_);
  const auto reason = kRefused.find(GetParam());
  const Axes never = reason == kRefused.end() ? Axes{} : reason->second.only;
  EXPECT_EQ(refused_.empty(), reason == kRefused.end());
  EXPECT_EQ(both(split_, never), wanted) << "axes that were cut, and those that never are";
  for (const std::string& axis : never) EXPECT_FALSE(split_.contains(axis)) << axis;
  EXPECT_EQ(strided_ == 0, kDense.contains(GetParam()) || split_.empty());
}

INSTANTIATE_TEST_SUITE_P(Rows, EveryAxis, testing::ValuesIn(ops::kinds()),
                         [](const auto& instance) { return std::string(instance.param); });

// How many of all axes are cut above.
TEST(EveryAxisOfTheTable, IsCutOrRefusedByName) {
  size_t axes = 0, refused = 0;
  const auto table = axes_of_the_table();
  for (const auto& [kind, of_kind] : table) axes += of_kind.size();
  for (const auto& [kind, reason] : kRefused) refused += reason.only.size();
  std::printf("%zu rows, %zu axes that can be split, %zu of them refused in a graph\n",
              table.size(), axes, refused);
  EXPECT_EQ(table.size(), ops::kinds().size());
  EXPECT_EQ(axes, 447U);
  EXPECT_EQ(refused, 7U);
}

// "Kind: axis axis", by what the table says of drawn instances: an axis that can no longer be split
// is missed here, whatever is left of its row. After a wanted change the new text goes into the
// file.
TEST(EveryAxisOfTheTable, IsAsItWas) {
  std::string text;
  for (const std::string_view kind : ops::kinds()) {
    std::set<std::string> axes;
    for (uint64_t seed = 0; seed < kMostDraws; ++seed) {
      Rng rng(seed * 104729 + 7);
      const auto made = ops::random_instance(kind, rng);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      const auto map = ops::axis_map(made->instance());
      ASSERT_TRUE(map.has_value());
      for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis)
        if (ops::can_split(*map, axis))
          axes.insert(std::string(map->axes[static_cast<size_t>(axis)].name));
    }
    text += std::string(kind) + ":";
    for (const std::string& axis : axes) text += " " + axis;
    text += "\n";
  }
  const auto path = captured_steps() / "splittable_axes.txt";
  const auto wanted = read_file(path.string());
  ASSERT_TRUE(wanted.has_value()) << wanted.error().message;
  EXPECT_EQ(text, *wanted);
}

}  // namespace
}  // namespace lowtide
