// The naive judge on a plan and on changed copies of it.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "plan/plan.h"
#include "verify/testing/definition.h"
#include "verify/testing/mutate.h"

namespace lowtide {

// Expects the plan to be valid by definition, and judge and verifier to agree on `copies` changed
// ones; how many of these both refuse.
inline int judged(const plan::Plan& plan, int copies, uint64_t seed) {
  std::string why;
  EXPECT_TRUE(verify::valid_by_definition(plan, &why, &plan)) << why;
  if (plan.claims.certificate.time) return 0;  // the naive judge takes that from the plan alone
  const verify::Agreement agreement = verify::compare_on_mutations(plan, copies, 1'000 * seed);
  for (const std::string& disagreement : agreement.disagreements) ADD_FAILURE() << disagreement;
  return static_cast<int>(agreement.wrong);
}

}  // namespace lowtide
