#include "report/actions.h"

#include <algorithm>
#include <map>

#include "report/modules.h"
#include "report/what_if.h"

namespace lowtide::report {
namespace {

using plan::PlanOpId;
using plan::PlanStorageId;
using plan::Step;

// The times of the transfers, and how long each holds up the ops (src/plan/sequence_simulator.h).
class WaitClock {
 public:
  explicit WaitClock(const plan::Plan& plan)
      : plan_(plan), out_(plan.slow_tiers.size(), 0), in_(out_), ends_(plan.storages.size(), 0) {}

  void compute(PlanOpId op) { now_ += plan_.ops[op].predicted_seconds; }

  // How long the transfer takes.
  double begin(const Step& step) {
    const plan::PlanStorage& storage = plan_.storages[step.storage];
    const auto index = static_cast<size_t>(storage.slow_tier);
    const plan::SlowTier& tier = plan_.slow_tiers[index];
    const bool out = step.kind == Step::Kind::kStore;
    const double seconds =
        tier.latency_seconds + static_cast<double>(storage.bytes) /
                                   (out ? tier.bytes_per_second_out : tier.bytes_per_second_in);
    double& stream = (out ? out_ : in_)[index];
    stream = std::max(stream, now_) + seconds;
    ends_[step.storage] = stream;
    return seconds;
  }

  // What the copy keeps the device from computing, whether or not anybody waits.
  double copying(PlanStorageId s) const {
    const plan::PlanStorage& storage = plan_.storages[s];
    return plan_.slow_tiers[static_cast<size_t>(storage.slow_tier)].compute_seconds_per_byte *
           static_cast<double>(storage.bytes);
  }

  double wait(PlanStorageId s) {
    const double waited = std::max(0.0, ends_[s] - now_);
    now_ += waited;
    return waited;
  }

 private:
  const plan::Plan& plan_;
  double now_ = 0;
  std::vector<double> out_, in_;  // when each stream of each tier is free
  IdVector<PlanStorageId, double> ends_;
};

class Collector {
 public:
  explicit Collector(const plan::Plan& plan)
      : plan_(plan), module_(modules_of(plan)), group_of_(plan.steps.size(), nullptr) {}

  ActionTable run() {
    count_moved();
    WaitClock clock(plan_);
    IdVector<PlanOpId, char> ran(plan_.ops.size(), 0);
    for (size_t i = 0; i < plan_.steps.size(); ++i) look_at(i, ran, clock);
    return finish();
  }

 private:
  ModuleActions* group(const std::string& module) {
    ModuleActions& actions = groups_[module];
    actions.module = module;
    return &actions;
  }

  void look_at(size_t at, IdVector<PlanOpId, char>& ran, WaitClock& clock) {
    const Step& step = plan_.steps[at];
    switch (step.kind) {
      case Step::Kind::kCompute: {
        const plan::PlanOp& op = plan_.ops[step.op];
        clock.compute(step.op);
        const bool again = ran[step.op] && !step.makes.empty();
        ran[step.op] = 1;
        if (!again) return;
        group_of_[at] = group(op.module);
        ++group_of_[at]->reruns;
        group_of_[at]->rerun_seconds += op.predicted_seconds;
        return;
      }
      case Step::Kind::kStore:
      case Step::Kind::kLoad: {
        ModuleActions& actions = *(group_of_[at] = group(module_[step.storage]));
        const bool out = step.kind == Step::Kind::kStore;
        (out ? actions.stores : actions.loads) += 1;
        (out ? actions.stored_bytes : actions.loaded_bytes) += plan_.storages[step.storage].bytes;
        actions.transfer_seconds += clock.begin(step);
        actions.copying_seconds += clock.copying(step.storage);
        return;
      }
      case Step::Kind::kWait:
        group_of_[at] = group(module_[step.storage]);
        group_of_[at]->waited_seconds += clock.wait(step.storage);
        return;
      case Step::Kind::kFree:
        return;
    }
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
      if (!kept[i]) ++group(plan_.ops[first[i]].module)->moved_ops;
  }

  // Replays the steps without those of `which` (all of them if null).
  void weigh(const ModuleActions* which, const std::vector<int64_t>& with,
             ModuleActions& actions) const {
    std::vector<char> left_out(plan_.steps.size(), 0);
    for (size_t i = 0; i < left_out.size(); ++i)
      left_out[i] = group_of_[i] != nullptr && (which == nullptr || group_of_[i] == which);
    const std::vector<int64_t> without = bytes_without(plan_, left_out);
    for (size_t i = 0; i < with.size(); ++i)
      actions.freed_bytes = std::max(actions.freed_bytes, without[i] - with[i]);
    if (with.empty()) return;
    actions.benefit_bytes = *std::max_element(without.begin(), without.end()) -
                            *std::max_element(with.begin(), with.end());
  }

  ActionTable finish() const {
    ActionTable table;
    const std::vector<int64_t> with =
        bytes_without(plan_, std::vector<char>(plan_.steps.size(), 0));
    for (const auto& [name, actions] : groups_) {
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

  static void add(const ModuleActions& part, ModuleActions& sum) {
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

  const plan::Plan& plan_;
  const IdVector<PlanStorageId, std::string> module_;
  std::map<std::string, ModuleActions> groups_;
  std::vector<ModuleActions*> group_of_;  // by step: whose rerun or transfer it is, or null
};

}  // namespace

ActionTable actions_of(const plan::Plan& plan) {
  return Collector(plan).run();
}

}  // namespace lowtide::report
