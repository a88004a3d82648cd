// Stays of a plan by hand, and of random right plans: they are those that the verifier's replay
// sees, and what is present at each step follows from them.
#include "report/stays.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "report/profile.h"
#include "report/testing/small_plans.h"
#include "verify/facts.h"
#include "verify/testing/example_plans.h"

namespace lowtide::report {
namespace {

using Place = std::tuple<uint32_t, int64_t, size_t, size_t>;  // storage, address, begin, end

std::vector<Place> places_of(const std::vector<Stay>& stays) {
  std::vector<Place> places;
  for (const Stay& stay : stays)
    places.emplace_back(stay.storage.index(), stay.address, stay.begin, stay.end);
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<Place> places_by_verifier(const Plan& plan) {
  const verify::Facts facts(plan);
  verify::Report report;
  std::vector<verify::Finding> found;
  verify::Findings findings(found);
  const verify::Lives lives = verify::replay(facts, report, findings);
  EXPECT_TRUE(found.empty()) << found[0].message;
  std::vector<Place> places;
  for (const verify::Lives::Stay& stay : lives.stays)
    places.emplace_back(stay.storage.index(), stay.address, static_cast<size_t>(stay.begin),
                        static_cast<size_t>(stay.end));
  std::sort(places.begin(), places.end());
  return places;
}

TEST(Stays, OfAPlanByHand) {
  const Plan plan = plan_with_a_rerun();
  const std::vector<Stay> stays = stays_of(plan);
  const size_t all = plan.steps.size();
  ASSERT_EQ(stays.size(), 8u);
  EXPECT_EQ(stays[1], (Stay{PlanStorageId(1), 64, 0, all, StayBegin::kResident, -1}));
  EXPECT_EQ(stays[4], (Stay{PlanStorageId(4), 256, 2, 3, StayBegin::kMade, -1}));
  EXPECT_EQ(stays[6], (Stay{PlanStorageId(4), 448, 5, all, StayBegin::kMadeAgain, -1}));
  EXPECT_EQ(bytes_of(plan, stays), (std::vector<int64_t>{192, 256, 320, 256, 320, 384, 448, 448}));
}

TEST(Stays, AnHeirNamesWhoseBufferItTookOver) {
  Plan plan = training_plan();
  plan.steps[4].makes[0].reuses = PlanStorageId(5);  // plain over gradient
  const std::vector<Stay> stays = stays_of(plan);
  ASSERT_EQ(stays.size(), 7u);
  EXPECT_EQ(stays[5].end, 4u);
  EXPECT_EQ(stays[6].took_over, 5);
  EXPECT_EQ(bytes_of(plan, stays)[4], bytes_of(plan, stays)[3]);
}

TEST(Stays, AreThoseOfTheVerifiersReplay) {
  size_t compared = 0, taken_over = 0, again = 0, loaded = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Rng rng(seed);
    Plan plan = verify::lower(verify::random_graph(rng, static_cast<int>(3 + seed % 12)), rng,
                              {.certificate = false});
    if (seed % 3 > 0) plan = verify::rerun_and_move(plan, rng, 20);
    const std::vector<Stay> stays = stays_of(plan);
    ASSERT_EQ(places_of(stays), places_by_verifier(plan)) << "seed " << seed;
    const std::vector<int64_t> bytes = bytes_of(plan, stays);
    const MemoryProfile profile = profile_planned(plan);
    for (size_t i = 0; i < profile.step_bytes.size(); ++i)
      ASSERT_EQ(bytes[profile.plan_steps[i]], profile.step_bytes[i]) << "seed " << seed;
    for (const Stay& stay : stays) {
      ++compared;
      taken_over += stay.took_over >= 0;
      again += stay.why == StayBegin::kMadeAgain;
      loaded += stay.why == StayBegin::kLoaded;
      if (stay.took_over < 0) continue;
      const Stay& giver = stays[static_cast<size_t>(stay.took_over)];
      EXPECT_EQ(giver.end, stay.begin);
      EXPECT_EQ(giver.address, stay.address);
    }
  }
  EXPECT_GT(compared, 500u);
  EXPECT_GT(taken_over, 20u);
  EXPECT_GT(again, 20u);
  EXPECT_GT(loaded, 20u);
}

}  // namespace
}  // namespace lowtide::report
