// The property that any labelling is right, of the training steps of the models: those of
// models/*.onnx with every layer but narrow, and small networks of the kinds of models/*.py
// (tests/data/models). Loss and optimizer are those of `lowtide plan --train`; a step comes as it
// is, and with batch norm in passes and attention in blocks of queries. Over the draws every op
// that can be cut is cut, along axes and with boundaries drawn at random, some within these along a
// second axis. Windows that reach into several pieces read wholes, or copies of what they reach;
// networks with convolutions are also cut as they are run without training, where no gradient
// keeps the wholes.
//
// In double precision the reference executor gets the same results, parameters and moments from the
// step in parts, up to 1e-12 of a value's largest number, or of 1. In single precision the CPU
// runtime gets them in one arena up to 1e-4 of that, or of 0.001, and what hangs on gradients up to
// 0.2 where the network has kinks (kSingle, kSingleWithKinks). A labelling that fails is told as
// small as it can be made. Ops that draw (dropout) draw in parts the bits that they draw whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exec/cpu/cpu.h"
#include "fission/expand.h"
#include "fission/part_order.h"
#include "pipeline/optimize.h"
#include "pipeline/prepare.h"
#include "support/drawn_cuts.h"
#include "support/long_checks.h"
#include "support/narrowed_model.h"
#include "support/run_against_reference.h"
#include "support/shrink_cuts.h"
#include "support/small_steps.h"
#include "verify/parts.h"

namespace lowtide::model_labellings_test {
namespace {

using fission::Cuts;
using fission::NestedCuts;
using fission::Windows;

struct Network {
  std::string name, path;
  sym::Bindings dims;
  Extents extents = {}, fed = {};
  bool has_kinks = true;
};
void PrintTo(const Network& network, std::ostream* out) {
  *out << network.name;
}

const std::string kModels = LOWTIDE_SOURCE_DIR "/models/";

// Of models/small_networks.py.
Network small(const std::string& name, sym::Bindings dims) {
  return {name, LOWTIDE_SOURCE_DIR "/tests/data/models/" + name + ".onnx", std::move(dims)};
}

const Network kNetworks[] = {
    {"bert",
     kModels + "bert.onnx",
     {{"batch", 2}, {"seq", 3}},
     {{768, 8}, {3072, 12}, {64, 4}, {30522, 11}, {512, 6}},
     {},
     false},
    {"gpt2",
     kModels + "gpt2.onnx",
     {{"batch", 2}, {"seq", 3}},
     {{768, 8}, {2304, 24}, {3072, 12}, {64, 4}, {50257, 11}, {1024, 6}},
     {},
     false},
    {"resnet50",
     kModels + "resnet50.onnx",
     {{"batch", 4}},
     {{64, 6}, {128, 7}, {256, 8}, {512, 9}, {1024, 10}, {2048, 11}, {1000, 5}},
     {{224, 48}}},
    {"unet",
     kModels + "unet.onnx",
     {{"batch", 2}},
     {{64, 2}, {128, 4}, {256, 8}, {512, 16}, {1024, 32}},
     {{256, 32}}},
    small("vit", {{"batch", 3}}),
    small("gptneo", {{"batch", 2}, {"seq", 3}}),
    small("btlm", {{"batch", 2}, {"seq", 3}}),
    small("unetpp", {{"batch", 3}}),
    small("unetpp_bn", {{"batch", 3}}),
    small("nasnet0", {{"batch", 2}}),
    small("nasnet3", {{"batch", 3}}),
};

std::vector<Network> networks_of_images() {
  std::vector<Network> chosen;
  for (const Network& network : kNetworks)
    for (const char* family : {"resnet", "unet", "nasnet"})
      if (network.name.starts_with(family)) chosen.push_back(network);
  return chosen;
}

// Token numbers, labels and masks are 0 or 1.
constexpr int64_t kIntegerLimit = 2;

Effects effects_of(const ir::Graph& graph) {
  return effects(graph, kIntegerLimit);
}

// A ReLU or the maximum of a pool whose operand's sign, or order, is nothing but rounding turns a
// part of the gradient on or off, and these networks have few elements to share that.
constexpr Tolerance kSingle = {1e-4, 1e-3}, kSingleWithKinks = {1e-4, 1e-3, 0.2};

pipeline::OptimizeOptions options_of(bool in_parts) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.training.emplace();
  options.training->optimizer.kind = autodiff::OptimizerKind::kAdamW;
  options.training->optimizer.learning_rate = kRate;
  options.training->optimizer.weight_decay = 0.01;
  if (in_parts) options.split.parts = 2, options.query_blocks = 2;
  return options;
}

// As it is planned before ops are cut.
ir::Graph step_of(const Network& network, const pipeline::OptimizeOptions& options) {
  io::OnnxOptions reading;
  reading.bindings = network.dims;
  reading.training = options.training.has_value();
  const auto forward = read_narrowed(network.path, network.extents, network.fed, reading);
  EXPECT_TRUE(forward.has_value()) << (forward ? "" : forward.error().message);
  if (!forward) return {};
  std::vector<pipeline::RewriteWorth> worth;
  std::vector<pipeline::Stage> stages;
  pipeline::StageClock clock(stages);
  auto step = pipeline::step_in_one_part(*forward, options, worth, clock);
  EXPECT_TRUE(step.has_value()) << (step ? "" : step.error().message);
  return step ? std::move(*step) : ir::Graph();
}

// Cuts drawn for one network until every op that can be cut was.
class Labeller {
 public:
  Labeller(const ir::Graph& step, uint64_t seed)
      : step_(step), classes_(classes_of(step)), rng_(seed) {}

