#include "order/order.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "order/decompose.h"
#include "order/portfolio.h"
#include "plan/schedule_simulator.h"

namespace lowtide::order {
namespace {

using PeakCut = plan::PeakCutOf<plan::ProblemIds>;
using plan::ScheduleOutcome;
using plan::ScheduleProblem;
using plan::SolveStatus;

std::vector<PartAnswer> solve_parts(const std::vector<OrderGraph>& parts,
                                    const OrderOptions& options) {
  std::vector<PartAnswer> answers(parts.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < parts.size(); i = next++)
      answers[i] = solve_part(parts[i], options);
  };
  const size_t helpers = std::min<size_t>(std::max(options.threads, 1), parts.size());
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < helpers; ++i) threads.emplace_back(work);
  work();
  threads.clear();
  return answers;
}

// A part's cut as a cut of the whole problem: all earlier parts have run; they leave nothing
// behind.
PeakCut cut_of_all(const std::vector<OrderGraph>& parts, size_t at, const OpCut& cut,
                   int64_t resident_bytes) {
  PeakCut result;
  result.op = parts[at].problem_op[cut.op.index()];
  result.value_bytes = resident_bytes + cut.bytes;
  for (size_t i = 0; i < at; ++i)
    result.prefix.insert(result.prefix.end(), parts[i].problem_op.begin(),
                         parts[i].problem_op.end());
  for (OpId op : cut.prefix) result.prefix.push_back(parts[at].problem_op[op.index()]);
  std::sort(result.prefix.begin(), result.prefix.end());
  return result;
}

SolveStatus status_of(const ScheduleOutcome& outcome, const std::vector<PartAnswer>& answers) {
  if (outcome.peak_bytes == outcome.lower_bound_bytes) return SolveStatus::kOptimal;
  for (const PartAnswer& answer : answers)
    if (answer.exhausted) return SolveStatus::kLimit;
  return SolveStatus::kFeasible;
}

}  // namespace

ScheduleOutcome solve(const ScheduleProblem& problem, const OrderOptions& options) {
  LT_CHECK(plan::check(problem).has_value(), "the problem must pass plan::check");
  const WorkBudget clock;
  const std::vector<OrderGraph> parts =
      options.decompose ? decompose(problem) : std::vector<OrderGraph>{make_order_graph(problem)};
  const std::vector<PartAnswer> answers = solve_parts(parts, options);
  ScheduleOutcome outcome;
  outcome.lower_bound_bytes = problem.resident_bytes;
  for (size_t i = 0; i < parts.size(); ++i) {
    const PartAnswer& answer = answers[i];
    for (OpId op : answer.sequence) outcome.sequence.push_back(parts[i].problem_op[op.index()]);
    outcome.lower_bound_bytes =
        std::max(outcome.lower_bound_bytes, problem.resident_bytes + answer.lower_bound_bytes);
    std::optional<PeakCut>& cut = outcome.certificate.peak;
    if (answer.cut && (!cut || problem.resident_bytes + answer.cut->bytes > cut->value_bytes))
      cut = cut_of_all(parts, i, *answer.cut, problem.resident_bytes);
    outcome.work.units += answer.units;
    outcome.work.timed_out = outcome.work.timed_out || answer.timed_out;
  }
  const auto profile = plan::simulate(problem, outcome.sequence);
  LT_CHECK(profile.has_value(), "the order that was found is valid");
  outcome.peak_bytes = profile->peak_bytes;
  LT_CHECK(outcome.peak_bytes >= outcome.lower_bound_bytes, "the bound is below every order");
  outcome.status = status_of(outcome, answers);
  outcome.work.seconds = clock.seconds();
  return outcome;
}

}  // namespace lowtide::order
