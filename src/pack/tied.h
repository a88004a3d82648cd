// Packings with tied buffers: groups that lie at fixed distances (plan::Tie). The search of pack.h
// knows boxes, not groups, so the two are decided one after the other: places for the groups by
// list scheduling, then all other buffers around them, which the search sees as fixed.
//
//   1. First fit of groups and single buffers together, in several orders and then, by local
//      search, in the best one with one buffer or group moved: the incumbents.
//   2. The groups stay where the best incumbents have them, or where first fit of the groups alone
//      puts them; the other buffers are packed anew by the list heuristics of pack.h.
//   3. The best of these placements gets the search.
//
// The bound is that of the problem without ties, and each group's span; a packing at it is proven
// to be the best. No height is refuted otherwise: with ties the packer says kInfeasible only by
// that bound.
#pragma once

#include "pack/pack.h"
#include "plan/pack_problem.h"

namespace lowtide::pack {

bool has_ties(const plan::PackProblem& problem);

// As solve() in pack.h, of a problem with ties. Deterministic at any number of threads.
plan::PackOutcome solve_tied(const plan::PackProblem& problem, const PackOptions& options);
// The same of a problem without (pack.cc).
plan::PackOutcome solve_untied(const plan::PackProblem& problem, const PackOptions& options);

}  // namespace lowtide::pack
