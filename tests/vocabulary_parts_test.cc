// A training step cut along the classes of its cross-entropy: the rewrite that takes the loss apart
// (rewrite/loss_classes.h), the class of axes that then has the vocabulary, its parts in two
// passes, alone and within those of the samples. The reference executor gets the same results of
// them in double precision; the verifier knows the step, and none where a part's share of the
// log-sum-exp or of the labels' logits is lost, taken twice, or counted from another class; and
// they run in one arena of the planned size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/part_order.h"
#include "fission/passes.h"
#include "fission/rules.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "rewrite/loss_classes.h"
#include "support/drawn_cuts.h"
#include "support/graph_writer.h"
#include "support/long_checks.h"
#include "support/quick_plans.h"
#include "support/run_against_reference.h"
#include "support/small_steps.h"
#include "support/wrong_parts.h"
#include "verify/parts.h"

namespace lowtide::vocabulary_parts_test {
namespace {

using fission::AxisClass;
using fission::Cuts;
using ir::OpId;
using ir::ValueId;

// Rows of a language model (its table shared with the embedding, or its own, with a bias), or the
// pixels of an image, each one of more classes than it is wide.
class Classifier : public GraphWriter {
 public:
  explicit Classifier(Rng& rng) : rng_(rng), words_(rng.between(7, 13)) {
    const int64_t form = rng.between(0, 2);
    const ValueId logits = form == 0 ? rows() : form == 1 ? text() : pixels();
    const int64_t axis = form == 1 ? 2 : 1;
    ir::Dims dims = graph_.value(logits).dims;
    dims.erase(dims.begin() + axis);
    ir::Attrs attrs = {{"axis", axis}};
    if (rng_.below(2) == 0) attrs["ignore_index"] = int64_t{2};
    const auto made = ops::append(graph_, "CrossEntropy", {logits, chosen(std::move(dims))}, attrs,
                                  {.name = "loss", .output_names = {"loss", "log_sum_exp"}});
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    result(graph_.op(*made).outputs[0]);
  }

  ir::Graph step() const {
    autodiff::TrainingOptions training;
    training.loss.kind = autodiff::LossKind::kModelOutput;
    training.optimizer.kind = autodiff::OptimizerKind::kSgd;
    auto made = autodiff::make_training_graph(graph_, training);
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return std::move(*made);
  }

 private:
  ValueId weight(ir::Dims dims) { return given("weight", std::move(dims), Category::kParameter); }
  ValueId rows() {
    const ValueId x = op("Tanh", {op("MatMul", {given("rows", {6, 4}), weight({4, 5})})});
    return op("MatMul", {x, weight({5, words_}), weight({words_})});
  }
  ValueId text() {
    const ValueId table = weight({words_, 4});
    ValueId x = op("Gather", {table, chosen({3, 4})}, {{"axis", int64_t{0}}});
    x = op("Tanh", {op("MatMul", {x, weight({4, 4})})});
    return op("MatMul", {x, table}, {{"trans_b", int64_t{1}}});
  }
  ValueId pixels() {
    const ValueId x =
        op("Relu", {op("Conv", {given("image", {3, 2, 4, 3}), weight({4, 2, 1, 1})})});
    return op("Conv", {x, weight({words_, 4, 1, 1}), weight({words_})});
  }
  // Of all words, and beside the least and the greatest.
  ValueId chosen(ir::Dims dims) {
    ir::Value value;
    value.name = graph_.fresh_name("chosen");
    value.dtype = DType::kI64;
    value.category = Category::kInput;
    std::vector<int64_t> numbers(1);
    for (const sym::Expr& dim : dims) numbers.resize(numbers.size() * *dim.constant());
    for (int64_t& number : numbers) number = rng_.between(0, words_ - 1);
    numbers.front() = words_ - 1, numbers.back() = 0;
    value.dims = std::move(dims);
    value.initial.kind = ir::InitialValue::Kind::kInline;
    value.initial.bytes.assign(reinterpret_cast<const char*>(numbers.data()),
                               numbers.size() * sizeof(int64_t));
    return graph_.add_value(std::move(value));
  }

