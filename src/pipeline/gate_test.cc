// Whatever a bug of ours makes of a plan, it does not leave the pipeline.
#include "pipeline/gate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>

#include "base/file.h"
#include "ir/graph_text.h"
#include "pipeline/front.h"
#include "pipeline/prepare.h"
#include "pipeline/settle_sums.h"
#include "pipeline/testing/layers.h"
#include "plan/plan_text.h"
#include "plan/schedule_text.h"
#include "remat/remat.h"
#include "verify/parts.h"
#include "verify/verify.h"

namespace lowtide::pipeline {
namespace {

namespace fs = std::filesystem;

class GateTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  OptimizeOptions training() const {
    OptimizeOptions options = options_on_cpu();
    options.training.emplace();
    options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
    options.dump_folder = folder_.string();
    options.schedule.remat.limits.max_units = 200'000;
    return options;
  }
  // The right plan of a step, and what the gate is asked where a bug of ours has spoiled it.
  static Status pass_spoiled(const ir::Graph& graph, const OptimizeOptions& options,
                             const std::function<void(plan::Plan&)>& spoil) {
    const auto ready = prepare(graph, options);
    const auto made = optimize(graph, options);
    EXPECT_TRUE(ready.has_value() && made.has_value());
    if (!ready || !made) return {};
    plan::Plan plan = made->plan;
    spoil(plan);
    const auto settled = settle_sums(*ready, ready->unlimited, options);
    EXPECT_TRUE(settled.has_value());
    return pass_gate(plan, {graph, ready->graph, ready->view.problem, options,
                            ready->whole ? &*ready->whole : nullptr,
                            ready->view.sums.empty() ? nullptr : settled->in_any_order.get()});
  }
  // The planner says that it needs less than it does.
  static void lie(plan::Plan& plan) { plan.claims.peak_bytes -= 64; }
  std::string read(const std::string& name, const std::string& of = "lowtide-refused-plan") const {
    const auto text = read_file((folder_ / of / name).string());
    EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().message);
    return text.value_or("");
  }
  std::set<std::string> refused() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.is_directory()) names.insert(entry.path().filename().string());
    return names;
  }

  fs::path folder_;
};

TEST_F(GateTest, ARightPlanPassesAndLeavesNothing) {
  const auto made = optimize(mlp(3, 4, 16), training());
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_TRUE(verify::verify(made->plan).ok());
  ASSERT_FALSE(made->stages.empty());
  EXPECT_EQ(made->stages.back().name, "verify");
  const auto named = [&](const char* name) {
    return std::count_if(made->stages.begin(), made->stages.end(),
                         [&](const Stage& stage) { return stage.name == name; });
  };
  EXPECT_EQ(named("plan"), 1);
  EXPECT_EQ(named("verify"), 1);
  EXPECT_TRUE(refused().empty());
}

TEST_F(GateTest, AWrongPlanIsAnInternalErrorWithAllThatABugReportNeeds) {
  const ir::Graph graph = mlp(3, 4, 16);
  const Status refusal = pass_spoiled(graph, training(), lie);
  ASSERT_FALSE(refusal.has_value());
  EXPECT_EQ(refusal.error().code, ErrorCode::kInternal);
  EXPECT_EQ(exit_code(refusal.error().code), 1);
  const std::string& message = refusal.error().message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_NE(message.find("refused by its verifier"), std::string::npos) << message;
  EXPECT_NE(message.find("peak: "), std::string::npos) << message;
  EXPECT_NE(message.find((folder_ / "lowtide-refused-plan").string()), std::string::npos);

  const auto before = ir::parse_graph(read("graph_before.txt"), "before");
  ASSERT_TRUE(before.has_value()) << before.error().message;
  EXPECT_TRUE(*before == graph);
  const auto after = ir::parse_graph(read("graph_after.txt"), "after");
  ASSERT_TRUE(after.has_value()) << after.error().message;
  EXPECT_GT(after->op_count(), graph.op_count());
  EXPECT_TRUE(plan::parse_schedule_problem(read("problem.txt"), "problem").has_value());
  const auto plan = plan::read_plan(read("plan.lt"), "plan");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  const verify::Report report = verify::verify(*plan);
  ASSERT_TRUE(report.has(verify::Violation::kPeak));
  EXPECT_NE(read("findings.txt").find("peak: " + report.findings[0].message), std::string::npos);
  EXPECT_NE(read("options.txt").find("loss mse\n"), std::string::npos);
  EXPECT_NE(read("device.json").find("\"name\""), std::string::npos);
}

