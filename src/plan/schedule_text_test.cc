// Printing and parsing give back the same problem, for any problem; hostile text gives one-line
// errors, never a crash or memory that the text does not pay for.
#include "plan/schedule_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace lowtide::plan {
namespace {

std::string random_name(Rng& rng) {
  std::string name;
  for (uint64_t k = rng.below(6); k > 0; --k) name += static_cast<char>(rng.below(256));
  return name;
}

ScheduleProblem random_schedule_problem(Rng& rng) {
  ScheduleProblem problem;
  const size_t n = 1 + rng.below(8);
  for (size_t i = 0; i < n; ++i)
    problem.ops.push_back({random_name(rng),
                           rng.uniform() * 1e-3 * static_cast<double>(rng.below(3)),
                           rng.below(2) == 0, rng.between(0, 1000)});
  for (uint64_t k = rng.below(8); k > 0; --k) {
    SchedValue value;
    value.name = random_name(rng);
    value.bytes = rng.below(3) == 0 ? 0 : rng.between(0, int64_t{1} << 50);
    value.producer = SchedOpId(rng.below(n));
    value.is_output = rng.below(4) == 0;
    for (size_t r = value.producer.index() + 1; r < n; ++r)
      if (rng.below(2) == 0) value.readers.push_back(SchedOpId(r));
    if (rng.below(5) == 0) value.moved_parts = rng.between(2, 64);
    problem.values.push_back(value);
  }
  for (SchedOpId op : problem.ops.ids())
    for (SchedValueId in : problem.values.ids())
      for (SchedValueId out : problem.values.ids()) {
        const auto& readers = problem.values[in].readers;
        if (problem.values[out].producer == op && rng.below(2) == 0 &&
            std::binary_search(readers.begin(), readers.end(), op))
          problem.in_place.push_back({op, in, out});
      }
  for (size_t a = 0; a < n; ++a)
    for (size_t b = a + 1; b < n; ++b)
      if (rng.below(5) == 0) problem.control.emplace_back(SchedOpId(a), SchedOpId(b));
  for (SchedValueId v : problem.values.ids()) {
    SchedValue& value = problem.values[v];
    if (value.readers.empty() || rng.below(4) > 0) continue;
    value.writers.push_back(value.readers.back());
    problem.ops[value.producer].may_rerun = problem.ops[value.writers[0]].may_rerun = false;
  }
  problem.resident_bytes = rng.between(0, 1 << 20);
  for (int64_t left = problem.resident_bytes; rng.below(3) == 0;) {
    SchedResident resident;
    resident.name = random_name(rng);
    resident.bytes = rng.between(0, left);
    left -= resident.bytes;
    for (size_t op = 0; op < n; ++op)
      if (rng.below(2) == 0) resident.readers.push_back(SchedOpId(op));
    for (SchedOpId op : resident.readers)
      if (!problem.ops[op].may_rerun && rng.below(2) == 0) resident.writers.push_back(op);
    if (rng.below(5) == 0) resident.moved_parts = rng.between(2, 64);
    problem.residents.push_back(resident);
  }
  if (rng.below(2) == 0) problem.budget_bytes = rng.between(0, int64_t{1} << 40);
  if (rng.below(2) == 0)
    problem.link = Link{1 + rng.uniform() * 1e11, 1 + rng.uniform() * 1e9, 1e-6 / 3, 1e-11 / 3};
  if (problem.link && rng.below(2) == 0) problem.link->bytes = rng.between(1, int64_t{1} << 40);
  for (uint64_t k = problem.link ? rng.below(3) : 0; k > 0; --k)
    problem.more_links.push_back(
        {1 + rng.uniform() * 1e9, 1 + rng.uniform(), 0, 0, rng.between(1, 1 << 20)});
  return problem;
}

TEST(ScheduleText, PrintThenParseGivesTheProblemBack) {
  Rng rng(31);
  for (int i = 0; i < 3000; ++i) {
    const ScheduleProblem problem = random_schedule_problem(rng);
    ASSERT_TRUE(check(problem).has_value());
    const std::string text = print(problem);
    const auto parsed = parse_schedule_problem(text, "round trip");
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message << "\n" << text;
    EXPECT_EQ(*parsed, problem) << text;
    EXPECT_EQ(print(*parsed), text);
  }
}

TEST(ScheduleText, ReadsWhatTheHeaderShows) {
  const auto problem = parse_schedule_problem(
      "lowtide-schedule 1\n"
      "resident 4096\r\n"
      "\n"
      "budget 65536\n"
      "link 1.2e+10 1.1e+10 5e-06 1e-11\n"
      "op 0.25 128 1 \"conv1 \\\"a\\\" \\x41\"\n"
      "op 0 0 0 \"\"\n"
      "value 1024 0 0 \"x\" 1\n"
      "value 1024 1 1 \"y\"\n"
      "inplace 1 0 1\n"
      "control 0 1\n"
      "end\n",
      "text");
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  EXPECT_EQ(problem->ops[SchedOpId(0)].name, "conv1 \"a\" A");
  EXPECT_EQ(problem->budget_bytes, 65536);
  EXPECT_EQ(problem->link->latency_seconds, 5e-06);
  EXPECT_EQ(problem->link->compute_seconds_per_byte, 1e-11);
  EXPECT_EQ(problem->in_place.size(), 1u);
  EXPECT_TRUE(problem->values[SchedValueId(1)].is_output);
}

void expect_error(std::string_view text, std::string_view part) {
  const auto problem = parse_schedule_problem(text, "file.lts");
  ASSERT_FALSE(problem.has_value()) << text;
  EXPECT_EQ(problem.error().code, ErrorCode::kInput);
  EXPECT_EQ(problem.error().message.rfind("file.lts", 0), 0u) << problem.error().message;
  EXPECT_NE(problem.error().message.find(part), std::string::npos) << problem.error().message;
  EXPECT_EQ(problem.error().message.find('\n'), std::string::npos);
}

TEST(ScheduleText, MovedPartsAreAtLeastOneAndNotTooMany) {
  const std::string value = "lowtide-schedule 2\nop 0 0 1 \"\"\nvalue 8 0 0 \"\" parts ";
  expect_error(value + "0\nend\n", "value 0 moves in 0 parts of 8 bytes");
  expect_error(value + "1048577\nend\n", "it must be from 1 to 1048576 parts");
  expect_error(value + "x\nend\n", "moved parts is 'x'");
}

TEST(ScheduleText, ErrorsNameTheLineAndWhatIsWrong) {
  expect_error("", "first line");
  expect_error("lowtide-schedule 3\nend\n", ":1: ");
  expect_error("lowtide-schedule 1\n", "before 'end'");
  expect_error("lowtide-schedule 1\nop 0 0 0 \"a\"\nop x 0 0 \"a\"\nend\n", ":3: seconds is 'x'");
  expect_error("lowtide-schedule 1\nop nan 0 0 \"a\"\nend\n", "finite");
  expect_error("lowtide-schedule 1\nop 0 -1 0 \"a\"\nend\n", "workspace is '-1'");
  expect_error("lowtide-schedule 1\nop 0 99999999999999999999 0 \"a\"\nend\n", "workspace");
  expect_error("lowtide-schedule 1\nop 0 0 2 \"a\"\nend\n", "flag");
  expect_error("lowtide-schedule 1\nop 0 0 0 a\nend\n", "quotes");
  expect_error("lowtide-schedule 1\nop 0 0 0 \"a\nend\n", "closing quote");
  expect_error("lowtide-schedule 1\nop 0 0 0 \"\\q\"\nend\n", "escape");
  expect_error("lowtide-schedule 1\nop 0 0 0 \"\\x4\"\nend\n", "escape");
  expect_error("lowtide-schedule 1\nop 0 0 0 \"a\" 7\nend\n", "more than");
  expect_error("lowtide-schedule 1\nvalue 1 0 0 \"v\"\nend\n", "there are 0 ops");
  expect_error("lowtide-schedule 1\nresident 1\nresident 1\nend\n", "order");
  expect_error("lowtide-schedule 1\nbudget 1\nresident 1\nend\n", "order");
  expect_error("lowtide-schedule 1\nnonsense\nend\n", "unknown");
  expect_error("lowtide-schedule 1\nend\nend\n", "after 'end'");
  expect_error("lowtide-schedule 1\nop 0 0 0 \"\"\nop 0 0 0 \"\"\nvalue 1 1 0 \"\" 0\nend\n",
               "no later");
  const std::string two_ops = "lowtide-schedule 2\nop 0 0 0 \"\"\nop 0 0 0 \"\"\n";
  expect_error(two_ops + "value 1 0 0 \"\" writes 1\nend\n", "not among its readers");
  expect_error(two_ops + "value 1 0 0 \"\" 1 writes writes\nend\n", "writer is 'writes'");
  expect_error(two_ops + "movable 1 \"\" 1\nend\n", "resident 0 has 1 bytes");
  expect_error("lowtide-schedule 2\nresident 1\nop 0 0 1 \"\"\nmovable 1 \"\" 0 writes 0\nend\n",
               "may run again");
  expect_error("lowtide-schedule 2\nlink 0 1 0 0\nend\n", "at least 1");
  expect_error("lowtide-schedule 2\nlink 1 1 -1 0\nend\n", "latency");
  expect_error("lowtide-schedule 2\nlink 1 1 0 0 0\nend\n", "room for 0 bytes");
  expect_error("lowtide-schedule 2\nlink 1 1 0 0\nlink 1 0 0 0\nend\n", "at least 1");
  expect_error("lowtide-schedule 2\nlink 1 1 0 -1\nend\n", "seconds of compute per byte");
  expect_error("lowtide-schedule 2\nop -1 0 0 \"\"\nend\n", "op 0 takes -1 seconds");
  expect_error("lowtide-schedule 1\nop 0 0 0 \"\"\ninplace 0 4294967295 0\nend\n", "input");
}

TEST(ScheduleText, DamagedTextNeverParsesIntoAnInvalidProblem) {
  Rng rng(32);
  int parsed = 0;
  for (int i = 0; i < 6000; ++i) {
    std::string text = print(random_schedule_problem(rng));
    for (uint64_t k = 1 + rng.below(3); k > 0; --k) {
      const size_t at = rng.below(text.size());
      switch (rng.below(4)) {
        case 0:
          text[at] = static_cast<char>(rng.below(256));
          break;
        case 1:
          text.erase(at, 1 + rng.below(4));
          break;
        case 2:
          text.insert(at, text.substr(rng.below(text.size()), rng.below(8)));
          break;
        default:
          text[at] = static_cast<char>('0' + rng.below(10));
      }
      if (text.empty()) text = "x";
    }
    for (const auto& problem : {parse_schedule_problem(text, "x"), parse_order_file(text, "x")}) {
      if (!problem) {
        EXPECT_EQ(problem.error().message.find('\n'), std::string::npos);
        continue;
      }
      ++parsed;
      EXPECT_TRUE(check(*problem).has_value());
      EXPECT_EQ(parse_schedule_problem(print(*problem), "x").value(), *problem);
    }
  }
  EXPECT_GT(parsed, 100);
}

TEST(OrderFile, ReadsValuesAndMergesRepeatedReaders) {
  const auto problem = parse_order_file("3 3\n100 0 3 2 1 2\n0 1 1 2\n50 2 0\n", "a.order");
  ASSERT_TRUE(problem.has_value()) << problem.error().message;
  EXPECT_EQ(problem->ops.size(), 3u);
  ASSERT_EQ(problem->values.size(), 3u);
  EXPECT_EQ(problem->values[SchedValueId(0)].readers,
            (std::vector<SchedOpId>{SchedOpId(1), SchedOpId(2)}));
  EXPECT_EQ(problem->values[SchedValueId(1)].bytes, 0);
}

TEST(OrderFile, RefusesWhatIsMalformed) {
  for (const char* text :
       {"", "3", "-1 0\n", "2 1\n", "2 1\n5 2 0\n", "2 1\n5 0 2 1\n", "2 1\n5 0 1 1 1\n",
        "2 1\n5 1 1 0\n", "2 1\n5 0 1 0\n", "2 0\n5 0 0\n", "4000000000 0\n", "2 4000000000\n",
        "2 1\n5 0 4000000000 1\n", "2 1\n9999999999999999999 0 0\n", "1 1\n5 0 -1\n",
        "0 1\n5 0 0\n", "2 2\n4611686018427387904 0 0\n4611686018427387904 0 0\n"}) {
    const auto problem = parse_order_file(text, "a.order");
    ASSERT_FALSE(problem.has_value()) << text;
    EXPECT_EQ(problem.error().message.rfind("a.order", 0), 0u);
    EXPECT_EQ(problem.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace lowtide::plan
