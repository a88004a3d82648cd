// A loss whose labels may be ignored, cut along its rows: how many labels count is found beforehand
// (rewrite/label_counts.h), by ops that are in no class of axes, so the step has one pass. The
// reference executor gets the same results of its parts in double precision, they run in one arena,
// and the verifier knows no part that divides by its own labels or by another number. A loss that
// ignores none divides by its rows, in one part or many: a label that is no class is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "exec/ref/interpreter.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/part_order.h"
#include "fission/passes.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "rewrite/label_counts.h"
#include "rewrite/loss_classes.h"
#include "runtime/session.h"
#include "support/drawn_cuts.h"
#include "support/graph_writer.h"
#include "support/long_checks.h"
#include "support/quick_plans.h"
#include "support/run_against_reference.h"
#include "support/small_steps.h"
#include "support/wrong_parts.h"
#include "verify/parts.h"

namespace lowtide::ignored_labels_test {
namespace {

using fission::AxisClass;
using fission::Cuts;
using ir::OpId;
using ir::ValueId;

// Samples of words; the labels are as they are given, or moved by one word first, as language
// models do it.
class Words : public GraphWriter {
 public:
  Words(Rng& rng, bool moves, bool ignores = true)
      : rng_(rng), samples_(rng.between(3, 6)), words_(rng.between(2, 5)) {
    const ValueId x = given("x", {samples_, words_, kWide});
    const ValueId hidden =
        op("Tanh", {op("MatMul", {x, given("v", {kWide, kWide}, Category::kParameter)})});
    const ValueId scores =
        op("MatMul", {hidden, given("w", {kWide, kClasses}, Category::kParameter)});
    const int64_t rows = samples_ * words_;
    const ValueId logits = op("Reshape", {scores}, {{"shape", ir::Dims{rows, kClasses}}});
    ValueId labels = drawn_labels();
    if (moves) {
      labels = op("Pad", {labels},
                  {{"begins", ir::Dims{0, 0}}, {"ends", ir::Dims{0, 1}}, {"value", 1.0}});
      labels = op("Slice", {labels},
                  {{"starts", ir::Dims{0, 1}},
                   {"sizes", ir::Dims{samples_, words_}},
                   {"steps", ir::Dims{1, 1}}});
    }
    labels = op("Reshape", {labels}, {{"shape", ir::Dims{rows}}});
    ir::Attrs attrs = {{"axis", int64_t{1}}};
    if (ignores) attrs["ignore_index"] = int64_t{1};
    result(op("CrossEntropy", {logits, labels}, std::move(attrs), "loss"));
  }

  ir::Graph step() const {
    autodiff::TrainingOptions training;
    training.loss.kind = autodiff::LossKind::kModelOutput;
    training.optimizer.kind = autodiff::OptimizerKind::kSgd;
    auto made = autodiff::make_training_graph(graph_, training);
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return std::move(*made);
  }
  static constexpr int64_t kWide = 96, kClasses = 120;  // labels are few bytes beside it

 private:
  // Of few classes, so that some are ignored.
  ValueId drawn_labels() {
    ir::Value value;
    value.name = "labels";
    value.dtype = DType::kI64;
    value.category = Category::kInput;
    value.dims = {samples_, words_};
    value.initial.kind = ir::InitialValue::Kind::kInline;
    for (int64_t row = 0; row < samples_ * words_; ++row) {
      const int64_t label = row < 2 ? row : rng_.between(0, 3);
      value.initial.bytes.append(reinterpret_cast<const char*>(&label), sizeof(label));
    }
    return graph_.add_value(std::move(value));
  }

