// Whole training steps: slopes of the loss through small models of three kinds, and optimizers
// against their formulas.
#include "autodiff/training.h"

#include <gtest/gtest.h>

#include <functional>

#include "support/gradient_oracle.h"

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

ref::Tensor labels_of(ref::Sizes dims, int64_t classes) {
  ref::Tensor labels = ref::Tensor::zeros(DType::kI64, std::move(dims));
  for (size_t e = 0; e < labels.i.size(); ++e)
    labels.i[e] = static_cast<int64_t>(e * 7 + 1) % classes;
  return labels;
}

// Checks the gradient of every parameter that the model has, and that those of `still` have none.
void expect_training_slopes(const GraphWriter& w, ref::Named given, TrainingOptions options,
                            const std::vector<std::string>& still = {}) {
  options.update = false;
  const auto trained = make_training_graph(w.graph, options);
  ASSERT_TRUE(trained.has_value()) << trained.error().message;
  const ValueId loss = *trained->find_value("loss");
  EXPECT_TRUE(trained->value(loss).is_output);
  const auto values =
      ref::interpret(*trained, given, {.seed = 5, .precision = ref::Precision::kF64});
  ASSERT_TRUE(values.has_value()) << values.error().message;
  for (const ValueId id : w.graph.values()) {
    const ir::Value& value = w.graph.value(id);
    if (value.producer.valid() || value.category != Category::kParameter) continue;
    const auto gradient = trained->find_value("grad/" + value.name);
    const bool frozen = std::count(still.begin(), still.end(), value.name) > 0;
    ASSERT_EQ(gradient.has_value(), !frozen) << value.name;
    if (frozen) continue;
    EXPECT_EQ(trained->value(*gradient).category, Category::kGradient) << value.name;
    expect_slope(*trained, loss, given, value.name, values->at(*gradient));
  }
}

GraphWriter perceptron() {
  GraphWriter w;
  const ValueId x = w.leaf("x", {4, 5}, Category::kInput);
  ValueId h = w.op("MatMul", {x, w.leaf("w1", {5, 6}), w.leaf("b1", {6})}, {}, "dense1");
  h = w.ops("LayerNorm", {h, w.leaf("gamma", {6}), w.leaf("beta", {6})},
            {{"axis", int64_t{1}}, {"epsilon", 1e-5}})[0];
  h = w.op("Relu", {h});
  h = w.op("Dropout", {h}, {{"ratio", 0.25}, {"stream", int64_t{3}}});
  const ValueId y = w.op("MatMul", {h, w.leaf("w2", {3, 6}), w.leaf("b2", {3})},
                         {{"trans_b", int64_t{1}}}, "dense2");
  w.graph.set_output(y, true);
  return w;
}

TEST(Training, SlopesOfAPerceptron) {
  const GraphWriter w = perceptron();
  ref::Named given = w.given;
  given["labels"] = labels_of({4}, 3);
  expect_training_slopes(w, given, {});
}

TEST(Training, SlopesUnderMeanSquaredError) {
  const GraphWriter w = perceptron();
  ref::Named given = w.given;
  given["target"] = ref::Tensor::of(DType::kF32, {4, 3},
                                    std::vector<double>{1, 0, 2, -1, .5, 3, 0, 0, 1, 1, 2, -2});
  TrainingOptions options;
  options.loss.kind = LossKind::kMeanSquaredError;
  expect_training_slopes(w, given, options);
}

