#include "pipeline/claims.h"

#include <algorithm>
#include <utility>

#include "pipeline/write_plan.h"
#include "pipeline/write_steps.h"
#include "remat/closure_cut.h"
#include "remat/floor.h"
#include "remat/multi_cut.h"

namespace lowtide::pipeline {
namespace {

// A plan this close to the bound of one cut is not worth the work of several.
constexpr double kCloseEnough = 1e-4;

bool once_and_still(const plan::SequenceProfile& profile) {
  return profile.reruns == 0 && profile.stored_bytes == 0 && profile.loaded_bytes == 0;
}

plan::ScheduleProblem allowed(const plan::ScheduleProblem& problem, bool transfers) {
  plan::ScheduleProblem result = problem;
  if (!transfers) plan::forbid_transfers(result);
  return result;
}

// From the ids and units of the searches to those of plans.
class CertificateWriter {
 public:
  explicit CertificateWriter(const analysis::ScheduleView& view) : view_(view) {}

  plan::TimeCertificate one_cut(const remat::CutBoundResult& bound) const {
    plan::TimeCertificate certificate;
    certificate.cuts = {{op(*bound.op), bound.price}};
    const auto rest = [](int64_t share) {
      return static_cast<double>(remat::kOne - share) / static_cast<double>(remat::kOne);
    };
    const plan::LinkShare before{.store = rest(bound.prices.before)};
    const plan::LinkShare after{.load = rest(bound.prices.after)};
    if (before.store > 0 || after.load > 0) certificate.shares = {before, after};
    return certificate;
  }

  plan::TimeCertificate several_cuts(const remat::MultiCutResult& bound) const {
    plan::TimeCertificate certificate;
    const auto seconds = [&](int64_t ticks) {
      return static_cast<double>(ticks) / bound.ticks_per_second;
    };
    for (const auto& [cut, price] : bound.cuts)
      certificate.cuts.push_back({op(cut), seconds(price) / static_cast<double>(remat::kOne)});
    for (const auto& [of, ticks] : bound.credits)
      certificate.rerun_multipliers.push_back(
          {0, static_cast<int32_t>(op(of).index()), seconds(ticks)});
    const auto multipliers = [&](const std::vector<remat::StoreWorth>& worths) {
      std::vector<plan::Multiplier> all;
      for (const remat::StoreWorth& worth : worths)
        all.push_back({static_cast<int32_t>(worth.segment),
                       static_cast<int32_t>(plan_id(view_.storage[worth.value]).index()),
                       seconds(worth.ticks)});
      return all;
    };
    certificate.store_multipliers = multipliers(bound.worths);
    certificate.copy_multipliers = multipliers(bound.copies);
    const auto share = [](int64_t of_link) {
      return static_cast<double>(of_link) / static_cast<double>(remat::kOne);
    };
    bool any = false;
    for (size_t k = 0; k < bound.shares.store.size(); ++k) {
      certificate.shares.push_back({share(bound.shares.store[k]), share(bound.shares.load[k])});
      any |= certificate.shares.back() != plan::LinkShare{};
    }
    if (!any) certificate.shares.clear();
    return certificate;
  }

 private:
  plan::PlanOpId op(plan::SchedOpId id) const { return plan_id(view_.op[id]); }

  const analysis::ScheduleView& view_;
};

struct Proven {
  double lower_bound_seconds = 0;
  std::optional<plan::TimeCertificate> certificate;
};

Proven prove(const ClaimInputs& in, const plan::ScheduleProblem& problem,
             double predicted_seconds) {
  const CertificateWriter writer(in.view);
  remat::CutBoundResult single = remat::closure_cut(problem, {.order = in.order.sequence});
  // Where memory binds in the incoming order may prove more.
  remat::CutBoundResult other = remat::closure_cut(problem);
  if (other.lower_bound_seconds > single.lower_bound_seconds) single = std::move(other);
  Proven proven{single.lower_bound_seconds, {}};
  if (!single.op || !single.feasible) return proven;
  proven.certificate = writer.one_cut(single);
  if (in.soon || proven.lower_bound_seconds >= predicted_seconds * (1 - kCloseEnough))
    return proven;
  const remat::MultiCutResult several =
      remat::multi_cut(problem, single, {.order = in.order.sequence});
  if (several.lower_bound_seconds <= single.lower_bound_seconds) return proven;
  return {several.lower_bound_seconds, writer.several_cuts(several)};
}

// The bound on the time. A plan that moves nothing names no slow tier, so what it can show speaks
// of schedules that move nothing; it claims that only as far as it holds for the others, too.
void claim_time_bound(const ClaimInputs& in, plan::Claims& claims) {
  plan::ScheduleProblem problem = allowed(in.view.problem, in.transfers);
  problem.budget_bytes = in.budget_bytes;
  Proven proven = prove(in, problem, claims.predicted_seconds);
  if (problem.link && !in.solution.buffers.moves) {
    const double bound = proven.lower_bound_seconds;
    plan::forbid_transfers(problem);
    proven = prove(in, problem, bound);
    proven.lower_bound_seconds = std::min(proven.lower_bound_seconds, bound);
  }
  if (!proven.certificate) return;
  claims.time_certificate = std::move(proven.certificate);
  claims.lower_bound_seconds = proven.lower_bound_seconds;
}

}  // namespace

int64_t floor_bytes(const plan::ScheduleProblem& problem, bool transfers) {
  return remat::floor_of(allowed(problem, transfers)).bytes;
}

plan::Claims make_claims(const ClaimInputs& in) {
  const plan::SequenceProfile& profile = in.solution.profile;
  plan::Claims claims;
  claims.peak_bytes = profile.peak_bytes;
  claims.peak_before_bytes = in.peak_before_bytes;
  claims.lower_bound_bytes = in.view.problem.resident_bytes;
  if (in.order.cut) {
    claims.certificate = write_certificate(in.graph, in.view, *in.order.cut);
    claims.lower_bound_bytes = claims.certificate->value_bytes;
  }
  claims.order_proven = once_and_still(profile) && claims.peak_bytes == claims.lower_bound_bytes;
  claims.once_seconds = profile.once_seconds;
  claims.predicted_seconds = profile.seconds;
  claims.exposed_seconds = profile.exposed_seconds;
  claims.lower_bound_seconds = claims.once_seconds;
  if (!in.budget_bytes) return claims;
  claims.budget_bytes = in.budget_bytes;
  claims.floor_bytes = floor_bytes(in.view.problem, in.transfers);
  if (claims.predicted_seconds > claims.once_seconds) claim_time_bound(in, claims);
  return claims;
}

}  // namespace lowtide::pipeline
