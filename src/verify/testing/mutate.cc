#include "verify/testing/mutate.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "plan/tick_scale.h"
#include "verify/testing/definition.h"
#include "verify/verify.h"

namespace lowtide::verify {
namespace {

using plan::Plan;
using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;
using plan::Step;

// Ids may also come out one past the end: a plan from a stranger may name what does not exist.
template <class IdType, class Items>
IdType any_id(const Items& items, Rng& rng) {
  return IdType(rng.below(items.size() + (rng.below(20) == 0 ? 1 : 0)));
}

template <class IdType, class T>
T* any(IdVector<IdType, T>& items, Rng& rng) {
  return items.empty() ? nullptr : &items[IdType(rng.below(items.size()))];
}
template <class T>
T* any(std::vector<T>& items, Rng& rng) {
  return items.empty() ? nullptr : &items[rng.below(items.size())];
}

// A number near the given one, or far from it.
int64_t other_number(int64_t number, Rng& rng) {
  constexpr std::array<int64_t, 8> kSteps = {1, -1, 64, -64, 128, -128, 4, -4};
  switch (rng.below(5)) {
    case 0:
      return 0;
    case 1:
      return number * 2;
    case 2:
      return -number;
    default:
      return number + kSteps[rng.below(kSteps.size())];
  }
}

template <class Enum>
Enum other_word(int count, Rng& rng) {
  return static_cast<Enum>(rng.below(static_cast<uint64_t>(count)));
}

// ---- steps

void swap_steps(Plan& p, Rng& rng) {
  if (p.steps.size() > 1) std::swap(*any(p.steps, rng), *any(p.steps, rng));
}
void swap_neighbours(Plan& p, Rng& rng) {
  if (p.steps.size() < 2) return;
  const size_t i = rng.below(p.steps.size() - 1);
  std::swap(p.steps[i], p.steps[i + 1]);
}
void move_step(Plan& p, Rng& rng) {
  if (p.steps.empty()) return;
  const size_t from = rng.below(p.steps.size());
  const Step step = p.steps[from];
  p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(from));
  p.steps.insert(p.steps.begin() + static_cast<std::ptrdiff_t>(rng.below(p.steps.size() + 1)),
                 step);
}
void drop_step(Plan& p, Rng& rng) {
  if (!p.steps.empty())
    p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(rng.below(p.steps.size())));
}
void repeat_step(Plan& p, Rng& rng) {
  if (p.steps.empty()) return;
  const Step step = *any(p.steps, rng);
  p.steps.insert(p.steps.begin() + static_cast<std::ptrdiff_t>(rng.below(p.steps.size() + 1)),
                 step);
}
void free_another(Plan& p, Rng& rng) {
  Step* step = any(p.steps, rng);
  if (step != nullptr && step->kind == Step::Kind::kFree)
    step->storage = any_id<PlanStorageId>(p.storages, rng);
}
void add_free(Plan& p, Rng& rng) {
  Step step;
  step.kind = Step::Kind::kFree;
  step.storage = any_id<PlanStorageId>(p.storages, rng);
  p.steps.insert(p.steps.begin() + static_cast<std::ptrdiff_t>(rng.below(p.steps.size() + 1)),
                 step);
}
void move_workspace(Plan& p, Rng& rng) {
  Step* step = any(p.steps, rng);
  if (step != nullptr && step->kind == Step::Kind::kCompute)
    step->workspace_address = other_number(step->workspace_address, rng);
}

