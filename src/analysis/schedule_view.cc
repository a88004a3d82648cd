#include "analysis/schedule_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "ops/op_table.h"

namespace lowtide::analysis {
namespace {

using plan::SchedOpId;
using plan::SchedValueId;

class Builder {
 public:
  Builder(const ir::Graph& graph, const OpCosts& costs, int64_t alignment)
      : graph_(graph), costs_(costs), alignment_(alignment) {}

  void set_links(std::span<const plan::Link> links) {
    if (links.empty()) return;
    view_.problem.link = links.front();
    view_.problem.more_links.assign(links.begin() + 1, links.end());
  }

  Result<ScheduleView> build() {
    find_wholes();
    add_ops();
    LT_RETURN_IF_ERROR(add_storages());
    add_wholes();
    for (ir::OpId id : graph_.ops()) add_dependences(id);
    add_control();
    for (SchedOpId id : view_.problem.ops.ids()) add_pairs(id);
    LT_RETURN_IF_ERROR(plan::check(view_.problem));
    return std::move(view_);
  }

 private:
  // Whatever reads a whole or is one, by piece.
  void find_wholes() {
    wholes_ = IdVector<ir::StorageId, std::vector<ir::StorageId>>(graph_.storage_count());
    for (ir::StorageId whole : graph_.storages())
      for (const ir::Piece& piece : graph_.storage(whole).pieces)
        wholes_[piece.storage].push_back(whole);
  }

  void add_ops() {
    view_.sched_op = IdVector<ir::OpId, SchedOpId>(graph_.op_count());
    for (ir::OpId id : graph_.ops()) {
      if (is_view_op(graph_, id)) continue;
      const ir::Op& op = graph_.op(id);
      const ops::Row* row = ops::find(op.kind);
      plan::SchedOp sched;
      sched.name = op.name;
      sched.seconds = costs_.seconds[id];
      sched.may_rerun = row != nullptr && ops::traits(*row).recomputable &&
                        !ops::traits(*row).has_effect && !overwrites(op);
      sched.workspace_bytes = align_up(costs_.workspace_bytes[id], alignment_);
      view_.sched_op[id] = view_.problem.ops.push_back(std::move(sched));
      view_.op.push_back(id);
    }
  }

  Status add_storages() {
    sched_value_ = IdVector<ir::StorageId, SchedValueId>(graph_.storage_count());
    for (ir::StorageId id : graph_.storages()) {
      const ir::Value& root = graph_.value(graph_.storage(id).root);
      LT_ASSIGN(const int64_t bytes, aligned_size(root));
      if (root.alias == ir::Alias::kPieces) {
        LT_RETURN_IF_ERROR(check_whole(id, root));
        continue;
      }
      if (!root.producer.valid()) {
        LT_RETURN_IF_ERROR(add_resident(id, bytes));
        continue;
      }
      plan::SchedValue value;
      value.name = root.name;
      value.bytes = bytes;
      value.producer = view_.sched_op[root.producer];
      value.readers = readers_of(id, value.producer);
      value.writers = writers_of(id);
      if (!value.writers.empty()) view_.problem.ops[value.producer].may_rerun = false;
      value.is_output = has_output(id);
      for (ir::StorageId whole : wholes_[id]) value.is_output |= has_output(whole);
      sched_value_[id] = view_.problem.values.push_back(std::move(value));
      view_.storage.push_back(id);
    }
    return {};
  }

  void add_wholes() {
    for (ir::StorageId id : graph_.storages()) {
      if (graph_.storage(id).pieces.empty()) continue;
      Whole whole;
      whole.storage = id;
      for (const ir::Piece& piece : graph_.storage(id).pieces)
        whole.pieces.push_back({sched_value_[piece.storage], *piece.offset_bytes.constant()});
      whole.readers = readers_of(id, SchedOpId::none());
      whole.is_output = has_output(id);
      view_.wholes.push_back(std::move(whole));
    }
  }

  bool has_output(ir::StorageId id) const {
    const auto members = graph_.values_in(id);
    return std::any_of(members.begin(), members.end(),
                       [&](ir::ValueId member) { return graph_.value(member).is_output; });
  }

