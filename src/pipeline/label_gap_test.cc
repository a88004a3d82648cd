#include "pipeline/label_gap.h"

#include <gtest/gtest.h>

#include <tuple>

namespace lowtide::pipeline {
namespace {

constexpr int64_t kBudgetOfGap = 1000;

// Each op once 10 s and 1,400 bytes; at least `least` s within the budget.
LabelState state(double least) {
  return {.once_seconds = 10, .once_peak_bytes = kBudgetOfGap + 400, .least_seconds = least};
}

LabelState found(double least, double seconds) {
  LabelState made = state(least);
  made.candidate.fits = true;
  made.candidate.seconds = seconds;
  return made;
}

TEST(LabelGap, BeforeAnythingIsFoundTheBoundIsAllThatIsExpected) {
  for (const bool has_link : {false, true}) {
    const LabelGap gap(kBudgetOfGap, has_link);
    EXPECT_EQ(gap.expected_seconds(state(12), 1), 12);
    EXPECT_EQ(gap.moving_seconds(state(12)), 0);
  }
}

TEST(LabelGap, TheLeastRatioOfWhatWasFoundToWhatWasProvenCounts) {
  LabelGap gap(kBudgetOfGap, false);
  gap.learn(found(12, 16));  // three times what is proven
  EXPECT_DOUBLE_EQ(gap.expected_seconds(state(11), 1), 13);
  EXPECT_DOUBLE_EQ(gap.expected_seconds(state(11), 0.5), 12);
  gap.learn(found(12, 13));  // one and a half times
  EXPECT_DOUBLE_EQ(gap.expected_seconds(state(11), 1), 11.5);
  gap.learn(found(12, 16));
  EXPECT_DOUBLE_EQ(gap.expected_seconds(state(11), 1), 11.5);
  gap.learn(found(10, 14));  // nothing was proven
  EXPECT_DOUBLE_EQ(gap.expected_seconds(state(11), 1), 11.5);
}

TEST(LabelGap, WithALinkBytesThatAreTooMuchHaveTheirPrice) {
  LabelGap gap(kBudgetOfGap, true);
  gap.learn(found(10, 18));  // 8 s for 400 bytes
  LabelState half = state(10);
  half.once_peak_bytes = kBudgetOfGap + 200;
  EXPECT_DOUBLE_EQ(gap.moving_seconds(half), 4);
  EXPECT_DOUBLE_EQ(gap.expected_seconds(half, 0.5), 12);
  gap.learn(found(10, 14));
  EXPECT_DOUBLE_EQ(gap.moving_seconds(half), 2);
  EXPECT_EQ(gap.moving_seconds(found(10, 14)), 0) << "its schedule is known";
  LabelState fitting = found(10, 10);
  fitting.once_peak_bytes = kBudgetOfGap;
  gap.learn(fitting);  // says nothing of bytes
  EXPECT_DOUBLE_EQ(gap.moving_seconds(half), 2);
}

TEST(LabelGap, AKeyIsGuessedByTheScheduleThatIsKnownOrByBytes) {
  LabelGap gap(kBudgetOfGap, true);
  EXPECT_EQ(gap.guessed_key(state(12)), state(12).key());
  gap.learn(found(10, 18));
  LabelState half = state(10);
  half.once_peak_bytes = kBudgetOfGap + 200;
  EXPECT_DOUBLE_EQ(std::get<1>(gap.guessed_key(half)), 14);
  half.least_seconds = 15;
  EXPECT_DOUBLE_EQ(std::get<1>(gap.guessed_key(half)), 15);
  EXPECT_DOUBLE_EQ(std::get<1>(gap.guessed_key(found(11, 13))), 13);
}

}  // namespace
}  // namespace lowtide::pipeline
