// More levers are never slower: on small random steps a plan in parts, with reruns, with transfers
// or with any of these is no slower than one with fewer of them, in any number of even parts
// either, at the same work and within the same budget, but for what a search counts as good enough
// (remat::kJoint.loose). And where it keeps a budget with fewer, it keeps it with more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "autodiff/training.h"
#include "base/rng.h"
#include "pipeline/optimize.h"
#include "remat/joint.h"
#include "support/graph_writer.h"
#include "support/long_checks.h"
#include "verify/verify.h"

namespace lowtide::fewer_levers_test {
namespace {

using ir::ValueId;

constexpr int64_t kSamples = 6;

// Layers of images or of rows, of other sizes. Some add what is several layers back, or are joined
// to it.
ir::Graph random_network(Rng& rng) {
  GraphWriter net;
  const bool images = rng.below(2) == 0;
  const auto width = [&] { return int64_t{4} << rng.below(3); };
  int64_t channels = width();
  const int64_t side = int64_t{6} + 2 * static_cast<int64_t>(rng.below(3));
  std::vector<ValueId> made;
  const auto weight = [&](std::vector<int64_t> dims) {
    return net.given("w", ir::Dims(dims.begin(), dims.end()), Category::kParameter);
  };
  made.push_back(images ? net.given("x", {kSamples, channels, side, side})
                        : net.given("x", {kSamples * 8, channels}));
  const int layers = long_checks() ? static_cast<int>(rng.between(3, 6)) : 2;
  for (int layer = 0; layer < layers; ++layer) {
    ValueId x = made.back();
    const int64_t to = width();
    x = images ? net.op("Conv", {x, weight({to, channels, 3, 3})},
                        {{"strides", ir::Dims{1, 1}}, {"pads", ir::Dims{1, 1, 1, 1}}})
               : net.op("MatMul", {x, weight({channels, to})});
    x = net.op(rng.below(2) == 0 ? "Tanh" : "Sigmoid", {x});
    channels = to;
    for (const ValueId back : made) {
      const int64_t others = net.graph().value(back).dims[1].constant().value();
      if (rng.below(2) != 0) continue;
      const bool joins = others != to;
      x = joins ? net.op("Concat", {x, back}, {{"axis", int64_t{1}}}) : net.op("Add", {x, back});
      channels += joins ? others : 0;
      break;
    }
    made.push_back(x);
  }
  net.result(net.op("Tanh", {made.back()}));
  return net.graph();
}

struct Levers {
  bool split = false, recompute = false, swap = false;
  int64_t parts = 1;  // without `split`
  std::string text() const {
    return std::string(split ? "auto" : std::to_string(parts)) + (recompute ? ", recompute" : "") +
           (swap ? ", swap" : "");
  }
  bool are_among(const Levers& others) const {
    return (parts == others.parts || others.split) && split <= others.split &&
           recompute <= others.recompute && swap <= others.swap;
  }
};

std::vector<Levers> all_levers() {
  std::vector<Levers> all;
  for (const bool recompute : {false, true})
    for (const bool swap : {false, true}) {
      for (const int64_t parts : {1, 2, 3})
        all.push_back({.recompute = recompute, .swap = swap, .parts = parts});
      all.push_back({.split = true, .recompute = recompute, .swap = swap});
    }
  return all;
}

pipeline::OptimizeOptions options_with(double bytes_per_second) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("rtx3090").value();
  options.device.launch_seconds = 0;  // the ops are too small to be launched several times
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kMeanSquaredError;
  options.training->optimizer.kind = autodiff::OptimizerKind::kSgd;
  options.schedule.remat.limits.max_units = 500'000;
  options.order.limits.max_units = options.pack.limits.max_units = 500'000;
  options.schedule.swap.limits.max_units = options.schedule.swap.tidy_units = 500'000;
  options.find_smallest = false;
  options.slow_tiers = {
      {"host",
       {.bytes_per_second_out = bytes_per_second, .bytes_per_second_in = bytes_per_second}}};
  return options;
}

// Seconds of a plan within the budget; none: there is none.
std::optional<double> planned(const ir::Graph& graph, pipeline::OptimizeOptions options,
                              const Levers& levers) {
  options.split = {.parts = levers.split ? 0 : levers.parts};
  options.schedule.recompute = levers.recompute;
  options.schedule.transfers = levers.swap;
  if (!levers.swap) options.slow_tiers.clear();
  const auto made = pipeline::optimize(graph, options);
  if (!made) {
    EXPECT_TRUE(pipeline::is_about_budget(made.error())) << made.error().message;
    return std::nullopt;
  }
  EXPECT_LE(made->plan.arena_bytes, *options.budget_bytes);
  EXPECT_TRUE(verify::verify(made->plan).ok());
  return made->plan.claims.predicted_seconds;
}

TEST(FewerLevers, AreNeverFasterThanMore) {
  Rng rng(5);
  int compared = 0, faster = 0, slower = 0, only_with_more = 0;
  const std::vector<Levers> all = all_levers();
  for (int i = 0; i < some_of(60, 20); ++i) {
    const ir::Graph graph = random_network(rng);
    pipeline::OptimizeOptions options = options_with(rng.below(2) == 0 ? 4e9 : 3e10);
    const auto free = pipeline::optimize(graph, options);
    ASSERT_TRUE(free.has_value()) << free.error().message;
    const int64_t percent = rng.between(35, 90);
    options.budget_bytes = free->plan.arena_bytes * percent / 100;
    std::vector<std::optional<double>> seconds;
    for (const Levers& levers : all) seconds.push_back(planned(graph, options, levers));
    for (size_t more = 0; more < all.size(); ++more)
      for (size_t fewer = 0; fewer < all.size(); ++fewer) {
        if (!all[more].split && !all[more].swap) continue;
        if (fewer == more || !all[fewer].are_among(all[more])) continue;
        const std::string what = "network " + std::to_string(i) + ", " + std::to_string(percent) +
                                 " %: " + all[more].text() + " beside " + all[fewer].text();
        only_with_more += !seconds[fewer] && seconds[more];
        if (!seconds[fewer]) continue;
        ++compared;
        EXPECT_TRUE(seconds[more].has_value()) << what;
        if (!seconds[more]) continue;
        EXPECT_LE(*seconds[more], *seconds[fewer] * (1 + remat::kJoint.loose)) << what;
        faster += *seconds[more] < *seconds[fewer] * (1 - 1e-9);
        slower += *seconds[more] > *seconds[fewer] * (1 + 1e-9);
      }
  }
  std::printf("%d pairs, %d faster with more, %d slower by less than that, %d only with more\n",
              compared, faster, slower, only_with_more);
  EXPECT_GT(faster, 5);
  EXPECT_GT(only_with_more, 5);
}

}  // namespace
}  // namespace lowtide::fewer_levers_test
