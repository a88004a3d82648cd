// Edits of a graph that can be undone, for a search that tries thousands of changes: apply one,
// look at what became of it, take it back, each in time proportional to what was changed and never
// to the graph.
//
//     GraphEdit edit(graph);                        // once: a copy
//     const auto before = edit.mark();
//     ... edit.add_op(...), edit.replace_reads(...), edit.remove_op(...) ...
//     edit.rollback(before);                        // as if nothing had happened
//     Graph changed = edit.compact().graph;         // an ordinary graph
//
// Ids are stable: an op or value keeps its id while others come and go, a removed one leaves a
// hole, and ids say nothing about the order. The order is a list (base/order_list.h) of ops and of
// the values that no op makes; these are there from the start, so compact() puts such a value
// before an op that reads it, wherever it stands. What undoing brings back has the id that it had;
// the ids of what undoing takes away are given out again. A storage has the number of the value
// that brought it.
//
// All changes are made of two, and the log holds nothing else: to write an op or value (its state
// before is logged; absent is a state, too), and to put one into the order or take it out. Readers,
// names and the values of a storage are indices over that state, so they follow by themselves.
//
// Invariant: after every change compact().graph passes check(), and no version of a storage is
// overwritten twice. A change that would break it is refused with an error (kInput) that names the
// op or value, and leaves everything as it was. What an op's outputs ought to be is known to
// src/ops only: its append and infer_again work on edits.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/order_list.h"
#include "base/result.h"
#include "ir/graph.h"
#include "ir/id_order.h"

namespace lowtide::ir {

// Where in the order an op is put.
struct Place {
  enum class Kind : uint8_t { kEnd, kBefore, kAfter };
  Kind kind = Kind::kEnd;
  OpId op;
  static Place end() { return {}; }
  static Place before(OpId op) { return {Kind::kBefore, op}; }
  static Place after(OpId op) { return {Kind::kAfter, op}; }
};

// What inference says of a value: its type, and how it comes to its storage.
struct ValueForm {
  DType dtype = DType::kF32;
  Dims dims = {};
  Layout layout = {};
  Alias alias = Alias::kOwn;
  ValueId base = {};            // for kView and kUpdate: an input of the producer
  sym::Expr offset_bytes = {};  // for kView: where it starts in base
};

// What changed since somebody last asked: for whoever keeps something derived from the graph.
// Ids may be of what is gone.
struct Touched {
  std::set<OpId> ops;            // added, removed, moved, or with other contents
  std::set<OpId> places;         // those of them that came into the order or left it
  std::set<ValueId> values;      // other type, alias or use as an output; other versions beside it
  std::set<StorageId> storages;  // values or their readers came or went
};

class GraphEdit {
 public:
  explicit GraphEdit(const Graph& graph);

  // ---- the graph as it is now ----

  bool alive(OpId id) const { return id.index() < ops_.size() && ops_[id].op.has_value(); }
  bool alive(ValueId id) const {
    return id.index() < values_.size() && values_[id].value.has_value();
  }
  size_t op_slots() const { return ops_.size(); }  // ids below it; some are of removed ops
  size_t value_slots() const { return values_.size(); }
  // Of what is alive. References hold until the next change.
  const Op& op(OpId id) const { return *ops_[id].op; }
  const Value& value(ValueId id) const { return *values_[id].value; }
  Storage storage(StorageId id) const;  // of a whole with its pieces, as its operands are now
  std::span<const OpId> readers(ValueId id) const { return values_[id].readers; }  // by id, once
  // By id; empty when the storage is gone.
  std::span<const ValueId> values_in(StorageId id) const;
  std::span<const OpId> waiting(OpId id) const {
    return ops_[id].waiting;
  }  // control edges from it
  OpId first_op() const { return op_from(order_.first()); }
  OpId next_op(OpId id) const { return op_from(order_.next(item(id))); }
  OpId previous_op(OpId id) const;
  bool before(OpId a, OpId b) const { return order_.before(item(a), item(b)); }
  std::optional<ValueId> find_value(std::string_view name) const;
  std::string fresh_name(std::string_view wanted) const;

  // ---- changes ----

