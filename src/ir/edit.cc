// The state of an edit, its indices and its log. What may be changed is in edit_changes.cc.
//
// An op or value is written by exchanging its state with another one, and the log keeps the state
// that came out; so undoing is to exchange again. The indices (readers, waiting, members, names,
// outputs) are taken out with the old state and entered with the new one, sorted, so that they are
// the same whichever way the state was reached.
//
// While an op is there, so is every value that it reads and makes: values are written before the op
// that joins, and after the op that leaves.
#include "ir/edit.h"

#include <fmt/core.h>

#include "base/sorted.h"

namespace lowtide::ir {
GraphEdit::GraphEdit(const Graph& graph) : header_(empty_like(graph)) {
  ops_.resize(graph.op_count());
  values_.resize(graph.value_count());
  for (const ValueId id : graph.values()) {
    std::optional<Value> value = graph.value(id);
    value->storage = StorageId(graph.storage(value->storage).root.index());
    exchange(id, value);
  }
  for (const OpId id : graph.ops()) {
    std::optional<Op> op = graph.op(id);
    exchange(id, op);
  }
  for (const GraphItem& each : in_id_order(graph))
    order_.push_back(each.op.valid() ? item(each.op) : item(each.given));
  touched_ = {};
}

// One behind the other; a piece that is a whole hands on its own.
// NOLINTNEXTLINE(misc-no-recursion): as deep as wholes lie in each other
void GraphEdit::join(ValueId input, const sym::Expr& offset, std::vector<Piece>& joined) const {
  const StorageId lies_in = value(input).storage;
  const Value& root = value(ValueId(lies_in.index()));
  if (root.alias != Alias::kPieces) {
    joined.push_back({lies_in, offset});
    return;
  }
  sym::Expr at = offset;
  for (const ValueId piece : op(root.producer).inputs) {
    join(piece, at, joined);
    at = at + size_bytes(value(piece));
  }
}

Storage GraphEdit::storage(StorageId id) const {
  Storage found{ValueId(id.index()), {}};
  if (value(found.root).alias == Alias::kPieces) join(found.root, sym::Expr(0), found.pieces);
  return found;
}

std::span<const ValueId> GraphEdit::values_in(StorageId id) const {
  if (id.index() >= values_.size()) return {};
  return values_[ValueId(id.index())].members;
}

OpId GraphEdit::op_from(uint32_t item) const {
  while (item != OrderList::kNone && item % 2 == 1) item = order_.next(item);
  return item == OrderList::kNone ? OpId::none() : OpId(item / 2);
}

OpId GraphEdit::previous_op(OpId id) const {
  uint32_t at = order_.previous(item(id));
  while (at != OrderList::kNone && at % 2 == 1) at = order_.previous(at);
  return at == OrderList::kNone ? OpId::none() : OpId(at / 2);
}

std::optional<ValueId> GraphEdit::find_value(std::string_view name) const {
  const auto found = value_by_name_.find(std::string(name));
  if (found == value_by_name_.end()) return std::nullopt;
  return found->second;
}

std::string GraphEdit::fresh_name(std::string_view wanted) const {
  std::string candidate(wanted);
  for (int i = 1; value_by_name_.contains(candidate) || op_by_name_.contains(candidate); ++i)
    candidate = fmt::format("{}.{}", wanted, i);
  return candidate;
}

// ---- state and indices ----

void GraphEdit::exchange(OpId id, std::optional<Op>& state) {
  if (ops_[id].op) index(id, false);
  std::swap(ops_[id].op, state);
  if (ops_[id].op) index(id, true);
  touched_.ops.insert(id);
}

void GraphEdit::index(OpId id, bool enter) {
  const Op& op = *ops_[id].op;
  if (enter)
    op_by_name_.emplace(op.name, id);
  else
    op_by_name_.erase(op.name);
  for (const ValueId input : op.inputs) {
    if (!input.valid()) continue;
    set_sorted(values_[input].readers, id, enter);
    touched_.storages.insert(values_[input].value->storage);
  }
  for (const ValueId output : op.outputs)  // its pieces
    if (values_[output].value->alias == Alias::kPieces)
      touched_.storages.insert(values_[output].value->storage);
  for (const OpId before : op.control) set_sorted(ops_[before].waiting, id, enter);
}

void GraphEdit::exchange(ValueId id, std::optional<Value>& state) {
  const bool both = values_[id].value && state;
  if (values_[id].value) index(id, false);
  std::swap(values_[id].value, state);
  if (values_[id].value) index(id, true);
  if (both) touched_.values.insert(id);
}

void GraphEdit::index(ValueId id, bool enter) {
  const Value& value = *values_[id].value;
  if (enter)
    value_by_name_.emplace(value.name, id);
  else
    value_by_name_.erase(value.name);
  if (value.is_output && enter) outputs_.emplace(value.output_rank, id);
  if (value.is_output && !enter) outputs_.erase({value.output_rank, id});
  set_sorted(values_[ValueId(value.storage.index())].members, id, enter);
  touched_.storages.insert(value.storage);
  if (value.alias == Alias::kUpdate || value.is_output) touch_versions(value.storage);
}

// Another version, or another use as an output, concerns everybody who reads the storage.
void GraphEdit::touch_versions(StorageId id) {
  const std::span<const ValueId> members = values_in(id);
  touched_.values.insert(members.begin(), members.end());
}

// ---- the log ----

void GraphEdit::write(OpId id, std::optional<Op> state) {
  exchange(id, state);
  log_.emplace_back(OpWas{id, std::move(state)});
}

void GraphEdit::write(ValueId id, std::optional<Value> state) {
  exchange(id, state);
  log_.emplace_back(ValueWas{id, std::move(state)});
}

void GraphEdit::touch_place(uint32_t item) {
  if (item % 2 == 1) return;
  touched_.ops.insert(OpId(item / 2));
  touched_.places.insert(OpId(item / 2));
}

void GraphEdit::link(uint32_t item, uint32_t after) {
  touch_place(item);
  order_.insert_after(item, after);
  log_.emplace_back(PlaceWas{item, false, OrderList::kNone});
}

void GraphEdit::unlink(uint32_t item) {
  touch_place(item);
  log_.emplace_back(PlaceWas{item, true, order_.previous(item)});
  order_.erase(item);
}

void GraphEdit::revert(Entry entry) {
  if (auto* was = std::get_if<OpWas>(&entry)) {
    exchange(was->id, was->state);
    if (!ops_[was->id].op && was->id.index() + 1 == ops_.size()) ops_.resize(ops_.size() - 1);
  } else if (auto* value = std::get_if<ValueWas>(&entry)) {
    exchange(value->id, value->state);
    if (!values_[value->id].value && value->id.index() + 1 == values_.size())
      values_.resize(values_.size() - 1);
  } else {
    const auto& place = std::get<PlaceWas>(entry);
    if (place.in)
      order_.insert_after(place.item, place.previous);
    else
      order_.erase(place.item);
    touch_place(place.item);
  }
}

void GraphEdit::rollback(Mark mark) {
  LT_CHECK(mark <= log_.size(), "the mark is of a part of the log that was taken back");
  while (log_.size() > mark) {
    Entry last = std::move(log_.back());
    log_.pop_back();
    revert(std::move(last));
  }
}

Status GraphEdit::keep_or_roll_back(Mark mark, Status status) {
  if (!status) rollback(mark);
  return status;
}

// ---- out of the edit ----

Rewritten GraphEdit::compact() const {
  Rewritten made(header_, ops_.size(), values_.size());
  const auto give = [&](ValueId id) {
    if (!made.value[id].valid()) made.give(id, value(id));
  };
  for (uint32_t at = order_.first(); at != OrderList::kNone; at = order_.next(at)) {
    if (at % 2 == 1) {
      give(ValueId(at / 2));
      continue;
    }
    const OpId id(at / 2);
    for (const ValueId input : op(id).inputs)
      if (input.valid() && !value(input).producer.valid()) give(input);
    std::vector<Value> outputs;
    for (const ValueId output : op(id).outputs) outputs.push_back(value(output));
    made.copy(id, op(id), std::move(outputs));
  }
  return made;
}

}  // namespace lowtide::ir
