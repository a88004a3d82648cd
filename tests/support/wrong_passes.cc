#include "support/wrong_passes.h"

#include <utility>

#include "fission/expand.h"
#include "rewrite/sums.h"

#define LT_ORDER_SUMS \
  "_ZN7lowtide7rewrite10order_sumsERKNS_2ir5GraphERKSt6vectorINS_8analysis3SumESaIS7_EE"
#define LT_EXPAND                                                                              \
  "_ZN7lowtide7fission6expandERKNS_2ir5GraphERKSt6vectorINS_8IdVectorINS_2IdINS1_5OpTagEEESt8" \
  "optionalINS0_3CutEEEESaISD_EENS0_7WindowsE"

namespace lowtide {
namespace {

// The last product with square operands takes its second one transposed.
void spoil(ir::Graph& graph) {
  ir::OpId last;
  for (const ir::OpId id : graph.ops())
    if (graph.op(id).kind == "MatMul" &&
        graph.value(graph.op(id).inputs[1]).dims[0] == graph.value(graph.op(id).inputs[1]).dims[1])
      last = id;
  if (!last.valid()) return;
  ir::AttrValue& flag = const_cast<ir::Op&>(graph.op(last)).attrs["trans_b"];
  const auto* was = std::get_if<int64_t>(&flag);
  flag = int64_t{was == nullptr || *was == 0 ? 1 : 0};
}

}  // namespace

namespace rewrite {

using Sums = std::vector<analysis::Sum>;
Result<ir::Rewritten> right_order_sums(const ir::Graph& graph,
                                       const Sums& sums) asm("__real_" LT_ORDER_SUMS);
Result<ir::Rewritten> wrong_order_sums(const ir::Graph& graph,
                                       const Sums& sums) asm("__wrap_" LT_ORDER_SUMS);

Result<ir::Rewritten> wrong_order_sums(const ir::Graph& graph, const Sums& sums) {
  Result<ir::Rewritten> made = right_order_sums(graph, sums);
  if (made && wrong_pass == WrongPass::kOrderSums) spoil(made->graph);
  return made;
}

}  // namespace rewrite

namespace fission {

Result<Expanded> right_expand(const ir::Graph& graph, const NestedCuts& cuts,
                              Windows windows) asm("__real_" LT_EXPAND);
Result<Expanded> wrong_expand(const ir::Graph& graph, const NestedCuts& cuts,
                              Windows windows) asm("__wrap_" LT_EXPAND);

Result<Expanded> wrong_expand(const ir::Graph& graph, const NestedCuts& cuts, Windows windows) {
  Result<Expanded> made = right_expand(graph, cuts, windows);
  if (made && wrong_pass == WrongPass::kExpand) spoil(made->graph);
  return made;
}

}  // namespace fission

}  // namespace lowtide
