// The tightest-first search alone, against brute force: what it says of the least height and of one
// less, under every switch, and after it was stopped and resumed.
#include "pack/tightest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "pack/luby.h"
#include "pack/testing/pack_oracle.h"

namespace lowtide::pack {
namespace {

// Whether all parts of the problem fit below `capacity`, in slices of so many units; what is found
// is held against the definition.
Verdict decide(const std::vector<Buffer>& buffers, int64_t capacity, const PackOptions& options,
               int64_t slice) {
  const Instance instance = make_instance(problem_of(buffers), {.gcd_scaling = false});
  PackOutcome outcome;
  outcome.status = SolveStatus::kFeasible;
  outcome.offsets = IdVector<BufferId, int64_t>(buffers.size(), 0);
  outcome.lower_bound_bytes = -1;  // nothing is claimed
  for (const Part& part : instance.parts) {
    const Topology topology = make_topology(part);
    const auto search = make_tightest_search(topology, options);
    search->reset(capacity, static_order(part, options.static_orders.front()));
    Verdict verdict = Verdict::kOpen;
    while (verdict == Verdict::kOpen) verdict = search->run(slice, nullptr);
    if (verdict == Verdict::kRefuted) return verdict;
    for (size_t i = 0; i < part.items.size(); ++i)
      outcome.offsets[part.items[i].id] = search->offsets()[i];
  }
  const PackProblem problem = problem_of(buffers);
  for (BufferId id : problem.buffers.ids()) {
    const Buffer& b = problem.buffers[id];
    outcome.offsets[id] = b.fixed_offset.value_or(outcome.offsets[id]);
    outcome.height_bytes = std::max(outcome.height_bytes, outcome.offsets[id] + b.size_bytes);
  }
  EXPECT_EQ(fault(problem, outcome), "");
  EXPECT_LE(outcome.height_bytes, capacity);
  return Verdict::kFits;
}

PackOptions drawn_switches(Rng& rng) {
  PackOptions options;
  for (bool* flag : {&options.section_weights, &options.not_first, &options.twins,
                     &options.decomposition, &options.memo, &options.restarts})
    *flag = rng.below(4) != 0;
  static const std::vector<std::string> kOrders = {"WAT", "TAW", "TWA", "CLU", "OZ", ""};
  options.static_orders = {kOrders[rng.below(kOrders.size())]};
  return options;
}

// The least height fits and one less is refuted.
void expect_decided(const std::vector<Buffer>& buffers, Rng& rng) {
  const std::optional<int64_t> best = best_height(buffers);
  if (!best) return;
  const PackOptions options = drawn_switches(rng);
  const int64_t slice = rng.between(1, 40);
  EXPECT_EQ(decide(buffers, *best, options, slice), Verdict::kFits);
  if (*best > 0) {
    EXPECT_EQ(decide(buffers, *best - 1, options, slice), Verdict::kRefuted);
  }
}

TEST(Tightest, DecidesFullProblemsAsBruteForceDoes) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    expect_decided(tight_buffers(rng, rng.between(6, 10), rng.between(6, 10)), rng);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Few kinds of buffers, so that many are twins.
TEST(Tightest, DecidesProblemsWithTwinsAsBruteForceDoes) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    expect_decided(
        random_buffers(rng, {.buffers = rng.between(4, 7), .times = 3, .longest = 2, .largest = 2}),
        rng);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Tightest, DecidesProblemsWithAlignmentsAndFixedBuffersAsBruteForceDoes) {
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    Rng rng(seed);
    std::vector<Buffer> buffers = random_buffers(rng, {.buffers = rng.between(2, 6),
                                                       .times = 5,
                                                       .longest = 4,
                                                       .largest = 4,
                                                       .alignments = true,
                                                       .fixed = seed % 2 == 0});
    for (Buffer& b : buffers)  // those without bytes are in no part
      if (b.size_bytes == 0) b.fixed_offset.reset();
    expect_decided(buffers, rng);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Full at every moment and known to fit: the search that starts over finds it, in one piece of work
// or in many.
TEST(Tightest, StoppingAndResumingChangesNothing) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Rng rng(seed);
    const std::vector<Buffer> buffers = tight_buffers(rng, 60, 40);
    const Instance instance = make_instance(problem_of(buffers), {});
    const Part& part = instance.parts.front();
    const Topology topology = make_topology(part);
    const auto whole = make_tightest_search(topology, {});
    const auto pieces = make_tightest_search(topology, {});
    const int64_t capacity = part.bound + 3;
    whole->reset(capacity, static_order(part, "TWA"));
    pieces->reset(capacity, static_order(part, "TWA"));
    const Verdict verdict = whole->run(20'000, nullptr);
    Verdict last = Verdict::kOpen;
    for (int k = 0; k < 40'000 && last == Verdict::kOpen; ++k) last = pieces->run(1, nullptr);
    if (verdict != Verdict::kOpen) {
      EXPECT_EQ(verdict, last);
    }
    if (verdict == Verdict::kFits) {
      EXPECT_EQ(whole->offsets(), pieces->offsets()) << "seed " << seed;
    }
  }
}

TEST(Tightest, LubysSequence) {
  std::vector<int64_t> sequence;
  for (int64_t k = 1; k <= 15; ++k) sequence.push_back(luby(k));
  EXPECT_EQ(sequence, (std::vector<int64_t>{1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8}));
}

}  // namespace
}  // namespace lowtide::pack
