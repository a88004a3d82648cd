// What a plan would hold if some of its reruns and transfers were left out and what they bring back
// stayed in memory instead: the way to say what each of them is worth.
//
// A storage is there from its birth (a run that makes it, a load) to the last step before its next
// birth that reads, writes, stores or waits for it; an output of the step to the end. A birth that
// is left out joins two stays into one. Whatever only served the runs left out goes earlier. A
// buffer is still taken over where that remains right; no new takeover is looked for, so where a
// buffer would become free for one, the answer is a little above what a new plan would need.
//
// Tests: actions_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace lowtide::report {

// What happens to every storage is written down once; a question then costs the steps, and the
// storages that the steps left out touch.
class WhatIf {
 public:
  explicit WhatIf(const plan::Plan& plan);  // borrowed

  // Bytes present at each step, everything on the device, workspace included. `left_out` has one
  // entry per step; it may name repeated runs, and all transfers and waits of a storage.
  std::vector<int64_t> bytes_without(const std::vector<char>& left_out) const;

 private:
  enum class What : char { kBirth, kTouch, kLoad, kFree };  // a load is a birth and a touch
  struct Event {
    size_t step = 0;
    What what = What::kTouch;
  };
  struct Stays {  // of one storage
    std::vector<size_t> births, touches;
  };

  void note(const plan::Step& step, size_t at);
  Stays stays_without(plan::PlanStorageId s, const std::vector<char>& left_out) const;
  void count(plan::PlanStorageId s, const std::vector<char>& left_out, int64_t sign,
             std::vector<int64_t>& change) const;
  std::vector<plan::PlanStorageId> touched_by(const std::vector<char>& left_out) const;

  const plan::Plan& plan_;
  const IdVector<plan::PlanStorageId, std::vector<plan::PlanStorageId>> memory_;
  IdVector<plan::PlanStorageId, std::vector<Event>> events_;  // by step
  IdVector<plan::PlanStorageId, std::vector<size_t>> gives_;  // steps that take its buffer over
  IdVector<plan::PlanStorageId, char> output_;
  std::vector<int64_t> change_;  // of the bytes present, by step, with nothing left out
};

// The same for one question.
std::vector<int64_t> bytes_without(const plan::Plan& plan, const std::vector<char>& left_out);

}  // namespace lowtide::report
