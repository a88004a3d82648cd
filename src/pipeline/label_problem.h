// The largest axis class of one graph, posed so that labels of it (fission/labels.h) are judged in
// milliseconds: the whole step as a ScheduleProblem with its best order, the seconds of ops in
// parts, and the scaled problem of any labels (fission/scale.h).
//
// Labels are known by what they cut: the same ops at the same bounds in levels that lie alike,
// whatever regions name them.
//
// A problem that is made is asked by several threads at once; what it remembers changes no answer.
//
// Tests: label_problem_test.cc, tests/split_test.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/schedule_view.h"
#include "base/id.h"
#include "base/result.h"
#include "cost/estimate.h"
#include "fission/classes.h"
#include "fission/expand.h"
#include "fission/labels.h"
#include "fission/part_seconds.h"
#include "fission/scale.h"
#include "ir/graph.h"
#include "order/order.h"
#include "pipeline/level_ends.h"
#include "pipeline/optimize.h"
#include "plan/schedule_problem.h"

namespace lowtide::pipeline {

// What labels make of the step, without a schedule.
struct CutStep {
  fission::Levels levels = {};
  fission::Cuts cuts = {};
  IdVector<ir::OpId, int> level_of = {};    // as cut: fission::levels_as_cut
  IdVector<ir::OpId, double> seconds = {};  // of all parts of each op
  double once_seconds = 0;                  // the sum of these
  double join_seconds = 0;  // of these, of Concats of one sample: they may copy nothing (pieces.h)
  uint64_t hash = 0;        // of cuts and levels
};

// Runs of the whole step's problem, in their order.
using StepRuns = std::vector<plan::SchedOpId>;

// How a step is labelled whose ops are in parts along a second axis already.
struct LabelledStep {
  // Labels are of the class that has this axis, in no more parts than its extent; none: of the
  // largest class.
  std::optional<fission::ClassAxis> along = {};
  // In the order of the graph: slices and joins between parts of the second axis that copy nothing
  // under labels with parts of few enough samples. Those that need several parts for it are views
  // only where the labels' axis is their outermost dimension; others are left out.
  std::vector<fission::ViewInParts> views = {};
  // By op, what it is to the cut along the second axis: whole, a part, or a slice or join between
  // parts; empty: all are whole. In a plan the labels' parts are the outer ones, and named so.
  enum class Made : char { kWhole, kPart, kBetween };
  IdVector<ir::OpId, Made> made = {};
};

class LabelProblem {
 public:
  // Options must stay. None: no axis class has two ops, or none has the axis. Error: as of
  // fission::axis_classes and analysis::make_schedule_view.
  static Result<std::unique_ptr<LabelProblem>> make(ir::Graph step, const OptimizeOptions& options,
                                                    int64_t order_units, LabelledStep how = {});
  LabelProblem(const LabelProblem&) = delete;  // parts of it refer to others
  LabelProblem& operator=(const LabelProblem&) = delete;

  const ir::Graph& step() const { return step_; }
  LabelledStep::Made made(ir::OpId op) const {
    return made_.empty() ? LabelledStep::Made::kWhole : made_[op];
  }
  const fission::AxisClass& axis_class() const { return axis_class_; }
  const analysis::ScheduleView& view() const { return *view_; }
  const fission::Scale& scale() const { return *scale_; }
  // The best order of the whole step, each op once.
  const StepRuns& given() const { return given_; }

  // None: heads name no ops of this step, or a level changes nothing. Error: as of the prices.
  Result<std::optional<CutStep>> cut(const fission::Labels& labels) const;

  // With a budget, and with links where transfers are allowed. Without recompute no op may run
  // again.
  fission::Scaled scaled(const CutStep& cut, int64_t budget_bytes) const;

  // In a few list schedules.
  plan::ScheduleOutcome best_order(const plan::ScheduleProblem& problem) const;

  // Runs of the whole step's ops as ones of the scaled problem: what begins a sum comes right
  // before the first who needs it. And back.
  std::vector<plan::SchedOpId> runs_in(const fission::Scaled& scaled, const StepRuns& runs) const;
  static StepRuns of_step(const std::vector<plan::SchedOpId>& sequence,
                          const fission::Scaled& scaled);

  // Names of the ops of runs, and runs that do here what those of another step did (named_runs.h):
  // a proposal.
  std::vector<std::string> names_of(const StepRuns& runs) const;
  StepRuns runs_named(std::span<const std::string> names) const;

  // A schedule of one part of everything, as names of the parts' ops.
  std::vector<std::string> unfolded(const CutStep& cut, const StepRuns& runs) const;

 private:
  LabelProblem(ir::Graph step, const OptimizeOptions& options, int64_t order_units,
               LabelledStep how);
  Status pose();
  Result<IdVector<ir::OpId, double>> seconds_of(const fission::Cuts& cuts) const;
  IdVector<ir::OpId, int64_t> workspaces() const;
  double join_seconds(const CutStep& cut) const;

  const ir::Graph step_;
  const OptimizeOptions& options_;
  const int64_t order_units_;
  std::vector<fission::ViewInParts> views_;
  const IdVector<ir::OpId, LabelledStep::Made> made_;
  const cost::Estimator estimator_;
  fission::AxisClass axis_class_;
  mutable std::optional<fission::LabelReader> reader_;
  mutable std::optional<fission::PartSeconds> seconds_;
  std::optional<LevelEnds> ends_;
  std::optional<analysis::ScheduleView> view_;
  std::optional<fission::Scale> scale_;
  StepRuns given_;
  std::vector<std::pair<ir::OpId, int64_t>> joins_;  // Concats, and the elements before their axis
};

}  // namespace lowtide::pipeline
