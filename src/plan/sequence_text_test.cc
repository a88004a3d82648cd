// A schedule printed and read again is the same; everything else is refused in one line.
#include "plan/sequence_text.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "plan/testing/sequence_parser.h"

namespace lowtide::plan {
namespace {

TEST(SequenceText, PrintThenParseGivesTheSequenceBack) {
  Rng rng(71);
  for (int i = 0; i < 2000; ++i) {
    std::vector<SchedAction> sequence;
    for (uint64_t k = rng.below(20); k > 0; --k) {
      SchedAction action;
      action.kind = static_cast<SchedAction::Kind>(rng.below(4));
      const size_t index = rng.below(rng.below(2) == 0 ? 12 : 4'000'000'000);
      if (action.kind == SchedAction::Kind::kRun) {
        action.op = SchedOpId(index);
      } else if (rng.below(2) == 0) {
        action.value = SchedValueId(index);
      } else {
        action.resident = SchedResidentId(index);
      }
      if (action.kind != SchedAction::Kind::kRun && rng.below(2) == 0)
        action.tier = static_cast<uint8_t>(rng.below(256));
      sequence.push_back(action);
    }
    const auto parsed = parse_sequence(print(sequence), "round trip");
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    ASSERT_EQ(*parsed, sequence);
  }
}

TEST(SequenceText, ReadsRunsAndMovesOnOneLineOrMany) {
  const auto sequence = parse_sequence(" 0 1\tstore:3\r\n\ndrop:3 2\nload:r1@2", "s").value();
  EXPECT_EQ(print(sequence), "0 1 store:3 drop:3 2 load:r1@2");
  EXPECT_TRUE(parse_sequence("", "s")->empty());
}

TEST(SequenceText, RefusesEverythingElse) {
  for (const char* text :
       {"x", "-1", "0 1 1.5", "store:", "store:r", "r1", "store 3", "drop:-1", "load:v3",
        "9999999999", "4294967295", "0\n1 2x", "1@1", "load:1@", "load:1@256", "load:@1"}) {
    const auto sequence = parse_sequence(text, "s.seq");
    ASSERT_FALSE(sequence.has_value()) << text;
    EXPECT_EQ(sequence.error().code, ErrorCode::kInput);
    EXPECT_EQ(sequence.error().message.rfind("s.seq:", 0), 0u) << sequence.error().message;
    EXPECT_NE(sequence.error().message.find("is no action"), std::string::npos);
  }
}

}  // namespace
}  // namespace lowtide::plan
