// Running a plan. Everything that can fail or takes time happens in open(): checking the plan,
// making kernels, binding every operand of every step to its address (an op that runs again has one
// kernel, but reads and writes elsewhere). A step of the plan then is a bound kernel.
//
// An unplanned session runs the same kernels on one buffer per storage, made when its producer runs
// and given back after its last reader, ops in program order. It is what an eager framework with a
// caching allocator does, and the baseline that a plan is compared with.
#include "runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/bytes.h"
#include "base/check.h"
#include "plan/plan_check.h"
#include "runtime/buffers.h"
#include "runtime/contents.h"
#include "runtime/seeded.h"

namespace lowtide::runtime {

using plan::Plan;
using plan::PlanOp;
using plan::PlanOpId;
using plan::PlanStorage;
using plan::PlanStorageId;
using plan::PlanValue;
using plan::PlanValueId;

namespace {

constexpr int kPoison =
    0xFF;  // all ones is a NaN in every float type, and -1 in every integer type

constexpr int64_t kGuardBytes = 1 << 20;

// One run of an op with its operands bound, or a range that is free from here on.
struct BoundStep {
  PlanOpId op{};  // none: free
  std::vector<void*> inputs, outputs;
  void* workspace = nullptr;
  std::byte* freed = nullptr;
  int64_t bytes = 0;  // of the workspace, or freed
};

// Every value and workspace inside its storage and the arena: kernels write where they are told.
Status check_addresses(const Plan& plan) {
  auto inside = [&](int64_t address, int64_t bytes) {
    return address >= 0 && bytes >= 0 && address <= plan.arena_bytes &&
           bytes <= plan.arena_bytes - address;
  };
  auto check_place = [&](PlanStorageId s, int64_t address) -> Status {
    const PlanStorage& storage = plan.storages[s];
    if (inside(address, storage.bytes) && address % plan.alignment_bytes == 0) return {};
    return error(
        ErrorCode::kInput,
        fmt::format("storage of '{}' at {}..+{} does not fit an arena of {} bytes",
                    plan.values[storage.root].name, address, storage.bytes, plan.arena_bytes));
  };
  for (PlanStorageId s : plan.storages.ids())
    if (plan.storages[s].resident) LT_RETURN_IF_ERROR(check_place(s, plan.storages[s].address));
  for (const PlanValue& value : plan.values) {
    const int64_t bytes = plan::size_bytes(value.type), room = plan.storages[value.storage].bytes;
    if (value.offset_bytes < 0 || bytes > room || value.offset_bytes > room - bytes)
      return error(
          ErrorCode::kInput,
          fmt::format("value '{}' ({} bytes at offset {}) does not fit its storage of {} bytes",
                      value.name, bytes, value.offset_bytes, room));
  }
  for (const plan::Step& step : plan.steps) {
    if (step.kind != plan::Step::Kind::kCompute) continue;
    for (const plan::Placement& made : step.makes)
      LT_RETURN_IF_ERROR(check_place(made.storage, made.address));
    const PlanOp& op = plan.ops[step.op];
    if (op.workspace_bytes > 0 && !inside(step.workspace_address, op.workspace_bytes))
      return error(ErrorCode::kInput,
                   fmt::format("workspace of '{}' at {}..+{} lies outside the arena", op.name,
                               step.workspace_address, op.workspace_bytes));
  }
  return {};
}

Status check_moves_nothing(const Plan& plan) {
  for (const plan::Step& step : plan.steps)
    if (step.kind != plan::Step::Kind::kCompute && step.kind != plan::Step::Kind::kFree)
      return error(ErrorCode::kInput,
                   fmt::format("the plan moves '{}' to slow memory, which a session cannot do",
                               plan.values[plan.storages[step.storage].root].name));
  for (const PlanStorage& storage : plan.storages)
    if (storage.home_slow)
      return error(ErrorCode::kInput,
                   fmt::format("'{}' has its home in slow memory, which a session cannot reach",
                               plan.values[storage.root].name));
  return {};
}

bool only_views(const Plan& plan, const PlanOp& op) {
  return std::all_of(op.outputs.begin(), op.outputs.end(),
                     [&](PlanValueId v) { return plan.values[v].alias == plan::PlanAlias::kView; });
}

Result<std::unique_ptr<Kernel>> make_kernel(const Plan& plan, PlanOpId id,
                                            const KernelFactory& kernels) {
  const PlanOp& op = plan.ops[id];
  const plan::OpDesc desc = describe(plan, id);
  auto named = [&](const Error& e) {
    return error(e.code, fmt::format("op '{}': {}", op.name, e.message));
  };
  const Result<int64_t> workspace = kernels.workspace_bytes(desc);
  if (!workspace) return named(workspace.error());
  if (*workspace > op.workspace_bytes)
    return error(
        ErrorCode::kInput,
        fmt::format("op '{}' ({}): the kernel here needs {} bytes of workspace, the plan has {}",
                    op.name, op.kind, *workspace, op.workspace_bytes));
  Result<std::unique_ptr<Kernel>> kernel = kernels.make(desc);
  if (!kernel) return named(kernel.error());
  return kernel;
}

}  // namespace

struct Session::State {
  Plan plan;
  SessionOptions options;
  IdVector<PlanOpId, std::unique_ptr<Kernel>> kernels;  // null: all outputs are views
  std::vector<BoundStep> bound;                         // planned: one per step
  IdVector<PlanStorageId, std::byte*> at;  // where each storage is; of the last stay after a step
  std::map<std::string, PlanValueId, std::less<>> by_name;
  std::set<PlanValueId> given;  // fed inputs that have contents
  int64_t steps = 0;
  Arena arena;

