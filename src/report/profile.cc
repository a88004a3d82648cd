#include "report/profile.h"

#include <algorithm>
#include <span>
#include <vector>

#include "report/modules.h"

namespace lowtide::report {
namespace {

using plan::PlanOpId;
using plan::PlanStorageId;

// Which storages occupy memory of their own at a moment. A storage that took over a buffer occupies
// it in its giver's place.
class LiveSet {
 public:
  explicit LiveSet(const plan::Plan& plan) : plan_(plan), live_(plan.storages.size(), 0) {
    for (PlanStorageId s : plan.storages.ids())
      if (plan.storages[s].resident && !plan.storages[s].home_slow) add(s);
  }

  void add(PlanStorageId s) {
    if (live_[s]) return;
    live_[s] = 1;
    count(s, plan_.storages[s].bytes);
  }
  void remove(PlanStorageId s) {
    if (!live_[s]) return;
    live_[s] = 0;
    count(s, -plan_.storages[s].bytes);
  }
  int64_t bytes() const { return bytes_; }
  const CategoryBytes& by_category() const { return by_category_; }
  const IdVector<PlanStorageId, char>& live() const { return live_; }

 private:
  void count(PlanStorageId s, int64_t bytes) {
    bytes_ += bytes;
    by_category_[static_cast<size_t>(plan_.storages[s].category)] += bytes;
  }

  const plan::Plan& plan_;
  IdVector<PlanStorageId, char> live_;
  int64_t bytes_ = 0;
  CategoryBytes by_category_{};
};

class Profiler {
 public:
  explicit Profiler(const plan::Plan& plan) : plan_(plan), live_(plan) {}

  LiveSet& live() { return live_; }
  void note_plan_step(size_t step) { profile_.plan_steps.push_back(step); }

  // The outputs of the op exist from here on; heirs take their givers' place at once.
  void compute(PlanOpId op, std::span<const plan::Placement> makes) {
    for (const plan::Placement& made : makes) {
      if (made.reuses.valid()) live_.remove(made.reuses);
      live_.add(made.storage);
    }
    const int64_t bytes = live_.bytes() + plan_.ops[op].workspace_bytes;
    if (profile_.step_bytes.empty() || bytes > profile_.peak_bytes) {
      profile_.peak_bytes = bytes;
      profile_.peak_step = profile_.step_bytes.size();
      profile_.peak_op = op;
      peak_live_ = live_.live();
    }
    profile_.step_bytes.push_back(bytes);
    profile_.step_ops.push_back(op);
    profile_.step_categories.push_back(live_.by_category());
    profile_.step_categories.back()[static_cast<size_t>(Category::kWorkspace)] +=
        plan_.ops[op].workspace_bytes;
  }

  MemoryProfile finish() {
    if (!profile_.peak_op.valid()) {
      peak_live_ = live_.live();
      profile_.peak_bytes = live_.bytes();
    } else {
      profile_.by_category[static_cast<size_t>(Category::kWorkspace)] +=
          plan_.ops[profile_.peak_op].workspace_bytes;
    }
    const auto modules = modules_of(plan_);
    for (PlanStorageId s : plan_.storages.ids())
      if (peak_live_[s]) describe(s, modules[s]);
    std::sort(profile_.tensors.begin(), profile_.tensors.end(),
              [](const TensorAtPeak& a, const TensorAtPeak& b) {
                return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
              });
    return std::move(profile_);
  }

 private:
  void describe(PlanStorageId s, const std::string& module) {
    const plan::PlanStorage& storage = plan_.storages[s];
    const plan::PlanValue& root = plan_.values[storage.root];
    profile_.by_category[static_cast<size_t>(storage.category)] += storage.bytes;
    profile_.tensors.push_back({root.name, module, storage.category, storage.bytes});
  }

  const plan::Plan& plan_;
  LiveSet live_;
  IdVector<PlanStorageId, char> peak_live_;
  MemoryProfile profile_;
};

bool makes_memory(const plan::Plan& plan, PlanOpId op) {
  const auto& outputs = plan.ops[op].outputs;
  return outputs.empty() ||
         std::any_of(outputs.begin(), outputs.end(), [&](plan::PlanValueId output) {
           return !plan::is_view(plan.values[output].alias);
         });
}

}  // namespace

MemoryProfile profile_planned(const plan::Plan& plan) {
  Profiler profiler(plan);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const plan::Step& step = plan.steps[i];
    if (step.kind == plan::Step::Kind::kFree)
      profiler.live().remove(step.storage);
    else if (step.kind == plan::Step::Kind::kLoad)
      profiler.live().add(step.storage);
    if (step.kind != plan::Step::Kind::kCompute || !makes_memory(plan, step.op)) continue;
    profiler.compute(step.op, step.makes);
    profiler.note_plan_step(i);
  }
  return profiler.finish();
}

MemoryProfile profile_as_given(const plan::Plan& plan) {
  const auto memory = plan::memory_of(plan);
  IdVector<PlanStorageId, PlanOpId> last(plan.storages.size());
  for (PlanOpId op : plan.ops.ids()) {
    if (!makes_memory(plan, op)) continue;
    for (plan::PlanValueId input : plan.ops[op].inputs)
      if (input.valid())
        for (PlanStorageId s : memory[plan.values[input].storage]) last[s] = op;
    for (plan::PlanValueId output : plan.ops[op].outputs) last[plan.values[output].storage] = op;
  }
  for (plan::PlanValueId v : plan.values.ids())
    if (plan.values[v].is_output)
      for (PlanStorageId s : memory[plan.values[v].storage]) last[s] = PlanOpId::none();
  IdVector<PlanOpId, std::vector<PlanStorageId>> dies(plan.ops.size());
  for (PlanStorageId s : plan.storages.ids())
    if (last[s].valid() && !plan.storages[s].resident) dies[last[s]].push_back(s);
  Profiler profiler(plan);
  for (PlanStorageId s : plan.storages.ids())
    if (plan.storages[s].resident) profiler.live().add(s);
  for (PlanOpId op : plan.ops.ids()) {
    if (!makes_memory(plan, op)) continue;
    std::vector<plan::Placement> makes;
    for (plan::PlanValueId output : plan.ops[op].outputs)
      if (plan.values[output].alias == plan::PlanAlias::kOwn)
        makes.push_back({.storage = plan.values[output].storage});
    profiler.compute(op, makes);
    for (PlanStorageId s : dies[op]) profiler.live().remove(s);
  }
  return profiler.finish();
}

}  // namespace lowtide::report
