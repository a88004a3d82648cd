#include "verify/beside.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace lowtide::verify {
namespace {

using plan::PlanOpId;

bool same_contents(const plan::PlanInitial& now, const ir::InitialValue& was) {
  return static_cast<int>(now.kind) == static_cast<int>(was.kind) && now.bytes == was.bytes &&
         now.file == was.file && now.offset == was.offset && now.length == was.length;
}

// The ops of `wanted` that do not come before `op`. Ops have numbers in an order that is right, so
// nothing below the least of them is looked at.
std::set<PlanOpId> not_before(const plan::Plan& plan, PlanOpId op, std::set<PlanOpId> wanted) {
  const PlanOpId least = *wanted.begin();
  std::set<PlanOpId> seen;
  std::vector<PlanOpId> open{op};
  const auto visit = [&](PlanOpId before) {
    if (!before.valid() || before < least || !seen.insert(before).second) return;
    wanted.erase(before);
    open.push_back(before);
  };
  while (!open.empty() && !wanted.empty()) {
    const plan::PlanOp& at = plan.ops[open.back()];
    open.pop_back();
    for (const PlanOpId before : at.control) visit(before);
    for (const plan::PlanValueId input : at.inputs)
      if (input.valid()) visit(plan.values[input].producer);
  }
  return wanted;
}

}  // namespace

bool same_attr(const ir::AttrValue& a, const ir::AttrValue& b) {
  const auto *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x == nullptr || y == nullptr) return a == b;
  return *x == *y || (std::isnan(*x) && std::isnan(*y));
}

bool same_attrs(const ir::Attrs& a, const ir::Attrs& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && same_attr(x.second, y.second);
  });
}

std::string difference_of_given(const plan::Plan& plan, plan::PlanValueId value,
                                const ir::Value& was) {
  const plan::PlanValue& now = plan.values[value];
  if (now.type.dtype != was.dtype) return "its element type";
  if (!same_contents(now.initial, was.initial)) return "its initial contents";
  if (plan.storages[now.storage].category != was.category) return "its category";
  return {};
}

std::vector<std::pair<PlanOpId, PlanOpId>> lost_waits(
    const plan::Plan& plan, const std::vector<std::pair<PlanOpId, PlanOpId>>& waits) {
  std::map<PlanOpId, std::set<PlanOpId>> by_op;
  for (const auto& [waiting, before] : waits) {
    const auto& control = plan.ops[waiting].control;
    if (std::find(control.begin(), control.end(), before) == control.end())
      by_op[waiting].insert(before);
  }
  std::vector<std::pair<PlanOpId, PlanOpId>> lost;
  for (auto& [waiting, before] : by_op)
    for (const PlanOpId missing : not_before(plan, waiting, std::move(before)))
      lost.emplace_back(waiting, missing);
  return lost;
}

}  // namespace lowtide::verify
