// Wrong plans from right ones: one small, seeded change each, of every kind that a bug in a
// planner, a writer or a file could make. Some leave the plan valid; valid_by_definition
// (definition.h) tells, and verify() must say the same.
#pragma once

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

}  // namespace lowtide::verify
