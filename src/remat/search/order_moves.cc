#include "remat/search/order_moves.h"

#include <algorithm>

namespace lowtide::remat {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct OrderMoveTuning {
  int hit_tries = 24;  // to hit a value that is present
  int deepest = 6;     // runs that go with a run, one after another
  int near = 16;       // slots, of moves that stay near
};
constexpr OrderMoveTuning kMoves;

}  // namespace

OrderMoves::Range OrderMoves::range_of(NodeId node) const {
  const Timeline& timeline = state_->timeline();
  const SchedOpId action = state_->action(node);
  Range range{timeline.slot(state_->begin_node()), timeline.slot(state_->end_node())};
  for (const SchedValueId v : table_->reads(action)) {
    const auto uses = state_->uses(v);
    size_t i = state_->use_from(v, node);
    while (i > 0 && !uses[i - 1].birth) --i;
    if (i > 0) range.lo = std::max(range.lo, timeline.slot(uses[i - 1].node));
  }
  for (const SchedValueId v : table_->makes(action)) {
    const auto uses = state_->uses(v);
    const size_t i = state_->use_from(v, node);
    if (i + 1 < uses.size()) range.hi = std::min(range.hi, timeline.slot(uses[i + 1].node));
  }
  for (const SchedOpId a : table_->before(action))
    range.lo = std::max(range.lo, timeline.slot(state_->runs(a).back()));
  for (const SchedOpId a : table_->after(action))
    range.hi = std::min(range.hi, timeline.slot(state_->runs(a).front()));
  return range;
}

// As late as possible, as early as possible, near, or anywhere.
bool OrderMoves::anywhere(NodeId node) {
  const Timeline& timeline = state_->timeline();
  const Range range = range_of(node);
  const int64_t lo = range.lo.index(), hi = range.hi.index();
  if (hi - lo < 2) return false;
  int64_t place = 0;
  switch (rng_->below(4)) {
    case 0:
      place = hi - 1;
      break;
    case 1:
      place = lo;
      break;
    case 2:
      place = int64_t{timeline.slot(node).index()} - kMoves.near +
              static_cast<int64_t>(rng_->below(2 * kMoves.near + 1));
      break;
    default:
      place = lo + static_cast<int64_t>(rng_->below(static_cast<uint64_t>(hi - lo)));
  }
  const SlotId slot(static_cast<size_t>(std::clamp(place, lo, hi - 1)));
  const NodeId after = timeline.node_from(slot);  // the node at the slot, or the next one
  const NodeId previous = timeline.slot(after) > slot ? timeline.previous(after) : after;
  if (timeline.slot(previous) < range.lo) return false;
  if (previous == node || timeline.next(previous) == node) return false;
  return move_after(node, previous);
}

bool OrderMoves::move_after(NodeId node, NodeId previous) {
  const SchedOpId action = state_->action(node);
  if (!state_->can_insert(action, previous)) return false;
  state_->insert_after(previous, action);
  if (!state_->can_remove(node)) return false;
  state_->remove(node);
  return true;
}

bool OrderMoves::relieve(NodeId moment) {
  bool moved = false;
  for (int i = 0; i < kMoves.hit_tries; ++i) {
    const SchedValueId v(rng_->below(table_->value_count()));
    if (table_->bytes(v) > 0 && try_value(v, moment, moved)) return moved;
  }
  return false;
}

// False: nothing can be done about this value.
bool OrderMoves::try_value(SchedValueId value, NodeId moment, bool& moved) {
  const auto uses = state_->uses(value);
  const size_t next = state_->use_from(value, moment);
  if (next == 0 || next == uses.size() || uses[next].birth || uses[next].node == moment)
    return false;
  const NodeId maker = uses[next - 1].node, reader = uses[next].node;
  const bool may_postpone = uses[next - 1].birth;
  const bool may_advance =
      reader != state_->end_node() && (next + 1 == uses.size() || uses[next + 1].birth);
  if (may_postpone && (!may_advance || rng_->below(2) == 0)) {
    const NodeId target = first_reader(maker);
    if (!target.valid() || !state_->timeline().before(moment, target)) return false;
    moved = postpone(maker, moment, target, 0);
    return true;
  }
  if (!may_advance) return false;
  moved = advance(reader, moment, 0);
  return true;
}

// Of anything that the run makes.
NodeId OrderMoves::first_reader(NodeId node) const {
  NodeId first;
  for (const SchedValueId v : table_->makes(state_->action(node))) {
    const auto uses = state_->uses(v);
    const size_t i = state_->use_from(v, node);
    if (i + 1 == uses.size() || uses[i + 1].birth) continue;
    const NodeId reader = uses[i + 1].node;
    if (!first.valid() || state_->timeline().before(reader, first)) first = reader;
  }
  return first;
}

// Moves the run from before the moment to right before `target`, and runs that are only good for it
// along.
// NOLINTNEXTLINE(misc-no-recursion): at most kMoves.deepest deep
bool OrderMoves::postpone(NodeId node, NodeId moment, NodeId target, int depth) {
  const Timeline& timeline = state_->timeline();
  const SchedOpId action = state_->action(node);
  if (!move_after(node, timeline.previous(target))) return false;
  if (depth == kMoves.deepest) return true;
  const NodeId moved = timeline.previous(target);
  for (const SchedValueId v : table_->reads(action)) {
    const auto uses = state_->uses(v);
    const size_t i = state_->use_from(v, moved);
    if (i == 0 || !uses[i - 1].birth) continue;
    const NodeId maker = uses[i - 1].node;
    if (!timeline.before(maker, moment) || first_reader(maker) != moved) continue;
    if (rng_->below(2) == 0 && !postpone(maker, moment, moved, depth + 1)) return false;
  }
  return true;
}

// Moves the run from after the moment to right before it, and makers of its inputs that stand
// between.
// NOLINTNEXTLINE(misc-no-recursion): at most kMoves.deepest deep
bool OrderMoves::advance(NodeId node, NodeId moment, int depth) {
  const Timeline& timeline = state_->timeline();
  const SchedOpId action = state_->action(node);
  for (const SchedValueId v : table_->reads(action)) {
    const auto uses = state_->uses(v);
    size_t i = state_->use_from(v, node);
    while (i > 0 && !uses[i - 1].birth) --i;
    if (i == 0 || timeline.before(uses[i - 1].node, moment)) continue;
    if (depth == kMoves.deepest || uses[i - 1].node == moment) return false;
    if (!advance(uses[i - 1].node, moment, depth + 1)) return false;
  }
  return move_after(node, timeline.previous(moment));
}

}  // namespace lowtide::remat
