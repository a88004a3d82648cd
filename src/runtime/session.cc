// Running a plan. Everything that can fail or takes time happens in open(): checking the plan,
// making kernels, binding every operand to its address. A step then is a loop over bound kernels.
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

// An op with its kernel and operands bound. No kernel: all outputs are views, nothing to do.
struct BoundOp {
  std::unique_ptr<Kernel> kernel;
  std::vector<void*> inputs, outputs;
};

// Every value and workspace inside its storage and the arena: kernels write where they are told.
Status check_addresses(const Plan& plan) {
  auto inside = [&](int64_t address, int64_t bytes) {
    return address >= 0 && bytes >= 0 && address <= plan.arena_bytes &&
           bytes <= plan.arena_bytes - address;
  };
  for (PlanStorageId s : plan.storages.ids()) {
    const PlanStorage& storage = plan.storages[s];
    if (!inside(storage.address, storage.bytes) || storage.address % plan.alignment_bytes != 0)
      return error(ErrorCode::kInput,
                   fmt::format("storage of '{}' at {}..+{} does not fit an arena of {} bytes",
                               plan.values[storage.root].name, storage.address, storage.bytes,
                               plan.arena_bytes));
  }
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
    const PlanOp& op = plan.ops[step.op];
    if (op.workspace_bytes > 0 && !inside(step.workspace_address, op.workspace_bytes))
      return error(ErrorCode::kInput,
                   fmt::format("workspace of '{}' at {}..+{} lies outside the arena", op.name,
                               step.workspace_address, op.workspace_bytes));
  }
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
  IdVector<PlanOpId, BoundOp> ops;
  std::map<std::string, PlanValueId, std::less<>> by_name;
  std::set<PlanValueId> given;  // fed inputs that have contents
  int64_t steps = 0;
  Arena arena;

  // Unplanned only: the buffer of each storage that is alive, and the storages that die with each
  // op.
  CachingPool pool{64};
  IdVector<PlanStorageId, std::byte*> buffers;
  IdVector<PlanOpId, std::vector<PlanStorageId>> dies_after;

  ~State() {
    for (PlanStorageId s : buffers.ids())
      if (buffers[s] != nullptr) release(s);
  }

  std::byte* storage_at(PlanStorageId s) const {
    return options.unplanned ? buffers[s] : arena.data() + plan.storages[s].address;
  }
  std::byte* value_at(PlanValueId v) const {
    const PlanValue& value = plan.values[v];
    std::byte* storage = storage_at(value.storage);
    return storage == nullptr ? nullptr : storage + value.offset_bytes;
  }

  void poison(std::byte* at, int64_t bytes) const {
    if (options.poison && bytes > 0) std::memset(at, kPoison, static_cast<size_t>(bytes));
  }

  Status acquire(PlanStorageId s) {
    buffers[s] = pool.take(plan.storages[s].bytes);
    if (buffers[s] != nullptr) return {};
    return error(ErrorCode::kInternal,
                 fmt::format("no memory for '{}' ({})", plan.values[plan.storages[s].root].name,
                             format_bytes(plan.storages[s].bytes)));
  }
  void release(PlanStorageId s) {
    poison(buffers[s], plan.storages[s].bytes);
    pool.give_back(buffers[s], plan.storages[s].bytes);
    buffers[s] = nullptr;
  }

  void bind(PlanOpId id) {
    const PlanOp& op = plan.ops[id];
    BoundOp& bound = ops[id];
    for (size_t i = 0; i < op.inputs.size(); ++i)
      bound.inputs[i] = op.inputs[i].valid() ? value_at(op.inputs[i]) : nullptr;
    for (size_t i = 0; i < op.outputs.size(); ++i) bound.outputs[i] = value_at(op.outputs[i]);
  }

  Status make_memory();
  void find_last_readers();
  Status check_inputs_given() const;
  void compute(PlanOpId id, void* workspace, const Observer* observer);
  Status run_planned(const Observer* observer);
  Status run_unplanned(const Observer* observer);
};

