// The property that any labelling is right, of the training steps of the models: those of
// models/*.onnx with every layer but narrow, and small networks of the kinds of models/*.py
// (tests/data/models). Loss and optimizer are those of `lowtide plan --train`; a step comes as it
// is, and with batch norm in passes and attention in blocks of queries. Over the draws every op
// that can be cut is cut, along axes and with boundaries drawn at random.
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

namespace lowtide {
namespace {

using fission::Cuts;
using Effects = std::map<std::string, std::vector<double>>;

// Of AdamW, as it is by default.
constexpr double kRate = 1e-3, kEpsilon = 1e-8;

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

// Token numbers, labels and masks are 0 or 1.
constexpr int64_t kIntegerLimit = 2;

Effects effects_of(const ir::Graph& graph) {
  return effects(graph, kIntegerLimit);
}

// What two computations may differ by: of a value, so much of its largest number, or of `least`
// where that is larger; more of what the backward pass makes.
struct Tolerance {
  double share = 0, least = 1, backward = share;
  double of(double largest) const { return share * std::max(largest, least); }
  double of_gradient(double largest) const { return backward * std::max(largest, least); }
};
constexpr Tolerance kDouble = {1e-12, 1};
// A ReLU or the maximum of a pool whose operand's sign, or order, is nothing but rounding turns a
// part of the gradient on or off, and these networks have few elements to share that.
constexpr Tolerance kSingle = {1e-4, 1e-3}, kSingleWithKinks = {1e-4, 1e-3, 0.2};

// AdamW divides a gradient by its size, so where a gradient is nothing but rounding a parameter's
// change is, too. How far it goes for a gradient that differs by so much: at most its rate, either
// way, and 1 / epsilon for the smallest ones.
double change_by_adamw(double gradient, double off) {
  const double surely = std::max(std::abs(gradient) - off, 0.0) + kEpsilon;
  return kRate * std::min(2.0, off * kEpsilon / (surely * surely));
}

double largest_of(const std::vector<double>& numbers) {
  double largest = 0;
  for (const double number : numbers) largest = std::max(largest, std::abs(number));
  return largest;
}

// Nothing, or the first result that differs. First moments are a tenth of the gradients.
std::string difference(const Effects& ours, const Effects& wanted, const Tolerance& tolerance) {
  if (ours.size() != wanted.size())
    return fmt::format("{} results instead of {}", ours.size(), wanted.size());
  for (const auto& [name, exact] : wanted) {
    const auto found = ours.find(name);
    if (found == ours.end() || found->second.size() != exact.size())
      return fmt::format("'{}' is missing, or has another size", name);
    const double largest = largest_of(exact);
    const bool is_moment = name.starts_with("new/adam_");
    const double off = is_moment ? tolerance.of_gradient(largest) : tolerance.of(largest);
    const auto moments = wanted.find("new/adam_m/" + name.substr(std::min<size_t>(4, name.size())));
    const bool is_trained = moments != wanted.end();
    const double off_gradient =
        is_trained ? tolerance.of_gradient(10 * largest_of(moments->second)) : 0;
    for (size_t e = 0; e < exact.size(); ++e) {
      const double by_gradient =
          is_trained ? change_by_adamw(10 * moments->second[e], off_gradient) : 0;
      if (!(std::abs(found->second[e] - exact[e]) <= off + by_gradient))
        return fmt::format("'{}'[{}] is {} instead of {}", name, e, found->second[e], exact[e]);
    }
  }
  return {};
}

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
ir::Graph step_of(const Network& network, bool in_parts) {
  io::OnnxOptions reading;
  reading.bindings = network.dims;
  reading.training = true;
  const auto forward = read_narrowed(network.path, network.extents, network.fed, reading);
  EXPECT_TRUE(forward.has_value()) << (forward ? "" : forward.error().message);
  if (!forward) return {};
  std::vector<pipeline::RewriteWorth> worth;
  std::vector<pipeline::Stage> stages;
  pipeline::StageClock clock(stages);
  auto step = pipeline::step_in_one_part(*forward, options_of(in_parts), worth, clock);
  EXPECT_TRUE(step.has_value()) << (step ? "" : step.error().message);
  return step ? std::move(*step) : ir::Graph();
}

// Cuts drawn for one network until every op that can be cut was.
class Labeller {
 public:
  Labeller(const ir::Graph& step, uint64_t seed)
      : step_(step), classes_(classes_of(step)), rng_(seed) {}