// A convolution net with batch normalisation, a residual connection and both kinds of pooling.
GraphWriter convolution_net() {
  GraphWriter w;
  const ValueId x = w.leaf("x", {2, 3, 8, 8}, Category::kInput);
  const ir::Attrs same = {{"pads", ir::Dims{1, 1, 1, 1}}};
  const auto normalise = [&](ValueId v, const std::string& name) {
    const auto made =
        w.ops("BatchNormTrain", {v, w.leaf(name + ".weight", {4}), w.leaf(name + ".bias", {4})},
              {{"epsilon", 1e-5}});
    const ValueId mean = w.leaf(name + ".running_mean", {4}),
                  var = w.leaf(name + ".running_var", {4});
    w.op("RunningUpdate", {mean, made[1]}, {{"momentum", 0.1}});
    w.op("RunningUpdate", {var, made[2]}, {{"momentum", 0.1}, {"correction", 128.0 / 127.0}});
    return made[0];
  };
  ValueId h = w.op("Conv", {x, w.leaf("conv1", {4, 3, 3, 3})}, same);
  h = w.op("Relu", {normalise(h, "bn1")});
  h = w.ops("MaxPool", {h}, {{"kernel", ir::Dims{2, 2}}, {"strides", ir::Dims{2, 2}}})[0];
  ValueId branch = w.op("Conv", {h, w.leaf("conv2", {4, 2, 3, 3}), w.leaf("conv2.bias", {4})},
                        {{"pads", ir::Dims{1, 1, 1, 1}}, {"group", int64_t{2}}});
  branch = w.op("HardSwish", {normalise(branch, "bn2")});
  h = w.op("Add", {branch, h});
  h = w.op("AvgPool", {h}, {{"kernel", ir::Dims{2, 2}}, {"strides", ir::Dims{2, 2}}});
  h = w.op("ReduceMean", {h}, {{"axes", ir::Dims{2, 3}}, {"keepdims", int64_t{0}}});
  const ValueId y = w.op("MatMul", {h, w.leaf("head", {4, 5}), w.leaf("head.bias", {5})});
  w.graph.set_output(y, true);
  return w;
}

const std::vector<std::string> kStatistics = {"bn1.running_mean", "bn1.running_var",
                                              "bn2.running_mean", "bn2.running_var"};

TEST(Training, SlopesOfAConvolutionNet) {
  const GraphWriter w = convolution_net();
  ref::Named given = w.given;
  given["labels"] = labels_of({2}, 5);
  expect_training_slopes(w, given, {}, kStatistics);
}

// A statistic that the network also reads as data, before its update and after: its old contents
// stay for the gradient of the product, no gradient goes into it, and none through its update.
TEST(Training, SlopesBesideAStatisticThatIsDataToo) {
  GraphWriter w;
  const ValueId x = w.leaf("x", {6, 4}, Category::kInput), mean = w.leaf("running_mean", {4});
  const ValueId h = w.op("Mul", {w.op("Mul", {x, w.leaf("scale", {4})}), mean});
  const auto made =
      w.ops("BatchNormTrain", {h, w.leaf("weight", {4}), w.leaf("bias", {4})}, {{"epsilon", 1e-5}});
  const ValueId now = w.op("RunningUpdate", {mean, made[1]}, {{"momentum", 0.1}});
  w.graph.set_output(w.op("Mul", {made[0], w.op("Exp", {now})}), true);
  ref::Named given = w.given;
  given["labels"] = labels_of({6}, 4);
  TrainingOptions options;
  options.update = false;
  const auto trained = make_training_graph(w.graph, options);
  ASSERT_TRUE(trained) << trained.error().message;
  EXPECT_FALSE(trained->find_value("grad/running_mean"));
  EXPECT_TRUE(trained->find_value("running_mean/kept"));
  const auto values =
      ref::interpret(*trained, given, {.seed = 5, .precision = ref::Precision::kF64});
  ASSERT_TRUE(values) << values.error().message;
  // The loss's slope along the bias, which the statistic does not follow; along the scale it would.
  const ValueId loss = *trained->find_value("loss");
  for (const char* name : {"weight", "bias"})
    expect_slope(*trained, loss, given, name,
                 values->at(*trained->find_value(std::string("grad/") + name)));
}

TEST(Training, SlopesOfADenseLabelling) {  // rank 4: classes along axis 1
  GraphWriter w;
  const ValueId x = w.leaf("x", {2, 3, 4, 4}, Category::kInput);
  const ValueId y = w.op("ConvDataGrad", {x, w.leaf("w", {3, 5, 2, 2}), w.leaf("b", {5})},
                         {{"strides", ir::Dims{2, 2}}, {"output_spatial", ir::Dims{8, 8}}});
  w.graph.set_output(y, true);
  ref::Named given = w.given;
  given["labels"] = labels_of({2, 8, 8}, 5);
  expect_training_slopes(w, given, {});
}

