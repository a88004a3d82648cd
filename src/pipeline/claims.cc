#include "pipeline/claims.h"

#include "pipeline/write_plan.h"
#include "remat/closure_cut.h"
#include "remat/floor.h"

namespace lowtide::pipeline {
namespace {

bool once_and_still(const plan::SequenceProfile& profile) {
  return profile.reruns == 0 && profile.stored_bytes == 0 && profile.loaded_bytes == 0;
}

plan::ScheduleProblem allowed(const plan::ScheduleProblem& problem, bool transfers) {
  plan::ScheduleProblem result = problem;
  if (!transfers) result.link.reset();
  return result;
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
  return claims;
}

}  // namespace lowtide::pipeline
