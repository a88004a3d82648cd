// The simulator of whole schedules: literal cases, every error, agreement with the simulator of
// plain orders, and with a second implementation that looks at every position by itself.
#include "plan/sequence_simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "plan/schedule_simulator.h"
#include "plan/testing/schedule_test_problems.h"

namespace lowtide::plan {
namespace {

using Kind = SchedAction::Kind;
using Sequence = std::vector<SchedAction>;

SchedAction run(size_t op) {
  return SchedAction::run(SchedOpId(op));
}
SchedAction store(size_t v) {
  return SchedAction::store(SchedValueId(v));
}
SchedAction drop(size_t v) {
  return SchedAction::drop(SchedValueId(v));
}
SchedAction load(size_t v) {
  return SchedAction::load(SchedValueId(v));
}
SchedAction store_resident(size_t r) {
  return SchedAction::store(SchedResidentId(r));
}
SchedAction drop_resident(size_t r) {
  return SchedAction::drop(SchedResidentId(r));
}
SchedAction load_resident(size_t r) {
  return SchedAction::load(SchedResidentId(r));
}

SchedOp op(double seconds, bool may_rerun = true) {
  SchedOp made;
  made.seconds = seconds;
  made.may_rerun = may_rerun;
  return made;
}

// 0 -> x(8) -> 1 -> y(4) -> 2 -> z(16) -> 3, which reads x, too, and makes out(1), an output. The
// link moves 4 bytes a second out, 8 in, after half a second. Op 3 may not run again.
ScheduleProblem sequence_chain() {
  ScheduleProblem problem;
  problem.ops.push_back(op(1));
  problem.ops.push_back(op(2));
  problem.ops.push_back(op(4));
  problem.ops.push_back(op(8, false));
  problem.values.push_back(value(8, 0, {1, 3}));
  problem.values.push_back(value(4, 1, {2}));
  problem.values.push_back(value(16, 2, {3}));
  problem.values.push_back(value(1, 3, {}, true));
  problem.link = Link{4, 8, 0.5};
  return problem;
}

// sequence_chain() with a resident of 8 bytes that op 1 reads and op 3 overwrites.
ScheduleProblem chain_with_resident() {
  ScheduleProblem problem = sequence_chain();
  problem.resident_bytes = 100;
  SchedResident resident;
  resident.bytes = 8;
  resident.readers = {SchedOpId(1), SchedOpId(3)};
  resident.writers = {SchedOpId(3)};
  problem.residents.push_back(resident);
  problem.control = {{SchedOpId(1), SchedOpId(3)}};
  return problem;
}

TEST(Sequence, ARerunMakesAValueAnewAndFreesItMeanwhile) {
  const ScheduleProblem problem = sequence_chain();
  ASSERT_TRUE(check(problem).has_value());
  const auto kept = simulate_sequence(problem, Sequence{run(0), run(1), run(2), run(3)}).value();
  EXPECT_EQ(kept.action_bytes, (std::vector<int64_t>{8, 12, 28, 25}));
  EXPECT_EQ(kept.seconds, 15);
  EXPECT_EQ(kept.exposed_seconds, 0);
  const auto again =
      simulate_sequence(problem, Sequence{run(0), run(1), run(2), run(0), run(3)}).value();
  EXPECT_EQ(again.action_bytes, (std::vector<int64_t>{8, 12, 20, 24, 25}));
  EXPECT_EQ(again.peak_bytes, 25);
  EXPECT_EQ(again.reruns, 1);
  EXPECT_EQ(again.run_seconds, 16);
  EXPECT_EQ(again.once_seconds, 15);
  const SchedInstance first{SchedValueId(0), {}, 0, 1, -1}, second{SchedValueId(0), {}, 3, 4, -1};
  EXPECT_EQ(again.instances[0], first);
  EXPECT_EQ(again.instances[3], second);
}

TEST(Sequence, AStoredValueIsAbsentBetweenItsDropAndItsLoad) {
  const auto profile =
      simulate_sequence(sequence_chain(),
                        Sequence{run(0), store(0), run(1), drop(0), run(2), load(0), run(3)})
          .value();
  EXPECT_EQ(profile.action_bytes, (std::vector<int64_t>{8, 8, 12, 12, 20, 24, 25}));
  // The store runs from 1 to 3.5; op 1 ends at 3, so the drop waits until 3.5. Op 2 ends at 7.5,
  // the load takes until 9, op 3 until 17.
  EXPECT_EQ(profile.seconds, 17);
  EXPECT_EQ(profile.exposed_seconds, 2);
  EXPECT_EQ(profile.transfer_seconds, 4);
  EXPECT_EQ(profile.stored_bytes, 8);
  EXPECT_EQ(profile.loaded_bytes, 8);
}

TEST(Sequence, TransfersOfOneDirectionWaitForEachOther) {
  ScheduleProblem problem = sequence_chain();
  problem.ops[SchedOpId(2)].seconds = 0;
  const auto profile =
      simulate_sequence(problem, Sequence{run(0), run(1), store(0), store(1), drop(0), drop(1),
                                          load(0), load(1), run(2), run(3)})
          .value();
  // Stores from 3 to 5.5 and to 7; loads from 7 to 8.5 and to 9.5; op 2 waits for the second.
  EXPECT_EQ(profile.seconds, 9.5 + 8);
}

TEST(Sequence, AnUnchangedValueIsStoredOnceAndDroppedTwice) {
  ScheduleProblem problem = sequence_chain();
  problem.values[SchedValueId(0)].readers = {SchedOpId(1), SchedOpId(2), SchedOpId(3)};
  const auto profile =
      simulate_sequence(problem, Sequence{run(0), store(0), run(1), drop(0), load(0), run(2),
                                          drop(0), load(0), run(3)})
          .value();
  EXPECT_EQ(profile.stored_bytes, 8);
  EXPECT_EQ(profile.loaded_bytes, 16);
  // What was stored may also be made anew and loaded later.
  EXPECT_TRUE(simulate_sequence(problem, Sequence{run(0), store(0), run(1), drop(0), run(0), run(2),
                                                  load(0), run(3)})
                  .has_value());
}

TEST(Sequence, AResidentThatMovesHasItsHomeInTheSlowTier) {
  const ScheduleProblem problem = chain_with_resident();
  ASSERT_TRUE(check(problem).has_value());
  EXPECT_EQ(simulate_sequence(problem, Sequence{run(0), run(1), run(2), run(3)})->peak_bytes, 128);
  const auto profile = simulate_sequence(problem, Sequence{run(0), load_resident(0), run(1), run(2),
                                                           load_resident(0), run(3),
                                                           store_resident(0), drop_resident(0)})
                           .value();
  EXPECT_EQ(profile.action_bytes[0], 92 + 8);
  EXPECT_EQ(profile.action_bytes[2], 92 + 8 + 8 + 4);
  EXPECT_EQ(profile.action_bytes[3], 92 + 8 + 4 + 16) << "clean: it ended after op 1";
  EXPECT_EQ(profile.action_bytes[5], 92 + 8 + 8 + 16 + 1);
  EXPECT_EQ(profile.action_bytes[6], 92 + 8 + 1);
  EXPECT_EQ(profile.peak_bytes, 125);
}

TEST(Sequence, AnInPlacePairIsTakenWhereTheInstanceEnds) {
  ScheduleProblem problem = sequence_chain();
  problem.values[SchedValueId(1)].bytes = 8;
  problem.in_place = {{SchedOpId(1), SchedValueId(0), SchedValueId(1)}};
  ASSERT_TRUE(check(problem).has_value());
  const auto kept = simulate_sequence(problem, Sequence{run(0), run(1), run(2), run(3)}).value();
  EXPECT_EQ(kept.action_bytes[1], 16);
  const auto again =
      simulate_sequence(problem, Sequence{run(0), run(1), run(2), run(0), run(3)}).value();
  EXPECT_EQ(again.action_bytes[1], 8) << "x is made again, so its first instance ends here";
  EXPECT_EQ(again.instances[1].reuses, 0);
  const auto stored = simulate_sequence(problem, Sequence{run(0), store(0), run(1), drop(0), run(2),
                                                          load(0), run(3)})
                          .value();
  EXPECT_EQ(stored.action_bytes[2], 16) << "its buffer is still being copied";
}

TEST(Sequence, AnEmptyScheduleHoldsItsResidentBytes) {
  ScheduleProblem problem;
  problem.resident_bytes = 7;
  EXPECT_EQ(simulate_sequence(problem, {})->peak_bytes, 7);
}

void expect_error(const ScheduleProblem& problem, const Sequence& sequence, std::string_view part) {
  const auto profile = simulate_sequence(problem, sequence);
  ASSERT_FALSE(profile.has_value()) << part;
  EXPECT_EQ(profile.error().code, ErrorCode::kInput);
  EXPECT_NE(profile.error().message.find(part), std::string::npos) << profile.error().message;
}

TEST(Sequence, RefusesRunsOutOfTurn) {
  ScheduleProblem problem = sequence_chain();
  problem.ops[SchedOpId(3)].name = "loss";
  expect_error(problem, {run(0), run(1), run(2)}, "op 3 (loss) never runs");
  expect_error(problem, {run(0), run(1), run(2), run(3), run(3)},
               "action 4: op 3 (loss) runs again");
  expect_error(problem, {run(0), run(2)}, "action 1: op 2 reads value 1, which is not there");
  expect_error(problem, {run(9)}, "does not exist");
  problem.control = {{SchedOpId(1), SchedOpId(2)}};
  problem.values[SchedValueId(1)].readers.clear();
  expect_error(problem, {run(0), run(2)}, "op 2 runs before op 1, which must come first");
  expect_error(problem, {run(0), run(1), run(2), run(1)}, "op 1 runs after op 2, before which");
}

TEST(Sequence, RefusesTransfersOfWhatIsNotThere) {
  ScheduleProblem problem = sequence_chain();
  expect_error(problem, {store(0)}, "action 0: it stores value 0, which is not there");
  expect_error(problem, {run(0), drop(0)}, "not stored");
  expect_error(problem, {run(0), load(0)}, "not stored");
  expect_error(problem, {run(0), store(0), store(0)}, "stored already");
  expect_error(problem, {run(0), store(0), drop(0), drop(0)}, "drops value 0, which is not there");
  expect_error(problem, {run(0), store(0), drop(0), run(1)}, "op 1 reads value 0");
  expect_error(problem, {run(0), store(0), load(0)}, "has no drop");
  expect_error(problem, {run(0), store(0), run(0)}, "has no drop");
  expect_error(problem, {run(0), store(0), run(1), run(2), run(3)}, "the end of the sequence: the");
  expect_error(problem, {run(0), store(0), run(1), drop(0), load(0), run(0), run(2), run(3)},
               "nothing uses value 0");
  expect_error(problem, {run(0), run(1), run(2), run(3), store(3), drop(3)},
               "value 3 is an output of the step");
  expect_error(problem, {run(0), {Kind::kStore, {}, SchedValueId(7), {}}}, "does not exist");
  expect_error(problem, {run(0), {Kind::kStore, {}, {}, {}}}, "does not exist");
  expect_error(problem, {load_resident(0)}, "moves resident 0; 0 residents may move");
  problem.link.reset();
  expect_error(problem, {run(0), store(0)}, "no link");
}

TEST(Sequence, RefusesStaleCopies) {
  ScheduleProblem problem = chain_with_resident();
  expect_error(problem, {run(0), run(1), load_resident(0)}, "op 1 reads resident 0");
  expect_error(problem, {load_resident(0), run(0), run(1), run(2), run(3)},
               "resident 0 was changed and is not stored");
  expect_error(problem, {load_resident(0), run(0), run(1), run(2), run(3), drop_resident(0)},
               "changed since");
  expect_error(problem, {load_resident(0), run(0), run(1), run(2), store_resident(0), run(3)},
               "op 3 writes resident 0 while it is being stored");
  problem = sequence_chain();
  problem.values[SchedValueId(1)].readers = {SchedOpId(2), SchedOpId(3)};
  problem.values[SchedValueId(1)].writers = {SchedOpId(2)};
  problem.ops[SchedOpId(1)].may_rerun = problem.ops[SchedOpId(2)].may_rerun = false;
  ASSERT_TRUE(check(problem).has_value());
  expect_error(problem, {run(0), run(1), store(1), drop(1), load(1), run(2), drop(1)}, "since");
  expect_error(problem, {run(0), run(1), store(1), drop(1), load(1), run(2), load(1)}, "since");
}

// ---- the definition, position by position
class Definition {
 public:
  Definition(const ScheduleProblem& problem, const Sequence& sequence)
      : problem_(problem), sequence_(sequence), values_(problem.values.size()) {}

