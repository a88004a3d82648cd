#include "baselines/judge.h"

#include <limits>

#include "plan/sequence_simulator.h"

namespace lowtide::baselines {
namespace {

// Of scoring one action.
constexpr int64_t kUnitsPerAction = 40;

}  // namespace

Judge::Judge(const plan::ScheduleProblem& problem, const Limits& limits)
    : problem_(problem),
      work_(limits),
      budget_(problem.budget_bytes.value_or(std::numeric_limits<int64_t>::max())) {
  for (const plan::SchedOp& op : problem.ops) once_seconds_ += op.seconds;
}

std::optional<Score> Judge::score(const std::vector<SchedAction>& sequence) {
  work_.spend(kUnitsPerAction * static_cast<int64_t>(sequence.size() + 1));
  const auto profile = plan::simulate_sequence(problem_, sequence);
  if (!profile) return std::nullopt;
  for (size_t tier = 0; tier < plan::links_of(problem_).size(); ++tier) {
    const auto number = static_cast<uint8_t>(tier);
    if (plan::most_held(problem_, profile->slots, number).bytes >
        plan::links_of(problem_)[tier].bytes)
      return std::nullopt;
  }
  const Score score{profile->peak_bytes, profile->seconds, profile->peak_bytes <= budget_};
  if (score.fits && (!best_.found() || score.seconds < best_.seconds)) {
    // Sums of the same times in another order may differ in their last bits.
    const bool is_once = profile->reruns == 0 && profile->exposed_seconds <= 1e-12 * once_seconds_;
    best_.status = is_once ? plan::SolveStatus::kOptimal : plan::SolveStatus::kFeasible;
    best_.sequence = sequence;
    best_.peak_bytes = score.peak_bytes;
    best_.seconds = score.seconds;
  }
  return score;
}

BaselineOutcome Judge::outcome() const {
  BaselineOutcome outcome = best_;
  outcome.work = {work_.used(), work_.seconds(), work_.timed_out()};
  return outcome;
}

std::vector<SchedAction> given_order(const plan::ScheduleProblem& problem) {
  std::vector<SchedAction> sequence;
  for (const SchedOpId op : problem.ops.ids()) sequence.push_back(SchedAction::run(op));
  return sequence;
}

}  // namespace lowtide::baselines
