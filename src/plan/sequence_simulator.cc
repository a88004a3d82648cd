// One walk over the sequence checks it, opens and closes the instances and moves the three clocks;
// what memory needs to know of the future (which use of an instance was its last) is known when the
// walk is over, so in-place pairs and bytes follow in a second pass. Linear in the number of
// actions and reads.
#include "plan/sequence_simulator.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "plan/problem_index.h"

namespace lowtide::plan {
namespace {

constexpr int32_t kAbsent = -1;

// What can be present: a value, or a resident that moves.
struct Holding {
  int64_t bytes = 0;
  int64_t moved_parts = 1;
  int32_t instance = kAbsent;  // the one that is present
  bool used = false;           // since its birth
  bool copied = false;         // the slow tier has its contents
  bool leaving = false;        // a store is under way
  double arrives = 0;          // when the load of the instance ends
  double left = 0;             // when the store under way ends
  int32_t slot = kAbsent;      // in the profile
};

// The problem turned around, with residents numbered behind the values.
// One path to a slow tier: what each of its streams has been given so far ends then.
struct Streams {
  Link link;
  double out = 0, in = 0;
  int64_t moved_bytes = 0;
};

class Walk {
 public:
  Walk(const ScheduleProblem& problem, std::span<const SchedAction> sequence)
      : problem_(problem),
        sequence_(sequence),
        index_(problem),
        runs_(problem.ops.size(), 0),
        holdings_(problem.values.size() + problem.residents.size()),
        moves_(problem.residents.size(), 0),
        fixed_bytes_(problem.resident_bytes) {
    for (const Link& link : links_of(problem)) streams_.push_back({link});
    for (SchedValueId v : problem.values.ids()) {
      holdings_[v.index()].bytes = problem.values[v].bytes;
      holdings_[v.index()].moved_parts = problem.values[v].moved_parts;
    }
  }

  Result<SequenceProfile> simulate() {
    LT_RETURN_IF_ERROR(find_moving_residents());
    for (at_ = 0; at_ < sequence_.size(); ++at_)
      LT_RETURN_IF_ERROR(sequence_[at_].kind == SchedAction::Kind::kRun ? run(sequence_[at_].op)
                                                                        : move(sequence_[at_]));
    LT_RETURN_IF_ERROR(finish());
    take_pairs();
    sum_bytes();
    return std::move(profile_);
  }

 private:
  template <class... Args>
  tl::unexpected<Error> bad(fmt::format_string<Args...> text, Args&&... args) const {
    const std::string where =
        at_ < sequence_.size() ? fmt::format("action {}: ", at_) : "at the end of the sequence: ";
    return error(ErrorCode::kInput, where + fmt::format(text, std::forward<Args>(args)...));
  }
  static std::string label(std::string_view what, uint32_t index, const std::string& name) {
    return name.empty() ? fmt::format("{} {}", what, index)
                        : fmt::format("{} {} ({})", what, index, name);
  }
  std::string label(SchedOpId op) const { return label("op", op.index(), problem_.ops[op].name); }
  std::string label(size_t holding) const {
    if (holding < problem_.values.size())
      return label("value", SchedValueId(holding).index(),
                   problem_.values[SchedValueId(holding)].name);
    const SchedResidentId resident = resident_of(holding);
    return label("resident", resident.index(), problem_.residents[resident].name);
  }
  static size_t holding_of(SchedValueId v) { return v.index(); }
  size_t holding_of(SchedResidentId r) const { return problem_.values.size() + r.index(); }
  SchedResidentId resident_of(size_t holding) const {
    return SchedResidentId(holding - problem_.values.size());
  }
  bool is_output(size_t holding) const {
    return holding < problem_.values.size() && problem_.values[SchedValueId(holding)].is_output;
  }

  // Only those are holdings of their ops; the others are always there.
  Status find_moving_residents() {
    for (const SchedAction& action : sequence_)
      if (action.kind != SchedAction::Kind::kRun && action.resident.valid()) {
        if (action.resident.index() >= problem_.residents.size())
          return error(ErrorCode::kInput,
                       fmt::format("the sequence moves resident {}; {} residents may move",
                                   action.resident.index(), problem_.residents.size()));
        moves_[action.resident] = 1;
      }
    std::vector<std::pair<SchedOpId, SchedResidentId>> reads, writes;
    for (SchedResidentId r : problem_.residents.ids()) {
      if (!moves_[r]) continue;
      const SchedResident& resident = problem_.residents[r];
      const size_t holding = holding_of(r);
      fixed_bytes_ -= resident.bytes;
      holdings_[holding].bytes = resident.bytes;
      holdings_[holding].moved_parts = resident.moved_parts;
      holdings_[holding].copied = true;
      for (SchedOpId op : resident.readers) reads.emplace_back(op, r);
      for (SchedOpId op : resident.writers) writes.emplace_back(op, r);
    }
    resident_reads_ = {problem_.ops.size(), reads};
    resident_writes_ = {problem_.ops.size(), writes};
    return {};
  }

