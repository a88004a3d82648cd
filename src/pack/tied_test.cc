// Buffers at fixed distances, against brute force and by definition.
#include "pack/tied.h"

#include <gtest/gtest.h>

#include <map>

#include "pack/testing/pack_oracle.h"

namespace lowtide::pack {
namespace {

// fault() of the oracle, and the distances.
std::string tied_fault(const PackProblem& problem, const PackOutcome& outcome) {
  if (outcome.offsets.empty()) return fault(problem, outcome);
  std::map<int32_t, int64_t> base;
  for (BufferId id : problem.buffers.ids()) {
    const auto& tie = problem.buffers[id].tie;
    if (!tie) continue;
    const auto [known, is_new] = base.emplace(tie->group, outcome.offsets[id] - tie->at);
    if (known->second != outcome.offsets[id] - tie->at) return "a distance is not kept";
  }
  return fault(problem, outcome);
}

// The least height by trying every offset of every buffer and every base of every group.
class Trial {
 public:
  explicit Trial(const PackProblem& problem) : buffers_(problem.buffers.raw()) {}
  int64_t least() {
    for (int64_t height = 0;; ++height) {
      at_.clear();
      base_.clear();
      if (fits(height)) return height;
    }
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): one level per buffer
  bool fits(int64_t height) {
    const size_t i = at_.size();
    if (i == buffers_.size()) return true;
    const Buffer& b = buffers_[i];
    const auto known = b.tie ? base_.find(b.tie->group) : base_.end();
    const bool bound = known != base_.end();
    const int64_t only = bound ? known->second + b.tie->at : 0;
    for (int64_t at = bound ? only : 0; at + b.size_bytes <= height && (!bound || at == only);
         ++at) {
      if (at < 0 || clashes(b, at)) continue;
      at_.push_back(at);
      if (b.tie && !bound) base_[b.tie->group] = at - b.tie->at;
      if (fits(height)) return true;
      if (b.tie && !bound) base_.erase(b.tie->group);
      at_.pop_back();
    }
    return false;
  }
  bool clashes(const Buffer& b, int64_t at) const {
    for (size_t j = 0; j < at_.size(); ++j)
      if (clash(b, at, buffers_[j], at_[j])) return true;
    return false;
  }

