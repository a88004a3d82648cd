#include "analysis/schedule_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "analysis/common_ancestor.h"
#include "analysis/schedule_rules.h"
#include "base/bytes.h"

namespace lowtide::analysis {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct ViewTuning {
  size_t most_seen = 20'000;  // ops, in the search for what comes before all writers of a sum
};
constexpr ViewTuning kView;

using plan::SchedOpId;
using plan::SchedValueId;

// Ascending, each once.
template <class T>
void sort_once(std::vector<T>& all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

class Builder {
 public:
  Builder(const ir::Graph& graph, const OpCosts& costs, int64_t alignment,
          const ViewOptions& options)
      : graph_(graph),
        costs_(costs),
        alignment_(alignment),
        least_workspace_bytes_(options.least_workspace_bytes) {
    if (!options.links.empty()) {
      view_.problem.link = options.links.front();
      view_.problem.more_links.assign(options.links.begin() + 1, options.links.end());
    }
    take_sums(options.sums);
  }

  Result<ScheduleView> build() {
    find_wholes();
    add_ops();
    LT_RETURN_IF_ERROR(add_storages());
    view_.wholes = wholes_in(graph_, sched_value_, view_.sched_op);
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

  void take_sums(std::span<const Sum> sums) {
    for (size_t k = 0; k < sums.size(); ++k) {
      view_.sums.push_back({sums[k], {}, {}, {}, {}});
      const Sum& sum = view_.sums[k].sum;
      for (const Contribution& c : sum.contributions) {
        sum_of_.emplace(version(c), k);
        contributes_.insert(c.op);
      }
      if (!sum.first_is_fixed) begun_before_[sum.contributions.front().op].push_back(k);
    }
  }

  ir::StorageId version(const Contribution& c) const {
    return graph_.value(graph_.op(c.op).outputs[c.output]).storage;
  }

  void add_begins(ir::OpId first) {
    const auto begun = begun_before_.find(first);
    if (begun == begun_before_.end()) return;
    for (const size_t k : begun->second) {
      plan::SchedOp begin;
      begin.name =
          graph_.value(graph_.storage(version(view_.sums[k].sum.contributions.back())).root).name +
          "/begin";
      view_.sums[k].begin = view_.problem.ops.push_back(std::move(begin));
      view_.op.push_back(ir::OpId::none());
    }
  }

  void add_ops() {
    view_.sched_op = IdVector<ir::OpId, SchedOpId>(graph_.op_count());
    for (ir::OpId id : graph_.ops()) {
      if (only_makes_views(graph_, id)) continue;
      add_begins(id);
      plan::SchedOp sched;
      sched.name = graph_.op(id).name;
      sched.seconds = costs_.seconds[id];
      sched.may_rerun = may_run_again(graph_, id) && !contributes_.contains(id);
      sched.workspace_bytes = align_up(costs_.workspace_bytes[id], alignment_);
      view_.sched_op[id] = view_.problem.ops.push_back(std::move(sched));
      view_.op.push_back(id);
      if (least_workspace_bytes_ != nullptr && contributes_.contains(id))
        view_.least_workspace_bytes.emplace_back(
            view_.sched_op[id], align_up((*least_workspace_bytes_)[id], alignment_));
    }
  }

  Status add_storages() {
    sched_value_ = IdVector<ir::StorageId, SchedValueId>(graph_.storage_count());
    for (ir::StorageId id : graph_.storages()) {
      const ir::Value& root = root_of(graph_, id);
      LT_ASSIGN(const int64_t bytes, aligned_size(root, alignment_));
      if (root.alias == ir::Alias::kPieces) {
        LT_RETURN_IF_ERROR(check_whole(graph_, id, alignment_));
        continue;
      }
      if (!root.producer.valid()) {
        LT_RETURN_IF_ERROR(add_resident(id, bytes));
        continue;
      }
      if (const auto sum = sum_of_.find(id); sum != sum_of_.end()) {
        add_version(view_.sums[sum->second], id, bytes);
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

  std::vector<SchedOpId> pure_ops(const std::vector<Contribution>& all) const {
    std::vector<SchedOpId> found;
    for (const Contribution& c : all)
      if (may_run_again(graph_, c.op)) found.push_back(view_.sched_op[c.op]);
    return found;
  }

  // The first version makes the value of the sum, the last one says who reads it.
  void add_version(SumInProblem& in, ir::StorageId id, int64_t bytes) {
    const std::vector<Contribution>& all = in.sum.contributions;
    if (id == version(all.front())) {
      plan::SchedValue value;
      value.bytes = bytes;
      value.producer = in.begin.valid() ? in.begin : view_.sched_op[all.front().op];
      std::vector<ir::OpId> writers;
      for (size_t k = in.begin.valid() ? 0 : 1; k < all.size(); ++k) writers.push_back(all[k].op);
      value.writers = value.readers = sched_ops(writers);
      in.value = view_.problem.values.push_back(std::move(value));
      in.pure = pure_ops(all);
      view_.storage.push_back(id);
    }
    sched_value_[id] = in.value;
    if (id != version(all.back())) return;
    plan::SchedValue& value = view_.problem.values[in.value];
    value.name = root_of(graph_, id).name;
    value.is_output = is_returned(graph_, id);
    const std::vector<SchedOpId> readers = sched_ops(uses_of(graph_, id).readers);
    for (const SchedOpId writer : value.writers)
      for (const SchedOpId reader : readers) in.control.emplace_back(writer, reader);
    value.readers.insert(value.readers.end(), readers.begin(), readers.end());
    sort_once(value.readers);
    view_.storage[in.value] = id;
  }

  // Whoever comes before all contributions comes before the beginning, too: no order is lost, and
  // a search sees where the beginning belongs. One such op is enough, the latest.
  void add_before_begins() {
    if (view_.sums.empty()) return;
    IdVector<SchedOpId, std::vector<SchedOpId>> before(view_.problem.ops.size());
    for (const plan::SchedValue& value : view_.problem.values)
      for (const SchedOpId reader : value.readers) before[reader].push_back(value.producer);
    for (const auto& [first, second] : control_) before[second].push_back(first);
    for (const SumInProblem& in : view_.sums)
      for (const auto& [first, second] : in.control) before[second].push_back(first);
    CommonAncestors ancestors(before, kView.most_seen);
    const auto begins = [&](SchedOpId op) { return !view_.op[op].valid(); };
    for (SumInProblem& in : view_.sums) {
      if (!in.begin.valid()) continue;
      const std::vector<SchedOpId>& all = view_.problem.values[in.value].writers;
      if (const auto found = ancestors.latest(all, begins))
        in.control.emplace_back(*found, in.begin);
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
    std::vector<SchedOpId> found;
    found.reserve(ops.size());
    for (const ir::OpId each : ops) found.push_back(view_.sched_op[each]);
    sort_once(found);
    return found;
  }

  void add_control() {
    for (const SchedOpId second : view_.problem.ops.ids()) {
      if (!view_.op[second].valid()) continue;
      for (const ir::OpId first : waits_for(graph_, view_.op[second]))
        control_.emplace_back(view_.sched_op[first], second);
    }
    sort_once(control_);
    add_before_begins();
    std::vector<std::pair<SchedOpId, SchedOpId>>& all = view_.problem.control;
    all = control_;
    for (SumInProblem& in : view_.sums) {
      std::erase_if(in.control, [&](const auto& edge) {
        return std::binary_search(control_.begin(), control_.end(), edge);
      });
      all.insert(all.end(), in.control.begin(), in.control.end());
    }
    sort_once(all);
  }

  void add_pairs(SchedOpId sched) {
    if (!view_.op[sched].valid()) return;
    const auto bytes = [&](ir::StorageId id) {
      return view_.problem.values[sched_value_[id]].bytes;
    };
    for (const auto& [from, to] : in_place_storages(graph_, view_.op[sched], bytes))
      if (wholes_[from].empty() && sched_value_[from] != sched_value_[to])
        view_.problem.in_place.push_back({sched, sched_value_[from], sched_value_[to]});
  }

  const ir::Graph& graph_;
  const OpCosts& costs_;
  const int64_t alignment_;
  const IdVector<ir::OpId, int64_t>* least_workspace_bytes_;  // or null
  ScheduleView view_;
  IdVector<ir::StorageId, SchedValueId> sched_value_;
  IdVector<ir::StorageId, std::vector<ir::StorageId>> wholes_;  // of which it is a piece
  std::map<ir::StorageId, size_t> sum_of_;                      // of versions
  std::set<ir::OpId> contributes_;
  std::map<ir::OpId, std::vector<size_t>> begun_before_;  // sums that may begin with the op
  std::vector<std::pair<SchedOpId, SchedOpId>> control_;  // without sums'; ascending
};

}  // namespace

plan::ScheduleProblem relaxed_sums(const ScheduleView& view) {
  plan::ScheduleProblem problem = view.problem;
  std::map<SchedOpId, std::set<SchedOpId>> waits;  // for the op's first run
  std::set<std::pair<SchedOpId, SchedOpId>> for_sums;
  for (const SumInProblem& in : view.sums)
    for (const auto& edge : in.control)
      if (for_sums.insert(edge).second) waits[edge.first].insert(edge.second);
  std::erase_if(problem.control, [&](const auto& edge) { return for_sums.contains(edge); });
  for (const auto& [first, readers] : waits) {
    plan::SchedValue done;
    done.name = problem.ops[first].name + "/done";
    done.producer = first;
    done.readers.assign(readers.begin(), readers.end());
    problem.values.push_back(std::move(done));
  }
  for (const auto& [op, bytes] : view.least_workspace_bytes)
    problem.ops[op].workspace_bytes = std::min(problem.ops[op].workspace_bytes, bytes);
  for (const SumInProblem& in : view.sums) {
    problem.values[in.value].writers.clear();
    for (const SchedOpId op : in.pure) problem.ops[op].may_rerun = true;
    if (in.begin.valid()) problem.ops[in.begin].may_rerun = true;
  }
  return problem;
}

std::vector<Whole> wholes_in(const ir::Graph& graph,
                             const IdVector<ir::StorageId, SchedValueId>& value,
                             const IdVector<ir::OpId, SchedOpId>& op) {
  std::vector<Whole> wholes;
  for (const ir::StorageId id : graph.storages()) {
    Whole whole;
    whole.storage = id;
    const auto& pieces = graph.storage(id).pieces;
    for (const ir::Piece& piece : pieces)
      if (value[piece.storage].valid())
        whole.pieces.push_back({value[piece.storage], *piece.offset_bytes.constant()});
    if (pieces.empty() || whole.pieces.size() != pieces.size()) continue;
    std::set<SchedOpId> readers;
    for (const ir::OpId reader : uses_of(graph, id).readers) readers.insert(op[reader]);
    whole.readers.assign(readers.begin(), readers.end());
    whole.is_output = is_returned(graph, id);
    wholes.push_back(std::move(whole));
  }
  return wholes;
}

bool is_view_op(const ir::Graph& graph, ir::OpId id) {
  return only_makes_views(graph, id);
}

ir::OpId version_producer(const ir::Graph& graph, ir::ValueId value) {
  return producer_of_version(graph, value);
}

Result<ScheduleView> make_schedule_view(const ir::Graph& graph, const OpCosts& costs,
                                        int64_t alignment_bytes, const ViewOptions& options) {
  return Builder(graph, costs, alignment_bytes, options).build();
}

}  // namespace lowtide::analysis
