#include "report/what_if.h"

#include <algorithm>

namespace lowtide::report {
namespace {

using plan::PlanStorageId;
using plan::Step;

// The last touch before the next birth.
size_t end_of_stay(const std::vector<size_t>& births, const std::vector<size_t>& touches,
                   size_t birth) {
  if (birth + 1 == births.size()) return touches.back();
  return *(std::lower_bound(touches.begin(), touches.end(), births[birth + 1]) - 1);
}

}  // namespace

WhatIf::WhatIf(const plan::Plan& plan)
    : plan_(plan),
      memory_(plan::memory_of(plan)),
      events_(plan.storages.size()),
      gives_(plan.storages.size()),
      output_(plan.storages.size(), 0),
      change_(plan.steps.size() + 1, 0) {
  for (const plan::PlanValue& value : plan.values)
    if (value.is_output)
      for (PlanStorageId s : memory_[value.storage]) output_[s] = 1;
  for (size_t i = 0; i < plan.steps.size(); ++i) note(plan.steps[i], i);
  const std::vector<char> nothing(plan.steps.size(), 0);
  for (PlanStorageId s : plan.storages.ids()) count(s, nothing, 1, change_);
}

void WhatIf::note(const Step& step, size_t at) {
  switch (step.kind) {
    case Step::Kind::kCompute: {
      const plan::PlanOp& op = plan_.ops[step.op];
      if (plan::only_views(plan_, step.op)) return;
      for (plan::PlanValueId input : op.inputs)
        if (input.valid())
          for (PlanStorageId s : memory_[plan_.values[input].storage])
            events_[s].push_back({at, What::kTouch});
      for (plan::PlanValueId output : op.outputs)
        events_[plan_.values[output].storage].push_back({at, What::kTouch});
      for (const plan::Placement& made : step.makes) {
        events_[made.storage].push_back({at, What::kBirth});
        if (made.reuses.valid()) gives_[made.reuses].push_back(at);
      }
      return;
    }
    case Step::Kind::kLoad:
      events_[step.storage].push_back({at, What::kLoad});
      return;
    case Step::Kind::kStore:
    case Step::Kind::kWait:
      events_[step.storage].push_back({at, What::kTouch});
      return;
    case Step::Kind::kFree:
      events_[step.storage].push_back({at, What::kFree});
      return;
  }
}

// Frees count of what moves only: perhaps a drop, later than the last use.
WhatIf::Stays WhatIf::stays_without(PlanStorageId s, const std::vector<char>& left_out) const {
  Stays stays;
  const bool moves = std::any_of(events_[s].begin(), events_[s].end(), [&](const Event& event) {
    return event.what == What::kLoad && !left_out[event.step];
  });
  for (const Event& event : events_[s]) {
    if (left_out[event.step]) continue;
    if (event.what == What::kBirth || event.what == What::kLoad) stays.births.push_back(event.step);
    if (event.what == What::kTouch || event.what == What::kLoad ||
        (event.what == What::kFree && moves))
      stays.touches.push_back(event.step);
  }
  return stays;
}

// Adds `sign` times the bytes of the storage's stays. A giver goes when its heir comes, if this is
// still the end of its stay.
void WhatIf::count(PlanStorageId s, const std::vector<char>& left_out, int64_t sign,
                   std::vector<int64_t>& change) const {
  const auto [births, touches] = stays_without(s, left_out);
  const int64_t bytes = sign * plan_.storages[s].bytes;
  if (births.empty()) {
    if (plan_.storages[s].resident) change[0] += bytes;
    return;
  }
  for (size_t i = 0; i < births.size(); ++i) {
    const bool to_the_end = i + 1 == births.size() && output_[s];
    change[births[i]] += bytes;
    change[to_the_end ? plan_.steps.size() : end_of_stay(births, touches, i) + 1] -= bytes;
  }
  for (const size_t at : gives_[s]) {
    if (left_out[at]) continue;
    const auto birth =
        static_cast<size_t>(std::upper_bound(births.begin(), births.end(), at) - births.begin());
    if (birth == 0 || end_of_stay(births, touches, birth - 1) != at) continue;
    change[at] -= bytes;
    change[at + 1] += bytes;
  }
}

std::vector<PlanStorageId> WhatIf::touched_by(const std::vector<char>& left_out) const {
  std::vector<PlanStorageId> touched;
  for (size_t i = 0; i < left_out.size(); ++i) {
    if (!left_out[i]) continue;
    const Step& step = plan_.steps[i];
    if (step.kind != Step::Kind::kCompute) {
      touched.push_back(step.storage);
      continue;
    }
    const plan::PlanOp& op = plan_.ops[step.op];
    for (plan::PlanValueId input : op.inputs)
      if (input.valid())
        touched.insert(touched.end(), memory_[plan_.values[input].storage].begin(),
                       memory_[plan_.values[input].storage].end());
    for (plan::PlanValueId output : op.outputs) touched.push_back(plan_.values[output].storage);
    for (const plan::Placement& made : step.makes) touched.push_back(made.storage);
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  return touched;
}

std::vector<int64_t> WhatIf::bytes_without(const std::vector<char>& left_out) const {
  std::vector<int64_t> change = change_;
  const std::vector<char> nothing(plan_.steps.size(), 0);
  for (const PlanStorageId s : touched_by(left_out)) {
    count(s, nothing, -1, change);
    count(s, left_out, 1, change);
  }
  std::vector<int64_t> bytes(plan_.steps.size(), 0);
  int64_t present = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    present += change[i];
    const Step& step = plan_.steps[i];
    const bool computes = !left_out[i] && step.kind == Step::Kind::kCompute;
    bytes[i] = present + (computes ? plan_.ops[step.op].workspace_bytes : 0);
  }
  return bytes;
}

std::vector<int64_t> bytes_without(const plan::Plan& plan, const std::vector<char>& left_out) {
  return WhatIf(plan).bytes_without(left_out);
}

}  // namespace lowtide::report