  // A value that is there before the step, put before the first op.
  Result<ValueId> add_value(Value value);
  // As Graph::add_op, at a place. Control edges and bases are said with the ids of the edit.
  Result<OpId> add_op(Op op, std::vector<Value> outputs, Place place);
  // Nobody may read its outputs, and none is an output of the step. Control edges to and from it
  // go.
  Status remove_op(OpId id);
  Status remove_value(ValueId id);  // that no op makes and nobody reads
  Status move_op(OpId id, Place place);
  // Exchanges one operand. A view or update of the old one becomes one of the new one, with all
  // that lies on it. Refused where such a base stands among the operands twice.
  Status set_input(OpId id, size_t index, ValueId now);
  // The same for every operand `from` of these readers (or of all).
  Status replace_reads(ValueId from, ValueId to, std::span<const OpId> readers);
  Status replace_reads(ValueId from, ValueId to);
  void set_attrs(OpId id, Attrs attrs);
  void set_attr(OpId id, std::string_view name, std::optional<AttrValue> now);  // none: without it
  Status set_form(ValueId id, ValueForm form);
  // In the order given, checked at the end: a storage may shrink together with what lies on it.
  Status set_forms(std::span<const std::pair<ValueId, ValueForm>> forms);
  Status add_control(OpId first, OpId second);
  void remove_control(OpId first, OpId second);
  Status rename(ValueId id, std::string wanted);
  void set_output(ValueId id, bool is_output);  // a new one comes after all there are
  void keep_output(ValueId id, const Value& was);
  void set_category(ValueId id, Category category);

  // ---- the log ----

  using Mark = size_t;
  Mark mark() const { return log_.size(); }
  // Takes back all changes after the mark, the last one first. Marks after it are void. To undo one
  // change, set a mark before each.
  void rollback(Mark mark);
  // Forgets the log: what was done stays. All marks are void but 0.
  void commit() { log_.clear(); }
  // Hands over what changed, by edits and by undoing, since the last call.
  Touched take_touched() { return std::exchange(touched_, {}); }
  bool is_touched() const {
    return !(touched_.ops.empty() && touched_.values.empty() && touched_.storages.empty());
  }

  // The edit as a graph, in time proportional to it: ops in order, dense ids; by ids of the
  // edit, none for what was removed.
  Rewritten compact() const;

 private:
  struct OpSlot {
    std::optional<Op> op;
    std::vector<OpId> waiting;
  };
  struct ValueSlot {
    std::optional<Value> value;
    std::vector<OpId> readers;
    std::vector<ValueId> members;  // of the storage with this number
  };
  struct OpWas {
    OpId id;
    std::optional<Op> state;
  };
  struct ValueWas {
    ValueId id;
    std::optional<Value> state;
  };
  struct PlaceWas {
    uint32_t item;
    bool in;
    uint32_t previous;  // when it was in the order
  };
  using Entry = std::variant<OpWas, ValueWas, PlaceWas>;

  static uint32_t item(OpId id) { return 2 * id.index(); }
  static uint32_t item(ValueId id) { return 2 * id.index() + 1; }
  OpId op_from(uint32_t item) const;
  uint32_t neighbour(Place place) const;
  void exchange(OpId id, std::optional<Op>& state);
  void exchange(ValueId id, std::optional<Value>& state);
  void index(OpId id, bool enter);
  void index(ValueId id, bool enter);
  void touch_versions(StorageId id);
  void touch_place(uint32_t item);
  void write(OpId id, std::optional<Op> state);
  void write(ValueId id, std::optional<Value> state);
  void link(uint32_t item, uint32_t after);
  void unlink(uint32_t item);
  void revert(Entry entry);
  Status keep_or_roll_back(Mark mark, Status status);
  Status try_add_op(OpId id, Op op, std::vector<Value> outputs, uint32_t after);
  Status try_inputs(OpId id, std::vector<ValueId> inputs, ValueId from, ValueId to);
  Status try_replace_reads(ValueId from, ValueId to, std::span<const OpId> readers);
  void write_form(ValueId id, const ValueForm& form, std::vector<ValueId>& moved);
  void rehome(ValueId id, Value now, std::vector<ValueId>& moved);
  Status check_moved(const std::vector<ValueId>& moved) const;
  Status check_names(const Op& op, const std::vector<Value>& outputs) const;
  Status check_operand(OpId id, ValueId input) const;
  Status check_op(OpId id) const;
  Status check_update(OpId id, ValueId updated) const;
  bool joins(OpId id) const;
  bool is_piece(StorageId id) const;
  void join(ValueId input, const sym::Expr& offset, std::vector<Piece>& joined) const;
  Status check_joined(OpId id, ValueId whole) const;
  Status check_joins_of(StorageId id) const;
  ValueId version_of(ValueId id) const;
  std::vector<ValueId> overwriters(ValueId version) const;

  IdVector<OpId, OpSlot> ops_;
  IdVector<ValueId, ValueSlot> values_;
  OrderList order_;
  std::unordered_map<std::string, OpId> op_by_name_;
  std::unordered_map<std::string, ValueId> value_by_name_;
  std::set<std::pair<int64_t, ValueId>> outputs_;  // by rank
  std::vector<Entry> log_;
  Touched touched_;
  Graph header_;  // name, producer and bindings; no ops
};

}  // namespace lowtide::ir
