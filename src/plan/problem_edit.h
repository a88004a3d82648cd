// Edits of a ScheduleProblem that can be undone: ops and values come and go, and a region of ops is
// contracted into one op and expanded again, each in time proportional to what it concerns.
//
//     ProblemEdit edit(problem);
//     const auto before = edit.mark();
//     const SchedOpId one = edit.contract(region, "one").value();
//     ... solve edit.compact().problem ...
//     edit.rollback(before);
//
// As in ir/edit.h, ids are stable, a removed op or value leaves a hole, the order is a list, and
// the log keeps the states that were written over.
//
// Contracting hides; it rewrites nothing. The ops of a region are brought together in the order and
// named as members of a new op; compact() shows the new op in their place, computed from them then.
// So regions may be expanded in any order, what is written meanwhile to ops inside counts, and
// expanding is exact: the order is what it was unless ops beside the region have changed.
//
// What the contracted op is. It reads what its members read from outside, and makes what they make
// and somebody outside reads, or the step returns. Its seconds are their sum; it may run again if
// each of them may. Its workspace is the peak inside, members in their order, less its outputs and
// what is there before. A value from outside that others read, too, counts as present throughout.
// In-place pairs that members take across the border are its pairs. Hence with the members run
// together
//
//     peak of a sequence with the contracted op  >=  peak with its members in its place
//
// and both are equal where no value from outside has its last reader among the members while it has
// other readers, too, and where the peak inside is at least the outputs (a workspace is not
// negative).
//
// Single writes are not checked, since one often makes the next one valid; check() then looks at
// what was written, and compact() asks that it passed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/order_list.h"
#include "base/result.h"
#include "plan/schedule_problem.h"

namespace lowtide::plan {

// An op with what a ScheduleProblem lists elsewhere.
struct EditedOp {
  SchedOp op;
  std::vector<std::pair<SchedValueId, SchedValueId>> in_place;  // (input, output), by preference
  std::vector<SchedOpId> control;                               // who comes before; sorted
  bool operator==(const EditedOp&) const = default;
};

// A ScheduleProblem out of an edit; none for what is gone or inside of a contracted op.
struct CompactedProblem {
  ScheduleProblem problem;
  IdVector<SchedOpId, SchedOpId> op;  // edit -> problem; of a member: of what it is inside of
  IdVector<SchedValueId, SchedValueId> value;
  IdVector<SchedResidentId, SchedResidentId> resident;
};

// The order in which compact lists values and residents; empty: by id.
struct ListOrder {
  std::span<const SchedValueId> values = {};
  std::span<const SchedResidentId> residents = {};
};

class ProblemEdit {
 public:
  ProblemEdit() = default;
  // Control edges are kept sorted, each once.
  explicit ProblemEdit(const ScheduleProblem& problem);

  // ---- the problem as it is now; ops are named as if nothing were contracted ----

  bool alive(SchedOpId id) const {
    return id.index() < ops_.size() && (ops_[id].state || ops_[id].group);
  }
  bool alive(SchedValueId id) const { return id.index() < values_.size() && values_[id]; }
  bool alive(SchedResidentId id) const { return id.index() < residents_.size() && residents_[id]; }
  size_t op_slots() const { return ops_.size(); }
  size_t value_slots() const { return values_.size(); }
  bool is_contracted(SchedOpId id) const { return ops_[id].group.has_value(); }
  const EditedOp& op(SchedOpId id) const { return *ops_[id].state; }  // not contracted
  const SchedValue& value(SchedValueId id) const { return *values_[id]; }
  const SchedResident& resident(SchedResidentId id) const { return *residents_[id]; }
  std::span<const SchedValueId> inputs(SchedOpId id) const { return ops_[id].inputs; }
  std::span<const SchedValueId> outputs(SchedOpId id) const { return ops_[id].outputs; }
  int64_t resident_bytes() const { return resident_bytes_; }
  // The order of ops that are not contracted, members included.
  SchedOpId first_op() const { return op_from(order_.first()); }
  SchedOpId next_op(SchedOpId id) const { return op_from(order_.next(id.index())); }
  SchedOpId previous_op(SchedOpId id) const { return op_from(order_.previous(id.index())); }
  bool before(SchedOpId a, SchedOpId b) const { return order_.before(a.index(), b.index()); }
  // The contracted op that hides it, or itself.
  SchedOpId visible(SchedOpId id) const;

  // ---- changes ----

  // After `at`; none: at the front. Error: that is between members of a contracted op.
  Result<SchedOpId> insert_op(EditedOp op, SchedOpId at);
  void set_op(SchedOpId id, EditedOp op);
  // With what it makes. Error: somebody reads that, the step returns it, or the op is inside of a
  // contracted one. It is no longer a reader, nor does anybody wait for it.
  Status remove_op(SchedOpId id);
  // Error: it is inside of a contracted op, or the place is.
  Status move_op(SchedOpId id, SchedOpId at);
  SchedValueId add_value(SchedValue value);
  void set_value(SchedValueId id, SchedValue value);
  // Pairs with it go, too.
  void remove_value(SchedValueId id);
  SchedResidentId add_resident(SchedResident resident);
  void set_resident(SchedResidentId id, SchedResident resident);
  void remove_resident(SchedResidentId id);
  void set_resident_bytes(int64_t bytes);

