#include "report/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/printable.h"
#include "report/modules.h"
#include "report/near_names.h"
#include "report/profile.h"
#include "report/what_if.h"

namespace lowtide::report {
namespace {

using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using plan::Step;

constexpr size_t kNearNames = 5;

tl::unexpected<Error> no_such(const char* flag, const char* what, const std::string& name,
                              const std::vector<std::string>& names) {
  std::vector<std::string> near = near_names(name, names, kNearNames);
  std::string line = fmt::format("{}: the plan has no {} '{}'", flag, what, printable(name));
  if (near.empty()) return error(ErrorCode::kUsage, line + "; no name in it is like that");
  for (std::string& one : near) one = "'" + printable(one) + "'";
  return error(ErrorCode::kUsage, line + fmt::format("; names like it: {}", fmt::join(near, ", ")));
}

const std::string& name_of(const plan::Plan& plan, PlanStorageId s) {
  return plan.values[plan.storages[s].root].name;
}

std::optional<size_t> step_of_peak(const plan::Plan& plan) {
  const MemoryProfile profile = profile_planned(plan);
  if (profile.plan_steps.empty()) return std::nullopt;
  return profile.plan_steps[profile.peak_step];
}

// What the peak would be without the steps left out; nothing where there are none.
std::optional<Worth> worth_of(const plan::Plan& plan, const std::vector<char>& left_out) {
  if (std::count(left_out.begin(), left_out.end(), 1) == 0) return std::nullopt;
  const auto peak = [&](const std::vector<char>& without) {
    const std::vector<int64_t> bytes = bytes_without(plan, without);
    return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  };
  // The replay frees what nobody needs any more, which a plan need not do.
  const int64_t more = peak(left_out) - peak(std::vector<char>(plan.steps.size(), 0));
  const int64_t planned = profile_planned(plan).peak_bytes;
  return Worth{.peak_bytes = planned, .peak_without_bytes = planned + more};
}

// Runs beyond the first of ops that `of_op` names, moves of storages that `of_storage` does.
template <class OfOp, class OfStorage>
std::vector<char> again_and_away(const plan::Plan& plan, const OfOp& of_op,
                                 const OfStorage& of_storage) {
  std::vector<char> steps(plan.steps.size(), 0);
  IdVector<PlanOpId, char> ran(plan.ops.size(), 0);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (step.kind == Step::Kind::kCompute)
      steps[i] = std::exchange(ran[step.op], 1) != 0 && !step.makes.empty() && of_op(step.op);
    else
      steps[i] = step.kind != Step::Kind::kFree && of_storage(step.storage);
  }
  return steps;
}

// ---- a tensor ----

// Steps at which something is done with the storage, ascending.
std::vector<size_t> touches_of(const plan::Plan& plan, PlanStorageId s) {
  const auto memory = plan::memory_of(plan);
  std::vector<size_t> touches;
  const auto is_of_it = [&](PlanValueId v) {
    if (!v.valid()) return false;
    const auto& in = memory[plan.values[v].storage];
    return std::find(in.begin(), in.end(), s) != in.end();
  };
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    bool touched = false;
    if (step.kind == Step::Kind::kCompute) {
      const plan::PlanOp& op = plan.ops[step.op];
      touched = !plan::only_views(plan, step.op) &&
                (std::any_of(op.inputs.begin(), op.inputs.end(), is_of_it) ||
                 std::any_of(op.outputs.begin(), op.outputs.end(), is_of_it));
    } else if (step.kind != Step::Kind::kFree) {
      touched = step.storage == s;
    }
    if (touched) touches.push_back(i);
  }
  return touches;
}

std::optional<Idle> longest_idle(const std::vector<size_t>& touches, const TensorStory& story,
                                 const Timeline& timeline) {
  std::optional<Idle> longest;
  for (size_t i = 1; i < touches.size(); ++i) {
    const bool one_stay =
        std::any_of(story.stays.begin(), story.stays.end(), [&](const StayStory& stay) {
          return stay.stay.begin <= touches[i - 1] && touches[i] < stay.stay.end;
        });
    const double seconds = timeline.steps[touches[i]].begin - timeline.steps[touches[i - 1]].end;
    if (one_stay && seconds > 0 && (!longest || seconds > longest->seconds))
      longest = Idle{touches[i - 1], touches[i], seconds};
  }
  return longest;
}

void add_stays(const plan::Plan& plan, PlanStorageId s, const Timeline& timeline,
               TensorStory& story) {
  const std::vector<Stay> stays = stays_of(plan);
  std::map<size_t, std::string> heirs;  // by giver
  for (const Stay& stay : stays)
    if (stay.took_over >= 0)
      heirs[static_cast<size_t>(stay.took_over)] = name_of(plan, stay.storage);
  for (size_t i = 0; i < stays.size(); ++i) {
    const Stay& stay = stays[i];
    if (stay.storage != s) continue;
    StayStory told{.stay = stay, .when = {}, .from = {}, .to = {}};
    if (stay.begin < stay.end)
      told.when = {timeline.steps[stay.begin].begin, timeline.steps[stay.end - 1].end};
    if (stay.took_over >= 0)
      told.from = name_of(plan, stays[static_cast<size_t>(stay.took_over)].storage);
    if (const auto heir = heirs.find(i); heir != heirs.end()) told.to = heir->second;
    story.stays.push_back(std::move(told));
  }
}

