// Certificate: evidence for what is proven, which whoever has the problem can recheck without the
// search that found it. One type, with a part for each kind of evidence: a cut for the peak of all
// orders, cuts with prices for the time of all schedules within a budget, a tree of cases for the
// same, and where to look for what every schedule needs. Solvers return it in the ids of their
// problem (ProblemCertificate in schedule_problem.h), the pipeline puts it into those of the plan
// (Certificate in plan.h; a problem's values are storages there), and the verifier adds it up
// (verify/bound.cc, time_bound.cc, branch_bound.cc, backward.cc). Ticks: plan/tick_scale.h.
//
// Tests: plan_text_test.cc, src/pipeline/certificate_test.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lowtide::plan {

// No order can do better: when `op` runs, every order has executed at least op's ancestors and none
// of its descendants; the cheapest such state is `prefix` (closed under predecessors, op not
// included), and value_bytes = resident + live(prefix) + outputs(op) + workspace(op) - largest
// possible in-place credit(op).
template <class Ids>
struct PeakCutOf {
  typename Ids::Op op{};
  std::vector<typename Ids::Op> prefix{};  // ascending
  int64_t value_bytes = 0;
  bool operator==(const PeakCutOf&) const = default;
};

// No schedule within the budget is faster: whatever runs again and moves, some bytes of the moments
// at which `cuts`' ops first run must have been freed and paid for. The bound is a minimum cut at
// the prices named here; the verifier computes it anew.
template <class Ids>
struct CutPriceOf {
  typename Ids::Op op{};
  int64_t price = 0;  // of a byte of the capacity when op first runs, in 2^-20 ticks
  bool operator==(const CutPriceOf&) const = default;
};
struct Multiplier {
  int32_t cut = 0;    // k: between the k-th cut, counted from 1, and the next; 0: before the first
  int32_t id = 0;     // index of an op or a storage
  int64_t value = 0;  // ticks
  bool operator==(const Multiplier&) const = default;
};
// How far the time of a segment is bounded by its stores, and by its loads, in 2^-20; the rest by
// its ops.
struct LinkShare {
  int64_t store = 0, load = 0;
  bool operator==(const LinkShare&) const = default;
};
template <class Ids>
struct TimeCutsOf {
  std::vector<CutPriceOf<Ids>> cuts{};
  std::vector<LinkShare> shares{};  // of the segments before, between and after the cuts; or none
  // What it is worth that an op runs at least once in the segments in which its first run may be;
  // by op, `cut` unused. The op's time where none is named.
  std::vector<Multiplier> rerun_multipliers{};
  // What it is worth that a storage in memory at cut k + 1 was there at cut k or is made between.
  std::vector<Multiplier> store_multipliers{};
  // What it is worth that slow memory has a copy of a storage that is not in memory at cut k + 1,
  // beyond what a store costs; may be negative.
  std::vector<Multiplier> copy_multipliers{};
  bool operator==(const TimeCutsOf&) const = default;
};

// No schedule within the budget is faster, by cases. `cuts`, each a descendant of the one before,
// divide every schedule at their first runs; segment k begins with the k-th. Whether an op runs in
// a segment, whether a storage stays in memory at a cut, and whether an op runs at all once a cut
// has begun are the variables, 0 or 1. What every schedule satisfies is linear in them
// (verify/branch_bound.cc names the rows); multipliers of the rows bound the time. The nodes are a
// tree: two children fix one variable to 0 and to 1, and each leaf proves the bound for its case.
enum class ProofVariable : uint8_t { kRun, kStay, kAgain };
enum class ProofRow : uint8_t {
  kCapacity,
  kNeed,
  kStay,
  kOnce,
  kAgainNeed,
  kAgainRuns,
  kAgainLate
};
template <class Ids>
struct ProofMultiplierOf {
  ProofRow row = ProofRow::kCapacity;
  int32_t cut = 0;        // k
  typename Ids::Op op{};  // where the row is of one; none: the end of the step
  typename Ids::Storage storage{};
  int64_t divisor = 0;  // bytes; of kCapacity
  int64_t value = 0;    // in CasesOf::unit_ticks; with divisor 1, for 2^20 bytes
  bool operator==(const ProofMultiplierOf&) const = default;
};
template <class Ids>
struct ProofNodeOf {
  int32_t parent = -1;  // a node before this one; -1: the root
  // What is fixed, by a child. `id` is an op's index, or a storage's.
  ProofVariable variable = ProofVariable::kRun;
  int32_t cut = 0, id = 0;
  bool value = false;
  // By row. Those of the parent hold here, too, unless named; 0: no more.
  std::vector<ProofMultiplierOf<Ids>> multipliers{};
  bool operator==(const ProofNodeOf&) const = default;
};
template <class Ids>
struct CasesOf {
  std::vector<typename Ids::Op> cuts{};
  int64_t unit_ticks = 1;
  std::vector<ProofNodeOf<Ids>> nodes{};
  bool operator==(const CasesOf&) const = default;
};

// No schedule that moves nothing needs less than the floor: back from the operands of `op`'s run,
// each run that makes some of what is needed has the rest beside it, and every way to where nothing
// is needed has a run with so much present. Storages smaller than `least_bytes` are left out of
// what is needed. The verifier walks all ways that stay below (verify/backward.cc).
template <class Ids>
struct BackwardWayOf {
  typename Ids::Op op{};
  int64_t least_bytes = 0;
  bool operator==(const BackwardWayOf&) const = default;
};

// What there is of it. Ids: the types Op and Storage of whose ids it names.
template <class Ids>
struct CertificateOf {
  std::optional<PeakCutOf<Ids>> peak{};
  std::optional<TimeCutsOf<Ids>> time{};
  std::optional<CasesOf<Ids>> cases{};
  std::optional<BackwardWayOf<Ids>> floor{};
  bool operator==(const CertificateOf&) const = default;
};

}  // namespace lowtide::plan