  // Unplanned only: where the buffers come from, and the storages that die with each op.
  CachingPool pool{64};
  IdVector<PlanOpId, std::vector<PlanStorageId>> dies_after;

  ~State() {
    if (!options.unplanned) return;
    for (PlanStorageId s : at.ids())
      if (at[s] != nullptr) release(s);
  }

  std::byte* value_at(PlanValueId v) const {
    const PlanValue& value = plan.values[v];
    return at[value.storage] == nullptr ? nullptr : at[value.storage] + value.offset_bytes;
  }

  void poison(void* from, int64_t bytes) const {
    if (options.poison && bytes > 0) std::memset(from, kPoison, static_cast<size_t>(bytes));
  }

  Status acquire(PlanStorageId s) {
    at[s] = pool.take(plan.storages[s].bytes);
    if (at[s] != nullptr) return {};
    return error(ErrorCode::kInternal,
                 fmt::format("no memory for '{}' ({})", plan.values[plan.storages[s].root].name,
                             format_bytes(plan.storages[s].bytes)));
  }
  void release(PlanStorageId s) {
    poison(at[s], plan.storages[s].bytes);
    pool.give_back(at[s], plan.storages[s].bytes);
    at[s] = nullptr;
  }

  // The operands of `id` where they are now.
  void bind(PlanOpId id, BoundStep& step) const {
    const PlanOp& op = plan.ops[id];
    step.op = id;
    step.inputs.resize(op.inputs.size());
    step.outputs.resize(op.outputs.size());
    for (size_t i = 0; i < op.inputs.size(); ++i)
      step.inputs[i] = op.inputs[i].valid() ? value_at(op.inputs[i]) : nullptr;
    for (size_t i = 0; i < op.outputs.size(); ++i) step.outputs[i] = value_at(op.outputs[i]);
  }

