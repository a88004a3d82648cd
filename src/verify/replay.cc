// Runs the steps on paper: what is in the arena and what in the slots, who reads what, what every
// step holds. The only state is what a person would note down: for each storage whether it is
// alive, which version it shows and when that was computed, which transfer of it is under way, and
// the same of its slot; for each op when it ran last.
#include <fmt/core.h>

#include <algorithm>

#include "verify/facts.h"

namespace lowtide::verify {
namespace {

constexpr int64_t kBeforeStart = -1;  // the step
constexpr int64_t kNotYet = -2;

enum class State : uint8_t { kUnmade, kAlive, kFreed, kTaken };
enum class TransferKind : uint8_t { kNone, kStore, kLoad };

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

// What an arena buffer or a slot shows: a version, and the step that computed it. No version:
// nothing.
struct Shown {
  PlanValueId version{};
  int64_t computed = kNotYet;
};

struct Note {
  State state = State::kUnmade;
  TransferKind under_way = TransferKind::kNone;
  int64_t since = 0;  // when the transfer began
  Shown shows, slot;
};

class Replay {
 public:
  Replay(const Facts& facts, Report& report, Findings& findings)
      : facts_(facts),
        plan_(facts.plan),
        report_(report),
        findings_(findings),
        notes_(plan_.storages.size()),
        ran_(plan_.ops.size(), kNotYet) {
    lives_.latest = IdVector<PlanStorageId, size_t>(plan_.storages.size(), Lives::kNone);
    for (PlanStorageId s : plan_.storages.ids()) {
      const plan::PlanStorage& storage = plan_.storages[s];
      if (facts_.maker[s].valid()) continue;
      if (storage.home_slow)
        notes_[s].slot = {storage.root, kBeforeStart};
      else
        begin(s, storage.address, {storage.root, kBeforeStart});
    }
  }

  Lives run() {
    note_peak();  // resident bytes are there even when no op runs
    for (; now_ < std::ssize(plan_.steps); ++now_) {
      const plan::Step& step = plan_.steps[static_cast<size_t>(now_)];
      switch (step.kind) {
        case plan::Step::Kind::kCompute:
          compute(step);
          break;
        case plan::Step::Kind::kFree:
          free(step.storage);
          break;
        case plan::Step::Kind::kStore:
          store(step.storage);
          break;
        case plan::Step::Kind::kLoad:
          load(step.storage, step.address);
          break;
        case plan::Step::Kind::kWait:
          wait(step.storage);
          break;
      }
    }
    finish();
    return std::move(lives_);
  }

 private:
  Lives::Stay& stay(PlanStorageId s) { return lives_.stays[lives_.latest[s]]; }

  void begin(PlanStorageId s, int64_t address, Shown contents) {
    notes_[s].state = State::kAlive;
    notes_[s].shows = contents;
    held_ += plan_.storages[s].bytes;
    lives_.latest[s] = lives_.stays.size();
    lives_.stays.push_back({s, address, now_, now_});
  }
  void end(PlanStorageId s, State state) {
    notes_[s].state = state;
    held_ -= plan_.storages[s].bytes;
    stay(s).end = now_;
  }

  void note_peak() {
    if (held_ <= report_.peak_bytes) return;
    report_.peak_bytes = held_;
    report_.peak_step = static_cast<size_t>(now_);
  }

  void compute(const plan::Step& step) {
    const PlanOpId id = step.op;
    const plan::PlanOp& op = plan_.ops[id];
    check_turn(id);
    for (PlanValueId input : op.inputs)
      if (input.valid()) check_read(op, input);
    ran_[id] = now_;
    for (const plan::Placement& made : step.makes)
      if (made.reuses.valid()) take_over(id, made);
    for (const plan::Placement& made : step.makes) make(id, made);
    for (PlanValueId output : op.outputs) {
      const plan::PlanValue& value = plan_.values[output];
      if (value.alias == plan::PlanAlias::kUpdate) update(op, output);
      if (value.alias == plan::PlanAlias::kPieces)
        check_together(value.storage,
                       fmt::format("step {}: op '{}' makes '{}'", now_, op.name, value.name));
    }
    held_ += op.workspace_bytes;
    note_peak();
    held_ -= op.workspace_bytes;
  }

