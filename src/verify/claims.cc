// The claims that follow from steps and sizes: peaks, floor, budget, times. Bounds with a
// certificate are compared with it here; whether it is worth its value is for bound.cc and
// time_bound.cc to say.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "plan/tick_scale.h"
#include "verify/parts_floor.h"
#include "verify/precedence.h"

namespace lowtide::verify {
namespace {

// Sums of the same numbers in another order.
constexpr double kTolerance = 1e-9;

// When each stream has done what it was given so far, in seconds or in ticks.
template <class Time>
class Timeline {
 public:
  using FromSeconds = Time (*)(const plan::TickScale&, double);

  Timeline(const plan::Plan& plan, FromSeconds from_seconds)
      : plan_(plan),
        scale_(plan),
        from_seconds_(from_seconds),
        out_(plan.slow_tiers.size(), 0),
        in_(out_),
        ends_(plan.storages.size(), 0) {}

  // The end of the step.
  Time run() {
    for (const plan::Step& step : plan_.steps) {
      if (step.kind == plan::Step::Kind::kCompute) {
        ops_ += time(plan_.ops[step.op].predicted_seconds);
      } else if (step.kind == plan::Step::Kind::kWait) {
        ops_ = std::max(ops_, ends_[step.storage]);
      } else if (step.kind != plan::Step::Kind::kFree) {
        transfer(step);
      }
    }
    Time end = ops_;
    for (size_t t = 0; t < out_.size(); ++t) end = std::max({end, out_[t], in_[t]});
    return end + copying_;
  }

 private:
  Time time(double seconds) const { return from_seconds_(scale_, seconds); }

  void transfer(const plan::Step& step) {
    const plan::PlanStorage& storage = plan_.storages[step.storage];
    const auto tier = static_cast<size_t>(storage.slow_tier);
    const plan::SlowTier& link = plan_.slow_tiers[tier];
    const bool stores = step.kind == plan::Step::Kind::kStore;
    const auto bytes = static_cast<double>(storage.bytes);
    Time& stream = stores ? out_[tier] : in_[tier];
    stream = std::max(ops_, stream) + time(link.latency_seconds) +
             time(bytes / (stores ? link.bytes_per_second_out : link.bytes_per_second_in));
    ends_[step.storage] = stream;
    copying_ += time(bytes * link.compute_seconds_per_byte);
  }