void move_load(Plan& p, Rng& rng) {
  Step* step = any(p.steps, rng);
  if (step != nullptr && step->kind == Step::Kind::kLoad)
    step->address = other_number(step->address, rng);
}
void change_step_kind(Plan& p, Rng& rng) {
  Step* step = any(p.steps, rng);
  if (step != nullptr && step->kind != Step::Kind::kCompute)
    step->kind = static_cast<Step::Kind>(1 + rng.below(4));
}
void move_another(Plan& p, Rng& rng) {
  Step* step = any(p.steps, rng);
  if (step != nullptr && step->kind != Step::Kind::kCompute)
    step->storage = any_id<PlanStorageId>(p.storages, rng);
}
void insert_step(Plan& p, size_t at, const Step& step) {
  p.steps.insert(p.steps.begin() + static_cast<std::ptrdiff_t>(at), step);
}
// A transfer and its wait, both anywhere.
void add_transfer(Plan& p, Rng& rng) {
  if (p.storages.empty()) return;
  Step step{.storage = PlanStorageId(rng.below(p.storages.size()))};
  step.kind = rng.below(2) ? Step::Kind::kStore : Step::Kind::kLoad;
  const size_t at = rng.below(p.steps.size() + 1);
  insert_step(p, at, step);
  step.kind = Step::Kind::kWait;
  insert_step(p, at + 1 + rng.below(p.steps.size() - at), step);
}
// Free and make again right after it: right where the inputs are still there and the op may rerun.
void rerun_at_once(Plan& p, Rng& rng) {
  if (p.steps.empty()) return;
  const size_t at = rng.below(p.steps.size());
  const Step again = p.steps[at];
  if (again.kind != Step::Kind::kCompute) return;
  insert_step(p, at + 1, again);
  for (plan::Placement& made : p.steps[at + 1].makes) made.reuses = PlanStorageId::none();
  for (const plan::Placement& made : again.makes)
    insert_step(p, at + 1, {.kind = Step::Kind::kFree, .storage = made.storage});
  if (rng.below(2))  // and the time that this takes
    p.claims.predicted_seconds += p.ops[again.op].predicted_seconds;
  if (rng.below(2)) p.claims.order_proven = false;
}

// ---- storages

void move_storage(Plan& p, Rng& rng) {
  if (auto* s = any(p.storages, rng))
    s->address = rng.below(2) ? any(p.storages, rng)->address : other_number(s->address, rng);
}
// One of the places that the steps give to what they make.
plan::Placement* any_placement(Plan& p, Rng& rng) {
  size_t count = 0;
  for (const Step& step : p.steps) count += step.makes.size();
  size_t chosen = count == 0 ? 0 : rng.below(count);
  for (Step& step : p.steps) {
    if (chosen < step.makes.size()) return &step.makes[chosen];
    chosen -= step.makes.size();
  }
  return nullptr;
}
void move_placement(Plan& p, Rng& rng) {
  if (auto* place = any_placement(p, rng))
    place->address =
        rng.below(2) ? any_placement(p, rng)->address : other_number(place->address, rng);
}
void drop_placement(Plan& p, Rng& rng) {
  Step* step = any(p.steps, rng);
  if (step != nullptr && !step->makes.empty()) step->makes.pop_back();
}
void resize_storage(Plan& p, Rng& rng) {
  if (auto* s = any(p.storages, rng)) s->bytes = other_number(s->bytes, rng);
}
void change_category(Plan& p, Rng& rng) {
  if (auto* s = any(p.storages, rng)) s->category = other_word<Category>(kCategories, rng);
}
void flip_resident(Plan& p, Rng& rng) {
  if (auto* s = any(p.storages, rng)) s->resident = !s->resident;
}
void change_reuse(Plan& p, Rng& rng) {
  if (auto* place = any_placement(p, rng)) place->reuses = any_id<PlanStorageId>(p.storages, rng);
}
// At the same address, as a planner with a wrong table would.
void claim_reuse_in_place(Plan& p, Rng& rng) {
  auto *heir = any_placement(p, rng), *from = any_placement(p, rng);
  if (heir == nullptr || heir->reuses.valid()) return;
  heir->reuses = from->storage;
  heir->address = from->address;
}
void drop_reuse(Plan& p, Rng& rng) {
  if (auto* place = any_placement(p, rng)) place->reuses = PlanStorageId::none();
}
void move_slot(Plan& p, Rng& rng) {
  if (auto* s = any(p.storages, rng))
    s->slow_address =
        rng.below(2) ? any(p.storages, rng)->slow_address : other_number(s->slow_address, rng);
}
void change_tier(Plan& p, Rng& rng) {
  if (auto* s = any(p.storages, rng)) s->slow_tier = static_cast<int32_t>(rng.between(-1, 1));
}
void flip_home(Plan& p, Rng& rng) {
  if (auto* s = any(p.storages, rng)) s->home_slow = !s->home_slow;
}
void change_slow_tier(Plan& p, Rng& rng) {
  auto* tier = any(p.slow_tiers, rng);
  if (tier == nullptr) return;
  if (rng.below(2))
    tier->bytes = other_number(tier->bytes, rng);
  else
    tier->bytes_per_second_in *= 1 + rng.uniform();
}
void change_root(Plan& p, Rng& rng) {
  if (auto* s = any(p.storages, rng)) s->root = any_id<PlanValueId>(p.values, rng);
}

