// The chosen rewrites (rewrite/rewrites.h) on a graph, and what each of them was worth.
//
// Tests: take_rewrites_test.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/optimize.h"
#include "rewrite/rewrites.h"

namespace lowtide::pipeline {

// Runs them in their order and puts those that changed something behind `worth`, or adds to the
// entry of the same name. Where `options` split the step (or leave the split open) those that are
// for steps in parts run, too; the step in one part is what options without a split make. Errors
// of the passes, and kUsage of a choice that names no rewrite.
Status take_rewrites(ir::Graph& graph, rewrite::RewriteStage stage, const OptimizeOptions& options,
                     std::vector<RewriteWorth>& worth);

// The step as options that split it would cut it: the gradients, and all rewrites of both stages.
// Errors of those.
Result<ir::Graph> step_to_cut(const ir::Graph& forward, OptimizeOptions options);

// The same of one forward graph again and again, with other rewrites and numbers of blocks: what a
// pass has made of a graph is kept, as long as all graphs together have few enough ops. So choices
// share what they begin with, and what changes nothing costs nothing. Any thread may ask; what is
// kept changes no answer.
class StepsToCut {
 public:
  explicit StepsToCut(const ir::Graph& forward);
  ~StepsToCut();
  StepsToCut(const StepsToCut&) = delete;
  StepsToCut& operator=(const StepsToCut&) = delete;

  // But for rewrites, blocks and cuts all options are the same each time.
  Result<ir::Graph> step(OptimizeOptions options);

 private:
  struct Known;
  template <class Run>
  Result<std::shared_ptr<Known>> after(const std::shared_ptr<Known>& before, size_t pass,
                                       int64_t blocks, const Run& run);

  std::shared_ptr<Known> forward_;  // shared: who asks holds a graph that may not be kept
  std::mutex mutex_;
  size_t kept_ops_ = 0;
};

// The names of all, sorted.
std::vector<std::string> all_rewrites();

// Those that run only where they are asked for, and that `options` neither ask for nor refuse. What
// runs by default in parts or in blocks is not among them.
std::vector<std::string> open_rewrites(const OptimizeOptions& options);
// The same of those that are of use only with a cut along an axis that they make divisible.
std::vector<std::string> freeing_rewrites(const OptimizeOptions& options);
// The same of those that run by default in parts, but not where the options have cuts alone.
std::vector<std::string> rewrites_of_parts(const OptimizeOptions& options);

// Of these, those that make the step of these options faster, or its peak in the given order lower.
// What that is worth within a budget, plans with them say. Errors of the passes.
Result<std::vector<std::string>> promising_rewrites(const ir::Graph& forward,
                                                    const OptimizeOptions& options);

// Of the ops in their given order; what they work in is not counted.
Result<int64_t> peak_as_given(const ir::Graph& graph, int64_t alignment_bytes);

}  // namespace lowtide::pipeline
