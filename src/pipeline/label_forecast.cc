#include "pipeline/label_forecast.h"

#include <algorithm>
#include <limits>

#include "remat/bounds/step_graph.h"

namespace lowtide::pipeline {
namespace {

using plan::SchedOpId;
using plan::SchedValueId;

// What an op makes and reads, of the whole step's values.
std::vector<SchedValueId> values_at(const plan::ScheduleProblem& problem, SchedOpId op) {
  std::vector<SchedValueId> values;
  for (const SchedValueId v : problem.values.ids()) {
    const plan::SchedValue& value = problem.values[v];
    if (value.producer == op || std::binary_search(value.readers.begin(), value.readers.end(), op))
      values.push_back(v);
  }
  return values;
}

// What is there while the op at a position of the order runs.
std::vector<SchedValueId> values_alive(const plan::ScheduleProblem& problem,
                                       const std::vector<SchedOpId>& order, size_t position) {
  IdVector<SchedOpId, size_t> at(problem.ops.size(), 0);
  for (size_t k = 0; k < order.size(); ++k) at[order[k]] = k;
  std::vector<SchedValueId> alive;
  for (const SchedValueId v : problem.values.ids()) {
    const plan::SchedValue& value = problem.values[v];
    const size_t made = at[value.producer];
    const bool is_needed = value.is_output || made == position ||
                           std::any_of(value.readers.begin(), value.readers.end(),
                                       [&](SchedOpId reader) { return at[reader] >= position; });
    if (made <= position && is_needed) alive.push_back(v);
  }
  return alive;
}

void keep_each_once(std::vector<SchedValueId>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

LabelForecast::LabelForecast(const LabelProblem& problem, const CutStep& labels,
                             const fission::Scaled& scaled, const remat::CutBoundResult& cut)
    : is_over_(!cut.feasible) {
  if (!cut.op || (cut.feasible && cut.bound_ticks <= 0)) return;
  if (cut.feasible)
    seconds_per_byte_ = cut.bound_seconds / static_cast<double>(cut.bound_ticks) *
                        static_cast<double>(cut.prices.per_byte) / static_cast<double>(remat::kOne);
  op_ = scaled.op[*cut.op];
  if (!op_.valid() && !is_over_) {  // what begins a sum is no op of the step
    *this = {};
    return;
  }
  const std::vector<SchedValueId> at_op = values_at(scaled.problem, *cut.op);
  for (const remat::CutChoice* known : {&cut.over, &cut.choice}) {
    if (is_over_ ? known == &cut.choice : known->stored.empty() && known->reruns.empty()) continue;
    Choice& choice = choices_.emplace_back();
    choice.held = known->stored;
    choice.held.insert(choice.held.end(), at_op.begin(), at_op.end());
    keep_each_once(choice.held);
    choice.reruns = LabelProblem::of_step(known->reruns, scaled);
    choice.held_bytes = bytes_of(problem, labels, choice);
    choice.over_bytes = known->stored_bytes - cut.capacity_bytes;
    if (scaled.problem.link) choice.moves_seconds = moves_seconds(problem, labels, cut, choice);
  }
}

// What is proven less reruns and bytes at their full prices: transfers, and the share of the reruns
// that the cut's prices leave out, so it can be below 0.
double LabelForecast::moves_seconds(const LabelProblem& problem, const CutStep& labels,
                                    const remat::CutBoundResult& cut, const Choice& choice) const {
  if (is_over_) return 0;
  return cut.bound_seconds - reruns_seconds(problem, labels, choice) -
         seconds_per_byte_ * static_cast<double>(choice.over_bytes);
}

double LabelForecast::reruns_seconds(const LabelProblem& problem, const CutStep& labels,
                                     const Choice& choice) const {
  double seconds = 0;
  for (const SchedOpId op : choice.reruns)
    if (!problem.scale().is_head_of(op, op_, labels.levels, labels.level_of))
      seconds += labels.seconds[problem.view().op[op]];
  return seconds;
}

LabelForecast::LabelForecast(const LabelProblem& problem, const CutStep& labels,
                             const fission::Scaled& scaled, const std::vector<SchedOpId>& order,
                             const plan::ScheduleProfile& profile, int64_t budget_bytes)
    : op_(scaled.op[order[profile.peak_step]]), is_over_(true) {
  Choice& choice = choices_.emplace_back();
  choice.held = values_alive(scaled.problem, order, profile.peak_step);
  choice.held_bytes = bytes_of(problem, labels, choice);
  choice.over_bytes = profile.peak_bytes - budget_bytes;
}

// Nothing is known of bytes while a sum begins, as that is no op of the step.
int64_t LabelForecast::bytes_of(const LabelProblem& problem, const CutStep& labels,
                                const Choice& choice) const {
  if (!op_.valid()) return 0;
  return problem.scale().bytes_at(op_, choice.held, labels.levels, labels.level_of, labels.cuts);
}

int64_t LabelForecast::over_bytes(const LabelProblem& problem, const CutStep& labels,
                                  const Choice& choice) const {
  return choice.over_bytes + bytes_of(problem, labels, choice) - choice.held_bytes;
}

int64_t LabelForecast::over_bytes(const LabelProblem& problem, const CutStep& labels) const {
  return is_over_ ? std::max<int64_t>(over_bytes(problem, labels, choices_.front()), 0) : 0;
}

double LabelForecast::seconds(const LabelProblem& problem, const CutStep& labels) const {
  if (seconds_per_byte_ <= 0 || choices_.empty()) return labels.once_seconds;
  double least = std::numeric_limits<double>::infinity();
  for (const Choice& choice : choices_) {
    const auto over = static_cast<double>(over_bytes(problem, labels, choice));
    least = std::min(least, reruns_seconds(problem, labels, choice) + choice.moves_seconds +
                                seconds_per_byte_ * over);
  }
  return labels.once_seconds + std::max(least, 0.0);
}

}  // namespace lowtide::pipeline
