// Running a plan. Everything that takes time happens in open(): checking the plan, making kernels,
// opening slow memory, binding every operand of every step to its address (bound_steps.h). A step
// of the plan then is a bound kernel, or the beginning or end of a copy that others make
// (copy_engine.h). Those can fail, and a kernel can refuse what it is given, before it runs. A step
// that ended so is the session's last, unless a kernel refused and nothing that stays had changed.
//
// An unplanned session runs the same kernels on one buffer per storage, made when its producer runs
// and given back after its last reader, ops in the given order. It is what an eager framework with
// a caching allocator does, and the baseline that a plan is compared with. Where the plan has a
// value made of pieces it copies them together.
#include "runtime/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/element.h"
#include "plan/plan_check.h"
#include "runtime/bound_steps.h"
#include "runtime/buffers.h"
#include "runtime/contents.h"
#include "runtime/lending.h"
#include "runtime/plan_kernels.h"
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

// All ones is a NaN in every float type, and -1 in every integer type.
constexpr int kPoison = 0xFF;

constexpr int64_t kGuardBytes = 1 << 20;

}  // namespace

struct Session::State {
  Plan plan;
  SessionOptions options;
  PlanKernels kernels;
  std::vector<BoundStep> steps;  // planned: one per step of the plan
  StoragePlaces at;              // where each storage is; of the last stay after a step
  std::map<std::string, PlanValueId, std::less<>> by_name;
  std::set<PlanValueId> given;  // fed inputs that have contents
  int64_t steps_run = 0, seed_set_after = 0;
  bool has_results = false;      // of the last step
  bool refused = false;          // a kernel did, in this step
  bool changed = false;          // what stays, in this step
  std::optional<Error> failure;  // of a step: there are no more
  Arena arena;
  std::optional<Transfers> transfers;  // planned only; copies into the arena, so ends before it
  TransferTotals moved;                // in the last step
  Lending lending;
  bool lent_anew = false;                                     // since steps were bound
  IdVector<PlanOpId, std::optional<UpdateSettings>> updates;  // in place of what was planned

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

  StepContext context_of(PlanOpId op) const {
    const std::optional<UpdateSettings>& update = updates[op];
    return {.seed = options.seed,
            .step = steps_run + 1,
            .seed_set_after = seed_set_after,
            .update = update ? &*update : nullptr};
  }

  void poison(void* from, int64_t bytes) const {
    if (options.poison && bytes > 0) std::memset(from, kPoison, static_cast<size_t>(bytes));
  }

  // Of a storage by itself: a whole has a buffer here, too.
  int64_t bytes_of(PlanStorageId s) const {
    const PlanValue& root = plan.values[plan.storages[s].root];
    return root.alias == plan::PlanAlias::kPieces ? plan::size_bytes(root.type)
                                                  : plan.storages[s].bytes;
  }

  Status acquire(PlanStorageId s) {
    at[s] = pool.take(bytes_of(s));
    if (at[s] != nullptr) return {};
    return error(ErrorCode::kInternal,
                 fmt::format("no memory for '{}' ({})", plan.values[plan.storages[s].root].name,
                             format_bytes(bytes_of(s))));
  }
  void release(PlanStorageId s) {
    poison(at[s], bytes_of(s));
    pool.give_back(at[s], bytes_of(s));
    at[s] = nullptr;
  }

  // Whether a value lies in slow memory between steps.
  bool in_slot(const PlanValue& value) const {
    return !options.unplanned && plan.storages[value.storage].home_slow;
  }

  Status make_memory();
  void find_last_readers();
  Status fill();
  template <class Write>
  Status put(PlanValueId v, const Write& write);
  Status check_inputs_given() const;
  bool changes_what_stays(PlanValueId output) const;
  Status compute(const BoundStep& step, const Observer* observer);
  Status bind_lent();
  Status run_steps(std::span<const BoundStep> part, const Observer* observer);
  Status run_planned(const Observer* observer);
  void begin_step();
  tl::unexpected<Error> ended(Error reason);
  Result<double> compute_aside(const BoundStep& step);
  std::set<PlanStorageId> changed_residents(std::span<const BoundStep> part) const;
  Status run_unplanned(const Observer* observer);
  void copy_together(const BoundStep& step);
};