  const plan::Plan& plan_;
  const plan::TickScale scale_;
  FromSeconds from_seconds_;
  Time ops_ = 0, copying_ = 0;
  std::vector<Time> out_, in_;          // by tier
  IdVector<PlanStorageId, Time> ends_;  // of the last transfer
};

double seconds_of_step(const plan::Plan& plan) {
  return Timeline<double>(plan, [](const plan::TickScale&, double seconds) { return seconds; })
      .run();
}
// Rounded up, each op and each transfer.
__int128 ticks_of_step(const plan::Plan& plan) {
  return Timeline<__int128>(plan, [](const plan::TickScale& scale,
                                     double seconds) { return __int128{scale.up(seconds)}; })
      .run();
}

void count_runs(const plan::Plan& plan, Report& report) {
  IdVector<PlanOpId, char> ran(plan.ops.size(), 0);
  for (const plan::Step& step : plan.steps) {
    if (step.kind == plan::Step::Kind::kCompute) {
      report.run_seconds += plan.ops[step.op].predicted_seconds;
      if (ran[step.op] && !step.makes.empty()) ++report.reruns;
      ran[step.op] = 1;
    }
    if (step.kind == plan::Step::Kind::kStore)
      report.stored_bytes += plan.storages[step.storage].bytes;
    if (step.kind == plan::Step::Kind::kLoad)
      report.loaded_bytes += plan.storages[step.storage].bytes;
  }
}

// Of a claim only whether it is true: what shows it comes first, and no more is looked for.
int64_t floor_as_claimed(const Precedence& precedence, PlanOpId first) {
  const plan::Claims& claims = precedence.facts.plan.claims;
  const int64_t claimed = claims.floor_bytes.value_or(0);
  if (claims.certificate.floor && needs_backwards(precedence, *claims.certificate.floor, claimed))
    return claimed;
  return floor_bytes(precedence, claimed, first);
}

int64_t whole_floor(const Precedence& precedence) {
  const plan::Claims& claims = precedence.facts.plan.claims;
  const int64_t found = floor_bytes(precedence);
  const int64_t claimed = claims.floor_bytes.value_or(0);
  const bool is_shown = claimed > found && claims.certificate.floor &&
                        needs_backwards(precedence, *claims.certificate.floor, claimed);
  return is_shown ? claimed : found;
}

void check_bytes(const Facts& facts, const FloorAsked& asked, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  const auto compare = [&](Violation kind, std::string_view what, int64_t claimed, int64_t found) {
    if (claimed != found)
      findings.add(kind, fmt::format("{}: {} bytes claimed, {} found", what, claimed, found));
  };
  compare(Violation::kPeak, "peak", claims.peak_bytes, report.peak_bytes);
  compare(Violation::kPeakBefore, "peak of the given order", claims.peak_before_bytes,
          report.peak_before_bytes);
  if (claims.budget_bytes && facts.plan.arena_bytes > *claims.budget_bytes)
    findings.add(Violation::kBudget, fmt::format("an arena of {} bytes for a budget of {}",
                                                 facts.plan.arena_bytes, *claims.budget_bytes));
  const Precedence precedence(facts);
  report.floor_bytes =
      asked.as_claimed ? floor_as_claimed(precedence, asked.first) : whole_floor(precedence);
  if (claims.floor_bytes && *claims.floor_bytes > report.floor_bytes)
    findings.add(Violation::kFloor, fmt::format("a floor of {} bytes claimed, {} found",
                                                *claims.floor_bytes, report.floor_bytes));
  if (!claims.parts_floor) return;
  PartsFloorVerdict in_parts = check_parts_floor(precedence);
  if (!in_parts.finding.empty()) findings.add(Violation::kPartsFloor, std::move(in_parts.finding));
  report.open_parts_floor = std::move(in_parts.open);
}

void check_times(const Facts& facts, Report& report, Findings& findings) {
  const plan::Claims& claims = facts.plan.claims;
  for (const plan::PlanOp& op : facts.plan.ops) report.once_seconds += op.predicted_seconds;
  count_runs(facts.plan, report);
  report.predicted_seconds = seconds_of_step(facts.plan);
  report.exposed_seconds = report.predicted_seconds - report.run_seconds;
  // `scale`: of what is summed. What is not finite is near nothing.
  const auto compare = [&](Violation kind, std::string_view what, double claimed, double found,
                           double scale) {
    if (!std::isfinite(found) || !(std::abs(claimed - found) <= kTolerance * scale))
      findings.add(kind, fmt::format("{}: {} seconds claimed, {} found", what, claimed, found));
  };
  compare(Violation::kOnceSeconds, "all ops once", claims.once_seconds, report.once_seconds,
          report.once_seconds);
  compare(Violation::kSeconds, "the step", claims.predicted_seconds, report.predicted_seconds,
          report.predicted_seconds);
  compare(Violation::kExposedSeconds, "no op runs", claims.exposed_seconds, report.exposed_seconds,
          report.predicted_seconds);
  if (const auto ticks = ticks_of_step(facts.plan); claims.lower_bound_ticks > ticks)
    findings.add(Violation::kTimeBoundAboveTime,
                 fmt::format("a bound of {} ticks above the {} of the step",
                             claims.lower_bound_ticks, static_cast<int64_t>(ticks)));
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
      claims.certificate.peak ? claims.certificate.peak->value_bytes : facts.resident_bytes;
  const char* evidence = claims.certificate.peak ? "the certificate shows" : "are resident";
  if (claims.lower_bound_bytes < certified)
    findings.add(Violation::kBoundBelowCertificate,
                 fmt::format("a bound of {} bytes below the {} that {}", claims.lower_bound_bytes,
                             certified, evidence));
  if (claims.lower_bound_bytes > certified)
    findings.add(Violation::kBoundUncertified,
                 fmt::format("a bound of {} bytes above the {} that {}", claims.lower_bound_bytes,
                             certified, evidence));
  if (!claims.certificate.peak && !facts.plan.ops.empty())
    report.notes.push_back(
        "no certificate: the bound is what is resident, which says little about the order");
}

}  // namespace

void check_claims(const Facts& facts, const FloorAsked& asked, Report& report, Findings& findings) {
  check_bytes(facts, asked, report, findings);
  check_times(facts, report, findings);
  check_bound(facts, report, findings);
}

}  // namespace lowtide::verify
