#include "api/kernel_times.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "base/check.h"
#include "cost/kernel_class.h"
#include "cost/store.h"

namespace lowtide {
namespace {

using plan::PlanOpId;
using MeasuredOps = IdVector<PlanOpId, report::MeasuredOp>;

// Sums over all runs of a step, by what `name` calls an op.
template <class Time, class Name>
std::map<std::string, Time> sum_up(const plan::Plan& plan, const MeasuredOps& ops,
                                   const Name& name) {
  std::map<std::string, Time> sums;
  for (const PlanOpId op : plan.ops.ids()) {
    if (ops[op].runs == 0) continue;
    const auto runs = static_cast<double>(ops[op].runs);
    Time& sum = sums[name(op)];
    sum.runs += ops[op].runs;
    sum.seconds += runs * ops[op].seconds;
    sum.predicted_seconds += runs * plan.ops[op].predicted_seconds;
  }
  return sums;
}

}  // namespace

MeasuredOps measured_ops(const plan::Plan& plan, const measure::KernelTimes& times) {
  MeasuredOps ops(plan.ops.size());
  auto entry = times.entries().begin();
  for (const PlanOpId op : plan.ops.ids()) {
    if (plan::only_views(plan, op)) continue;
    LT_CHECK(entry != times.entries().end(), plan.ops[op].name);
    ops[op].runs = std::ssize(entry->seconds) / std::max<int64_t>(1, times.steps());
    ops[op].seconds = cost::median(entry->seconds);
    ++entry;
  }
  return ops;
}

std::vector<report::KindTime> times_by_kind(const plan::Plan& plan, const MeasuredOps& ops) {
  std::vector<report::KindTime> times;
  for (auto& [kind, time] :
       sum_up<report::KindTime>(plan, ops, [&](PlanOpId op) { return plan.ops[op].kind; })) {
    times.push_back(time);
    times.back().kind = kind;
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return times;
}

std::vector<report::KernelTime> times_by_kernel(const plan::Plan& plan, const MeasuredOps& ops) {
  std::vector<report::KernelTime> times;
  const auto key = [&](PlanOpId op) { return cost::op_key(plan::describe(plan, op)); };
  for (auto& [kernel, time] : sum_up<report::KernelTime>(plan, ops, key)) {
    times.push_back(time);
    times.back().kernel = kernel;
  }
  const auto off = [](const report::KernelTime& time) {
    return std::abs(time.seconds - time.predicted_seconds);
  };
  std::stable_sort(times.begin(), times.end(),
                   [&](const auto& a, const auto& b) { return off(a) > off(b); });
  return times;
}

}  // namespace lowtide
