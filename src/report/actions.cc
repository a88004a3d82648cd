#include "report/actions.h"

#include <algorithm>
#include <map>

#include "report/modules.h"
#include "report/profile.h"

namespace lowtide::report {
namespace {

using plan::PlanOpId;
using plan::PlanStorageId;
using plan::Step;

class Collector {
 public:
  explicit Collector(const plan::Plan& plan)
      : plan_(plan),
        module_(modules_of(plan)),
        left_(plan.storages.size(), kHere),
        profile_(profile_planned(plan)) {
    for (PlanStorageId s : plan.storages.ids())
      if (plan.storages[s].home_slow) left_[s] = 0;
  }

  ActionTable run() {
    count_moved();
    IdVector<PlanOpId, char> ran(plan_.ops.size(), 0);
    for (; now_ < plan_.steps.size(); ++now_) look_at(plan_.steps[now_], ran);
    for (PlanStorageId s : plan_.storages.ids())
      if (plan_.storages[s].home_slow && left_[s] != kHere) came_back(s);
    return finish();
  }

 private:
  static constexpr size_t kHere = SIZE_MAX;
  struct Group {
    ModuleActions actions;
    std::vector<int64_t> away;  // change of the bytes that are away, by step
  };

  Group& group(const std::string& module) {
    Group& g = groups_[module];
    if (g.away.empty()) {
      g.actions.module = module;
      g.away.assign(plan_.steps.size() + 1, 0);
    }
    return g;
  }

  void look_at(const Step& step, IdVector<PlanOpId, char>& ran) {
    switch (step.kind) {
      case Step::Kind::kCompute: {
        const plan::PlanOp& op = plan_.ops[step.op];
        const bool again = ran[step.op] && !step.makes.empty();
        ran[step.op] = 1;
        for (const plan::Placement& made : step.makes) {
          if (again && left_[made.storage] != kHere) came_back(made.storage);
          left_[made.storage] = kHere;
          if (made.reuses.valid()) left_[made.reuses] = now_;
        }
        if (!again) return;
        ModuleActions& actions = group(op.module).actions;
        ++actions.reruns;
        actions.rerun_seconds += op.predicted_seconds;
        return;
      }
      case Step::Kind::kFree:
        left_[step.storage] = now_ + 1;
        return;
      case Step::Kind::kStore:
      case Step::Kind::kLoad:
        transfer(step);
        return;
      case Step::Kind::kWait:
        return;
    }
  }

  void transfer(const Step& step) {
    const plan::PlanStorage& storage = plan_.storages[step.storage];
    const plan::SlowTier& tier = plan_.slow_tiers[static_cast<size_t>(storage.slow_tier)];
    ModuleActions& actions = group(module_[step.storage]).actions;
    const bool out = step.kind == Step::Kind::kStore;
    (out ? actions.stores : actions.loads) += 1;
    (out ? actions.stored_bytes : actions.loaded_bytes) += storage.bytes;
    actions.transfer_seconds +=
        tier.latency_seconds + static_cast<double>(storage.bytes) /
                                   (out ? tier.bytes_per_second_out : tier.bytes_per_second_in);
    if (out) return;
    if (left_[step.storage] != kHere) came_back(step.storage);
    left_[step.storage] = kHere;
  }

  // The storage was away from its last free until now.
  void came_back(PlanStorageId s) {
    Group& g = group(module_[s]);
    g.away[left_[s]] += plan_.storages[s].bytes;
    g.away[now_] -= plan_.storages[s].bytes;
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
      if (!kept[i]) ++group(plan_.ops[first[i]].module).actions.moved_ops;
  }

  void weigh(const std::vector<int64_t>& change, ModuleActions& actions) const {
    int64_t away = 0, peak = plan_.claims.peak_bytes, most = 0;
    size_t next = 0;  // entry of the profile
    for (size_t step = 0; step < plan_.steps.size(); ++step) {
      away += change[step];
      most = std::max(most, away);
      if (next < profile_.plan_steps.size() && profile_.plan_steps[next] == step)
        peak = std::max(peak, profile_.step_bytes[next++] + away);
    }
    actions.freed_bytes = most;
    actions.benefit_bytes = peak - plan_.claims.peak_bytes;
  }

  ActionTable finish() const {
    ActionTable table;
    std::vector<int64_t> all(plan_.steps.size() + 1, 0);
    for (const auto& [name, group] : groups_) {
      ModuleActions actions = group.actions;
      weigh(group.away, actions);
      for (size_t i = 0; i < all.size(); ++i) all[i] += group.away[i];
      add(actions, table.all);
      table.modules.push_back(std::move(actions));
    }
    weigh(all, table.all);
    std::stable_sort(table.modules.begin(), table.modules.end(),
                     [](const ModuleActions& a, const ModuleActions& b) {
                       return std::pair(a.benefit_bytes, a.freed_bytes) >
                              std::pair(b.benefit_bytes, b.freed_bytes);
                     });
    return table;
  }

  static void add(const ModuleActions& part, ModuleActions& sum) {
    sum.reruns += part.reruns;
    sum.rerun_seconds += part.rerun_seconds;
    sum.stores += part.stores;
    sum.loads += part.loads;
    sum.stored_bytes += part.stored_bytes;
    sum.loaded_bytes += part.loaded_bytes;
    sum.transfer_seconds += part.transfer_seconds;
    sum.moved_ops += part.moved_ops;
  }

  const plan::Plan& plan_;
  const IdVector<PlanStorageId, std::string> module_;
  IdVector<PlanStorageId, size_t> left_;  // the step from which it is away; kHere: made or unmade
  const MemoryProfile profile_;
  std::map<std::string, Group> groups_;
  size_t now_ = 0;
};

}  // namespace

ActionTable actions_of(const plan::Plan& plan) {
  return Collector(plan).run();
}

}  // namespace lowtide::report
