#include "runtime/bound_steps.h"

#include <fmt/format.h>

#include <utility>

namespace lowtide::runtime {

using plan::Plan;
using plan::PlanOp;
using plan::PlanOpId;
using plan::PlanStorage;
using plan::PlanStorageId;
using plan::PlanValue;
using plan::PlanValueId;
using Kind = plan::Step::Kind;

namespace {

bool inside(const Plan& plan, int64_t address, int64_t bytes) {
  return address >= 0 && bytes >= 0 && address <= plan.arena_bytes &&
         bytes <= plan.arena_bytes - address;
}

Status check_place(const Plan& plan, PlanStorageId s, int64_t address) {
  const PlanStorage& storage = plan.storages[s];
  if (inside(plan, address, storage.bytes) && address % plan.alignment_bytes == 0) return {};
  return error(
      ErrorCode::kInput,
      fmt::format("storage of '{}' at {}..+{} does not fit an arena of {} bytes",
                  plan.values[storage.root].name, address, storage.bytes, plan.arena_bytes));
}

Status check_step(const Plan& plan, const plan::Step& step) {
  if (step.kind == Kind::kLoad) return check_place(plan, step.storage, step.address);
  if (step.kind != Kind::kCompute) return {};
  for (const plan::Placement& made : step.makes)
    LT_RETURN_IF_ERROR(check_place(plan, made.storage, made.address));
  const PlanOp& op = plan.ops[step.op];
  if (op.workspace_bytes == 0 || inside(plan, step.workspace_address, op.workspace_bytes))
    return {};
  return error(ErrorCode::kInput, fmt::format("workspace of '{}' at {}..+{} lies outside the arena",
                                              op.name, step.workspace_address, op.workspace_bytes));
}

bool in_arena_between_steps(const PlanStorage& storage) {
  return storage.resident && !storage.home_slow;
}

// Walks the steps and notes where everything is, and what of it is on its way.
class Binder {
 public:
  Binder(const Plan& plan, std::byte* arena, const StoragePlaces& homes)
      : plan_(plan),
        pieces_(plan::pieces_of(plan)),
        arena_(arena),
        states_(plan.storages.size(), State::kAbsent) {
    bound_.places = StoragePlaces(plan.storages.size(), nullptr);
    for (PlanStorageId s : plan.storages.ids()) {
      if (!in_arena_between_steps(plan.storages[s])) continue;
      const bool away = !homes.empty() && homes[s] != nullptr;
      bound_.places[s] = away ? homes[s] : arena + plan.storages[s].address;
      states_[s] = State::kThere;
    }
  }

  Result<BoundPlan> run() {
    bound_.steps.reserve(plan_.steps.size());
    for (const plan::Step& step : plan_.steps) {
      BoundStep& to = bound_.steps.emplace_back();
      to.kind = step.kind;
      LT_RETURN_IF_ERROR(step.kind == Kind::kCompute ? compute(step, to) : move(step, to));
    }
    for (const PlanValue& value : plan_.values)  // where the step leaves its results
      if (value.is_output && value.producer.valid())
        LT_RETURN_IF_ERROR(find_whole(value.producer, value.storage));
    return std::move(bound_);
  }

 private:
  // Of a storage that was freed, kThere remains: reading it is for the verifier, and for poison, to
  // notice.
  enum class State : uint8_t { kAbsent, kThere, kLeaving, kArriving };

  std::string_view name_of(PlanStorageId s) const {
    return plan_.values[plan_.storages[s].root].name;
  }

  // Whether an op may read (and, with `write`, change) the storage.
  Status check_use(PlanOpId op, PlanValueId v, bool write) const {
    const PlanStorageId s = plan_.values[v].storage;
    State state = states_[s];
    for (const plan::PlanPiece& piece : pieces_[s]) {
      state = states_[piece.storage];
      if (state != State::kThere && state != State::kLeaving) break;
    }
    if (state == State::kThere || (state == State::kLeaving && !write)) return {};
    const char* when = state == State::kAbsent     ? "before it is made"
                       : state == State::kArriving ? "before it has arrived"
                                                   : "while it is being stored";
    return error(ErrorCode::kInput,
                 fmt::format("op '{}' {} '{}' {}", plan_.ops[op].name, write ? "changes" : "reads",
                             plan_.values[v].name, when));
  }

  // Where a whole is: where its first piece is, and the others at their distances.
  Status find_whole(PlanOpId op, PlanStorageId s) {
    if (pieces_[s].empty()) return {};
    bound_.places[s] = bound_.places[pieces_[s][0].storage];
    if (bound_.places[s] == nullptr)
      return error(ErrorCode::kInput, fmt::format("op '{}' sees '{}' before its pieces are made",
                                                  plan_.ops[op].name, name_of(s)));
    for (const plan::PlanPiece& piece : pieces_[s])
      if (bound_.places[piece.storage] != bound_.places[s] + piece.offset_bytes)
        return error(ErrorCode::kInput,
                     fmt::format("op '{}' sees '{}', whose piece '{}' lies elsewhere",
                                 plan_.ops[op].name, name_of(s), name_of(piece.storage)));
    return {};
  }