// ---- values

void change_offset(Plan& p, Rng& rng) {
  if (auto* v = any(p.values, rng)) v->offset_bytes = other_number(v->offset_bytes, rng);
}
void change_alias(Plan& p, Rng& rng) {
  if (auto* v = any(p.values, rng)) v->alias = other_word<plan::PlanAlias>(3, rng);
}
void change_dims(Plan& p, Rng& rng) {
  auto* v = any(p.values, rng);
  if (v == nullptr || v->type.dims.empty()) return;
  if (rng.below(4) == 0)
    v->type.dims.pop_back();
  else if (rng.below(3) == 0)
    std::swap(v->type.dims.front(), v->type.dims.back());
  else
    *any(v->type.dims, rng) += rng.between(-1, 1);
}
void change_dtype(Plan& p, Rng& rng) {
  if (auto* v = any(p.values, rng)) v->type.dtype = other_word<DType>(8, rng);
}
void change_layout(Plan& p, Rng& rng) {
  auto* v = any(p.values, rng);
  if (v == nullptr || v->type.dims.size() < 2) return;
  v->type.layout.order.clear();
  for (size_t d = v->type.dims.size(); d-- > 0;)
    v->type.layout.order.push_back(static_cast<uint8_t>(d));
}
void change_strides(Plan& p, Rng& rng) {
  std::vector<PlanValueId> strided;
  for (PlanValueId v : p.values.ids())
    if (p.values[v].type.layout.strided()) strided.push_back(v);
  if (strided.empty()) return;
  std::vector<int64_t>& strides = p.values[*any(strided, rng)].type.layout.strides;
  if (rng.below(3) == 0)
    std::swap(strides.front(), strides.back());
  else
    *any(strides, rng) += rng.between(-1, 1);
}
void change_base(Plan& p, Rng& rng) {
  auto* v = any(p.values, rng);
  if (v != nullptr && v->base.valid()) v->base = any_id<PlanValueId>(p.values, rng);
}
void change_storage(Plan& p, Rng& rng) {
  if (auto* v = any(p.values, rng)) v->storage = any_id<PlanStorageId>(p.storages, rng);
}
void change_producer(Plan& p, Rng& rng) {
  if (auto* v = any(p.values, rng)) v->producer = any_id<PlanOpId>(p.ops, rng);
}
void flip_output(Plan& p, Rng& rng) {
  if (auto* v = any(p.values, rng)) v->is_output = !v->is_output;
}
void change_contents(Plan& p, Rng& rng) {
  auto* v = any(p.values, rng);
  if (v == nullptr || v->producer.valid()) return;
  v->initial.kind = other_word<plan::PlanInitial::Kind>(5, rng);
  if (rng.below(2)) v->initial.bytes.push_back('x');
  if (rng.below(2)) v->initial.length = other_number(v->initial.length, rng);
}

// ---- ops