  Status make_memory();
  Status bind_steps();
  Status check_inputs_made(PlanOpId id, const IdVector<PlanStorageId, bool>& made) const;
  void find_last_readers();
  Status check_inputs_given() const;
  void compute(const BoundStep& step, const Observer* observer);
  Status run_planned(const Observer* observer);
  Status run_unplanned(const Observer* observer);
};

Status Session::State::make_memory() {
  at = IdVector<PlanStorageId, std::byte*>(plan.storages.size(), nullptr);
  if (!options.unplanned) {
    LT_ASSIGN(arena, Arena::make(plan.arena_bytes, options.mark ? kGuardBytes : 0));
    if (options.mark) arena.mark();
    poison(arena.data(), plan.arena_bytes);
    for (PlanStorageId s : plan.storages.ids())
      if (plan.storages[s].resident) at[s] = arena.data() + plan.storages[s].address;
    return bind_steps();
  }
  pool = CachingPool(std::max<int64_t>(plan.alignment_bytes, 64));
  for (PlanStorageId s : plan.storages.ids())
    if (plan.storages[s].resident) LT_RETURN_IF_ERROR(acquire(s));
  find_last_readers();
  return {};
}

// Walks the steps and notes where everything is.
Status Session::State::bind_steps() {
  bound.reserve(plan.steps.size());
  IdVector<PlanStorageId, bool> made(plan.storages.size(), false);
  for (PlanStorageId s : plan.storages.ids()) made[s] = plan.storages[s].resident;
  for (const plan::Step& step : plan.steps) {
    BoundStep& to = bound.emplace_back();
    if (step.kind == plan::Step::Kind::kFree) {
      to.freed = at[step.storage];
      to.bytes = made[step.storage] ? plan.storages[step.storage].bytes : 0;
      continue;
    }
    LT_RETURN_IF_ERROR(check_inputs_made(step.op, made));
    for (const plan::Placement& place : step.makes) {
      at[place.storage] = arena.data() + place.address;
      made[place.storage] = true;
    }
    bind(step.op, to);
    to.bytes = plan.ops[step.op].workspace_bytes;
    if (to.bytes > 0) to.workspace = arena.data() + step.workspace_address;
  }
  return {};
}

Status Session::State::check_inputs_made(PlanOpId id,
                                         const IdVector<PlanStorageId, bool>& made) const {
  for (PlanValueId v : plan.ops[id].inputs)
    if (v.valid() && !made[plan.values[v].storage])
      return error(ErrorCode::kInput, fmt::format("op '{}' reads '{}' before it is made",
                                                  plan.ops[id].name, plan.values[v].name));
  return {};
}

// A storage dies after the last op that makes or reads one of its values, unless it is resident or
// holds a result.
void Session::State::find_last_readers() {
  IdVector<PlanStorageId, PlanOpId> last(plan.storages.size());
  IdVector<PlanStorageId, bool> stays(plan.storages.size(), false);
  for (PlanStorageId s : plan.storages.ids()) stays[s] = plan.storages[s].resident;
  for (const PlanValue& value : plan.values)
    if (value.is_output) stays[value.storage] = true;
  for (PlanOpId id : plan.ops.ids()) {
    for (PlanValueId v : plan.ops[id].inputs)
      if (v.valid()) last[plan.values[v].storage] = id;
    for (PlanValueId v : plan.ops[id].outputs) last[plan.values[v].storage] = id;
  }
  dies_after.resize(plan.ops.size());
  for (PlanStorageId s : plan.storages.ids())
    if (!stays[s] && last[s].valid()) dies_after[last[s]].push_back(s);
}

Status Session::State::check_inputs_given() const {
  for (PlanValueId v : plan.values.ids()) {
    const PlanValue& value = plan.values[v];
    if (value.producer.valid() || value.initial.kind != plan::PlanInitial::Kind::kFed ||
        given.contains(v))
      continue;
    return error(ErrorCode::kInput, fmt::format("input '{}' was not set", value.name));
  }
  return {};
}

void Session::State::compute(const BoundStep& step, const Observer* observer) {
  if (Kernel* kernel = kernels[step.op].get()) {
    KernelArgs args{.inputs = step.inputs,
                    .outputs = step.outputs,
                    .workspace = step.workspace,
                    .context = {.seed = options.seed, .step = steps + 1}};
    kernel->run(args);
  }
  if (observer == nullptr) return;
  const std::vector<PlanValueId>& outputs = plan.ops[step.op].outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    (*observer)(step.op, outputs[i],
                {static_cast<const std::byte*>(step.outputs[i]),
                 static_cast<size_t>(plan::size_bytes(plan.values[outputs[i]].type))});
}

Status Session::State::run_planned(const Observer* observer) {
  for (const BoundStep& step : bound) {
    if (!step.op.valid()) {
      poison(step.freed, step.bytes);
      continue;
    }
    compute(step, observer);
    poison(step.workspace, step.bytes);
  }
  return {};
}

Status Session::State::run_unplanned(const Observer* observer) {
  // Results of the last step make room first, as they do when a caller drops them before the next
  // one.
  for (PlanStorageId s : plan.storages.ids())
    if (!plan.storages[s].resident && at[s] != nullptr) release(s);
  BoundStep step;
  for (PlanOpId id : plan.ops.ids()) {
    const PlanOp& op = plan.ops[id];
    for (PlanValueId v : op.outputs)
      if (at[plan.values[v].storage] == nullptr)
        LT_RETURN_IF_ERROR(acquire(plan.values[v].storage));
    std::byte* workspace = nullptr;
    if (op.workspace_bytes > 0) {
      workspace = pool.take(op.workspace_bytes);
      if (workspace == nullptr)
        return error(ErrorCode::kInternal, fmt::format("no memory for the workspace of '{}' ({})",
                                                       op.name, format_bytes(op.workspace_bytes)));
    }
    bind(id, step);
    step.workspace = workspace;
    compute(step, observer);
    if (workspace != nullptr) pool.give_back(workspace, op.workspace_bytes);
    for (PlanStorageId s : dies_after[id]) release(s);
  }
  return {};
}

Result<Session> Session::open(Plan plan, const KernelFactory& kernels,
                              const SessionOptions& options) {
  LT_RETURN_IF_ERROR(plan::check(plan));
  LT_RETURN_IF_ERROR(check_moves_nothing(plan));
  LT_RETURN_IF_ERROR(check_addresses(plan));
  auto state = std::make_unique<State>();
  state->plan = std::move(plan);
  state->options = options;
  LT_RETURN_IF_ERROR(state->make_memory());
  const Plan& p = state->plan;
  state->kernels.resize(p.ops.size());
  for (PlanOpId id : p.ops.ids())
    if (!only_views(p, p.ops[id])) {
      LT_ASSIGN(state->kernels[id], make_kernel(p, id, kernels));
    }
  const InitialOptions initial{.seed = options.seed, .model_folder = options.model_folder};
  for (PlanValueId v : p.values.ids()) {
    state->by_name.emplace(p.values[v].name, v);
    if (!p.values[v].producer.valid())
      LT_RETURN_IF_ERROR(store_initial(p.values[v], initial, state->value_at(v)));
  }
  return Session(std::move(state));
}

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;
Session::~Session() = default;

const Plan& Session::plan() const {
  return state_->plan;
}

Status Session::set(std::string_view name, std::span<const std::byte> row_major) {
  const auto it = state_->by_name.find(name);
  if (it == state_->by_name.end())
    return error(ErrorCode::kUsage, fmt::format("the plan has no value '{}'", name));
  const PlanValue& value = state_->plan.values[it->second];
  if (value.producer.valid())
    return error(ErrorCode::kUsage,
                 fmt::format("value '{}' is computed; only values that are there before the step "
                             "can be set",
                             name));
  LT_RETURN_IF_ERROR(store_row_major(value, row_major, state_->value_at(it->second)));
  state_->given.insert(it->second);
  return {};
}

Result<std::vector<std::byte>> Session::get(std::string_view name) const {
  const auto it = state_->by_name.find(name);
  if (it == state_->by_name.end())
    return error(ErrorCode::kUsage, fmt::format("the plan has no value '{}'", name));
  const PlanValue& value = state_->plan.values[it->second];
  const PlanStorage& storage = state_->plan.storages[value.storage];
  if (!storage.resident && (!value.is_output || state_->steps == 0))
    return error(ErrorCode::kUsage,
                 fmt::format("value '{}' is not alive now: it is {}", name,
                             value.is_output ? "made by the first step"
                                             : "neither a result nor there before the step"));
  std::vector<std::byte> bytes(static_cast<size_t>(plan::size_bytes(value.type)));
  LT_RETURN_IF_ERROR(load_row_major(value, state_->value_at(it->second), bytes));
  return bytes;
}

void Session::seed_inputs(int64_t integer_limit) {
  for (PlanValueId v : state_->plan.values.ids()) {
    const PlanValue& value = state_->plan.values[v];
    const bool fed = !value.producer.valid() && value.initial.kind == plan::PlanInitial::Kind::kFed;
    if (!fed || state_->given.contains(v) || !value.type.layout.blocked.empty()) continue;
    const int64_t limit = integer_limit > 0 ? integer_limit : index_limit(state_->plan, v);
    std::vector<std::byte> bytes(static_cast<size_t>(plan::size_bytes(value.type)));
    fill_seeded(value.name, value.type, state_->options.seed, limit, bytes, SeedRole::kInput);
    if (store_row_major(value, bytes, state_->value_at(v))) state_->given.insert(v);
  }
}

Status Session::run(const Observer* observer) {
  LT_RETURN_IF_ERROR(state_->check_inputs_given());
  LT_RETURN_IF_ERROR(state_->options.unplanned ? state_->run_unplanned(observer)
                                               : state_->run_planned(observer));
  ++state_->steps;
  return {};
}

int64_t Session::steps_run() const {
  return state_->steps;
}

int64_t Session::touched_bytes() const {
  LT_CHECK(state_->options.mark && !state_->options.unplanned, "the session was not marked");
  return align_up(state_->arena.unmarked_bytes(), state_->plan.alignment_bytes);
}

int64_t Session::arena_bytes() const {
  return state_->options.unplanned ? state_->pool.high_water_bytes() : state_->arena.bytes();
}

}  // namespace lowtide::runtime
