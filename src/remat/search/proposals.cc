#include "remat/search/proposals.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "remat/search/rerun.h"

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
// What the kinds of change are worth: rows "order-moves", "stretch-moves", "exchanges", "de-remat",
// "repeats", "aimed-drops" and "aimed-moves" of "What each idea is worth".
struct ProposalTuning {
  uint32_t weights[kProposalKinds] = {320, 350, 200, 15, 15, 100, 0};  // of the kinds
  double most_copies = 50;        // where all ops stand in blocks, copies take that from drops
  uint32_t more_drops = 100;      // and fewer keeps, where memory overflows
  int fullest = 8;                // nodes of which the fullest is taken
  uint64_t longest_stretch = 48;  // ops
  int node_tries = 24;            // to hit a value that is present at a node
  // One in so many is aimed at what overflows, where anything does: drops; moves, which else are
  // aimed at the fullest node more seldom; and moves in place of an exchange's drops.
  uint32_t aimed_drops = 2, aimed_moves = 2, aimed_moves_within = 4, exchange_moves = 4;
  uint32_t most_drops = 3;  // of one exchange
};
constexpr ProposalTuning kProposals;

size_t index_of(ProposalKind kind) {
  return static_cast<size_t>(kind);
}
}  // namespace

Proposals::Proposals(SequenceState& state, const ProposalOptions& options, Rng& rng)
    : state_(&state),
      table_(&state.table()),
      options_(options),
      rng_(&rng),
      order_moves_(state, rng) {
  std::copy(std::begin(kProposals.weights), std::end(kProposals.weights), weights_.begin());
  const auto weight = [this](ProposalKind kind) -> uint32_t& { return weights_[index_of(kind)]; };
  if (options.blocks != nullptr) {
    block_copy_.emplace(state, *options.blocks);
    const auto copies = static_cast<uint32_t>(kProposals.most_copies * options.blocks->share());
    weight(ProposalKind::kDrop) -= copies;
    if (options.copies) weight(ProposalKind::kCopyBlock) = copies;
  }
  find_chances();
  if (!options.order_moves) weight(ProposalKind::kMove) = 0;
  if (!options.stretch_moves)
    weight(ProposalKind::kDropStretch) = weight(ProposalKind::kKeepStretch) = 0;
  if (!options.exchanges) weight(ProposalKind::kExchange) = 0;
  if (!options.keeps) weight(ProposalKind::kKeep) = weight(ProposalKind::kKeepStretch) = 0;
}

// What may be dropped, and what moves nothing wherever it runs.
void Proposals::find_chances() {
  for (const SchedValueId v : table_->values())
    if (table_->may_rerun(table_->producer(v)) && table_->bytes(v) > 0 &&
        !table_->readers(v).empty())
      droppable_.push_back(v);
  const auto weightless = [this](SchedValueId v) { return table_->bytes(v) == 0; };
  for (const SchedOpId action : table_->actions())
    inert_.push_back(table_->workspace(action) == 0 &&
                     std::ranges::all_of(table_->reads(action), weightless) &&
                     std::ranges::all_of(table_->makes(action), weightless));
}

bool Proposals::make(int64_t most_cost) {
  most_cost_ = most_cost;
  kind_ = choose();
  return try_kind();
}

ProposalKind Proposals::choose() {
  std::array<uint32_t, kProposalKinds> weights = weights_;
  if (state_->overflow() > 0) {
    weights[index_of(ProposalKind::kDrop)] += kProposals.more_drops;
    uint32_t& keeps = weights[index_of(ProposalKind::kKeep)];
    keeps -= std::min(keeps, kProposals.more_drops);
  }
  uint64_t dice = rng_->below(std::accumulate(weights.begin(), weights.end(), uint64_t{0}));
  size_t kind = 0;
  while (dice >= weights[kind]) dice -= weights[kind++];
  return static_cast<ProposalKind>(kind);
}

bool Proposals::try_kind() {
  switch (kind_) {
    case ProposalKind::kDrop:
      return drop();
    case ProposalKind::kKeep:
      return keep_any();
    case ProposalKind::kMove:
      return move();
    case ProposalKind::kDropStretch:
      return drop_stretch();
    case ProposalKind::kKeepStretch:
      return keep_stretch();
    case ProposalKind::kExchange:
      return exchange();
    case ProposalKind::kCopyBlock:
      return copy_block();
  }
  return false;
}

NodeId Proposals::random_node() {
  // Free slots lead to the next node that is there; one after many of them would come up often.
  const Timeline& timeline = state_->timeline();
  NodeId node;
  for (int i = 0; i < kProposals.node_tries; ++i) {
    const SlotId slot(rng_->below(timeline.slots()));
    node = timeline.node_from(slot);
    if (node.valid() && timeline.slot(node) == slot && inert_[state_->action(node)] == 0) break;
  }
  return node == state_->begin_node() || node == state_->end_node() ? NodeId::none() : node;
}

