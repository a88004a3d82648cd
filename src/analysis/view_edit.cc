// An update in six steps, each of which leaves the next one what it needs: storages that are gone
// leave the problem, then ops that are gone; ops come or move, in the order of the graph, so that
// each finds its neighbour in place; then storages are written, who may name all ops now; then ops,
// who may name all storages; then the problem checks what was written.
//
// Only ops that came into the graph's order are placed. The others stand where they stood, which
// is in the order of the graph but for what contracting has moved.
#include "analysis/view_edit.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/schedule_rules.h"
#include "base/bytes.h"

namespace lowtide::analysis {

using plan::SchedOpId;
using plan::SchedResidentId;
using plan::SchedValueId;

Result<ViewEdit> ViewEdit::make(ir::GraphEdit& graph, CostOf costs, int64_t alignment_bytes,
                                std::span<const plan::Link> links) {
  ViewEdit made(graph, std::move(costs), alignment_bytes);
  plan::ScheduleProblem header;
  if (!links.empty()) {
    header.link = links.front();
    header.more_links.assign(links.begin() + 1, links.end());
  }
  made.problem_ = plan::ProblemEdit(header);
  made.has_link_ = !links.empty();
  graph.take_touched();
  Dirty all;
  for (ir::OpId id = graph.first_op(); id.valid(); id = graph.next_op(id)) {
    all.ops.insert(id);
    if (made.computes(id)) all.in_order.push_back(id);
  }
  for (size_t i = 0; i < graph.value_slots(); ++i)
    if (made.exists(ir::StorageId(i))) all.storages.insert(ir::StorageId(i));
  LT_RETURN_IF_ERROR(made.apply(all, {}));
  made.problem_.commit();
  made.op_log_.clear();
  made.home_log_.clear();
  return made;
}

// ---- what to look at ----

bool ViewEdit::computes(ir::OpId id) const {
  return graph_->alive(id) && !only_makes_views(*graph_, id);
}

bool ViewEdit::exists(ir::StorageId id) const {
  return !graph_->values_in(id).empty();
}

ViewEdit::Dirty ViewEdit::dirty_from(const ir::Touched& touched) const {
  Dirty dirty;
  dirty.ops = touched.ops;
  dirty.storages = touched.storages;
  // Makers of changed values count as touched: they may have begun or ceased to compute.
  for (const ir::ValueId id : touched.values) {
    if (!graph_->alive(id)) continue;
    const ir::StorageId storage = graph_->value(id).storage;
    dirty.storages.insert(storage);
    for (const ir::ValueId member : graph_->values_in(storage)) {
      if (const ir::OpId maker = graph_->value(member).producer; maker.valid())
        dirty.ops.insert(maker);
      const auto readers = graph_->readers(member);
      dirty.ops.insert(readers.begin(), readers.end());
    }
  }
  // What begins to compute becomes a reader of what it reads, and others wait for it; and the
  // reverse. The rest of what ops read and make was touched if it changed.
  for (const ir::OpId id : dirty.ops) {
    if (!graph_->alive(id) || computes(id) == sched_op(id).valid()) continue;
    for (const ir::ValueId input : graph_->op(id).inputs)
      if (input.valid()) dirty.storages.insert(graph_->value(input).storage);
    for (const ir::ValueId output : graph_->op(id).outputs)
      dirty.storages.insert(graph_->value(output).storage);
    const auto waiting = graph_->waiting(id);
    dirty.waits.insert(waiting.begin(), waiting.end());
  }
  for (const ir::StorageId id : dirty.storages)
    for (const ir::ValueId member : graph_->values_in(id)) {
      const ir::Value& value = graph_->value(member);
      if (value.alias == ir::Alias::kUpdate) dirty.waits.insert(value.producer);
    }
  for (const ir::OpId id : dirty.ops)
    if (computes(id)) dirty.in_order.push_back(id);
  std::sort(dirty.in_order.begin(), dirty.in_order.end(),
            [&](ir::OpId a, ir::OpId b) { return graph_->before(a, b); });
  return dirty;
}

Status ViewEdit::update() {
  if (!graph_->is_touched()) return {};
  const ir::Touched touched = graph_->take_touched();
  return apply(dirty_from(touched), touched.places);
}

Status ViewEdit::apply(const Dirty& dirty, const std::set<ir::OpId>& places) {
  for (const ir::StorageId id : dirty.storages)
    if (exists(id) && graph_->value(ir::ValueId(id.index())).alias == ir::Alias::kPieces)
      return error(ErrorCode::kInput,
                   fmt::format("'{}' is made of pieces: make its schedule view from nothing",
                               graph_->value(ir::ValueId(id.index())).name));
  for (const ir::StorageId id : dirty.storages) drop_storage(id);
  for (const ir::OpId id : dirty.ops)
    if (!computes(id)) LT_RETURN_IF_ERROR(drop_op(id));
  for (const ir::OpId id : dirty.in_order) LT_RETURN_IF_ERROR(put_op(id, places.contains(id)));
  for (const ir::StorageId id : dirty.storages)
    if (exists(id)) LT_RETURN_IF_ERROR(write_storage(id));
  for (const ir::OpId id : dirty.in_order) LT_RETURN_IF_ERROR(write_op(id));
  for (const ir::OpId id : dirty.waits)
    if (!dirty.ops.contains(id) && computes(id)) write_waits(id);
  return problem_.check();
}

// ---- the steps ----

// Takes a storage out of the problem where nothing of it stays: it is gone, or another op makes it.
void ViewEdit::drop_storage(ir::StorageId id) {
  const Home home = id.index() < home_.size() ? home_[id] : Home{};
  const ir::OpId producer = exists(id) ? root_of(*graph_, id).producer : ir::OpId::none();
  if (home.value.valid() &&
      !(producer.valid() && problem_.value(home.value).producer == sched_op(producer))) {
    problem_.remove_value(home.value);
    set_home(id, {});
  }
  if (!exists(id) || producer.valid()) {
    if (home.resident.valid()) problem_.remove_resident(home.resident);
    if (home.resident_bytes > 0)
      problem_.set_resident_bytes(problem_.resident_bytes() - home.resident_bytes);
    if (home.resident.valid() || home.resident_bytes > 0) set_home(id, {});
  }
}

Status ViewEdit::drop_op(ir::OpId id) {
  const SchedOpId gone = sched_op(id);
  if (!gone.valid()) return {};
  LT_RETURN_IF_ERROR(problem_.remove_op(gone));
  set_sched_op(id, SchedOpId::none());
  return {};
}

// Behind the nearest op before it that computes something.
SchedOpId ViewEdit::place_of(ir::OpId id) const {
  for (ir::OpId at = graph_->previous_op(id); at.valid(); at = graph_->previous_op(at))
    if (const SchedOpId found = sched_op(at); found.valid()) return found;
  return SchedOpId::none();
}

Status ViewEdit::put_op(ir::OpId id, bool moved) {
  const SchedOpId known = sched_op(id);
  if (known.valid() && !moved) return {};
  const SchedOpId at = place_of(id);
  if (!known.valid()) {
    LT_ASSIGN(const SchedOpId made, problem_.insert_op({}, at));
    set_sched_op(id, made);
    return {};
  }
  if (problem_.previous_op(known) == at) return {};
  return problem_.move_op(known, at);
}

std::vector<SchedOpId> ViewEdit::sched_ops(const std::vector<ir::OpId>& ops) const {
  std::vector<SchedOpId> found;
  for (const ir::OpId each : ops) found.push_back(sched_op(each));
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Status ViewEdit::write_storage(ir::StorageId id) {
  const ir::Value& root = root_of(*graph_, id);
  LT_ASSIGN(const int64_t bytes, aligned_size(root, alignment_));
  const Home home = id.index() < home_.size() ? home_[id] : Home{};
  if (root.producer.valid()) return write_value(id, home, bytes);
  write_resident(id, home, bytes);
  return {};
}

Status ViewEdit::write_value(ir::StorageId id, Home home, int64_t bytes) {
  const ir::Value& root = root_of(*graph_, id);
  const StorageUses uses = uses_of(*graph_, id);
  plan::SchedValue now;
  now.name = root.name;
  now.bytes = bytes;
  now.producer = sched_op(root.producer);
  now.readers = sched_ops(uses.readers);
  now.writers = sched_ops(uses.writers);
  now.is_output = is_returned(*graph_, id);
  if (home.value.valid())
    problem_.set_value(home.value, std::move(now));
  else
    set_home(id, {.value = problem_.add_value(std::move(now)), .resident = {}});
  return {};
}

void ViewEdit::write_resident(ir::StorageId id, Home home, int64_t bytes) {
  problem_.set_resident_bytes(problem_.resident_bytes() - home.resident_bytes + bytes);
  Home now{.value = {}, .resident = home.resident, .resident_bytes = bytes};
  const StorageUses uses = uses_of(*graph_, id);
  const bool may_move =
      has_link_ && bytes > 0 && !is_returned_as_it_is(*graph_, id) && !uses.readers.empty();
  if (may_move) {
    plan::SchedResident listed{.name = root_of(*graph_, id).name,
                               .bytes = bytes,
                               .readers = sched_ops(uses.readers),
                               .writers = sched_ops(uses.writers)};
    if (home.resident.valid())
      problem_.set_resident(home.resident, std::move(listed));
    else
      now.resident = problem_.add_resident(std::move(listed));
  } else if (home.resident.valid()) {
    problem_.remove_resident(home.resident);
    now.resident = SchedResidentId::none();
  }
  if (now.resident != home.resident || now.resident_bytes != home.resident_bytes) set_home(id, now);
}

Status ViewEdit::write_op(ir::OpId id) {
  LT_ASSIGN(const OpCost cost, costs_(*graph_, id));
  plan::EditedOp now;
  now.op.name = graph_->op(id).name;
  now.op.seconds = cost.seconds;
  now.op.may_rerun = may_run_again(*graph_, id);
  now.op.workspace_bytes = align_up(cost.workspace_bytes, alignment_);
  now.control = control_of(id);
  const auto bytes = [&](ir::StorageId storage) {
    return problem_.value(home_[storage].value).bytes;
  };
  for (const auto& [from, to] : in_place_storages(*graph_, id, bytes))
    now.in_place.emplace_back(home_[from].value, home_[to].value);
  problem_.set_op(sched_op(id), std::move(now));
  return {};
}

std::vector<SchedOpId> ViewEdit::control_of(ir::OpId id) const {
  std::vector<SchedOpId> control;
  for (const ir::OpId first : waits_for(*graph_, id)) control.push_back(sched_op(first));
  std::sort(control.begin(), control.end());
  return control;
}

void ViewEdit::write_waits(ir::OpId id) {
  plan::EditedOp now = problem_.op(sched_op(id));
  now.control = control_of(id);
  problem_.set_op(sched_op(id), std::move(now));
}

// ---- names, marks ----

SchedOpId ViewEdit::sched_op(ir::OpId id) const {
  return id.index() < sched_op_.size() ? sched_op_[id] : SchedOpId::none();
}

SchedValueId ViewEdit::sched_value(ir::StorageId id) const {
  return id.index() < home_.size() ? home_[id].value : SchedValueId::none();
}

void ViewEdit::set_sched_op(ir::OpId id, SchedOpId now) {
  if (id.index() >= sched_op_.size()) sched_op_.resize(id.index() + 1);
  op_log_.emplace_back(id, sched_op_[id]);
  sched_op_[id] = now;
}

void ViewEdit::set_home(ir::StorageId id, Home now) {
  if (id.index() >= home_.size()) home_.resize(id.index() + 1);
  home_log_.emplace_back(id, home_[id]);
  home_[id] = now;
}

ViewEdit::Mark ViewEdit::mark() const {
  LT_CHECK(!graph_->is_touched(), "a mark of both edits is set after an update");
  return {graph_->mark(), problem_.mark(), op_log_.size(), home_log_.size()};
}

void ViewEdit::rollback(const Mark& mark) {
  graph_->rollback(mark.graph);
  graph_->take_touched();
  problem_.rollback(mark.problem);
  for (; op_log_.size() > mark.ops; op_log_.pop_back())
    sched_op_[op_log_.back().first] = op_log_.back().second;
  for (; home_log_.size() > mark.homes; home_log_.pop_back())
    home_[home_log_.back().first] = home_log_.back().second;
}

void ViewEdit::commit() {
  graph_->commit();
  problem_.commit();
  op_log_.clear();
  home_log_.clear();
}

CompactedView ViewEdit::compact() const {
  CompactedView made{.graph = graph_->compact(), .view = {}};
  const ir::Graph& graph = made.graph.graph;
  IdVector<ir::ValueId, ir::ValueId> value_was(graph.value_count());
  for (const ir::ValueId id : made.graph.value.ids())
    if (made.graph.value[id].valid()) value_was[made.graph.value[id]] = id;
  std::vector<std::pair<SchedValueId, ir::StorageId>> values;
  std::vector<std::pair<SchedResidentId, ir::StorageId>> residents;
  std::vector<SchedValueId> value_order;
  std::vector<SchedResidentId> resident_order;
  for (const ir::StorageId storage : graph.storages()) {
    const Home& home = home_[ir::StorageId(value_was[graph.storage(storage).root].index())];
    if (home.value.valid()) values.emplace_back(home.value, storage);
    if (home.resident.valid()) residents.emplace_back(home.resident, storage);
  }
  for (const auto& each : values) value_order.push_back(each.first);
  for (const auto& each : residents) resident_order.push_back(each.first);
  plan::CompactedProblem compacted = problem_.compact({value_order, resident_order});
  ScheduleView& view = made.view;
  view.sched_op = IdVector<ir::OpId, SchedOpId>(graph.op_count());
  view.op = IdVector<SchedOpId, ir::OpId>(compacted.problem.ops.size());
  for (const ir::OpId id : made.graph.op.ids()) {
    const ir::OpId now = made.graph.op[id];
    if (!now.valid() || !sched_op(id).valid()) continue;
    view.sched_op[now] = compacted.op[sched_op(id)];
    if (problem_.visible(sched_op(id)) == sched_op(id)) view.op[view.sched_op[now]] = now;
  }
  for (const auto& [id, storage] : values)
    if (compacted.value[id].valid()) view.storage.push_back(storage);
  for (const auto& each : residents) view.resident.push_back(each.second);
  view.problem = std::move(compacted.problem);
  return made;
}

}  // namespace lowtide::analysis
