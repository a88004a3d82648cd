// What the label search (label_search.h) may do to a step beside labels, and the steps that come of
// it: rewrites that nobody asked for, attention in blocks of queries, and cuts along a second axis.
//
// A cut along a second axis is made before the labels are: its parts are ops of the step that is
// labelled. In a plan they lie within the labels' parts, since labels are made first there. Both
// are the same ops on the same elements, but for slices and joins between parts: with labels as the
// inner ones each works on all that its part holds. Where a part has one sample, these copy nothing
// in a plan, which joins pieces that lie one behind the other.
//
// Tests: step_moves_test.cc, tests/label_moves_test.cc.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/label_search.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// Rewrites as open_rewrites has them; blocks, if the options say no number of them; cuts, if they
// have none, of classes that go within the parts of the largest one, where the step with them has
// not too many ops, also of classes that a rewrite frees (freed_cuts.h). `step`: what step_to_cut
// makes of it. Forward graph and options must stay. Error: as fission::axis_classes.
Result<StepMoves> step_moves(const ir::Graph& forward, const ir::Graph& step,
                             const OptimizeOptions& options);

}  // namespace lowtide::pipeline