NodeId Proposals::random_rerun() {
  for (int i = 0; i < kProposals.node_tries; ++i) {
    const NodeId node = random_node();
    if (node.valid() && state_->runs(state_->action(node)).size() > 1) return node;
  }
  return NodeId::none();
}

SchedValueId Proposals::random_value() {
  return droppable_[rng_->below(droppable_.size())];
}

bool Proposals::random_span(SchedValueId& value, NodeId& use) {
  if (droppable_.empty()) return false;
  const SchedValueId v = random_value();
  const auto uses = state_->uses(v);
  if (uses.size() < 2) return false;
  const size_t i = 1 + rng_->below(uses.size() - 1);
  if (uses[i].birth) return false;
  value = v;
  use = uses[i].node;
  return true;
}

bool Proposals::aimed_span(NodeId at, SchedValueId& value, NodeId& use) {
  for (int i = 0; i < kProposals.node_tries && !droppable_.empty(); ++i) {
    const SchedValueId v = random_value();
    const auto uses = state_->uses(v);
    const size_t next = state_->use_from(v, at);
    if (next == 0 || next == uses.size() || uses[next].birth || uses[next].node == at) continue;
    value = v;
    use = uses[next].node;
    return true;
  }
  return false;
}

bool Proposals::drop() {
  SchedValueId value;
  NodeId use;
  if (options_.aimed && state_->overflow() > 0 && rng_->below(kProposals.aimed_drops) == 0) {
    if (!aimed_span(overflowing_node(), value, use)) return false;
  } else if (!random_span(value, use)) {
    return false;
  }
  return drop_before(value, use);
}

bool Proposals::drop_before(SchedValueId value, NodeId use) {
  const auto uses = state_->uses(value);
  const size_t i = state_->use_from(value, use);
  const NodeId last = uses[i - 1].node;
  const SchedOpId action = table_->producer(value);
  const bool from_birth = uses[i - 1].birth;
  if (state_->timeline().next(last) == use) return false;
  // The run that made it may go, which pays for the new one.
  const int64_t saved = from_birth && makes_only(last, value) ? table_->cost(action) : 0;
  most_cost_ += saved;
  const bool ran = run_before(action, use);
  most_cost_ -= saved;
  if (!ran) return false;
  if (from_birth && !state_->is_useful(last) && state_->can_remove(last)) keep(last);
  return true;
}

// Runs `action` right before `node`; of the inputs that are not there, some are made anew, others
// live longer.
bool Proposals::run_before(SchedOpId action, NodeId node) {
  return rerun_before(
      *state_, action, node, kReruns.deepest, [this](SchedOpId) { return rng_->below(2) == 0; },
      [this](SchedOpId a) { return table_->may_rerun(a) && affordable(table_->cost(a)); });
}

// Is the value all that the run is good for?
bool Proposals::makes_only(NodeId maker, SchedValueId value) const {
  for (const SchedValueId v : table_->makes(state_->action(maker))) {
    if (v == value) continue;
    const auto uses = state_->uses(v);
    const size_t i = state_->use_from(v, maker);
    if (i + 1 < uses.size() && !uses[i + 1].birth) return false;
  }
  return true;
}

bool Proposals::keep_any() {
  const NodeId node = random_rerun();
  return node.valid() && state_->can_remove(node) && keep(node);
}

// Removes the run, then the runs that only it needed.
bool Proposals::keep(NodeId first) {
  useless_.assign(1, first);
  while (!useless_.empty()) {
    const NodeId node = useless_.back();
    useless_.pop_back();
    if (!state_->timeline().slot(node).valid()) continue;
    const SchedOpId action = state_->action(node);
    const NodeId next = state_->timeline().next(node);
    state_->remove(node);
    for (const SchedValueId v : table_->reads(action)) {
      const auto uses = state_->uses(v);
      const size_t i = state_->use_from(v, next);
      if (i == 0 || !uses[i - 1].birth || (i < uses.size() && !uses[i].birth)) continue;
      const NodeId maker = uses[i - 1].node;
      if (!state_->is_useful(maker) && state_->can_remove(maker)) useless_.push_back(maker);
    }
    // A run that went may have been the last useful one of those found before; look again.
    std::erase_if(useless_, [&](NodeId n) {
      return !state_->timeline().slot(n).valid() || state_->is_useful(n) || !state_->can_remove(n);
    });
  }
  return true;
}