Status Session::State::make_memory() {
  if (!options.unplanned) {
    LT_ASSIGN(lending, Lending::of(plan, options.lent));
    LT_ASSIGN(arena,
              Arena::make(plan.arena_bytes, options.mark ? kGuardBytes : 0, lending.holes(plan)));
    if (options.mark) arena.mark();
    if (lending.empty()) poison(arena.data(), plan.arena_bytes);
    LT_ASSIGN(BoundPlan bound, bind_steps(plan, arena.data()));
    steps = std::move(bound.steps);
    at = std::move(bound.places);
    for (PlanStorageId s : plan.storages.ids())
      if (lending.has(s)) at[s] = nullptr;
    LT_ASSIGN(transfers, Transfers::open(plan, options.slow_memory));
    if (options.poison)
      for (PlanStorageId s : plan.storages.ids())
        if (plan.storages[s].slow_tier >= 0) transfers->fill_slot(s, std::byte{kPoison});
    return {};
  }
  at = StoragePlaces(plan.storages.size(), nullptr);
  pool = CachingPool(std::max<int64_t>(plan.alignment_bytes, 64));
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

// Names and initial contents.
Status Session::State::fill() {
  const InitialOptions initial{.seed = options.seed, .model_folder = options.model_folder};
  for (PlanValueId v : plan.values.ids()) {
    const PlanValue& value = plan.values[v];
    by_name.emplace(value.name, v);
    if (value.producer.valid() || value.initial.kind == plan::PlanInitial::Kind::kFed ||
        lending.has(value.storage))
      continue;
    LT_RETURN_IF_ERROR(
        put(v, [&](std::byte* memory) { return store_initial(value, initial, memory); }));
  }
  return {};
}

// Lets `write` fill a value's memory, wherever that is between steps.
template <class Write>
Status Session::State::put(PlanValueId v, const Write& write) {
  const PlanValue& value = plan.values[v];
  if (!in_slot(value)) return write(value_at(v));
  std::vector<std::byte> bytes(static_cast<size_t>(plan::size_bytes(value.type)));
  LT_RETURN_IF_ERROR(write(bytes.data()));
  return transfers->write_slot(value.storage, value.offset_bytes, bytes);
}

Status Session::State::check_inputs_given() const {
  for (PlanValueId v : plan.values.ids()) {
    const PlanValue& value = plan.values[v];
    if (value.producer.valid() || value.initial.kind != plan::PlanInitial::Kind::kFed ||
        given.contains(v) || lending.has(value.storage))
      continue;
    return error(ErrorCode::kInput, fmt::format("input '{}' was not set", value.name));
  }
  return {};
}

bool Session::State::changes_what_stays(PlanValueId output) const {
  const PlanValue& value = plan.values[output];
  return value.alias == plan::PlanAlias::kUpdate && plan.storages[value.storage].resident;
}

Status Session::State::compute(const BoundStep& step, const Observer* observer) {
  const std::vector<PlanValueId>& outputs = plan.ops[step.op].outputs;
  if (Kernel* kernel = kernels[step.op].get()) {
    KernelArgs args{.inputs = step.inputs,
                    .outputs = step.outputs,
                    .workspace = step.memory,
                    .context = context_of(step.op)};
    if (Status accepted = check_contents(plan.ops[step.op], *kernel, args); !accepted) {
      refused = true;
      return accepted;
    }
    kernel->run(args);
    for (PlanValueId v : outputs) changed |= changes_what_stays(v);
  }
  if (observer == nullptr) return {};
  for (size_t i = 0; i < outputs.size(); ++i)
    (*observer)(step.op, outputs[i],
                {static_cast<const std::byte*>(step.outputs[i]),
                 static_cast<size_t>(plan::span_bytes(plan.values[outputs[i]].type))});
  return {};
}

// Where lent memory lies is known late and may change; addresses of the arena stay.
Status Session::State::bind_lent() {
  LT_RETURN_IF_ERROR(lending.check_all_there(plan));
  if (!lent_anew) return {};
  LT_ASSIGN(BoundPlan bound, bind_steps(plan, arena.data(), lending.homes()));
  steps = std::move(bound.steps);
  at = std::move(bound.places);
  lent_anew = false;
  return {};
}

Status Session::State::run_steps(std::span<const BoundStep> part, const Observer* observer) {
  for (const BoundStep& step : part) {
    switch (step.kind) {
      case plan::Step::Kind::kCompute:
        LT_RETURN_IF_ERROR(compute(step, observer));
        poison(step.memory, step.bytes);
        break;
      case plan::Step::Kind::kFree:
        poison(step.memory, step.bytes);
        break;
      case plan::Step::Kind::kStore:
        transfers->store(step.storage, step.memory);
        break;
      case plan::Step::Kind::kLoad:
        poison(step.memory, step.bytes);
        transfers->load(step.storage, step.memory);
        break;
      case plan::Step::Kind::kWait:
        LT_RETURN_IF_ERROR(transfers->wait(step.storage));
        break;
    }
  }
  return {};
}

// Nothing is under way any more when this is back, whatever became of the step.
Status Session::State::run_planned(const Observer* observer) {
  transfers->begin_step();
  Status status = run_steps(steps, observer);
  const Status ended = transfers->end_step();
  moved = transfers->totals();
  return status ? ended : status;
}

// What an op joins, one behind the other.
void Session::State::copy_together(const BoundStep& step) {
  auto* to = static_cast<std::byte*>(step.outputs[0]);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const auto bytes =
        static_cast<size_t>(plan::size_bytes(plan.values[plan.ops[step.op].inputs[i]].type));
    std::memcpy(to, step.inputs[i], bytes);
    to += bytes;
  }
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
    bind_operands(plan, id, at, step);
    step.memory = workspace;
    const bool joins =
        !op.outputs.empty() && plan.values[op.outputs[0]].alias == plan::PlanAlias::kPieces;
    if (joins) copy_together(step);
    const Status computed = compute(step, observer);
    if (workspace != nullptr) pool.give_back(workspace, op.workspace_bytes);
    LT_RETURN_IF_ERROR(computed);
    for (PlanStorageId s : dies_after[id]) release(s);
  }
  return {};
}

