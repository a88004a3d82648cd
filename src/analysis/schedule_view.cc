#include "analysis/schedule_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "analysis/schedule_rules.h"
#include "base/bytes.h"

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
    add_control();
    for (SchedOpId id : view_.problem.ops.ids()) add_pairs(id);
    LT_RETURN_IF_ERROR(plan::check(view_.problem));
    return std::move(view_);
  }

 private:
  void find_wholes() {
    wholes_ = IdVector<ir::StorageId, std::vector<ir::StorageId>>(graph_.storage_count());
    for (ir::StorageId whole : graph_.storages())
      for (const ir::Piece& piece : graph_.storage(whole).pieces)
        wholes_[piece.storage].push_back(whole);
  }

  void add_ops() {
    view_.sched_op = IdVector<ir::OpId, SchedOpId>(graph_.op_count());
    for (ir::OpId id : graph_.ops()) {
      if (only_makes_views(graph_, id)) continue;
      plan::SchedOp sched;
      sched.name = graph_.op(id).name;
      sched.seconds = costs_.seconds[id];
      sched.may_rerun = may_run_again(graph_, id);
      sched.workspace_bytes = align_up(costs_.workspace_bytes[id], alignment_);
      view_.sched_op[id] = view_.problem.ops.push_back(std::move(sched));
      view_.op.push_back(id);
    }
  }

  Status add_storages() {
    sched_value_ = IdVector<ir::StorageId, SchedValueId>(graph_.storage_count());
    for (ir::StorageId id : graph_.storages()) {
      const ir::Value& root = root_of(graph_, id);
      LT_ASSIGN(const int64_t bytes, aligned_size(root, alignment_));
      if (root.alias == ir::Alias::kPieces) {
        LT_RETURN_IF_ERROR(check_whole(id, root));
        continue;
      }
      if (!root.producer.valid()) {
        LT_RETURN_IF_ERROR(add_resident(id, bytes));
        continue;
      }
      StorageUses uses = uses_of(graph_, id);
      for (ir::StorageId whole : wholes_[id])
        for (ir::OpId reader : uses_of(graph_, whole).readers) uses.readers.push_back(reader);
      plan::SchedValue value;
      value.name = root.name;
      value.bytes = bytes;
      value.producer = view_.sched_op[root.producer];
      value.readers = sched_ops(uses.readers);
      value.writers = sched_ops(uses.writers);
      value.is_output = is_returned(graph_, id);
      for (ir::StorageId whole : wholes_[id]) value.is_output |= is_returned(graph_, whole);
      sched_value_[id] = view_.problem.values.push_back(std::move(value));
      view_.storage.push_back(id);
    }
    return {};
  }

  // Pieces begin at addresses that buffers may have, and what is joined is read: a plan makes views
  // on pieces where somebody needs them.
  Status check_whole(ir::StorageId id, const ir::Value& root) const {
    for (const ir::Piece& piece : graph_.storage(id).pieces) {
      const auto offset = piece.offset_bytes.constant();
      if (ir::size_bytes(root_of(graph_, piece.storage)) == sym::Expr(0))
        return error(ErrorCode::kInput,
                     fmt::format("piece '{}' of '{}' has no bytes",
                                 root_of(graph_, piece.storage).name, root.name));
      if (offset && *offset % alignment_ == 0) continue;
      return error(ErrorCode::kInput,
                   fmt::format("piece '{}' begins at byte {} of '{}', which is no multiple of {}",
                               root_of(graph_, piece.storage).name, sym::print(piece.offset_bytes),
                               root.name, alignment_));
    }
    for (ir::ValueId member : graph_.values_in(id))
      if (graph_.readers(member).empty() && !graph_.value(member).is_output)
        return error(ErrorCode::kInput,
                     fmt::format("nobody reads '{}', a view on the pieces of '{}'",
                                 graph_.value(member).name, root.name));
    return {};
  }

  void add_wholes() {
    for (ir::StorageId id : graph_.storages()) {
      if (graph_.storage(id).pieces.empty()) continue;
      Whole whole;
      whole.storage = id;
      for (const ir::Piece& piece : graph_.storage(id).pieces)
        whole.pieces.push_back({sched_value_[piece.storage], *piece.offset_bytes.constant()});
      whole.readers = sched_ops(uses_of(graph_, id).readers);
      whole.is_output = is_returned(graph_, id);
      view_.wholes.push_back(std::move(whole));
    }
  }

  // All of them count; one that the link may move is listed, too.
  Status add_resident(ir::StorageId id, int64_t bytes) {
    const auto sum = checked_add(view_.problem.resident_bytes, bytes);
    if (!sum || *sum > kMaxBytes)
      return error(ErrorCode::kInput, "the resident values together exceed 2^62 bytes");
    view_.problem.resident_bytes = *sum;
    if (!view_.problem.link || bytes == 0 || is_returned_as_it_is(graph_, id)) return {};
    const StorageUses uses = uses_of(graph_, id);
    if (uses.readers.empty()) return {};
    plan::SchedResident resident;
    resident.name = root_of(graph_, id).name;
    resident.bytes = bytes;
    resident.readers = sched_ops(uses.readers);
    resident.writers = sched_ops(uses.writers);
    view_.problem.residents.push_back(std::move(resident));
    view_.resident.push_back(id);
    return {};
  }

  std::vector<SchedOpId> sched_ops(const std::vector<ir::OpId>& ops) const {
    std::set<SchedOpId> found;
    for (const ir::OpId each : ops) found.insert(view_.sched_op[each]);
    return {found.begin(), found.end()};
  }

  void add_control() {
    std::set<std::pair<SchedOpId, SchedOpId>> edges;
    for (const SchedOpId second : view_.problem.ops.ids())
      for (const ir::OpId first : waits_for(graph_, view_.op[second]))
        edges.emplace(view_.sched_op[first], second);
    view_.problem.control.assign(edges.begin(), edges.end());
  }

  void add_pairs(SchedOpId sched) {
    const auto bytes = [&](ir::StorageId id) {
      return view_.problem.values[sched_value_[id]].bytes;
    };
    for (const auto& [from, to] : in_place_storages(graph_, view_.op[sched], bytes))
      if (wholes_[from].empty())
        view_.problem.in_place.push_back({sched, sched_value_[from], sched_value_[to]});
  }

  const ir::Graph& graph_;
  const OpCosts& costs_;
  const int64_t alignment_;
  ScheduleView view_;
  IdVector<ir::StorageId, SchedValueId> sched_value_;
  IdVector<ir::StorageId, std::vector<ir::StorageId>> wholes_;  // of which it is a piece
};

}  // namespace

bool is_view_op(const ir::Graph& graph, ir::OpId id) {
  return only_makes_views(graph, id);
}

ir::OpId version_producer(const ir::Graph& graph, ir::ValueId value) {
  return producer_of_version(graph, value);
}

Result<ScheduleView> make_schedule_view(const ir::Graph& graph, const OpCosts& costs,
                                        int64_t alignment_bytes,
                                        std::span<const plan::Link> links) {
  Builder builder(graph, costs, alignment_bytes);
  builder.set_links(links);
  return builder.build();
}

}  // namespace lowtide::analysis
