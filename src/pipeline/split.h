// In how many parts a step runs within a budget: the labels (fission/labels.h) of its largest axis
// class (samples, as a rule: micro-batches), whole or level by level. Fewer parts take less time,
// more need less memory, and recompute fills what is left between.
//
// A plan of even parts comes first where their folded problem fits each op once, or a rough one
// with reruns (first_plan.h): within seconds, and handed out where the search comes to nothing
// better. The whole step gets a short search, unless its bound says that it is slower than such a
// plan of even parts. Then come the best candidates of the label search (label_search.h), the best
// of those without levels among them, and what it found to be better with rewrites, blocks of
// queries or a cut along a second axis, each with a short search of its own; and numbers of even
// parts that no bound makes slower than the best, whatever is estimated of them. The best of all is
// planned with all of the work. What is claimed of the plan, bounds and floor, speaks of the step
// in these parts.
//
// Where the parts wait for each other (fission/passes.h) numbers of parts come before labels,
// ranked by bounds (numbers_by_bound.h) as estimates say little there. Those that may come out
// ahead of the best are planned with all of the work as well, each as if it had been asked for.
//
// Where that takes time, attention is tried in more blocks of queries, if nobody said how many: in
// the number whose bound is best (query_blocks.h), whole and in the parts that are best then.
// Then come cuts beside the labels, on top of what is best so far: the largest values of the class
// in more parts, and other classes, in place of the labels' parts or within them (more_cuts.h), of
// which the label search may have looked at the latter. Last come once more rewrites that run only
// where somebody asks (take_rewrites.h, promising_rewrites), likewise: whether one is worth its
// memory only a plan within the budget can say. Cuts and rewrites whose bound (least_time.h) is no
// better than the best plan, or above the time that is allowed, get none.
//
// With a link, short searches come first: of the whole step, of labels without transfers, of the
// best of those with them, of what a label search with transfers in its states finds best, where
// nothing may run again of what would be best if it might, and of fewer even parts, as long as the
// link hides what has to move then. Where the whole step is free, they come only if some parts or
// blocks take less than each op once in one part. The best is planned with all of the work; so is
// the best of each other kind that came within a twentieth of it (without transfers, unless its
// bound says that it cannot be faster).
//
// Rewrites that only serve to cut the step (rewrite/rewrites.h, in_parts) are made for candidates
// in parts and not for the whole step, so each is judged with what it costs.
//
// Tests: tests/split_test.cc.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// `options.split` is not looked at. Without a budget: in one part. Errors: as of optimize; where no
// labels tried keep the budget, that of the last ones, naming them; kInfeasible only if that is
// proven of all labels.
Result<Optimized> optimize_in_parts(const ir::Graph& forward, const OptimizeOptions& options);

}  // namespace lowtide::pipeline