  Status run(SchedOpId op) {
    if (!op.valid() || op.index() >= problem_.ops.size())
      return bad("it runs an op that does not exist; there are {} ops", problem_.ops.size());
    LT_RETURN_IF_ERROR(check_turn(op));
    for (SchedValueId v : index_.reads[op]) LT_RETURN_IF_ERROR(read(op, holding_of(v)));
    for (SchedResidentId r : resident_reads_[op]) LT_RETURN_IF_ERROR(read(op, holding_of(r)));
    for (SchedValueId v : index_.writes[op]) LT_RETURN_IF_ERROR(overwrite(op, holding_of(v)));
    for (SchedResidentId r : resident_writes_[op]) LT_RETURN_IF_ERROR(overwrite(op, holding_of(r)));
    for (SchedValueId v : index_.makes[op]) LT_RETURN_IF_ERROR(appear(holding_of(v), compute_));
    compute_ += problem_.ops[op].seconds;
    profile_.run_seconds += problem_.ops[op].seconds;
    if (runs_[op]++ > 0) ++profile_.reruns;
    return {};
  }

  Status read(SchedOpId op, size_t holding) {
    Holding& held = holdings_[holding];
    if (held.instance == kAbsent)
      return bad("{} reads {}, which is not there", label(op), label(holding));
    use(held);
    compute_ = std::max(compute_, held.arrives);
    return {};
  }

  Status overwrite(SchedOpId op, size_t holding) {
    if (holdings_[holding].leaving)
      return bad("{} writes {} while it is being stored", label(op), label(holding));
    holdings_[holding].copied = false;
    return {};
  }

  Status check_turn(SchedOpId op) const {
    if (runs_[op] > 0 && !problem_.ops[op].may_rerun)
      return bad("{} runs again, which it may not", label(op));
    for (SchedOpId first : index_.waits_for[op])
      if (runs_[first] == 0)
        return bad("{} runs before {}, which must come first", label(op), label(first));
    for (SchedOpId second : index_.waits_after[op])
      if (runs_[second] > 0)
        return bad("{} runs after {}, before which all its runs must come", label(op),
                   label(second));
    return {};
  }

  Status move(const SchedAction& action) {
    if (!problem_.link) return bad("it moves a buffer, but the problem has no link");
    if (action.tier >= streams_.size())
      return bad("it moves a buffer to tier {}; there are {} links", action.tier, streams_.size());
    const bool is_value = action.value.valid();
    if (is_value == action.resident.valid() ||
        (is_value && action.value.index() >= problem_.values.size()))
      return bad("it moves a value that does not exist; there are {} values",
                 problem_.values.size());
    const size_t holding = is_value ? holding_of(action.value) : holding_of(action.resident);
    Holding& held = holdings_[holding];
    if (held.slot != kAbsent && slot_of(held).tier != action.tier)
      return bad("it moves {} to tier {}, which moved to tier {} before", label(holding),
                 action.tier, slot_of(held).tier);
    Streams& streams = streams_[action.tier];
    switch (action.kind) {
      case SchedAction::Kind::kStore:
        LT_RETURN_IF_ERROR(store(holding, streams));
        break;
      case SchedAction::Kind::kDrop:
        return drop(holding);
      default:
        LT_RETURN_IF_ERROR(load(holding, streams));
    }
    take_slot(action, held);
    return {};
  }

  SchedSlot& slot_of(const Holding& held) { return profile_.slots[static_cast<size_t>(held.slot)]; }

  // Its end is found later.
  void take_slot(const SchedAction& action, Holding& held) {
    if (held.slot == kAbsent) {
      held.slot = static_cast<int32_t>(profile_.slots.size());
      profile_.slots.push_back({action.value, action.resident, action.tier, at_, at_});
    }
    slot_of(held).end = static_cast<size_t>(held.instance);  // for now, the stay
  }