// Some are aimed: at what overflows, or else at the fullest node.
bool Proposals::move() {
  const bool overflows = state_->overflow() > 0;
  if (options_.aimed_moves &&
      rng_->below(overflows ? kProposals.aimed_moves : kProposals.aimed_moves_within) == 0)
    return order_moves_.relieve(overflows ? overflowing_node() : full_node());
  const NodeId node = random_node();
  return node.valid() && order_moves_.anywhere(node);
}

NodeId Proposals::overflowing_node() {
  const Timeline& timeline = state_->timeline();
  return timeline.overflowing_from(SlotId(rng_->below(timeline.slots())));
}

// The fullest of some nodes.
NodeId Proposals::full_node() {
  NodeId fullest = state_->begin_node();
  for (int i = 0; i < kProposals.fullest; ++i) {
    const NodeId node = random_node();
    if (node.valid() && state_->timeline().bytes(node) > state_->timeline().bytes(fullest))
      fullest = node;
  }
  return fullest;
}

bool Proposals::drop_stretch() {
  const NodeId start = random_node();
  if (!start.valid()) return false;
  const Timeline& timeline = state_->timeline();
  const int length = 2 + static_cast<int>(rng_->below(kProposals.longest_stretch));
  // The stretch, and the first use after it of anything it makes.
  stretch_.clear();
  NodeId node = start;
  for (int i = 0; i < length && node != state_->end_node(); ++i, node = timeline.next(node))
    if (table_->may_rerun(state_->action(node))) stretch_.push_back(node);
  if (stretch_.empty()) return false;
  // A little beyond the stretch: what uses its last values right away is no second use.
  const SlotId border(timeline.slot(node).index() + rng_->below(Timeline::kBucket));
  NodeId target;
  for (const NodeId n : stretch_)
    for (const SchedValueId v : table_->makes(state_->action(n))) {
      const auto uses = state_->uses(v);
      for (size_t i = state_->use_from(v, n) + 1; i < uses.size() && !uses[i].birth; ++i) {
        if (timeline.slot(uses[i].node) <= border) continue;
        if (!target.valid() || timeline.before(uses[i].node, target)) target = uses[i].node;
        break;
      }
    }
  if (!target.valid()) return false;
  // From the back: an op is in if something of it is needed at or after the target, or by one in.
  std::vector<SchedOpId> in;
  for (size_t k = stretch_.size(); k-- > 0;) {
    const SchedOpId action = state_->action(stretch_[k]);
    bool needed = false;
    for (const SchedValueId v : table_->makes(action)) {
      needed |= state_->alive_before(v, target);
      for (const SchedOpId other : in)
        for (const SchedValueId u : table_->reads(other)) needed |= u == v;
    }
    if (needed && std::find(in.begin(), in.end(), action) == in.end()) in.push_back(action);
  }
  int64_t price = 0;
  for (const SchedOpId action : in) price += table_->cost(action);
  if (!affordable(price)) return false;
  for (size_t k = in.size(); k-- > 0;) {
    const NodeId previous = timeline.previous(target);
    if (!state_->can_insert(in[k], previous)) return false;
    state_->insert_after(previous, in[k]);
  }
  return !in.empty();
}

bool Proposals::keep_stretch() {
  NodeId node = random_rerun();
  if (!node.valid()) return false;
  const int length = 2 + static_cast<int>(rng_->below(kProposals.longest_stretch));
  stretch_.clear();
  for (int i = 0; i < length && node != state_->end_node();
       ++i, node = state_->timeline().next(node))
    if (state_->runs(state_->action(node)).size() > 1 &&
        state_->runs(state_->action(node)).front() != node)
      stretch_.push_back(node);
  bool any = false;
  for (size_t k = stretch_.size(); k-- > 0;) {
    if (!state_->timeline().slot(stretch_[k]).valid() || !state_->can_remove(stretch_[k])) continue;
    keep(stretch_[k]);
    any = true;
  }
  return any;
}

bool Proposals::exchange() {
  const double before = state_->overflow();
  if (!keep_any()) return false;
  const int drops = 1 + static_cast<int>(rng_->below(kProposals.most_drops));
  for (int i = 0; i < drops && state_->overflow() > before; ++i) {
    const NodeId at = overflowing_node();
    if (options_.aimed_moves && options_.order_moves &&
        rng_->below(kProposals.exchange_moves) == 0) {
      if (!order_moves_.relieve(at)) return false;
      continue;
    }
    SchedValueId value;
    NodeId use;
    if (!aimed_span(at, value, use) || !drop_before(value, use)) return false;
  }
  return true;
}

bool Proposals::copy_block() {
  const NodeId chosen = random_rerun();
  if (!chosen.valid()) return false;
  const BlockId from = options_.blocks->block_of(state_->action(chosen));
  const BlockId to(rng_->below(options_.blocks->count()));
  return from.valid() && from != to && block_copy_->copy(from, to) && block_copy_->any();
}

}  // namespace lowtide::remat
