#include "order/cut_bound.h"

#include <algorithm>
#include <numeric>

#include "base/max_flow.h"
#include "order/prefix.h"

namespace lowtide::order {
namespace {

enum class Side : uint8_t { kFree, kSource, kSink };

// Which side of v's cut each op is on before any cut is made.
IdVector<OpId, Side> sides_of(const OrderGraph& graph, OpId op) {
  IdVector<OpId, Side> side(graph.size(), Side::kFree);
  const auto spread = [&](const Lists<OpId, OpId>& next, Side mark) {
    std::vector<OpId> stack{op};
    while (!stack.empty()) {
      const OpId at = stack.back();
      stack.pop_back();
      for (OpId to : next[at]) {
        if (side[to] == mark) continue;
        side[to] = mark;
        stack.push_back(to);
      }
    }
  };
  spread(graph.preds, Side::kSource);
  spread(graph.succs, Side::kSink);
  side[op] = Side::kSink;
  return side;
}

// The network of one op's cut; node 0 is the source, 1 the sink.
class CutNetwork {
 public:
  CutNetwork(const OrderGraph& graph, OpId op)
      : graph_(graph), op_(op), side_(sides_of(graph, op)), node_(graph.size(), 0), flow_(2) {
    for (OpId v : node_.ids())
      node_[v] = side_[v] == Side::kFree ? flow_.add_node() : side_[v] == Side::kSource ? 0 : 1;
    for (OpId v : node_.ids()) add_op(v);
    for (HeldId value : graph.held_bytes.ids()) add_value(value);
  }

  OpCut solve(WorkBudget& work) {
    OpCut cut;
    cut.op = op_;
    cut.bytes = constant_ + flow_.run(0, 1) + graph_.transient_bytes[op_] - most_reused();
    for (OpId v : node_.ids())
      if (side_[v] == Side::kSource || (side_[v] == Side::kFree && flow_.source_side(node_[v])))
        cut.prefix.push_back(v);
    // An arc costs a fraction of running an op in a search; the rest is building the network.
    work.spend((flow_.arcs_seen() + static_cast<int64_t>(node_.size())) / 8 + 1);
    return cut;
  }

 private:
  void add_op(OpId v) {
    if (graph_.kept_bytes[v] > 0) add_cost(v, 1, graph_.kept_bytes[v]);
    if (side_[v] != Side::kFree) return;
    for (OpId pred : graph_.preds[v])
      if (side_[pred] == Side::kFree) flow_.add_arc(node_[v], node_[pred], MaxFlow::kUnlimited);
  }

  void add_value(HeldId value) {
    free_readers_.clear();
    bool read_by_sink = false;
    for (OpId reader : graph_.readers[value]) {
      read_by_sink = read_by_sink || side_[reader] == Side::kSink;
      if (side_[reader] == Side::kFree) free_readers_.push_back(reader);
    }
    const OpId producer = graph_.producer[value];
    const int64_t bytes = graph_.held_bytes[value];
    if (read_by_sink) return add_cost(producer, 1, bytes);
    if (free_readers_.empty()) return;
    if (free_readers_.size() == 1) return add_cost(producer, node_[free_readers_[0]], bytes);
    const size_t node = flow_.add_node();
    add_cost(producer, node, bytes);
    for (OpId reader : free_readers_) flow_.add_arc(node, node_[reader], MaxFlow::kUnlimited);
  }

  // `bytes` are present if `producer` is on the source's side and `node` is on the sink's.
  void add_cost(OpId producer, size_t node, int64_t bytes) {
    if (side_[producer] == Side::kSink) return;
    if (node_[producer] == 0 && node == 1) {
      constant_ += bytes;
    } else {
      flow_.add_arc(node_[producer], node, bytes);
    }
  }

  // The op can be the last reader of an input only if no other reader descends from it; all such
  // inputs can be in that state at once, when everything but the op's descendants has run.
  int64_t most_reused() const {
    return reuse_bytes(graph_, op_, [&](HeldId input) {
      for (OpId reader : graph_.readers[input])
        if (reader != op_ && side_[reader] == Side::kSink) return false;
      return true;
    });
  }

  const OrderGraph& graph_;
  const OpId op_;
  const IdVector<OpId, Side> side_;
  IdVector<OpId, size_t> node_;
  MaxFlow flow_;
  int64_t constant_ = 0;
  std::vector<OpId> free_readers_;
};

}  // namespace

OpCut cut_of(const OrderGraph& graph, OpId op, WorkBudget& work) {
  return CutNetwork(graph, op).solve(work);
}

void CutBound::improve(std::span<const OpId> best_known, WorkBudget& work) {
  const std::vector<int64_t> peaks = step_peaks(graph_, best_known);
  std::vector<size_t> steps(peaks.size());
  std::iota(steps.begin(), steps.end(), size_t{0});
  std::stable_sort(steps.begin(), steps.end(),
                   [&](size_t a, size_t b) { return peaks[a] > peaks[b]; });
  for (size_t step : steps) {
    if (best_ && peaks[step] <= best_->bytes) break;
    if (cut_made_[best_known[step]]) continue;
    if (work.exhausted()) return;
    OpCut cut = cut_of(graph_, best_known[step], work);
    cut_made_[best_known[step]] = 1;
    if (!best_ || cut.bytes > best_->bytes) best_ = std::move(cut);
  }
  finished_ = true;
}

int64_t largest_op_bytes(const OrderGraph& graph) {
  IdVector<OpId, int64_t> bytes = graph.transient_bytes;
  for (HeldId value : graph.held_bytes.ids())
    for (OpId reader : graph.readers[value]) bytes[reader] += graph.held_bytes[value];
  int64_t largest = 0;
  for (OpId op : bytes.ids())
    largest = std::max(largest, bytes[op] - reuse_bytes(graph, op, [](HeldId) { return true; }));
  return largest;
}

}  // namespace lowtide::order
