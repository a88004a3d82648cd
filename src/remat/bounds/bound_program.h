// The integer program behind a bound on time, for other solvers: a second opinion on what the cuts
// prove, and a file for a report of a mistake (solver/program_text.h writes it).
//
// Its optimum is a lower bound on what every schedule within the budget takes beyond each op once,
// in seconds: it asks for room only while the ops run at which the bound was proven, so it may be
// below the true least (multi_cut_program.h names variables and rows).
#pragma once

#include <optional>

#include "plan/schedule_problem.h"
#include "remat/bounds/time_bound.h"
#include "solver/program.h"

namespace lowtide::remat {

// `bound` is that of the problem, which has a budget and no link. Nothing where no moment proves
// more than each op once.
std::optional<solver::Program> bound_program(const plan::ScheduleProblem& problem,
                                             const TimeBound& bound);

}  // namespace lowtide::remat
