// Runs the steps on paper: what is alive, who reads what, what every step holds. The only state is
// what a person would note down: for each storage whether it is alive and which version it shows,
// for each op whether it has run.
#include <fmt/core.h>

#include <algorithm>

#include "verify/facts.h"

namespace lowtide::verify {
namespace {

enum class State : uint8_t { kUnmade, kAlive, kFreed, kTaken };

std::string_view word(State state) {
  switch (state) {
    case State::kUnmade:
      return "not made yet";
    case State::kAlive:
      return "alive";
    case State::kFreed:
      return "freed already";
    case State::kTaken:
      return "taken over by another";
  }
  return "";
}

class Replay {
 public:
  Replay(const Facts& facts, Report& report, Findings& findings)
      : facts_(facts), plan_(facts.plan), report_(report), findings_(findings) {
    const size_t n = plan_.storages.size();
    state_ = IdVector<PlanStorageId, State>(n, State::kUnmade);
    current_ = IdVector<PlanStorageId, PlanValueId>(n);
    ran_ = IdVector<PlanOpId, char>(plan_.ops.size(), 0);
    lives_.latest = IdVector<PlanStorageId, size_t>(n, Lives::kNone);
    for (PlanStorageId s : plan_.storages.ids()) {
      current_[s] = plan_.storages[s].root;
      if (facts_.maker[s].valid()) continue;
      begin(s, plan_.storages[s].address);
    }
  }

  Lives run() {
    note_peak();  // resident bytes are there even when no op runs
    for (; now_ < static_cast<int64_t>(plan_.steps.size()); ++now_) {
      const plan::Step& step = plan_.steps[static_cast<size_t>(now_)];
      if (step.kind == plan::Step::Kind::kCompute)
        compute(step);
      else if (step.kind == plan::Step::Kind::kFree)
        free(step.storage);
      else
        findings_.add(Violation::kMalformed,
                      fmt::format("step {} moves '{}', which this version does not verify", now_,
                                  facts_.storage_name(step.storage)));
    }
    finish();
    return std::move(lives_);
  }

 private:
  int64_t& held(PlanStorageId s) { return held_[static_cast<size_t>(plan_.storages[s].category)]; }

  Lives::Stay& stay(PlanStorageId s) { return lives_.stays[lives_.latest[s]]; }

  void begin(PlanStorageId s, int64_t address) {
    state_[s] = State::kAlive;
    held(s) += plan_.storages[s].bytes;
    lives_.latest[s] = lives_.stays.size();
    lives_.stays.push_back({s, address, now_, now_});
  }
  void end(PlanStorageId s, State state) {
    state_[s] = state;
    held(s) -= plan_.storages[s].bytes;
    stay(s).end = now_;
  }

  void note_peak() {
    int64_t sum = 0;
    for (int64_t bytes : held_) sum += bytes;
    if (sum <= report_.peak_bytes) return;
    report_.peak_bytes = sum;
    report_.peak_step = static_cast<size_t>(now_);
    report_.peak_by_category = held_;
  }

  void compute(const plan::Step& step) {
    const PlanOpId id = step.op;
    const plan::PlanOp& op = plan_.ops[id];
    if (ran_[id]) {
      findings_.add(Violation::kOpRepeated,
                    fmt::format("step {} runs op '{}' again", now_, op.name));
      return;
    }
    for (PlanOpId before : op.control)
      if (!ran_[before])
        findings_.add(Violation::kControlOrder,
                      fmt::format("step {}: op '{}' runs before '{}', which it waits for", now_,
                                  op.name, plan_.ops[before].name));
    for (PlanValueId input : op.inputs)
      if (input.valid()) check_read(op, input);
    ran_[id] = 1;
    for (const plan::Placement& made : step.makes)
      if (made.reuses.valid()) take_over(id, made);
    for (const plan::Placement& made : step.makes) begin(made.storage, made.address);
    for (PlanValueId output : op.outputs)
      if (plan_.values[output].alias == plan::PlanAlias::kUpdate)
        current_[plan_.values[output].storage] = output;
    int64_t& scratch = held_[static_cast<size_t>(Category::kWorkspace)];
    scratch += op.workspace_bytes;
    note_peak();
    scratch -= op.workspace_bytes;
  }

