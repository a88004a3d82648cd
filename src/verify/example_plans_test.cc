// That the plans made for tests are right: both judges, the verifier and the definition, take them.
#include "verify/testing/example_plans.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "plan/plan_check.h"
#include "verify/testing/definition.h"
#include "verify/verify.h"

namespace lowtide::verify {
namespace {

TEST(ExamplePlansTest, BothJudgesAcceptRerunsAndMoves) {
  int reruns = 0, moves = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const plan::Plan once = lower(random_graph(rng, static_cast<int>(4 + seed % 11)), rng);
    const plan::Plan plan = rerun_and_move(once, rng, 20, &reruns, &moves);
    const Report report = verify(plan);
    ASSERT_TRUE(report.ok()) << "seed " << seed << ": " << name(report.findings[0].kind) << ": "
                             << report.findings[0].message;
    std::string why;
    ASSERT_TRUE(valid_by_definition(plan, &why)) << "seed " << seed << ": " << why;
  }
  fmt::print("{} reruns, {} moves\n", reruns, moves);
  EXPECT_GT(reruns, 80);
  EXPECT_GT(moves, 300);
}

TEST(ExamplePlansTest, BothJudgesAcceptThem) {
  int with_certificate = 0, proven = 0, reused = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Rng rng(seed);
    const plan::Plan plan = lower(random_graph(rng, static_cast<int>(1 + seed % 14)), rng);
    ASSERT_TRUE(plan::check(plan).has_value())
        << "seed " << seed << ": " << plan::check(plan).error().message;
    const Report report = verify(plan);
    ASSERT_TRUE(report.ok()) << "seed " << seed << ": " << name(report.findings[0].kind) << ": "
                             << report.findings[0].message;
    std::string why;
    ASSERT_TRUE(valid_by_definition(plan, &why)) << "seed " << seed << ": " << why;
    with_certificate += plan.claims.certificate.peak.has_value();
    proven += plan.claims.order_proven;
    for (const plan::Step& step : plan.steps)
      for (const plan::Placement& made : step.makes) reused += made.reuses.valid();
  }
  fmt::print("{} certificates, {} proven, {} reused in place\n", with_certificate, proven, reused);
  EXPECT_GT(with_certificate, 300);
  EXPECT_GT(proven, 20);
  EXPECT_GT(reused, 100);
}

}  // namespace
}  // namespace lowtide::verify
