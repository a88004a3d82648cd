// What the ideas of the label search decide that can be left out (plan --without forecast, waist):
// on small steps whose ops have many orders, with few states. What they are worth on large ones:
// docs/results.md.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autodiff/training.h"
#include "fission/labels.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"
#include "pipeline/search_ideas.h"
#include "pipeline/take_rewrites.h"
#include "support/tangled.h"

namespace lowtide::label_ideas_test {
namespace {

// What a label search without one of its ideas comes to, beside one with all.
struct Beside {
  int others = 0, worse = 0, better = 0;
  int higher = 0, lower = 0;  // peaks of the same labels, that do not fit with either
  void add(const std::vector<pipeline::Candidate>& with,
           const std::vector<pipeline::Candidate>& without) {
    const auto said = [](const std::vector<pipeline::Candidate>& all) {
      std::vector<std::pair<std::string, int64_t>> text;
      for (const auto& one : all) text.emplace_back(fission::print(one.labels), one.peak_bytes);
      return text;
    };
    const auto rank = [](const pipeline::Candidate& one) {
      return one.fits ? std::pair(0, one.seconds)
                      : std::pair(1, static_cast<double>(one.peak_bytes));
    };
    std::map<std::string, int64_t> peaks;
    for (const auto& one : with)
      if (!one.fits) peaks[fission::print(one.labels)] = one.peak_bytes;
    for (const auto& one : without) {
      const auto same = peaks.find(fission::print(one.labels));
      if (one.fits || same == peaks.end()) continue;
      higher += one.peak_bytes > same->second;
      lower += one.peak_bytes < same->second;
    }
    others += said(with) != said(without);
    worse += rank(with.front()) < rank(without.front());
    better += rank(without.front()) < rank(with.front());
  }
};

// Without the forecast or the narrow waist the label search judges other labels, or judges them
// otherwise, and not better.
TEST(LabelIdeas, DecideSomething) {
  pipeline::OptimizeOptions options;
  options.device = cost::find_device("rtx3090").value();
  options.device.launch_seconds = 0;  // the ops are too small to be launched several times
  options.training.emplace();
  options.training->loss.kind = autodiff::LossKind::kModelOutput;
  std::map<std::string, Beside> found;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const ir::Graph step = autodiff::make_training_graph(tangled(seed), *options.training).value();
    const int64_t peak = pipeline::peak_as_given(step, options.device.alignment_bytes).value();
    options.budget_bytes = peak * 30 / 100;
    const pipeline::LabelSearchTuning tuning = {.most_states = 20, .closer_looks = 0};
    const auto with = pipeline::label_candidates(step, options, tuning);
    ASSERT_TRUE(with.has_value() && !with->empty());
    for (const char* idea : {"forecast", "waist"}) {
      pipeline::OptimizeOptions without = options;
      ASSERT_TRUE(pipeline::do_without({idea}, without).has_value());
      found[idea].add(*with, pipeline::label_candidates(step, without, tuning).value());
    }
  }
  for (const auto& [idea, beside] : found) {
    std::printf(
        "without %s: %d searches are others, %d worse, %d better; of labels that do not fit %d "
        "peaks are higher, %d lower\n",
        idea.c_str(), beside.others, beside.worse, beside.better, beside.higher, beside.lower);
    EXPECT_GT(beside.others, 3) << idea;
  }
  EXPECT_GT(found["forecast"].worse, 2 * found["forecast"].better);
  EXPECT_GT(found["waist"].higher, 2 * found["waist"].lower);
}

}  // namespace
}  // namespace lowtide::label_ideas_test