  Rng& rng_;
  const int64_t words_;
};

ir::Graph by_classes(const ir::Graph& step) {
  auto made = rewrite::loss_by_classes(step);
  EXPECT_TRUE(made.has_value() && made->ops == 1);
  return std::move(made->graph);
}

OpId op_of_kind(const ir::Graph& graph, std::string_view kind) {
  for (const OpId id : graph.ops())
    if (graph.op(id).kind == kind) return id;
  ADD_FAILURE() << "no " << kind;
  return OpId(0);
}

// The class that has this axis of the op.
AxisClass class_of(const ir::Graph& graph, OpId op, const std::string& axis) {
  const auto map = ops::axis_map(ops::instance_of(graph, op));
  for (const AxisClass& one : classes_of(graph))
    for (const fission::ClassAxis& member : one.axes)
      if (member.op == op && map->axes[static_cast<size_t>(member.axis)].name == axis) return one;
  ADD_FAILURE() << graph.op(op).name << " has no class along " << axis;
  return {};
}

AxisClass vocabulary_of(const ir::Graph& step) {
  return class_of(step, op_of_kind(step, "CrossEntropyGrad"), "c");
}

// All ops of the class, at the same bounds, anywhere.
Cuts cut_anywhere(const ir::Graph& graph, const AxisClass& axis_class, Rng& rng) {
  const int64_t extent = axis_class.least_extent;
  std::vector<int64_t> bounds = {0, extent};
  for (int64_t more = rng.between(1, 3); more > 0; --more)
    bounds.push_back(rng.between(1, extent - 1));
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  Cuts cuts(graph.op_count());
  for (const fission::ClassAxis& axis : axis_class.axes)
    if (axis.extent == extent) cuts[axis.op] = {axis.axis, bounds};
  return cuts;
}

std::set<std::string> kinds_of(const ir::Graph& graph, const AxisClass& axis_class) {
  std::set<std::string> kinds;
  for (const fission::ClassAxis& axis : axis_class.axes) kinds.insert(graph.op(axis.op).kind);
  return kinds;
}

// Logits, what is summed of them, their gradient and what comes of it are one class, in two passes.
TEST(VocabularyInParts, IsOneClassInTwoPasses) {
  int as_before = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const ir::Graph before = Classifier(rng).step(), step = by_classes(before);
    const AxisClass vocabulary = vocabulary_of(step);
    const auto kinds = kinds_of(step, vocabulary);
    for (const char* kind : {"ReduceLogSumExp", "LabelLogits", "CrossEntropyGrad"})
      EXPECT_TRUE(kinds.contains(kind)) << kind;
    EXPECT_FALSE(kinds.contains("CrossEntropyMean"));
    EXPECT_TRUE(kinds.contains("MatMul") || kinds.contains("Conv")) << "what makes the logits";
    const auto passes = fission::passes_of(step, vocabulary);
    ASSERT_TRUE(passes.has_value()) << passes.error().message;
    EXPECT_EQ(passes->count, 2);
    EXPECT_EQ(passes->of[op_of_kind(step, "ReduceLogSumExp")], 0);
    EXPECT_EQ(passes->of[op_of_kind(step, "LabelLogits")], 0);
    EXPECT_EQ(passes->of[op_of_kind(step, "CrossEntropyGrad")], 1);
    as_before += kinds_of(before, vocabulary_of(before)).contains("CrossEntropy");
  }
  EXPECT_EQ(as_before, 0);
}

TEST(VocabularyInParts, EqualsTheStepAndRunsInOneArena) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  int parts = 0, merged = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(200, 24)); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed * 31 + 2);
    const ir::Graph before = Classifier(rng).step(), step = by_classes(before);
    const Cuts cuts = cut_anywhere(step, vocabulary_of(step), rng);
    const auto expanded = fission::expand(step, cuts);
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    expect_equal_effects(expanded->graph, before);
    const auto by_part = fission::part_by_part(*expanded);
    expect_equal_effects(by_part.graph, before);
    if (HasFailure()) return;
    const auto made = pipeline::optimize(by_part.graph, quick(kernels.get()));
    ASSERT_TRUE(made.has_value()) << made.error().message;
    expect_right_results(made->plan, before, *kernels);
    const verify::PartsReport same = verify::verify_parts(made->plan, step);
    ASSERT_TRUE(same.ok()) << same.findings.front();
    if (HasFailure()) return;
    parts += static_cast<int>(same.parts);
    for (const OpId id : expanded->graph.ops())
      merged += expanded->graph.op(id).kind == "LogAddExp";
  }
  std::printf("%d parts, %d log-sum-exps put together\n", parts, merged);
  EXPECT_GT(merged, 10);
}