  bool valid() const {
    for (size_t at = 0; at < sequence_.size(); ++at)
      if (!valid_at(at)) return false;
    for (SchedOpId o : problem_.ops.ids()) {
      const auto runs = std::count(sequence_.begin(), sequence_.end(), SchedAction::run(o));
      if (runs == 0 || (runs > 1 && !problem_.ops[o].may_rerun)) return false;
    }
    for (size_t item = 0; item < items(); ++item)
      if (!ends_well(item, sequence_.size()) ||
          (is_output(item) && !birth_before(item, sequence_.size())))
        return false;
    return true;
  }

  // For valid sequences.
  int64_t bytes(size_t at) const {
    int64_t total = problem_.resident_bytes;
    for (size_t item = 0; item < items(); ++item) {
      if (is_resident(item) && moves(item)) total -= bytes_of(item);
      if (!present(item, at)) continue;
      total += bytes_of(item);
    }
    if (sequence_[at].kind != Kind::kRun) return total;
    total += problem_.ops[sequence_[at].op].workspace_bytes;
    std::vector<SchedValueId> taken;
    for (const InPlacePair& pair : problem_.in_place) {
      const size_t in = pair.input.index();
      if (pair.op != sequence_[at].op || is_output(in) || last_use(in, at) != at ||
          bytes_of(in) != bytes_of(pair.output.index()) ||
          std::count(taken.begin(), taken.end(), pair.input) > 0 ||
          std::count(taken.begin(), taken.end(), pair.output) > 0)
        continue;
      taken.push_back(pair.input);
      taken.push_back(pair.output);
      total -= bytes_of(in);
    }
    return total;
  }

