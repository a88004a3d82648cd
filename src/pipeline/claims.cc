#include "pipeline/claims.h"

#include <algorithm>
#include <utility>

#include "pipeline/write_plan.h"
#include "pipeline/write_steps.h"
#include "plan/tick_scale.h"
#include "remat/bounds/branch_cut.h"
#include "remat/bounds/floor.h"
#include "remat/bounds/time_bound.h"

namespace lowtide::pipeline {
namespace {

// Both list the kinds in the same order.
static_assert(static_cast<int>(plan::ProofRow::kAgainLate) ==
              static_cast<int>(remat::CutRowKind::kAgainLate));
static_assert(static_cast<int>(plan::ProofVariable::kAgain) ==
              static_cast<int>(remat::CutVariableKind::kAgain));

// A plan this close to the bound of one cut is not worth the work of several.
constexpr double kCloseEnough = 1e-4;
// Of a proof by cases: some megabytes of a plan.
constexpr size_t kMostSplits = 2000;

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

  plan::TimeCertificate by_cuts(const remat::MultiCutResult& bound) const {
    plan::TimeCertificate certificate;
    for (const auto& [cut, price] : bound.cuts) certificate.cuts.push_back({op(cut), price});
    for (const auto& [of, ticks] : bound.credits)
      certificate.rerun_multipliers.push_back({0, static_cast<int32_t>(op(of).index()), ticks});
    const auto multipliers = [&](const std::vector<remat::StoreWorth>& worths) {
      std::vector<plan::Multiplier> all;
      for (const remat::StoreWorth& worth : worths)
        all.push_back({static_cast<int32_t>(worth.segment),
                       static_cast<int32_t>(storage(worth.value).index()), worth.ticks});
      return all;
    };
    certificate.store_multipliers = multipliers(bound.worths);
    certificate.copy_multipliers = multipliers(bound.copies);
    bool any = false;
    for (size_t k = 0; k < bound.shares.store.size(); ++k) {
      certificate.shares.push_back({bound.shares.store[k], bound.shares.load[k]});
      any |= certificate.shares.back() != plan::LinkShare{};
    }
    if (!any) certificate.shares.clear();
    return certificate;
  }

  plan::BranchCertificate by_cases(const remat::BranchCutResult& bound) const {
    plan::BranchCertificate certificate;
    for (const remat::SchedOpId cut : bound.cuts) certificate.cuts.push_back(op(cut));
    certificate.unit_ticks = bound.unit_ticks;
    for (const remat::BranchProofNode& from : bound.nodes) {
      plan::ProofNode& node = certificate.nodes.emplace_back();
      node.parent = from.parent;
      if (from.parent >= 0) {
        node.variable = static_cast<plan::ProofVariable>(from.fixed.kind);
        node.cut = static_cast<int32_t>(from.fixed.cut);
        const bool of_storage = from.fixed.kind == remat::CutVariableKind::kStay;
        node.id =
            static_cast<int32_t>(of_storage ? storage(plan::SchedValueId(from.fixed.id)).index()
                                            : op(plan::SchedOpId(from.fixed.id)).index());
        node.value = from.value == 1;
      }
      for (const auto& [row, value] : from.multipliers) {
        plan::ProofMultiplier& m = node.multipliers.emplace_back();
        m.row = static_cast<plan::ProofRow>(row.kind);
        m.cut = static_cast<int32_t>(row.cut);
        if (row.op.valid()) m.op = op(row.op);
        if (row.value.valid()) m.storage = storage(row.value);
        m.divisor = row.divisor;
        m.value = value;
      }
      std::stable_sort(node.multipliers.begin(), node.multipliers.end(),
                       [](const auto& a, const auto& b) { return a.row < b.row; });
    }
    return certificate;
  }

 private:
  plan::PlanStorageId storage(plan::SchedValueId id) const { return plan_id(view_.storage[id]); }
  plan::PlanOpId op(plan::SchedOpId id) const { return plan_id(view_.op[id]); }

  const analysis::ScheduleView& view_;
};

struct Proven {
  int64_t ticks = 0;
  std::optional<plan::TimeCertificate> certificate;
  remat::TimeBound bound;
};

// `enough`: ticks of the whole step, more is not worth the work.
Proven prove(const ClaimInputs& in, const plan::ScheduleProblem& problem, int64_t enough) {
  Proven proven;
  proven.bound = remat::time_bound(problem, {.order = in.order.sequence,
                                             .given_order_too = true,
                                             .several = !in.soon,
                                             .multipliers = true,
                                             .enough_ticks = enough});
  proven.ticks = plan::TickScale(problem).once();
  if (!proven.bound.several) return proven;
  // What the verifier can show of it.
  proven.ticks = proven.bound.several->bound_ticks;
  proven.certificate = CertificateWriter(in.view).by_cuts(*proven.bound.several);
  return proven;
}

// A proof by cases, where it shows more; of a plan that can be faster. True: cut short.
bool claim_by_cases(const ClaimInputs& in, const plan::ScheduleProblem& problem,
                    const remat::TimeBound& bound, plan::Claims& claims) {
  const double goal = claims.predicted_seconds * (1 - kCloseEnough);
  if (plan::TickScale(problem).seconds(claims.lower_bound_ticks) >= goal) return false;
  const remat::BranchCutResult cases =
      remat::branch_cut(problem, bound.by_order,
                        {.limits = in.proof, .goal_seconds = goal, .most_splits = kMostSplits});
  if (!cases.cuts.empty() && cases.bound_ticks > claims.lower_bound_ticks) {
    claims.branch_certificate = CertificateWriter(in.view).by_cases(cases);
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
  Proven proven = prove(in, problem, scale.down(claims.predicted_seconds * (1 - kCloseEnough)));
  if (linked && !in.solution.buffers.moves) {
    const int64_t bound = proven.ticks;
    plan::forbid_transfers(problem);
    proven = prove(in, problem, bound);
    proven.ticks = std::min(proven.ticks, bound);
  }
  if (!proven.certificate) return false;
  claims.time_certificate = std::move(proven.certificate);
  claims.lower_bound_ticks = proven.ticks;
  return !in.soon && !linked && in.proof.max_units > 0 &&
         claim_by_cases(in, problem, proven.bound, claims);
}

// The verifier refuses certificates of more.
bool may_be_checked(const ir::Graph& graph) {
  return graph.op_count() + graph.storage_count() <= plan::kMostTickNodes;
}

}  // namespace

int64_t floor_bytes(const plan::ScheduleProblem& problem, bool transfers) {
  return remat::floor_of(allowed(problem, transfers)).bytes;
}

Claimed make_claims(const ClaimInputs& in) {
  const plan::SequenceProfile& profile = in.solution.profile;
  Claimed result;
  plan::Claims& claims = result.claims;
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
  const plan::TickScale scale(in.view.problem);
  claims.lower_bound_ticks = scale.once();
  if (in.budget_bytes) {
    claims.budget_bytes = in.budget_bytes;
    claims.floor_bytes = floor_bytes(in.view.problem, in.transfers);
    if (claims.predicted_seconds > claims.once_seconds && may_be_checked(in.graph))
      result.cut_short = claim_time_bound(in, claims);
  }
  const double bound =
      scale.bound_seconds(claims.lower_bound_ticks, claims.once_seconds, in.solution.buffers.moves);
  claims.lower_bound_seconds = std::min(bound, claims.predicted_seconds);
  return result;
}

}  // namespace lowtide::pipeline