void rewire_input(Plan& p, Rng& rng) {
  auto* op = any(p.ops, rng);
  if (op != nullptr && !op->inputs.empty())
    *any(op->inputs, rng) = any_id<PlanValueId>(p.values, rng);
}
void swap_inputs(Plan& p, Rng& rng) {
  auto* op = any(p.ops, rng);
  if (op != nullptr && !op->inputs.empty()) std::swap(*any(op->inputs, rng), *any(op->inputs, rng));
}
// An update overwrites another value of the type, as it would the copy of a parameter that a pass
// put before it. What shows the new version lies there then, too.
void update_another(Plan& p, Rng& rng) {
  if (p.values.empty()) return;
  const PlanValueId first(rng.below(p.values.size()));
  for (size_t i = 0; i < p.values.size(); ++i) {
    plan::PlanValue& updated = p.values[PlanValueId((first.index() + i) % p.values.size())];
    if (updated.alias != plan::PlanAlias::kUpdate) continue;
    const PlanValueId target(rng.below(p.values.size()));
    const plan::PlanValue& other = p.values[target];
    if (other.type != p.values[updated.base].type) continue;
    if (other.producer.valid() && !(other.producer < updated.producer)) continue;
    auto& inputs = p.ops[updated.producer].inputs;
    *std::find(inputs.begin(), inputs.end(), updated.base) = target;
    updated.base = target;
    updated.offset_bytes = other.offset_bytes;
    for (plan::PlanValue& value : p.values)  // bases come first
      if (value.base.valid()) value.storage = p.values[value.base].storage;
    return;
  }
}
void drop_input(Plan& p, Rng& rng) {
  auto* op = any(p.ops, rng);
  if (op == nullptr || op->inputs.empty()) return;
  if (rng.below(2))
    op->inputs.pop_back();
  else
    *any(op->inputs, rng) = PlanValueId::none();
}
void swap_outputs(Plan& p, Rng& rng) {
  auto* op = any(p.ops, rng);
  if (op != nullptr && op->outputs.size() > 1) std::swap(op->outputs.front(), op->outputs.back());
}
void change_kind(Plan& p, Rng& rng) {
  if (auto* op = any(p.ops, rng)) op->kind = rng.below(4) == 0 ? "Nothing" : any(p.ops, rng)->kind;
}
void change_attr(Plan& p, Rng& rng) {
  auto* op = any(p.ops, rng);
  if (op == nullptr || op->attrs.empty()) return;
  auto entry = op->attrs.begin();
  std::advance(entry, static_cast<std::ptrdiff_t>(rng.below(op->attrs.size())));
  if (rng.below(4) == 0) {
    op->attrs.erase(entry);
  } else if (auto* number = std::get_if<int64_t>(&entry->second)) {
    *number = other_number(*number, rng);
  } else if (auto* real = std::get_if<double>(&entry->second)) {
    *real *= 0.5;
  } else if (auto* word = std::get_if<std::string>(&entry->second)) {
    *word += "x";
  } else if (auto& list = std::get<std::vector<int64_t>>(entry->second); !list.empty()) {
    *any(list, rng) += rng.between(-1, 1);
  }
}
void add_control(Plan& p, Rng& rng) {
  if (auto* op = any(p.ops, rng)) op->control.push_back(any_id<PlanOpId>(p.ops, rng));
}
void drop_control(Plan& p, Rng& rng) {
  auto* op = any(p.ops, rng);
  if (op != nullptr && !op->control.empty()) op->control.pop_back();
}
void change_workspace(Plan& p, Rng& rng) {
  if (auto* op = any(p.ops, rng)) op->workspace_bytes = other_number(op->workspace_bytes, rng);
}
void change_seconds(Plan& p, Rng& rng) {
  if (auto* op = any(p.ops, rng)) op->predicted_seconds *= rng.below(2) ? 1 + 1e-15 : 1.5;
}
void change_phase(Plan& p, Rng& rng) {
  if (auto* op = any(p.ops, rng)) op->phase = other_word<Phase>(3, rng);
}
void change_name(Plan& p, Rng& rng) {
  auto* op = any(p.ops, rng);
  if (op != nullptr) op->name = rng.below(2) ? op->name + "x" : any(p.ops, rng)->name;
}

// ---- claims

