// The label search comes to the same with any number of threads: the same states in the same order,
// with the same estimates and schedules to start from, and as many of them judged and forecast.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "autodiff/training.h"
#include "cost/device.h"
#include "fission/labels.h"
#include "io/onnx_reader.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/step_moves.h"
#include "pipeline/take_rewrites.h"
#include "support/coupled_heads.h"
#include "support/tangled.h"

namespace lowtide::label_threads_test {
namespace {

using pipeline::Candidate;

pipeline::OptimizeOptions options_for(autodiff::LossKind loss) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("rtx3090").value();
  options.device.launch_seconds = 0;  // the ops are too small to be launched several times
  options.training.emplace();
  options.training->loss.kind = loss;
  return options;
}

void expect_same(const Candidate& a, const Candidate& b, const std::string& context) {
  EXPECT_TRUE(a.cuts_as(b)) << context << ": " << print(a.labels) << " and " << print(b.labels);
  EXPECT_EQ(std::tie(a.fits, a.seconds, a.peak_bytes), std::tie(b.fits, b.seconds, b.peak_bytes))
      << context << ": " << print(a.labels);
  EXPECT_EQ(a.starts, b.starts) << context << ": " << print(a.labels);
}

// How many states fit, and how many of each kind there are.
struct Found {
  int64_t fit = 0, kinds[Candidate::kKinds] = {};
};

// With 1, 2 and 4 threads.
Found expect_the_same(const ir::Graph& step, const pipeline::StepMoves& moves,
                      pipeline::OptimizeOptions& options, const std::string& name) {
  const pipeline::LabelSearchTuning tuning = {.most_states = 40,
                                              .states_of_variant = 5,
                                              .closer_looks = 3,
                                              .closer_units = 400'000,
                                              .far_units = 1'000'000,
                                              .remat_units = 200'000};
  std::optional<std::vector<Candidate>> first;
  pipeline::LabelSearchCounts first_counts;
  Found all;
  for (const int threads : {1, 2, 4}) {
    options.schedule.remat.threads = threads;
    pipeline::LabelSearchCounts counts;
    auto found =
        pipeline::label_candidates(step, options, tuning, pipeline::kAnyTime, moves, &counts);
    EXPECT_TRUE(found.has_value()) << name;
    if (!found) return {};
    if (!first) {
      first = *std::move(found);
      first_counts = counts;
      for (const Candidate& one : *first) all.fit += one.fits, ++all.kinds[one.kind()];
      continue;
    }
    const std::string context = name + " with " + std::to_string(threads) + " threads";
    EXPECT_EQ(counts.judged, first_counts.judged) << context;
    EXPECT_EQ(counts.forecast, first_counts.forecast) << context;
    EXPECT_EQ(found->size(), first->size()) << context;
    for (size_t k = 0; k < std::min(found->size(), first->size()); ++k)
      expect_same((*first)[k], (*found)[k], context);
  }
  return all;
}

TEST(LabelThreads, ComeToTheSameOnRandomSteps) {
  pipeline::OptimizeOptions options = options_for(autodiff::LossKind::kModelOutput);
  int64_t fit = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const ir::Graph step = autodiff::make_training_graph(tangled(seed), *options.training).value();
    const int64_t peak = pipeline::peak_as_given(step, options.device.alignment_bytes).value();
    for (const int64_t percent : {30, 60}) {
      options.budget_bytes = peak * percent / 100;
      options.slow_tiers.clear();
      if (seed == 2)
        options.slow_tiers = {{"host", {.bytes_per_second_out = 1e9, .bytes_per_second_in = 1e9}}};
      options.schedule.recompute = seed != 3;
      fit += expect_the_same(step, {}, options, "step " + std::to_string(seed)).fit;
    }
  }
  EXPECT_GT(fit, 20);
}

// With rewrites and blocks of queries; images have more samples than a search cuts.
TEST(LabelThreads, ComeToTheSameOnModels) {
  int64_t fit = 0, moved = 0;
  for (const char* name : {"vit", "gptneo", "unetpp"}) {
    io::OnnxOptions reading;
    reading.training = true;
    reading.dropout = false;
    reading.bindings = {{"batch", 8}};
    if (name == std::string("gptneo")) reading.bindings["seq"] = 12;
    const auto forward = io::read_onnx(
        LOWTIDE_SOURCE_DIR "/tests/data/models/" + std::string(name) + ".onnx", reading);
    ASSERT_TRUE(forward.has_value()) << forward.error().message;
    pipeline::OptimizeOptions options = options_for(autodiff::LossKind::kMeanSquaredError);
    const ir::Graph step = pipeline::step_to_cut(*forward, options).value();
    const int64_t peak = pipeline::peak_as_given(step, options.device.alignment_bytes).value();
    options.budget_bytes = peak * 45 / 100;
    const auto moves = pipeline::step_moves(*forward, step, options).value();
    const Found found = expect_the_same(step, moves, options, name);
    fit += found.fit, moved += found.kinds[1];
  }
  EXPECT_GT(fit, 3);
  EXPECT_GT(moved, 3);
}

// With cuts along a second axis, where samples are few.
TEST(LabelThreads, ComeToTheSameWithCuts) {
  pipeline::OptimizeOptions options = options_for(autodiff::LossKind::kMeanSquaredError);
  options.rewrites.without = {"query-blocks"};
  const ir::Graph forward = coupled_heads(2);
  const ir::Graph step = pipeline::step_to_cut(forward, options).value();
  const int64_t peak = pipeline::peak_as_given(step, options.device.alignment_bytes).value();
  for (const int64_t percent : {30, 50}) {
    options.budget_bytes = peak * percent / 100;
    const auto moves = pipeline::step_moves(forward, step, options).value();
    const Found found = expect_the_same(step, moves, options, "with cuts");
    EXPECT_GT(found.fit, 0) << percent;
    EXPECT_GT(found.kinds[2], 0) << percent;
  }
}

}  // namespace
}  // namespace lowtide::label_threads_test