  // Pieces begin at addresses that buffers may have, and what is joined is read: a plan makes views
  // on pieces where somebody needs them.
  Status check_whole(ir::StorageId id, const ir::Value& root) const {
    for (const ir::Piece& piece : graph_.storage(id).pieces) {
      const auto offset = piece.offset_bytes.constant();
      if (offset && *offset % alignment_ == 0) continue;
      const std::string& name = graph_.value(graph_.storage(piece.storage).root).name;
      return error(ErrorCode::kInput,
                   fmt::format("piece '{}' begins at byte {} of '{}', which is no multiple of {}",
                               name, sym::print(piece.offset_bytes), root.name, alignment_));
    }
    for (ir::ValueId member : graph_.values_in(id))
      if (graph_.readers(member).empty() && !graph_.value(member).is_output)
        return error(ErrorCode::kInput,
                     fmt::format("nobody reads '{}', a view on the pieces of '{}'",
                                 graph_.value(member).name, root.name));
    return {};
  }

  // All of them count; one that the link may move is listed, too.
  Status add_resident(ir::StorageId id, int64_t bytes) {
    const auto sum = checked_add(view_.problem.resident_bytes, bytes);
    if (!sum || *sum > kMaxBytes)
      return error(ErrorCode::kInput, "the resident values together exceed 2^62 bytes");
    view_.problem.resident_bytes = *sum;
    if (!view_.problem.link || bytes == 0 || is_result(id)) return {};
    plan::SchedResident resident;
    resident.name = graph_.value(graph_.storage(id).root).name;
    resident.bytes = bytes;
    resident.readers = readers_of(id, SchedOpId::none());
    if (resident.readers.empty()) return {};
    resident.writers = writers_of(id);
    view_.problem.residents.push_back(std::move(resident));
    view_.resident.push_back(id);
    return {};
  }

  // An output of the step, other than the new contents of what it updates.
  bool is_result(ir::StorageId id) const {
    const auto members = graph_.values_in(id);
    return std::any_of(members.begin(), members.end(), [&](ir::ValueId member) {
      const ir::Value& value = graph_.value(member);
      return value.is_output && value.alias != ir::Alias::kUpdate;
    });
  }

  bool overwrites(const ir::Op& op) const {
    return std::any_of(op.outputs.begin(), op.outputs.end(), [&](ir::ValueId output) {
      return graph_.value(output).alias == ir::Alias::kUpdate;
    });
  }

  Result<int64_t> aligned_size(const ir::Value& value) const {
    const auto bytes = ir::size_bytes(value).constant();
    if (!bytes)
      return error(
          ErrorCode::kInput,
          fmt::format("the size of value '{}' is {}; bind its symbols first (--dim name=size)",
                      value.name, sym::print(ir::size_bytes(value))));
    if (*bytes < 0 || *bytes > kMaxBytes - alignment_)
      return error(
          ErrorCode::kInput,
          fmt::format("value '{}' has {} bytes; at most 2^62 are possible", value.name, *bytes));
    return align_up(*bytes, alignment_);
  }

  std::vector<SchedOpId> readers_of(ir::StorageId storage, SchedOpId producer) const {
    std::set<SchedOpId> readers;
    const auto add = [&](ir::StorageId read) {
      for (ir::ValueId member : graph_.values_in(read))
        for (ir::OpId reader : graph_.readers(member))
          if (const SchedOpId sched = view_.sched_op[reader]; sched.valid() && sched != producer)
            readers.insert(sched);
    };
    add(storage);
    for (ir::StorageId whole : wholes_[storage]) add(whole);
    return {readers.begin(), readers.end()};
  }

  std::vector<SchedOpId> writers_of(ir::StorageId storage) const {
    std::set<SchedOpId> writers;
    for (ir::ValueId member : graph_.values_in(storage))
      if (graph_.value(member).alias == ir::Alias::kUpdate)
        writers.insert(view_.sched_op[graph_.value(member).producer]);
    return {writers.begin(), writers.end()};
  }

