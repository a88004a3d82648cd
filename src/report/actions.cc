#include "report/actions.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "report/modules.h"
#include "report/timeline.h"
#include "report/what_if.h"

namespace lowtide::report {
namespace {

using plan::PlanOpId;
using plan::PlanStorageId;
using plan::Step;

// Whose reruns and transfers are weighed together.
using GroupKey = std::pair<std::string, ActionKind>;

class Collector {
 public:
  Collector(const plan::Plan& plan, bool by_kind)
      : plan_(plan),
        by_kind_(by_kind),
        module_(modules_of(plan)),
        what_if_(plan),
        group_of_(plan.steps.size(), nullptr) {}

  ActionTable run() {
    if (!by_kind_) count_moved();
    IdVector<PlanOpId, char> ran(plan_.ops.size(), 0);
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (plan_.steps[i].kind == Step::Kind::kCompute) count_run(i, ran);
    const Timeline timeline = timeline_of(plan_);
    for (const Transfer& transfer : timeline.transfers) count_transfer(transfer);
    return finish();
  }

 private:
  ModuleActions* group(const std::string& module, ActionKind kind) {
    if (!by_kind_) kind = ActionKind::kAny;
    ModuleActions& actions = groups_[{module, kind}];
    actions.module = module;
    actions.kind = kind;
    return &actions;
  }

  void count_run(size_t at, IdVector<PlanOpId, char>& ran) {
    const Step& step = plan_.steps[at];
    const bool again = ran[step.op] && !step.makes.empty();
    ran[step.op] = 1;
    if (!again) return;
    group_of_[at] = group(plan_.ops[step.op].module, ActionKind::kRecompute);
    ++group_of_[at]->reruns;
    group_of_[at]->rerun_seconds += plan_.ops[step.op].predicted_seconds;
  }

  void count_transfer(const Transfer& transfer) {
    ModuleActions* actions = group(module_[transfer.storage], ActionKind::kMove);
    group_of_[transfer.begin_step] = actions;
    if (transfer.wait_step < group_of_.size()) group_of_[transfer.wait_step] = actions;
    (transfer.out ? actions->stores : actions->loads) += 1;
    (transfer.out ? actions->stored_bytes : actions->loaded_bytes) +=
        plan_.storages[transfer.storage].bytes;
    actions->transfer_seconds += transfer.seconds;
    actions->copying_seconds += transfer.copying_seconds;
    actions->waited_seconds += transfer.waited_seconds;
  }

  // Ops whose first run is not in the longest sequence of first runs that kept the given order.
  void count_moved() {
    std::vector<PlanOpId> first;
    IdVector<PlanOpId, char> seen(plan_.ops.size(), 0);
    for (const Step& step : plan_.steps)
      if (step.kind == Step::Kind::kCompute && !seen[step.op]) {
        seen[step.op] = 1;
        first.push_back(step.op);
      }
    std::vector<size_t> tails, before(first.size(), SIZE_MAX);  // patience sorting
    for (size_t i = 0; i < first.size(); ++i) {
      const auto at = std::lower_bound(tails.begin(), tails.end(), i,
                                       [&](size_t a, size_t b) { return first[a] < first[b]; });
      if (at != tails.begin()) before[i] = *(at - 1);
      if (at == tails.end())
        tails.push_back(i);
      else
        *at = i;
    }
    std::vector<char> kept(first.size(), 0);
    for (size_t i = tails.empty() ? SIZE_MAX : tails.back(); i != SIZE_MAX; i = before[i])
      kept[i] = 1;
    for (size_t i = 0; i < first.size(); ++i)
      if (!kept[i]) ++group(plan_.ops[first[i]].module, ActionKind::kAny)->moved_ops;
  }

  // Replays the steps without those of `which` (all of them if null).
  void weigh(const ModuleActions* which, const std::vector<int64_t>& with,
             ModuleActions& actions) const {
    std::vector<char> left_out(plan_.steps.size(), 0);
    for (size_t i = 0; i < left_out.size(); ++i)
      left_out[i] = group_of_[i] != nullptr && (which == nullptr || group_of_[i] == which);
    const std::vector<int64_t> without = what_if_.bytes_without(left_out);
    for (size_t i = 0; i < with.size(); ++i)
      actions.freed_bytes = std::max(actions.freed_bytes, without[i] - with[i]);
    if (with.empty()) return;
    actions.benefit_bytes = *std::max_element(without.begin(), without.end()) -
                            *std::max_element(with.begin(), with.end());
  }

  ActionTable finish() const {
    ActionTable table;
    const std::vector<int64_t> with =
        what_if_.bytes_without(std::vector<char>(plan_.steps.size(), 0));
    for (const auto& [key, actions] : groups_) {
      add(actions, table.all);
      table.modules.push_back(actions);
      if (actions.reruns + actions.stores + actions.loads > 0)
        weigh(&actions, with, table.modules.back());
    }
    weigh(nullptr, with, table.all);
    std::stable_sort(table.modules.begin(), table.modules.end(),
                     [](const ModuleActions& a, const ModuleActions& b) {
                       return std::pair(a.benefit_bytes, a.freed_bytes) >
                              std::pair(b.benefit_bytes, b.freed_bytes);
                     });
    return table;
  }

  const plan::Plan& plan_;
  const bool by_kind_;
  const IdVector<PlanStorageId, std::string> module_;
  const WhatIf what_if_;
  std::map<GroupKey, ModuleActions> groups_;
  std::vector<ModuleActions*> group_of_;  // by step: whose rerun or transfer it is, or null
};

}  // namespace

void add(const ModuleActions& part, ModuleActions& sum) {
  sum.reruns += part.reruns;
  sum.rerun_seconds += part.rerun_seconds;
  sum.stores += part.stores;
  sum.loads += part.loads;
  sum.stored_bytes += part.stored_bytes;
  sum.loaded_bytes += part.loaded_bytes;
  sum.transfer_seconds += part.transfer_seconds;
  sum.waited_seconds += part.waited_seconds;
  sum.copying_seconds += part.copying_seconds;
  sum.moved_ops += part.moved_ops;
}

ActionTable actions_of(const plan::Plan& plan) {
  return Collector(plan, false).run();
}

// What saves most for its time first; what is free before all others, what saves nothing last.
std::vector<ModuleActions> actions_by_kind(const plan::Plan& plan) {
  std::vector<ModuleActions> groups = Collector(plan, true).run().modules;
  const auto worth = [](const ModuleActions& actions) {
    if (actions.benefit_bytes <= 0) return 0.0;
    const double paid = actions.paid_seconds();
    return paid > 0 ? static_cast<double>(actions.benefit_bytes) / paid
                    : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(
      groups.begin(), groups.end(),
      [&](const ModuleActions& a, const ModuleActions& b) { return worth(a) > worth(b); });
  return groups;
}

}  // namespace lowtide::report
