// The order solver on any problem: its answer is run by the simulator, keeps its promises about the
// incoming order and the bound, and its cut is closed and holds the op it names. Inputs that parse
// are taken as they are; of all others the bytes are the choices by which a small problem is drawn,
// so that nearly every input reaches the solver.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "fuzz/choices.h"
#include "fuzz/drawn_problem.h"
#include "order/order.h"
#include "plan/schedule_simulator.h"
#include "plan/schedule_text.h"

namespace {

using namespace lowtide;

constexpr size_t kMaxOps = 64;

void check_cut(const plan::ScheduleProblem& problem, const plan::PeakCutOf<plan::ProblemIds>& cut) {
  IdVector<plan::SchedOpId, bool> inside(problem.ops.size(), false);
  for (plan::SchedOpId op : cut.prefix) inside[op] = true;
  LT_CHECK(!inside[cut.op], "the op of a cut runs after its prefix");
  const auto closed = [&](plan::SchedOpId before, plan::SchedOpId after) {
    LT_CHECK(inside[before] || !(inside[after] || after == cut.op), "a cut's prefix is closed");
  };
  for (const plan::SchedValue& value : problem.values)
    for (plan::SchedOpId reader : value.readers) closed(value.producer, reader);
  for (const auto& [before, after] : problem.control) closed(before, after);
}

void check_answer(const plan::ScheduleProblem& problem) {
  if (problem.ops.size() > kMaxOps) return;
  order::OrderOptions options;
  options.limits.max_units = 320'000;
  const plan::ScheduleOutcome outcome = order::solve(problem, options);

  std::vector<plan::SchedOpId> incoming;
  for (size_t op = 0; op < problem.ops.size(); ++op) incoming.emplace_back(op);
  const auto before = plan::simulate(problem, incoming);
  const auto after = plan::simulate(problem, outcome.sequence);
  LT_CHECK(before.has_value() && after.has_value(),
           "an order runs every op once, after its inputs");
  LT_CHECK(after->peak_bytes == outcome.peak_bytes, "the peak is the simulator's");
  LT_CHECK(after->peak_bytes <= before->peak_bytes, "no order is worse than the incoming one");
  LT_CHECK(outcome.lower_bound_bytes <= outcome.peak_bytes, "the bound is below the peak");
  LT_CHECK((outcome.status == plan::SolveStatus::kOptimal) ==
               (outcome.lower_bound_bytes == outcome.peak_bytes),
           "optimal means that peak and bound meet");
  if (outcome.certificate.peak) check_cut(problem, *outcome.certificate.peak);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto problem = plan::parse_schedule_problem(text, "fuzz")) check_answer(*problem);
  if (const auto problem = plan::parse_order_file(text, "fuzz")) check_answer(*problem);
  fuzz::Choices choices(data, size);
  const plan::ScheduleProblem problem = fuzz::drawn_problem(choices, 15);
  LT_CHECK(plan::check(problem).has_value(), "a drawn problem is consistent");
  check_answer(problem);
  return 0;
}
