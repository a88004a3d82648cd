#include "report/data/plan_columns.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "report/modules.h"

namespace lowtide::report {
namespace {

using OrderedJson = nlohmann::ordered_json;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using plan::Step;

template <class Tag>
int64_t number(Id<Tag> id) {
  return id.valid() ? int64_t{id.index()} : -1;
}

// Each storage once, by its first operand.
OrderedJson tensors_of(const plan::Plan& plan, const std::vector<PlanValueId>& values) {
  std::vector<int64_t> tensors;
  for (PlanValueId value : values) {
    if (!value.valid()) continue;
    const int64_t tensor = number(plan.values[value].storage);
    if (std::find(tensors.begin(), tensors.end(), tensor) == tensors.end())
      tensors.push_back(tensor);
  }
  return tensors;
}

OrderedJson ops_data(const PlanView& view, WordList kinds, WordList sources) {
  OrderedJson json;
  for (PlanOpId id : view.plan.ops.ids()) {
    const plan::PlanOp& op = view.plan.ops[id];
    json["name"].push_back(op.name);
    json["kind"].push_back(kinds.number_of(op.kind));
    json["module"].push_back(view.module_of_op[id]);
    json["source"].push_back(sources.number_of(op.source));
    json["phase"].push_back(static_cast<int>(op.phase));
    json["seconds"].push_back(op.predicted_seconds);
    json["workspace_bytes"].push_back(op.workspace_bytes);
    json["inputs"].push_back(tensors_of(view.plan, op.inputs));
    json["outputs"].push_back(tensors_of(view.plan, op.outputs));
    json["view"].push_back(plan::only_views(view.plan, id) ? 1 : 0);
  }
  return json;
}

OrderedJson tensors_data(const PlanView& view) {
  OrderedJson json;
  for (PlanStorageId s : view.plan.storages.ids()) {
    const plan::PlanStorage& storage = view.plan.storages[s];
    const plan::PlanValue& root = view.plan.values[storage.root];
    const StorageUse& use = view.uses[s];
    OrderedJson aliases = OrderedJson::array();
    for (PlanValueId alias : use.aliases) aliases.push_back(view.plan.values[alias].name);
    json["name"].push_back(root.name);
    json["aliases"].push_back(std::move(aliases));
    json["shape"].push_back(shape_of(root.type));
    json["module"].push_back(view.module_of_storage[s]);
    json["category"].push_back(static_cast<int>(storage.category));
    json["bytes"].push_back(storage.bytes);
    json["made_by"].push_back(number(use.maker));
    json["resident"].push_back(storage.resident ? 1 : 0);
    json["output"].push_back(use.output ? 1 : 0);
    json["slow_tier"].push_back(storage.slow_tier);
    json["whole"].push_back(number(use.whole));
    json["policy"].push_back(static_cast<int>(use.policy));
  }
  return json;
}

OrderedJson steps_data(const PlanView& view) {
  OrderedJson json;
  IdVector<PlanOpId, int64_t> runs(view.plan.ops.size(), 0);
  for (size_t i = 0; i < view.plan.steps.size(); ++i) {
    const Step& step = view.plan.steps[i];
    const bool computes = step.kind == Step::Kind::kCompute;
    const bool works = computes && view.plan.ops[step.op].workspace_bytes > 0;
    json["kind"].push_back(static_cast<int>(step.kind));
    json["op"].push_back(computes ? number(step.op) : -1);
    json["tensor"].push_back(computes ? -1 : number(step.storage));
    json["begin"].push_back(view.timeline.steps[i].begin);
    json["end"].push_back(view.timeline.steps[i].end);
    json["run"].push_back(computes ? runs[step.op]++ : -1);
    json["bytes"].push_back(view.step_bytes[i]);
    json["workspace_address"].push_back(works ? step.workspace_address : -1);
  }
  return json;
}

OrderedJson stays_data(const PlanView& view) {
  OrderedJson json;
  for (const Stay& stay : view.stays) {
    json["tensor"].push_back(number(stay.storage));
    json["address"].push_back(stay.address);
    json["begin"].push_back(stay.begin);
    json["end"].push_back(stay.end);
    json["took_over"].push_back(stay.took_over);
    json["why"].push_back(static_cast<int>(stay.why));
  }
  return json;
}

OrderedJson transfers_data(const PlanView& view) {
  OrderedJson json;
  for (const Transfer& transfer : view.timeline.transfers) {
    const bool waits = transfer.wait_step < view.plan.steps.size();
    json["tensor"].push_back(number(transfer.storage));
    json["out"].push_back(transfer.out ? 1 : 0);
    json["tier"].push_back(view.plan.storages[transfer.storage].slow_tier);
    json["begin"].push_back(transfer.when.begin);
    json["end"].push_back(transfer.when.end);
    json["begin_step"].push_back(transfer.begin_step);
    json["wait_step"].push_back(waits ? static_cast<int64_t>(transfer.wait_step) : -1);
    json["waited_seconds"].push_back(transfer.waited_seconds);
  }
  return json;
}

// What nothing was added to is an empty list all the same.
OrderedJson with_columns(OrderedJson json, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!json.contains(name)) json[name] = OrderedJson::array();
  return json;
}

}  // namespace

