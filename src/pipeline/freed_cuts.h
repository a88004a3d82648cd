// Cuts along axes that only a rewrite makes divisible (Rewrite::frees_axis): the classes of a loss,
// a vocabulary. Such a rewrite is of no use by itself, so it goes with a cut, as one proposal.
//
// When one is proposed. Labels walk rows, as a rule. A chunk of rows of logits is made, used and
// gone; a part of the classes of all rows waits, or is made again, until the log-sum-exp of all
// parts is complete (docs/results.md, "A vocabulary in parts"). So where labels reach the same
// large values, nothing is proposed. They do not where labels of the loss may be ignored and are
// not counted first (rewrite/label_counts.h, for who refuses that): loss and gradient divide by how
// many count in all rows, which couples the rows. Then an op that the rewrite makes reads a large
// value, and either the labels' class does not walk a large value of the freed class, or the freed
// axis lies in the labels' class, which the loss as one op broke off. In the latter case the
// rewrite is a move without a cut: labels cut what it frees.
//
// Where nothing keeps a budget, or only with much extra time (SplitTuning::tight), what is large
// and freed is proposed, also where labels reach: the gradient of a vocabulary's weights is as
// large as they are, and all rows' parts add to it, while each part of the classes has its own.
//
// Tests: freed_cuts_test.cc, tests/label_moves_test.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "fission/classes.h"
#include "fission/rules.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"

namespace lowtide::pipeline {

// The step that a rewrite makes, and its classes (classes_to_cut).
struct FreedStep {
  ir::Graph step;
  std::vector<fission::AxisClass> classes;
};

// A class of the step that the rewrite makes.
struct FreedClass {
  std::string rewrite;
  std::shared_ptr<const FreedStep> made;  // of all the rewrite's classes
  size_t which = 0;                       // of them

  bool is_labelled() const { return which == 0; }  // labels speak of the largest one
  std::vector<fission::CutRule> cuts(bool instead) const;
};

// Those that may be of use, where labels do not reach or `anywhere`. Rewrites that the options ask
// for or refuse free nothing here. Error: as fission::axis_classes, or of the passes.
Result<std::vector<FreedClass>> freed_classes(const ir::Graph& step, const OptimizeOptions& options,
                                              bool anywhere = false);

// For who wanted these cuts of the step and cannot have them: which rewrite takes an op apart that
// they speak of, to stand behind what is wrong; or nothing.
std::string what_frees(const ir::Graph& step, std::span<const fission::CutRule> cuts,
                       const OptimizeOptions& options);

}  // namespace lowtide::pipeline
