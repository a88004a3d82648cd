// Transpose, Expand and Slice without a copy, by a greedy pass: where every reader's kernel walks
// the operand's own memory with other strides, the result becomes a strided view (Layout::strides).
// Saves the copy's time, and the moment at which operand and result are both there.
//
// Ops are looked at one by one in their order, each with what was chosen before: a view of a view
// is one, and so are the Reshapes behind it that can hand strides on. One becomes a view where
//   - no schedule can need more memory. A view keeps its base's storage until its own last reader,
//     which is no more than the copy took if that was at least as large and nobody worked in place
//     on it; or the storage is there all the time (parameters, inputs: then also a slice of it).
//     Who could work in place on the copy must be its one reader, read nothing else that the step
//     makes, need no scratch and make one result: then it can run where the copy did, while base
//     and copy were there, and its result takes the place of the copy. Who worked in place on the
//     base may have to wait for the view's readers: the bytes of its own result, which it then
//     needs beside the base, are those that the copy would have had;
//   - nobody overwrites the storage, returns the result or joins it to others (a Concat of it may
//     become a view itself, pieces.h), and no control edge names the op;
//   - every reader has a kernel for it that does not wish for another layout, with no more
//     workspace and results that lie as before;
//   - the readers' seconds together are less than theirs and the copy's before. Where more than
//     one op reads it, the copy stays unless they are no slower at all: a copy is paid once, and a
//     walk that is slower than we think at each of them.
// Layouts must have been chosen (layouts.h): which kernel runs depends on them.
#pragma once

#include <functional>

#include "base/result.h"
#include "ir/graph.h"
#include "plan/kernel_catalog.h"

namespace lowtide::rewrite {

struct StridedViewsOptions {
  // Of one run of a kernel, with these layouts.
  std::function<Result<double>(const plan::OpDesc&)> seconds;
  // Also slices, of storages that are there before the step. Not where these may be moved out of
  // memory: a view of a part needs all of them back.
  bool slices = true;
};

struct StridedViewsReport {
  ir::Graph graph;
  int views = 0;  // ops that copy nothing any more
  bool changed() const { return views > 0; }
};

// All dims must be constant. Names, order, phases and control edges stay.
Result<StridedViewsReport> make_strided_views(const ir::Graph& graph,
                                              const plan::KernelCatalog& catalog,
                                              const StridedViewsOptions& options);

}  // namespace lowtide::rewrite
