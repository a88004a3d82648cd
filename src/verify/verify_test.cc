#include "verify/verify.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>

#include "support/long_checks.h"
#include "verify/testing/definition.h"
#include "verify/testing/example_plans.h"
#include "verify/testing/mutate.h"

namespace lowtide::verify {
namespace {

using plan::PlanOpId;

// The heart of it: whatever is changed in a right plan, the verifier and the definition say the
// same.
TEST(VerifyTest, AgreesWithTheDefinitionOnChangedPlans) {
  std::map<std::string, std::pair<int, int>> counts;  // by change: still valid, wrong
  std::map<Violation, int> found;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(some_of(150, 3)); ++seed) {
    Rng rng(seed);
    plan::Plan good = lower(random_graph(rng, static_cast<int>(2 + seed % 12)), rng);
    if (seed % 3 > 0) good = rerun_and_move(good, rng, 16);
    for (int i = 0; i < 200; ++i) {
      std::string what, why;
      const plan::Plan changed = mutate(good, rng, &what);
      const bool valid = valid_by_definition(changed, &why);
      const Report report = verify(changed);
      ASSERT_EQ(report.ok(), valid)
          << "seed " << seed << ", change " << i << " (" << what << "): the definition says '"
          << why << "', the verifier '" << (report.ok() ? "ok" : report.findings[0].message) << "'";
      ++(valid ? counts[what].first : counts[what].second);
      for (const Finding& finding : report.findings) ++found[finding.kind];
    }
  }
  for (std::string_view change : mutation_names())
    fmt::print("{:22} {:5} valid {:5} wrong\n", change, counts[std::string(change)].first,
               counts[std::string(change)].second);
  for (int i = 0; i < kViolations; ++i)
    fmt::print("{:26} {:5}\n", name(static_cast<Violation>(i)), found[static_cast<Violation>(i)]);
  EXPECT_EQ(counts.size(), mutation_names().size());
  int valid = 0, wrong = 0;
  for (const auto& [change, count] : counts) {
    valid += count.first;
    wrong += count.second;
  }
  RecordProperty("mutations", valid + wrong);
  RecordProperty("still_valid", valid);
  RecordProperty("wrong_and_found", wrong);
  RecordProperty("kinds_of_change", static_cast<int>(counts.size()));
}

TEST(VerifyTest, AgreesOnLargerPlansWhereStatesAreTooManyToTry) {
  int valid = 0, wrong = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Rng rng(seed);
    LowerOptions options;
    options.certificate = false;
    const plan::Plan plan = lower(random_graph(rng, 120), rng, options);
    const Agreement agreement = compare_on_mutations(plan, 200, seed * 1000);
    EXPECT_TRUE(agreement.disagreements.empty())
        << "plan " << seed << ": " << agreement.disagreements[0];
    valid += agreement.valid;
    wrong += agreement.wrong;
  }
  EXPECT_GT(valid, 60);
  EXPECT_GT(wrong, 400);
}

TEST(VerifyTest, ThousandsOfOps) {
  Rng rng(1);
  LowerOptions options;
  options.certificate = false;
  plan::Plan plan = lower(random_graph(rng, 2300), rng, options);
  // A state that is not the cheapest (everything before the op in the given order): the flow is run
  // all the same.
  const PlanOpId middle(plan.ops.size() / 2);
  plan.claims.certificate.peak.emplace().op = middle;
  for (PlanOpId o : plan.ops.ids())
    if (o < middle) plan.claims.certificate.peak->prefix.push_back(o);
  const Report report = verify(plan);
  EXPECT_TRUE(report.has(Violation::kCertificateValue));
  EXPECT_GT(report.cut_bytes, 0);
  plan.claims.certificate.peak.reset();
  EXPECT_TRUE(verify(plan).ok());
}

}  // namespace
}  // namespace lowtide::verify
