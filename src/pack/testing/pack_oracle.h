// Brute force, for tests only: what a valid packing is and how low one can be, both by definition
// and sharing nothing with the packer.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "pack/pack.h"
#include "plan/pack_problem.h"

namespace lowtide::pack {

using plan::Buffer;
using plan::BufferId;
using plan::PackOutcome;
using plan::PackProblem;
using plan::SolveStatus;

inline Buffer buffer(int64_t begin, int64_t end, int64_t size, int64_t alignment = 1,
                     std::optional<int64_t> fixed = std::nullopt) {
  return {"b", {begin, end}, size, alignment, fixed};
}

inline PackProblem problem_of(const std::vector<Buffer>& buffers,
                              std::optional<int64_t> capacity = std::nullopt) {
  PackProblem problem;
  for (const Buffer& b : buffers) problem.buffers.push_back(b);
  problem.capacity_bytes = capacity;
  return problem;
}

inline bool clash(const Buffer& a, int64_t at_a, const Buffer& b, int64_t at_b) {
  if (a.size_bytes == 0 || b.size_bytes == 0) return false;         // no bytes, no overlap
  return a.live.begin < b.live.end && b.live.begin < a.live.end &&  //
         at_a < at_b + b.size_bytes && at_b < at_a + a.size_bytes;
}

// What is wrong with an outcome; empty if nothing is. O(n^2).
inline std::string fault(const PackProblem& problem, const PackOutcome& outcome) {
  const auto& buffers = problem.buffers.raw();
  const auto& at = outcome.offsets.raw();
  if (outcome.status == SolveStatus::kInfeasible)
    return at.empty() ? "" : "infeasible, but there are offsets";
  if (at.size() != buffers.size()) return "offsets are missing";
  int64_t height = 0;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (at[i] < 0 || at[i] % buffers[i].alignment_bytes != 0) return "misaligned";
    if (buffers[i].fixed_offset && at[i] != *buffers[i].fixed_offset)
      return "not at its fixed offset";
    height = std::max(height, at[i] + buffers[i].size_bytes);
    for (size_t j = 0; j < i; ++j)
      if (clash(buffers[i], at[i], buffers[j], at[j]))
        return "buffers " + std::to_string(j) + " and " + std::to_string(i) + " overlap";
  }
  if (height != outcome.height_bytes) return "the height is not that of the offsets";
  if (outcome.lower_bound_bytes > height) return "the bound is above the height";
  const bool proven = outcome.lower_bound_bytes == height;
  const bool fits = !problem.capacity_bytes || height <= *problem.capacity_bytes;
  if (outcome.status == SolveStatus::kOptimal && !(proven && fits))
    return "optimal without a proof";
  if (outcome.status != SolveStatus::kOptimal && proven && fits) return "optimal, but not said so";
  if (outcome.status == SolveStatus::kFeasible && !fits) return "feasible above the capacity";
  return "";
}

// Is there a packing of height at most `height`? Tries every offset of every buffer.
inline bool fits_by_trial(const std::vector<Buffer>& buffers, int64_t height,
                          std::vector<int64_t>& at) {
  const size_t i = at.size();
  if (i == buffers.size()) return true;
  const int64_t first = buffers[i].fixed_offset.value_or(0);
  const int64_t last = buffers[i].fixed_offset.value_or(height - buffers[i].size_bytes);
  for (int64_t offset = first; offset <= last && offset + buffers[i].size_bytes <= height;
       offset += buffers[i].alignment_bytes) {
    bool free = true;
    for (size_t j = 0; j < i && free; ++j) free = !clash(buffers[j], at[j], buffers[i], offset);
    if (!free) continue;
    at.push_back(offset);
    if (fits_by_trial(buffers, height, at)) return true;
    at.pop_back();
  }
  return false;
}

// The least height of any packing; nothing if there is none (fixed buffers overlap).
inline std::optional<int64_t> best_height(const std::vector<Buffer>& buffers) {
  int64_t most = 0;  // a packing of this height exists unless fixed ones clash
  for (const Buffer& b : buffers)
    most += b.size_bytes + b.alignment_bytes + b.fixed_offset.value_or(0);
  std::vector<int64_t> at;
  std::vector<Buffer> fixed;
  for (const Buffer& b : buffers)
    if (b.fixed_offset) fixed.push_back(b);
  if (!fits_by_trial(fixed, most, at)) return std::nullopt;
  for (int64_t height = 0;; ++height) {
    at.clear();
    if (fits_by_trial(buffers, height, at)) return height;
  }
}

// Fails the test if solve(problem) is not valid and optimal; returns the outcome.
inline PackOutcome expect_optimal(const std::vector<Buffer>& buffers,
                                  const PackOptions& options = {}) {
  const PackProblem problem = problem_of(buffers);
  const PackOutcome outcome = solve(problem, options);
  EXPECT_EQ(fault(problem, outcome), "");
  const std::optional<int64_t> best = best_height(buffers);
  EXPECT_EQ(outcome.status, best ? SolveStatus::kOptimal : SolveStatus::kInfeasible);
  if (best) {
    EXPECT_EQ(outcome.height_bytes, *best);
  }
  return outcome;
}

struct RandomShape {
  int64_t buffers = 6;
  int64_t times = 8;
  int64_t longest = 6;
  int64_t largest = 4;
  bool alignments = false;
  bool fixed = false;
};

inline std::vector<Buffer> random_buffers(Rng& rng, const RandomShape& shape) {
  std::vector<Buffer> buffers;
  for (int64_t k = 0; k < shape.buffers; ++k) {
    const int64_t begin = rng.between(0, shape.times - 1);
    Buffer b = buffer(begin, begin + rng.between(1, shape.longest), rng.between(0, shape.largest));
    if (b.size_bytes == 0 && rng.below(2) == 0) b.size_bytes = 1;
    if (shape.alignments) b.alignment_bytes = rng.between(1, 4);
    if (shape.fixed && rng.below(4) == 0) b.fixed_offset = b.alignment_bytes * rng.between(0, 2);
    buffers.push_back(b);
  }
  return buffers;
}

// Every moment is full: at each step some buffers end and others of the same sum begin. Many of
// these cannot be packed at their load, which is rare among small random problems.
inline std::vector<Buffer> tight_buffers(Rng& rng, int64_t load, int64_t steps) {
  std::vector<Buffer> done, alive;
  const auto start = [&](int64_t sum, int64_t time) {
    while (sum > 0) {
      const int64_t size = rng.between(1, sum);
      alive.push_back(buffer(time, time + 1, size));
      sum -= size;
    }
  };
  start(load, 0);
  for (int64_t time = 1; time < steps; ++time) {
    int64_t freed = 0;
    for (int64_t k = rng.between(1, 3); k > 0 && !alive.empty(); --k) {
      const size_t i = rng.below(alive.size());
      alive[i].live.end = time;
      freed += alive[i].size_bytes;
      done.push_back(alive[i]);
      alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(i));
    }
    start(freed, time);
  }
  for (Buffer& b : alive) {
    b.live.end = steps;
    done.push_back(b);
  }
  std::stable_sort(done.begin(), done.end(),
                   [](const Buffer& a, const Buffer& b) { return a.live.begin < b.live.begin; });
  return done;
}

}  // namespace lowtide::pack