// What updates of residents the steps make.
std::set<PlanStorageId> Session::State::changed_residents(std::span<const BoundStep> part) const {
  std::set<PlanStorageId> found;
  for (const BoundStep& step : part) {
    if (step.kind != plan::Step::Kind::kCompute) continue;
    for (PlanValueId v : plan.ops[step.op].outputs)
      if (changes_what_stays(v)) found.insert(plan.values[v].storage);
  }
  return found;
}

// One op, with copies in place of the residents that it changes; the seconds that it took itself.
Result<double> Session::State::compute_aside(const BoundStep& step) {
  BoundStep aside = step;
  std::vector<std::vector<std::byte>> copies;
  const std::vector<PlanValueId>& outputs = plan.ops[step.op].outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!changes_what_stays(outputs[i])) continue;
    const auto* from = static_cast<const std::byte*>(step.outputs[i]);
    copies.emplace_back(from, from + plan::span_bytes(plan.values[outputs[i]].type));
    aside.outputs[i] = copies.back().data();
    std::replace(aside.inputs.begin(), aside.inputs.end(), step.outputs[i], aside.outputs[i]);
  }
  const auto start = Clock::now();
  LT_RETURN_IF_ERROR(compute(aside, nullptr));
  return seconds_since(start);
}

void Session::State::begin_step() {
  has_results = refused = changed = false;
}

// A step that came to no end, and why: the session's last, or as if it had not begun.
tl::unexpected<Error> Session::State::ended(Error reason) {
  const int64_t step = steps_run + 1;
  if (refused && !changed && plan.slow_tiers.empty())
    return error(reason.code,
                 fmt::format("step {} was refused, nothing has changed: {}", step, reason.message));
  failure = Error{reason.code, fmt::format("the session ended in step {}, which failed: {}; open "
                                           "it again",
                                           step, reason.message)};
  return error(reason.code, fmt::format("step {} failed: {}", step, reason.message));
}