void change_claim(Plan& p, Rng& rng) {
  plan::Claims& claims = p.claims;
  switch (rng.below(15)) {
    case 8:
      claims.once_seconds *= 1 + 1e-6;
      break;
    case 9:
      claims.exposed_seconds += claims.predicted_seconds * 1e-6;
      break;
    case 10:
      claims.lower_bound_seconds *= rng.below(2) ? 1 + 1e-6 : 1 - 1e-6;
      break;
    case 11:
      claims.budget_bytes = p.arena_bytes + rng.between(-1, 1);
      break;
    case 12:
      claims.floor_bytes = claims.peak_bytes - rng.between(0, 4) * 64;
      break;
    case 13:
      claims.lower_bound_seconds = claims.predicted_seconds;
      break;
    case 14:
      claims.lower_bound_ticks += rng.below(2) ? 1 : -1;
      claims.lower_bound_seconds =
          std::min(claims.predicted_seconds,
                   plan::TickScale(p).bound_seconds(claims.lower_bound_ticks, claims.once_seconds,
                                                    !p.slow_tiers.empty()));
      break;
    case 0:
      claims.peak_bytes = other_number(claims.peak_bytes, rng);
      break;
    case 1:
      claims.peak_before_bytes = other_number(claims.peak_before_bytes, rng);
      break;
    case 2:
      claims.lower_bound_bytes = other_number(claims.lower_bound_bytes, rng);
      break;
    case 3:
      claims.order_proven = !claims.order_proven;
      break;
    case 4:
      claims.predicted_seconds *= 1 + 1e-6;
      break;
    case 5:  // called optimal
      claims.lower_bound_bytes = claims.peak_bytes;
      claims.order_proven = true;
      break;
    case 6:  // the same without evidence
      claims.lower_bound_bytes = claims.peak_bytes;
      claims.order_proven = true;
      claims.certificate.peak.reset();
      break;
    default:
      claims.lower_bound_bytes = claims.peak_bytes;
      break;
  }
}
void change_floor(Plan& p, Rng& rng) {
  plan::Claims& claims = p.claims;
  if (rng.below(3) == 0) {
    claims.floor_bytes = claims.floor_bytes.value_or(claims.peak_bytes) + rng.between(-1, 1);
    return;
  }
  claims.floor_bytes = claims.peak_bytes - rng.between(0, 4) * 64;
  claims.certificate.floor = {any_id<PlanOpId>(p.ops, rng), rng.between(0, 2) * 64};
}
void change_parts_floor(Plan& p, Rng& rng) {
  plan::PartsFloor& floor =
      p.claims.parts_floor ? *p.claims.parts_floor : p.claims.parts_floor.emplace();
  const int64_t result = 64 * rng.between(0, 8), parts = int64_t{1} << rng.between(0, 4);
  if (rng.below(2) == 0) {
    std::vector<std::string> names = {p.ops.empty() ? "" : any(p.ops, rng)->name};
    for (const plan::PlanOp& op : p.ops)
      if (op.kind == "MatMul") names.push_back(op.name);
    floor = {result + 64 * rng.between(0, 4), names[rng.below(names.size())], parts,
             result / parts};
  }
  if (rng.below(4) == 0) floor.part_bytes += rng.between(-1, 1) * (floor.part_bytes > 0);
  if (rng.below(4) == 0) floor.parts = 1 + rng.between(0, 3);
  if (rng.below(4) == 0) floor.bytes += rng.between(0, 1);
}
void change_certificate(Plan& p, Rng& rng) {
  if (!p.claims.certificate.peak) return;
  plan::PeakCut& certificate = *p.claims.certificate.peak;
  std::vector<PlanOpId>& prefix = certificate.prefix;
  const PlanOpId op = any_id<PlanOpId>(p.ops, rng);
  const auto place = std::lower_bound(prefix.begin(), prefix.end(), op);
  switch (rng.below(4)) {
    case 0:
      certificate.op = op;
      break;
    case 1:
      certificate.value_bytes = other_number(certificate.value_bytes, rng);
      break;
    case 2:
      p.claims.certificate.peak.reset();
      break;
    default:
      if (place != prefix.end() && *place == op)
        prefix.erase(place);
      else
        prefix.insert(place, op);
  }
}
void change_arena(Plan& p, Rng& rng) {
  p.arena_bytes = other_number(p.arena_bytes, rng);
}
void change_binding(Plan& p, Rng& rng) {
  p.bindings["n"] = rng.between(-1, 2);
}
void change_alignment(Plan& p, Rng& rng) {
  p.alignment_bytes = rng.below(2) ? p.alignment_bytes * 2 : other_number(p.alignment_bytes, rng);
}