  // When the compute stream has done what comes before `at`, and the last thing it waits for.
  double seconds() const {
    const std::vector<Link> links = links_of(problem_);
    std::vector<double> outs(links.size(), 0), ins(links.size(), 0);
    double compute = 0, copying = 0;
    std::vector<double> done(sequence_.size(), 0);
    for (size_t at = 0; at < sequence_.size(); ++at) {
      const SchedAction& action = sequence_[at];
      if (action.kind == Kind::kRun) {
        for (size_t item = 0; item < items(); ++item)
          if (reads(action.op, item) && (!is_resident(item) || moves(item))) {
            const size_t birth = *birth_before(item, at);
            if (sequence_[birth].kind == Kind::kLoad) compute = std::max(compute, done[birth]);
          }
        compute += problem_.ops[action.op].seconds;
        continue;
      }
      const size_t item = item_of(action);
      const double parts = moved_parts_of(item);
      const double bytes = parts * static_cast<double>(bytes_of(item));
      const Link& link = links[action.tier];
      const double latency = parts * link.latency_seconds;
      double &out = outs[action.tier], &in = ins[action.tier];
      if (action.kind != Kind::kDrop) copying += bytes * link.compute_seconds_per_byte;
      if (action.kind == Kind::kLoad) {
        in = done[at] = std::max(compute, in) + latency + bytes / link.bytes_per_second_in;
        continue;
      }
      const size_t birth = *birth_before(item, at);
      const double arrived = sequence_[birth].kind == Kind::kLoad ? done[birth] : 0;
      if (action.kind == Kind::kStore) {
        out = done[at] =
            std::max({compute, out, arrived}) + latency + bytes / link.bytes_per_second_out;
      } else {
        compute = std::max(compute, arrived);
        for (size_t s = birth; s < at; ++s)
          if (sequence_[s].kind == Kind::kStore && item_of(sequence_[s]) == item)
            compute = std::max(compute, done[s]);
      }
    }
    for (size_t tier = 0; tier < links.size(); ++tier)
      compute = std::max({compute, outs[tier], ins[tier]});
    return compute + copying;
  }