int64_t WordList::number_of(const std::string& word) {
  const auto [found, is_new] = numbers_.emplace(word, static_cast<int64_t>(words_.size()));
  if (is_new) words_.push_back(word);
  return found->second;
}

PlanView::PlanView(const plan::Plan& of)
    : plan(of),
      timeline(timeline_of(of)),
      stays(stays_of(of)),
      step_bytes(bytes_of(of, stays)),
      planned(profile_planned(of)),
      given(profile_as_given(of)),
      uses(uses_of(of, timeline)),
      actions(actions_of(of)) {
  modules.number_of("");
  sources.number_of("");
  for (const plan::PlanOp& op : of.ops) {
    module_of_op.push_back(modules.number_of(op.module));
    kinds.number_of(op.kind);
    sources.number_of(op.source);
  }
  for (const std::string& module : modules_of(of))
    module_of_storage.push_back(modules.number_of(module));
}

void add_columns(OrderedJson& json, const PlanView& view) {
  for (int c = 0; c < kCategories; ++c)
    json["categories"].push_back(name(static_cast<Category>(c)));
  json["modules"] = view.modules.words();
  json["kinds"] = view.kinds.words();
  json["sources"] = view.sources.words();
  for (Phase phase : {Phase::kForward, Phase::kBackward, Phase::kUpdate})
    json["phases"].push_back(name(phase));
  for (int p = 0; p < kPolicies; ++p) json["policies"].push_back(name(static_cast<Policy>(p)));
  json["ops"] = with_columns(ops_data(view, view.kinds, view.sources),
                             {"name", "kind", "module", "source", "phase", "seconds",
                              "workspace_bytes", "inputs", "outputs", "view"});
  json["tensors"] = with_columns(
      tensors_data(view), {"name", "aliases", "shape", "module", "category", "bytes", "made_by",
                           "resident", "output", "slow_tier", "whole", "policy"});
  json["steps"] = with_columns(steps_data(view), {"kind", "op", "tensor", "begin", "end", "run",
                                                  "bytes", "workspace_address"});
  json["stays"] =
      with_columns(stays_data(view), {"tensor", "address", "begin", "end", "took_over", "why"});
  json["transfers"] = with_columns(
      transfers_data(view),
      {"tensor", "out", "tier", "begin", "end", "begin_step", "wait_step", "waited_seconds"});
  json["tiers"] = OrderedJson::array();
  for (const plan::SlowTier& tier : view.plan.slow_tiers) json["tiers"].push_back(tier.name);
}

}  // namespace lowtide::report
