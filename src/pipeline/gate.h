// The gate: no plan leaves the pipeline that its own verifier refuses, none in parts that computes
// something else than the step in one part (verify/parts.h), and none whose sums lost a share when
// they were put in order (verify/sums.h). Planners, layouts and the
// writer of plans may have bugs; what comes of them is then an error of ours and never a file that
// somebody runs. Every door to a plan (optimize, optimize_front, and what stands on them) goes
// through pipeline::write, and write through here, once for each plan, and
// once more where one claims something behind it (split.cc).
//
// A refusal keeps what a bug report needs in a new folder (docs/formats.md, "Refused plans"), next
// to the dumped problems where there are any, or else in the system's folder for temporary files.
#pragma once

#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"
#include "plan/plan.h"
#include "plan/schedule_problem.h"

namespace lowtide::pipeline {

// Where a plan came from.
struct MadeFrom {
  const ir::Graph& before;  // as it came into the pipeline
  const ir::Graph& after;   // as it was planned
  const plan::ScheduleProblem& problem;
  const OptimizeOptions& options;
  const ir::Graph* whole = nullptr;         // before ops were cut, where some were
  const ir::Graph* in_any_order = nullptr;  // before sums were put in order, where some were
  plan::PlanOpId floor_op = {};             // that sets the claimed floor, as far as is known
};

// Error: kInternal, in one line: what the verifier found, and the folder.
Status pass_gate(const plan::Plan& plan, const MadeFrom& from);

// The options as text, one per line: what would make the plan again from the graph. What is as it
// is unless somebody says otherwise may be left out; where a member can make another plan, another
// value of it is another text.
std::string print(const OptimizeOptions& options);

}  // namespace lowtide::pipeline