Status Session::State::make_memory() {
  if (!options.unplanned) {
    LT_ASSIGN(arena, Arena::make(plan.arena_bytes, options.mark ? kGuardBytes : 0));
    if (options.mark) arena.mark();
    poison(arena.data(), plan.arena_bytes);
    return {};
  }
  pool = CachingPool(std::max<int64_t>(plan.alignment_bytes, 64));
  buffers = IdVector<PlanStorageId, std::byte*>(plan.storages.size(), nullptr);
  for (PlanStorageId s : plan.storages.ids())
    if (plan.storages[s].resident) LT_RETURN_IF_ERROR(acquire(s));
  find_last_readers();
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

void Session::State::compute(PlanOpId id, void* workspace, const Observer* observer) {
  BoundOp& op = ops[id];
  if (op.kernel != nullptr) {
    KernelArgs args{
        .inputs = op.inputs, .outputs = op.outputs, .workspace = workspace, .context = {}};
    args.context = {.seed = options.seed, .step = steps + 1};
    op.kernel->run(args);
  }
  if (observer == nullptr) return;
  for (PlanValueId v : plan.ops[id].outputs)
    (*observer)(id, v, {value_at(v), static_cast<size_t>(plan::size_bytes(plan.values[v].type))});
}

Status Session::State::run_planned(const Observer* observer) {
  for (const plan::Step& step : plan.steps) {
    if (step.kind == plan::Step::Kind::kFree) {
      poison(storage_at(step.storage), plan.storages[step.storage].bytes);
      continue;
    }
    const int64_t workspace_bytes = plan.ops[step.op].workspace_bytes;
    std::byte* workspace = workspace_bytes > 0 ? arena.data() + step.workspace_address : nullptr;
    compute(step.op, workspace, observer);
    poison(workspace, workspace_bytes);
  }
  return {};
}

Status Session::State::run_unplanned(const Observer* observer) {
  // Results of the last step make room first, as they do when a caller drops them before the next
  // one.
  for (PlanStorageId s : plan.storages.ids())
    if (!plan.storages[s].resident && buffers[s] != nullptr) release(s);
  for (PlanOpId id : plan.ops.ids()) {
    const PlanOp& op = plan.ops[id];
    for (PlanValueId v : op.outputs)
      if (buffers[plan.values[v].storage] == nullptr)
        LT_RETURN_IF_ERROR(acquire(plan.values[v].storage));
    std::byte* workspace = nullptr;
    if (op.workspace_bytes > 0) {
      workspace = pool.take(op.workspace_bytes);
      if (workspace == nullptr)
        return error(ErrorCode::kInternal, fmt::format("no memory for the workspace of '{}' ({})",
                                                       op.name, format_bytes(op.workspace_bytes)));
    }
    bind(id);
    compute(id, workspace, observer);
    if (workspace != nullptr) pool.give_back(workspace, op.workspace_bytes);
    for (PlanStorageId s : dies_after[id]) release(s);
  }
  return {};
}

Result<Session> Session::open(Plan plan, const KernelFactory& kernels,
                              const SessionOptions& options) {
  LT_RETURN_IF_ERROR(plan::check(plan));
  LT_RETURN_IF_ERROR(check_addresses(plan));
  auto state = std::make_unique<State>();
  state->plan = std::move(plan);
  state->options = options;
  LT_RETURN_IF_ERROR(state->make_memory());
  const Plan& p = state->plan;
  state->ops.resize(p.ops.size());
  for (PlanOpId id : p.ops.ids()) {
    BoundOp& bound = state->ops[id];
    if (!only_views(p, p.ops[id])) {
      LT_ASSIGN(bound.kernel, make_kernel(p, id, kernels));
    }
    bound.inputs.resize(p.ops[id].inputs.size());
    bound.outputs.resize(p.ops[id].outputs.size());
    if (!options.unplanned) state->bind(id);
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
