// Parts of operands that are strided views: for every row whose kernel reads such operands where
// they lie, a graph of one drawn op on transposed or sliced operands is cut along every axis that
// can be split. Parts read slices of the views, which are views too. In parts the graph equals the
// whole op on the reference executor in double precision; and it is planned and run in one arena of
// the planned size by the CPU kernels, with parts that read a strided operand where it lies.
// Which rows these are: tests/support/strided_kinds.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/words.h"
#include "exec/cpu/cpu.h"
#include "fission/expand.h"
#include "ir/id_order.h"
#include "pipeline/optimize.h"
#include "rewrite/rewrites.h"
#include "runtime/session.h"
#include "support/drawn_op.h"
#include "support/splittable_axes.h"
#include "support/strided_kinds.h"

namespace lowtide::strided_parts_test {
namespace {

// The rows that read strides and can be in parts, and their axes: all of them are split here.
constexpr size_t kRows = 99, kAxes = 249;

// What each part cuts out of a strided operand, without a copy.
Result<ir::Graph> with_slices_as_views(const ir::Graph& parts) {
  ir::Rewritten made(parts);
  for (const ir::GraphItem& item : ir::in_id_order(parts)) {
    if (item.given.valid()) {
      made.give(item.given, parts.value(item.given));
      continue;
    }
    const ir::Op& op = parts.op(item.op);
    ir::Attrs attrs = op.attrs;
    const bool helper = op.kind == "Slice" && op.name.starts_with("drawn/Slice");
    if (helper && made.graph.value(made.now(op.inputs)[0]).layout.strided())
      attrs["view"] = int64_t{1};
    LT_RETURN_IF_ERROR(
        ops::append_again(made, parts, item.op, made.now(op.inputs), std::move(attrs)));
  }
  return std::move(made.graph);
}

pipeline::OptimizeOptions options_with(const plan::KernelCatalog& kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = &kernels;
  options.find_smallest = false;
  options.strided_views = false;  // but for those that are there
  for (const rewrite::Rewrite& each : rewrite::rewrites())
    options.rewrites.without.emplace_back(each.name);
  return options;
}

std::vector<std::byte> bytes_of(const ref::Tensor& tensor) {
  const auto size = static_cast<size_t>(size_bytes(tensor.dtype));
  const auto count = static_cast<size_t>(tensor.count());
  std::vector<std::byte> bytes(size * count);
  for (size_t e = 0; e < count; ++e) {
    if (tensor.real()) write_real(tensor.dtype, tensor.f[e], bytes.data() + e * size);
    if (!tensor.real()) write_integer(tensor.dtype, tensor.i[e], bytes.data() + e * size);
  }
  return bytes;
}

ref::Tensor tensor_of(const std::vector<std::byte>& bytes, const ref::Tensor& like) {
  ref::Tensor tensor = ref::Tensor::zeros(like.dtype, like.dims);
  const auto size = static_cast<size_t>(size_bytes(like.dtype));
  EXPECT_EQ(bytes.size(), size * static_cast<size_t>(like.count()));
  for (size_t e = 0; e < bytes.size() / size; ++e) {
    if (like.real()) tensor.f[e] = read_real(like.dtype, bytes.data() + e * size);
    if (!like.real()) tensor.i[e] = read_integer(like.dtype, bytes.data() + e * size);
  }
  return tensor;
}

void expect_runs(const plan::Plan& plan, const runtime::KernelFactory& kernels,
                 const ref::Named& given, const NamedTensors& wanted) {
  runtime::SessionOptions running;
  running.mark = true;
  auto session = runtime::Session::open(plan, kernels, running);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  for (const auto& [name, tensor] : given) {
    const Status set = session->set(name, bytes_of(tensor));
    ASSERT_TRUE(set.has_value()) << set.error().message;
  }
  const Status ran = session->run();
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  EXPECT_EQ(session->arena_bytes(), plan.arena_bytes);
  EXPECT_LE(session->touched_bytes(), plan.arena_bytes);
  NamedTensors got;
  for (const auto& [name, like] : wanted) {
    const auto bytes = session->get(name);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().message;
    got[name] = tensor_of(*bytes, like);
  }
  expect_equal(got, wanted, 1e-4);
}

// Parts that read a strided operand where it lies.
int parts_on_strides(const plan::Plan& plan) {
  int count = 0;
  for (const plan::PlanOp& op : plan.ops)
    count += op.name.starts_with("drawn/part") &&
             std::any_of(op.inputs.begin(), op.inputs.end(), [&](plan::PlanValueId input) {
               return input.valid() && plan.values[input].type.layout.strided();
             });
  return count;
}

class StridedParts : public testing::Test {
 protected:
  // One instance along each of its axes that has two elements to part.
  void check_instance(std::string_view kind, uint64_t seed) {
    Rng rng(seed * 7907 + 11);
    const auto made = ops::random_instance(kind, rng);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const DrawnOp drawn = graph_of(*made, rng, Operands::kStrided);
    if (HasFailure() || drawn.strided == 0) return;
    const auto map = ops::axis_map(ops::instance_of(drawn.graph, drawn.op));
    ASSERT_TRUE(map.has_value()) << map.error().message;
    const NamedTensors wanted = results(drawn.graph, drawn.given);
    for (int axis = 0; axis < static_cast<int>(map->axes.size()); ++axis) {
      const std::string& name = map->axes[static_cast<size_t>(axis)].name;
      const int64_t extent = *map->axes[static_cast<size_t>(axis)].extent.constant();
      if (extent < 2 || !ops::can_split(*map, axis) || taken_.contains(name)) continue;
      SCOPED_TRACE(testing::Message() << kind << ", seed " << seed << ", axis " << name);
      check_cut(drawn, wanted, name, {axis, {0, rng.between(1, extent - 1), extent}});
      if (HasFailure()) return;
    }
  }