  const std::vector<Buffer>& buffers_;
  std::vector<int64_t> at_;
  std::map<int32_t, int64_t> base_;
};

Buffer tied(int64_t begin, int64_t end, int64_t size, int32_t group, int64_t at) {
  Buffer b = buffer(begin, end, size);
  b.tie = plan::Tie{group, at};
  return b;
}

TEST(Tied, GroupsKeepTheirDistancesAndOthersGoBetween) {
  // The group's pieces are alive at different times; the third buffer fits between and beside them.
  const PackProblem problem =
      problem_of({tied(0, 4, 2, 0, 0), tied(2, 4, 2, 0, 2), buffer(0, 2, 2), buffer(4, 6, 4)});
  const PackOutcome outcome = solve(problem, {});
  EXPECT_EQ(tied_fault(problem, outcome), "");
  EXPECT_EQ(outcome.status, SolveStatus::kOptimal);
  EXPECT_EQ(outcome.height_bytes, 4);
}

TEST(Tied, ABaseMayLieBelowTheFirstMember) {
  const PackProblem problem = problem_of({tied(0, 2, 1, 0, 7), tied(0, 2, 1, 0, 5)});
  const PackOutcome outcome = solve(problem, {});
  EXPECT_EQ(tied_fault(problem, outcome), "");
  EXPECT_EQ(outcome.height_bytes, 3);
}

PackProblem draw(Rng& rng) {
  std::vector<Buffer> buffers;
  const int64_t groups = rng.between(1, 2);
  for (int32_t g = 0; g < groups; ++g) {
    int64_t at = rng.between(0, 2);
    for (int64_t k = rng.between(2, 3); k > 0; --k) {
      const int64_t begin = rng.between(0, 5), size = rng.between(1, 3);
      buffers.push_back(tied(begin, begin + rng.between(1, 4), size, g, at));
      at += size;
    }
  }
  for (int64_t k = rng.between(0, 4); k > 0; --k) {
    const int64_t begin = rng.between(0, 6);
    buffers.push_back(buffer(begin, begin + rng.between(1, 4), rng.between(1, 4)));
  }
  return problem_of(buffers);
}

TEST(Tied, NearlyAllSmallCasesAreOptimalAndNoneIsWrong) {
  Rng rng(11);
  int best = 0, proven = 0, refuted = 0;
  constexpr int kCases = 400;
  for (int i = 0; i < kCases; ++i) {
    PackProblem problem = draw(rng);
    ASSERT_TRUE(plan::check(problem).has_value());
    const PackOutcome outcome = solve(problem, {});
    ASSERT_EQ(tied_fault(problem, outcome), "") << "case " << i;
    const int64_t least = Trial(problem).least();
    ASSERT_LE(outcome.lower_bound_bytes, least) << "case " << i;
    ASSERT_GE(outcome.height_bytes, least) << "case " << i;
    best += outcome.height_bytes == least;
    proven += outcome.status == SolveStatus::kOptimal;
    problem.capacity_bytes = least - 1;
    const PackOutcome below = solve(problem, {});
    ASSERT_NE(below.status, SolveStatus::kFeasible) << "case " << i;
    ASSERT_NE(below.status, SolveStatus::kOptimal) << "case " << i;
    refuted += below.status == SolveStatus::kInfeasible;
    problem.capacity_bytes = outcome.height_bytes;
    ASSERT_NE(solve(problem, {}).status, SolveStatus::kInfeasible) << "case " << i;
  }
  EXPECT_GE(best, kCases * 97 / 100);
  EXPECT_GT(proven, kCases / 2);
  EXPECT_GT(refuted, kCases / 2);
}

TEST(Tied, TheSameAtAnyNumberOfThreads) {
  Rng rng(3);
  for (int i = 0; i < 20; ++i) {
    const PackProblem problem = draw(rng);
    PackOptions options;
    const auto one = solve(problem, options);
    options.threads = 3;
    EXPECT_EQ(one.offsets, solve(problem, options).offsets);
  }
}

TEST(Tied, RefusesWhatCannotBe) {
  PackProblem overlap = problem_of({tied(0, 2, 3, 0, 0), tied(1, 3, 2, 0, 2)});
  EXPECT_FALSE(plan::check(overlap).has_value());
  PackProblem fixed = problem_of({tied(0, 2, 3, 0, 0)});
  fixed.buffers[BufferId(0)].fixed_offset = 0;
  EXPECT_FALSE(plan::check(fixed).has_value());
  PackProblem empty = problem_of({tied(0, 2, 0, 0, 0)});
  EXPECT_FALSE(plan::check(empty).has_value());
  PackProblem aligned = problem_of({tied(0, 2, 8, 0, 0), tied(0, 2, 8, 0, 8)});
  aligned.buffers[BufferId(1)].alignment_bytes = 8;
  EXPECT_FALSE(plan::check(aligned).has_value()) << "two alignments in a group";
}

TEST(Tied, ManyBuffersBesideAGroupAboveTheCapacity) {
  // Too many to place all by first fit of pairs; the group alone is higher than the capacity asks.
  PackProblem problem = problem_of({tied(0, 2, 10, 0, 0), tied(1, 3, 10, 0, 20)});
  for (int64_t i = 0; i < 5000; ++i) problem.buffers.push_back(buffer(4 + i, 6 + i, 3 + i % 5));
  problem.capacity_bytes = 29;
  const PackOutcome outcome = solve(problem, {});
  EXPECT_EQ(outcome.status, SolveStatus::kInfeasible) << "its span is 30";
  for (BufferId id : problem.buffers.ids())
    if (problem.buffers[id].tie) problem.buffers[id].live = {0, 6000};
  problem.capacity_bytes = 34;  // the load is 33, the hole in the group too small for two
  PackOptions quick;
  quick.limits.max_units = 10'000'000;
  const PackOutcome above = solve(problem, quick);
  EXPECT_EQ(above.offsets.size(), problem.buffers.size());
  EXPECT_EQ(tied_fault(problem, above), "");
}

TEST(Tied, AlignedGroups) {
  Rng rng(8);
  for (int i = 0; i < 100; ++i) {
    PackProblem problem = draw(rng);
    for (BufferId id : problem.buffers.ids()) {
      Buffer& b = problem.buffers[id];
      b.alignment_bytes = 4;
      if (b.tie) b.tie->at *= 4;
    }
    ASSERT_TRUE(plan::check(problem).has_value());
    ASSERT_EQ(tied_fault(problem, solve(problem, {})), "") << i;
  }
}

}  // namespace
}  // namespace lowtide::pack
