#include "plan/pack_text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"

namespace lowtide::plan {
namespace {

std::string message(std::string_view text) {
  const auto problem = parse_pack_csv(text, "x.csv");
  if (problem) return "no error";
  EXPECT_EQ(problem.error().code, ErrorCode::kInput);
  EXPECT_EQ(problem.error().message.find('\n'), std::string::npos);
  return problem.error().message;
}

TEST(PackText, ReadsMinimallocsFormat) {
  const auto problem = parse_pack_csv("id,lower,upper,size\na,0,3,4\nb,3,9,2\n", "x.csv");
  ASSERT_TRUE(problem) << problem.error().message;
  ASSERT_EQ(problem->buffers.size(), 2u);
  const Buffer& b = problem->buffers[BufferId(1)];
  EXPECT_EQ(b, (Buffer{.name = "b", .live = {3, 9}, .size_bytes = 2, .fixed_offset = {}}));
  EXPECT_FALSE(problem->capacity_bytes);
}

TEST(PackText, ColumnsMayComeInAnyOrderWithOptionalOnes) {
  const auto problem =
      parse_pack_csv("offset,size,id,alignment,upper,lower\n8,4,a,4,3,0\n,5,b,,3,0\n", "x.csv");
  ASSERT_TRUE(problem) << problem.error().message;
  const Buffer a{
      .name = "a", .live = {0, 3}, .size_bytes = 4, .alignment_bytes = 4, .fixed_offset = 8};
  EXPECT_EQ(problem->buffers[BufferId(0)], a);
  EXPECT_EQ(problem->buffers[BufferId(1)].alignment_bytes, 1);
  EXPECT_FALSE(problem->buffers[BufferId(1)].fixed_offset);
}

TEST(PackText, ToleratesCarriageReturnsBlanksMarksAndAMissingLastLineEnd) {
  const auto problem = parse_pack_csv(
      "\xEF\xBB\xBFid , lower,upper,size\r\n\r\n a , 0,\t3,4 \r\n  \nb,1,2,0", "x.csv");
  ASSERT_TRUE(problem) << problem.error().message;
  ASSERT_EQ(problem->buffers.size(), 2u);
  EXPECT_EQ(problem->buffers[BufferId(0)].name, "a");
  EXPECT_EQ(problem->buffers[BufferId(1)].size_bytes, 0);
}

TEST(PackText, QuotedNamesMayHoldCommasQuotesAndLineEnds) {
  const auto problem =
      parse_pack_csv("id,lower,upper,size\n\"a,\"\"b\"\"\nc\",0,1,2\n\"\",0,1,2\n", "x");
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_EQ(problem->buffers[BufferId(0)].name, "a,\"b\"\nc");
  EXPECT_EQ(problem->buffers[BufferId(1)].name, "");
}

TEST(PackText, ErrorsNameTheLineAndTheColumn) {
  EXPECT_EQ(message(""), "x.csv: empty; expected a header such as id,lower,upper,size");
  EXPECT_EQ(message("id,lower,size\n"), "x.csv:1: column 'upper' is missing");
  EXPECT_EQ(message("id,lower,upper,size,size\n"), "x.csv:1: column 'size' comes twice");
  EXPECT_NE(message("id,lower,upper,size,gaps\n").find("x.csv:1: unknown column 'gaps'"),
            std::string::npos);
  const std::string head = "id,lower,upper,size,alignment,offset\n";
  EXPECT_EQ(message(head + "a,0,1,2,,\nb,0,1,2x,,\n"), "x.csv:3: size '2x' is not a whole number");
  EXPECT_EQ(message(head + "a,0,1,,,\n"), "x.csv:2: size '' is not a whole number");
  EXPECT_EQ(message(head + "a,0,1,99999999999999999999,,\n"),
            "x.csv:2: size '99999999999999999999' does not fit into 64 bits");
  EXPECT_EQ(message(head + "a,0,1\n"), "x.csv:2: 3 cells; the header has 6");
  EXPECT_EQ(message(head + "a,3,3,1,,\n"), "x.csv:2: upper 3 must be greater than lower 3");
  EXPECT_EQ(message(head + "a,0,3,-1,,\n"), "x.csv:2: size -1 is negative");
  EXPECT_EQ(message(head + "a,0,3,1,0,\n"), "x.csv:2: alignment 0 is not positive");
  EXPECT_EQ(message(head + "a,0,3,1,4,6\n"),
            "x.csv:2: offset 6 is negative or not a multiple of alignment 4");
  EXPECT_EQ(message(head + "\"a,0,3,1,4,6\n"), "x.csv:2: a quote is not closed");
  EXPECT_EQ(message(head + "\"a\nb\"c,0,3,1,,\n"), "x.csv:2: 'c' follows a closing quote");
  EXPECT_EQ(message(head + "\"a\nb\",0,3,1,,\nc,0,3,-1,,\n"), "x.csv:4: size -1 is negative");
  EXPECT_EQ(message(head + "a,0,3,1,,\nb,0,3,1,,\n\na,5,6,1,,\n"),
            "x.csv:5: id 'a' is given already, in line 2");
  EXPECT_EQ(message(head + "\"\",0,3,1,,\n\"\",0,3,1,,\n"),
            "x.csv:3: id '' is given already, in line 2");
}

TEST(PackText, SumsBeyondTheLimitAreRefused) {
  const std::string text =
      "id,lower,upper,size\na,0,1,4611686018427387000\nb,0,1,4611686018427387000\n";
  EXPECT_NE(message(text).find("exceed"), std::string::npos);
}

PackProblem random_problem(Rng& rng) {
  static constexpr std::string_view kChars = "ab,\"\n\r \t;0x\xC3\xA9";
  PackProblem problem;
  const int64_t n = rng.between(0, 8);
  for (int64_t i = 0; i < n; ++i) {
    Buffer b;
    for (int64_t k = rng.between(0, 5); k > 0; --k) b.name += kChars[rng.below(kChars.size())];
    b.name += std::to_string(i);  // every id stands once
    b.live.begin = rng.between(-5, 20);
    b.live.end = b.live.begin + rng.between(1, 10);
    b.size_bytes = rng.between(0, 1000);
    if (rng.below(3) == 0) b.alignment_bytes = rng.between(1, 64);
    if (rng.below(3) == 0) b.fixed_offset = b.alignment_bytes * rng.between(0, 9);
    problem.buffers.push_back(b);
  }
  return problem;
}

TEST(PackText, PrintedProblemsAreReadBackTheSame) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(seed);
    const PackProblem problem = random_problem(rng);
    const std::string text = print_pack_csv(problem, nullptr);
    const auto again = parse_pack_csv(text, "x");
    ASSERT_TRUE(again) << "seed " << seed << ": " << again.error().message << "\n" << text;
    ASSERT_EQ(*again, problem) << "seed " << seed << "\n" << text;
  }
}