// What the plan says of itself stays true; but half of a layer takes the weight's transpose.
TEST_F(GateTest, AStepInPartsThatComputesSomethingElseIsRefused) {
  OptimizeOptions options = training();
  options.split.parts = 2;
  const auto right = optimize(mlp(3, 64, 16), options);
  ASSERT_TRUE(right.has_value()) << right.error().message;
  ASSERT_GT(right->ops_in_parts, 0);
  const Status refusal = pass_spoiled(mlp(3, 64, 16), options, [](plan::Plan& plan) {
    for (plan::PlanOp& op : plan.ops)
      if (op.name == "MatMul/part1") op.attrs["trans_b"] = int64_t{1};
  });
  ASSERT_FALSE(refusal.has_value());
  EXPECT_EQ(refusal.error().code, ErrorCode::kInternal);
  EXPECT_NE(refusal.error().message.find("parts: op '"), std::string::npos)
      << refusal.error().message;
  const auto whole = ir::parse_graph(read("graph_whole.txt"), "whole");
  ASSERT_TRUE(whole.has_value()) << whole.error().message;
  const auto plan = plan::read_plan(read("plan.lt"), "plan");
  ASSERT_TRUE(plan.has_value()) << plan.error().message;
  EXPECT_TRUE(verify::verify(*plan).ok());
  EXPECT_FALSE(verify::verify_parts(*plan, *whole).ok());
}

// Two layers share a weight, so its gradient is a sum, whose shares come in the order that is best.
// One of them is then another product.
TEST_F(GateTest, AStepWithAWrongShareOfASumIsRefused) {
  ir::Graph graph;
  const auto x = add_value(graph, "x", {16, 16}, Category::kInput);
  const auto w = add_value(graph, "w", {16, 16}, Category::kParameter);
  const auto product = [&](ir::ValueId of) {
    return apply(graph, "MatMul", {of, w, ir::ValueId::none(), ir::ValueId::none()},
                 {{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}});
  };
  graph.set_output(product(apply(graph, "Relu", {product(x)})), true);
  EXPECT_TRUE(pass_spoiled(graph, training(), [](plan::Plan&) {}).has_value());
  int shares = 0;
  const Status refusal = pass_spoiled(graph, training(), [&](plan::Plan& plan) {
    for (plan::PlanOp& op : plan.ops) {
      if (op.kind != "MatMul" || std::get<int64_t>(op.attrs.at("trans_a")) == 0) continue;
      if (shares++ == 0) op.attrs["trans_b"] = int64_t{1};
    }
  });
  EXPECT_EQ(shares, 2);
  ASSERT_FALSE(refusal.has_value());
  EXPECT_NE(refusal.error().message.find("sums: op '"), std::string::npos)
      << refusal.error().message;
}

TEST_F(GateTest, NoReportReplacesAnother) {
  EXPECT_FALSE(pass_spoiled(mlp(2, 4, 16), training(), lie).has_value());
  const std::string first = read("graph_before.txt");
  const Status again = pass_spoiled(mlp(3, 4, 16), training(), lie);
  ASSERT_FALSE(again.has_value());
  EXPECT_NE(again.error().message.find("lowtide-refused-plan-2'"), std::string::npos)
      << again.error().message;
  EXPECT_EQ(read("graph_before.txt"), first);
  EXPECT_NE(read("graph_before.txt", "lowtide-refused-plan-2"), first);
  EXPECT_EQ(refused(), (std::set<std::string>{"lowtide-refused-plan", "lowtide-refused-plan-2"}));
}

TEST_F(GateTest, EveryPlanOfAFrontPassesIt) {
  OptimizeOptions options = training();
  options.schedule.remat.limits.max_units = units_in(0.2);
  const auto choose = [](int64_t floor, int64_t unlimited) {
    return std::vector<int64_t>{unlimited, (floor + unlimited) / 2};
  };
  const auto front = optimize_front(mlp(12, 256, 16), options, choose);
  ASSERT_TRUE(front.has_value()) << front.error().message;
  const auto passed = [](const Optimized& made) {
    return std::count_if(made.stages.begin(), made.stages.end(),
                         [](const Stage& stage) { return stage.name == "verify"; });
  };
  int made = 0;
  for (const FrontPoint& point : front->points) {
    if (!point.made) continue;
    ++made;
    EXPECT_EQ(passed(*point.made), 1) << "plan " << made;
  }
  EXPECT_GT(made, 1) << front->points.back().missed;
}

TEST_F(GateTest, WhereNothingCanBeKeptTheMessageSaysSo) {
  const ir::Graph graph = mlp(2, 4, 16);
  OptimizeOptions options = training();
  const auto made = optimize(graph, options);
  ASSERT_TRUE(made.has_value());
  plan::Plan plan = made->plan;
  plan.claims.peak_bytes -= 64;
  options.dump_folder = (folder_ / "none").string();
  const Status status = pass_gate(plan, {graph, graph, {}, options});
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kInternal);
  EXPECT_NE(status.error().message.find("peak: "), std::string::npos);
  EXPECT_NE(status.error().message.find("could not be kept: "), std::string::npos);
}