  Status compute(const plan::Step& step, BoundStep& to) {
    const PlanOp& op = plan_.ops[step.op];
    for (PlanValueId v : op.inputs) {
      if (!v.valid()) continue;
      LT_RETURN_IF_ERROR(check_use(step.op, v, false));
      LT_RETURN_IF_ERROR(find_whole(step.op, plan_.values[v].storage));
    }
    for (PlanValueId v : op.outputs)
      LT_RETURN_IF_ERROR(find_whole(step.op, plan_.values[v].storage));
    for (PlanValueId v : op.outputs)
      if (plan_.values[v].alias == plan::PlanAlias::kUpdate)
        LT_RETURN_IF_ERROR(check_use(step.op, v, true));
    for (const plan::Placement& place : step.makes) {
      for (PlanStorageId s : {place.storage, place.reuses})
        if (s.valid()) LT_RETURN_IF_ERROR(check_still(s, "taken over"));
      bound_.places[place.storage] = arena_ + place.address;
      states_[place.storage] = State::kThere;
    }
    to.op = step.op;
    bind_operands(plan_, step.op, bound_.places, to);
    to.bytes = op.workspace_bytes;
    if (to.bytes > 0) to.memory = arena_ + step.workspace_address;
    return {};
  }

  Status move(const plan::Step& step, BoundStep& to) {
    const PlanStorageId s = step.storage;
    State& state = states_[s];
    switch (step.kind) {
      case Kind::kCompute:
        break;
      case Kind::kFree:
        LT_RETURN_IF_ERROR(check_still(s, "freed"));
        break;
      case Kind::kStore:
        LT_RETURN_IF_ERROR(check_still(s, "stored"));
        if (state == State::kAbsent) return bad(s, "stored before it is made");
        state = State::kLeaving;
        break;
      case Kind::kLoad:
        LT_RETURN_IF_ERROR(check_still(s, "loaded"));
        bound_.places[s] = arena_ + step.address;
        state = State::kArriving;
        break;
      case Kind::kWait:
        if (!moving(s)) return bad(s, "waited for and not under way");
        state = State::kThere;
        break;
    }
    to.storage = s;
    to.memory = bound_.places[s];
    to.bytes = to.memory == nullptr ? 0 : plan_.storages[s].bytes;
    return {};
  }

  bool moving(PlanStorageId s) const {
    return states_[s] == State::kLeaving || states_[s] == State::kArriving;
  }
  Status check_still(PlanStorageId s, std::string_view what) const {
    if (moving(s)) return bad(s, fmt::format("{} while a transfer of it is under way", what));
    return {};
  }
  tl::unexpected<Error> bad(PlanStorageId s, std::string_view what) const {
    return error(ErrorCode::kInput,
                 fmt::format("step {}: '{}' is {}", bound_.steps.size() - 1, name_of(s), what));
  }

  const Plan& plan_;
  const IdVector<PlanStorageId, std::vector<plan::PlanPiece>> pieces_;
  std::byte* arena_;
  IdVector<PlanStorageId, State> states_;
  BoundPlan bound_;
};

}  // namespace

Status check_addresses(const Plan& plan) {
  for (PlanStorageId s : plan.storages.ids())
    if (in_arena_between_steps(plan.storages[s]))
      LT_RETURN_IF_ERROR(check_place(plan, s, plan.storages[s].address));
  for (const PlanValue& value : plan.values) {
    const PlanStorage& storage = plan.storages[value.storage];
    const PlanValue& root = plan.values[storage.root];
    const int64_t bytes = plan::span_bytes(value.type);
    const int64_t room =
        root.alias == plan::PlanAlias::kPieces ? plan::size_bytes(root.type) : storage.bytes;
    if (value.offset_bytes < 0 || bytes > room || value.offset_bytes > room - bytes)
      return error(
          ErrorCode::kInput,
          fmt::format("value '{}' ({} bytes at offset {}) does not fit its storage of {} bytes",
                      value.name, bytes, value.offset_bytes, room));
  }
  for (const plan::Step& step : plan.steps) LT_RETURN_IF_ERROR(check_step(plan, step));
  return {};
}

Result<BoundPlan> bind_steps(const Plan& plan, std::byte* arena, const StoragePlaces& homes) {
  return Binder(plan, arena, homes).run();
}

void bind_operands(const Plan& plan, PlanOpId id, const StoragePlaces& places, BoundStep& step) {
  const auto place = [&](PlanValueId v) -> void* {
    if (!v.valid()) return nullptr;
    const PlanValue& value = plan.values[v];
    std::byte* storage = places[value.storage];
    return storage == nullptr ? nullptr : storage + value.offset_bytes;
  };
  const PlanOp& op = plan.ops[id];
  step.op = id;
  step.inputs.resize(op.inputs.size());
  step.outputs.resize(op.outputs.size());
  for (size_t i = 0; i < op.inputs.size(); ++i) step.inputs[i] = place(op.inputs[i]);
  for (size_t i = 0; i < op.outputs.size(); ++i) step.outputs[i] = place(op.outputs[i]);
}

}  // namespace lowtide::runtime
