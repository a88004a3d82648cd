// The state of an edit, its log and its single changes. Contracting and compacting are in
// problem_contract.cc and problem_compact.cc.
//
// A change is a state that is exchanged with the one in its slot, so that undoing is to exchange
// again. The indices of an op (what it reads and makes, who waits for it) follow the states and are
// sorted, hence the same whichever way a state was reached.
#include "plan/problem_edit.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/sorted.h"

namespace lowtide::plan {
namespace {

tl::unexpected<Error> no_edit(std::string message) {
  return error(ErrorCode::kInput, std::move(message));
}

// Without ops and values.
ScheduleProblem header_of(const ScheduleProblem& problem) {
  ScheduleProblem header;
  header.budget_bytes = problem.budget_bytes;
  header.link = problem.link;
  header.more_links = problem.more_links;
  return header;
}

}  // namespace

ProblemEdit::ProblemEdit(const ScheduleProblem& problem) : header_(header_of(problem)) {
  IdVector<SchedOpId, EditedOp> ops(problem.ops.size());
  for (const SchedOpId id : problem.ops.ids()) ops[id].op = problem.ops[id];
  for (const InPlacePair& pair : problem.in_place)
    ops[pair.op].in_place.emplace_back(pair.input, pair.output);
  for (const auto& [first, second] : problem.control) insert_sorted(ops[second].control, first);
  ops_.resize(problem.ops.size());
  for (const SchedOpId id : problem.ops.ids()) {
    OpWas was{id, std::move(ops[id])};
    exchange(was);
    order_.push_back(id.index());
  }
  for (const SchedValue& value : problem.values) {
    ValueWas was{values_.push_back({}), value};
    exchange(was);
  }
  for (const SchedResident& resident : problem.residents) {
    ResidentWas was{residents_.push_back({}), resident};
    exchange(was);
  }
  set_resident_bytes(problem.resident_bytes);
  commit();
}

SchedOpId ProblemEdit::visible(SchedOpId id) const {
  while (ops_[id].inside.valid()) id = ops_[id].inside;
  return id;
}

// ---- states and indices ----

void ProblemEdit::exchange(OpWas& was) {
  OpSlot& slot = ops_[was.id];
  const auto count = [&](bool in) {
    if (!slot.state) return;
    for (const SchedOpId before : slot.state->control) set_sorted(ops_[before].waiting, was.id, in);
    if (in)
      total_bytes_ += slot.state->op.workspace_bytes;
    else
      total_bytes_ -= slot.state->op.workspace_bytes;
  };
  count(false);
  std::swap(slot.state, was.state);
  count(true);
  unchecked_ops_.insert(was.id);
}

void ProblemEdit::exchange(GroupWas& was) {
  OpSlot& slot = ops_[was.id];
  if (slot.group)
    for (const SchedOpId member : slot.group->members) ops_[member].inside = SchedOpId::none();
  std::swap(slot.group, was.state);
  if (slot.group)
    for (const SchedOpId member : slot.group->members) ops_[member].inside = was.id;
}

void ProblemEdit::exchange(ValueWas& was) {
  std::optional<SchedValue>& slot = values_[was.id];
  const auto enter = [&](bool in) {
    if (!slot) return;
    set_sorted(ops_[slot->producer].outputs, was.id, in);
    for (const SchedOpId reader : slot->readers) set_sorted(ops_[reader].inputs, was.id, in);
    if (in)
      total_bytes_ += slot->bytes;
    else
      total_bytes_ -= slot->bytes;
  };
  enter(false);
  std::swap(slot, was.state);
  enter(true);
  unchecked_values_.insert(was.id);
  // An op that no longer reads or makes it may still have an in-place pair with it.
  if (was.state) {
    unchecked_ops_.insert(was.state->producer);
    for (const SchedOpId reader : was.state->readers)
      if (!slot || !std::binary_search(slot->readers.begin(), slot->readers.end(), reader))
        unchecked_ops_.insert(reader);
  }
}

void ProblemEdit::exchange(ResidentWas& was) {
  std::optional<SchedResident>& slot = residents_[was.id];
  const auto enter = [&](bool in) {
    if (!slot) return;
    for (const SchedOpId reader : slot->readers) set_sorted(ops_[reader].residents, was.id, in);
    if (in)
      listed_resident_bytes_ += slot->bytes;
    else
      listed_resident_bytes_ -= slot->bytes;
  };
  enter(false);
  std::swap(slot, was.state);
  enter(true);
  unchecked_residents_.insert(was.id);
}

void ProblemEdit::exchange(PlaceWas& was) {
  if (was.in) {
    order_.insert_after(was.item, was.previous);
    was.in = false;
  } else {
    was.previous = order_.previous(was.item);
    order_.erase(was.item);
    was.in = true;
  }
  unchecked_ops_.insert(SchedOpId(was.item));
}

void ProblemEdit::exchange(ResidentBytesWas& was) {
  total_bytes_ += was.bytes;
  total_bytes_ -= resident_bytes_;
  std::swap(resident_bytes_, was.bytes);
}

void ProblemEdit::put(SchedOpId id, SchedOpId at) {
  write(PlaceWas{id.index(), true, at.valid() ? at.index() : OrderList::kNone});
}

void ProblemEdit::take_out(SchedOpId id) {
  write(PlaceWas{id.index(), false, OrderList::kNone});
}

void ProblemEdit::rollback(Mark mark) {
  LT_CHECK(mark <= log_.size(), "the mark is of a part of the log that was taken back");
  // A slot that was made by the change goes with it.
  const auto shrink = [](auto& slots, auto id) {
    if (id.index() + 1 == slots.size()) slots.resize(slots.size() - 1);
  };
  while (log_.size() > mark) {
    Entry entry = std::move(log_.back());
    log_.pop_back();
    std::visit([&](auto& was) { exchange(was); }, entry);
    if (const auto* op = std::get_if<OpWas>(&entry); op && !ops_[op->id].state)
      shrink(ops_, op->id);
    if (const auto* group = std::get_if<GroupWas>(&entry); group && !ops_[group->id].group)
      shrink(ops_, group->id);
    if (const auto* value = std::get_if<ValueWas>(&entry); value && !values_[value->id])
      shrink(values_, value->id);
    if (const auto* resident = std::get_if<ResidentWas>(&entry);
        resident && !residents_[resident->id])
      shrink(residents_, resident->id);
  }
}

// ---- changes ----

// Members of a contracted op stay side by side.
Status ProblemEdit::check_place(SchedOpId at) const {
  if (!at.valid() || visible(at) == at) return {};
  const SchedOpId behind = next_op(at);
  if (!behind.valid() || visible(behind) != visible(at)) return {};
  return no_edit(
      fmt::format("no op can stand behind op {}, between the members of contracted op {}; "
                  "expand it first",
                  at.index(), visible(at).index()));
}

Result<SchedOpId> ProblemEdit::insert_op(EditedOp op, SchedOpId at) {
  LT_RETURN_IF_ERROR(check_place(at));
  const SchedOpId id = ops_.push_back({});
  write(OpWas{id, std::move(op)});
  put(id, at);
  return id;
}

void ProblemEdit::set_op(SchedOpId id, EditedOp op) {
  LT_CHECK(ops_[id].state.has_value(), "a contracted op follows from its members");
  if (op == *ops_[id].state) return;
  write(OpWas{id, std::move(op)});
}

void ProblemEdit::forget_reader(SchedOpId id) {
  const std::vector<SchedValueId> inputs = ops_[id].inputs;
  for (const SchedValueId input : inputs) {
    SchedValue now = value(input);
    erase_sorted(now.readers, id);
    erase_sorted(now.writers, id);
    set_value(input, std::move(now));
  }
  const std::vector<SchedResidentId> residents = ops_[id].residents;
  for (const SchedResidentId each : residents) {
    SchedResident now = resident(each);
    erase_sorted(now.readers, id);
    erase_sorted(now.writers, id);
    set_resident(each, std::move(now));
  }
  const std::vector<SchedOpId> waiting = ops_[id].waiting;
  for (const SchedOpId second : waiting) {
    EditedOp now = op(second);
    erase_sorted(now.control, id);
    set_op(second, std::move(now));
  }
}

Status ProblemEdit::remove_op(SchedOpId id) {
  LT_CHECK(ops_[id].state.has_value(), "a contracted op is expanded, not removed");
  if (ops_[id].inside.valid())
    return no_edit(fmt::format("op {} is inside of contracted op {}; expand it first", id.index(),
                               ops_[id].inside.index()));
  for (const SchedValueId output : ops_[id].outputs)
    if (!value(output).readers.empty() || value(output).is_output)
      return no_edit(fmt::format("op {} makes value {}, which is still read or an output",
                                 id.index(), output.index()));
  const std::vector<SchedValueId> outputs = ops_[id].outputs;
  for (const SchedValueId output : outputs) remove_value(output);
  forget_reader(id);
  take_out(id);
  write(OpWas{id, std::nullopt});
  return {};
}

Status ProblemEdit::move_op(SchedOpId id, SchedOpId at) {
  if (ops_[id].inside.valid())
    return no_edit(fmt::format("op {} is inside of contracted op {}; expand it first", id.index(),
                               ops_[id].inside.index()));
  LT_RETURN_IF_ERROR(check_place(at));
  if (at == id) return {};
  take_out(id);
  put(id, at);
  return {};
}

SchedValueId ProblemEdit::add_value(SchedValue value) {
  const SchedValueId id = values_.push_back({});
  write(ValueWas{id, std::move(value)});
  return id;
}

void ProblemEdit::set_value(SchedValueId id, SchedValue now) {
  if (now == value(id)) return;
  write(ValueWas{id, std::move(now)});
}

void ProblemEdit::remove_value(SchedValueId id) {
  std::vector<SchedOpId> users = value(id).readers;
  users.push_back(value(id).producer);
  for (const SchedOpId user : users) {
    EditedOp now = op(user);
    std::erase_if(now.in_place,
                  [&](const auto& pair) { return pair.first == id || pair.second == id; });
    set_op(user, std::move(now));
  }
  write(ValueWas{id, std::nullopt});
}

SchedResidentId ProblemEdit::add_resident(SchedResident resident) {
  const SchedResidentId id = residents_.push_back({});
  write(ResidentWas{id, std::move(resident)});
  return id;
}

void ProblemEdit::set_resident(SchedResidentId id, SchedResident now) {
  if (now == resident(id)) return;
  write(ResidentWas{id, std::move(now)});
}

void ProblemEdit::remove_resident(SchedResidentId id) {
  write(ResidentWas{id, std::nullopt});
}

void ProblemEdit::set_resident_bytes(int64_t bytes) {
  if (bytes != resident_bytes_) write(ResidentBytesWas{bytes});
}

// ---- checks ----

Status ProblemEdit::check_users(const std::string& what, const std::vector<SchedOpId>& readers,
                                const std::vector<SchedOpId>& writers) const {
  const auto ascending = [](const std::vector<SchedOpId>& ops) {
    return std::adjacent_find(ops.begin(), ops.end(), std::greater_equal<>()) == ops.end();
  };
  if (!ascending(readers) || !ascending(writers))
    return no_edit(fmt::format("the readers or writers of {} are not ascending", what));
  for (const SchedOpId reader : readers)
    if (reader.index() >= ops_.size() || !ops_[reader].state)
      return no_edit(
          fmt::format("{} is read by op {}, which does not exist", what, reader.index()));
  for (const SchedOpId writer : writers) {
    if (!std::binary_search(readers.begin(), readers.end(), writer))
      return no_edit(fmt::format("a writer of {} is not among its readers", what));
    if (op(writer).op.may_rerun)
      return no_edit(
          fmt::format("op {} overwrites {} and may run again; it must not", writer.index(), what));
  }
  return {};
}

Status ProblemEdit::check(SchedValueId id) const {
  const SchedValue& checked = value(id);
  const std::string what = fmt::format("value {}", id.index());
  if (checked.bytes < 0)
    return no_edit(fmt::format("{} has {} bytes; sizes are not negative", what, checked.bytes));
  if (!ops_[checked.producer].state)
    return no_edit(
        fmt::format("{} has producer {}, which does not exist", what, checked.producer.index()));
  LT_RETURN_IF_ERROR(check_users(what, checked.readers, checked.writers));
  for (const SchedOpId reader : checked.readers)
    if (!before(checked.producer, reader))
      return no_edit(fmt::format("{} is made by op {} and read by op {}, which comes no later",
                                 what, checked.producer.index(), reader.index()));
  if (!checked.writers.empty() && op(checked.producer).op.may_rerun)
    return no_edit(fmt::format("{} is overwritten, but its producer, op {}, may run again", what,
                               checked.producer.index()));
  return {};
}

Status ProblemEdit::check(SchedResidentId id) const {
  const SchedResident& checked = resident(id);
  if (checked.bytes < 0)
    return no_edit(
        fmt::format("resident {} has {} bytes; sizes are not negative", id.index(), checked.bytes));
  return check_users(fmt::format("resident {}", id.index()), checked.readers, checked.writers);
}

Status ProblemEdit::check(SchedOpId id) const {
  const EditedOp& checked = op(id);
  if (checked.op.workspace_bytes < 0 || !(checked.op.seconds >= 0 && checked.op.seconds <= 1e12))
    return no_edit(fmt::format("op {} takes {} seconds and {} bytes of workspace", id.index(),
                               checked.op.seconds, checked.op.workspace_bytes));
  for (const SchedOpId first : checked.control)
    if (!ops_[first].state || !before(first, id))
      return no_edit(
          fmt::format("op {} waits for op {}, which comes no earlier", id.index(), first.index()));
  for (const SchedOpId second : ops_[id].waiting)
    if (!before(id, second))
      return no_edit(
          fmt::format("op {} waits for op {}, which comes no earlier", second.index(), id.index()));
  for (const auto& [input, output] : checked.in_place) {
    const auto& inputs = ops_[id].inputs;
    if (!std::binary_search(inputs.begin(), inputs.end(), input) || !alive(output) ||
        value(output).producer != id)
      return no_edit(fmt::format("in-place pair of op {}: it must read value {} and make value {}",
                                 id.index(), input.index(), output.index()));
  }
  for (const SchedValueId input : ops_[id].inputs) {
    const SchedValue& read = value(input);
    if (!before(read.producer, id))
      return no_edit(
          fmt::format("value {} is made by op {} and read by op {}, which comes no later",
                      input.index(), read.producer.index(), id.index()));
    if (checked.op.may_rerun && std::binary_search(read.writers.begin(), read.writers.end(), id))
      return no_edit(fmt::format("op {} overwrites value {} and may run again; it must not",
                                 id.index(), input.index()));
  }
  for (const SchedResidentId read : ops_[id].residents) LT_RETURN_IF_ERROR(check(read));
  for (const SchedValueId output : ops_[id].outputs) LT_RETURN_IF_ERROR(check(output));
  return {};
}

Status ProblemEdit::check() {
  if (total_bytes_ > kMaxBytes) return no_edit("all sizes together exceed 2^62 bytes");
  if (resident_bytes_ < 0 || listed_resident_bytes_ > resident_bytes_)
    return no_edit(fmt::format(
        "the residents that may move are larger than all residents, {} bytes", resident_bytes_));
  for (const SchedOpId id : unchecked_ops_)
    if (id.index() < ops_.size() && ops_[id].state) LT_RETURN_IF_ERROR(check(id));
  for (const SchedValueId id : unchecked_values_)
    if (alive(id)) LT_RETURN_IF_ERROR(check(id));
  for (const SchedResidentId id : unchecked_residents_)
    if (alive(id)) LT_RETURN_IF_ERROR(check(id));
  unchecked_ops_.clear();
  unchecked_values_.clear();
  unchecked_residents_.clear();
  return {};
}

}  // namespace lowtide::plan