  // Control edges of one op: after the version it reads, if that is not the storage's first; and,
  // if it overwrites a storage, after everyone else who reads the version it destroys.
  void add_dependences(ir::OpId id) {
    const SchedOpId sched = view_.sched_op[id];
    if (!sched.valid()) return;
    const ir::Op& op = graph_.op(id);
    for (ir::ValueId input : op.inputs) {
      if (!input.valid()) continue;
      const ir::OpId version = version_producer(graph_, input);
      const ir::OpId first =
          graph_.value(graph_.storage(graph_.value(input).storage).root).producer;
      if (version.valid() && version != first) add_edge(view_.sched_op[version], sched);
    }
    for (ir::ValueId output : op.outputs)
      if (graph_.value(output).alias == ir::Alias::kUpdate) add_anti_dependences(output, id);
    for (ir::OpId before : op.control) add_edge(view_.sched_op[before], sched);
  }

  void add_anti_dependences(ir::ValueId updated, ir::OpId updater) {
    const ir::Value& value = graph_.value(updated);
    const ir::OpId old_version = version_producer(graph_, value.base);
    for (ir::ValueId member : graph_.values_in(value.storage)) {
      if (member == updated || version_producer(graph_, member) != old_version) continue;
      for (ir::OpId reader : graph_.readers(member))
        if (reader < updater) add_edge(view_.sched_op[reader], view_.sched_op[updater]);
    }
  }

  void add_edge(SchedOpId before, SchedOpId after) {
    if (before.valid() && after.valid() && before != after) edges_.emplace(before, after);
  }

  void add_control() { view_.problem.control.assign(edges_.begin(), edges_.end()); }

  void add_pairs(SchedOpId sched) {
    const ir::OpId id = view_.op[sched];
    const ir::Op& op = graph_.op(id);
    for (const auto& [in, out] : ops::in_place_pairs(ops::instance_of(graph_, id))) {
      const ir::ValueId input = op.inputs[static_cast<size_t>(in)];
      const ir::ValueId output = op.outputs[static_cast<size_t>(out)];
      if (!input.valid() || !may_die_here(op, input)) continue;
      if (graph_.value(output).alias != ir::Alias::kOwn) continue;
      const SchedValueId from = sched_value_[graph_.value(input).storage];
      const SchedValueId to = sched_value_[graph_.value(output).storage];
      if (!from.valid() || view_.problem.values[from].is_output ||
          view_.problem.values[from].bytes != view_.problem.values[to].bytes)
        continue;
      view_.problem.in_place.push_back({sched, from, to});
    }
  }

  bool may_die_here(const ir::Op& op, ir::ValueId input) const {
    const ir::Value& value = graph_.value(input);
    const ir::Value& root = graph_.value(graph_.storage(value.storage).root);
    if (!root.producer.valid() || !wholes_[value.storage].empty() ||
        !(ir::size_bytes(value) == ir::size_bytes(root)) || !(value.offset_bytes == sym::Expr(0)))
      return false;
    const auto reads_storage =
        std::count_if(op.inputs.begin(), op.inputs.end(), [&](ir::ValueId other) {
          return other.valid() && graph_.value(other).storage == value.storage;
        });
    return reads_storage == 1;
  }

  const ir::Graph& graph_;
  const OpCosts& costs_;
  const int64_t alignment_;
  ScheduleView view_;
  IdVector<ir::StorageId, SchedValueId> sched_value_;
  IdVector<ir::StorageId, std::vector<ir::StorageId>> wholes_;  // of which it is a piece
  std::set<std::pair<SchedOpId, SchedOpId>> edges_;
};

}  // namespace

bool is_view_op(const ir::Graph& graph, ir::OpId id) {
  const ir::Op& op = graph.op(id);
  return !op.outputs.empty() &&
         std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](ir::ValueId output) { return ir::is_view(graph.value(output).alias); });
}

ir::OpId version_producer(const ir::Graph& graph, ir::ValueId value) {
  while (graph.value(value).alias == ir::Alias::kView) value = graph.value(value).base;
  return graph.value(value).producer;
}

Result<ScheduleView> make_schedule_view(const ir::Graph& graph, const OpCosts& costs,
                                        int64_t alignment_bytes,
                                        std::span<const plan::Link> links) {
  Builder builder(graph, costs, alignment_bytes);
  builder.set_links(links);
  return builder.build();
}

}  // namespace lowtide::analysis