  Rng& rng_;
  const int64_t samples_, words_;
};

ir::Graph counted(const ir::Graph& step) {
  auto made = rewrite::count_labels_first(step);
  EXPECT_TRUE(made.has_value() && made->ops == 2);
  return std::move(made->graph);
}

std::set<std::string> kinds_of(const ir::Graph& graph, const AxisClass& axis_class) {
  std::set<std::string> kinds;
  for (const fission::ClassAxis& axis : axis_class.axes) kinds.insert(graph.op(axis.op).kind);
  return kinds;
}

// The class of the first dimension of what is fed.
AxisClass samples_of(const ir::Graph& graph) {
  for (const AxisClass& one : classes_of(graph))
    for (const fission::ClassAxis& member : one.axes)
      if (graph.op(member.op).kind == "Tanh" && member.axis == 0) return one;
  ADD_FAILURE() << "no class of samples";
  return {};
}

Cuts all_in_parts(const ir::Graph& graph, int64_t parts) {
  const AxisClass samples = samples_of(graph);
  Cuts cuts(graph.op_count());
  for (const fission::ClassAxis& axis : samples.axes)
    cuts[axis.op] = {axis.axis, fission::even_bounds(axis.extent, parts, samples.least_extent)};
  return cuts;
}

TEST(IgnoredLabels, AreCountedBeforeAllParts) {
  for (const bool moves : {false, true}) {
    SCOPED_TRACE(moves);
    Rng rng(3);
    const ir::Graph before = Words(rng, moves).step(), step = counted(before);
    const AxisClass samples = samples_of(step);
    const auto kinds = kinds_of(step, samples);
    for (const char* kind : {"CrossEntropy", "CrossEntropyGrad", "Tanh", "TanhGrad"})
      EXPECT_TRUE(kinds.contains(kind)) << kind;
    for (const char* kind : {"LabelCount", "Pad", "Slice"}) EXPECT_FALSE(kinds.contains(kind));
    EXPECT_EQ(fission::passes_of(step, samples)->count, 1);
    const auto coupled = kinds_of(before, samples_of(before));
    EXPECT_FALSE(coupled.contains("CrossEntropyGrad"));
  }
}

// What all parts divide by, made of labels alone, or of what is fed; of few rows or of many.
ir::Graph weighed_rows(bool by_labels, int64_t wide) {
  constexpr int64_t kRows = 12;
  GraphWriter net;
  const ValueId x = net.op("Tanh", {net.given("x", {kRows, wide})});
  ir::Value labels;
  labels.name = "labels";
  labels.dtype = DType::kI64;
  labels.dims = {kRows};
  labels.category = Category::kInput;
  labels.initial.kind = ir::InitialValue::Kind::kFed;
  const ValueId table = net.given("table", {7}, Category::kParameter);
  const ValueId places = net.graph().add_value(labels);
  ir::Value fed = labels;
  fed.name = "fed";
  fed.dtype = DType::kF32;
  const ValueId by_hand = net.graph().add_value(fed);
  const ValueId weights = by_labels ? net.op("Gather", {table, places}, {{"axis", int64_t{0}}})
                                    : net.op("Exp", {by_hand});
  const ValueId total =
      net.op("ReduceSum", {weights}, {{"axes", ir::Dims{0}}, {"keepdims", int64_t{0}}});
  const ValueId shares =
      net.op("Reshape", {net.op("Div", {weights, total})}, {{"shape", ir::Dims{kRows, 1}}});
  net.result(net.op("Exp", {net.op("Mul", {x, shares})}));
  return net.graph();
}

TEST(IgnoredLabels, WhatIsMadeOfLabelsAloneBeginsNoPass) {
  const auto passes = [](const ir::Graph& graph) {
    return fission::passes_of(graph, samples_of(graph))->count;
  };
  EXPECT_EQ(passes(weighed_rows(true, 200)), 1);
  EXPECT_EQ(passes(weighed_rows(false, 200)), 2) << "what is fed may be all of a batch";
  EXPECT_EQ(passes(weighed_rows(true, 4)), 2) << "not few bytes";
}

TEST(IgnoredLabels, InPartsEqualTheStepAndRunInOneArena) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  int64_t parts = 0;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(100, 12)); ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed * 29 + 1);
    const ir::Graph before = Words(rng, rng.below(2) == 0).step(), whole = counted(before);
    const ir::Graph step = rng.below(3) == 0 ? rewrite::loss_by_classes(whole)->graph : whole;
    const auto expanded = fission::expand(step, all_in_parts(step, rng.between(2, 3)));
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    expect_equal_effects(expanded->graph, before);
    const auto by_part = fission::part_by_part(*expanded);
    const auto made = pipeline::optimize(by_part.graph, quick(kernels.get()));
    ASSERT_TRUE(made.has_value()) << made.error().message;
    expect_right_results(made->plan, before, *kernels);
    const verify::PartsReport same = verify::verify_parts(made->plan, step);
    ASSERT_TRUE(same.ok()) << same.findings.front();
    if (HasFailure()) return;
    parts += same.parts;
  }
  std::printf("%lld parts\n", static_cast<long long>(parts));
  EXPECT_GT(parts, 200);
}

TEST(IgnoredLabels, APartThatDividesByAnotherNumberIsFound) {
  int own = 0, other = 0;
  for (const bool moves : {false, true}) {
    SCOPED_TRACE(moves);
    Rng rng(8);
    const ir::Graph step = counted(Words(rng, moves).step());
    const auto expanded = fission::expand(step, all_in_parts(step, 2));
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    const ir::Graph& parts = expanded->graph;
    EXPECT_TRUE(is_known(changed(parts, OpId(0), [](auto&, auto&) { return false; }), step));
    for (const OpId id : parts.ops()) {
      SCOPED_TRACE(parts.op(id).name);
      const std::string& kind = parts.op(id).kind;
      if (kind == "LabelCount") {
        const auto ignores_another = [](auto&, auto& attrs) {
          return std::get<int64_t>(attrs["ignore_index"]) += 1, false;
        };
        EXPECT_FALSE(is_known(changed(parts, id, ignores_another), step));
        ++other;
      }
      if (kind != "CrossEntropy" && kind != "CrossEntropyGrad") continue;
      const auto by_its_own = [](auto& inputs, auto&) { return inputs.pop_back(), false; };
      EXPECT_FALSE(is_known(changed(parts, id, by_its_own), step));
      ++own;
    }
  }
  EXPECT_EQ(own, 8);
  EXPECT_EQ(other, 2);
}

