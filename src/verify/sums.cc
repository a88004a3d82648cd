#include "verify/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "ops/op_table.h"
#include "verify/beside.h"
#include "verify/facts.h"

namespace lowtide::verify {
namespace {

constexpr size_t kMostFindings = 200;

// A value is its op's own share, by the value of the graph that it is, and what that was added to.
template <class Value>
struct Sum {
  ir::ValueId share;
  Value into;  // none: nothing
};

// All shares of a value, ascending.
template <class Value>
std::vector<ir::ValueId> shares_of(const IdVector<Value, Sum<Value>>& sums, Value value) {
  std::vector<ir::ValueId> shares;
  for (; value.valid(); value = sums[value].into) shares.push_back(sums[value].share);
  std::sort(shares.begin(), shares.end());
  return shares;
}

class Sums {
 public:
  Sums(const plan::Plan& plan, const ir::Graph& before)
      : facts_(plan),
        plan_(plan),
        before_(before),
        op_of_(plan.ops.size()),
        before_sums_(before.value_count()),
        sums_(plan.values.size()) {}

  std::vector<std::string> run() {
    match_ops();
    if (!findings_.empty()) return std::move(findings_);
    for (const ir::ValueId id : before_.values()) before_sums_[id].share = id;
    for (const ir::OpId id : before_.ops()) add_up(id);
    for (const PlanValueId v : plan_.values.ids())
      if (!plan_.values[v].producer.valid()) take_given(v);
    for (const PlanOpId o : plan_.ops.ids()) follow(o);
    compare_results();
    compare_waits();
    return std::move(findings_);
  }

 private:
  void wrong(std::string message) {
    if (findings_.size() < kMostFindings) findings_.push_back(std::move(message));
  }

  // ---- one for one

  void match_ops() {
    std::map<std::string_view, ir::OpId> by_name;
    for (const ir::OpId id : before_.ops()) by_name.emplace(before_.op(id).name, id);
    for (const PlanOpId o : plan_.ops.ids()) {
      const plan::PlanOp& op = plan_.ops[o];
      const auto found = by_name.find(op.name);
      if (found == by_name.end()) {
        wrong(
            fmt::format("op '{}' ({}) is not there before its sums were ordered, or twice in the "
                        "plan",
                        op.name, op.kind));
        continue;
      }
      op_of_[o] = found->second;
      by_name.erase(found);
      const ir::Op& was = before_.op(op_of_[o]);
      if (was.kind != op.kind || !same_attrs(was.attrs, facts_.attrs[o]) ||
          was.outputs.size() != op.outputs.size())
        wrong(
            fmt::format("op '{}' ({}) has another kind, other attributes or other results than "
                        "before its sums were ordered",
                        op.name, op.kind));
    }
    for (const auto& [name, id] : by_name)
      wrong(fmt::format("op '{}' ({}) is there before its sums were ordered, and not in the plan",
                        name, before_.op(id).kind));
  }

  // ---- sums

  void add_up(ir::OpId id) {
    const ir::Op& op = before_.op(id);
    for (const auto& [input, output] : ops::accumulators(ops::instance_of(before_, id)))
      before_sums_[op.outputs[static_cast<size_t>(output)]].into =
          op.inputs[static_cast<size_t>(input)];
  }

  void take_given(PlanValueId v) {
    const auto found = before_.find_value(plan_.values[v].name);
    if (!found || before_.value(*found).producer.valid()) {
      wrong(fmt::format("'{}' is there before the step, and was not before its sums were ordered",
                        plan_.values[v].name));
      return;
    }
    sums_[v].share = *found;
    const std::string other = difference_of_given(plan_, v, before_.value(*found));
    if (!other.empty())
      wrong(fmt::format("'{}' differs in {} from before its sums were ordered",
                        plan_.values[v].name, other));
  }

  void follow(PlanOpId o) {
    const plan::PlanOp& op = plan_.ops[o];
    const ir::Op& was = before_.op(op_of_[o]);
    const auto adds = ops::accumulators(facts_.instance(o));
    const auto added = ops::accumulators(ops::instance_of(before_, op_of_[o]));
    for (size_t i = 0; i < std::max(op.inputs.size(), was.inputs.size()); ++i) {
      const auto is_added_into = [i](const std::pair<int, int>& pair) {
        return static_cast<size_t>(pair.first) == i;
      };
      if (std::none_of(adds.begin(), adds.end(), is_added_into) &&
          std::none_of(added.begin(), added.end(), is_added_into))
        compare_operand(op, was, i);
    }
    for (size_t k = 0; k < op.outputs.size(); ++k) sums_[op.outputs[k]].share = was.outputs[k];
    for (const auto& [input, output] : adds)
      sums_[op.outputs[static_cast<size_t>(output)]].into = op.inputs[static_cast<size_t>(input)];
  }

  // ---- the same

  bool same(PlanValueId now, ir::ValueId was) const {
    if (!sums_[now].into.valid() && !before_sums_[was].into.valid())
      return sums_[now].share == before_sums_[was].share;
    return shares_of(sums_, now) == shares_of(before_sums_, was);
  }

  void compare_operand(const plan::PlanOp& op, const ir::Op& was, size_t i) {
    const bool is_there = i < op.inputs.size() && op.inputs[i].valid();
    const bool was_there = i < was.inputs.size() && was.inputs[i].valid();
    if (is_there == was_there && (!is_there || same(op.inputs[i], was.inputs[i]))) return;
    wrong(fmt::format("operand {} of op '{}' ({}) is not what it was before its sums were ordered",
                      i, op.name, op.kind));
  }

  void compare_results() {
    std::map<std::string_view, PlanValueId> results;
    for (const PlanValueId v : plan_.values.ids())
      if (plan_.values[v].is_output) results.emplace(plan_.values[v].name, v);
    for (const ir::ValueId id : before_.outputs()) {
      const auto found = results.find(before_.value(id).name);
      if (found == results.end() || !same(found->second, id))
        wrong(fmt::format("result '{}' is not what it was before its sums were ordered",
                          before_.value(id).name));
      if (found != results.end()) results.erase(found);
    }
    for (const auto& [name, v] : results)
      wrong(fmt::format("result '{}' was none before its sums were ordered", name));
  }

  void compare_waits() {
    IdVector<ir::OpId, PlanOpId> now(before_.op_count());
    for (const PlanOpId o : plan_.ops.ids()) now[op_of_[o]] = o;
    std::vector<std::pair<PlanOpId, PlanOpId>> waits;
    for (const ir::OpId id : before_.ops())
      for (const ir::OpId first : before_.op(id).control) waits.emplace_back(now[id], now[first]);
    for (const auto& [waiting, first] : lost_waits(plan_, waits))
      wrong(fmt::format("op '{}' does not wait for op '{}', as it did before its sums were ordered",
                        plan_.ops[waiting].name, plan_.ops[first].name));
  }

  const Facts facts_;
  const plan::Plan& plan_;
  const ir::Graph& before_;
  IdVector<PlanOpId, ir::OpId> op_of_;
  IdVector<ir::ValueId, Sum<ir::ValueId>> before_sums_;
  IdVector<PlanValueId, Sum<PlanValueId>> sums_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> verify_sums(const plan::Plan& plan, const ir::Graph& before) {
  return Sums(plan, before).run();
}

}  // namespace lowtide::verify
