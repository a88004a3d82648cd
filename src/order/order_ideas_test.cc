// Each idea that can be switched off is one that the search follows: without it, it takes another
// path (other work, another order or another bound) on at least one of these problems. A switch
// that switches nothing fails here.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "order/order.h"
#include "order/testing/test_problems.h"
#include "plan/schedule_text.h"

namespace lowtide::order {
namespace {

struct Idea {
  const char* name;
  void (*switch_off)(OrderOptions&);
};
constexpr Idea kOrderIdeas[] = {
    {"decompose", [](OrderOptions& o) { o.decompose = false; }},
    {"list_rules", [](OrderOptions& o) { o.list_rules = false; }},
    {"post_orders", [](OrderOptions& o) { o.post_orders = false; }},
    {"closure_greedy", [](OrderOptions& o) { o.closure_greedy = false; }},
    {"random_restarts", [](OrderOptions& o) { o.random_restarts = 0; }},
    {"safe_moves", [](OrderOptions& o) { o.safe_moves = false; }},
    {"excursions", [](OrderOptions& o) { o.excursions = false; }},
    {"cut_bound", [](OrderOptions& o) { o.cut_bound = false; }},
    {"exact_search", [](OrderOptions& o) { o.exact_search = false; }},
    {"beam", [](OrderOptions& o) { o.beam = false; }},
};

// Captured steps, which the first ideas solve, and graphs that need the others.
std::vector<plan::ScheduleProblem> problems_for_ideas() {
  std::vector<plan::ScheduleProblem> problems;
  for (const char* name : {"resnet_b1_s1", "unet_s1", "bert_b1_s1"}) {
    const auto path = captured_steps() / "order" / (std::string(name) + ".order");
    problems.push_back(
        plan::parse_order_file(read_file(path.string()).value(), path.string()).value());
  }
  Rng rng(5);
  for (size_t ops : {60, 150}) problems.push_back(random_dag(ops, 60, 3, rng));
  return problems;
}

auto path_of(const plan::ScheduleProblem& problem, const OrderOptions& options) {
  const plan::ScheduleOutcome outcome = solve(problem, options);
  return std::tuple(outcome.work.units, outcome.sequence, outcome.lower_bound_bytes);
}

// With and without the idea, where the others are as in `base`.
bool changes_anything(const Idea& idea, const OrderOptions& base,
                      const std::vector<plan::ScheduleProblem>& problems) {
  OrderOptions without = base;
  idea.switch_off(without);
  return std::any_of(problems.begin(), problems.end(), [&](const plan::ScheduleProblem& problem) {
    return path_of(problem, without) != path_of(problem, base);
  });
}

TEST(OrderIdeas, EachChangesThePathOfTheSearch) {
  OrderOptions all;
  all.limits.max_units = 16'000'000;
  OrderOptions lists = all;  // some ideas come only after these, which often end the search
  lists.exact_search = lists.beam = false;
  const std::vector<plan::ScheduleProblem> problems = problems_for_ideas();
  for (const Idea& idea : kOrderIdeas)
    EXPECT_TRUE(changes_anything(idea, all, problems) || changes_anything(idea, lists, problems))
        << idea.name << " changes nothing";
}

}  // namespace
}  // namespace lowtide::order
