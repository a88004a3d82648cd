#include "base/max_flow.h"

#include <algorithm>

namespace lowtide {

size_t MaxFlow::add_node() {
  first_.push_back(kNoArc);
  return first_.size() - 1;
}

void MaxFlow::add_arc(size_t from, size_t to, int64_t capacity) {
  arcs_.push_back({static_cast<uint32_t>(to), first_[from], capacity});
  first_[from] = static_cast<uint32_t>(arcs_.size() - 1);
  arcs_.push_back({static_cast<uint32_t>(from), first_[to], 0});
  first_[to] = static_cast<uint32_t>(arcs_.size() - 1);
}

int64_t MaxFlow::run(size_t source, size_t sink) {
  int64_t flow = 0;
  while (make_levels(source, sink)) {
    current_ = first_;
    path_.clear();
    while (const int64_t pushed = push_one_path(source, sink)) flow += pushed;
  }
  return flow;
}

bool MaxFlow::make_levels(size_t source, size_t sink) {
  level_.assign(first_.size(), -1);
  level_[source] = 0;
  std::vector<uint32_t> queue{static_cast<uint32_t>(source)};
  for (size_t i = 0; i < queue.size(); ++i) {
    for (uint32_t a = first_[queue[i]]; a != kNoArc; a = arcs_[a].next) {
      ++arcs_seen_;
      if (arcs_[a].residual == 0 || level_[arcs_[a].to] >= 0) continue;
      level_[arcs_[a].to] = level_[queue[i]] + 1;
      queue.push_back(arcs_[a].to);
    }
  }
  return level_[sink] >= 0;
}

// Walks down the levels from where the last path was full, steps back at dead ends, and pushes what
// the found path can carry; 0 if none is left.
int64_t MaxFlow::push_one_path(size_t source, size_t sink) {
  size_t node = path_.empty() ? source : arcs_[path_.back()].to;
  while (node != sink) {
    uint32_t& a = current_[node];
    while (a != kNoArc && (arcs_[a].residual == 0 || level_[arcs_[a].to] != level_[node] + 1)) {
      a = arcs_[a].next;
      ++arcs_seen_;
    }
    if (a != kNoArc) {
      path_.push_back(a);
      node = arcs_[a].to;
      continue;
    }
    if (node == source) return 0;
    node = arcs_[path_.back() ^ 1].to;
    path_.pop_back();
    current_[node] = arcs_[current_[node]].next;
  }
  int64_t amount = kUnlimited;
  for (uint32_t a : path_) amount = std::min(amount, arcs_[a].residual);
  size_t full = path_.size();
  for (size_t i = path_.size(); i-- > 0;) {
    Arc &arc = arcs_[path_[i]], &back = arcs_[path_[i] ^ 1];
    if (arc.residual != kUnlimited) arc.residual -= amount;
    if (back.residual != kUnlimited) back.residual += amount;
    if (arc.residual == 0) full = i;
  }
  path_.resize(full);  // all arcs before it can carry more, so the next path begins with them
  return amount;
}

}  // namespace lowtide