// What would make the plan again is all there: each change of an option changes the text, and no
// two changes are the same one.
TEST(PrintedOptions, TellEachChangeThatCanMakeAnotherPlan) {
  using Change = void (*)(OptimizeOptions&);
  const Change changes[] = {
      [](OptimizeOptions& o) { o.training->loss.kind = autodiff::LossKind::kMeanSquaredError; },
      [](OptimizeOptions& o) { o.training->loss.output = "logits"; },
      [](OptimizeOptions& o) { o.training->loss.class_axis = 1; },
      [](OptimizeOptions& o) { o.training->loss.ignore_index = -100; },
      [](OptimizeOptions& o) { o.training->loss.keep_outputs = true; },
      [](OptimizeOptions& o) { o.training->gradient.add_into_buffers = false; },
      [](OptimizeOptions& o) { o.training->optimizer.learning_rate = 0.5; },
      [](OptimizeOptions& o) { o.training->update = false; },
      [](OptimizeOptions& o) { o.training->frozen = {"w0"}; },
      [](OptimizeOptions& o) { o.training.reset(); },
      [](OptimizeOptions& o) { o.device.name = "another"; },
      [](OptimizeOptions& o) { o.budget_bytes = 4096; },
      [](OptimizeOptions& o) {
        o.slow_tiers = {{"host", plan::Link{1e9, 1e9, 1e-6}}};
      },
      [](OptimizeOptions& o) { o.pieces = false; },
      [](OptimizeOptions& o) { o.sums = false; },
      [](OptimizeOptions& o) { o.strided_views = false; },
      [](OptimizeOptions& o) { o.rewrites.with = {"direct-slices"}; },
      [](OptimizeOptions& o) { o.rewrites.without = {"direct-slices"}; },
      [](OptimizeOptions& o) { o.query_blocks = 4; },
      [](OptimizeOptions& o) {
        o.cuts = {{"MatMul", "m", 2}};
      },
      [](OptimizeOptions& o) { o.split.parts = 2; },
      [](OptimizeOptions& o) { o.mutations.*label_mutations().front().member = false; },
      [](OptimizeOptions& o) { o.ideas.windows = false; },
      [](OptimizeOptions& o) {
        o.starts = {{"MatMul", "Relu"}};
      },
      [](OptimizeOptions& o) { o.order.seed = 7; },
      [](OptimizeOptions& o) { o.order.limits.max_units = 1; },
      [](OptimizeOptions& o) { o.order.limits.max_seconds = 1; },
      [](OptimizeOptions& o) { o.order.random_restarts = 0; },
      [](OptimizeOptions& o) { o.order.exact_search = false; },
      [](OptimizeOptions& o) { o.order.cut_bound = false; },
      [](OptimizeOptions& o) { o.pack.limits.max_units = 1; },
      [](OptimizeOptions& o) { o.pack_retries = 0; },
      [](OptimizeOptions& o) { o.schedules_packed = 1; },
      [](OptimizeOptions& o) { o.schedule.recompute = false; },
      [](OptimizeOptions& o) { o.schedule.transfers = false; },
      [](OptimizeOptions& o) { o.schedule.swap.spans.residents = false; },
      [](OptimizeOptions& o) { o.schedule.swap.limits.max_units = 1; },
      [](OptimizeOptions& o) { o.schedule.remat.reorder = false; },
      [](OptimizeOptions& o) { o.schedule.remat.seed = 7; },
      [](OptimizeOptions& o) { o.schedule.remat.limits.max_units = 1; },
      [](OptimizeOptions& o) { o.schedule.remat.cut_start = false; },
      [](OptimizeOptions& o) { o.schedule.remat.several_cuts = false; },
      [](OptimizeOptions& o) { o.proof_units = 1; },
      [](OptimizeOptions& o) { o.most_seconds = 0.5; },
  };
  OptimizeOptions plain = options_on_cpu();
  plain.training.emplace();
  std::set<std::string> texts = {print(plain)};
  for (size_t k = 0; k < std::size(changes); ++k) {
    OptimizeOptions changed = plain;
    changes[k](changed);
    EXPECT_TRUE(texts.insert(print(changed)).second) << "change " << k;
  }
  EXPECT_EQ(texts.size(), std::size(changes) + 1);
}

TEST_F(GateTest, ManyFindingsAreOneLine) {
  const Status refusal =
      pass_spoiled(mlp(3, 4, 16), training(), [](plan::Plan& plan) { plan.steps.clear(); });
  ASSERT_FALSE(refusal.has_value());
  EXPECT_NE(refusal.error().message.find("; and "), std::string::npos);
  EXPECT_EQ(refusal.error().message.find('\n'), std::string::npos);
  const std::string findings = read("findings.txt");
  EXPECT_GT(std::count(findings.begin(), findings.end(), '\n'), 10);
}

}  // namespace
}  // namespace lowtide::pipeline
