// The step in parts as a problem of one part of everything: folding (MAGIS, section 4.3), scaled
// from the problem of the whole step instead of made from a graph in parts, so that labels are
// judged in milliseconds.
//
// A value has the bytes of one part of the innermost level that has its producer and all who read
// it, views on the way included; the whole, if somebody reads or hands it out whole. A run stands
// for the runs of all parts, and has the seconds of all of them. What parts add up, and the pieces
// that a level hands out, are there from the first part on: in level 0 always; in a deeper level an
// op of no time begins them before anything of the level runs, and who makes them takes their
// places over. What a deeper level's head makes is there until the last op of the level, and is not
// made anew.
//
// Where the class has several passes (passes.h), each is such a loop of its own: a value that is
// read in a later pass than it is made in has all of its bytes, and what a pass adds up is there
// from the pass's first op on. That a value made anew could be used part by part is not counted
// then.
//
// A transfer, too, stands for those of all parts (plan::SchedValue::moved_parts): of pieces for as
// many as there are, of a whole for as many as there are parts that read it whole. So a resident
// that could be away for several parts moves in each; that is more than it need be.
//
// The schedule of such a problem is one for the step in parts whose parts mirror each other. It is
// an estimate all the same: of uneven parts the largest is a little larger than its share, and what
// layouts and kernels' workspace do to parts is not in it.
//
// Tests: scale_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/schedule_view.h"
#include "base/id.h"
#include "base/result.h"
#include "fission/labels.h"
#include "fission/passes.h"
#include "ir/graph.h"
#include "plan/schedule_problem.h"

namespace lowtide::fission {

// What a part of an op's result has at least, if it runs in as many parts as the longest axes of
// the result that can be cut have elements, kMostAxes of them: whatever is cut, so much is there
// while it runs.
struct LeastPart {
  ir::OpId op;
  int64_t parts = 1, result_bytes = 0;
  int64_t bytes() const { return result_bytes / parts; }
};
// Of products and convolutions: results of others may become views, or be written where they
// belong. In the order of the graph. Error: as ops::axis_map.
Result<std::vector<LeastPart>> least_parts(const ir::Graph& graph);

// A slice or join that copies nothing where labels leave it in so many parts or more: what it parts
// or joins lies one behind the other then.
struct ViewInParts {
  ir::OpId op;
  int64_t least_parts = 1;
  bool is_view(const Cuts& cuts) const {
    const size_t bounds = cuts[op] ? cuts[op]->bounds.size() : 2;
    return static_cast<int64_t>(bounds) > least_parts;
  }
};

struct Scaled {
  plan::ScheduleProblem problem;
  IdVector<plan::SchedOpId, plan::SchedOpId> op;  // as the whole step's problem has it; or none
};

class Scale {
 public:
  // `view` is of `graph`, whose dims are constant, without sums in any order. Sizes are rounded up
  // to `alignment_bytes`. `views`: in the order of the graph; who reads what one makes reads in
  // `view` what it reads, too, as if it were a view always. Graph and view must stay. Error: as
  // ops::axis_map.
  static Result<Scale> make(const ir::Graph& graph, const analysis::ScheduleView& view,
                            const AxisClass& axis_class, int64_t alignment_bytes,
                            std::span<const ViewInParts> views = {});

  // `cuts` are those of the levels: an op that could not follow its level is judged by its parts.
  // `seconds`: of all parts of each op.
  Scaled problem(const Levels& levels, const Cuts& cuts,
                 const IdVector<ir::OpId, double>& seconds) const;

  // What values of the whole step's problem, ascending, have in one part of everything while an op
  // runs, each as `problem` has it but for what parts add up, which counts whole; and what is there
  // beside them because of the levels that the op runs in: sums, pieces that are handed out, what
  // heads make. `level_of`: levels_as_cut. Values that the whole step does not have count nothing.
  int64_t bytes_at(plan::SchedOpId op, std::span<const plan::SchedValueId> values,
                   const Levels& levels, const IdVector<ir::OpId, int>& level_of,
                   const Cuts& cuts) const;

  // By op of the whole step's problem: those whose parts all run before it (Passes::waits_for).
  IdVector<plan::SchedOpId, std::vector<plan::SchedOpId>> waits_for() const;

  // Whether it is a head of a level that the other op runs in: it runs once, and what it makes
  // stays.
  bool is_head_of(plan::SchedOpId head, plan::SchedOpId op, const Levels& levels,
                  const IdVector<ir::OpId, int>& level_of) const;

 private:
  // An op that makes or reads a value.
  struct Touch {
    ir::OpId op;
    bool walks = false;  // along the class's axis
  };
  struct Held {
    plan::SchedValueId value;
    int level = 0, pass = 0;
  };

  Scale(const ir::Graph& graph, const analysis::ScheduleView& view, int64_t alignment_bytes)
      : graph_(graph), view_(view), alignment_bytes_(alignment_bytes) {}
  Status find_touches(const AxisClass& axis_class, std::span<const ViewInParts> views);
  bool is_view(plan::SchedValueId value, const Cuts& cuts) const;
  int level_of_sum(const Levels& levels, const IdVector<ir::OpId, int>& level_of,
                   plan::SchedValueId value) const;
  void keep_heads(const Levels& levels, const std::vector<std::vector<plan::SchedOpId>>& within,
                  plan::ScheduleProblem& problem) const;
  bool crosses_passes(plan::SchedValueId value) const;
  int64_t parts_that_move(const Levels& levels, const IdVector<ir::OpId, int>& level_of,
                          plan::SchedValueId value) const;
  int level_of_reads(const Levels& levels, const IdVector<ir::OpId, int>& level_of,
                     plan::SchedValueId value) const;
  std::vector<std::vector<plan::SchedOpId>> ops_within(
      const Levels& levels, const IdVector<ir::OpId, int>& level_of) const;
  void join_chains(std::vector<Held>& held, plan::ScheduleProblem& problem) const;
  Scaled hold(const std::vector<std::vector<plan::SchedOpId>>& within,
              const std::vector<Held>& held, plan::ScheduleProblem problem) const;

  const ir::Graph& graph_;
  const analysis::ScheduleView& view_;
  int64_t alignment_bytes_;
  IdVector<plan::SchedValueId, ir::OpId> maker_;
  IdVector<plan::SchedValueId, std::vector<Touch>> touches_;
  IdVector<plan::SchedValueId, std::optional<ViewInParts>> views_;  // by what they make
  Passes passes_;
  IdVector<plan::SchedValueId, std::vector<ir::OpId>> sums_of_;  // who adds its parts up into it
};

}  // namespace lowtide::fission