  int64_t held(uint8_t tier, size_t at) const {
    int64_t total = 0;
    for (size_t item = 0; item < items(); ++item) {
      bool stored = is_resident(item), needed = is_resident(item), in_tier = false;
      for (size_t p = 0; p < sequence_.size(); ++p) {
        if (!is(p, Kind::kStore, item) && !is(p, Kind::kLoad, item)) continue;
        in_tier |= sequence_[p].tier == tier;
        stored |= p <= at;
        needed |= stay_end(item, p) >= at;
      }
      if (in_tier && stored && needed) total += bytes_of(item);
    }
    return total;
  }

 private:
  size_t items() const { return values_ + problem_.residents.size(); }
  bool is_resident(size_t item) const { return item >= values_; }
  bool is_output(size_t item) const {
    return !is_resident(item) && problem_.values[SchedValueId(item)].is_output;
  }
  double moved_parts_of(size_t item) const {
    const auto parts = is_resident(item)
                           ? problem_.residents[SchedResidentId(item - values_)].moved_parts
                           : problem_.values[SchedValueId(item)].moved_parts;
    return static_cast<double>(parts);
  }
  int64_t bytes_of(size_t item) const {
    return is_resident(item) ? problem_.residents[SchedResidentId(item - values_)].bytes
                             : problem_.values[SchedValueId(item)].bytes;
  }
  bool listed(const std::vector<SchedOpId>& ops, SchedOpId o) const {
    return std::count(ops.begin(), ops.end(), o) > 0;
  }
  bool reads(SchedOpId o, size_t item) const {
    return listed(is_resident(item) ? problem_.residents[SchedResidentId(item - values_)].readers
                                    : problem_.values[SchedValueId(item)].readers,
                  o);
  }
  bool writes(SchedOpId o, size_t item) const {
    return listed(is_resident(item) ? problem_.residents[SchedResidentId(item - values_)].writers
                                    : problem_.values[SchedValueId(item)].writers,
                  o);
  }
  size_t item_of(const SchedAction& a) const {
    return a.value.valid() ? a.value.index() : values_ + a.resident.index();
  }
  bool is(size_t at, Kind kind, size_t item) const {
    return sequence_[at].kind == kind && kind != Kind::kRun && item_of(sequence_[at]) == item;
  }
  bool moves(size_t item) const {
    for (const SchedAction& a : sequence_)
      if (a.kind != Kind::kRun && item_of(a) == item) return true;
    return false;
  }
  bool is_birth(size_t at, size_t item) const {
    if (is(at, Kind::kLoad, item)) return true;
    return sequence_[at].kind == Kind::kRun && !is_resident(item) &&
           problem_.values[SchedValueId(item)].producer == sequence_[at].op;
  }
  // The birth of the instance that can be used at `at`: none if it was dropped.
  std::optional<size_t> birth_before(size_t item, size_t at) const {
    while (at-- > 0) {
      if (is(at, Kind::kDrop, item)) return {};
      if (is_birth(at, item)) return at;
    }
    return {};
  }
  bool uses(size_t at, size_t item) const {
    return is(at, Kind::kStore, item) || is(at, Kind::kDrop, item) ||
           (sequence_[at].kind == Kind::kRun && reads(sequence_[at].op, item));
  }
  // The last use of the instance of `item` that is there before `at`.
  size_t last_use(size_t item, size_t at) const {
    size_t last = *birth_before(item, at);
    for (size_t p = last + 1; p < sequence_.size() && !is_birth(p, item); ++p)
      if (uses(p, item)) last = p;
    return last;
  }
  // Of the stay that is there after `at`.
  size_t stay_end(size_t item, size_t at) const {
    for (size_t p = at + 1; p < sequence_.size(); ++p)
      if (is(p, Kind::kDrop, item) || is_birth(p, item)) return last_use(item, at + 1);
    return is_output(item) ? sequence_.size() - 1 : last_use(item, at + 1);
  }
  bool present(size_t item, size_t at) const {
    if (is_birth(at, item)) return true;
    if (!birth_before(item, at)) return false;
    if (last_use(item, at) >= at) return true;
    if (!is_output(item)) return false;
    for (size_t p = at; p < sequence_.size(); ++p)
      if (is_birth(p, item)) return false;
    return true;
  }
  bool copied(size_t item, size_t at) const {
    while (at-- > 0) {
      if (is(at, Kind::kStore, item)) return true;
      if (sequence_[at].kind == Kind::kRun && writes(sequence_[at].op, item)) return false;
    }
    return is_resident(item);
  }
  bool leaving(size_t item, size_t at) const {
    while (at-- > 0) {
      if (is(at, Kind::kStore, item)) return true;
      if (is(at, Kind::kDrop, item) || is_birth(at, item)) return false;
    }
    return false;
  }
  // Whether the instance before `at`, if there is one, may end before `at`.
  bool ends_well(size_t item, size_t at) const {
    const auto birth = birth_before(item, at);
    if (!birth) return true;
    if (leaving(item, at)) return false;
    if (is_resident(item) && !copied(item, at)) return false;
    if (sequence_[*birth].kind == Kind::kRun || (is_output(item) && at == sequence_.size()))
      return true;
    for (size_t p = *birth + 1; p < at; ++p)
      if (uses(p, item)) return true;
    return false;
  }
  bool valid_at(size_t at) const {
    const SchedAction& action = sequence_[at];
    for (size_t item = 0; item < items(); ++item)
      if (is_birth(at, item) && !ends_well(item, at)) return false;
    if (action.kind != Kind::kRun) {
      const size_t item = item_of(action);
      if (action.tier >= links_of(problem_).size()) return false;
      for (size_t p = 0; p < at; ++p)
        if (sequence_[p].kind != Kind::kRun && item_of(sequence_[p]) == item &&
            sequence_[p].tier != action.tier)
          return false;
      if (action.kind == Kind::kLoad) return copied(item, at);
      if (!birth_before(item, at)) return false;
      return action.kind == Kind::kStore ? !leaving(item, at) : copied(item, at);
    }
    for (const auto& [first, second] : problem_.control)
      for (size_t p = 0; p < at; ++p)
        if (action.op == first && sequence_[p] == SchedAction::run(second)) return false;
    for (const auto& [first, second] : problem_.control)
      if (action.op == second &&
          std::count(sequence_.begin(), sequence_.begin() + static_cast<std::ptrdiff_t>(at),
                     SchedAction::run(first)) == 0)
        return false;
    for (size_t item = 0; item < items(); ++item) {
      if (!reads(action.op, item) || (is_resident(item) && !moves(item))) continue;
      if (!birth_before(item, at)) return false;
      if (writes(action.op, item) && leaving(item, at)) return false;
    }
    return true;
  }