  Status store(size_t holding, Streams& streams) {
    Holding& held = holdings_[holding];
    if (held.instance == kAbsent) return bad("it stores {}, which is not there", label(holding));
    if (held.leaving) return bad("it stores {}, which is being stored already", label(holding));
    use(held);
    held.copied = held.leaving = true;
    const double begin = std::max({compute_, held.arrives, streams.out});
    streams.out = held.left = begin + transfer(held, streams, streams.link.bytes_per_second_out);
    profile_.stored_bytes += held.bytes * held.moved_parts;
    return {};
  }

  Status drop(size_t holding) {
    Holding& held = holdings_[holding];
    if (held.instance == kAbsent) return bad("it drops {}, which is not there", label(holding));
    if (!held.copied)
      return bad("it drops {}, whose contents were not stored or changed since", label(holding));
    use(held);
    compute_ = std::max({compute_, held.arrives, held.leaving ? held.left : 0});
    held.leaving = false;
    held.instance = kAbsent;
    return {};
  }

  Status load(size_t holding, Streams& streams) {
    Holding& held = holdings_[holding];
    if (!held.copied)
      return bad("it loads {}, whose contents were not stored or changed since", label(holding));
    const double begin = std::max(compute_, streams.in);
    streams.in = begin + transfer(held, streams, streams.link.bytes_per_second_in);
    profile_.loaded_bytes += held.bytes * held.moved_parts;
    LT_RETURN_IF_ERROR(appear(holding, streams.in));
    held.used = false;
    return {};
  }

  // What copies keep the device from computing.
  double copying() const {
    double seconds = 0;
    for (const Streams& streams : streams_)
      seconds += streams.link.compute_seconds_per_byte * static_cast<double>(streams.moved_bytes);
    return seconds;
  }

  double transfer(const Holding& held, Streams& streams, double bytes_per_second) {
    const int64_t bytes = held.bytes * held.moved_parts;
    const double seconds = static_cast<double>(held.moved_parts) * streams.link.latency_seconds +
                           static_cast<double>(bytes) / bytes_per_second;
    streams.moved_bytes += bytes;
    profile_.transfer_seconds += seconds;
    return seconds;
  }

  void use(Holding& held) {
    held.used = true;
    profile_.instances[static_cast<size_t>(held.instance)].end = at_;
  }

  // Ends what is present of it, and begins a new instance.
  Status appear(size_t holding, double arrives) {
    LT_RETURN_IF_ERROR(check_end(holding));
    Holding& held = holdings_[holding];
    SchedInstance instance;
    if (holding < problem_.values.size()) {
      instance.value = SchedValueId(holding);
    } else {
      instance.resident = resident_of(holding);
    }
    instance.birth = instance.end = at_;
    held.instance = static_cast<int32_t>(profile_.instances.size());
    held.used = true;  // by its producer; a load says otherwise
    held.arrives = arrives;
    profile_.instances.push_back(instance);
    return {};
  }

  Status check_end(size_t holding) const {
    const Holding& held = holdings_[holding];
    if (held.instance == kAbsent) return {};
    if (held.leaving) return bad("the store of {} has no drop", label(holding));
    if (!held.used) return bad("nothing uses {} after its load", label(holding));
    if (holding >= problem_.values.size() && !held.copied)
      return bad("{} was changed and is not stored", label(holding));
    return {};
  }

  Status finish() {
    for (SchedOpId op : problem_.ops.ids())
      if (runs_[op] == 0) return error(ErrorCode::kInput, fmt::format("{} never runs", label(op)));
    for (size_t holding = 0; holding < holdings_.size(); ++holding) {
      Holding& held = holdings_[holding];
      if (is_output(holding)) {
        if (held.instance == kAbsent)
          return bad("{} is an output of the step, but not there at its end", label(holding));
        use(held);
        profile_.instances[static_cast<size_t>(held.instance)].end = sequence_.size() - 1;
      }
      LT_RETURN_IF_ERROR(check_end(holding));
    }
    profile_.seconds = compute_;
    for (const Streams& streams : streams_)
      profile_.seconds = std::max({profile_.seconds, streams.out, streams.in});
    profile_.seconds += copying();
    end_slots();
    profile_.exposed_seconds = profile_.seconds - profile_.run_seconds;
    for (const SchedOp& op : problem_.ops) profile_.once_seconds += op.seconds;
    return {};
  }