  // May the op run now, and again? An op that only makes views may: it computes nothing.
  void check_turn(PlanOpId id) {
    const plan::PlanOp& op = plan_.ops[id];
    for (PlanOpId before : op.control)
      if (ran_[before] == kNotYet)
        findings_.add(Violation::kControlOrder,
                      fmt::format("step {}: op '{}' runs before '{}', which it waits for", now_,
                                  op.name, plan_.ops[before].name));
    if (ran_[id] == kNotYet || facts_.is_view_op[id]) return;
    const ops::Row* row = ops::find(op.kind);
    if (row == nullptr || !ops::traits(*row).recomputable || ops::traits(*row).has_effect)
      findings_.add(Violation::kOpRepeated,
                    fmt::format("step {} runs op '{}' again, which its kind ({}) does not allow",
                                now_, op.name, op.kind));
    for (PlanOpId after : facts_.control_after[id])
      if (ran_[after] != kNotYet)
        findings_.add(Violation::kControlOrder,
                      fmt::format("step {}: op '{}' runs again after '{}', which waits for it",
                                  now_, op.name, plan_.ops[after].name));
  }

  void check_read(const plan::PlanOp& op, PlanValueId input) {
    const PlanStorageId s = plan_.values[input].storage;
    for (const plan::PlanPiece& piece : facts_.memory[s]) check_read(op, input, piece.storage);
    if (facts_.is_whole[s])
      check_together(
          s, fmt::format("step {}: op '{}' reads '{}'", now_, op.name, plan_.values[input].name));
  }

  // The pieces of a whole lie at their distances.
  void check_together(PlanStorageId whole, const std::string& what) {
    const std::vector<plan::PlanPiece>& pieces = facts_.memory[whole];
    const auto base_of = [&](const plan::PlanPiece& piece) {
      return stay(piece.storage).address - piece.offset_bytes;
    };
    for (const plan::PlanPiece& piece : pieces) {
      if (notes_[pieces[0].storage].state != State::kAlive ||
          notes_[piece.storage].state != State::kAlive || base_of(piece) == base_of(pieces[0]))
        continue;
      findings_.add(
          Violation::kPiecesApart,
          what + fmt::format(", whose piece '{}' lies at {} and not at {}",
                             facts_.storage_name(piece.storage), stay(piece.storage).address,
                             base_of(pieces[0]) + piece.offset_bytes));
    }
  }

  // One of the storages that the value lies in.
  void check_read(const plan::PlanOp& op, PlanValueId input, PlanStorageId from) {
    const plan::PlanValue& value = plan_.values[input];
    const Note& note = notes_[from];
    const auto at = [&] {
      return fmt::format("step {}: op '{}' reads '{}'", now_, op.name, value.name);
    };
    if (note.state == State::kFreed) {
      findings_.add(Violation::kReadAfterFree,
                    at() + fmt::format(" after step {} freed it", stay(from).end));
    } else if (note.state == State::kTaken) {
      findings_.add(Violation::kReadAfterReuse,
                    at() + fmt::format(" after step {} took over its buffer", stay(from).end));
    } else if (note.state == State::kUnmade ||
               (value.producer.valid() && ran_[value.producer] < note.shows.computed)) {
      findings_.add(Violation::kInputNotReady, at() + " before it is made");
    } else if (value.producer.valid() && ran_[value.producer] == kNotYet) {
      findings_.add(Violation::kInputNotReady, at() + " before it is made");
    } else if (note.under_way == TransferKind::kLoad) {
      findings_.add(Violation::kReadInFlight,
                    at() + fmt::format(" while the load of step {} is under way", note.since));
    }
    const bool piece = facts_.is_whole[value.storage] != 0;  // nobody overwrites those
    if (!piece && note.shows.version.valid() && note.shows.version != facts_.version[input])
      findings_.add(Violation::kStaleRead,
                    at() + fmt::format(" while its storage shows '{}'",
                                       plan_.values[note.shows.version].name));
  }

