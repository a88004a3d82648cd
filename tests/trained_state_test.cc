// What a training step leaves behind. Small networks in which gradients come in other layouts than
// their parameters (convolutions are channels-last, parameters are not), trained for three steps by
// plans with and without a budget: after each step every parameter, state and running statistic is
// what the reference executor makes of the training graph as it was before layouts were chosen.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "exec/ref/interpreter.h"
#include "ops/op_table.h"
#include "pipeline/optimize.h"
#include "runtime/session.h"

namespace lowtide::trained_state_test {
namespace {

using ir::ValueId;

constexpr uint64_t kSeed = 3;
constexpr int kSteps = 3;

class Network {
 public:
  explicit Network(uint64_t seed) : rng_(seed) {
    graph_.name = "small";
    ValueId x = given("x", {2, 4, 6, 6}, Category::kInput);
    for (int layer = 0; layer < 4; ++layer) x = grow(x, layer);
    graph_.set_output(x, true);
  }
  const ir::Graph& graph() const { return graph_; }

 private:
  const ir::Dims& dims(ValueId v) const { return graph_.value(v).dims; }
  ValueId given(std::string name, ir::Dims of, Category category) {
    ir::Value value;
    value.name = std::move(name);
    value.dims = std::move(of);
    value.category = category;
    if (category == Category::kParameter) value.initial.kind = ir::InitialValue::Kind::kSeeded;
    return graph_.add_value(std::move(value));
  }
  ValueId parameter(const std::string& name, ir::Dims of) {
    return given(name, std::move(of), Category::kParameter);
  }
  std::vector<ValueId> ops(std::string_view kind, std::vector<ValueId> inputs,
                           ir::Attrs attrs = {}) {
    const auto op = ops::append(graph_, kind, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(op.has_value()) << (op ? "" : op.error().message);
    return graph_.op(*op).outputs;
  }
  ValueId op(std::string_view kind, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    return ops(kind, std::move(inputs), std::move(attrs))[0];
  }

  ValueId grow(ValueId x, int layer) {
    const std::string name = "l" + std::to_string(layer);
    switch (rng_.below(5)) {
      case 0:
        return op("Add", {convolution(x, name), parameter(name + ".position", dims(x))});
      case 1:
        return normalised(x, name);
      case 2:
        return op("Mul", {x, op("Tanh", {parameter(name + ".gate", dims(x))})});
      case 3:
        return halves(x, name);
      default:
        return op("Relu", {convolution(x, name)});
    }
  }
  ValueId convolution(ValueId x, const std::string& name) {
    const ValueId w = parameter(name + ".kernel", {dims(x)[1], dims(x)[1], 3, 3});
    return op("Conv", {x, w, ValueId::none()},
              {{"strides", ir::Dims{1, 1}},
               {"pads", ir::Dims{1, 1, 1, 1}},
               {"dilations", ir::Dims{1, 1}},
               {"group", int64_t{1}}});
  }
  ValueId normalised(ValueId x, const std::string& name) {
    const ir::Dims channels = {dims(x)[1]};
    const auto made = ops("BatchNormTrain",
                          {convolution(x, name), parameter(name + ".weight", channels),
                           parameter(name + ".bias", channels)},
                          {{"epsilon", 1e-5}});
    op("RunningUpdate", {parameter(name + ".running_mean", channels), made[1]},
       {{"momentum", 0.1}});
    op("RunningUpdate", {parameter(name + ".running_var", channels), made[2]},
       {{"momentum", 0.1}, {"correction", 72.0 / 71.0}});
    return made[0];
  }
  // Views at an offset, and views of those.
  ValueId halves(ValueId x, const std::string& name) {
    const auto half = [&](int64_t begin) {
      const ValueId cut = op("Slice", {x},
                             {{"starts", ir::Dims{begin, 0, 0, 0}},
                              {"sizes", ir::Dims{1, dims(x)[1], 6, 6}},
                              {"steps", ir::Dims{1, 1, 1, 1}}});
      return op("Reshape", {cut}, {{"shape", ir::Dims{dims(x)[1], 6, 6}}});
    };
    const ValueId scaled = op("Mul", {half(1), parameter(name + ".half", {dims(x)[1], 6, 6})});
    const ir::Attrs whole = {{"shape", ir::Dims{1, dims(x)[1], 6, 6}}};
    return op("Concat", {op("Reshape", {half(0)}, whole), op("Reshape", {scaled}, whole)},
              {{"axis", int64_t{0}}});
  }

  Rng rng_;
  ir::Graph graph_;
};

autodiff::TrainingOptions training(autodiff::OptimizerKind kind, double momentum) {
  autodiff::TrainingOptions options;
  options.loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.optimizer.kind = kind;
  options.optimizer.learning_rate = 0.05;
  options.optimizer.momentum = momentum;
  return options;
}

// The values that a step leaves changed, by the name that they have before it.
std::map<std::string, ValueId> updated_values(const ir::Graph& graph) {
  std::map<std::string, ValueId> updated;
  for (ValueId v : graph.values())
    if (graph.value(v).alias == ir::Alias::kUpdate)
      updated[graph.value(graph.storage(graph.value(v).storage).root).name] = v;
  return updated;
}

std::vector<float> floats_of(const runtime::Session& session, const std::string& name) {
  const auto bytes = session.get(name);
  EXPECT_TRUE(bytes.has_value()) << (bytes ? "" : bytes.error().message);
  std::vector<float> values(bytes ? bytes->size() / sizeof(float) : 0);
  if (bytes) std::memcpy(values.data(), bytes->data(), bytes->size());
  return values;
}

double distance(const std::vector<float>& ours, const std::vector<double>& exact) {
  double worst = ours.size() == exact.size() ? 0 : INFINITY;
  for (size_t i = 0; i < exact.size() && i < ours.size(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - exact[i]));
  return worst;
}

void expect_the_same_states(const ir::Graph& forward, const pipeline::OptimizeOptions& options,
                            const runtime::KernelFactory& kernels, int& moved) {
  const auto graph = autodiff::make_training_graph(forward, *options.training);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  const auto made = pipeline::optimize(forward, options);
  ASSERT_TRUE(made.has_value()) << made.error().message;
  runtime::SessionOptions running;
  running.seed = kSeed;
  running.poison = true;
  auto session = runtime::Session::open(made->plan, kernels, running);
  ASSERT_TRUE(session.has_value()) << session.error().message;
  session->seed_inputs(0);
  ref::Named given;
  for (int step = 1; step <= kSteps; ++step) {
    ASSERT_TRUE(session->run().has_value());
    ref::Context context;
    context.seed = kSeed;
    context.step = step;
    context.precision = ref::Precision::kF64;
    context.seed_missing_inputs = true;
    const auto exact = ref::interpret(*graph, given, context);
    ASSERT_TRUE(exact.has_value()) << exact.error().message;
    for (const auto& [name, value] : updated_values(*graph)) {
      const ref::Tensor& expected = exact->at(value);
      EXPECT_LT(distance(floats_of(*session, name), expected.f), 2e-4)
          << name << " after step " << step;
      const auto root = graph->storage(graph->value(value).storage).root;
      moved += expected.f != exact->at(root).f;
      given[name] = expected;
    }
    if (testing::Test::HasFailure()) return;
  }
}

TEST(TrainedState, IsThatOfTheReferenceAfterEachStep) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  int moved = 0, budgets = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Network network(seed);
    pipeline::OptimizeOptions options;
    options.device = cost::find_device("cpu").value();
    options.kernels = kernels.get();
    const bool adam = seed % 3 == 0;
    options.training =
        training(adam ? autodiff::OptimizerKind::kAdamW : autodiff::OptimizerKind::kSgd,
                 seed % 3 == 1 ? 0.9 : 0);
    expect_the_same_states(network.graph(), options, *kernels, moved);
    if (testing::Test::HasFailure()) return;
    const auto whole = pipeline::optimize(network.graph(), options);
    const auto least = pipeline::least_bytes(network.graph(), options);
    ASSERT_TRUE(whole.has_value() && least.has_value());
    options.budget_bytes = (whole->plan.arena_bytes + *least) / 2;
    options.schedule.remat.limits.max_units = 10'000'000;
    if (!pipeline::optimize(network.graph(), options)) continue;
    ++budgets;
    expect_the_same_states(network.graph(), options, *kernels, moved);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(moved, 100);
  EXPECT_GT(budgets, 6);
}

}  // namespace
}  // namespace lowtide::trained_state_test
