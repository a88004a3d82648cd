// Each idea that can be switched off is one that the packer follows: without it, it takes another
// path (other work, other offsets or another bound) on at least one of these problems. A switch
// that switches nothing fails here.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "pack/pack.h"
#include "pack/testing/pack_oracle.h"

namespace lowtide::pack {
namespace {

struct Idea {
  const char* name;
  bool PackOptions::*flag;
};
constexpr Idea kPackIdeas[] = {
    {"gcd_scaling", &PackOptions::gcd_scaling},
    {"partition", &PackOptions::partition},
    {"order_by_size", &PackOptions::order_by_size},
    {"order_by_area", &PackOptions::order_by_area},
    {"order_by_duration", &PackOptions::order_by_duration},
    {"order_by_start", &PackOptions::order_by_start},
    {"first_fit", &PackOptions::first_fit},
    {"best_fit", &PackOptions::best_fit},
    {"class_orders", &PackOptions::class_orders},
    {"search", &PackOptions::search},
    {"sections", &PackOptions::sections},
    {"canonical", &PackOptions::canonical},
    {"dominance", &PackOptions::dominance},
    {"section_inference", &PackOptions::section_inference},
    {"monotonic_floor", &PackOptions::monotonic_floor},
    {"unallocated_floor", &PackOptions::unallocated_floor},
    {"dynamic_order", &PackOptions::dynamic_order},
    {"decomposition", &PackOptions::decomposition},
    {"hatless", &PackOptions::hatless},
    {"release_bound", &PackOptions::release_bound},
    {"memo", &PackOptions::memo},
    {"restarts", &PackOptions::restarts},
    {"tightest_first", &PackOptions::tightest_first},
    {"section_weights", &PackOptions::section_weights},
    {"not_first", &PackOptions::not_first},
    {"twins", &PackOptions::twins},
};

// Problems that are full at every moment, most of which no list heuristic packs at their load; of
// one the sizes have a common divisor, one falls apart into two, and of some all buffers of even
// size are cut into equal halves.
std::vector<PackProblem> problems_for_ideas() {
  std::vector<PackProblem> problems;
  Rng rng(9);
  for (int64_t steps : {12, 30, 60})
    for (int64_t load : {12, 40, 97})
      problems.push_back(problem_of(tight_buffers(rng, load, steps)));
  std::vector<Buffer> scaled = tight_buffers(rng, 30, 20);
  for (Buffer& b : scaled) b.size_bytes *= 64;
  problems.push_back(problem_of(scaled));
  std::vector<Buffer> two = tight_buffers(rng, 30, 20);
  for (Buffer b : tight_buffers(rng, 35, 20)) {
    b.live.begin += 100, b.live.end += 100;
    two.push_back(b);
  }
  problems.push_back(problem_of(two));
  for (int64_t steps : {20, 30, 40}) {
    std::vector<Buffer> halves = tight_buffers(rng, 97, steps);
    for (size_t k = halves.size(); k-- > 0;)
      if (halves[k].size_bytes % 2 == 0) {
        halves[k].size_bytes /= 2;
        halves.push_back(halves[k]);
      }
    problems.push_back(problem_of(halves));
  }
  return problems;
}

auto path_of(const PackProblem& problem, const PackOptions& options) {
  const PackOutcome outcome = solve(problem, options);
  return std::tuple(outcome.work.units, outcome.offsets, outcome.lower_bound_bytes);
}

// With and without the idea, where the others are as in `base`.
bool changes_anything(const Idea& idea, const PackOptions& base,
                      const std::vector<PackProblem>& problems) {
  PackOptions without = base;
  without.*idea.flag = !(base.*idea.flag);
  return std::any_of(problems.begin(), problems.end(), [&](const PackProblem& problem) {
    return path_of(problem, without) != path_of(problem, base);
  });
}

TEST(PackIdeas, EachChangesThePathOfThePacker) {
  PackOptions all;
  all.limits.max_units = 2'000'000;
  PackOptions few = all;  // some ideas have nothing left to do where these are on
  few.decomposition = few.memo = few.restarts = few.tightest_first = false;
  const std::vector<PackProblem> problems = problems_for_ideas();
  for (const Idea& idea : kPackIdeas)
    EXPECT_TRUE(changes_anything(idea, all, problems) || changes_anything(idea, few, problems))
        << idea.name << " changes nothing";
}

}  // namespace
}  // namespace lowtide::pack