  void take_over(PlanOpId id, const plan::Placement& place) {
    const PlanStorageId from = place.reuses, heir = place.storage;
    const std::string what =
        fmt::format("op '{}' makes '{}' in the buffer of '{}'", plan_.ops[id].name,
                    facts_.storage_name(heir), facts_.storage_name(from));
    if (!facts_.may_reuse(id, from, heir))
      findings_.add(Violation::kReusePair, what + ", which the op does not allow");
    if (notes_[from].state != State::kAlive) {
      findings_.add(Violation::kReuseNotAlive,
                    what + fmt::format(", which is {}", word(notes_[from].state)));
      return;
    }
    check_still(from, what);
    const int64_t old_bytes = plan_.storages[from].bytes, bytes = plan_.storages[heir].bytes;
    if (stay(from).address != place.address || old_bytes != bytes)
      findings_.add(Violation::kReuseMisplaced,
                    what + fmt::format(": {} bytes at {} for {} at {}", bytes, place.address,
                                       old_bytes, stay(from).address));
    end(from, State::kTaken);
  }

  void make(PlanOpId id, const plan::Placement& place) {
    const PlanStorageId s = place.storage;
    if (notes_[s].state == State::kAlive) {
      findings_.add(Violation::kMadeAlive,
                    fmt::format("step {}: op '{}' makes '{}', which is there since step {}", now_,
                                plan_.ops[id].name, facts_.storage_name(s), stay(s).begin));
      end(s, State::kFreed);
    }
    begin(s, place.address, {plan_.storages[s].root, now_});
  }

  void update(const plan::PlanOp& op, PlanValueId output) {
    const PlanStorageId s = plan_.values[output].storage;
    check_still(
        s, fmt::format("step {}: op '{}' overwrites '{}'", now_, op.name, facts_.storage_name(s)));
    notes_[s].shows = {output, now_};
  }

  // Nothing may happen to the buffer of a storage that a transfer reads or fills.
  void check_still(PlanStorageId s, const std::string& what) {
    const Note& note = notes_[s];
    if (note.under_way != TransferKind::kNone)
      findings_.add(Violation::kWriteInFlight,
                    what + fmt::format(" while its {} of step {} is under way",
                                       note.under_way == TransferKind::kStore ? "store" : "load",
                                       note.since));
  }

  void free(PlanStorageId s) {
    const std::string at = fmt::format("step {} frees '{}'", now_, facts_.storage_name(s));
    if (notes_[s].state != State::kAlive) {
      findings_.add(Violation::kFreeNotAlive,
                    at + fmt::format(", which is {}", word(notes_[s].state)));
      return;
    }
    check_still(s, at);
    if (!facts_.maker[s].valid() && !plan_.storages[s].home_slow)
      findings_.add(Violation::kFreeResident, at + ", which stays for the whole step");
    end(s, State::kFreed);
  }

  void store(PlanStorageId s) {
    Note& note = notes_[s];
    const std::string at = fmt::format("step {} stores '{}'", now_, facts_.storage_name(s));
    if (note.state != State::kAlive) {
      findings_.add(Violation::kStoreNotAlive, at + fmt::format(", which is {}", word(note.state)));
      return;
    }
    if (note.under_way != TransferKind::kNone) {
      findings_.add(Violation::kTransferPending,
                    at + fmt::format(" before the transfer of step {} has ended", note.since));
      return;
    }
    note.slot = note.shows;
    note.under_way = TransferKind::kStore;
    note.since = now_;
  }