TEST(PackText, PrintedOffsetsAreReadBackAsFixedOnes) {
  PackProblem problem;
  problem.buffers.push_back({.name = "a", .live = {0, 2}, .size_bytes = 3, .fixed_offset = {}});
  problem.buffers.push_back({.name = "b", .live = {1, 4}, .size_bytes = 5, .fixed_offset = {}});
  IdVector<BufferId, int64_t> offsets(2);
  offsets[BufferId(0)] = 5;
  EXPECT_EQ(print_pack_csv(problem, &offsets),
            "id,lower,upper,size,offset\na,0,2,3,5\nb,1,4,5,0\n");
}

TEST(PackText, RepeatedNamesAreToldApart) {
  PackProblem problem;
  for (const char* name : {"a", "a", "a#2", "b", "a", "a#2"})
    problem.buffers.push_back({.name = name, .live = {0, 2}, .size_bytes = 3, .fixed_offset = {}});
  EXPECT_EQ(
      print_pack_csv(problem, nullptr),
      "id,lower,upper,size\na,0,2,3\na#3,0,2,3\na#2,0,2,3\nb,0,2,3\na#4,0,2,3\na#2#2,0,2,3\n");
  const auto again = parse_pack_csv(print_pack_csv(problem, nullptr), "x");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->buffers.size(), problem.buffers.size());
}

TEST(PackText, AnyBytesGiveAProblemOrAnError) {
  static constexpr std::string_view kPieces[] = {"id,lower,upper,size",
                                                 "\n",
                                                 ",",
                                                 "\"",
                                                 "1",
                                                 "-",
                                                 "a",
                                                 "0,4,8",
                                                 ",,",
                                                 "\r\n",
                                                 "offset",
                                                 "\0",
                                                 " ",
                                                 "9999999999"};
  int parsed = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Rng rng(seed);
    std::string text = rng.below(2) ? "id,lower,upper,size\n" : "";
    for (int64_t k = rng.between(0, 12); k > 0; --k) text += kPieces[rng.below(std::size(kPieces))];
    const auto problem = parse_pack_csv(text, "x");
    if (problem) {
      ++parsed;
      EXPECT_TRUE(check(*problem)) << text;
    } else {
      EXPECT_EQ(problem.error().code, ErrorCode::kInput);
    }
  }
  EXPECT_GT(parsed, 100);  // the test is not vacuous
}

}  // namespace
}  // namespace lowtide::plan