// Samples outside, classes inside, and the other way round, as far as ops have both axes.
TEST(VocabularyInParts, WithinSamplesEqualsTheStep) {
  int nested = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(100, 12)); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed * 17 + 5);
    const ir::Graph before = Classifier(rng).step(), step = by_classes(before);
    const AxisClass vocabulary = vocabulary_of(step);
    const AxisClass samples = class_of(step, op_of_kind(step, "ReduceLogSumExp"), "a0");
    Cuts outer = cut_anywhere(step, samples, rng), inner = cut_anywhere(step, vocabulary, rng);
    if (rng.below(2) == 0) std::swap(outer, inner);
    for (const OpId id : step.ops()) {
      if (!inner[id] || !outer[id]) continue;
      if (!can_nest(ops::instance_of(step, id), *outer[id], *inner[id])) continue;
      ++nested;
    }
    for (const OpId id : step.ops())
      if (inner[id] &&
          (!outer[id] || !can_nest(ops::instance_of(step, id), *outer[id], *inner[id])))
        inner[id].reset();
    const auto expanded = fission::expand(step, fission::NestedCuts{outer, inner});
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    expect_equal_effects(expanded->graph, before);
    const auto plan = pipeline::optimize(expanded->graph, quick(nullptr));
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    const verify::PartsReport same = verify::verify_parts(plan->plan, step);
    ASSERT_TRUE(same.ok()) << same.findings.front();
    if (HasFailure()) return;
  }
  std::printf("%d ops along both\n", nested);
  EXPECT_GT(nested, 30);
}

TEST(VocabularyInParts, ALostShareIsFound) {
  int lost = 0, twice = 0, elsewhere = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed + 40);
    const ir::Graph step = by_classes(Classifier(rng).step());
    const auto expanded = fission::expand(step, cut_anywhere(step, vocabulary_of(step), rng));
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    const ir::Graph& parts = expanded->graph;
    EXPECT_TRUE(is_known(changed(parts, OpId(0), [](auto&, auto&) { return false; }), step));
    for (const OpId id : parts.ops()) {
      SCOPED_TRACE(parts.op(id).name);
      if (parts.op(id).kind == "LogAddExp") {
        EXPECT_FALSE(is_known(changed(parts, id, [](auto&, auto&) { return true; }), step));
        const auto again = [](auto& inputs, auto&) { return inputs[1] = inputs[0], false; };
        EXPECT_FALSE(is_known(changed(parts, id, again), step));
        ++lost, ++twice;
      }
      if (parts.op(id).kind == "LabelLogits" && parts.op(id).inputs.size() > 2) {
        const auto drop = [](auto& inputs, auto&) { return inputs.resize(2), false; };
        EXPECT_FALSE(is_known(changed(parts, id, drop), step));
        ++lost;
      }
      if (!parts.op(id).attrs.contains("first_class")) continue;
      const auto shift = [](auto&, auto& attrs) {
        std::get<int64_t>(attrs["first_class"]) +=
            std::get<int64_t>(attrs["first_class"]) > 0 ? -1 : 1;
        return false;
      };
      EXPECT_FALSE(is_known(changed(parts, id, shift), step));
      ++elsewhere;
    }
  }
  std::printf("%d shares lost, %d twice, %d counted from another class\n", lost, twice, elsewhere);
  EXPECT_GT(lost, 6);
  EXPECT_GT(twice, 3);
  EXPECT_GT(elsewhere, 12);
}

// A rule that names the classes of a loss that was not taken apart says what couples them.
TEST(VocabularyInParts, OfALossInOneOpAreRefused) {
  Rng rng(1);
  const ir::Graph step = Classifier(rng).step();
  const auto rule = fission::parse_rule("loss:c:2");
  ASSERT_TRUE(rule.has_value());
  const auto refused = fission::cuts_of(step, std::span(&*rule, 1));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("op 'loss' (CrossEntropy) cannot be cut along c"),
            std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace lowtide::vocabulary_parts_test
