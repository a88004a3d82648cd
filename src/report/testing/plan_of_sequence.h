// A plan that runs a sequence of a ScheduleProblem, so that what is read off a plan can be held
// against what the simulator says of the sequence.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "plan/sequence_simulator.h"

namespace lowtide::report {

using plan::Plan;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using plan::SchedAction;
using plan::SchedInstance;
using plan::SchedOpId;
using plan::SchedResidentId;
using plan::ScheduleProblem;
using plan::SchedValueId;
using plan::Step;
using Sequence = std::vector<SchedAction>;

inline constexpr int kModules = 3;  // "m0", "m1", ...: an op's by its number

// Values first, residents behind them; also the order of the plan's storages.
inline size_t holding_of(const ScheduleProblem& problem, SchedValueId v, SchedResidentId r) {
  return v.valid() ? size_t{v.index()} : problem.values.size() + r.index();
}

// A plan without addresses that runs the sequence.
class PlanOfSequence {
 public:
  PlanOfSequence(const ScheduleProblem& problem, const Sequence& sequence)
      : problem_(problem),
        sequence_(sequence),
        profile_(*plan::simulate_sequence(problem, sequence)),
        under_way_(problem.values.size() + problem.residents.size(), kNone) {}

  Plan make() {
    if (problem_.link)
      plan_.slow_tiers.push_back(
          {.name = "host",
           .bytes_per_second_out = problem_.link->bytes_per_second_out,
           .bytes_per_second_in = problem_.link->bytes_per_second_in,
           .latency_seconds = problem_.link->latency_seconds,
           .compute_seconds_per_byte = problem_.link->compute_seconds_per_byte});
    add_storages();
    add_ops();
    for (at_ = 0; at_ < sequence_.size(); ++at_) add_steps(sequence_[at_]);
    for (size_t holding = 0; holding < under_way_.size(); ++holding) wait(holding);
    plan_.claims.peak_bytes = profile_.peak_bytes;
    return std::move(plan_);
  }

  // Something is stored that no run has waited for since it was loaded: the plan's steps wait for
  // it first, the sequence does not.
  bool stores_early() const { return stores_early_; }

 private:
  enum Transfer : char { kNone, kStoring, kLoading };

  void add_storage(std::string name, int64_t bytes, bool resident, bool output, PlanOpId producer) {
    const PlanValueId value(plan_.values.size());
    const PlanStorageId storage = plan_.storages.push_back(
        {.root = value, .bytes = bytes, .resident = resident, .slow_tier = 0});
    plan_.values.push_back(
        {.name = std::move(name), .storage = storage, .producer = producer, .is_output = output});
  }

  void add_storages() {
    for (const plan::SchedValue& value : problem_.values)
      add_storage("value", value.bytes, false, value.is_output, PlanOpId(value.producer.index()));
    int64_t rest = problem_.resident_bytes;
    for (const plan::SchedResident& resident : problem_.residents) {
      add_storage("resident", resident.bytes, true, false, PlanOpId::none());
      rest -= resident.bytes;
    }
    add_storage("rest", rest, true, false, PlanOpId::none());
    for (const SchedAction& action : sequence_)
      if (action.resident.valid())
        plan_.storages[PlanStorageId(holding_of(problem_, {}, action.resident))].home_slow = true;
  }

  void add_ops() {
    for (SchedOpId op : problem_.ops.ids())
      plan_.ops.push_back({.kind = "Op",
                           .name = "op",
                           .module = "m" + std::to_string(op.index() % kModules),
                           .workspace_bytes = problem_.ops[op].workspace_bytes,
                           .predicted_seconds = problem_.ops[op].seconds});
    for (SchedValueId v : problem_.values.ids()) {
      plan_.ops[PlanOpId(problem_.values[v].producer.index())].outputs.push_back(
          PlanValueId(v.index()));
      for (SchedOpId reader : problem_.values[v].readers)
        plan_.ops[PlanOpId(reader.index())].inputs.push_back(PlanValueId(v.index()));
    }
    for (SchedResidentId r : problem_.residents.ids())
      for (SchedOpId reader : problem_.residents[r].readers)
        plan_.ops[PlanOpId(reader.index())].inputs.push_back(
            PlanValueId(holding_of(problem_, {}, r)));
  }

  Step& add(Step::Kind kind, size_t holding) {
    Step step;
    step.kind = kind;
    step.storage = PlanStorageId(holding);
    return plan_.steps.emplace_back(step);
  }

  void wait(size_t holding) {
    if (under_way_[holding] != kNone) add(Step::Kind::kWait, holding);
    under_way_[holding] = kNone;
  }

  void add_steps(const SchedAction& action) {
    const size_t holding = holding_of(problem_, action.value, action.resident);
    switch (action.kind) {
      case SchedAction::Kind::kRun:
        add_run(action.op);
        break;
      case SchedAction::Kind::kStore:
        stores_early_ |= under_way_[holding] != kNone;
        wait(holding);
        add(Step::Kind::kStore, holding);
        under_way_[holding] = kStoring;
        break;
      case SchedAction::Kind::kDrop:
        wait(holding);
        add(Step::Kind::kFree, holding);
        break;
      case SchedAction::Kind::kLoad:
        add(Step::Kind::kLoad, holding);
        under_way_[holding] = kLoading;
        break;
    }
  }

  void add_run(SchedOpId op) {
    for (PlanValueId input : plan_.ops[PlanOpId(op.index())].inputs)
      if (under_way_[input.index()] == kLoading) wait(input.index());
    Step step;
    step.op = PlanOpId(op.index());
    for (const SchedInstance& instance : profile_.instances) {
      if (instance.birth != at_) continue;
      plan::Placement made{.storage = PlanStorageId(instance.value.index())};
      if (instance.reuses >= 0)
        made.reuses =
            PlanStorageId(profile_.instances[static_cast<size_t>(instance.reuses)].value.index());
      step.makes.push_back(made);
    }
    plan_.steps.push_back(step);
  }

  const ScheduleProblem& problem_;
  const Sequence& sequence_;
  const plan::SequenceProfile profile_;
  Plan plan_;
  std::vector<char> under_way_;
  size_t at_ = 0;
  bool stores_early_ = false;
};

}  // namespace lowtide::report
