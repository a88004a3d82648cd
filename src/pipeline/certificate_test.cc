// Every id of a certificate becomes that of the plan, and nothing else changes.
#include "pipeline/certificate.h"

#include <gtest/gtest.h>

#include <set>

#include "pipeline/prepare.h"
#include "pipeline/testing/layers.h"

namespace lowtide::pipeline {
namespace {

using plan::PlanOpId;
using plan::PlanStorageId;
using plan::ProblemIds;
using plan::SchedOpId;
using plan::SchedValueId;

// A training step with views: its plan has more ops than its problem.
class InPlan : public testing::Test {
 protected:
  void SetUp() override {
    ir::Graph forward;
    forward.name = "views";
    auto x = add_value(forward, "x", {8, 16}, Category::kInput);
    const auto w = add_value(forward, "w", {16, 16}, Category::kParameter);
    x = apply(forward, "MatMul", {x, w, ir::ValueId::none(), ir::ValueId::none()},
              {{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}});
    x = apply(forward, "Reshape", {x}, {{"shape", ir::Dims{16, 8}}});
    x = apply(forward, "Relu", {x});
    forward.set_output(x, true);
    OptimizeOptions options = options_on_cpu();
    options.training = autodiff::TrainingOptions{};
    auto ready = pose(forward, options);
    ASSERT_TRUE(ready.has_value()) << ready.error().message;
    graph_ = std::move(ready->graph);
    view_ = std::move(ready->view);
    ASSERT_LT(view_.problem.ops.size(), graph_.op_count());
  }

  PlanOpId op(SchedOpId id) const { return PlanOpId(view_.op[id].index()); }
  PlanStorageId storage(SchedValueId id) const { return PlanStorageId(view_.storage[id].index()); }

  ir::Graph graph_;
  analysis::ScheduleView view_;
};

TEST_F(InPlan, NothingStaysNothing) {
  EXPECT_EQ(in_plan(graph_, view_, {}), plan::Certificate());
}

TEST_F(InPlan, ThePrefixOfACutHoldsItsViews) {
  const std::vector<SchedOpId> order(view_.problem.ops.ids().begin(),
                                     view_.problem.ops.ids().end());
  size_t views = 0;
  for (size_t ran = 0; ran < order.size(); ++ran) {
    plan::ProblemCertificate from;
    from.peak = {order[ran], {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(ran)}, 77};
    const plan::Certificate made = in_plan(graph_, view_, from);
    ASSERT_TRUE(made.peak && !made.time && !made.cases);
    EXPECT_EQ(made.peak->op, op(order[ran]));
    EXPECT_EQ(made.peak->value_bytes, 77);
    std::set<PlanOpId> prefix(made.peak->prefix.begin(), made.peak->prefix.end());
    EXPECT_TRUE(std::is_sorted(made.peak->prefix.begin(), made.peak->prefix.end()));
    EXPECT_EQ(prefix.size(), made.peak->prefix.size());
    // By definition: the ops of the problem, and the views of what these and residents are.
    for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(prefix.contains(op(order[i])), i < ran);
    for (ir::OpId id : graph_.ops()) {
      if (!analysis::is_view_op(graph_, id)) continue;
      bool known = true;
      for (ir::ValueId input : graph_.op(id).inputs)
        if (input.valid() && graph_.value(input).producer.valid())
          known &= prefix.contains(PlanOpId(graph_.value(input).producer.index()));
      EXPECT_EQ(prefix.contains(PlanOpId(id.index())), known);
      views += known;
    }
  }
  EXPECT_GT(views, 0u);
}

TEST_F(InPlan, CutsAndCasesKeepTheirNumbers) {
  plan::ProblemCertificate from;
  auto& time = from.time.emplace();
  auto& cases = from.cases.emplace();
  cases.unit_ticks = 12;
  time.shares = {{1, 2}, {3, 4}};
  int32_t k = 0;
  for (SchedOpId id : view_.problem.ops.ids()) {
    const auto index = static_cast<int32_t>(id.index());
    time.cuts.push_back({id, 100 + index});
    time.rerun_multipliers.push_back({0, index, 7 * index});
    cases.cuts.push_back(id);
    cases.nodes.push_back({k - 1,
                           plan::ProofVariable::kAgain,
                           k,
                           index,
                           true,
                           {{plan::ProofRow::kOnce, k, id, {}, 0, 5}}});
    ++k;
  }
  for (SchedValueId id : view_.problem.values.ids()) {
    const auto index = static_cast<int32_t>(id.index());
    time.store_multipliers.push_back({1, index, 3});
    time.copy_multipliers.push_back({2, index, -3});
    cases.nodes.push_back({0,
                           plan::ProofVariable::kStay,
                           1,
                           index,
                           false,
                           {{plan::ProofRow::kStay, 1, {}, id, 64, 9}}});
  }
  const plan::Certificate made = in_plan(graph_, view_, from);
  ASSERT_TRUE(!made.peak && made.time && made.cases);
  EXPECT_EQ(made.time->shares, time.shares);
  EXPECT_EQ(made.cases->unit_ticks, 12);
  const size_t ops = view_.problem.ops.size();
  for (SchedOpId id : view_.problem.ops.ids()) {
    const size_t i = id.index();
    const auto index = static_cast<int32_t>(op(id).index());
    EXPECT_EQ(made.time->cuts[i], (plan::CutPrice{op(id), time.cuts[i].price}));
    EXPECT_EQ(made.time->rerun_multipliers[i],
              (plan::Multiplier{0, index, time.rerun_multipliers[i].value}));
    EXPECT_EQ(made.cases->cuts[i], op(id));
    plan::ProofNode node{static_cast<int32_t>(i) - 1,
                         plan::ProofVariable::kAgain,
                         static_cast<int32_t>(i),
                         index,
                         true,
                         {{plan::ProofRow::kOnce, static_cast<int32_t>(i), op(id), {}, 0, 5}}};
    if (i == 0) node.id = 0;  // the root fixes nothing
    EXPECT_EQ(made.cases->nodes[i], node);
  }
  for (SchedValueId id : view_.problem.values.ids()) {
    const auto index = static_cast<int32_t>(storage(id).index());
    EXPECT_EQ(made.time->store_multipliers[id.index()], (plan::Multiplier{1, index, 3}));
    EXPECT_EQ(made.time->copy_multipliers[id.index()], (plan::Multiplier{2, index, -3}));
    EXPECT_EQ(made.cases->nodes[ops + id.index()],
              (plan::ProofNode{0,
                               plan::ProofVariable::kStay,
                               1,
                               index,
                               false,
                               {{plan::ProofRow::kStay, 1, {}, storage(id), 64, 9}}}));
  }
}

}  // namespace
}  // namespace lowtide::pipeline