  // `rest`: also of whatever was not cut so far.
  NestedCuts draw(bool rest) {
    Cuts cuts(step_.op_count());
    const size_t way = rng_.below(3);  // levels, both, ops alone
    if (way < 2) cuts = levels_of_a_class(step_, classes_, rng_, drawn_.nests);
    const size_t rate = way == 0 ? 0 : 1 + rng_.below(4);
    for (const ir::OpId id : step_.ops()) {
      const std::vector<Choice> all = choices(step_, id, rng_);
      if (all.empty()) continue;
      can_be_cut_.insert(id);
      const bool is_left = rest && !cuts[id] && !cut_.contains(id);
      if (is_left || rng_.below(4) < rate) cuts[id] = least_drawn(id, all).cut;
    }
    count_cuts(step_, cuts, drawn_);
    for (const ir::OpId id : ops_cut(cuts)) cut_.insert(id);
    return with_second_axes(step_, std::move(cuts), rng_, drawn_);
  }

  const DrawnCuts& drawn() const { return drawn_; }
  size_t ops_cut_once() const { return cut_.size(); }
  size_t ops_that_can_be_cut() const { return can_be_cut_.size(); }

 private:
  // Half of the time any of them, else of a kind of axis that was cut least often.
  const Choice& least_drawn(ir::OpId id, const std::vector<Choice>& all) {
    if (rng_.below(2) == 0) return all[rng_.below(all.size())];
    const auto often = [&](const Choice& choice) {
      const auto found = drawn_.kinds.find(step_.op(id).kind + " " + choice.axis);
      return found != drawn_.kinds.end() ? found->second : 0;
    };
    return *std::min_element(all.begin(), all.end(),
                             [&](const Choice& a, const Choice& b) { return often(a) < often(b); });
  }

