#include "analysis/integer_limits.h"

#include <algorithm>

#include "ops/op_table.h"

namespace lowtide::analysis {
namespace {

constexpr int64_t kTruthValues = 2;

// The smaller bound, where 0 is none.
int64_t tighter(int64_t a, int64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

}  // namespace

IdVector<ir::ValueId, int64_t> integer_limits(const ir::Graph& graph) {
  IdVector<ir::ValueId, int64_t> limits(graph.value_count(), 0);
  for (size_t o = graph.op_count(); o-- > 0;) {  // readers before what they read
    const ir::OpId id(o);
    const ir::Op& op = graph.op(id);
    const ops::Row* row = ops::find(op.kind);
    if (row == nullptr) continue;
    int64_t carried = 0;
    if (ops::traits(*row).carries)
      for (ir::ValueId output : op.outputs) {
        const bool truth = graph.value(output).dtype == DType::kBool;
        carried = tighter(carried, truth ? kTruthValues : limits[output]);
      }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const ir::ValueId input = op.inputs[i];
      if (!input.valid() || !is_integer(graph.value(input).dtype)) continue;
      limits[input] = tighter(limits[input], carried);
      const auto extent = ops::position_limit(ops::instance_of(graph, id), i);
      if (extent && extent->constant()) limits[input] = tighter(limits[input], *extent->constant());
    }
  }
  return limits;
}

}  // namespace lowtide::analysis
