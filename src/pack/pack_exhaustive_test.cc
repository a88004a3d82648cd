// The packer against brute force: all small problems, then random ones with alignments, fixed
// buffers and every switch.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "pack/pack.h"
#include "pack/testing/ideas.h"
#include "pack/testing/pack_oracle.h"
#include "plan/testing/max_load.h"

namespace lowtide::pack {
namespace {

// Options under which only the search can do well: one bad heuristic.
PackOptions search_only() {
  PackOptions options;
  options.order_by_size = options.order_by_area = options.order_by_duration = false;
  options.best_fit = false;
  return options;
}

// Every switch at random, two thirds of them on.
PackOptions random_switches(Rng& rng) {
  PackOptions o;
  o.release_bound = true;
  for (const Idea<PackOptions>& idea : all_ideas())
    if (idea.name != "search" && rng.below(3) == 0) idea.turn(o);
  static const std::vector<std::string> kOrders = {"WAT", "TAW", "TWA", "CLU", "OZ", ""};
  o.static_orders.clear();
  for (int64_t k = rng.between(1, 3); k > 0; --k)
    o.static_orders.push_back(kOrders[rng.below(kOrders.size())]);
  return o;
}

// All multisets of `count` buffers with lives within [0, times] and sizes 1..3.
void for_all_small(int64_t times, size_t count, const auto& visit) {
  std::vector<Buffer> kinds;
  for (int64_t begin = 0; begin < times; ++begin)
    for (int64_t end = begin + 1; end <= times; ++end)
      for (int64_t size = 1; size <= 3; ++size) kinds.push_back(buffer(begin, end, size));
  std::vector<size_t> pick(count, 0);
  while (true) {
    std::vector<Buffer> buffers;
    for (size_t k : pick) buffers.push_back(kinds[k]);
    visit(buffers);
    size_t i = count;
    while (i > 0 && pick[i - 1] + 1 == kinds.size()) --i;
    if (i == 0) return;
    const size_t next = pick[i - 1] + 1;
    std::fill(pick.begin() + static_cast<std::ptrdiff_t>(i) - 1, pick.end(), next);
  }
}

TEST(PackExhaustive, AllProblemsOfUpToFourBuffersAreSolvedToOptimality) {
  int64_t cases = 0;
  for (size_t count = 1; count <= 4; ++count)
    for_all_small(count < 4 ? 5 : 4, count, [&](const std::vector<Buffer>& buffers) {
      ++cases;
      expect_optimal(buffers, search_only());
    });
  EXPECT_GT(cases, 50'000);
  EXPECT_FALSE(HasFailure());
}

TEST(PackExhaustive, RandomProblemsAreSolvedToOptimality) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    const auto buffers =
        random_buffers(rng, {.buffers = rng.between(4, 7), .times = 6, .longest = 5, .largest = 4});
    expect_optimal(buffers, search_only());
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(PackExhaustive, TightProblemsAreSolvedToOptimality) {
  int64_t above_load = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    const auto buffers = tight_buffers(rng, rng.between(8, 10), rng.between(8, 10));
    const PackOutcome outcome = expect_optimal(buffers, search_only());
    above_load += outcome.height_bytes > plan::max_load_bytes(problem_of(buffers));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(above_load, 5);  // refutations that the load alone does not give
}

TEST(PackExhaustive, TightProblemsUnderAnySwitchesAreNeverWronglyRefuted) {
  int64_t proven = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    const auto buffers = tight_buffers(rng, rng.between(7, 10), rng.between(7, 10));
    PackOptions options = random_switches(rng);
    options.limits.max_units = 500'000;
    const PackOutcome outcome = solve(problem_of(buffers), options);
    const int64_t best = *best_height(buffers);
    ASSERT_EQ(fault(problem_of(buffers), outcome), "") << "seed " << seed;
    ASSERT_LE(outcome.lower_bound_bytes, best) << "seed " << seed;
    proven += outcome.status == SolveStatus::kOptimal;
  }
  EXPECT_GT(proven, 1500);
}

TEST(PackExhaustive, AlignmentsAndFixedBuffersAreSolvedToOptimality) {
  int64_t infeasible = 0, above_load = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    const auto buffers = random_buffers(rng, {.buffers = rng.between(2, 5),
                                              .times = 5,
                                              .longest = 4,
                                              .largest = 4,
                                              .alignments = true,
                                              .fixed = true});
    const PackOutcome outcome = expect_optimal(buffers, search_only());
    if (outcome.status == SolveStatus::kInfeasible)
      ++infeasible;
    else if (outcome.height_bytes > plan::max_load_bytes(problem_of(buffers)))
      ++above_load;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(infeasible, 10);
  EXPECT_GT(above_load, 100);
}

TEST(PackExhaustive, AnySwitchesKeepValidityAndNeverProveAFalsehood) {
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    Rng rng(seed);
    const PackOptions options = random_switches(rng);
    const bool hard = rng.below(2) == 0;
    const auto buffers = random_buffers(rng, {.buffers = rng.between(2, hard ? 5 : 7),
                                              .times = 6,
                                              .longest = 5,
                                              .largest = 4,
                                              .alignments = hard,
                                              .fixed = hard});
    const PackOutcome outcome = expect_optimal(buffers, options);
    if (outcome.status != SolveStatus::kInfeasible) {
      const int64_t best = outcome.height_bytes;
      for (int64_t capacity = std::max<int64_t>(best - 2, 0); capacity <= best + 1; ++capacity) {
        const PackProblem capped = problem_of(buffers, capacity);
        const PackOutcome answer = solve(capped, options);
        EXPECT_EQ(fault(capped, answer), "");
        EXPECT_EQ(answer.status == SolveStatus::kInfeasible, capacity < best)
            << name(answer.status);
        EXPECT_NE(answer.status, SolveStatus::kLimit);
      }
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(PackExhaustive, WithAnyWorkLimitTheAnswerIsValidAndTheBoundTrue) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Rng rng(seed);
    const auto buffers =
        random_buffers(rng, {.buffers = 7, .times = 6, .longest = 5, .largest = 4});
    const int64_t best = *best_height(buffers);
    for (int64_t limit : {0, 1, 100, 200, 500, 2'000, 10'000}) {
      PackOptions options = random_switches(rng);
      options.limits.max_units = limit;
      const PackOutcome outcome = solve(problem_of(buffers), options);
      ASSERT_EQ(fault(problem_of(buffers), outcome), "") << "seed " << seed;
      ASSERT_LE(outcome.lower_bound_bytes, best) << "seed " << seed;
      ASSERT_GE(outcome.height_bytes, best) << "seed " << seed;
    }
  }
}

// Larger than brute force can do: different switches must agree wherever both decide.
TEST(PackExhaustive, SwitchesAgreeOnMediumProblems) {
  int64_t decided = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const auto buffers = random_buffers(rng, {.buffers = 16,
                                              .times = 12,
                                              .longest = 8,
                                              .largest = 6,
                                              .alignments = seed % 3 == 1,
                                              .fixed = seed % 3 == 2});
    PackOptions plain;  // the least inference that is still quick enough
    plain.memo = plain.release_bound = plain.dominance = plain.decomposition = false;
    plain.limits.max_units = 2'000'000;
    const PackOutcome full = solve(problem_of(buffers));
    const PackOutcome less = solve(problem_of(buffers), plain);
    ASSERT_EQ(fault(problem_of(buffers), full), "") << "seed " << seed;
    ASSERT_EQ(fault(problem_of(buffers), less), "") << "seed " << seed;
    if (full.status == SolveStatus::kInfeasible) continue;
    ASSERT_LE(full.lower_bound_bytes, less.height_bytes) << "seed " << seed;
    ASSERT_LE(less.lower_bound_bytes, full.height_bytes) << "seed " << seed;
    decided += full.status == SolveStatus::kOptimal && less.status == SolveStatus::kOptimal;
  }
  EXPECT_GT(decided, 150);
}

}  // namespace
}  // namespace lowtide::pack