Result<Session> Session::open(Plan plan, const KernelFactory& kernels,
                              const SessionOptions& options) {
  if (!options.lent.empty() && (options.mark || options.unplanned))
    return error(ErrorCode::kUsage, "values are lent to planned sessions without marks alone");
  LT_RETURN_IF_ERROR(plan::check(plan));
  LT_RETURN_IF_ERROR(check_addresses(plan));
  auto state = std::make_unique<State>();
  state->plan = std::move(plan);
  state->options = options;
  LT_RETURN_IF_ERROR(state->make_memory());
  state->updates.resize(state->plan.ops.size());
  LT_ASSIGN(state->kernels, make_kernels(state->plan, kernels));
  LT_RETURN_IF_ERROR(state->fill());
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
  if (state_->failure) return tl::unexpected<Error>(*state_->failure);
  LT_RETURN_IF_ERROR(state_->put(
      it->second, [&](std::byte* memory) { return store_row_major(value, row_major, memory); }));
  state_->given.insert(it->second);
  return {};
}

Result<std::vector<std::byte>> Session::get(std::string_view name) const {
  const auto it = state_->by_name.find(name);
  if (it == state_->by_name.end())
    return error(ErrorCode::kUsage, fmt::format("the plan has no value '{}'", name));
  const PlanValue& value = state_->plan.values[it->second];
  const PlanStorage& storage = state_->plan.storages[value.storage];
  if (!storage.resident && state_->failure) return tl::unexpected<Error>(*state_->failure);
  if (!storage.resident && (!value.is_output || !state_->has_results)) {
    const char* made = state_->steps_run == 0 ? "made by the first step" : "made by the next step";
    return error(
        ErrorCode::kUsage,
        fmt::format("value '{}' is not alive now: it is {}", name,
                    value.is_output ? made : "neither a result nor there before the step"));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(plan::size_bytes(value.type)));
  if (!state_->in_slot(value)) {
    LT_RETURN_IF_ERROR(load_row_major(value, state_->value_at(it->second), bytes));
    return bytes;
  }
  std::vector<std::byte> slot(static_cast<size_t>(plan::span_bytes(value.type)));
  LT_RETURN_IF_ERROR(state_->transfers->read_slot(value.storage, value.offset_bytes, slot));
  LT_RETURN_IF_ERROR(load_row_major(value, slot.data(), bytes));
  return bytes;
}

void Session::seed_inputs(int64_t integer_limit) {
  for (PlanValueId v : state_->plan.values.ids()) {
    const PlanValue& value = state_->plan.values[v];
    const bool fed = !value.producer.valid() && value.initial.kind == plan::PlanInitial::Kind::kFed;
    if (!fed || state_->given.contains(v) || !value.type.layout.blocked.empty()) continue;
    const int64_t limit = integer_limit > 0 ? integer_limit : value.initial.limit;
    std::vector<std::byte> bytes(static_cast<size_t>(plan::size_bytes(value.type)));
    fill_seeded(value.name, value.type, state_->options.seed, limit, bytes, SeedRole::kInput);
    const auto write = [&](std::byte* memory) { return store_row_major(value, bytes, memory); };
    if (state_->put(v, write)) state_->given.insert(v);
  }
}

Status Session::lend(std::string_view name, std::span<std::byte> memory) {
  const auto it = state_->by_name.find(name);
  if (it == state_->by_name.end())
    return error(ErrorCode::kUsage, fmt::format("the plan has no value '{}'", name));
  LT_RETURN_IF_ERROR(state_->lending.lend(state_->plan, it->second, memory));
  state_->at[state_->plan.values[it->second].storage] = memory.data();
  state_->lent_anew = true;
  return {};
}

Status Session::set_update(std::string_view name, const UpdateSettings& settings) {
  const Plan& p = state_->plan;
  const auto it = state_->by_name.find(name);
  bool found = false;
  for (PlanOpId id : p.ops.ids()) {
    if (it == state_->by_name.end() || p.ops[id].phase != Phase::kUpdate) continue;
    for (PlanValueId v : p.ops[id].outputs)
      if (p.values[v].storage == p.values[it->second].storage) {
        state_->updates[id] = settings;
        found = true;
      }
  }
  if (found) return {};
  return error(ErrorCode::kUsage, fmt::format("no update of the plan changes a value '{}'", name));
}

void Session::set_seed(uint64_t seed) {
  state_->options.seed = seed;
  state_->seed_set_after = state_->steps_run;
}

Status Session::run(const Observer* observer) {
  if (state_->failure) return tl::unexpected<Error>(*state_->failure);
  LT_RETURN_IF_ERROR(state_->check_inputs_given());
  LT_RETURN_IF_ERROR(state_->bind_lent());
  state_->begin_step();
  Status status =
      state_->options.unplanned ? state_->run_unplanned(observer) : state_->run_planned(observer);
  if (!status) return state_->ended(std::move(status.error()));
  state_->has_results = true;
  ++state_->steps_run;
  return {};
}

