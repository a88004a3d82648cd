// What a schedule of a small problem may do next, for remat_oracle.h: states and the edges between
// them, in the model of plan/sequence_simulator.h.
//
// A state says which ops have run, which holdings (values and moving residents) are present, copied
// in the slow tier, being stored, loaded and unused; where time counts, also by how much the link's
// directions, loads and stores under way are behind the compute stream. One edge per action, and
// one that frees a holding: in the simulator that follows from the sequence; here all ways are
// tried.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "plan/schedule_problem.h"

namespace lowtide::remat {

struct OracleOptions {
  bool transfers = true;           // off: as if there were no link
  bool reruns = true;              // off: each op once
  int64_t max_states = 1'000'000;  // nothing is answered beyond
};

class OracleStates {
 public:
  struct State {
    uint32_t done = 0, present = 0, copied = 0, leaving = 0, unused = 0;  // unused: since its load
    // With a link: out, in, then arrival and end of store of each holding, all as seconds from the
    // compute stream's time, at least 0.
    std::vector<double> clocks;
    bool operator==(const State&) const = default;
  };
  struct Hash {
    size_t operator()(const State& s) const {
      uint64_t h = 0x9E3779B97F4A7C15u;
      const auto mix = [&](uint64_t x) { h = (h ^ x) * 0xBF58476D1CE4E5B9u, h ^= h >> 29; };
      mix(uint64_t{s.done} << 32 | s.present);
      mix(uint64_t{s.copied} << 32 | s.leaving);
      mix(s.unused);
      for (const double clock : s.clocks) mix(std::bit_cast<uint64_t>(clock));
      return h;
    }
  };
  struct Reached {
    double key = 0;  // time of the compute stream, or the peak
    const State* from = nullptr;
    plan::SchedAction action;
    bool is_action = false, settled = false;
  };
  // `peak_only`: time does not count, and the budget is not looked at. `moving`: which residents
  // move, as bits.
  OracleStates(const plan::ScheduleProblem& problem, const OracleOptions& options, bool peak_only,
               uint32_t moving)
      : problem_(problem),
        options_(options),
        values_(problem.values.size()),
        peak_only_(peak_only) {
    prepare(moving);
  }

  State start() const {
    State state;
    state.copied = home();
    if (timed()) state.clocks.assign(2 + 2 * holdings_, 0);
    return state;
  }
  int64_t start_bytes() const { return base_bytes_; }
  bool is_goal(const State& s) const {
    return s.done == (1u << problem_.ops.size()) - 1 && s.leaving == 0 &&
           (outputs_ & ~s.present) == 0 && (s.unused & ~outputs_) == 0 && (home() & ~s.copied) == 0;
  }

  // What the link still has to do when compute has ended.
  double rest(const State& s) const { return timed() ? std::max(s.clocks[0], s.clocks[1]) : 0; }

  // Calls reach(state, bytes, seconds, action) for each next state: bytes present during the
  // action, seconds by which compute goes on; no action where a holding is freed.
  template <class Reach>
  void expand(const State& s, const Reach& reach) const {
    for (size_t op = 0; op < problem_.ops.size(); ++op)
      if (useful(s, op)) runs_of(s, op, reach);
    const uint32_t wanted_now = wanted(s);
    for (size_t h = 0; h < holdings_; ++h) {
      const uint32_t bit = 1u << h;
      const bool leaving = s.leaving & bit, copied = s.copied & bit, unused = s.unused & bit;
      if (s.present & bit) {
        if (!leaving && !unused && (h < values_ || copied))
          reach(without(s, h), base_bytes_, 0.0, std::optional<plan::SchedAction>());
        if (options_.transfers && !leaving && (h >= values_ || wanted_now & bit))
          store(s, h, reach);
        if (options_.transfers && copied) drop(s, h, reach);
      } else if (options_.transfers && copied && (wanted_now & bit)) {
        load(s, h, reach);
      }
    }
  }