  void check_cut(const DrawnOp& drawn, const NamedTensors& wanted, const std::string& name,
                 fission::Cut cut) {
    fission::Cuts cuts(drawn.graph.op_count());
    cuts[drawn.op] = std::move(cut);
    const auto parts = fission::expand(drawn.graph, cuts);
    if (!parts) {
      EXPECT_NE(parts.error().message.find("nothing but padding"), std::string::npos)
          << parts.error().message;
      return;
    }
    const auto graph = with_slices_as_views(parts->graph);
    ASSERT_TRUE(graph.has_value()) << graph.error().message;
    expect_equal(results(*graph, drawn.given), wanted);
    const auto plan = pipeline::optimize(*graph, options_with(*kernels_));
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    expect_runs(plan->plan, *kernels_, drawn.given, wanted);
    ++runs_;
    if (parts_on_strides(plan->plan) > 0) taken_.insert(name);
  }

  std::unique_ptr<runtime::KernelFactory> kernels_ = exec_cpu::make_cpu_kernels({.threads = 1});
  std::set<std::string> taken_;  // axes of the row, by parts that read strides where they lie
  int runs_ = 0;
};

// An axis is done when a part read strides where they lie; of rows that take some strides only, the
// draws before that had copies in front of the parts. RunningUpdate, which reads its batch so, is
// never in parts: it overwrites.
TEST_F(StridedParts, EqualTheWhole) {
  constexpr uint64_t kMost = 3000;
  std::vector<std::string> kinds;
  for (const std::string_view kind : words_of(kTaking)) kinds.emplace_back(kind);
  for (const TakingSome& some : kTakingSome) kinds.emplace_back(some.kind);
  ASSERT_EQ(std::erase(kinds, "RunningUpdate"), 1U);
  const AxesOfRows wanted = splittable_axes();
  size_t axes = 0;
  for (const std::string& kind : kinds) {
    ASSERT_TRUE(wanted.contains(kind)) << kind;
    taken_.clear();
    for (uint64_t seed = 0; seed < kMost && taken_.size() < wanted.at(kind).size(); ++seed) {
      check_instance(kind, seed);
      if (HasFailure()) return;
    }
    EXPECT_EQ(taken_, wanted.at(kind)) << kind;
    axes += taken_.size();
  }
  std::printf("%zu axes of %zu rows in parts that read strides, %d plans run\n", axes, kinds.size(),
              runs_);
  RecordProperty("rows", static_cast<int>(kinds.size()));
  RecordProperty("axes", static_cast<int>(axes));
  EXPECT_EQ(kinds.size(), kRows);
  EXPECT_EQ(axes, kAxes);
}

TEST_F(StridedParts, OfWhatOverwritesAreRefused) {
  Rng rng(3);
  const auto made = ops::random_instance("RunningUpdate", rng);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  const DrawnOp drawn = graph_of(*made, rng);
  fission::Cuts cuts(drawn.graph.op_count());
  cuts[drawn.op] = fission::Cut{0, {0, 1, 2}};
  const auto refused = fission::expand(drawn.graph, cuts);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("'drawn' overwrites"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace lowtide::strided_parts_test