namespace {

Status check_whole_in_arena(const Plan& plan, bool unplanned) {
  if (plan.slow_tiers.empty() && !unplanned) return {};
  return error(ErrorCode::kUsage, "a step with moves to slow memory, or unplanned, runs as it is");
}

}  // namespace

Result<bool> Session::run_if_finite(std::string_view name) {
  State& s = *state_;
  if (s.failure) return tl::unexpected<Error>(*s.failure);
  LT_RETURN_IF_ERROR(check_whole_in_arena(s.plan, s.options.unplanned));
  LT_RETURN_IF_ERROR(s.check_inputs_given());
  LT_RETURN_IF_ERROR(s.bind_lent());
  const auto it = s.by_name.find(name);
  const bool there = it != s.by_name.end() && s.plan.values[it->second].producer.valid() &&
                     plan::element_count(s.plan.values[it->second].type) == 1 &&
                     is_float(s.plan.values[it->second].type.dtype);
  if (!there)
    return error(ErrorCode::kUsage, fmt::format("'{}' is no computed value of one number", name));
  const PlanValue& value = s.plan.values[it->second];
  const auto made = std::find_if(s.steps.begin(), s.steps.end(), [&](const BoundStep& step) {
    return step.kind == plan::Step::Kind::kCompute && step.op == value.producer;
  });
  LT_CHECK(made != s.steps.end(), "every op runs");
  const auto known = static_cast<size_t>(made - s.steps.begin()) + 1;
  const std::span<const BoundStep> all(s.steps);
  std::vector<std::pair<PlanStorageId, std::vector<std::byte>>> saved;
  for (PlanStorageId id : s.changed_residents(all.first(known)))
    saved.push_back(
        {id,
         {s.at[id], s.at[id] + plan::size_bytes(s.plan.values[s.plan.storages[id].root].type)}});
  const auto put_back = [&] {
    for (const auto& [id, bytes] : saved) std::memcpy(s.at[id], bytes.data(), bytes.size());
    s.changed = false;
  };
  s.begin_step();
  if (Status status = s.run_steps(all.first(known), nullptr); !status) {
    put_back();
    return s.ended(std::move(status.error()));
  }
  const auto& outputs = s.plan.ops[value.producer].outputs;
  const auto place = std::find(outputs.begin(), outputs.end(), it->second) - outputs.begin();
  if (!std::isfinite(read_real(value.type.dtype, made->outputs[static_cast<size_t>(place)]))) {
    put_back();
    return false;
  }
  if (Status status = s.run_steps(all.subspan(known), nullptr); !status)
    return s.ended(std::move(status.error()));
  s.has_results = true;
  ++s.steps_run;
  return true;
}

Result<double> Session::rehearse() {
  State& s = *state_;
  if (s.failure) return tl::unexpected<Error>(*s.failure);
  LT_RETURN_IF_ERROR(check_whole_in_arena(s.plan, s.options.unplanned));
  LT_RETURN_IF_ERROR(s.check_inputs_given());
  LT_RETURN_IF_ERROR(s.bind_lent());
  s.begin_step();  // results of the step before are overwritten, even by a part of this one
  double seconds = 0;
  for (const BoundStep& step : s.steps) {
    if (step.kind != plan::Step::Kind::kCompute) continue;
    LT_ASSIGN(const double own, s.compute_aside(step));
    seconds += own;
  }
  return seconds;
}

int64_t Session::steps_run() const {
  return state_->steps_run;
}

TransferTotals Session::transfers() const {
  return state_->moved;
}

int64_t Session::lent_bytes() const {
  return state_->lending.bytes(state_->plan);
}

int64_t Session::touched_bytes() const {
  LT_CHECK(state_->options.mark && !state_->options.unplanned, "the session was not marked");
  return align_up(state_->arena.unmarked_bytes(), state_->plan.alignment_bytes);
}

int64_t Session::arena_bytes() const {
  return state_->options.unplanned ? state_->pool.high_water_bytes() : state_->arena.bytes();
}

}  // namespace lowtide::runtime