// The storage that a value of this name lies in, the value of a whole too.
std::optional<PlanStorageId> find_tensor(const plan::Plan& plan, const std::string& name) {
  for (PlanStorageId s : plan.storages.ids())
    if (name_of(plan, s) == name) return s;
  for (const plan::PlanValue& value : plan.values)
    if (value.name == name) return value.storage;
  return std::nullopt;
}

bool is_there(const TensorStory& story, std::optional<size_t> step) {
  return step && std::any_of(story.stays.begin(), story.stays.end(), [&](const StayStory& told) {
           return told.stay.begin <= *step && *step < told.stay.end;
         });
}

// Why a tensor stays: what it would bring, and cost, if it did not.
Away away_of(const plan::Plan& plan, PlanStorageId s, PlanOpId maker, const Idle& idle) {
  const std::vector<Stay> stays = stays_of(plan);
  const std::vector<int64_t> bytes = bytes_of(plan, stays);
  Away away{.seconds = plan.ops[maker].predicted_seconds};
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool is_away = idle.begin < i && i < idle.end;
    away.peak_bytes = std::max(away.peak_bytes, bytes[i]);
    away.peak_without_bytes =
        std::max(away.peak_without_bytes, bytes[i] - (is_away ? plan.storages[s].bytes : 0));
  }
  const auto memory = plan::memory_of(plan);
  std::set<PlanStorageId> there;
  for (const Stay& stay : stays)
    if (stay.begin <= idle.end && idle.end < stay.end) there.insert(stay.storage);
  std::set<PlanStorageId> told;
  for (const PlanValueId v : plan.ops[maker].inputs) {
    if (!v.valid()) continue;
    for (const PlanStorageId in : memory[plan.values[v].storage])
      if (!there.contains(in) && told.insert(in).second) away.missing.push_back(name_of(plan, in));
  }
  return away;
}

}  // namespace

Result<TensorStory> tensor_story(const plan::Plan& plan, const std::string& name) {
  const auto found = find_tensor(plan, name);
  if (!found) {
    std::vector<std::string> names;
    for (const plan::PlanValue& value : plan.values) names.push_back(value.name);
    return no_such("--tensor", "tensor", name, names);
  }
  const PlanStorageId s = *found;
  const plan::PlanStorage& storage = plan.storages[s];
  const plan::PlanValue& root = plan.values[storage.root];
  const Timeline timeline = timeline_of(plan);
  const auto uses = uses_of(plan, timeline);
  const StorageUse& use = uses[s];
  TensorStory story{.name = root.name, .asked = name, .shape = shape_of(root.type)};
  story.module = modules_of(plan)[s];
  story.category = lowtide::name(storage.category);
  story.bytes = storage.bytes;
  if (use.maker.valid()) {
    story.made_by = plan.ops[use.maker].name;
    story.made_by_kind = plan.ops[use.maker].kind;
    story.source = plan.ops[use.maker].source;
    story.make_seconds = plan.ops[use.maker].predicted_seconds;
  }
  for (PlanOpId op : use.readers) story.read_by.push_back(plan.ops[op].name);
  for (PlanStorageId piece : plan.storages.ids())
    if (uses[piece].whole == s) story.pieces.push_back(name_of(plan, piece));
  if (use.whole.valid()) story.whole = name_of(plan, use.whole);
  story.output = use.output;
  story.resident = storage.resident;
  story.policy = use.policy;
  story.reruns = use.reruns;
  story.stores = use.stores;
  story.loads = use.loads;
  story.paid_seconds = use.paid_seconds;
  add_stays(plan, s, timeline, story);
  if (const auto peak = step_of_peak(plan); is_there(story, peak)) {
    const MemoryProfile profile = profile_planned(plan);
    story.peak_step = peak;
    story.peak_run = profile.peak_step + 1;
    story.step_runs = profile.plan_steps.size();
  }
  story.idle = longest_idle(touches_of(plan, s), story, timeline);
  const bool is_kept = use.reruns + use.stores + use.loads == 0 && !storage.resident && !use.output;
  if (is_kept && story.idle && use.maker.valid())
    story.away = away_of(plan, s, use.maker, *story.idle);
  story.budget_bytes = plan.claims.budget_bytes;
  story.worth = worth_of(plan, again_and_away(
                                   plan, [&](PlanOpId op) { return op == use.maker; },
                                   [&](PlanStorageId moved) { return moved == s; }));
  return story;
}

