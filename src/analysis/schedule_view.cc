#include "analysis/schedule_view.h"

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
    add_ops();
    LT_RETURN_IF_ERROR(add_storages());
    add_control();
    for (SchedOpId id : view_.problem.ops.ids()) add_pairs(id);
    LT_RETURN_IF_ERROR(plan::check(view_.problem));
    return std::move(view_);
  }

 private:
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
      if (!root.producer.valid()) {
        LT_RETURN_IF_ERROR(add_resident(id, bytes));
        continue;
      }
      const StorageUses uses = uses_of(graph_, id);
      plan::SchedValue value;
      value.name = root.name;
      value.bytes = bytes;
      value.producer = view_.sched_op[root.producer];
      value.readers = sched_ops(uses.readers);
      value.writers = sched_ops(uses.writers);
      value.is_output = is_returned(graph_, id);
      sched_value_[id] = view_.problem.values.push_back(std::move(value));
      view_.storage.push_back(id);
    }
    return {};
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
      view_.problem.in_place.push_back({sched, sched_value_[from], sched_value_[to]});
  }

  const ir::Graph& graph_;
  const OpCosts& costs_;
  const int64_t alignment_;
  ScheduleView view_;
  IdVector<ir::StorageId, SchedValueId> sched_value_;
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