// An embedding, one causal attention block with two heads, a gated feed-forward, and a head tied to
// the embedding.
GraphWriter attention_block() {
  GraphWriter w;
  constexpr int64_t kBatch = 2, kLength = 3, kWidth = 4, kHeads = 2;
  const ValueId tokens = w.leaf("tokens", labels_of({kBatch, kLength}, 6));
  const ValueId table = w.leaf("table", {6, kWidth});
  ValueId x = w.op("Gather", {table, tokens}, {{"axis", int64_t{0}}});
  x = w.op("Add", {x, w.leaf("positions", {kLength, kWidth})});
  const ValueId h =
      w.ops("RmsNorm", {x, w.leaf("norm", {kWidth})}, {{"axis", int64_t{2}}, {"epsilon", 1e-5}})[0];
  const auto heads = [&](const std::string& name) {
    const ValueId projected =
        w.op("MatMul", {h, w.leaf(name, {kWidth, kWidth}), w.leaf(name + ".bias", {kWidth})});
    const ValueId split = w.op("Reshape", {projected},
                               {{"shape", ir::Dims{kBatch, kLength, kHeads, kWidth / kHeads}}});
    return w.op("Transpose", {split}, {{"perm", ir::Dims{0, 2, 1, 3}}});
  };
  const ValueId q = heads("q"), k = heads("k"), v = heads("v");
  ValueId scores = w.op("MatMul", {q, k}, {{"trans_b", int64_t{1}}});
  scores = w.op("AffineScalar", {scores}, {{"scale", 0.7}, {"shift", 0.0}});
  const ValueId mask = w.leaf(
      "mask",
      ref::Tensor::of(DType::kBool, {3, 3}, std::vector<int64_t>{1, 0, 0, 1, 1, 0, 1, 1, 1}));
  const ValueId low = w.leaf("low", ref::Tensor::of(DType::kF32, {}, std::vector<double>{-1e4}));
  scores = w.op("Softmax", {w.op("Where", {mask, scores, low})}, {{"axis", int64_t{3}}});
  ValueId mixed =
      w.op("Transpose", {w.op("MatMul", {scores, v})}, {{"perm", ir::Dims{0, 2, 1, 3}}});
  mixed = w.op("Reshape", {mixed}, {{"shape", ir::Dims{kBatch, kLength, kWidth}}});
  x = w.op("Add", {x, w.op("MatMul", {mixed, w.leaf("out", {kWidth, kWidth})})});
  const ValueId gate = w.op("Silu", {w.op("MatMul", {x, w.leaf("gate", {kWidth, 5})})});
  const ValueId up = w.op("Gelu", {w.op("MatMul", {x, w.leaf("up", {kWidth, 5})})},
                          {{"approximate", std::string("tanh")}});
  x = w.op("Add", {x, w.op("MatMul", {w.op("Mul", {gate, up}), w.leaf("down", {5, kWidth})})});
  const ValueId y = w.op("MatMul", {x, table}, {{"trans_b", int64_t{1}}});
  w.graph.set_output(y, true);
  return w;
}

TEST(Training, SlopesOfAnAttentionBlock) {
  const GraphWriter w = attention_block();
  ref::Named given = w.given;
  given["labels"] = labels_of({2, 3}, 6);
  given["labels"].i[4] = -1;
  TrainingOptions options;
  options.loss.ignore_index = -1;
  expect_training_slopes(w, given, options);
}

TEST(Training, FrozenParametersAndKeptOutputs) {
  const GraphWriter w = perceptron();
  TrainingOptions options;
  options.frozen = {"w1", "b1"};
  options.loss.keep_outputs = true;
  const auto graph = make_training_graph(w.graph, options);
  ASSERT_TRUE(graph.has_value());
  EXPECT_FALSE(graph->find_value("new/w1").has_value());
  EXPECT_TRUE(graph->find_value("new/w2").has_value());
  EXPECT_TRUE(graph->value(*graph->find_value("dense2")).is_output);
  options.frozen = {"nobody"};
  EXPECT_FALSE(make_training_graph(w.graph, options).has_value());
  options.frozen = {"w1", "b1", "gamma", "beta", "w2", "b2"};
  EXPECT_FALSE(make_training_graph(w.graph, options).has_value());
}

TEST(Training, UpdatesComeLastInTheOrderOfTheParameters) {
  const GraphWriter w = convolution_net();
  const auto graph = make_training_graph(w.graph, {});
  ASSERT_TRUE(graph.has_value());
  EXPECT_TRUE(ir::check(*graph).has_value());
  int phase = 0;
  std::vector<ValueId> updated;
  for (const ir::OpId id : graph->ops()) {
    const ir::Op& op = graph->op(id);
    EXPECT_GE(static_cast<int>(op.phase), phase) << op.name;
    phase = static_cast<int>(op.phase);
    if (op.phase == Phase::kUpdate) updated.push_back(op.inputs[0]);
    for (const ValueId output : op.outputs)
      EXPECT_EQ(graph->value(output).alias == ir::Alias::kUpdate,
                op.phase == Phase::kUpdate || op.kind == "RunningUpdate");
  }
  EXPECT_TRUE(std::is_sorted(updated.begin(), updated.end()));
  EXPECT_EQ(updated.size(), 9u);
}

