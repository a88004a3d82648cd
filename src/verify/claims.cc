// The claims that follow from steps and sizes: peaks, floor, budget, times. Bounds with a
// certificate are compared with it here; whether it is worth its value is for bound.cc and
// time_bound.cc to say.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "verify/precedence.h"

namespace lowtide::verify {
namespace {

// Sums of the same numbers in another order.
constexpr double kTolerance = 1e-9;

// When each stream has done what it was given so far.
class Timeline {
 public:
  explicit Timeline(const plan::Plan& plan)
      : plan_(plan), out_(plan.slow_tiers.size(), 0), in_(out_), ends_(plan.storages.size(), 0) {}

  void run(Report& report) {
    IdVector<PlanOpId, char> ran(plan_.ops.size(), 0);
    for (const plan::Step& step : plan_.steps) {
      if (step.kind == plan::Step::Kind::kCompute) {
        const plan::PlanOp& op = plan_.ops[step.op];
        ops_ += op.predicted_seconds;
        report.run_seconds += op.predicted_seconds;
        if (ran[step.op] && !step.makes.empty()) ++report.reruns;
        ran[step.op] = 1;
      } else if (step.kind == plan::Step::Kind::kWait) {
        ops_ = std::max(ops_, ends_[step.storage]);
      } else if (step.kind != plan::Step::Kind::kFree) {
        transfer(step, report);
      }
    }
    report.predicted_seconds = ops_;
    for (size_t t = 0; t < out_.size(); ++t)
      report.predicted_seconds = std::max({report.predicted_seconds, out_[t], in_[t]});
    report.predicted_seconds += copying_;
    report.exposed_seconds = report.predicted_seconds - report.run_seconds;
  }

 private:
  void transfer(const plan::Step& step, Report& report) {
    const plan::PlanStorage& storage = plan_.storages[step.storage];
    const auto tier = static_cast<size_t>(storage.slow_tier);
    const plan::SlowTier& link = plan_.slow_tiers[tier];
    const bool stores = step.kind == plan::Step::Kind::kStore;
    (stores ? report.stored_bytes : report.loaded_bytes) += storage.bytes;
    double& stream = stores ? out_[tier] : in_[tier];
    stream = std::max(ops_, stream) + link.latency_seconds +
             static_cast<double>(storage.bytes) /
                 (stores ? link.bytes_per_second_out : link.bytes_per_second_in);
    ends_[step.storage] = stream;
    copying_ += static_cast<double>(storage.bytes) * link.compute_seconds_per_byte;
  }

  const plan::Plan& plan_;
  double ops_ = 0, copying_ = 0;
  std::vector<double> out_, in_;          // by tier
  IdVector<PlanStorageId, double> ends_;  // of the last transfer
};

void check_bytes(const Facts& facts, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  const auto compare = [&](Violation kind, std::string_view what, int64_t claimed, int64_t found) {
    if (claimed != found)
      findings.add(kind, fmt::format("{}: {} bytes claimed, {} found", what, claimed, found));
  };
  compare(Violation::kPeak, "peak", claims.peak_bytes, report.peak_bytes);
  compare(Violation::kPeakBefore, "peak of the program order", claims.peak_before_bytes,
          report.peak_before_bytes);
  if (claims.budget_bytes && facts.plan.arena_bytes > *claims.budget_bytes)
    findings.add(Violation::kBudget, fmt::format("an arena of {} bytes for a budget of {}",
                                                 facts.plan.arena_bytes, *claims.budget_bytes));
  report.floor_bytes = floor_bytes(Precedence(facts));
  if (claims.floor_bytes && *claims.floor_bytes > report.floor_bytes)
    findings.add(Violation::kFloor, fmt::format("a floor of {} bytes claimed, {} found",
                                                *claims.floor_bytes, report.floor_bytes));
}

void check_times(const Facts& facts, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  for (const plan::PlanOp& op : facts.plan.ops) report.once_seconds += op.predicted_seconds;
  Timeline(facts.plan).run(report);
  const auto compare = [&](Violation kind, std::string_view what, double claimed, double found) {
    if (!(std::abs(claimed - found) <= kTolerance * report.predicted_seconds))
      findings.add(kind, fmt::format("{}: {} seconds claimed, {} found", what, claimed, found));
  };
  compare(Violation::kOnceSeconds, "all ops once", claims.once_seconds, report.once_seconds);
  compare(Violation::kSeconds, "the step", claims.predicted_seconds, report.predicted_seconds);
  compare(Violation::kExposedSeconds, "no op runs", claims.exposed_seconds, report.exposed_seconds);
  if (claims.lower_bound_seconds > claims.predicted_seconds * (1 + kTolerance))
    findings.add(Violation::kTimeBoundAboveTime,
                 fmt::format("a bound of {} seconds above the {} of the step",
                             claims.lower_bound_seconds, claims.predicted_seconds));
  if (!claims.time_certificate)
    compare(Violation::kTimeBoundUncertified, "bound on the time, each op once",
            claims.lower_bound_seconds, report.once_seconds);
}

void check_bound(const Facts& facts, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  const bool once = !plan::reruns_or_moves(facts.plan);
  if (once && claims.lower_bound_bytes > claims.peak_bytes)
    findings.add(Violation::kBoundAbovePeak,
                 fmt::format("a bound of {} bytes above the peak of {}", claims.lower_bound_bytes,
                             claims.peak_bytes));
  if (claims.order_proven != (once && claims.lower_bound_bytes == claims.peak_bytes))
    findings.add(Violation::kOrderProven,
                 fmt::format("called {} with a bound of {} bytes and a peak of {}{}",
                             claims.order_proven ? "proven" : "unproven", claims.lower_bound_bytes,
                             claims.peak_bytes, once ? "" : ", and ops that run again or move"));
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

void check_claims(const Facts& facts, Report& report, Findings& findings) {
  check_bytes(facts, report, findings);
  check_times(facts, report, findings);
  check_bound(facts, report, findings);
}

}  // namespace lowtide::verify
