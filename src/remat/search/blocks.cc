#include "remat/search/blocks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct BlockTuning {
  size_t fewest = 3;  // of a step; two alike are often a pair of something else
};
constexpr BlockTuning kBlocks;

}  // namespace

// The number that most ops that may rerun share as that of their likes is that of the blocks. A
// block is what is nearest to one op of the class that is largest by bytes.
Blocks::Blocks(const ActionTable& table, const Repeats& repeats)
    : block_(table.op_count()), role_(table.op_count()), next_(table.op_count()) {
  std::map<size_t, size_t> ops_by_likes;
  for (const SchedOpId op : table.ops())
    ops_by_likes[repeats.alike(op).size()] += table.may_rerun(op);
  size_t count = 0, most = 0;
  for (const auto& [alike, ops] : ops_by_likes)
    if (alike >= kBlocks.fewest && ops > most) count = alike, most = ops;
  std::span<const SchedOpId> anchors;
  double widest = -1;
  for (const SchedOpId op : table.ops()) {
    const auto alike = repeats.alike(op);
    if (alike.size() != count || !table.may_rerun(op)) continue;
    double bytes = 0;
    for (const SchedValueId v : table.makes(op)) bytes += table.bytes(v);
    if (bytes > widest) widest = bytes, anchors = alike;
  }
  if (anchors.empty()) return;
  count_ = count;
  gather(table, anchors);
  for (size_t k = 0; k + 1 < anchors.size(); ++k) match(table, repeats, anchors[k], anchors[k + 1]);
  name_roles();
}

// Each op to the block whose anchor is nearest, in steps along values, either way.
void Blocks::gather(const ActionTable& table, std::span<const SchedOpId> anchors) {
  std::vector<SchedOpId> reached(anchors.begin(), anchors.end());
  for (size_t k = 0; k < anchors.size(); ++k) block_[anchors[k]] = BlockId(k);
  const auto reach = [&](SchedOpId op, BlockId block) {
    if (!table.is_op(op) || block_[op].valid()) return;
    block_[op] = block;
    reached.push_back(op);
  };
  for (size_t i = 0; i < reached.size(); ++i) {
    const SchedOpId op = reached[i];
    const BlockId block = block_of(op);
    for (const SchedValueId v : table.reads(op)) reach(table.producer(v), block);
    for (const SchedValueId v : table.makes(op))
      for (const SchedOpId reader : table.readers(v)) reach(reader, block);
  }
}

// Grows an isomorphism between two neighbouring blocks from their anchors.
void Blocks::match(const ActionTable& table, const Repeats& repeats, SchedOpId from, SchedOpId to) {
  const BlockId block = block_of(from), other = block_of(to);
  std::vector<std::pair<SchedOpId, SchedOpId>> pairs;
  IdVector<SchedOpId, char> taken(table.op_count(), 0);
  const auto meet = [&](SchedOpId a, SchedOpId b) {
    if (!table.is_op(a) || !table.is_op(b) || block_of(a) != block || block_of(b) != other) return;
    if (next_[a].valid() || taken[b]) return;
    if (repeats.alike(a).data() != repeats.alike(b).data()) return;
    next_[a] = b;
    taken[b] = 1;
    pairs.emplace_back(a, b);
  };
  meet(from, to);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [a, b] = pairs[i];
    const auto makes_a = table.makes(a), makes_b = table.makes(b);
    for (size_t k = 0; k < std::min(makes_a.size(), makes_b.size()); ++k) {
      const auto readers_a = table.readers(makes_a[k]), readers_b = table.readers(makes_b[k]);
      for (size_t r = 0; r < std::min(readers_a.size(), readers_b.size()); ++r)
        meet(readers_a[r], readers_b[r]);
    }
    const auto reads_a = table.reads(a), reads_b = table.reads(b);
    for (size_t k = 0; k < std::min(reads_a.size(), reads_b.size()); ++k)
      meet(table.producer(reads_a[k]), table.producer(reads_b[k]));
  }
}

// Ops that follow each other from block to block play one role; those that stand alone, none.
void Blocks::name_roles() {
  IdVector<SchedOpId, char> follows(block_.size(), 0);
  for (const SchedOpId next : next_)
    if (next.valid()) follows[next] = 1;
  IdVector<RoleId, IdVector<BlockId, SchedOpId>> roles;
  for (const SchedOpId op : block_.ids()) {
    if (follows[op]) continue;
    if (!next_[op].valid()) {
      block_[op] = BlockId::none();
      continue;
    }
    IdVector<BlockId, SchedOpId> role(count_);
    for (SchedOpId at = op; at.valid(); at = next_[at]) {
      role[block_of(at)] = at;
      role_[at] = RoleId(roles.size());
    }
    roles.push_back(std::move(role));
  }
  roles_ = roles.size();
  for (const BlockId block : IdRange<BlockId>(count_))
    for (const auto& role : roles) op_at_.push_back(role[block]);
}

double Blocks::share() const {
  const auto outside = std::ranges::count(block_, BlockId::none());
  return 1 - static_cast<double>(outside) / static_cast<double>(std::max<size_t>(1, block_.size()));
}

SchedOpId Blocks::shifted(SchedOpId op, int by) const {
  if (!block_of(op).valid()) return op;
  const int64_t other = int64_t{block_of(op).index()} + by;
  if (other < 0 || other >= static_cast<int64_t>(count_)) return SchedOpId::none();
  return ops_of(BlockId(static_cast<size_t>(other)))[role_[op].index()];
}

bool BlockCopy::copy(BlockId from, BlockId to) {
  const int shift = static_cast<int>(to.index()) - static_cast<int>(from.index());
  const Timeline& timeline = state_->timeline();
  placed_.clear();
  for (const SchedOpId op : blocks_->ops_of(from)) {
    const SchedOpId image = op.valid() ? blocks_->shifted(op, shift) : op;
    if (!image.valid()) continue;
    const auto runs = state_->runs(op);
    for (size_t k = 1; k < runs.size(); ++k) placed_.push_back({runs[k], image, {}});
  }
  std::ranges::sort(
      placed_, [&](const Placed& a, const Placed& b) { return timeline.before(a.node, b.node); });
  for (Placed& run : placed_) run.before = place_of(run.node, shift);
  for (const SchedOpId op : blocks_->ops_of(from)) {
    const SchedOpId image = op.valid() ? blocks_->shifted(op, shift) : op;
    while (image.valid() && state_->runs(image).size() > 1) {
      const NodeId last = state_->runs(image).back();
      if (!state_->can_remove(last)) return false;
      state_->remove(last);
    }
  }
  for (const Placed& run : placed_) {
    const NodeId previous = timeline.previous(state_->runs(run.before).front());
    if (!state_->can_insert(run.action, previous)) return false;
    state_->insert_after(previous, run.action);
  }
  return true;
}

// The action before whose first run the image of a rerun stands.
SchedOpId BlockCopy::place_of(NodeId node, int shift) const {
  const Timeline& timeline = state_->timeline();
  for (;;) {
    node = timeline.next(node);
    const SchedOpId action = state_->action(node);
    if (state_->runs(action).front() != node) continue;
    if (node == state_->end_node()) return action;
    const SchedOpId image = blocks_->shifted(action, shift);
    if (image.valid()) return image;
  }
}

}  // namespace lowtide::remat
