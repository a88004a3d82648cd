// An update in steps, each of which leaves the next one what it needs: wholes get their pieces;
// storages that are gone leave the problem, then ops that are gone; ops come or move, in the order
// of the graph, so that each finds its neighbour in place; then storages are written, who may name
// all ops now; then ops, who may name all storages; then the problem checks what was written.
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
  for (ir::OpId id = graph.first_op(); id.valid(); id = graph.next_op(id)) all.ops.insert(id);
  for (size_t i = 0; i < graph.value_slots(); ++i)
    if (made.exists(ir::StorageId(i))) all.storages.insert(ir::StorageId(i));
  made.add_pieces(all);
  made.sort_ops(all);
  LT_RETURN_IF_ERROR(made.apply(all, {}));
  made.problem_.commit();
  made.op_log_.clear();
  made.home_log_.clear();
  made.pieces_log_.clear();
  return made;
}

// ---- what to look at ----

bool ViewEdit::computes(ir::OpId id) const {
  return graph_->alive(id) && !only_makes_views(*graph_, id);
}

bool ViewEdit::exists(ir::StorageId id) const {
  return !graph_->values_in(id).empty();
}

bool ViewEdit::is_whole(ir::StorageId id) const {
  return exists(id) && graph_->value(ir::ValueId(id.index())).alias == ir::Alias::kPieces;
}

ViewEdit::Dirty ViewEdit::dirty_from(const ir::Touched& touched) const {
  Dirty dirty;
  dirty.ops = touched.ops;
  dirty.storages = touched.storages;
  add_storages_of(touched, dirty);
  add_begun_and_ceased(dirty);
  add_pieces(dirty);
  for (const ir::StorageId id : dirty.storages)
    for (const ir::ValueId member : graph_->values_in(id)) {
      const ir::Value& value = graph_->value(member);
      if (value.alias == ir::Alias::kUpdate) dirty.waits.insert(value.producer);
    }
  sort_ops(dirty);
  return dirty;
}

// Makers of changed values count as touched: they may have begun or ceased to compute.
void ViewEdit::add_storages_of(const ir::Touched& touched, Dirty& dirty) const {
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
}

// What begins to compute becomes a reader of what it reads, and others wait for it; and the
// reverse. The rest of what ops read and make was touched if it changed.
void ViewEdit::add_begun_and_ceased(Dirty& dirty) const {
  for (const ir::OpId id : dirty.ops) {
    if (!graph_->alive(id) || computes(id) == sched_op(id).valid()) continue;
    for (const ir::ValueId input : graph_->op(id).inputs)
      if (input.valid()) dirty.storages.insert(graph_->value(input).storage);
    for (const ir::ValueId output : graph_->op(id).outputs)
      dirty.storages.insert(graph_->value(output).storage);
    const auto waiting = graph_->waiting(id);
    dirty.waits.insert(waiting.begin(), waiting.end());
  }
}

// Those that are touched, that have a touched piece, or that such a whole is a piece of.
std::set<ir::StorageId> ViewEdit::wholes_to_look_at(const Dirty& dirty) const {
  std::vector<ir::StorageId> open;
  for (const ir::StorageId id : dirty.storages) {
    if (is_whole(id) || (id.index() < pieces_.size() && !pieces_[id].empty())) open.push_back(id);
    if (id.index() < wholes_.size())
      open.insert(open.end(), wholes_[id].begin(), wholes_[id].end());
  }
  const auto add_joined = [&](ir::OpId id) {
    if (!graph_->alive(id)) return;
    for (const ir::ValueId output : graph_->op(id).outputs)
      if (graph_->value(output).alias == ir::Alias::kPieces)
        open.push_back(graph_->value(output).storage);
  };
  for (const ir::OpId id : dirty.ops) add_joined(id);
  std::set<ir::StorageId> found;
  while (!open.empty()) {
    const ir::StorageId id = open.back();
    open.pop_back();
    if (!found.insert(id).second || !is_whole(id)) continue;
    for (const ir::OpId reader : graph_->readers(ir::ValueId(id.index()))) add_joined(reader);
  }
  return found;
}

void ViewEdit::add_pieces(Dirty& dirty) const {
  for (const ir::StorageId whole : wholes_to_look_at(dirty)) {
    std::vector<ir::StorageId>& now = dirty.pieces[whole];
    if (is_whole(whole))
      for (const ir::Piece& piece : graph_->storage(whole).pieces) now.push_back(piece.storage);
    dirty.storages.insert(whole);
    dirty.storages.insert(now.begin(), now.end());
    std::set<ir::StorageId> changed(now.begin(), now.end());
    if (whole.index() < pieces_.size())
      for (const ir::StorageId was : pieces_[whole]) {
        dirty.storages.insert(was);
        if (!changed.insert(was).second) changed.erase(was);
      }
    for (const ir::StorageId piece : changed)
      for (const ir::ValueId member : graph_->values_in(piece)) {
        const auto readers = graph_->readers(member);
        dirty.ops.insert(readers.begin(), readers.end());
      }
  }
}

