#include "order/late.h"

namespace lowtide::order {

IdVector<OpId, char> find_late_ops(const OrderGraph& graph) {
  IdVector<OpId, char> late(graph.size(), 0);
  for (OpId op : late.ids()) {
    if (!graph.preds[op].empty() || graph.succs[op].empty()) continue;
    const int64_t dead = graph.transient_bytes[op] - graph.made_bytes[op];
    bool fits = true;
    for (OpId next : graph.succs[op]) {
      if (!fits || dead == 0) break;
      const int64_t reused = reuse_bytes(graph, next, [](HeldId) { return true; });
      fits = dead <= graph.transient_bytes[next] - reused;
    }
    late[op] = fits;
  }
  return late;
}

}  // namespace lowtide::order
