#include "pipeline/part_kernels.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "analysis/describe.h"
#include "analysis/sums.h"
#include "cost/kernel_class.h"
#include "fission/classes.h"
#include "ops/op_table.h"
#include "pipeline/prepare.h"
#include "pipeline/take_rewrites.h"

namespace lowtide::pipeline {
namespace {

using Kernels = std::map<std::string, PartKernel>;

void add(Kernels& kernels, plan::OpDesc op, int64_t runs) {
  std::string key = cost::op_key(op);
  PartKernel& kernel = kernels.try_emplace(std::move(key), PartKernel{}).first->second;
  kernel.op = std::move(op);
  kernel.runs += runs;
}

// The first op of a sum with its accumulator, and the others without: whichever comes first.
Status add_of_sums(const Prepared& ready, const OptimizeOptions& options, Kernels& kernels) {
  for (const analysis::Sum& sum : analysis::find_sums(ready.graph)) {
    if (sum.first_is_fixed) continue;
    for (const analysis::Contribution& c : sum.contributions) {
      LT_ASSIGN(plan::OpDesc op, analysis::describe(ready.graph, c.op));
      if (op.inputs.size() <= c.input) op.inputs.resize(c.input + 1);
      if (op.inputs[c.input]) {
        op.inputs[c.input].reset();
        while (!op.inputs.empty() && !op.inputs.back()) op.inputs.pop_back();
      } else {
        op.inputs[c.input] = op.outputs[c.output];
      }
      if (options.kernels->workspace_bytes(op)) add(kernels, std::move(op), 0);
    }
  }
  return {};
}

}  // namespace

Result<std::vector<PartKernel>> kernels_in_parts(const ir::Graph& forward,
                                                 const OptimizeOptions& options, int64_t parts) {
  OptimizeOptions split = options;
  split.split = {.parts = parts};
  LT_ASSIGN(const Prepared ready, pose(forward, split));
  Kernels kernels;
  for (const ir::OpId id : ready.graph.ops()) {
    if (analysis::is_view_op(ready.graph, id) || ops::given_cost(ready.graph.op(id))) continue;
    LT_ASSIGN(plan::OpDesc op, analysis::describe(ready.graph, id));
    add(kernels, std::move(op), 1);
  }
  if (options.sums) LT_RETURN_IF_ERROR(add_of_sums(ready, split, kernels));
  std::vector<PartKernel> all;
  for (auto& [key, kernel] : kernels) all.push_back(std::move(kernel));
  return all;
}

Result<std::vector<int64_t>> numbers_of_parts(const ir::Graph& forward,
                                              const OptimizeOptions& options, int64_t most) {
  LT_ASSIGN(const ir::Graph step, step_to_cut(forward, options));
  LT_ASSIGN(const std::vector<fission::AxisClass> classes, fission::axis_classes(step));
  const int64_t extent = classes.empty() ? 1 : classes.front().least_extent;
  std::vector<int64_t> numbers;
  int64_t size = 0;
  for (int64_t parts = 1; parts <= std::min(most, extent); ++parts)
    if (const int64_t largest = (extent + parts - 1) / parts; largest != size) {
      numbers.push_back(parts);
      size = largest;
    }
  return numbers;
}

}  // namespace lowtide::pipeline
