// Makes a plan of a whole model that moves nothing into one that moves much, without planning
// anything: every storage keeps its addresses, so that what was free of overlaps stays so.
// Residents that ops use get their home in slow memory: they arrive before their first use and
// leave after the last. What is not used for many steps is stored after one use, freed, and loaded
// before the next. The claims of the plan are left as they were.
#pragma once

#include <algorithm>
#include <vector>

#include "plan/plan.h"

namespace lowtide {

class MovingPlan {
 public:
  // `min_gap`: steps between two uses that make a move worth while; `tiers`: storages take turns.
  MovingPlan(plan::Plan plan, size_t min_gap, int32_t tiers = 1)
      : plan_(std::move(plan)), min_gap_(min_gap), tiers_(tiers) {
    before_.resize(plan_.steps.size() + 1);
    after_.resize(plan_.steps.size() + 1);
  }

  plan::Plan make() {
    for (int32_t t = 0; t < tiers_; ++t)
      plan_.slow_tiers.push_back({.name = "tier" + std::to_string(t),
                                  .bytes_per_second_out = 1e10,
                                  .bytes_per_second_in = 1e10});
    find_uses();
    for (plan::PlanStorageId s : plan_.storages.ids()) {
      if (uses_[s].empty() || plan_.storages[s].bytes == 0) continue;
      if (plan_.storages[s].resident)
        move_home(s);
      else
        move_between_uses(s);
    }
    std::vector<plan::Step> steps;
    for (size_t i = 0; i < before_.size(); ++i) {
      steps.insert(steps.end(), before_[i].begin(), before_[i].end());
      if (i < plan_.steps.size()) steps.push_back(plan_.steps[i]);
      steps.insert(steps.end(), after_[i].begin(), after_[i].end());
    }
    plan_.steps = std::move(steps);
    return plan_;
  }

 private:
  using Kind = plan::Step::Kind;
  struct Use {
    size_t step;
    int64_t address;  // of the stay
    bool ends;        // no use of this stay comes after it
  };

  void find_uses() {
    uses_.resize(plan_.storages.size());
    IdVector<plan::PlanStorageId, int64_t> address(plan_.storages.size(), 0);
    for (plan::PlanStorageId s : plan_.storages.ids()) address[s] = plan_.storages[s].address;
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      const plan::Step& step = plan_.steps[i];
      if (step.kind == Kind::kFree && !uses_[step.storage].empty())
        uses_[step.storage].back().ends = true;
      if (step.kind != Kind::kCompute) continue;
      for (const plan::Placement& made : step.makes) {
        address[made.storage] = made.address;
        if (!uses_[made.storage].empty()) uses_[made.storage].back().ends = true;
      }
      const auto use = [&](plan::PlanValueId v) {
        if (!v.valid()) return;
        const plan::PlanStorageId s = plan_.values[v].storage;
        if (uses_[s].empty() || uses_[s].back().step != i)
          uses_[s].push_back({i, address[s], false});
      };
      std::for_each(plan_.ops[step.op].inputs.begin(), plan_.ops[step.op].inputs.end(), use);
      std::for_each(plan_.ops[step.op].outputs.begin(), plan_.ops[step.op].outputs.end(), use);
    }
  }

  void give_slot(plan::PlanStorageId s) {
    plan::PlanStorage& storage = plan_.storages[s];
    storage.slow_tier = static_cast<int32_t>(s.index()) % tiers_;
    plan::SlowTier& tier = plan_.slow_tiers[static_cast<size_t>(storage.slow_tier)];
    storage.slow_address = tier.bytes;
    tier.bytes += storage.bytes;
  }
  static plan::Step step(Kind kind, plan::PlanStorageId s, int64_t address = 0) {
    return {.kind = kind, .storage = s, .address = address};
  }

  void move_home(plan::PlanStorageId s) {
    plan::PlanStorage& storage = plan_.storages[s];
    const size_t first = uses_[s].front().step, last = uses_[s].back().step;
    give_slot(s);
    before_[first - std::min(first, min_gap_)].push_back(step(Kind::kLoad, s, storage.address));
    before_[first].push_back(step(Kind::kWait, s));
    after_[last].push_back(step(Kind::kStore, s));
    before_.back().push_back(step(Kind::kWait, s));
    before_.back().push_back(step(Kind::kFree, s));
    storage.home_slow = true;
    storage.address = 0;
  }

  void move_between_uses(plan::PlanStorageId s) {
    for (size_t i = 0; i + 1 < uses_[s].size(); ++i) {
      const Use& use = uses_[s][i];
      const size_t next = uses_[s][i + 1].step;
      if (use.ends || next - use.step < min_gap_) continue;
      if (plan_.storages[s].slow_tier < 0) give_slot(s);
      after_[use.step].push_back(step(Kind::kStore, s));
      const size_t middle = (use.step + next) / 2;
      before_[middle].push_back(step(Kind::kWait, s));
      before_[middle].push_back(step(Kind::kFree, s));
      before_[middle].push_back(step(Kind::kLoad, s, use.address));
      before_[next].push_back(step(Kind::kWait, s));
    }
  }

  plan::Plan plan_;
  size_t min_gap_;
  int32_t tiers_;
  IdVector<plan::PlanStorageId, std::vector<Use>> uses_;
  std::vector<std::vector<plan::Step>> before_, after_;  // of each step; the last: of the end
};

}  // namespace lowtide
