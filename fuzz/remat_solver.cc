// Recompute and swap within a budget on any problem: what is returned keeps the budget and the time
// by the simulator, is not below the bound, and a plan called optimal meets it. Inputs that parse
// are taken as they are; of all others the bytes draw a small problem, a budget and links.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "fuzz/choices.h"
#include "fuzz/drawn_problem.h"
#include "plan/schedule_text.h"
#include "plan/sequence_simulator.h"
#include "remat/joint.h"

namespace {

using namespace lowtide;

constexpr size_t kMaxDrawnOps = 40;
constexpr double kRounding = 1e-9;  // of a sum of seconds

void check_answer(const plan::ScheduleProblem& problem, bool recompute, bool exact) {
  if (problem.ops.size() > kMaxDrawnOps || !problem.budget_bytes) return;
  remat::JointOptions options;
  options.recompute = recompute;
  options.remat.exact_small = exact;
  options.remat.limits.max_units = 200'000;
  options.swap.limits.max_units = 20'000;
  const remat::RematOutcome outcome = remat::solve_joint(problem, options);
  if (outcome.sequence.empty()) {
    LT_CHECK(outcome.status == plan::SolveStatus::kLimit ||
                 outcome.status == plan::SolveStatus::kInfeasible,
             "no schedule: a limit, or a proof");
    return;
  }
  const auto profile = plan::simulate_sequence(problem, outcome.sequence);
  LT_CHECK(profile.has_value(), "a schedule is correct");
  LT_CHECK(profile->peak_bytes <= *problem.budget_bytes, "a schedule keeps the budget");
  LT_CHECK(profile->peak_bytes == outcome.peak_bytes && profile->seconds == outcome.seconds,
           "peak and time are the simulator's");
  const double bound = outcome.lower_bound_seconds;
  LT_CHECK(bound <= outcome.seconds * (1 + kRounding), "the bound is below the time");
  LT_CHECK(
      outcome.status != plan::SolveStatus::kOptimal || outcome.seconds <= bound * (1 + kRounding),
      "optimal means that time and bound meet");
}

plan::Link drawn_link(fuzz::Choices& choices) {
  plan::Link link;
  link.bytes_per_second_out = 16.0 * static_cast<double>(1 + choices.below(8));
  link.bytes_per_second_in = 16.0 * static_cast<double>(1 + choices.below(8));
  link.latency_seconds = 0.25 * static_cast<double>(choices.below(2));
  link.compute_seconds_per_byte = choices.below(2) == 0 ? 0 : 0x1p-8;
  return link;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto problem = plan::parse_schedule_problem(text, "fuzz"))
    check_answer(*problem, true, true);
  fuzz::Choices choices(data, size);
  // First what decides most: past the end of the input every choice is 0.
  const auto sixteenths = static_cast<int64_t>(16 - choices.below(12));
  const bool recompute = choices.below(4) != 3, exact = choices.below(4) == 3;
  std::optional<plan::Link> link;
  if (choices.below(2) == 1) link = drawn_link(choices);
  plan::ScheduleProblem problem = fuzz::drawn_problem(choices, 12);
  problem.link = link;
  std::vector<plan::SchedAction> once;
  for (plan::SchedOpId op : problem.ops.ids()) {
    problem.ops[op].seconds = static_cast<double>(1 + choices.below(8));
    problem.ops[op].may_rerun = choices.below(4) != 3;
    once.push_back(plan::SchedAction::run(op));
  }
  const auto profile = plan::simulate_sequence(problem, once);
  LT_CHECK(profile.has_value(), "a drawn problem is consistent");
  problem.budget_bytes = profile->peak_bytes * sixteenths / 16;
  check_answer(problem, recompute, exact);
  return 0;
}