runtime::Session open_session(const ir::Graph& step, const runtime::KernelFactory& kernels) {
  auto made = pipeline::optimize(step, quick(&kernels));
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  auto session = runtime::Session::open(std::move(made->plan), kernels);
  EXPECT_TRUE(session.has_value()) << (session ? "" : session.error().message);
  session->seed_inputs(0);
  return std::move(*session);
}

// What a message says of the row: which one it is, of how many that the op has.
struct RowOfOp {
  size_t row = 0, rows = 0;
  bool operator==(const RowOfOp&) const = default;
};

RowOfOp row_in(const std::string& message) {
  RowOfOp found;
  const size_t at = message.find("of row ");
  EXPECT_TRUE(at != std::string::npos &&
              std::sscanf(message.c_str() + at, "of row %zu of this op's %zu, counted from 0,",
                          &found.row, &found.rows) == 2)
      << message;
  return found;
}

// Three messages for each row of the whole, one row after the other: parts, if there are any, lie
// one behind the other and count from 0 each.
void expect_rows_in_their_order(const std::vector<RowOfOp>& said, size_t rows, bool in_parts) {
  ASSERT_EQ(said.size(), 3 * rows);
  RowOfOp next = {0, said[0].rows};
  size_t parts = 1;
  for (size_t i = 0; i < said.size(); i += 3) {
    if (next.row == next.rows) {
      next = {0, said[i].rows};
      ++parts;
    }
    for (size_t same = i; same < i + 3; ++same) EXPECT_EQ(said[same], next) << i / 3;
    ++next.row;
  }
  EXPECT_EQ(next.row, next.rows);
  EXPECT_EQ(parts, in_parts ? 3 : 1);
}

// Where no label is ignored, or some are and are counted: in all executors, in one part and many.
TEST(IgnoredLabels, WhatIsNoClassIsRefusedInOnePartAndInMany) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const ref::Context context{.seed_missing_inputs = true};
  for (const bool ignores : {false, true}) {
    SCOPED_TRACE(ignores);
    Rng rng(4);
    const ir::Graph given = Words(rng, false, ignores).step(),
                    step = ignores ? counted(given) : given;
    const auto cut = fission::expand(step, all_in_parts(step, 3));
    ASSERT_TRUE(cut.has_value()) << cut.error().message;
    const ir::Graph graphs[] = {given, step, fission::part_by_part(*cut).graph,
                                rewrite::loss_by_classes(step)->graph};
    for (const ir::Graph& graph : graphs) {
      const auto id = graph.find_value("labels");
      ref::Tensor labels = ref::interpret(graph, {}, context)->at(*id);
      runtime::Session session = open_session(graph, *kernels);
      ASSERT_TRUE(session.run());
      const std::vector<int64_t> right = labels.i;
      std::vector<RowOfOp> said;
      for (size_t row = 0; row < right.size(); ++row)
        for (const int64_t label : {int64_t{-100}, int64_t{-1}, Words::kClasses}) {
          labels.i = right;
          labels.i[row] = label;
          const auto values = ref::interpret(graph, {{"labels", labels}}, context);
          ASSERT_FALSE(values.has_value());
          EXPECT_EQ(values.error().code, ErrorCode::kInput);
          ASSERT_TRUE(session.set("labels", std::as_bytes(std::span(labels.i))));
          const Status status = session.run();
          ASSERT_FALSE(status.has_value());
          EXPECT_EQ(status.error().code, ErrorCode::kInput);
          const std::string& message = status.error().message;
          EXPECT_TRUE(message.starts_with("step 2 was refused, nothing has changed: op 'loss"));
          EXPECT_NE(message.find(fmt::format("label {} of row", label)), std::string::npos)
              << message;
          said.push_back(row_in(message));
        }
      expect_rows_in_their_order(said, right.size(), &graph == &graphs[2] && !ignores);
      ASSERT_TRUE(session.set("labels", std::as_bytes(std::span(right))));
      EXPECT_TRUE(session.run());
    }
  }
}

}  // namespace
}  // namespace lowtide::ignored_labels_test