  // `rest`: also of whatever was not cut so far.
  Cuts draw(bool rest) {
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
    return cuts;
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

// In the order of the ops, or part by part.
std::string wrong_in_parts(const ir::Graph& step, const Cuts& cuts, bool part_by_part,
                           const Effects& wanted) {
  const auto expanded = fission::expand(step, cuts);
  if (!expanded) return expanded.error().message;
  if (!part_by_part) return difference(effects_of(expanded->graph), wanted, kDouble);
  const fission::Expanded ordered = fission::part_by_part(*expanded);
  return difference(effects_of(ordered.graph), wanted, kDouble);
}

// Nothing, or why the least of the cuts that fail does, and these cuts.
std::string fault_of(const ir::Graph& step, const Cuts& cuts,
                     const std::function<std::string(const Cuts&)>& wrong) {
  if (wrong(cuts).empty()) return {};
  const Cuts least = shrunk(cuts, [&](const Cuts& smaller) { return !wrong(smaller).empty(); });
  return wrong(least) + "\n" + say(step, least);
}

class ModelLabellings : public testing::TestWithParam<Network> {};

TEST_P(ModelLabellings, EqualTheStep) {
  for (const bool in_parts : {false, true}) {
    SCOPED_TRACE(in_parts ? "norms in passes, attention in blocks" : "as it is");
    const ir::Graph step = step_of(GetParam(), in_parts);
    if (HasFailure()) return;
    const Effects wanted = effects_of(step);
    Labeller labeller(step, in_parts ? 11 : 5);
    const int draws = some_of(60, 20);
    for (int draw = 1; draw <= draws; ++draw) {
      const Cuts cuts = labeller.draw(draw == draws);
      const std::string fault = fault_of(step, cuts, [&](const Cuts& some) {
        return wrong_in_parts(step, some, draw % 2 == 0, wanted);
      });
      ASSERT_EQ(fault, "") << "draw " << draw;
    }
    const DrawnCuts& drawn = labeller.drawn();
    std::printf(
        "%s%s: %zu ops, %zu of %zu that can be cut were, %d times in %d parts, %d nests, %zu kinds "
        "of axis\n",
        GetParam().name.c_str(), in_parts ? " in passes" : "", static_cast<size_t>(step.op_count()),
        labeller.ops_cut_once(), labeller.ops_that_can_be_cut(), drawn.ops, drawn.parts,
        drawn.nests, drawn.kinds.size());
    EXPECT_EQ(labeller.ops_cut_once(), labeller.ops_that_can_be_cut());
  }
}

// In one arena of the CPU runtime, in single precision. What is right does not hang on how good the
// order and the addresses are.
Effects effects_on_cpu(const ir::Graph& graph, const runtime::KernelFactory& kernels) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("cpu").value();
  options.kernels = &kernels;
  options.rewrites.without = {"common-ops", "round-trips"};  // of the step before it is cut
  options.order.limits.max_units = options.order.idle_units = 500'000;
  options.pack.limits.max_units = 500'000;
  options.pack_retries = 0;
  pipeline::keep_given_order(options);
  const auto made = pipeline::optimize(graph, options);
  EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().message);
  if (!made) return {};
  runtime::SessionOptions running;
  running.seed = kSeed;
  running.poison = true;
  auto session = runtime::Session::open(made->plan, kernels, running);
  EXPECT_TRUE(session.has_value()) << (session ? "" : session.error().message);
  if (!session) return {};
  session->seed_inputs(kIntegerLimit);
  const Status ran = session->run();
  EXPECT_TRUE(ran.has_value()) << (ran ? "" : ran.error().message);
  Effects all;
  for (const ir::ValueId v : graph.outputs())
    all[graph.value(v).name] = reals_of(*session, graph.value(v));
  for (const ir::ValueId v : graph.values())
    if (graph.value(v).alias == ir::Alias::kUpdate) {
      const ir::ValueId root = graph.storage(graph.value(v).storage).root;
      all[graph.value(v).name] = reals_of(*session, graph.value(root));
    }
  return all;
}

TEST_P(ModelLabellings, EqualTheStepInSinglePrecision) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const Tolerance tolerance = GetParam().has_kinks ? kSingleWithKinks : kSingle;
  const int draws = some_of(16, 16);
  for (int draw = 0; draw < draws; ++draw) {
    SCOPED_TRACE(draw);
    const ir::Graph step = step_of(GetParam(), (draw % 2 == 0) == GetParam().has_kinks);
    if (HasFailure()) return;
    const Effects wanted = effects_of(step);
    Labeller labeller(step, 100 + static_cast<uint64_t>(draw));
    const std::string fault = fault_of(step, labeller.draw(true), [&](const Cuts& cuts) {
      const auto expanded = fission::expand(step, cuts);
      if (!expanded) return expanded.error().message;
      return difference(effects_on_cpu(expanded->graph, *kernels), wanted, tolerance);
    });
    ASSERT_EQ(fault, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelLabellings, testing::ValuesIn(kNetworks),
                         [](const auto& instance) { return instance.param.name; });

class ModelsThatDraw : public testing::TestWithParam<Network> {};

// Ops that draw, and nothing else, in parts: every bit stays, since all of the rest is computed as
// before.
TEST_P(ModelsThatDraw, DrawTheSameBitsInParts) {
  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  const ir::Graph step = step_of(GetParam(), false);
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
    EXPECT_EQ(difference(effects_on_cpu(parts, *kernels), effects_on_cpu(step, *kernels), {}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ModelsThatDraw, testing::Values(kNetworks[0], kNetworks[1]),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace lowtide