void ViewEdit::sort_ops(Dirty& dirty) const {
  for (const ir::OpId id : dirty.ops)
    if (computes(id)) dirty.in_order.push_back(id);
  std::sort(dirty.in_order.begin(), dirty.in_order.end(),
            [&](ir::OpId a, ir::OpId b) { return graph_->before(a, b); });
}

Status ViewEdit::update() {
  if (!graph_->is_touched()) return {};
  const ir::Touched touched = graph_->take_touched();
  return apply(dirty_from(touched), touched.places);
}

Status ViewEdit::apply(const Dirty& dirty, const std::set<ir::OpId>& places) {
  // What came and went since the last update may have had a higher number than any that is left.
  size_t slots = std::max(home_.size(), graph_->value_slots());
  if (!dirty.storages.empty())
    slots = std::max<size_t>(slots, dirty.storages.rbegin()->index() + 1);
  home_.resize(slots);
  pieces_.resize(home_.size());
  wholes_.resize(home_.size());
  for (const auto& [whole, now] : dirty.pieces) set_pieces(whole, now);
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

// Takes a storage out of the problem where nothing of it stays: it is gone, another op makes it, or
// its pieces do.
void ViewEdit::drop_storage(ir::StorageId id) {
  const Home home = home_[id];
  const ir::OpId producer = exists(id) ? root_of(*graph_, id).producer : ir::OpId::none();
  if (home.value.valid() && !(producer.valid() && !is_whole(id) &&
                              problem_.value(home.value).producer == sched_op(producer))) {
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
  if (is_whole(id)) return check_whole(*graph_, id, alignment_);
  const Home home = home_[id];
  if (root.producer.valid()) return write_value(id, home, bytes);
  write_resident(id, home, bytes);
  return {};
}

Status ViewEdit::write_value(ir::StorageId id, Home home, int64_t bytes) {
  const ir::Value& root = root_of(*graph_, id);
  StorageUses uses = uses_of(*graph_, id);
  plan::SchedValue now;
  now.is_output = is_returned(*graph_, id);
  for (const ir::StorageId whole : wholes_[id]) {
    const auto readers = uses_of(*graph_, whole).readers;
    uses.readers.insert(uses.readers.end(), readers.begin(), readers.end());
    now.is_output |= is_returned(*graph_, whole);
  }
  now.name = root.name;
  now.bytes = bytes;
  now.producer = sched_op(root.producer);
  now.readers = sched_ops(uses.readers);
  now.writers = sched_ops(uses.writers);
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
    if (wholes_[from].empty()) now.in_place.emplace_back(home_[from].value, home_[to].value);
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
  home_log_.emplace_back(id, home_[id]);
  home_[id] = now;
}

void ViewEdit::set_pieces(ir::StorageId whole, const std::vector<ir::StorageId>& now) {
  for (const ir::StorageId piece : pieces_[whole]) std::erase(wholes_[piece], whole);
  pieces_log_.emplace_back(whole, std::move(pieces_[whole]));
  pieces_[whole] = now;
  for (const ir::StorageId piece : now) wholes_[piece].push_back(whole);
}

ViewEdit::Mark ViewEdit::mark() const {
  LT_CHECK(!graph_->is_touched(), "a mark of both edits is set after an update");
  return {graph_->mark(), problem_.mark(), op_log_.size(), home_log_.size(), pieces_log_.size()};
}

void ViewEdit::rollback(const Mark& mark) {
  graph_->rollback(mark.graph);
  graph_->take_touched();
  problem_.rollback(mark.problem);
  for (; op_log_.size() > mark.ops; op_log_.pop_back())
    sched_op_[op_log_.back().first] = op_log_.back().second;
  for (; home_log_.size() > mark.homes; home_log_.pop_back())
    home_[home_log_.back().first] = home_log_.back().second;
  while (pieces_log_.size() > mark.pieces) {
    const auto [whole, before] = std::move(pieces_log_.back());
    set_pieces(whole, before);
    pieces_log_.resize(pieces_log_.size() - 2);  // with what set_pieces has logged
  }
}

void ViewEdit::commit() {
  graph_->commit();
  problem_.commit();
  op_log_.clear();
  home_log_.clear();
  pieces_log_.clear();
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
  IdVector<ir::StorageId, SchedValueId> value_of(graph.storage_count());
  for (const auto& [id, storage] : values) value_of[storage] = compacted.value[id];
  view.wholes = wholes_in(graph, value_of, view.sched_op);
  view.problem = std::move(compacted.problem);
  return made;
}

}  // namespace lowtide::analysis
