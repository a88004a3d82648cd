#include "fission/regions.h"

#include <algorithm>
#include <map>
#include <set>

#include "fission/labels.h"
#include "plan/schedule_simulator.h"

namespace lowtide::fission {
namespace {

using ir::OpId;
using plan::SchedOpId;
using plan::SchedValueId;

// The values that are there at the peak of an order.
Result<IdVector<SchedValueId, char>> hot_spot(const plan::ScheduleProblem& problem,
                                              const std::vector<SchedOpId>& order) {
  LT_ASSIGN(const plan::ScheduleProfile profile, plan::simulate(problem, order));
  IdVector<SchedOpId, size_t> at(problem.ops.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) at[order[i]] = i;
  IdVector<SchedValueId, char> is_hot(problem.values.size(), 0);
  for (const SchedValueId v : problem.values.ids()) {
    const plan::SchedValue& value = problem.values[v];
    size_t end = at[value.producer];
    for (const SchedOpId reader : value.readers) end = std::max(end, at[reader]);
    is_hot[v] =
        at[value.producer] <= profile.peak_step && (value.is_output || end >= profile.peak_step);
  }
  return is_hot;
}

class Finder {
 public:
  Finder(const ir::Graph& graph, const AxisClass& axis_class, const analysis::ScheduleView& view,
         IdVector<SchedValueId, char> is_hot)
      : graph_(graph),
        axis_class_(axis_class),
        problem_(view.problem),
        is_hot_(std::move(is_hot)),
        dominators_(immediate_dominators(graph, axis_class)) {
    for (const SchedValueId v : view.storage.ids()) value_of_[view.storage[v]] = v;
  }

  // Of each head with something behind it, if it is worth anything.
  std::vector<Region> all() const {
    std::set<OpId> heads;
    for (const ClassAxis& axis : axis_class_.axes)
      if (dominators_[axis.op].valid()) heads.insert(dominators_[axis.op]);
    std::vector<Region> regions;
    for (const OpId head : heads) {
      Region region{head, region_of(graph_, axis_class_, dominators_, head), 0};
      region.worth_bytes = worth(region);
      if (region.worth_bytes > 0) regions.push_back(std::move(region));
    }
    return regions;
  }

  bool is_behind(OpId op, OpId head) const {
    while (op.valid() && op != head) op = dominators_[op];
    return op.valid();
  }

 private:
  int64_t worth(const Region& region) const {
    std::set<SchedValueId> made, read;
    for (const OpId id : region.ops) {
      const auto add = [&](ir::ValueId value, std::set<SchedValueId>& to) {
        if (!value.valid()) return;
        const auto found = value_of_.find(graph_.value(value).storage);
        if (found != value_of_.end()) to.insert(found->second);
      };
      for (const ir::ValueId output : graph_.op(id).outputs)
        if (!ir::is_view(graph_.value(output).alias)) add(output, made);
      for (const ir::ValueId input : graph_.op(id).inputs) add(input, read);
    }
    int64_t bytes = 0;
    for (const SchedValueId v : made)
      if (is_hot_[v]) bytes += problem_.values[v].bytes / 2;
    for (const SchedValueId v : read)
      if (!is_hot_[v] && !made.contains(v)) bytes -= problem_.values[v].bytes;
    return bytes;
  }

  const ir::Graph& graph_;
  const AxisClass& axis_class_;
  const plan::ScheduleProblem& problem_;
  const IdVector<SchedValueId, char> is_hot_;
  const IdVector<OpId, OpId> dominators_;
  std::map<ir::StorageId, SchedValueId> value_of_;
};

}  // namespace

Result<std::vector<Region>> find_regions(const ir::Graph& graph, const AxisClass& axis_class,
                                         const analysis::ScheduleView& view,
                                         const std::vector<SchedOpId>& order, int levels) {
  LT_ASSIGN(auto is_hot, hot_spot(view.problem, order));
  const Finder finder(graph, axis_class, view, std::move(is_hot));
  std::vector<Region> all = finder.all(), chosen;
  int64_t most = 0;
  for (const Region& region : all) most = std::max(most, region.worth_bytes);
  const auto step = [&](const Region& region) { return region.worth_bytes * levels / most; };
  for (const Region& region : all) {
    if (step(region) == 0) continue;
    const bool contains_one = std::any_of(all.begin(), all.end(), [&](const Region& other) {
      return other.head != region.head && step(other) == step(region) &&
             finder.is_behind(other.head, region.head);
    });
    if (!contains_one) chosen.push_back(region);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Region& a, const Region& b) { return a.ops.size() > b.ops.size(); });
  return chosen;
}

}  // namespace lowtide::fission