  const ScheduleProblem& problem_;
  const Sequence& sequence_;
  const size_t values_;
};

// Mostly valid: appends what is possible, each op at least once; then, sometimes, damages it.
Sequence random_sequence(const ScheduleProblem& problem, Rng& rng) {
  Sequence sequence;
  size_t next = 0;
  const uint64_t salt = rng.below(2);
  // Every buffer has its tier, seldom another one.
  const auto tiered = [&](SchedAction action) {
    if (problem.more_links.empty()) return action;
    const uint64_t item = action.value.valid() ? action.value.index() : action.resident.index();
    action.tier = static_cast<uint8_t>((item + salt + (rng.below(40) == 0)) % 2);
    return action;
  };
  const auto extends = [&](const SchedAction& action) {
    Sequence longer = sequence;
    longer.push_back(action);
    // What is missing at the end does not matter here.
    const auto result = simulate_sequence(problem, longer);
    return result.has_value() || !result.error().message.starts_with("action ");
  };
  const auto random_action = [&]() -> SchedAction {
    if (rng.below(2) == 0 || !problem.link || problem.values.empty())
      return run(rng.below(problem.ops.size()));
    const Kind kind = static_cast<Kind>(rng.between(1, 3));
    if (!problem.residents.empty() && rng.below(2) == 0)
      return tiered({kind, {}, {}, SchedResidentId(rng.below(problem.residents.size()))});
    return tiered({kind, {}, SchedValueId(rng.below(problem.values.size())), {}});
  };
  for (int tries = 0; tries < 60 && next < problem.ops.size(); ++tries) {
    const SchedAction action = rng.below(3) == 0 ? run(next) : random_action();
    if (!extends(action)) continue;
    sequence.push_back(action);
    while (next < problem.ops.size() && std::count(sequence.begin(), sequence.end(), run(next)) > 0)
      ++next;
  }
  for (SchedValueId v : problem.values.ids())
    if (const SchedAction drop = tiered(SchedAction::drop(v)); extends(drop) && rng.below(4) > 0)
      if (Definition(problem, sequence).valid() == false) sequence.push_back(drop);
  for (SchedResidentId r : problem.residents.ids()) {
    for (const SchedAction& a : {tiered(SchedAction::store(r)), tiered(SchedAction::drop(r))})
      if (extends(a)) sequence.push_back(a);
  }
  for (SchedValueId v : problem.values.ids())
    if (const SchedAction load = tiered(SchedAction::load(v));
        problem.values[v].is_output && extends(load) && rng.below(2) == 0)
      sequence.push_back(load);
  for (uint64_t k = rng.below(2) == 0 ? rng.below(3) : 0; k > 0 && sequence.size() > 1; --k) {
    const auto at = sequence.begin() + static_cast<std::ptrdiff_t>(rng.below(sequence.size()));
    if (rng.below(2) == 0) {
      sequence.erase(at);
    } else {
      std::swap(*at, sequence[rng.below(sequence.size())]);
    }
  }
  return sequence;
}

TEST(Sequence, AgreesWithTheDefinitionOnRandomSchedules) {
  Rng rng(51);
  RandomSchedule shape;
  shape.link_rate = 0.7;
  shape.resident_rate = 0.2;
  shape.moved_parts_rate = 0.3;
  int valid = 0, moved = 0, reran = 0, both = 0;
  for (int i = 0; i < 20000; ++i) {
    ScheduleProblem problem = random_schedule_problem(shape, rng);
    if (problem.link && i % 3 == 0) problem.more_links = {Link{1, 2, 0.5, 0.125}};
    if (problem.link && i % 2 == 0) problem.link->compute_seconds_per_byte = 0.25;
    ASSERT_TRUE(check(problem).has_value()) << check(problem).error().message;
    const Sequence sequence = random_sequence(problem, rng);
    const Definition definition(problem, sequence);
    const auto profile = simulate_sequence(problem, sequence);
    ASSERT_EQ(profile.has_value(), definition.valid())
        << i << ": " << (profile ? "valid?" : profile.error().message);
    if (!profile) continue;
    ++valid;
    moved += profile->transfer_seconds > 0;
    reran += profile->reruns > 0;
    int tiers_used = 0;
    for (uint8_t tier = 0; tier < links_of(problem).size(); ++tier) {
      int64_t most = 0;
      for (size_t at = 0; at < sequence.size(); ++at)
        most = std::max(most, definition.held(tier, at));
      ASSERT_EQ(most_held(problem, profile->slots, tier).bytes, most) << i;
      tiers_used += most > 0;
    }
    both += tiers_used == 2;
    int64_t peak = 0;
    double run_seconds = 0;
    for (size_t at = 0; at < sequence.size(); ++at) {
      ASSERT_EQ(profile->action_bytes[at], definition.bytes(at)) << i << " at " << at;
      peak = std::max(peak, profile->action_bytes[at]);
      if (sequence[at].kind == Kind::kRun) run_seconds += problem.ops[sequence[at].op].seconds;
    }
    ASSERT_EQ(profile->peak_bytes, peak);
    ASSERT_NEAR(profile->seconds, definition.seconds(), 1e-9) << i;
    ASSERT_EQ(profile->run_seconds, run_seconds);
    ASSERT_GE(profile->exposed_seconds, 0);
  }
  EXPECT_GT(valid, 5000);
  EXPECT_GT(moved, 1000);
  EXPECT_GT(reran, 2000);
  EXPECT_GT(both, 50);
}

TEST(Sequence, TiersHaveTheirOwnStreams) {
  ScheduleProblem problem = sequence_chain();
  problem.ops[SchedOpId(2)].seconds = 0;
  problem.more_links = {Link{2, 4, 0.5}};
  ASSERT_TRUE(check(problem).has_value());
  const auto to_second = [](SchedAction action) {
    action.tier = 1;
    return action;
  };
  const Sequence sequence{run(0),   run(1),
                          store(0), to_second(store(1)),
                          drop(0),  to_second(drop(1)),
                          load(0),  to_second(load(1)),
                          run(2),   run(3)};
  const auto profile = simulate_sequence(problem, sequence).value();
  // Stores from 3 to 5.5, both; loads from 5.5 to 7, both.
  EXPECT_EQ(profile.seconds, 7 + 8);
  EXPECT_EQ(most_held(problem, profile.slots, 0).bytes, 8);
  EXPECT_EQ(most_held(problem, profile.slots, 1).bytes, 4);
  expect_error(problem, {run(0), run(1), store(0), drop(0), to_second(load(0))},
               "to tier 1, which moved to tier 0");
  problem.more_links.clear();
  expect_error(problem, {run(0), to_second(store(0))}, "tier 1; there are 1 links");
}

TEST(Sequence, AgreesWithThePlainSimulatorWhereEachOpRunsOnce) {
  Rng rng(52);
  for (int i = 0; i < 5000; ++i) {
    RandomSchedule shape;
    shape.max_ops = 12;
    const ScheduleProblem problem = random_schedule_problem(shape, rng);
    std::vector<SchedOpId> order;
    Sequence sequence;
    for (SchedOpId o : problem.ops.ids()) order.push_back(o);
    for (uint64_t k = rng.below(4); k > 0; --k) {
      auto other = order;
      std::swap(other[rng.below(other.size())], other[rng.below(other.size())]);
      if (simulate(problem, other).has_value()) order = other;
    }
    for (SchedOpId o : order) sequence.push_back(SchedAction::run(o));
    const auto plain = simulate(problem, order).value();
    const auto profile = simulate_sequence(problem, sequence).value();
    ASSERT_EQ(profile.action_bytes, plain.step_bytes);
    ASSERT_EQ(profile.peak_bytes, plain.peak_bytes);
    std::vector<InPlacePair> reused;
    for (const SchedInstance& instance : profile.instances)
      if (instance.reuses >= 0)
        reused.push_back({sequence[instance.birth].op,
                          profile.instances[static_cast<size_t>(instance.reuses)].value,
                          instance.value});
    const auto by_output = [](const InPlacePair& a, const InPlacePair& b) {
      return std::pair(a.op, a.output) < std::pair(b.op, b.output);
    };
    auto expected = plain.reused;
    std::sort(expected.begin(), expected.end(), by_output);
    std::sort(reused.begin(), reused.end(), by_output);
    ASSERT_EQ(reused, expected);
    ASSERT_EQ(profile.seconds, profile.once_seconds);
  }
}

}  // namespace
}  // namespace lowtide::plan
