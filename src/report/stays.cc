#include "report/stays.h"

namespace lowtide::report {
namespace {

using plan::PlanStorageId;
using plan::Step;

class StayFinder {
 public:
  explicit StayFinder(const plan::Plan& plan)
      : plan_(plan), open_(plan.storages.size(), -1), made_(plan.storages.size(), 0) {}

  std::vector<Stay> run() {
    for (PlanStorageId s : plan_.storages.ids())
      if (plan_.storages[s].resident && !plan_.storages[s].home_slow)
        begin(s, plan_.storages[s].address, 0, StayBegin::kResident);
    for (size_t i = 0; i < plan_.steps.size(); ++i) take(plan_.steps[i], i);
    for (PlanStorageId s : plan_.storages.ids()) end(s, plan_.steps.size());
    return std::move(stays_);
  }

 private:
  void take(const Step& step, size_t at) {
    switch (step.kind) {
      case Step::Kind::kCompute:
        for (const plan::Placement& made : step.makes) make(made, at);
        return;
      case Step::Kind::kFree:
        end(step.storage, at);
        return;
      case Step::Kind::kLoad:
        begin(step.storage, step.address, at, StayBegin::kLoaded);
        return;
      case Step::Kind::kStore:
      case Step::Kind::kWait:
        return;
    }
  }

  void make(const plan::Placement& made, size_t at) {
    const int32_t giver = made.reuses.valid() ? open_[made.reuses] : -1;
    if (made.reuses.valid()) end(made.reuses, at);
    const bool again = made_[made.storage] != 0;
    made_[made.storage] = 1;
    begin(made.storage, made.address, at, again ? StayBegin::kMadeAgain : StayBegin::kMade);
    stays_.back().took_over = giver;
  }

  void begin(PlanStorageId s, int64_t address, size_t at, StayBegin why) {
    end(s, at);
    open_[s] = static_cast<int32_t>(stays_.size());
    stays_.push_back({.storage = s, .address = address, .begin = at, .end = at, .why = why});
  }

  void end(PlanStorageId s, size_t at) {
    if (open_[s] < 0) return;
    stays_[static_cast<size_t>(open_[s])].end = at;
    open_[s] = -1;
  }

  const plan::Plan& plan_;
  IdVector<PlanStorageId, int32_t> open_;  // the stay that has not ended, or -1
  IdVector<PlanStorageId, char> made_;     // some step has made it
  std::vector<Stay> stays_;
};

}  // namespace

std::vector<Stay> stays_of(const plan::Plan& plan) {
  return StayFinder(plan).run();
}

std::vector<int64_t> bytes_of(const plan::Plan& plan, const std::vector<Stay>& stays) {
  std::vector<int64_t> change(plan.steps.size() + 1, 0);
  for (const Stay& stay : stays) {
    change[stay.begin] += plan.storages[stay.storage].bytes;
    change[stay.end] -= plan.storages[stay.storage].bytes;
  }
  std::vector<int64_t> bytes(plan.steps.size(), 0);
  int64_t present = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    present += change[i];
    const Step& step = plan.steps[i];
    const bool computes = step.kind == Step::Kind::kCompute;
    bytes[i] = present + (computes ? plan.ops[step.op].workspace_bytes : 0);
  }
  return bytes;
}

}  // namespace lowtide::report