  // Ops and contracted ops, each once, at least one. Ops between them that need none of them come
  // before the region, the others after it. Error: not convex, naming the op that lies between.
  Result<SchedOpId> contract(std::span<const SchedOpId> region, std::string name);
  // Of a contracted op that is not inside of another. Error: it is.
  Status expand(SchedOpId id);

  // What plan::check asks, of what was written since it last passed. Error: as plan::check.
  Status check();

  // ---- the log ----

  using Mark = size_t;
  Mark mark() const { return log_.size(); }
  void rollback(Mark mark);  // marks after it are void
  void commit() { log_.clear(); }

  CompactedProblem compact(const ListOrder& order = {}) const;

 private:
  struct Group {
    std::string name;
    std::vector<SchedOpId> members;  // in order
    std::vector<SchedOpId> span;     // the order before, where others stood between; else empty
  };
  struct OpSlot {
    std::optional<EditedOp> state;
    std::optional<Group> group;
    SchedOpId inside;  // of this contracted op
    std::vector<SchedValueId> inputs, outputs;
    std::vector<SchedOpId> waiting;
    std::vector<SchedResidentId> residents;
  };
  template <class IdType, class State>
  struct Was {
    IdType id;
    std::optional<State> state;
  };
  using OpWas = Was<SchedOpId, EditedOp>;
  using GroupWas = Was<SchedOpId, Group>;
  using ValueWas = Was<SchedValueId, SchedValue>;
  using ResidentWas = Was<SchedResidentId, SchedResident>;
  struct PlaceWas {
    uint32_t item;
    bool in;
    uint32_t previous;
  };
  struct ResidentBytesWas {
    int64_t bytes;
  };
  using Entry = std::variant<OpWas, GroupWas, ValueWas, ResidentWas, PlaceWas, ResidentBytesWas>;

  // What of a contracted op follows from its members.
  struct Summary {
    SchedOp op;
    std::vector<std::pair<SchedValueId, SchedValueId>> in_place;
  };

  static SchedOpId op_from(uint32_t item) {
    return item == OrderList::kNone ? SchedOpId::none() : SchedOpId(item);
  }
  void exchange(OpWas& was);
  void exchange(GroupWas& was);
  void exchange(ValueWas& was);
  void exchange(ResidentWas& was);
  void exchange(PlaceWas& was);
  void exchange(ResidentBytesWas& was);
  template <class Change>
  void write(Change change) {
    exchange(change);
    log_.emplace_back(std::move(change));
  }
  Status check_place(SchedOpId at) const;
  void put(SchedOpId id, SchedOpId at);  // into the order, after `at`
  void take_out(SchedOpId id);
  void forget_reader(SchedOpId id);

  // Visible ops, each standing for all that it hides.
  SchedOpId first_leaf(SchedOpId top) const;
  SchedOpId last_leaf(SchedOpId top) const;
  SchedOpId next_visible(SchedOpId top) const;
  SchedOpId previous_visible(SchedOpId top) const;
  std::vector<SchedOpId> leaves(SchedOpId top) const;
  std::vector<SchedOpId> needs(SchedOpId top) const;  // visible ops that must come before
  SchedOpId put_visible(SchedOpId top, SchedOpId at);
  Status arrange(std::span<const SchedOpId> region, Group& group);
  SchedOpId first_of_stretch(const Group& group) const;
  bool may_be_as_before(const Group& group) const;
  bool is_order(std::span<const SchedOpId> tops) const;

  Summary summary(SchedOpId contracted) const;
  bool crosses(const SchedValue& value, SchedOpId contracted) const;
  Status check(SchedOpId id) const;
  Status check(SchedValueId id) const;
  Status check(SchedResidentId id) const;
  Status check_users(const std::string& what, const std::vector<SchedOpId>& readers,
                     const std::vector<SchedOpId>& writers) const;
  std::vector<SchedOpId> visible_all(const std::vector<SchedOpId>& ops, SchedOpId except,
                                     const IdVector<SchedOpId, SchedOpId>& map) const;
  void list_ops(CompactedProblem& made) const;
  void list_values(CompactedProblem& made, std::span<const SchedValueId> order) const;
  void list_residents(CompactedProblem& made, std::span<const SchedResidentId> order) const;
  void list_pairs(CompactedProblem& made) const;
  void list_control(CompactedProblem& made) const;

  IdVector<SchedOpId, OpSlot> ops_;
  IdVector<SchedValueId, std::optional<SchedValue>> values_;
  IdVector<SchedResidentId, std::optional<SchedResident>> residents_;
  OrderList order_;
  int64_t resident_bytes_ = 0;
  // Of everything whose sum plan::check limits. Wide enough for any sum.
  __int128 total_bytes_ = 0;
  __int128 listed_resident_bytes_ = 0;
  std::vector<Entry> log_;
  std::set<SchedOpId> unchecked_ops_;
  std::set<SchedValueId> unchecked_values_;
  std::set<SchedResidentId> unchecked_residents_;
  ScheduleProblem header_;  // budget and links; no ops
};

}  // namespace lowtide::plan
