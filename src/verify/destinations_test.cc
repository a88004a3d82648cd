// Wholes that are written in slices: a plan whose slices overlap, or in which somebody sees a whole
// before all of it is written, is refused by the verifier and by the naive judge.
#include <gtest/gtest.h>

#include <functional>

#include "ops/op_table.h"
#include "verify/testing/definition.h"
#include "verify/testing/example_plans.h"
#include "verify/verify.h"

namespace lowtide::verify {
namespace {

using ir::ValueId;

class SlicedStep {
 public:
  SlicedStep() {
    ir::Value value;
    value.name = "x";
    value.dims = {4, 3};
    value.category = Category::kInput;
    x_ = graph_.add_value(std::move(value));
  }
  // 3 of 9 columns.
  ValueId write(int64_t begin, ValueId rest = {}) {
    std::vector<ValueId> inputs = {x_};
    if (rest.valid()) inputs.push_back(rest);
    return op("Tanh", std::move(inputs), {{"into", ir::Dims{1, begin, begin + 3, 9}}});
  }
  ValueId op(std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    const auto made = ops::append(graph_, kind, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
    return graph_.op(*made).outputs[0];
  }
  plan::Plan returning(ValueId value) {
    graph_.set_output(value, true);
    Rng rng(1);
    LowerOptions options;
    options.plain = true;
    return lower(graph_, rng, options);
  }

 private:
  ir::Graph graph_;
  ValueId x_;
};

void expect_slices_refused(const plan::Plan& plan, std::string_view message) {
  const Report report = verify(plan);
  ASSERT_GE(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].kind, Violation::kPieces);
  EXPECT_NE(report.findings[0].message.find(message), std::string::npos)
      << report.findings[0].message;
  std::string why;
  EXPECT_FALSE(valid_by_definition(plan, &why));
  EXPECT_EQ(why, "slices");
}

TEST(SlicedWholes, AreReadWhenAllIsWritten) {
  SlicedStep step;
  const plan::Plan plan =
      step.returning(step.op("Exp", {step.write(3, step.write(0, step.write(6)))}));
  const Report report = verify(plan);
  EXPECT_TRUE(report.ok()) << report.findings[0].message;
  std::string why;
  EXPECT_TRUE(valid_by_definition(plan, &why)) << why;
}

TEST(SlicedWholes, WithAGapAreRefused) {
  SlicedStep step;
  expect_slices_refused(step.returning(step.op("Exp", {step.write(0, step.write(6))})),
                        "of which 3 places along axis 1 are not written");
  SlicedStep seen;  // a view of it
  const ValueId view = seen.op("Reshape", {seen.write(0)}, {{"shape", ir::Dims{36}}});
  expect_slices_refused(seen.returning(seen.op("Exp", {view})), "op 'Reshape' reads");
  SlicedStep returned;
  expect_slices_refused(returned.returning(returned.write(0)), "returned before all of it");
}

TEST(SlicedWholes, WithAnOverlapAreRefused) {
  SlicedStep step;
  expect_slices_refused(step.returning(step.write(3, step.write(1, step.write(6)))),
                        "a part of it is written already");
  SlicedStep full;
  const ValueId whole = full.write(3, full.write(0, full.write(6)));
  expect_slices_refused(full.returning(full.write(0, whole)), "lacks no slice along this axis");
}

// The range of one slice is moved in the file.
TEST(SlicedWholes, AMovedSliceIsRefused) {
  SlicedStep step;
  const plan::Plan plan =
      step.returning(step.op("Exp", {step.write(3, step.write(0, step.write(6)))}));
  for (const plan::PlanOpId op : plan.ops.ids())
    for (const int64_t begin : {0, 1, 3, 4, 6}) {
      plan::Plan moved = plan;
      const auto into = moved.ops[op].attrs.find("into");
      if (into == moved.ops[op].attrs.end()) continue;
      auto& range = std::get<std::vector<int64_t>>(into->second);
      if (range[1] == begin) continue;
      range = {1, begin, begin + 3, 9};
      const Report report = verify(moved);
      EXPECT_TRUE(report.has(Violation::kPieces));
      EXPECT_FALSE(valid_by_definition(moved));
    }
}

// Layouts of a gradient are gradients; what a Reorder writes as a slice of one is a part of it.
TEST(SlicedWholes, SlicesOfAGradientMayBeTemporaries) {
  ir::Graph graph;
  ir::Value value;
  value.name = "x";
  value.dims = {4, 3};
  value.category = Category::kInput;
  const ValueId x = graph.add_value(value);
  value.name = "w";
  value.dims = {4, 9};
  value.category = Category::kParameter;
  value.initial.kind = ir::InitialValue::Kind::kSeeded;
  const ValueId w = graph.add_value(value);
  const auto add = [&](const char* kind, std::vector<ValueId> inputs, ir::Attrs attrs, Phase phase,
                       Category category) {
    ops::AppendOptions options;
    options.phase = phase;
    options.category = category;
    const auto op = ops::append(graph, kind, std::move(inputs), std::move(attrs), options);
    EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
    return graph.op(*op).outputs[0];
  };
  ValueId whole;
  for (const int64_t begin : {0, 3, 6}) {
    std::vector<ValueId> inputs = {add("Exp", {x}, {}, Phase::kBackward, Category::kTemporary)};
    if (whole.valid()) inputs.push_back(whole);
    whole = add("Reorder", std::move(inputs),
                {{"layout", std::string("row_major")}, {"into", ir::Dims{1, begin, begin + 3, 9}}},
                Phase::kBackward, begin == 6 ? Category::kGradient : Category::kTemporary);
  }
  add("SgdUpdate", {w, whole}, {{"learning_rate", 0.1}, {"momentum", 0.0}, {"weight_decay", 0.0}},
      Phase::kUpdate, Category::kParameter);
  Rng rng(1);
  LowerOptions options;
  options.plain = true;
  const plan::Plan plan = lower(graph, rng, options);
  for (const Category category : {Category::kTemporary, Category::kInput}) {
    plan::Plan named = plan;
    for (const plan::PlanOp& op : named.ops)
      if (op.kind == "Exp") named.storages[named.values[op.outputs[0]].storage].category = category;
    const Report report = verify(named);
    std::string why;
    EXPECT_EQ(report.ok(), category != Category::kInput)
        << (report.ok() ? "" : report.findings[0].message);
    EXPECT_EQ(valid_by_definition(named, &why), report.ok()) << why;
  }
  plan::Plan wrong = plan;
  for (const plan::PlanOp& op : plan.ops)
    if (op.kind == "SgdUpdate")
      wrong.storages[wrong.values[op.inputs[1]].storage].category = Category::kTemporary;
  EXPECT_TRUE(verify(wrong).has(Violation::kCategory));
  EXPECT_FALSE(valid_by_definition(wrong));
}

}  // namespace
}  // namespace lowtide::verify
