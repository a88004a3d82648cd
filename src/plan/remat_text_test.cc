// The .remat form: what it means, and that damaged text gives one-line errors.
#include "plan/remat_text.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace lowtide::plan {
namespace {

constexpr std::string_view kSmall =
    "3 2 100\n"
    "1.5 1\n"
    "2 0\n"
    "0.25 1\n"
    "64 0 2 2 1\n"
    "32 1 1 2\n"
    "1\n"
    "0 2\n";

TEST(RematFile, ReadsCostsFlagsValuesAndEdges) {
  const auto problem = parse_remat_file(kSmall, "a.remat");
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  EXPECT_EQ(problem->resident_bytes, 100);
  ASSERT_EQ(problem->ops.size(), 3u);
  EXPECT_DOUBLE_EQ(problem->ops[SchedOpId(0)].seconds, 1.5e-6);
  EXPECT_TRUE(problem->ops[SchedOpId(0)].may_rerun);
  EXPECT_FALSE(problem->ops[SchedOpId(1)].may_rerun);
  ASSERT_EQ(problem->values.size(), 2u);
  EXPECT_EQ(problem->values[SchedValueId(0)].readers,
            (std::vector<SchedOpId>{SchedOpId(1), SchedOpId(2)}));
  EXPECT_EQ(problem->control,
            (std::vector<std::pair<SchedOpId, SchedOpId>>{{SchedOpId(0), SchedOpId(2)}}));
}

TEST(RematFile, ErrorsNameTheLine) {
  const auto expect_error = [](std::string_view text, std::string_view part) {
    const auto problem = parse_remat_file(text, "a.remat");
    ASSERT_FALSE(problem.has_value()) << text;
    EXPECT_EQ(problem.error().code, ErrorCode::kInput);
    EXPECT_EQ(problem.error().message.rfind("a.remat:", 0), 0u) << problem.error().message;
    EXPECT_NE(problem.error().message.find(part), std::string::npos) << problem.error().message;
    EXPECT_EQ(problem.error().message.find('\n'), std::string::npos);
  };
  expect_error("", "first line");
  expect_error("1 0\n", "resident bytes is ''");
  expect_error("1 0 0 0\n", "more than");
  expect_error("2 0 0\n1 1\n", "2 ops are announced, 1 are there");
  expect_error("1 0 0\n-1 1\n0\n", ":2: the cost is negative");
  expect_error("1 0 0\nnan 1\n0\n", "finite");
  expect_error("1 0 0\n1 2\n0\n", "flag");
  expect_error("1 0 0\n1\n0\n", "flag is ''");
  expect_error("1 1 0\n1 1\n5 1 0\n0\n", ":3: producer is '1'");
  expect_error("1 1 0\n1 1\n", "1 values are announced");
  expect_error("1 0 0\n1 1\n", "number of edges is missing");
  expect_error("2 0 0\n1 1\n1 1\n1\n", "1 edges are announced, 0 are there");
  expect_error("2 0 0\n1 1\n1 1\n1\n0 2\n", ":5: second op is '2'");
  expect_error("2 0 0\n1 1\n1 1\n1\n1 0\n", "control edge 1 -> 0");
  expect_error("1 0 0\n1 1\n0\n0\n", "after the last edge");
  expect_error("4000000000 4000000000 0\n", "announced");
  expect_error("0 0 9999999999999999999\n", "resident bytes");
}

TEST(RematFile, DamagedTextNeverParsesIntoAnInvalidProblem) {
  Rng rng(61);
  int parsed = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text(kSmall);
    for (uint64_t k = 1 + rng.below(2); k > 0; --k) {
      const size_t at = rng.below(text.size());
      text[at] = rng.below(2) == 0 ? static_cast<char>(rng.below(256))
                                   : static_cast<char>('0' + rng.below(10));
    }
    const auto problem = parse_remat_file(text, "x");
    if (!problem) {
      EXPECT_EQ(problem.error().message.find('\n'), std::string::npos);
      continue;
    }
    ++parsed;
    EXPECT_TRUE(check(*problem).has_value());
  }
  EXPECT_GT(parsed, 100);
}

}  // namespace
}  // namespace lowtide::plan