 private:
  void prepare(uint32_t moving) {
    holdings_ = values_;
    base_bytes_ = problem_.resident_bytes;
    reads_.assign(problem_.ops.size(), 0);
    writes_ = makes_ = before_ = after_ = reads_;
    for (plan::SchedValueId v : problem_.values.ids()) {
      const plan::SchedValue& value = problem_.values[v];
      bytes_.push_back(value.bytes);
      moved_parts_.push_back(static_cast<double>(value.moved_parts));
      makes_[value.producer.index()] |= 1u << v.index();
      for (plan::SchedOpId op : value.readers) reads_[op.index()] |= 1u << v.index();
      for (plan::SchedOpId op : value.writers) writes_[op.index()] |= 1u << v.index();
    }
    for (plan::SchedResidentId r : problem_.residents.ids()) {
      if (!(moving >> r.index() & 1)) continue;
      const plan::SchedResident& resident = problem_.residents[r];
      for (plan::SchedOpId op : resident.readers) reads_[op.index()] |= 1u << holdings_;
      for (plan::SchedOpId op : resident.writers) writes_[op.index()] |= 1u << holdings_;
      bytes_.push_back(resident.bytes);
      moved_parts_.push_back(static_cast<double>(resident.moved_parts));
      base_bytes_ -= resident.bytes;
      resident_.push_back(r);
      ++holdings_;
    }
    for (const auto& [first, second] : problem_.control) {
      before_[second.index()] |= 1u << first.index();
      after_[first.index()] |= 1u << second.index();
    }
    for (plan::SchedValueId v : problem_.values.ids())
      if (problem_.values[v].is_output) outputs_ |= 1u << v.index();
    serves_.assign(problem_.ops.size(), 0);
    for (size_t op = problem_.ops.size(); op-- > 0;) {  // readers come later than producers
      for (size_t reader = op + 1; reader < problem_.ops.size(); ++reader)
        if (makes_[op] & reads_[reader]) serves_[op] |= serves_[reader] | 1u << reader;
      if ((makes_[op] & outputs_) != 0 || (serves_[op] & finals_) != 0) finals_ |= 1u << op;
    }
    LT_CHECK(holdings_ < 32 && problem_.ops.size() < 32, "the oracle is for small problems");
  }

  uint32_t home() const { return ((1u << holdings_) - 1) & ~((1u << values_) - 1); }
  bool timed() const { return options_.transfers && !peak_only_; }
  static size_t arrives(size_t h) { return 2 + 2 * h; }
  static size_t left(size_t h) { return 3 + 2 * h; }

  int64_t sum(uint32_t set) const {
    int64_t total = base_bytes_;
    for (size_t h = 0; h < holdings_; ++h)
      if (set >> h & 1) total += bytes_[h];
    return total;
  }

  // An op that has run has a use for another run only if an op that has not, or an output, comes
  // after it.
  bool useful(const State& s, size_t op) const {
    return !(s.done >> op & 1) || (serves_[op] & ~s.done) != 0 || (finals_ >> op & 1);
  }
  // Holdings that an op with a use reads, and outputs.
  uint32_t wanted(const State& s) const {
    uint32_t set = outputs_;
    for (size_t op = 0; op < problem_.ops.size(); ++op)
      if (useful(s, op)) set |= reads_[op];
    return set;
  }

  template <class Reach>
  void act(State state, int64_t bytes, double seconds, const plan::SchedAction& action,
           const Reach& reach, double copying = 0) const {
    if (!peak_only_ && problem_.budget_bytes && bytes > *problem_.budget_bytes) return;
    for (double& clock : state.clocks) clock = std::max(clock - seconds, 0.0);
    reach(std::move(state), bytes, seconds + copying, std::optional(action));
  }

  State without(const State& s, size_t h) const {
    State next = s;
    next.present &= ~(1u << h);
    next.leaving &= ~(1u << h);
    next.unused &= ~(1u << h);
    if (timed()) next.clocks[arrives(h)] = next.clocks[left(h)] = 0;
    return next;
  }

  plan::SchedAction move(plan::SchedAction::Kind kind, size_t h) const {
    plan::SchedAction action;
    action.kind = kind;
    if (h < values_) {
      action.value = plan::SchedValueId(h);
    } else {
      action.resident = resident_[h - values_];
    }
    return action;
  }

  template <class Reach>
  void store(const State& s, size_t h, const Reach& reach) const {
    State next = s;
    next.copied |= 1u << h;
    next.leaving |= 1u << h;
    next.unused &= ~(1u << h);
    if (timed())
      next.clocks[0] = next.clocks[left(h)] = std::max(next.clocks[0], next.clocks[arrives(h)]) +
                                              transfer(h, problem_.link->bytes_per_second_out);
    act(std::move(next), sum(s.present), 0, move(plan::SchedAction::Kind::kStore, h), reach,
        copying(h));
  }