TEST(Loss, RefusesWhatDoesNotFit) {
  GraphWriter w;
  const ValueId y = w.op("Relu", {w.leaf("x", {2, 3})});
  EXPECT_FALSE(attach_loss(w.graph).has_value());  // no output
  w.graph.set_output(y, true);
  EXPECT_FALSE(attach_loss(w.graph, {.output = "nobody"}).has_value());
  EXPECT_FALSE(attach_loss(w.graph, {.class_axis = 2}).has_value());
  EXPECT_FALSE(attach_loss(w.graph, {.kind = LossKind::kModelOutput}).has_value());
}

// ---- optimizers

// Minimises the mean squared distance of w to t, whose gradient is 2 (w - t) / 3, for four steps;
// `update` is the formula in plain doubles on one element, with whatever state it keeps.
using Update = std::function<double(size_t element, double w, double gradient, int step)>;

void expect_steps(const OptimizerOptions& optimizer, const std::vector<std::string>& states,
                  const Update& update) {
  GraphWriter writer;
  const ValueId y = writer.op("Copy", {writer.leaf("w", {3})});
  writer.graph.set_output(y, true);
  TrainingOptions options;
  options.loss.kind = LossKind::kMeanSquaredError;
  options.optimizer = optimizer;
  const auto graph = make_training_graph(writer.graph, options);
  ASSERT_TRUE(graph.has_value()) << graph.error().message;
  ref::Named given = writer.given;
  const std::vector<double> target = {0.5, -1.0, 2.0};
  given["target"] = ref::Tensor::of(DType::kF32, {3}, target);
  std::vector<double> expected = given["w"].f;
  for (int step = 1; step <= 4; ++step) {
    const auto values =
        ref::interpret(*graph, given, {.step = step, .precision = ref::Precision::kF64});
    ASSERT_TRUE(values.has_value()) << values.error().message;
    for (size_t e = 0; e < 3; ++e)
      expected[e] = update(e, expected[e], 2 * (expected[e] - target[e]) / 3, step);
    for (const std::string& name : states)
      given[name] = values->at(*graph->find_value("new/" + name));
    for (size_t e = 0; e < 3; ++e) EXPECT_NEAR(given["w"].f[e], expected[e], 1e-12) << step;
  }
}

TEST(Optimizer, Sgd) {
  expect_steps({.learning_rate = 0.1, .weight_decay = 0.05}, {"w"},
               [](size_t, double w, double g, int) { return w - 0.1 * (g + 0.05 * w); });
}

TEST(Optimizer, SgdWithMomentum) {
  std::vector<double> velocity(3, 0.0);
  expect_steps({.learning_rate = 0.1, .weight_decay = 0.01, .momentum = 0.9},
               {"w", "sgd_momentum/w"}, [&](size_t e, double w, double g, int) {
                 velocity[e] = 0.9 * velocity[e] + (g + 0.01 * w);
                 return w - 0.1 * velocity[e];
               });
}

TEST(Optimizer, AdamW) {
  std::vector<double> m(3, 0.0), v(3, 0.0);
  const OptimizerOptions options = {.kind = OptimizerKind::kAdamW,
                                    .learning_rate = 0.02,
                                    .weight_decay = 0.1,
                                    .beta1 = 0.8,
                                    .beta2 = 0.95};
  expect_steps(options, {"w", "adam_m/w", "adam_v/w"}, [&](size_t e, double w, double g, int step) {
    m[e] = 0.8 * m[e] + 0.2 * g;
    v[e] = 0.95 * v[e] + 0.05 * g * g;
    const double first = m[e] / (1 - std::pow(0.8, step)),
                 second = v[e] / (1 - std::pow(0.95, step));
    return w - 0.02 * 0.1 * w - 0.02 * first / (std::sqrt(second) + 1e-8);
  });
}

}  // namespace
}  // namespace lowtide::autodiff
