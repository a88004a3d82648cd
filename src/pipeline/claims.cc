#include "pipeline/claims.h"

#include <algorithm>
#include <utility>

#include "pipeline/certificate.h"
#include "plan/tick_scale.h"
#include "remat/bounds/branch_cut.h"
#include "remat/bounds/time_bound.h"

namespace lowtide::pipeline {
namespace {

// Tuning; each value beside half and twice of it: docs/tuning.md.
struct ClaimTuning {
  // Of the time: a plan this close to the bound of one cut is not worth the work of several.
  double close_enough = 1e-4;
  size_t most_splits = 2000;  // of a proof by cases: some megabytes of a plan
};
constexpr ClaimTuning kClaims;

bool once_and_still(const plan::SequenceProfile& profile) {
  return profile.reruns == 0 && profile.stored_bytes == 0 && profile.loaded_bytes == 0;
}

plan::ScheduleProblem allowed(const plan::ScheduleProblem& problem, bool transfers) {
  plan::ScheduleProblem result = problem;
  if (!transfers) plan::forbid_transfers(result);
  return result;
}

struct Proven {
  int64_t ticks = 0;
  plan::ProblemCertificate certificate;
  remat::TimeBound bound;
};

// What the verifier can show of a bound.
Proven shown(const plan::ScheduleProblem& problem, remat::TimeBound bound) {
  Proven proven;
  proven.bound = std::move(bound);
  proven.ticks = plan::TickScale(problem).once();
  if (!proven.bound.several) return proven;
  proven.ticks = proven.bound.several->bound_ticks;
  proven.certificate = proven.bound.several->certificate;
  return proven;
}

// `enough`: ticks of the whole step, more is not worth the work.
Proven prove(const ClaimInputs& in, const plan::ScheduleProblem& problem, int64_t enough) {
  remat::TimeBoundOptions asked = bound_to_claim(in.order.sequence);
  asked.several = in.several_cuts && !in.soon;
  if (!in.soon) asked.limits = in.proof.with_units(asked.limits.max_units);
  asked.enough_ticks = enough;
  return shown(problem, remat::time_bound(problem, asked));
}

// The search's answer, unless it was stopped and there is time for another.
bool is_asked(const ClaimInputs& in) {
  return in.bound != nullptr && (in.soon || !in.bound->cut_short());
}

// What is told of a proof, beside what the plan claims already.
std::function<void(double, double)> tell_proof(const ClaimInputs& in, const plan::Claims& claims,
                                               double proven_seconds) {
  if (!in.progress) return {};
  return [&in, &claims, proven_seconds](double lower_bound_seconds, double share) {
    plan::Progress progress;
    progress.stage = plan::SearchStage::kProof;
    progress.budget_bytes = *in.budget_bytes;
    progress.seconds = claims.predicted_seconds;
    progress.peak_bytes = claims.peak_bytes;
    progress.lower_bound_seconds =
        std::min(std::max(proven_seconds, lower_bound_seconds), claims.predicted_seconds);
    progress.share = share;
    in.progress(progress);
  };
}

// A proof by cases, where it shows more; of a plan that can be faster. True: cut short.
bool claim_by_cases(const ClaimInputs& in, const plan::ScheduleProblem& problem,
                    const remat::TimeBound& bound, plan::Claims& claims) {
  const double goal = claims.predicted_seconds * (1 - kClaims.close_enough);
  const plan::TickScale scale(problem);
  if (scale.seconds(claims.lower_bound_ticks) >= goal) return false;
  const double proven = scale.bound_seconds(claims.lower_bound_ticks, claims.once_seconds, false);
  const remat::BranchCutResult cases =
      remat::branch_cut(problem, bound.by_order,
                        {.limits = in.proof,
                         .goal_seconds = goal,
                         .most_splits = kClaims.most_splits,
                         .progress = tell_proof(in, claims, proven)});
  if (cases.certificate.cases && cases.bound_ticks > claims.lower_bound_ticks) {
    claims.certificate.cases = in_plan(in.graph, in.view, cases.certificate).cases;
    claims.lower_bound_ticks = cases.bound_ticks;
  }
  return cases.cut_short;
}

// The bound on the time. A plan that moves nothing names no slow tier, so what it can show speaks
// of schedules that move nothing; it claims that only as far as it holds for the others, too. True:
// cut short.
bool claim_time_bound(const ClaimInputs& in, plan::Claims& claims) {
  plan::ScheduleProblem problem = allowed(in.view.problem, in.transfers);
  problem.budget_bytes = in.budget_bytes;
  const bool linked = problem.link.has_value();
  const plan::TickScale scale(problem);
  Proven proven =
      is_asked(in)
          ? shown(problem, *in.bound)
          : prove(in, problem, scale.down(claims.predicted_seconds * (1 - kClaims.close_enough)));
  if (in.bound != nullptr && in.bound->bound_ticks > proven.bound.bound_ticks)
    proven = shown(problem, *in.bound);  // there was no time for as much again
  if (linked && !in.solution.buffers.moves) {
    const int64_t bound = proven.ticks;
    plan::forbid_transfers(problem);
    proven = prove(in, problem, bound);
    proven.ticks = std::min(proven.ticks, bound);
  }
  if (!proven.certificate.time) return proven.bound.cut_short();
  claims.certificate.time = in_plan(in.graph, in.view, proven.certificate).time;
  claims.lower_bound_ticks = proven.ticks;
  const bool by_cases = !in.soon && !linked && in.proof.max_units > 0;
  const bool cut_short = by_cases && claim_by_cases(in, problem, proven.bound, claims);
  return cut_short || proven.bound.cut_short();
}

// The verifier refuses certificates of more.
bool may_be_checked(const ir::Graph& graph) {
  return graph.op_count() + graph.storage_count() <= plan::kMostTickNodes;
}

}  // namespace

remat::TimeBoundOptions bound_to_claim(std::span<const plan::SchedOpId> order) {
  return {.order = order, .given_order_too = true, .multipliers = true};
}

remat::Floor proven_floor(const plan::ScheduleProblem& problem, bool transfers,
                          const remat::FloorQuestion& question) {
  return remat::floor_of(allowed(problem, transfers), question);
}

Claimed make_claims(const ClaimInputs& in) {
  const plan::SequenceProfile& profile = in.solution.profile;
  Claimed result;
  plan::Claims& claims = result.claims;
  claims.peak_bytes = profile.peak_bytes;
  claims.peak_before_bytes = in.peak_before_bytes;
  claims.lower_bound_bytes = in.view.problem.resident_bytes;
  claims.certificate = in_plan(in.graph, in.view, in.order.certificate);
  if (claims.certificate.peak) claims.lower_bound_bytes = claims.certificate.peak->value_bytes;
  claims.order_proven = once_and_still(profile) && claims.peak_bytes == claims.lower_bound_bytes;
  claims.once_seconds = profile.once_seconds;
  claims.predicted_seconds = profile.seconds;
  claims.exposed_seconds = profile.exposed_seconds;
  const plan::TickScale scale(in.view.problem);
  claims.lower_bound_ticks = scale.once();
  if (in.budget_bytes) {
    claims.budget_bytes = in.budget_bytes;
    const int64_t most = in.floor_bytes.value_or(remat::FloorQuestion::kAny);
    const remat::Floor floor =
        in.floor != nullptr
            ? *in.floor
            : proven_floor(in.view.problem, in.transfers, {.enough = most, .first = in.floor_op});
    result.floor_op = floor.op;
    claims.floor_bytes = std::min(floor.bytes, most);
    claims.certificate.floor = in_plan(in.graph, in.view, {.floor = floor.way}).floor;
    if (claims.predicted_seconds > claims.once_seconds && may_be_checked(in.graph))
      result.cut_short = claim_time_bound(in, claims);
  }
  const double bound =
      scale.bound_seconds(claims.lower_bound_ticks, claims.once_seconds, in.solution.buffers.moves);
  claims.lower_bound_seconds = std::min(bound, claims.predicted_seconds);
  return result;
}

}  // namespace lowtide::pipeline
