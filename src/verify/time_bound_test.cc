// What a certificate shows is true whatever it says: random prices and multipliers on random chains
// of ops never show more than plans take that stay within the budget, with reruns, transfers and
// residents that are elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "plan/tick_scale.h"
#include "verify/precedence.h"
#include "verify/testing/example_plans.h"

namespace lowtide::verify {
namespace {

constexpr auto kParts = static_cast<double>(plan::kTickParts);

// Ops, each a descendant of the one before.
std::vector<PlanOpId> random_chain(const Precedence& precedence, Rng& rng, size_t most) {
  std::vector<PlanOpId> chain;
  for (PlanOpId op : precedence.facts.plan.ops.ids()) {
    if (chain.size() == most || rng.below(3) == 0 || precedence.facts.is_view_op[op]) continue;
    if (chain.empty() || precedence.descendants(chain.back())[op]) chain.push_back(op);
  }
  return chain;
}

plan::TimeCuts random_certificate(const plan::Plan& plan, Rng& rng) {
  const Facts facts(plan);
  plan::TimeCuts certificate;
  const bool linked = !plan.slow_tiers.empty();
  const plan::TickScale scale(plan);
  const auto ticks = [&](double seconds) { return std::llround(seconds * scale.per_second()); };
  for (PlanOpId op : random_chain(Precedence(facts), rng, 4))
    certificate.cuts.push_back(
        {op, ticks(kParts * rng.uniform() * (rng.below(3) ? 0.01 : 0.0005))});
  if (linked && rng.below(3))
    for (size_t k = 0; k <= certificate.cuts.size(); ++k)
      certificate.shares.push_back({rng.below(2) ? rng.between(0, plan::kTickParts / 2) : 0,
                                    rng.below(2) ? rng.between(0, plan::kTickParts / 2) : 0});
  if (certificate.cuts.empty() || rng.below(3) == 0) return certificate;
  for (PlanOpId op : plan.ops.ids())
    if (rng.below(2))
      certificate.rerun_multipliers.push_back(
          {0, static_cast<int32_t>(op.index()), ticks(2 * rng.uniform())});
  for (PlanStorageId s : plan.storages.ids())
    if (rng.below(2))
      certificate.store_multipliers.push_back(
          {static_cast<int32_t>(rng.below(certificate.cuts.size())),
           static_cast<int32_t>(s.index()), ticks(rng.uniform())});
  for (PlanStorageId s : plan.storages.ids())
    if (linked && rng.below(3) == 0)
      certificate.copy_multipliers.push_back(
          {static_cast<int32_t>(rng.below(certificate.cuts.size())),
           static_cast<int32_t>(s.index()), ticks((rng.uniform() - 0.5) / 4)});
  return certificate;
}

double shown_by(plan::Plan plan, const plan::TimeCuts& certificate, int64_t budget) {
  plan.claims.certificate.time = certificate;
  plan.claims.budget_bytes = budget;
  Report report;
  Findings findings(report.findings);
  check_time_certificate(Facts(plan), report, findings);
  return report.time_bound_seconds;
}

bool moves(const plan::Plan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [](const plan::Step& step) {
    return step.kind == plan::Step::Kind::kStore || step.kind == plan::Step::Kind::kLoad;
  });
}

TEST(TimeBoundTest, NothingIsShownThatAPlanDisproves) {
  int with_reruns = 0, moving = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    plan::Plan plan =
        lower(random_graph(rng, static_cast<int>(4 + seed % 12)), rng, {.certificate = false});
    if (seed % 4 > 0) plan = rerun_and_move(plan, rng, 30);
    if (!moves(plan)) plan.slow_tiers.clear();
    const double seconds = plan.claims.predicted_seconds;
    with_reruns += seconds > plan.claims.once_seconds && !moves(plan);
    moving += moves(plan);
    for (int i = 0; i < 40; ++i) {
      const double shown = shown_by(plan, random_certificate(plan, rng), plan.claims.peak_bytes);
      ASSERT_LE(shown, seconds * (1 + 1e-9)) << "seed " << seed << ", certificate " << i;
    }
  }
  EXPECT_GT(with_reruns, 10);
  EXPECT_GT(moving, 50);
}

TEST(TimeBoundTest, CutsMustFollowOneAnother) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng(seed);
    plan::Plan plan = lower(random_graph(rng, 12), rng, {.certificate = false});
    plan::TimeCuts certificate = random_certificate(plan, rng);
    if (certificate.cuts.size() < 2) continue;
    plan.claims.budget_bytes = plan.arena_bytes;
    plan.claims.certificate.time = certificate;
    EXPECT_TRUE(verify(plan).ok()) << "seed " << seed;
    std::swap(plan.claims.certificate.time->cuts[0], plan.claims.certificate.time->cuts[1]);
    EXPECT_TRUE(verify(plan).has(Violation::kTimeCertificate)) << "seed " << seed;
    plan.claims.certificate.time = certificate;
    plan.claims.certificate.time->cuts.resize(65, certificate.cuts[0]);
    EXPECT_TRUE(verify(plan).has(Violation::kTimeCertificate)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lowtide::verify
