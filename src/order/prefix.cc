#include "order/prefix.h"

#include <algorithm>

#include "base/rng.h"

namespace lowtide::order {

Prefix::Prefix(const OrderGraph& graph)
    : graph_(&graph),
      missing_(graph.size(), 0),
      pending_bytes_(graph.size(), 0),
      unread_(graph.held_bytes.size(), 0),
      unread_xor_(graph.held_bytes.size(), 0),
      frees_(graph.size(), 0),
      ready_at_(graph.size(), 0),
      words_((graph.size() + 63) / 64, 0) {
  ready_.reserve(graph.size());
  sequence_.reserve(graph.size());
  for (HeldId value : graph.held_bytes.ids()) {
    for (OpId reader : graph.readers[value]) unread_xor_[value] ^= reader.index();
    unread_[value] = static_cast<uint32_t>(graph.readers[value].size());
    if (unread_[value] == 1) frees_[OpId(unread_xor_[value])] += graph.held_bytes[value];
  }
  for (OpId op : missing_.ids()) {
    for (OpId pred : graph.preds[op]) missing_[op] += !graph.late[pred];
    for (OpId late : graph.late_before[op]) pending_bytes_[op] += growth(late);
    if (missing_[op] == 0 && !graph.late[op]) add_ready(op);
  }
}

int64_t Prefix::peak(OpId op) const {
  const int64_t reused =
      reuse_bytes(*graph_, op, [&](HeldId input) { return unread_[input] == 1; });
  return live_bytes_ + pending_bytes_[op] + graph_->transient_bytes[op] - reused;
}

void Prefix::run(OpId op) {
  LT_DCHECK(is_ready(op), "only a ready op can run");
  for (OpId late : graph_->late_before[op])
    if (!done(late)) run_alone(late);
  run_alone(op);
}

void Prefix::run_alone(OpId op) {
  live_bytes_ += growth(op);
  if (!graph_->late[op]) remove_ready(op);
  flip(op);
  sequence_.push_back(op);
  for (HeldId value : graph_->reads[op]) {
    unread_xor_[value] ^= op.index();
    if (--unread_[value] == 1) frees_[OpId(unread_xor_[value])] += graph_->held_bytes[value];
  }
  if (graph_->late[op]) {
    for (OpId user : graph_->late_users[op]) pending_bytes_[user] -= growth(op);
    return;
  }
  for (OpId next : graph_->succs[op])
    if (--missing_[next] == 0) add_ready(next);
}

void Prefix::undo() {
  const OpId op = sequence_.back();
  sequence_.pop_back();
  const bool late = graph_->late[op];
  if (late) {
    for (OpId user : graph_->late_users[op]) pending_bytes_[user] += growth(op);
  } else {
    for (OpId next : graph_->succs[op])
      if (missing_[next]++ == 0) remove_ready(next);
  }
  for (HeldId value : graph_->reads[op]) {
    if (unread_[value]++ == 1) frees_[OpId(unread_xor_[value])] -= graph_->held_bytes[value];
    unread_xor_[value] ^= op.index();
  }
  flip(op);
  if (!late) add_ready(op);
  live_bytes_ -= growth(op);
}

void Prefix::undo_to(size_t length) {
  while (sequence_.size() > length) undo();
}

void Prefix::add_ready(OpId op) {
  ready_at_[op] = static_cast<uint32_t>(ready_.size());
  ready_.push_back(op);
}

void Prefix::remove_ready(OpId op) {
  const uint32_t at = ready_at_[op];
  ready_[at] = ready_.back();
  ready_at_[ready_[at]] = at;
  ready_.pop_back();
}

void Prefix::flip(OpId op) {
  words_[op.index() >> 6] ^= uint64_t{1} << (op.index() & 63);
  hash_ ^= Rng(op.index()).next();
}

std::vector<int64_t> step_peaks(const OrderGraph& graph, std::span<const OpId> sequence) {
  Prefix prefix(graph);
  std::vector<int64_t> peaks;
  peaks.reserve(sequence.size());
  for (OpId op : sequence) {
    LT_CHECK(prefix.is_ready(op), "a sequence respects all arcs");
    peaks.push_back(prefix.peak(op));
    prefix.run(op);
  }
  return peaks;
}

int64_t peak_of(const OrderGraph& graph, std::span<const OpId> sequence, int64_t enough_bytes) {
  Prefix prefix(graph);
  int64_t most = 0;
  for (OpId op : sequence) {
    LT_CHECK(prefix.is_ready(op), "a sequence respects all arcs");
    most = std::max(most, prefix.peak(op));
    if (most >= enough_bytes) break;
    prefix.run(op);
  }
  return most;
}

}  // namespace lowtide::order