Result<OpStory> op_story(const plan::Plan& plan, const std::string& name) {
  const auto ids = plan.ops.ids();
  const auto found =
      std::find_if(ids.begin(), ids.end(), [&](PlanOpId op) { return plan.ops[op].name == name; });
  if (found == ids.end()) {
    std::vector<std::string> names;
    for (const plan::PlanOp& op : plan.ops) names.push_back(op.name);
    return no_such("--op", "op", name, names);
  }
  const PlanOpId id = *found;
  const plan::PlanOp& op = plan.ops[id];
  OpStory story{.name = op.name, .kind = op.kind, .module = op.module, .source = op.source};
  story.phase = lowtide::name(op.phase);
  story.seconds = op.predicted_seconds;
  story.workspace_bytes = op.workspace_bytes;
  story.only_views = plan::only_views(plan, id);
  for (PlanValueId input : op.inputs)
    if (input.valid()) story.inputs.push_back(plan.values[input].name);
  for (PlanValueId output : op.outputs) story.outputs.push_back(plan.values[output].name);
  const Timeline timeline = timeline_of(plan);
  const std::vector<int64_t> bytes = bytes_of(plan, stays_of(plan));
  const std::vector<size_t> computing = profile_planned(plan).plan_steps;
  story.step_runs = computing.size();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    if (step.kind != Step::Kind::kCompute || step.op != id) continue;
    const auto at = std::lower_bound(computing.begin(), computing.end(), i);
    const bool counts = at != computing.end() && *at == i;
    story.runs.push_back({.step = i,
                          .number = counts ? size_t(at - computing.begin()) + 1 : 0,
                          .when = timeline.steps[i],
                          .bytes = bytes[i],
                          .workspace_address = step.workspace_address});
    for (const plan::Placement& made : step.makes) {
      if (!made.reuses.valid()) continue;
      const std::string pair =
          fmt::format("{} over {}", name_of(plan, made.storage), name_of(plan, made.reuses));
      if (std::find(story.took_over.begin(), story.took_over.end(), pair) == story.took_over.end())
        story.took_over.push_back(pair);
    }
  }
  story.worth = worth_of(plan, again_and_away(
                                   plan, [&](PlanOpId other) { return other == id; },
                                   [](PlanStorageId) { return false; }));
  return story;
}

namespace {

// "h.0" holds "h.0" and "h.0.attn", not "h.01".
bool holds(const std::string& module, const std::string& inner) {
  return inner.starts_with(module) &&
         (inner.size() == module.size() || module.empty() || inner[module.size()] == '.');
}

void add_tensors(const plan::Plan& plan, const IdVector<PlanStorageId, std::string>& modules,
                 ModuleStory& story) {
  const auto uses = uses_of(plan, timeline_of(plan));
  std::map<Policy, int64_t> policies;
  for (PlanStorageId s : plan.storages.ids()) {
    if (!holds(story.name, modules[s]) || plan.storages[s].bytes == 0) continue;
    ++story.tensors;
    story.bytes += plan.storages[s].bytes;
    if (!plan.storages[s].resident || uses[s].policy != Policy::kKept) ++policies[uses[s].policy];
  }
  story.policies.assign(policies.begin(), policies.end());
  const auto peak = step_of_peak(plan);
  for (const Stay& stay : stays_of(plan)) {
    if (!peak || *peak < stay.begin || *peak >= stay.end) continue;
    if (!holds(story.name, modules[stay.storage])) continue;
    story.at_peak.emplace_back(name_of(plan, stay.storage), plan.storages[stay.storage].bytes);
    story.bytes_at_peak += plan.storages[stay.storage].bytes;
  }
  std::stable_sort(story.at_peak.begin(), story.at_peak.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

void add_actions(const plan::Plan& plan, ModuleStory& story) {
  for (const ModuleActions& part : actions_of(plan).modules) {
    if (holds(story.name, part.module)) add(part, story.actions);
  }
}

}  // namespace

Result<ModuleStory> module_story(const plan::Plan& plan, const std::string& name) {
  const auto of_storage = modules_of(plan);
  std::vector<std::string> modules;
  for (const plan::PlanOp& op : plan.ops) modules.push_back(op.module);
  modules.insert(modules.end(), of_storage.begin(), of_storage.end());
  std::sort(modules.begin(), modules.end());
  modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
  ModuleStory story{.name = name};
  story.modules = std::count_if(modules.begin(), modules.end(),
                                [&](const std::string& module) { return holds(name, module); });
  if (story.modules == 0) return no_such("--module", "module", name, modules);
  for (const plan::PlanOp& op : plan.ops) {
    if (!holds(name, op.module)) continue;
    ++story.ops;
    story.seconds += op.predicted_seconds;
  }
  add_tensors(plan, of_storage, story);
  add_actions(plan, story);
  story.worth =
      worth_of(plan, again_and_away(
                         plan, [&](PlanOpId op) { return holds(name, plan.ops[op].module); },
                         [&](PlanStorageId s) { return holds(name, of_storage[s]); }));
  return story;
}

}  // namespace lowtide::report