  const ir::Graph& step_;
  const std::vector<fission::AxisClass> classes_;
  Rng rng_;
  DrawnCuts drawn_;
  std::set<ir::OpId> can_be_cut_, cut_;
};

// How cuts become parts.
struct Way {
  bool part_by_part = false;  // else in the order of the ops
  Windows windows = Windows::kOfWholes;
};
// All of them in turns.
Way way_of(int draw) {
  return {draw % 2 == 0, draw / 2 % 2 == 0 ? Windows::kOfWholes : Windows::kOfPieces};
}

using Compute = std::function<Result<Effects>(const ir::Graph&)>;

std::string wrong_in_parts(const ir::Graph& step, const NestedCuts& cuts, const Way& way,
                           const Compute& compute, const Effects& wanted,
                           const Tolerance& tolerance) {
  auto expanded = fission::expand(step, cuts, way.windows);
  if (!expanded) return expanded.error().message;
  if (way.part_by_part) expanded = fission::part_by_part(*expanded);
  const Result<Effects> ours = compute(expanded->graph);
  return ours ? difference(*ours, wanted, tolerance) : ours.error().message;
}

// Nothing, or why the least of the cuts that fail does, and these cuts.
std::string fault_of(const ir::Graph& step, const NestedCuts& cuts,
                     const std::function<std::string(const NestedCuts&)>& wrong) {
  if (wrong(cuts).empty()) return {};
  const NestedCuts least = shrunk(cuts, [&](const NestedCuts& smaller) {
    return can_nest(step, smaller) && !wrong(smaller).empty();
  });
  return wrong(least) + "\n" + say(step, least);
}

// Of random labellings of a step, every op that can be cut in at least one of them. How many
// operands were copies of what windows reach in several pieces.
int64_t expect_labellings_equal(const ir::Graph& step, const std::string& name, uint64_t seed,
                                int draws) {
  const Effects wanted = effects_of(step);
  Labeller labeller(step, seed);
  int64_t windows = 0;
  for (int draw = 1; draw <= draws && !testing::Test::HasFailure(); ++draw) {
    const NestedCuts cuts = labeller.draw(draw == draws);
    const std::string fault = fault_of(step, cuts, [&](const NestedCuts& some) {
      return wrong_in_parts(step, some, way_of(draw), effects_of, wanted, kDouble);
    });
    EXPECT_EQ(fault, "") << "draw " << draw;
    if (!fault.empty() || way_of(draw).windows == Windows::kOfWholes) continue;
    windows += fission::expand(step, cuts, Windows::kOfPieces)->windows;
  }
  const DrawnCuts& drawn = labeller.drawn();
  std::printf(
      "%s: %zu ops, %zu of %zu that can be cut were, %d times in %d parts, %d along two axes, %d "
      "nests, %zu kinds of axis, %lld windows of pieces\n",
      name.c_str(), static_cast<size_t>(step.op_count()), labeller.ops_cut_once(),
      labeller.ops_that_can_be_cut(), drawn.ops, drawn.parts, drawn.along_two, drawn.nests,
      drawn.kinds.size(), static_cast<long long>(windows));
  EXPECT_EQ(labeller.ops_cut_once(), labeller.ops_that_can_be_cut());
  EXPECT_GT(20 * drawn.along_two, drawn.ops);
  return windows;
}

class ModelLabellings : public testing::TestWithParam<Network> {};

TEST_P(ModelLabellings, EqualTheStep) {
  for (const bool in_parts : {false, true}) {
    SCOPED_TRACE(in_parts ? "norms in passes, attention in blocks" : "as it is");
    const ir::Graph step = step_of(GetParam(), options_of(in_parts));
    if (HasFailure()) return;
    expect_labellings_equal(step, GetParam().name + (in_parts ? " in passes" : ""),
                            in_parts ? 11 : 5, some_of(60, 20));
    if (HasFailure()) return;
  }
}

// For one arena of the CPU runtime, in single precision. What is right does not hang on how good
// the order and the addresses are.
Result<plan::Plan> planned(const ir::Graph& graph, const runtime::KernelFactory& kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = &kernels;
  options.rewrites.without = {"common-ops", "round-trips"};  // of the step before it is cut
  options.order.limits.max_units = options.order.idle_units = 500'000;
  options.pack.limits.max_units = 500'000;
  options.pack_retries = 0;
  pipeline::keep_given_order(options);
  LT_ASSIGN(pipeline::Optimized made, pipeline::optimize(graph, options));
  return std::move(made.plan);
}

Result<Effects> effects_of_plan(const plan::Plan& plan, const ir::Graph& graph,
                                const runtime::KernelFactory& kernels) {
  runtime::SessionOptions running;
  running.seed = kSeed;
  running.poison = true;
  LT_ASSIGN(auto session, runtime::Session::open(plan, kernels, running));
  session.seed_inputs(kIntegerLimit);
  LT_RETURN_IF_ERROR(session.run());
  Effects all;
  for (const ir::ValueId v : graph.outputs())
    all[graph.value(v).name] = reals_of(session, graph.value(v));
  for (const ir::ValueId v : graph.values())
    if (graph.value(v).alias == ir::Alias::kUpdate) {
      const ir::ValueId root = graph.storage(graph.value(v).storage).root;
      all[graph.value(v).name] = reals_of(session, graph.value(root));
    }
  return all;
}

Result<Effects> effects_on_cpu(const ir::Graph& graph, const runtime::KernelFactory& kernels) {
  LT_ASSIGN(const plan::Plan plan, planned(graph, kernels));
  return effects_of_plan(plan, graph, kernels);
}

// Of a random labelling in which every op that can be cut is.
void expect_equal_on_cpu(const ir::Graph& step, uint64_t seed, Windows windows,
                         const runtime::KernelFactory& kernels, const Tolerance& tolerance) {
  const Effects wanted = effects_of(step);
  Labeller labeller(step, seed);
  const auto on_cpu = [&](const ir::Graph& parts) -> Result<Effects> {
    LT_ASSIGN(const plan::Plan plan, planned(parts, kernels));
    const verify::PartsReport same = verify::verify_parts(plan, step);
    if (!same.ok()) return error(ErrorCode::kInternal, "not verified: " + same.findings.front());
    return effects_of_plan(plan, parts, kernels);
  };
  const std::string fault = fault_of(step, labeller.draw(true), [&](const NestedCuts& cuts) {
    return wrong_in_parts(step, cuts, {.windows = windows}, on_cpu, wanted, tolerance);
  });
  EXPECT_EQ(fault, "");
}

TEST_P(ModelLabellings, EqualTheStepInSinglePrecision) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const Tolerance tolerance = GetParam().has_kinks ? kSingleWithKinks : kSingle;
  for (int draw = 0; draw < some_of(16, 16) && !HasFailure(); ++draw) {
    SCOPED_TRACE(draw);
    const bool in_parts = (draw % 2 == 0) == GetParam().has_kinks;
    const ir::Graph step = step_of(GetParam(), options_of(in_parts));
    if (HasFailure()) return;
    expect_equal_on_cpu(step, 100 + static_cast<uint64_t>(draw), way_of(draw + 2).windows, *kernels,
                        tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelLabellings, testing::ValuesIn(kNetworks),
                         [](const auto& instance) { return instance.param.name; });

// Of inputs alone: what is not trained.
class ImageModels : public testing::TestWithParam<Network> {
 protected:
  static ir::Graph inference() {
    pipeline::OptimizeOptions options = options_of(false);
    options.training.reset();
    return step_of(GetParam(), options);
  }
};

TEST_P(ImageModels, EqualTheModel) {
  const ir::Graph model = inference();
  if (HasFailure()) return;
  const std::string name = GetParam().name + " not trained";
  EXPECT_GT(expect_labellings_equal(model, name, 3, some_of(60, 30)), 0);
}

TEST_P(ImageModels, EqualTheModelInSinglePrecision) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const ir::Graph model = inference();
  if (HasFailure()) return;
  for (uint64_t seed = 7; seed < static_cast<uint64_t>(7 + some_of(16, 16)); ++seed)
    expect_equal_on_cpu(model, seed, Windows::kOfPieces, *kernels, kSingle);
}

INSTANTIATE_TEST_SUITE_P(Models, ImageModels, testing::ValuesIn(networks_of_images()),
                         [](const auto& instance) { return instance.param.name; });

class ModelsThatDraw : public testing::TestWithParam<Network> {};

// Ops that draw, and nothing else, in parts: every bit stays, since all of the rest is computed as
// before.
TEST_P(ModelsThatDraw, DrawTheSameBitsInParts) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const ir::Graph step = step_of(GetParam(), options_of(false));
  if (HasFailure()) return;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(8, 8)); ++seed) {
    Rng rng(seed + 31);
    Cuts cuts(step.op_count());
    for (const ir::OpId id : step.ops()) {
      if (!ops::traits(*ops::find(step.op(id).kind)).random) continue;
      const std::vector<Choice> all = choices(step, id, rng);
      ASSERT_FALSE(all.empty()) << step.op(id).name;
      cuts[id] = all[rng.below(all.size())].cut;
    }
    const size_t count = ops_cut(cuts).size();
    EXPECT_EQ(count, 74U) << "37 ops of dropout and their gradients";
    const auto expanded = fission::expand(step, cuts);
    ASSERT_TRUE(expanded.has_value()) << expanded.error().message;
    const ir::Graph& parts = expanded->graph;
    EXPECT_EQ(difference(effects_of(parts), effects_of(step), {}), "");
    const Result<Effects> ours = effects_on_cpu(parts, *kernels),
                          wanted = effects_on_cpu(step, *kernels);
    ASSERT_TRUE(ours && wanted);
    EXPECT_EQ(difference(*ours, *wanted, {}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelsThatDraw, testing::Values(kNetworks[0], kNetworks[1]),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lowtide::model_labellings_test
