#include "rewrite/batch_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "support/graph_writer.h"
#include "support/same_results.h"

namespace lowtide::rewrite {
namespace {

using ir::OpId;
using ir::ValueId;

// Two norms, one behind the other, and their gradients.
struct Norms : GraphWriter {
  static constexpr int64_t kChannels = 3;
  const ir::Attrs epsilon = {{"epsilon", 1e-5}};

  explicit Norms(ir::Dims dims) : scale(vector("scale")), shift(vector("shift")) {
    const ValueId x = given("x", dims);
    const std::vector<ValueId> one = norm("one", x);
    const std::vector<ValueId> two = norm("two", op("Tanh", {one[0]}));
    result(two[0]);
    result(op("RunningUpdate", {vector("running"), one[2]},
              {{"momentum", 0.1}, {"correction", 1.25}}));
    const std::vector<ValueId> back = gradient("two/grad", given("dy", dims), two[0], two);
    const std::vector<ValueId> start = gradient("one/grad", back[0], x, one);
    for (const ValueId v : {back[1], back[2], start[0], start[1], start[2]}) result(v);
  }
  ValueId vector(const std::string& name) { return given(name, {kChannels}, Category::kParameter); }
  std::vector<ValueId> call(const std::string& name, std::string_view kind,
                            std::vector<ValueId> inputs, Phase phase) {
    const auto made = ops::append(graph_, kind, std::move(inputs), epsilon,
                                  {.name = name, .module = "net." + name, .phase = phase});
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return graph_.op(*made).outputs;
  }
  std::vector<ValueId> norm(const std::string& name, ValueId x) {
    return call(name, "BatchNormTrain", {x, scale, shift}, Phase::kForward);
  }
  std::vector<ValueId> gradient(const std::string& name, ValueId dy, ValueId x,
                                const std::vector<ValueId>& of) {
    auto made = call(name, "BatchNormGrad", {dy, x, scale, of[1], of[2]}, Phase::kBackward);
    for (const size_t o : {1, 2}) graph_.set_category(made[o], Category::kGradient);
    return made;
  }
  ValueId scale, shift;
};

TEST(BatchNormInPasses, ComputesTheSame) {
  for (const ir::Dims& dims : {ir::Dims{4, 3}, ir::Dims{2, 3, 5}, ir::Dims{3, 3, 2, 4}}) {
    const ir::Graph graph = Norms(dims).graph();
    const auto made = norm_in_passes(graph);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    EXPECT_EQ(made->ops, 4);
    for (const char* kind : {"BatchNormTrain", "BatchNormGrad"})
      EXPECT_EQ(ops_called(made->graph, kind), 0) << kind;
    for (const char* kind : {"BatchMean", "BatchVariance", "BatchNormInference",
                             "BatchNormGradSums", "BatchNormGradData"})
      EXPECT_EQ(ops_called(made->graph, kind), 2) << kind;
    expect_same_results(graph, made->graph);
  }
}

TEST(BatchNormInPasses, KeepsNamesAndWhatValuesAreFor) {
  const ir::Graph graph = Norms({4, 3}).graph();
  const ir::Graph after = norm_in_passes(graph)->graph;
  for (const ValueId v : graph.values()) {
    const auto now = after.find_value(graph.value(v).name);
    ASSERT_TRUE(now.has_value()) << graph.value(v).name;
    EXPECT_EQ(after.value(*now).category, graph.value(v).category) << graph.value(v).name;
    EXPECT_EQ(after.value(*now).dims, graph.value(v).dims) << graph.value(v).name;
  }
  std::vector<std::string> names;
  for (const OpId id : after.ops()) {
    const ir::Op& op = after.op(id);
    if (!op.kind.starts_with("Batch")) continue;
    names.push_back(op.name);
    const bool backward = op.name.find("/grad") != std::string::npos;
    EXPECT_EQ(op.phase, backward ? Phase::kBackward : Phase::kForward) << op.name;
    EXPECT_EQ(op.module, "net." + op.name.substr(0, 3) + (backward ? "/grad" : "")) << op.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"one/mean", "one/variance", "one", "two/mean",
                                             "two/variance", "two", "two/grad/sums", "two/grad",
                                             "one/grad/sums", "one/grad"}));
}

TEST(BatchNormInPasses, LeavesWhatItDoesNotKnow) {
  GraphWriter w;
  const ValueId x = w.given("x", {sym::Expr::symbol("n"), 3});
  w.result(
      w.op("BatchNormTrain",
           {x, w.given("a", {3}, Category::kParameter), w.given("b", {3}, Category::kParameter)},
           {{"epsilon", 1e-5}}));
  const auto made = norm_in_passes(w.graph());
  ASSERT_TRUE(made.has_value()) << made.error().message;
  EXPECT_EQ(made->ops, 0);
  EXPECT_EQ(ops_called(made->graph, "BatchNormTrain"), 1);
  GraphWriter none;
  none.result(none.op("Relu", {none.given("x", {2, 3})}));
  EXPECT_EQ(norm_in_passes(none.graph())->ops, 0);
}

// A control edge that named the op names what stands for all of it.
TEST(BatchNormInPasses, KeepsControlEdges) {
  GraphWriter w;
  const ValueId x = w.given("x", {4, 3});
  const std::vector<ValueId> operands = {w.op("Tanh", {x}), w.given("a", {3}), w.given("b", {3})};
  w.result(w.op("BatchNormTrain", operands, {{"epsilon", 1e-5}}));
  w.result(w.op("Exp", {x}));
  w.graph().add_control(OpId(0), OpId(1));
  w.graph().add_control(OpId(1), OpId(2));
  const ir::Graph after = norm_in_passes(w.graph())->graph;
  ASSERT_EQ(after.op_count(), 5U);
  for (const size_t id : {1, 2, 3}) EXPECT_EQ(after.op(OpId(id)).control, std::vector{OpId(0)});
  EXPECT_EQ(after.op(OpId(4)).control, std::vector{OpId(3)});
}

}  // namespace
}  // namespace lowtide::rewrite