struct Mutation {
  std::string_view name;
  void (*apply)(Plan&, Rng&);
};

constexpr auto kMutations = std::to_array<Mutation>({
    {"swap_steps", swap_steps},
    {"swap_neighbours", swap_neighbours},
    {"move_step", move_step},
    {"drop_step", drop_step},
    {"repeat_step", repeat_step},
    {"free_another", free_another},
    {"add_free", add_free},
    {"move_workspace", move_workspace},
    {"move_load", move_load},
    {"change_step_kind", change_step_kind},
    {"move_another", move_another},
    {"add_transfer", add_transfer},
    {"rerun_at_once", rerun_at_once},
    {"move_slot", move_slot},
    {"change_tier", change_tier},
    {"flip_home", flip_home},
    {"change_slow_tier", change_slow_tier},
    {"move_storage", move_storage},
    {"move_placement", move_placement},
    {"drop_placement", drop_placement},
    {"resize_storage", resize_storage},
    {"change_category", change_category},
    {"flip_resident", flip_resident},
    {"change_reuse", change_reuse},
    {"claim_reuse_in_place", claim_reuse_in_place},
    {"drop_reuse", drop_reuse},
    {"change_root", change_root},
    {"change_offset", change_offset},
    {"change_alias", change_alias},
    {"change_dims", change_dims},
    {"change_dtype", change_dtype},
    {"change_layout", change_layout},
    {"change_strides", change_strides},
    {"change_base", change_base},
    {"change_storage", change_storage},
    {"change_producer", change_producer},
    {"flip_output", flip_output},
    {"change_contents", change_contents},
    {"rewire_input", rewire_input},
    {"swap_inputs", swap_inputs},
    {"drop_input", drop_input},
    {"swap_outputs", swap_outputs},
    {"update_another", update_another},
    {"change_kind", change_kind},
    {"change_attr", change_attr},
    {"add_control", add_control},
    {"drop_control", drop_control},
    {"change_workspace", change_workspace},
    {"change_seconds", change_seconds},
    {"change_phase", change_phase},
    {"change_name", change_name},
    {"change_claim", change_claim},
    {"change_floor", change_floor},
    {"change_parts_floor", change_parts_floor},
    {"change_certificate", change_certificate},
    {"change_arena", change_arena},
    {"change_binding", change_binding},
    {"change_alignment", change_alignment},
});

}  // namespace

plan::Plan mutate(const plan::Plan& plan, Rng& rng, std::string* what) {
  constexpr int kTries = 1000;
  plan::Plan changed = plan;
  for (int i = 0; i < kTries && changed == plan; ++i) {
    const Mutation& mutation = kMutations[rng.below(kMutations.size())];
    mutation.apply(changed, rng);
    if (what != nullptr) *what = mutation.name;
  }
  return changed;
}

Agreement compare_on_mutations(const plan::Plan& plan, int count, uint64_t first_seed) {
  Agreement agreement;
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(i);
    Rng rng(seed);
    std::string what, why;
    const plan::Plan changed = mutate(plan, rng, &what);
    const bool valid = valid_by_definition(changed, &why, &plan);
    const Report report = verify(changed);
    if (valid != report.ok()) {
      agreement.disagreements.push_back(
          fmt::format("seed {}, {}: the definition says '{}', the verifier '{}'", seed, what,
                      valid ? "valid" : why, report.ok() ? "ok" : report.findings[0].message));
      continue;
    }
    ++(valid ? agreement.valid : agreement.wrong);
  }
  return agreement;
}

std::vector<std::string_view> mutation_names() {
  std::vector<std::string_view> names;
  for (const Mutation& mutation : kMutations) names.push_back(mutation.name);
  return names;
}

}  // namespace lowtide::verify