  void check_read(const plan::PlanOp& op, PlanValueId input) {
    const plan::PlanValue& value = plan_.values[input];
    const State state = state_[value.storage];
    const auto at = [&] {
      return fmt::format("step {}: op '{}' reads '{}'", now_, op.name, value.name);
    };
    if (state == State::kUnmade || (value.producer.valid() && !ran_[value.producer])) {
      findings_.add(Violation::kInputNotReady, at() + " before it is made");
    } else if (state == State::kFreed) {
      findings_.add(Violation::kReadAfterFree,
                    at() + fmt::format(" after step {} freed it", stay(value.storage).end));
    } else if (state == State::kTaken) {
      findings_.add(
          Violation::kReadAfterReuse,
          at() + fmt::format(" after step {} took over its buffer", stay(value.storage).end));
    }
    if (current_[value.storage] != facts_.version[input])
      findings_.add(Violation::kStaleRead,
                    at() + fmt::format(" while its storage shows '{}'",
                                       plan_.values[current_[value.storage]].name));
  }

  void take_over(PlanOpId id, const plan::Placement& place) {
    const PlanStorageId from = place.reuses, heir = place.storage;
    const std::string what =
        fmt::format("op '{}' makes '{}' in the buffer of '{}'", plan_.ops[id].name,
                    facts_.storage_name(heir), facts_.storage_name(from));
    if (!facts_.may_reuse(id, from, heir))
      findings_.add(Violation::kReusePair, what + ", which the op does not allow");
    if (state_[from] != State::kAlive) {
      findings_.add(Violation::kReuseNotAlive,
                    what + fmt::format(", which is {}", word(state_[from])));
      return;
    }
    const int64_t old_bytes = plan_.storages[from].bytes, bytes = plan_.storages[heir].bytes;
    if (stay(from).address != place.address || old_bytes != bytes)
      findings_.add(Violation::kReuseMisplaced,
                    what + fmt::format(": {} bytes at {} for {} at {}", bytes, place.address,
                                       old_bytes, stay(from).address));
    end(from, State::kTaken);
  }

  void free(PlanStorageId s) {
    const auto at = [&] { return fmt::format("step {} frees '{}'", now_, facts_.storage_name(s)); };
    if (state_[s] != State::kAlive) {
      findings_.add(Violation::kFreeNotAlive, at() + fmt::format(", which is {}", word(state_[s])));
      return;
    }
    if (!facts_.maker[s].valid()) {
      findings_.add(Violation::kFreeResident, at() + ", which stays for the whole step");
    } else if (facts_.is_output[s]) {
      findings_.add(Violation::kFreeOutput, at() + ", which holds a result of the step");
    }
    end(s, State::kFreed);
  }

  void finish() {
    for (PlanOpId o : plan_.ops.ids())
      if (!ran_[o])
        findings_.add(Violation::kOpMissing, fmt::format("op '{}' never runs", plan_.ops[o].name));
    for (PlanStorageId s : plan_.storages.ids()) {
      if (state_[s] != State::kAlive) continue;
      stay(s).end = now_;
      if (facts_.maker[s].valid() && !facts_.is_output[s])
        findings_.add(Violation::kNeverFreed,
                      fmt::format("'{}' is no output and never freed", facts_.storage_name(s)));
    }
    for (PlanValueId v : plan_.values.ids()) {
      const plan::PlanValue& value = plan_.values[v];
      if (value.is_output &&
          (state_[value.storage] == State::kTaken || current_[value.storage] != facts_.version[v]))
        findings_.add(Violation::kOutputOverwritten,
                      fmt::format("the result '{}' is overwritten before the end", value.name));
    }
  }

  const Facts& facts_;
  const plan::Plan& plan_;
  Report& report_;
  Findings& findings_;
  int64_t now_ = 0;
  IdVector<PlanStorageId, State> state_;
  IdVector<PlanStorageId, PlanValueId> current_;  // the version that the storage shows
  IdVector<PlanOpId, char> ran_;
  std::array<int64_t, kCategories> held_{};
  Lives lives_;
};

}  // namespace

Lives replay(const Facts& facts, Report& report, Findings& findings) {
  return Replay(facts, report, findings).run();
}

int64_t peak_of_program_order(const Facts& facts) {
  const plan::Plan& plan = facts.plan;
  IdVector<PlanOpId, std::vector<PlanStorageId>> last_read(plan.ops.size());
  for (PlanStorageId s : plan.storages.ids())
    if (facts.maker[s].valid() && !facts.is_output[s])
      last_read[facts.readers[s].empty() ? facts.maker[s] : facts.readers[s].back()].push_back(s);
  int64_t held = facts.resident_bytes, peak = held;
  for (PlanOpId o : plan.ops.ids()) {
    for (PlanStorageId s : facts.makes[o]) held += plan.storages[s].bytes;
    peak = std::max(peak, held + plan.ops[o].workspace_bytes);
    for (PlanStorageId s : last_read[o]) held -= plan.storages[s].bytes;
  }
  return peak;
}

}  // namespace lowtide::verify