  void load(PlanStorageId s, int64_t address) {
    Note& note = notes_[s];
    const std::string at = fmt::format("step {} loads '{}'", now_, facts_.storage_name(s));
    if (note.state == State::kAlive) {
      findings_.add(Violation::kLoadAlive,
                    at + fmt::format(", there since step {}", stay(s).begin));
      return;
    }
    if (!note.slot.version.valid())
      findings_.add(Violation::kLoadNotStored, at + ", which was never stored");
    begin(s, address, note.slot);
    note.under_way = TransferKind::kLoad;
    note.since = now_;
    note_peak();
  }

  void wait(PlanStorageId s) {
    if (notes_[s].under_way == TransferKind::kNone)
      findings_.add(Violation::kWaitIdle,
                    fmt::format("step {} waits for a transfer of '{}', and none is under way", now_,
                                facts_.storage_name(s)));
    notes_[s].under_way = TransferKind::kNone;
  }

  void finish() {
    for (PlanOpId o : plan_.ops.ids())
      if (ran_[o] == kNotYet)
        findings_.add(Violation::kOpMissing, fmt::format("op '{}' never runs", plan_.ops[o].name));
    for (PlanStorageId s : plan_.storages.ids()) finish(s);
    for (PlanValueId v : plan_.values.ids()) {
      if (plan_.values[v].is_output) finish_output(v);
    }
  }

  void finish_output(PlanValueId v) {
    const plan::PlanValue& value = plan_.values[v];
    const bool whole = facts_.is_whole[value.storage] != 0;
    for (const plan::PlanPiece& piece : facts_.memory[value.storage]) {
      const Note& note = notes_[piece.storage];
      const bool other = note.shows.version.valid() && note.shows.version != facts_.version[v];
      if (note.state == State::kTaken || (!whole && other))
        findings_.add(Violation::kOutputOverwritten,
                      fmt::format("the result '{}' is overwritten before the end", value.name));
      else if (whole && ran_[value.producer] < note.shows.computed)
        findings_.add(Violation::kInputNotReady,
                      fmt::format("the result '{}' is not made again after its piece '{}'",
                                  value.name, facts_.storage_name(piece.storage)));
    }
    if (whole) check_together(value.storage, fmt::format("the result '{}'", value.name));
  }

  void finish(PlanStorageId s) {
    if (facts_.is_whole[s]) return;
    const plan::PlanStorage& storage = plan_.storages[s];
    const Note& note = notes_[s];
    const std::string& name = facts_.storage_name(s);
    if (note.under_way != TransferKind::kNone)
      findings_.add(
          Violation::kTransferOpen,
          fmt::format("nothing waits for the transfer of '{}' of step {}", name, note.since));
    const bool stays = facts_.maker[s].valid() ? facts_.is_output[s] != 0 : !storage.home_slow;
    if (note.state == State::kAlive) {
      stay(s).end = now_;
      if (!stays)
        findings_.add(Violation::kNeverFreed,
                      fmt::format("'{}' is no output and never freed", name));
    }
    if (note.state == State::kFreed && facts_.is_output[s] && facts_.maker[s].valid())
      findings_.add(
          Violation::kFreeOutput,
          fmt::format("step {} frees '{}', which holds a result of the step", stay(s).end, name));
    if (storage.home_slow && note.slot.version != facts_.last_version[s])
      findings_.add(Violation::kHomeStale,
                    fmt::format("'{}' was overwritten and is not stored after that", name));
  }

  const Facts& facts_;
  const plan::Plan& plan_;
  Report& report_;
  Findings& findings_;
  int64_t now_ = 0;
  IdVector<PlanStorageId, Note> notes_;
  IdVector<PlanOpId, int64_t> ran_;  // last
  int64_t held_ = 0;                 // bytes present
  Lives lives_;
};

}  // namespace

Lives replay(const Facts& facts, Report& report, Findings& findings) {
  return Replay(facts, report, findings).run();
}

int64_t peak_of_given_order(const Facts& facts) {
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
