// A training step as a chain of stages, found by cut positions of the order: a stage of the forward
// part ends where one value makes up nearly all bytes that the later forward part still reads, and
// the backward part reads it, too. The rest of the step, in its order, is dealt out to the stages:
// it comes back to a stage when it first reads something that the stage made for it alone, or that
// the stage was the last to read.
//
// For each run of neighbouring stages (a range) the numbers that a plan along the chain needs: its
// seconds, what it makes that the backward part reads, and the most bytes that it adds to what
// older stages left, on the way forward and back. They are taken from the profile of the order that
// came in, so workspace and in-place reuse are in them.
//
// Cost: one look at the step for each range.
//
// Tests: pofo_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "baselines/baselines.h"
#include "plan/problem_index.h"

namespace lowtide::baselines {

// Stages first..last. Bytes of values that the backward part reads: *inputs* were made before and
// are read forward in the range for the last time; *inner* ones are made in it and read forward
// nowhere behind it; *passed* ones are made in it and read forward behind it.
struct StageRange {
  double forward_seconds = 0, backward_seconds = 0, rerun_seconds = 0;
  int64_t input_bytes = 0, inner_bytes = 0, passed_bytes = 0;
  int64_t moving_input_bytes = 0, moving_inner_bytes = 0;  // of those that may move
  int64_t left_bytes = 0;  // of inner ones that leave when the range runs again
  // Above what was made before the range and is still there.
  int64_t keep_peak = 0;                    // forward, when inner values stay
  int64_t leave_peak = 0;                   // forward, when they leave
  int64_t back_peak = 0;                    // backward, when they are there
  int64_t rerun_peak = 0;                   // of the runs again
  std::vector<SchedValueId> inputs, inner;  // those that may move
  std::vector<SchedOpId> reruns;            // in order
};

class StageChain {
 public:
  // `forward`: 1 for ops of the forward part.
  StageChain(const plan::ScheduleProblem& problem, IdVector<SchedOpId, char> forward);

  size_t size() const { return ends_.size(); }  // 0: there is no chain
  StageRange range(size_t first, size_t last) const;
  // Made before a stage and read forward from there on, but not by the backward part.
  int64_t transient_bytes(size_t stage) const;
  // The order that came in, with runs again of ranges, each right before the backward part reads
  // the first value that left.
  std::vector<SchedAction> with_reruns(const std::vector<StageRange>& again) const;

 private:
  void find_ends(size_t most_stages);
  void place_values();
  void deal_out();
  // Where a range lies in the forward part, and by op of the order: bytes made before the range and
  // still there, and bytes of inner values that would have left.
  struct Place {
    size_t first, last;  // stages
    size_t from, to;     // places in forward_
    std::vector<int64_t> older, gone;
    IdVector<SchedValueId, char> leaves;
  };
  void add_value(SchedValueId v, Place& at, StageRange& range) const;
  void add_ops(const Place& at, StageRange& range) const;
  void add_reruns(const Place& at, StageRange& range) const;
  size_t stage_of(size_t place) const;

  const plan::ScheduleProblem& problem_;
  const plan::ProblemIndex index_;
  const IdVector<SchedOpId, char> is_forward_;
  std::vector<SchedOpId> forward_;     // in order
  std::vector<size_t> ends_;           // of stages: one behind the last place in forward_
  int64_t tiny_bytes_ = 0;             // what moves nothing and says nothing
  std::vector<int64_t> added_;         // by op of the order: bytes present, less residents
  IdVector<SchedOpId, size_t> stage_;  // of each op
  IdVector<SchedOpId, size_t> place_;  // of forward ops
  IdVector<SchedValueId, size_t> last_forward_;  // place of the last forward reader, or its own
  IdVector<SchedValueId, size_t> last_op_;       // of the order, that has it present
  IdVector<SchedValueId, char> read_back_;       // by the backward part, or an output
};

}  // namespace lowtide::baselines
