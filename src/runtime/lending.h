// Memory that the caller lends to a session: parameters, optimizer state and buffers lie where they
// are already, and nothing is copied. Who owns tensors (a framework) goes on owning them; a step
// changes them in place.
//
// What may be lent is a value that is there before the step, lies by itself, row-major, and stays
// in the arena for the whole step. Its address in the plan is then used by nobody, as every
// resident's, so the arena has a hole there, for which the system gives no memory: arena and lent
// bytes together are what the plan says.
//
// Tests: session_lending_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/interval.h"
#include "base/result.h"
#include "plan/plan.h"
#include "runtime/bound_steps.h"

namespace lowtide::runtime {

class Lending {
 public:
  // Of the values of these names. Error: kUsage: no such value, one that is computed, another's
  // view, in slow memory, a piece of a whole, or not row-major.
  static Result<Lending> of(const plan::Plan& plan, std::span<const std::string> names);
  Lending() = default;

  bool empty() const { return lent_.empty(); }
  bool has(plan::PlanStorageId s) const { return !lent_.empty() && lent_[s]; }
  // Addresses of the arena where nothing lies, sorted and apart.
  std::vector<Interval> holes(const plan::Plan& plan) const;
  int64_t bytes(const plan::Plan& plan) const;  // of the arena, rounded as the plan rounds

  // Error: kUsage: not of those names, of another size, or not aligned for its elements.
  Status lend(const plan::Plan& plan, plan::PlanValueId value, std::span<std::byte> memory);
  // Error: kUsage, naming the first value that has no memory yet.
  Status check_all_there(const plan::Plan& plan) const;

  const StoragePlaces& homes() const { return homes_; }  // null: not lent (yet)

 private:
  IdVector<plan::PlanStorageId, bool> lent_;
  StoragePlaces homes_;
};

}  // namespace lowtide::runtime
