#include "verify/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "plan/plan_check.h"
#include "verify/facts.h"

namespace lowtide::verify {
namespace {

void check_claims(const Facts& facts, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  const auto compare = [&](Violation kind, std::string_view what, int64_t claimed, int64_t found) {
    if (claimed != found)
      findings.add(kind, fmt::format("{}: {} bytes claimed, {} found", what, claimed, found));
  };
  compare(Violation::kPeak, "peak", claims.peak_bytes, report.peak_bytes);
  compare(Violation::kPeakBefore, "peak of the program order", claims.peak_before_bytes,
          report.peak_before_bytes);
  for (const plan::PlanOp& op : facts.plan.ops) report.predicted_seconds += op.predicted_seconds;
  for (double seconds : {claims.once_seconds, claims.predicted_seconds, claims.lower_bound_seconds})
    if (!(std::abs(seconds - report.predicted_seconds) <= 1e-9 * report.predicted_seconds))
      findings.add(Violation::kSeconds, fmt::format("{} seconds claimed, the ops add up to {}",
                                                    seconds, report.predicted_seconds));
  if (claims.lower_bound_bytes > claims.peak_bytes)
    findings.add(Violation::kBoundAbovePeak,
                 fmt::format("a bound of {} bytes above the peak of {}", claims.lower_bound_bytes,
                             claims.peak_bytes));
  if (claims.order_proven != (claims.lower_bound_bytes == claims.peak_bytes))
    findings.add(Violation::kOrderProven,
                 fmt::format("called {} with a bound of {} bytes and a peak of {}",
                             claims.order_proven ? "proven" : "unproven", claims.lower_bound_bytes,
                             claims.peak_bytes));
  // That the certificate is worth its value is for check_certificate to say.
  const int64_t certified =
      claims.certificate ? claims.certificate->value_bytes : facts.resident_bytes;
  const char* evidence = claims.certificate ? "the certificate shows" : "are resident";
  if (claims.lower_bound_bytes < certified)
    findings.add(Violation::kBoundBelowCertificate,
                 fmt::format("a bound of {} bytes below the {} that {}", claims.lower_bound_bytes,
                             certified, evidence));
  if (claims.lower_bound_bytes > certified)
    findings.add(Violation::kBoundUncertified,
                 fmt::format("a bound of {} bytes above the {} that {}", claims.lower_bound_bytes,
                             certified, evidence));
  if (!claims.certificate && !facts.plan.ops.empty())
    report.notes.push_back(
        "no certificate: the bound is what is resident, which says little about the order");
}

}  // namespace

std::string_view name(Violation violation) {
  constexpr std::array<std::string_view, kViolations> kNames = {"malformed",
                                                                "unknown_op",
                                                                "operands",
                                                                "output_type",
                                                                "output_alias",
                                                                "view_offset",
                                                                "view_outside",
                                                                "contents",
                                                                "storage_bytes",
                                                                "category",
                                                                "residency",
                                                                "program_order",
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
                                                                "misaligned",
                                                                "outside_arena",
                                                                "overlap",
                                                                "peak",
                                                                "peak_before",
                                                                "seconds",
                                                                "bound_above_peak",
                                                                "bound_below_certificate",
                                                                "bound_uncertified",
                                                                "order_proven",
                                                                "certificate_prefix",
                                                                "certificate_value",
                                                                "certificate_not_least"};
  return kNames[static_cast<size_t>(violation)];
}

bool Report::has(Violation kind) const {
  return std::any_of(findings.begin(), findings.end(),
                     [kind](const Finding& finding) { return finding.kind == kind; });
}

Report verify(const plan::Plan& plan) {
  Report report;
  Findings findings(report.findings);
  if (const Status status = plan::check(plan); !status) {
    findings.add(Violation::kMalformed, status.error().message);
    return report;
  }
  const Facts facts(plan);
  report.resident_bytes = facts.resident_bytes;
  check_semantics(facts, findings);
  check_roles(facts, findings);
  const Lives lives = replay(facts, report, findings);
  check_addresses(facts, lives, report, findings);
  report.peak_before_bytes = peak_of_program_order(facts);
  check_claims(facts, report, findings);
  if (!report.has(Violation::kProgramOrder)) check_certificate(facts, report, findings);
  return report;
}

}  // namespace lowtide::verify
