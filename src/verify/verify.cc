#include "verify/verify.h"

#include <algorithm>

#include "plan/plan_check.h"
#include "verify/facts.h"

namespace lowtide::verify {
namespace {

constexpr std::array<std::string_view, kViolations> kNames = {"malformed",
                                                              "unknown_op",
                                                              "operands",
                                                              "output_type",
                                                              "output_alias",
                                                              "view_offset",
                                                              "view_outside",
                                                              "update_target",
                                                              "pieces",
                                                              "pieces_apart",
                                                              "contents",
                                                              "storage_bytes",
                                                              "category",
                                                              "residency",
                                                              "given_order",
                                                              "op_missing",
                                                              "op_repeated",
                                                              "input_not_ready",
                                                              "control_order",
                                                              "stale_read",
                                                              "read_after_free",
                                                              "read_after_reuse",
                                                              "free_not_alive",
                                                              "free_resident",
                                                              "free_output",
                                                              "never_freed",
                                                              "output_overwritten",
                                                              "reuse_pair",
                                                              "reuse_misplaced",
                                                              "reuse_not_alive",
                                                              "made_alive",
                                                              "read_in_flight",
                                                              "write_in_flight",
                                                              "store_not_alive",
                                                              "transfer_pending",
                                                              "load_alive",
                                                              "load_not_stored",
                                                              "wait_idle",
                                                              "transfer_open",
                                                              "home_stale",
                                                              "slot_outside",
                                                              "slot_overlap",
                                                              "misaligned",
                                                              "outside_arena",
                                                              "overlap",
                                                              "peak",
                                                              "peak_before",
                                                              "budget",
                                                              "floor",
                                                              "parts_floor",
                                                              "once_seconds",
                                                              "seconds",
                                                              "exposed_seconds",
                                                              "time_bound_above_time",
                                                              "time_bound_uncertified",
                                                              "time_certificate",
                                                              "time_bound_seconds",
                                                              "bound_above_peak",
                                                              "bound_below_certificate",
                                                              "bound_uncertified",
                                                              "order_proven",
                                                              "certificate_prefix",
                                                              "certificate_value",
                                                              "certificate_not_least"};

}  // namespace

std::string_view name(Violation violation) {
  return kNames[static_cast<size_t>(violation)];
}

bool Report::has(Violation kind) const {
  return std::any_of(findings.begin(), findings.end(),
                     [kind](const Finding& finding) { return finding.kind == kind; });
}

Report verify(const plan::Plan& plan, const FloorAsked& asked) {
  Report report;
  Findings findings(report.findings);
  if (const Status status = plan::check(plan); !status) {
    findings.add(Violation::kMalformed, status.error().message);
    return report;
  }
  const Facts facts(plan);
  report.resident_bytes = facts.resident_bytes;
  check_semantics(facts, findings);
  check_destinations(facts, findings);
  check_roles(facts, findings);
  const Lives lives = replay(facts, report, findings);
  check_addresses(facts, lives, report, findings);
  check_slots(facts, findings);
  report.peak_before_bytes = peak_of_given_order(facts);
  check_claims(facts, asked, report, findings);
  if (!report.has(Violation::kGivenOrder)) check_certificate(facts, report, findings);
  check_time_certificate(facts, report, findings);
  return report;
}

}  // namespace lowtide::verify