  template <class Reach>
  void drop(const State& s, size_t h, const Reach& reach) const {
    double wait = 0;
    if (timed())
      wait = std::max(s.clocks[arrives(h)], s.leaving >> h & 1 ? s.clocks[left(h)] : 0.0);
    act(without(s, h), sum(s.present), wait, move(plan::SchedAction::Kind::kDrop, h), reach);
  }

  template <class Reach>
  void load(const State& s, size_t h, const Reach& reach) const {
    State next = s;
    next.present |= 1u << h;
    next.unused |= 1u << h;
    if (timed())
      next.clocks[1] = next.clocks[arrives(h)] =
          next.clocks[1] + transfer(h, problem_.link->bytes_per_second_in);
    act(std::move(next), sum(s.present | 1u << h), 0, move(plan::SchedAction::Kind::kLoad, h),
        reach, copying(h));
  }

  double in_double(size_t h) const { return static_cast<double>(bytes_[h]); }
  double copying(size_t h) const {  // the link's clocks do not feel it
    return moved_parts_[h] * problem_.link->compute_seconds_per_byte * in_double(h);
  }
  double transfer(size_t h, double speed) const {
    return moved_parts_[h] * (problem_.link->latency_seconds + in_double(h) / speed);
  }

  template <class Reach>
  void runs_of(const State& s, size_t op, const Reach& reach) const {
    const plan::SchedOp& o = problem_.ops[plan::SchedOpId(op)];
    const bool again = s.done >> op & 1;
    if ((again && (!o.may_rerun || !options_.reruns)) || (reads_[op] & ~s.present) != 0 ||
        (before_[op] & ~s.done) != 0 || (after_[op] & s.done) != 0 ||
        ((makes_[op] | writes_[op]) & s.leaving) != 0 || (makes_[op] & s.present) != 0)
      return;
    State next = s;
    next.done |= 1u << op;
    next.copied &= ~writes_[op];
    next.present |= makes_[op];
    next.unused &= ~reads_[op];
    double wait = 0;
    if (timed())
      for (size_t h = 0; h < holdings_; ++h)
        if (reads_[op] >> h & 1) wait = std::max(wait, s.clocks[arrives(h)]);
    // What nobody will want again goes at once; left to choose: which inputs of its pairs end here.
    const uint32_t unwanted = next.present & ~(wanted(next) | next.leaving | next.unused | home());
    uint32_t candidates = 0;
    for (const plan::InPlacePair& pair : problem_.in_place)
      if (pair.op.index() == op && !((outputs_ | s.leaving) >> pair.input.index() & 1))
        candidates |= 1u << pair.input.index();
    const int64_t bytes = sum(next.present) + o.workspace_bytes;
    for (uint32_t dying = candidates;; dying = (dying - 1) & candidates) {
      State after = next;
      for (size_t h = 0; h < values_; ++h)
        if ((dying | unwanted) >> h & 1) after = without(after, h);
      act(std::move(after), bytes - reused(op, dying), wait + o.seconds,
          plan::SchedAction::run(plan::SchedOpId(op)), reach);
      if (dying == 0) break;
    }
  }

  int64_t reused(size_t op, uint32_t dying) const {
    int64_t saved = 0;
    uint32_t made = 0;
    for (const plan::InPlacePair& pair : problem_.in_place) {
      if (pair.op.index() != op || !(dying >> pair.input.index() & 1) ||
          (made >> pair.output.index() & 1) ||
          bytes_[pair.input.index()] != bytes_[pair.output.index()])
        continue;
      dying &= ~(1u << pair.input.index());
      made |= 1u << pair.output.index();
      saved += bytes_[pair.input.index()];
    }
    return saved;
  }

  const plan::ScheduleProblem& problem_;
  const OracleOptions options_;
  const size_t values_;
  const bool peak_only_;
  size_t holdings_ = 0;
  int64_t base_bytes_ = 0;             // of residents that do not move
  uint32_t outputs_ = 0, finals_ = 0;  // finals: ops that an output comes from
  std::vector<int64_t> bytes_;
  std::vector<double> moved_parts_;
  std::vector<plan::SchedResidentId> resident_;
  std::vector<uint32_t> reads_, writes_, makes_, before_, after_;  // by op
  std::vector<uint32_t> serves_;  // ops that need what it makes, directly or not
};

}  // namespace lowtide::remat