  void end_slots() {
    for (SchedSlot& slot : profile_.slots) {
      slot.end = profile_.instances[slot.end].end + 1;
      if (slot.resident.valid()) slot.begin = 0, slot.end = sequence_.size();
    }
  }

  // Pairs of each run whose input's instance ends with it. `present` is the instance of a value at
  // the walk's position.
  void take_pairs() {
    saved_.assign(sequence_.size(), 0);
    std::vector<int32_t> present(problem_.values.size(), kAbsent);
    size_t next = 0;
    for (size_t at = 0; at < sequence_.size(); ++at) {
      const size_t first_born = next;
      for (; next < profile_.instances.size() && profile_.instances[next].birth == at; ++next) {
      }
      if (sequence_[at].kind == SchedAction::Kind::kRun)
        take_pairs_of(at, present, first_born, next);
      for (size_t i = first_born; i < next; ++i)
        if (profile_.instances[i].value.valid())
          present[profile_.instances[i].value.index()] = static_cast<int32_t>(i);
    }
  }

  void take_pairs_of(size_t at, const std::vector<int32_t>& present, size_t first_born,
                     size_t last_born) {
    for (const size_t i : index_.pairs[sequence_[at].op]) {
      const InPlacePair& pair = problem_.in_place[i];
      const SchedValue& input = problem_.values[pair.input];
      const int32_t dying = present[pair.input.index()];
      if (input.is_output || input.bytes != problem_.values[pair.output].bytes ||
          profile_.instances[static_cast<size_t>(dying)].end != at)
        continue;
      SchedInstance* made = nullptr;
      bool taken = false;
      for (size_t k = first_born; k < last_born; ++k) {
        if (profile_.instances[k].value == pair.output) made = &profile_.instances[k];
        taken |= profile_.instances[k].reuses == dying;
      }
      if (taken || made->reuses != kAbsent) continue;
      made->reuses = dying;
      saved_[at] += input.bytes;
    }
  }

  void sum_bytes() {
    std::vector<int64_t> change(sequence_.size() + 1, 0);
    for (const SchedInstance& instance : profile_.instances) {
      const int64_t bytes = instance.value.valid() ? problem_.values[instance.value].bytes
                                                   : problem_.residents[instance.resident].bytes;
      change[instance.birth] += bytes;
      change[instance.end + 1] -= bytes;
    }
    profile_.peak_bytes = fixed_bytes_;
    int64_t present = fixed_bytes_;
    for (size_t at = 0; at < sequence_.size(); ++at) {
      present += change[at];
      int64_t during = present - saved_[at];
      if (sequence_[at].kind == SchedAction::Kind::kRun)
        during += problem_.ops[sequence_[at].op].workspace_bytes;
      profile_.action_bytes.push_back(during);
      profile_.peak_bytes = std::max(profile_.peak_bytes, during);
    }
  }

  const ScheduleProblem& problem_;
  const std::span<const SchedAction> sequence_;
  const ProblemIndex index_;
  Lists<SchedOpId, SchedResidentId> resident_reads_, resident_writes_;  // of those that move
  IdVector<SchedOpId, int64_t> runs_;
  std::vector<Holding> holdings_;  // values, then residents
  IdVector<SchedResidentId, char> moves_;
  int64_t fixed_bytes_;  // of residents that do not move
  size_t at_ = 0;
  double compute_ = 0;            // what the compute stream has been given so far ends then
  std::vector<Streams> streams_;  // by tier
  std::vector<int64_t> saved_;    // in place, by position
  SequenceProfile profile_;
};

}  // namespace

Result<SequenceProfile> simulate_sequence(const ScheduleProblem& problem,
                                          std::span<const SchedAction> sequence) {
  return Walk(problem, sequence).simulate();
}

Held most_held(const ScheduleProblem& problem, std::span<const SchedSlot> slots, uint8_t tier) {
  std::vector<std::pair<size_t, int64_t>> changes;
  for (const SchedSlot& slot : slots) {
    if (slot.tier != tier) continue;
    const int64_t bytes = slot.value.valid() ? problem.values[slot.value].bytes
                                             : problem.residents[slot.resident].bytes;
    changes.emplace_back(slot.begin, bytes);
    changes.emplace_back(slot.end, -bytes);
  }
  std::sort(changes.begin(), changes.end());  // at one position, what ends comes first
  Held most;
  int64_t held = 0;
  for (const auto& [at, bytes] : changes) {
    held += bytes;
    if (held > most.bytes) most = {held, at};
  }
  return most;
}

}  // namespace lowtide::plan
