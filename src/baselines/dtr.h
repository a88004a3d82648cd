// Dynamic tensor rematerialization (Kirisame, Lyubomirsky, Haan, Brennan, He, Roesch, Chen,
// Tatlock, ICLR 2021), an online method: ops run in the order that came in and nothing is known of
// what comes later, but which values nobody will read any more. Before a run, values are evicted
// until what is present, the run's outputs and its workspace keep the budget: always the one with
// the least
//
//     h = (own cost + cost of its evicted neighbourhood) / (bytes * staleness),
//
// their h_DTR^eq. The neighbourhood are the evicted values that it would need again or that would
// need it, whose costs are kept in union-find sets: an evicted value joins its evicted neighbours'
// sets; one that comes back takes its cost out and begins anew (their splitting approximation). A
// value that is read and not there is made again, with what that needs, inputs locked meanwhile.
//
// What DTR runs into at runtime we know beforehand: a value whose producer may not run again at the
// time when it is wanted. Then the step is begun anew with that value never evicted.
//
// Cost: one look at all present values per eviction, and as many beginnings as values are found
// that must stay; the work limit ends it.
#pragma once

#include "baselines/judge.h"

namespace lowtide::baselines {

// Scores the sequence of runs that it ends with, if it keeps the budget.
void add_dtr(const plan::ScheduleProblem& problem, Judge& judge);

}  // namespace lowtide::baselines
