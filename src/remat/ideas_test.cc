// Each idea that can be switched off is one that the searches follow: without it, they take another
// path (other work, another sequence or another bound) on at least one of these problems. A switch
// that switches nothing fails here.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "base/testing/test_data.h"
#include "plan/remat_text.h"
#include "plan/sequence_simulator.h"
#include "plan/testing/schedule_test_problems.h"
#include "remat/bounds/testing/cut_test_problems.h"
#include "remat/joint.h"

namespace lowtide::remat {
namespace {

struct Idea {
  const char* name;
  void (*switch_off)(JointOptions&);
};
constexpr Idea kRematIdeas[] = {
    {"recompute", [](JointOptions& o) { o.recompute = false; }},
    {"transfers", [](JointOptions& o) { o.transfers = false; }},
    {"order_moves", [](JointOptions& o) { o.remat.order_moves = false; }},
    {"stretch_moves", [](JointOptions& o) { o.remat.stretch_moves = false; }},
    {"exchanges", [](JointOptions& o) { o.remat.exchanges = false; }},
    {"repeats", [](JointOptions& o) { o.remat.repeats = false; }},
    {"aimed_drops", [](JointOptions& o) { o.remat.aimed_drops = false; }},
    {"aimed_moves", [](JointOptions& o) { o.remat.aimed_moves = false; }},
    {"cut_start", [](JointOptions& o) { o.remat.cut_start = false; }},
    {"mixed_start", [](JointOptions& o) { o.remat.mixed_start = false; }},
    {"order_start", [](JointOptions& o) { o.remat.order_start = false; }},
    {"greedy_start", [](JointOptions& o) { o.remat.greedy_start = false; }},
    {"chain_start", [](JointOptions& o) { o.remat.chain_start = false; }},
    {"restarts", [](JointOptions& o) { o.remat.restarts = false; }},
    {"cut_bound", [](JointOptions& o) { o.remat.cut_bound = false; }},
    {"several_cuts", [](JointOptions& o) { o.remat.several_cuts = false; }},
    {"exact_small", [](JointOptions& o) { o.remat.exact_small = false; }},
    {"swap local_search", [](JointOptions& o) { o.swap.local_search = false; }},
    {"swap values", [](JointOptions& o) { o.swap.spans.values = false; }},
    {"swap residents", [](JointOptions& o) { o.swap.spans.residents = false; }},
};

plan::ScheduleProblem captured(const char* name, int64_t budget_mib) {
  const auto path = captured_steps() / "remat" / (std::string(name) + ".remat");
  auto problem = plan::parse_remat_file(read_file(path.string()).value(), path.string()).value();
  problem.budget_bytes = budget_mib << 20;
  return problem;
}

// Two captured steps, one of them of repeated blocks, small problems with and without a link, and
// a deep one.
std::vector<plan::ScheduleProblem> problems_for_ideas() {
  std::vector<plan::ScheduleProblem> problems;
  Rng rng(17);
  for (int i = 0; i < 8; ++i) {
    plan::RandomSchedule shape{.min_ops = 10, .max_ops = 16, .reader_rate = 0.2};
    if (i % 2 == 1) shape.link_rate = 1, shape.resident_rate = 0.3;
    plan::ScheduleProblem problem = plan::random_schedule_problem(shape, rng);
    std::vector<plan::SchedAction> once;
    for (plan::SchedOpId op : problem.ops.ids()) once.push_back(plan::SchedAction::run(op));
    problem.budget_bytes = plan::simulate_sequence(problem, once)->peak_bytes * 3 / 4;
    problems.push_back(std::move(problem));
  }
  problems.push_back(captured("unet_2", 600));
  problems.push_back(captured("gpt2_4x256", 2250));
  const DeepStep deep{.layers = 2600};
  problems.push_back(deep_step(deep));
  problems.back().budget_bytes = deep.layers * (deep.second_bytes + deep.first_bytes / 2) + 10;
  return problems;
}

auto path_of(const plan::ScheduleProblem& problem, const JointOptions& options) {
  const RematOutcome outcome = solve_joint(problem, options);
  return std::tuple(outcome.work.units, outcome.edits, outcome.sequence,
                    outcome.lower_bound_seconds);
}

TEST(RematIdeas, EachChangesThePathOfTheSearch) {
  JointOptions all;
  all.remat.limits.max_units = 10'000'000;
  all.swap.limits.max_units = 100'000;
  all.tries = 4;
  const std::vector<plan::ScheduleProblem> problems = problems_for_ideas();
  std::vector<decltype(path_of(problems[0], all))> with_all;
  for (const auto& problem : problems) with_all.push_back(path_of(problem, all));
  for (const Idea& idea : kRematIdeas) {
    JointOptions without = all;
    idea.switch_off(without);
    bool differs = false;
    for (size_t i = 0; i < problems.size() && !differs; ++i)
      differs = path_of(problems[i], without) != with_all[i];
    EXPECT_TRUE(differs) << idea.name << " changes nothing";
  }
}

}  // namespace
}  // namespace lowtide::remat
