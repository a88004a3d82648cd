#include "report/what_if.h"

#include <algorithm>

namespace lowtide::report {
namespace {

using plan::PlanStorageId;
using plan::Step;

class Replay {
 public:
  Replay(const plan::Plan& plan, const std::vector<char>& left_out)
      : plan_(plan),
        left_out_(left_out),
        memory_(plan::memory_of(plan)),
        births_(plan.storages.size()),
        touches_(plan.storages.size()),
        moves_(plan.storages.size(), 0),
        change_(plan.steps.size() + 1, 0) {}

  std::vector<int64_t> run() {
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (!left_out_[i] && plan_.steps[i].kind == Step::Kind::kLoad)
        moves_[plan_.steps[i].storage] = 1;
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (!left_out_[i]) note(plan_.steps[i], i);
    IdVector<PlanStorageId, char> output(plan_.storages.size(), 0);
    for (const plan::PlanValue& value : plan_.values)
      if (value.is_output)
        for (PlanStorageId s : memory_[value.storage]) output[s] = 1;
    for (PlanStorageId s : plan_.storages.ids()) add_stays(s, output[s]);
    for (size_t i = 0; i < plan_.steps.size(); ++i)
      if (!left_out_[i] && plan_.steps[i].kind == Step::Kind::kCompute) take_over(i);
    return bytes();
  }

 private:
  void note(const Step& step, size_t at) {
    switch (step.kind) {
      case Step::Kind::kCompute: {
        const plan::PlanOp& op = plan_.ops[step.op];
        if (plan::only_views(plan_, step.op)) return;
        for (plan::PlanValueId input : op.inputs)
          if (input.valid())
            for (PlanStorageId s : memory_[plan_.values[input].storage]) touches_[s].push_back(at);
        for (plan::PlanValueId output : op.outputs)
          touches_[plan_.values[output].storage].push_back(at);
        for (const plan::Placement& made : step.makes) births_[made.storage].push_back(at);
        return;
      }
      case Step::Kind::kLoad:
        births_[step.storage].push_back(at);
        [[fallthrough]];
      case Step::Kind::kStore:
      case Step::Kind::kWait:
        touches_[step.storage].push_back(at);
        return;
      case Step::Kind::kFree:  // of what moves: perhaps a drop, later than the last use
        if (moves_[step.storage]) touches_[step.storage].push_back(at);
        return;
    }
  }

  void add_stays(PlanStorageId s, bool is_output) {
    const std::vector<size_t>& births = births_[s];
    const int64_t bytes = plan_.storages[s].bytes;
    if (births.empty()) {
      if (plan_.storages[s].resident) change_[0] += bytes;
      return;
    }
    for (size_t i = 0; i < births.size(); ++i) {
      const bool last = i + 1 == births.size();
      change_[births[i]] += bytes;
      change_[last && is_output ? plan_.steps.size() : stay_end(s, i) + 1] -= bytes;
    }
  }

  // The last touch before the next birth.
  size_t stay_end(PlanStorageId s, size_t birth) const {
    const std::vector<size_t>& touches = touches_[s];
    if (birth + 1 == births_[s].size()) return touches.back();
    return *(std::lower_bound(touches.begin(), touches.end(), births_[s][birth + 1]) - 1);
  }

  // Givers go when their heirs come, if this is still the end of their stay.
  void take_over(size_t at) {
    for (const plan::Placement& made : plan_.steps[at].makes) {
      if (!made.reuses.valid() || births_[made.reuses].empty()) continue;
      const std::vector<size_t>& births = births_[made.reuses];
      const size_t birth =
          static_cast<size_t>(std::upper_bound(births.begin(), births.end(), at) - births.begin());
      if (birth == 0 || stay_end(made.reuses, birth - 1) != at) continue;
      change_[at] -= plan_.storages[made.reuses].bytes;
      change_[at + 1] += plan_.storages[made.reuses].bytes;
    }
  }

  std::vector<int64_t> bytes() const {
    std::vector<int64_t> result(plan_.steps.size(), 0);
    int64_t present = 0;
    for (size_t i = 0; i < result.size(); ++i) {
      present += change_[i];
      const Step& step = plan_.steps[i];
      const bool computes = !left_out_[i] && step.kind == Step::Kind::kCompute;
      result[i] = present + (computes ? plan_.ops[step.op].workspace_bytes : 0);
    }
    return result;
  }

  const plan::Plan& plan_;
  const std::vector<char>& left_out_;
  const IdVector<PlanStorageId, std::vector<PlanStorageId>> memory_;
  IdVector<PlanStorageId, std::vector<size_t>> births_, touches_;
  IdVector<PlanStorageId, char> moves_;
  std::vector<int64_t> change_;  // of the bytes present, by step
};

}  // namespace

std::vector<int64_t> bytes_without(const plan::Plan& plan, const std::vector<char>& left_out) {
  return Replay(plan, left_out).run();
}

}  // namespace lowtide::report
