// Each idea that can be switched off earns something: without it, and with the others as in its
// row, at least one of the problems gets a higher peak or a lower bound. Work is not compared: an
// idea that only spends it fails here, and so does a switch that switches nothing.
//
// Most ideas are shown with neither exact search nor beam, which find on such graphs what the
// others have missed.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "order/order.h"
#include "order/testing/ideas.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_text.h"
#include "support/long_checks.h"

namespace lowtide::order {
namespace {

// Captured steps, which the first ideas solve, and graphs that need the others: wide ones, and ones
// of ops that often cost the same.
std::vector<plan::ScheduleProblem> problems_for_ideas() {
  std::vector<plan::ScheduleProblem> problems;
  for (const char* name : {"resnet_b1_s1", "unet_s1", "bert_b1_s1"}) {
    const auto path = captured_steps() / "order" / (std::string(name) + ".order");
    problems.push_back(
        plan::parse_order_file(read_file(path.string()).value(), path.string()).value());
  }
  Rng rng(5);
  for (size_t ops : {60, 150}) problems.push_back(random_dag(ops, 60, 3, rng));
  const RandomShape alike{.min_ops = 60,
                          .max_ops = 60,
                          .max_bytes = 2,
                          .window = 20,
                          .reader_rate = 0.1,
                          .output_rate = 0.02};
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng draw(seed);
    problems.push_back(random_problem(alike, draw));
    if (seed < 30) problems.push_back(random_dag(60, 40, 2, draw));
  }
  return problems;
}

OrderOptions all_of_them() {
  OrderOptions options;
  options.limits.max_units = 3'000'000;
  return options;
}

OrderOptions heuristics() {
  OrderOptions options = all_of_them();
  options.exact_search = options.beam = false;
  return options;
}

OrderOptions exact_search_alone() {
  OrderOptions options = all_of_them();
  options.limits.max_units = 500'000;
  options.list_rules = options.post_orders = options.closure_greedy = false;
  options.cut_bound = options.beam = false;
  return options;
}

// With which others each is shown.
const std::map<std::string_view, OrderOptions (*)()> kShownBeside = {
    {"decompose", heuristics},
    {"list_rules", heuristics},
    {"post_orders", heuristics},
    {"closure_greedy", heuristics},
    {"excursions", heuristics},
    {"random_restarts", heuristics},
    {"safe_moves", all_of_them},
    {"cut_bound", heuristics},
    {"exact_search", exact_search_alone},
    {"beam", all_of_them},
};

bool is_worse(const plan::ScheduleOutcome& one, const plan::ScheduleOutcome& other) {
  return one.peak_bytes > other.peak_bytes ||
         (one.peak_bytes == other.peak_bytes && one.lower_bound_bytes < other.lower_bound_bytes);
}

TEST(OrderIdeas, TheListHasEverySwitch) {
  EXPECT_EQ(fault_of_ideas(all_ideas(), [](const OrderOptions& o) { return fields_of(o); }), "");
}

TEST(OrderIdeas, WithoutEachSomeAnswerIsWorse) {
  const std::vector<plan::ScheduleProblem> problems = problems_for_ideas();
  for (const Idea<OrderOptions>& idea : all_ideas()) {
    const OrderOptions with = kShownBeside.at(idea.name)();
    OrderOptions without = with;
    idea.turn(without);
    int compared = 0, worse = 0, better = 0;
    for (const plan::ScheduleProblem& problem : problems) {
      if (worse > 0 && !long_checks()) break;  // it is shown: the others are for the numbers
      const plan::ScheduleOutcome on = solve(problem, with), off = solve(problem, without);
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
}  // namespace lowtide::order
