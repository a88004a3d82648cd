#include "verify/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "ops/op_table.h"
#include "verify/facts.h"

namespace lowtide::verify {
namespace {

constexpr size_t kMostFindings = 200;

// What was added up to a value: each share by the value of the graph that the adding op makes.
using Shares = std::vector<ir::ValueId>;  // ascending

// Nothing where the share is there already.
bool add(Shares& sum, ir::ValueId share) {
  const auto at = std::lower_bound(sum.begin(), sum.end(), share);
  if (at != sum.end() && *at == share) return false;
  sum.insert(at, share);
  return true;
}

class Sums {
 public:
  Sums(const plan::Plan& plan, const ir::Graph& before)
      : facts_(plan),
        plan_(plan),
        before_(before),
        op_of_(plan.ops.size()),
        before_shares_(before.value_count()),
        shares_(plan.values.size()) {}

  std::vector<std::string> run() {
    match_ops();
    if (!findings_.empty()) return std::move(findings_);
    for (const ir::ValueId id : before_.values())
      if (!before_.value(id).producer.valid()) before_shares_[id] = {id};
    for (const ir::OpId id : before_.ops()) add_up(id);
    for (const PlanValueId v : plan_.values.ids())
      if (!plan_.values[v].producer.valid()) take_given(v);
    for (const PlanOpId o : plan_.ops.ids()) follow(o);
    compare_results();
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
      if (was.kind != op.kind || was.attrs != facts_.attrs[o] ||
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
    for (const ir::ValueId output : op.outputs) before_shares_[output] = {output};
    for (const auto& [input, output] : ops::accumulators(ops::instance_of(before_, id))) {
      const ir::ValueId made = op.outputs[static_cast<size_t>(output)];
      before_shares_[made] = before_shares_[op.inputs[static_cast<size_t>(input)]];
      add(before_shares_[made], made);
    }
  }

  void take_given(PlanValueId v) {
    const auto found = before_.find_value(plan_.values[v].name);
    if (found && !before_.value(*found).producer.valid())
      shares_[v] = {*found};
    else
      wrong(fmt::format("'{}' is there before the step, and was not before its sums were ordered",
                        plan_.values[v].name));
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
    for (size_t k = 0; k < op.outputs.size(); ++k) shares_[op.outputs[k]] = {was.outputs[k]};
    for (const auto& [input, output] : adds) {
      const auto k = static_cast<size_t>(output);
      Shares& sum = shares_[op.outputs[k]];
      sum = shares_[op.inputs[static_cast<size_t>(input)]];
      if (!add(sum, was.outputs[k]))
        wrong(fmt::format("op '{}' ({}) adds its share to a sum that has it", op.name, op.kind));
    }
  }

  // ---- the same

  void compare_operand(const plan::PlanOp& op, const ir::Op& was, size_t i) {
    const bool is_there = i < op.inputs.size() && op.inputs[i].valid();
    const bool was_there = i < was.inputs.size() && was.inputs[i].valid();
    if (is_there == was_there &&
        (!is_there || shares_[op.inputs[i]] == before_shares_[was.inputs[i]]))
      return;
    wrong(fmt::format("operand {} of op '{}' ({}) is not what it was before its sums were ordered",
                      i, op.name, op.kind));
  }

  void compare_results() {
    std::map<std::string_view, PlanValueId> results;
    for (const PlanValueId v : plan_.values.ids())
      if (plan_.values[v].is_output) results.emplace(plan_.values[v].name, v);
    for (const ir::ValueId id : before_.outputs()) {
      const auto found = results.find(before_.value(id).name);
      if (found == results.end() || shares_[found->second] != before_shares_[id])
        wrong(fmt::format("result '{}' is not what it was before its sums were ordered",
                          before_.value(id).name));
      if (found != results.end()) results.erase(found);
    }
    for (const auto& [name, v] : results)
      wrong(fmt::format("result '{}' was none before its sums were ordered", name));
  }

  const Facts facts_;
  const plan::Plan& plan_;
  const ir::Graph& before_;
  IdVector<PlanOpId, ir::OpId> op_of_;
  IdVector<ir::ValueId, Shares> before_shares_;
  IdVector<PlanValueId, Shares> shares_;
  std::vector<std::string> findings_;
};

}  // namespace

std::vector<std::string> verify_sums(const plan::Plan& plan, const ir::Graph& before) {
  return Sums(plan, before).run();
}

}  // namespace lowtide::verify
