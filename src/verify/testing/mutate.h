// Mutation testing: wrong plans from right ones, one small, seeded change each, of every kind that
// a bug in a planner, a writer or a file could make. Some leave the plan valid; valid_by_definition
// (definition.h) tells, and verify() must say the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "plan/plan.h"

namespace lowtide::verify {

// A changed copy (equal to `plan` only if nothing in it can be changed). `what`, if given, gets the
// name of the change.
plan::Plan mutate(const plan::Plan& plan, Rng& rng, std::string* what);

// The names of all changes.
std::vector<std::string_view> mutation_names();

// How verify() and the definition judge changed copies of a valid plan. Any disagreement is a bug
// in one of the two.
struct Agreement {
  int valid = 0;  // changes that left the plan valid, which both saw
  int wrong = 0;  // changes that both refused
  // "seed 17, move_step: the definition says 'lives', the verifier ok".
  std::vector<std::string> disagreements;
};
// Change i is made with seed `first_seed` + i, so that one can be repeated alone.
Agreement compare_on_mutations(const plan::Plan& plan, int count, uint64_t first_seed);

}  // namespace lowtide::verify
