#include "base/max_flow.h"

#include <algorithm>

namespace lowtide {

void MaxFlow::add_arc(size_t from, size_t to, int64_t capacity) {
  added_.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(to), capacity});
}

void MaxFlow::lay_out() {
  first_.assign(nodes_ + 1, 0);
  for (const Added& arc : added_) ++first_[arc.from + 1], ++first_[arc.to + 1];
  for (size_t node = 0; node < nodes_; ++node) first_[node + 1] += first_[node];
  current_ = first_;  // where a node's next arc goes
  arcs_.resize(2 * added_.size());
  for (size_t i = added_.size(); i-- > 0;) {
    const Added& arc = added_[i];
    const uint32_t back = current_[arc.to]++, forth = current_[arc.from]++;
    arcs_[back] = {0, arc.from, forth};
    arcs_[forth] = {arc.capacity, arc.to, back};
  }
}

int64_t MaxFlow::run(size_t source, size_t sink) {
  lay_out();
  int64_t flow = 0;
  while (make_levels(source, sink)) {
    current_ = first_;
    path_.clear();
    while (const int64_t pushed = push_one_path(source, sink)) flow += pushed;
  }
  return flow;
}

bool MaxFlow::make_levels(size_t source, size_t sink) {
  level_.assign(nodes_, -1);
  level_[source] = 0;
  queue_.assign(1, static_cast<uint32_t>(source));
  for (size_t i = 0; i < queue_.size(); ++i) {
    const uint32_t node = queue_[i], end = first_[node + 1];
    arcs_seen_ += end - first_[node];
    for (uint32_t a = first_[node]; a != end; ++a) {
      const Arc& arc = arcs_[a];
      if (arc.residual == 0 || level_[arc.to] >= 0) continue;
      level_[arc.to] = level_[node] + 1;
      queue_.push_back(arc.to);
    }
  }
  return level_[sink] >= 0;
}

// Walks down the levels from where the last path was full, steps back at dead ends, and pushes what
// the found path can carry; 0 if none is left.
int64_t MaxFlow::push_one_path(size_t source, size_t sink) {
  size_t node = path_.empty() ? source : arcs_[path_.back()].to;
  while (node != sink) {
    const uint32_t from = current_[node], end = first_[node + 1];
    const int32_t below = level_[node] + 1;
    uint32_t a = from;
    while (a != end && (arcs_[a].residual == 0 || level_[arcs_[a].to] != below)) ++a;
    arcs_seen_ += a - from;
    current_[node] = a;
    if (a != end) {
      path_.push_back(a);
      node = arcs_[a].to;
      continue;
    }
    if (node == source) return 0;
    node = arcs_[arcs_[path_.back()].back].to;
    path_.pop_back();
    ++current_[node];
  }
  int64_t amount = kUnlimited;
  for (uint32_t a : path_) amount = std::min(amount, arcs_[a].residual);
  size_t full = path_.size();
  for (size_t i = path_.size(); i-- > 0;) {
    Arc &arc = arcs_[path_[i]], &back = arcs_[arc.back];
    if (arc.residual != kUnlimited) arc.residual -= amount;
    if (back.residual != kUnlimited) back.residual += amount;
    if (arc.residual == 0) full = i;
  }
  path_.resize(full);  // all arcs before it can carry more, so the next path begins with them
  return amount;
}

}  // namespace lowtide
