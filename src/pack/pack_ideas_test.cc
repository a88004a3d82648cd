// Each idea that can be switched off earns something: without it, and with the others as in its
// row, at least one of the problems gets a greater height or a lower bound for the same work. Units
// of work are not compared: an idea that only spends them fails here, and so does a switch that
// switches nothing.
//
// Some ideas never change what an unlimited search answers: they save it work. All searches here
// are limited, so that what is saved finds something else.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pack/pack.h"
#include "pack/testing/ideas.h"
#include "pack/testing/pack_oracle.h"
#include "support/long_checks.h"

namespace lowtide::pack {
namespace {

using Problems = std::vector<PackProblem>;

// ---- problems, all of them full at every moment

Problems tight_ones() {
  Problems problems;
  for (uint64_t seed = 118; seed < 140; ++seed) {
    Rng rng(seed);
    problems.push_back(problem_of(tight_buffers(rng, 12, 30)));
    problems.push_back(problem_of(tight_buffers(rng, 20, 24)));
  }
  return problems;
}

// Most of these can be packed at their load.
Problems large_ones() {
  Problems problems;
  for (uint64_t seed = 200; seed < 212; ++seed) {
    Rng rng(seed);
    problems.push_back(problem_of(tight_buffers(rng, 40, 30)));
  }
  return problems;
}

// Two halves that the searches could pack one by one, and a buffer that lives through both.
Problems held_together() {
  Problems problems;
  for (uint64_t seed = 300; seed < 316; ++seed) {
    Rng rng(seed);
    std::vector<Buffer> buffers = tight_buffers(rng, 12, 14);
    for (Buffer b : tight_buffers(rng, 12, 14)) {
      b.live.begin += 14, b.live.end += 14;
      buffers.push_back(b);
    }
    buffers.push_back(buffer(0, 28, 5));
    problems.push_back(problem_of(buffers));
  }
  return problems;
}

// All sizes have a common divisor.
Problems coarse_ones() {
  Problems problems;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    std::vector<Buffer> buffers = tight_buffers(rng, 12 + static_cast<int64_t>(seed) % 20, 20);
    for (Buffer& b : buffers) b.size_bytes *= 64;
    problems.push_back(problem_of(buffers));
  }
  return problems;
}

// Buffers of even size are cut into equal halves.
Problems ones_with_twins() {
  Problems problems;
  for (uint64_t seed = 500; seed < 530; ++seed) {
    Rng rng(seed);
    std::vector<Buffer> halves = tight_buffers(rng, 24 + static_cast<int64_t>(seed) % 30, 20);
    for (size_t k = halves.size(); k-- > 0;)
      if (halves[k].size_bytes % 2 == 0) {
        halves[k].size_bytes /= 2;
        halves.push_back(halves[k]);
      }
    problems.push_back(problem_of(halves));
  }
  return problems;
}

// Two that never coexist, the second one larger.
Problems two_in_one() {
  Problems problems;
  for (uint64_t seed = 600; seed < 608; ++seed) {
    Rng rng(seed);
    std::vector<Buffer> buffers = tight_buffers(rng, 30, 20);
    for (Buffer b : tight_buffers(rng, 35, 20)) {
      b.live.begin += 100, b.live.end += 100;
      buffers.push_back(b);
    }
    problems.push_back(problem_of(buffers));
  }
  return problems;
}

// ---- with which others

PackOptions all_of_them() {
  PackOptions options;
  options.limits.max_units = 2'000'000;
  return options;
}

PackOptions all_of_them_shortly() {
  PackOptions options;
  options.limits.max_units = 300'000;
  return options;
}

// The decision search in one order, with nothing that starts over or remembers.
PackOptions one_decision_search() {
  PackOptions options;
  options.memo = options.restarts = options.tightest_first = options.class_orders = false;
  options.static_orders = {"TWA"};
  options.limits.max_units = 100'000;
  return options;
}

PackOptions with_release_bound() {
  PackOptions options = one_decision_search();
  options.decomposition = false;
  options.release_bound = true;
  return options;
}

// Where parts are searched on their own, a buffer with nothing unplaced beside it is a part.
PackOptions without_decomposition() {
  PackOptions options = one_decision_search();
  options.decomposition = false;
  return options;
}

PackOptions lists() {
  PackOptions options;
  options.search = options.class_orders = false;
  return options;
}

PackOptions lists_and_drawn_ones() {
  PackOptions options = lists();
  options.class_orders = true;
  return options;
}

// First fit by start, and one more list.
template <bool PackOptions::*other>
PackOptions two_lists() {
  PackOptions options = lists();
  options.order_by_size = options.order_by_area = options.order_by_duration = false;
  options.best_fit = false;
  options.*other = true;
  return options;
}

struct Row {
  Problems (*problems)();
  PackOptions (*beside)();
};

const std::map<std::string_view, Row> kRows = {
    {"gcd_scaling", {coarse_ones, all_of_them_shortly}},
    {"partition", {two_in_one, all_of_them_shortly}},
    {"order_by_size", {tight_ones, two_lists<&PackOptions::order_by_size>}},
    {"order_by_area", {tight_ones, two_lists<&PackOptions::order_by_area>}},
    {"order_by_duration", {tight_ones, two_lists<&PackOptions::order_by_duration>}},
    {"order_by_start", {tight_ones, two_lists<&PackOptions::order_by_duration>}},
    {"first_fit", {tight_ones, lists}},
    {"best_fit", {large_ones, two_lists<&PackOptions::best_fit>}},
    {"class_orders", {large_ones, lists_and_drawn_ones}},
    {"search", {tight_ones, all_of_them_shortly}},
    {"sections", {tight_ones, all_of_them_shortly}},
    {"canonical", {tight_ones, all_of_them_shortly}},
    {"dominance", {tight_ones, all_of_them_shortly}},
    {"section_inference", {tight_ones, all_of_them_shortly}},
    {"monotonic_floor", {held_together, without_decomposition}},
    {"unallocated_floor", {tight_ones, all_of_them_shortly}},
    {"dynamic_order", {large_ones, all_of_them_shortly}},
    {"decomposition", {held_together, one_decision_search}},
    {"release_bound", {held_together, with_release_bound}},
    {"memo", {tight_ones, all_of_them}},
    {"restarts", {large_ones, all_of_them}},
    {"tightest_first", {tight_ones, all_of_them}},
    {"section_weights", {tight_ones, all_of_them}},
    {"not_first", {tight_ones, all_of_them}},
    {"twins", {ones_with_twins, all_of_them}},
};

bool is_worse(const PackOutcome& one, const PackOutcome& other) {
  return one.height_bytes > other.height_bytes || (one.height_bytes == other.height_bytes &&
                                                   one.lower_bound_bytes < other.lower_bound_bytes);
}

TEST(PackIdeas, TheListHasEverySwitch) {
  EXPECT_EQ(fault_of_ideas(all_ideas(), [](const PackOptions& o) { return fields_of(o); }), "");
}

TEST(PackIdeas, WithoutEachSomeAnswerIsWorse) {
  for (const Idea<PackOptions>& idea : all_ideas()) {
    const Row& row = kRows.at(idea.name);
    const PackOptions with = row.beside();
    PackOptions without = with;
    idea.turn(without);
    int compared = 0, worse = 0, better = 0;
    const Problems problems = row.problems();
    for (const PackProblem& problem : problems) {
      const PackOutcome off = solve(problem, without);
      EXPECT_EQ(fault(problem, off), "");
      if (worse > 0 && !long_checks()) continue;  // it is shown: the others are for the numbers
      const PackOutcome on = solve(problem, with);
      ++compared;
      worse += is_worse(off, on);
      better += is_worse(on, off);
    }
    std::printf("without %s: worse on %d of %d, better on %d\n", std::string(idea.name).c_str(),
                worse, compared, better);
    EXPECT_GT(worse, 0) << idea.name << " earns nothing";
  }
}

}  // namespace
}  // namespace lowtide::pack
