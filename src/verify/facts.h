// What the checks ask about a structurally sound plan, written down straight from the definitions.
//
// Tests: verify_test.cc, violations_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_table.h"
#include "plan/plan.h"
#include "verify/verify.h"

namespace lowtide::verify {

using plan::PlanOpId;
using plan::PlanStorageId;
using plan::PlanValueId;

// Collects findings up to the limit.
class Findings {
 public:
  explicit Findings(std::vector<Finding>& out) : out_(out) {}
  void add(Violation kind, std::string message) {
    if (out_.size() < kMaxFindings) out_.push_back({kind, std::move(message)});
  }

 private:
  std::vector<Finding>& out_;
};

// A plan that passed plan::check, with lookups made once. Borrows the plan.
struct Facts {
  explicit Facts(const plan::Plan& plan);

  // The op as the op table sees it.
  ops::Instance instance(PlanOpId op) const;
  // May `heir` (an output's storage) take over `from` when it dies at `op`?
  bool may_reuse(PlanOpId op, PlanStorageId from, PlanStorageId heir) const;
  const std::string& storage_name(PlanStorageId s) const {
    return plan.values[plan.storages[s].root].name;
  }

  const plan::Plan& plan;
  IdVector<PlanOpId, ir::Attrs> attrs;
  // By storage: what occupies memory for it and where it begins in it: itself at 0 or, of a whole,
  // its pieces, none of them a whole.
  IdVector<PlanStorageId, std::vector<plan::PlanPiece>> memory;
  IdVector<PlanStorageId, char> is_whole, is_piece;
  IdVector<PlanOpId, char> is_view_op;  // all outputs are views
  // The own or updating value, or the whole, whose contents this one shows.
  IdVector<PlanValueId, PlanValueId> version;
  IdVector<PlanStorageId, PlanValueId> last_version;  // that the given order leaves in the storage
  IdVector<PlanStorageId, PlanOpId> maker;            // none: resident
  // Holds a result of the step, or a piece of one.
  IdVector<PlanStorageId, char> is_output;
  // Ascending; neither the maker nor ops that only make views. Of a whole none: who reads it reads
  // its pieces.
  IdVector<PlanStorageId, std::vector<PlanOpId>> readers;
  IdVector<PlanOpId, std::vector<PlanStorageId>> makes;     // wholes are not among them
  IdVector<PlanOpId, std::vector<PlanOpId>> control_after;  // who waits for it
  // (from, heir), filled by find_pairs.
  IdVector<PlanOpId, std::vector<std::pair<PlanStorageId, PlanStorageId>>> pairs;
  int64_t resident_bytes = 0;

 private:
  void find_memory();
  void find_pairs(PlanOpId op);
};

// The checks, each in its own file; all assume a plan that passed plan::check.
void check_semantics(const Facts& facts, Findings& findings);     // semantics.cc
void check_destinations(const Facts& facts, Findings& findings);  // destinations.cc
void check_roles(const Facts& facts, Findings& findings);         // roles.cc
struct Lives;
Lives replay(const Facts& facts, Report& report, Findings& findings);  // replay.cc
void check_addresses(const Facts& facts, const Lives& lives, Report& report,
                     Findings& findings);                  // addresses.cc
void check_slots(const Facts& facts, Findings& findings);  // slots.cc
int64_t peak_of_given_order(const Facts& facts);           // replay.cc
void check_claims(const Facts& facts, const FloorAsked& asked, Report& report,
                  Findings& findings);                                           // claims.cc
void check_certificate(const Facts& facts, Report& report, Findings& findings);  // bound.cc
// In time_bound.cc.
void check_time_certificate(const Facts& facts, Report& report, Findings& findings);

// The most bytes that pairs (from, heir) without a common storage save.
int64_t most_reused_bytes(const Facts& facts,
                          const std::vector<std::pair<PlanStorageId, PlanStorageId>>& pairs);

// When and where each storage's bytes are its own, in steps, half-open: from the step that makes or
// loads it to its free, or to the step in which an heir takes over, or to the end.
struct Lives {
  struct Stay {
    PlanStorageId storage;
    int64_t address = 0;
    int64_t begin = 0, end = 0;
  };
  std::vector<Stay> stays;                 // by begin
  IdVector<PlanStorageId, size_t> latest;  // into stays; kNone: never there
  static constexpr size_t kNone = SIZE_MAX;
};

}  // namespace lowtide::verify
