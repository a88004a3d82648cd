// Sizes, intervals, files, ids: the small promises that everything else leans on.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "base/bytes.h"
#include "base/file.h"
#include "base/id.h"
#include "base/interval.h"
#include "base/work.h"

namespace lowtide {
namespace {

TEST(Bytes, ParsesHumanSizes) {
  EXPECT_EQ(parse_bytes("600MiB", "--budget").value(), int64_t{600} << 20);
  EXPECT_EQ(parse_bytes("1.5 GiB", "--budget").value(), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2GB", "--budget").value(), 2000000000);
  EXPECT_EQ(parse_bytes("4096", "--budget").value(), 4096);
}

TEST(Bytes, RefusesMisspeltUnitsAndNamesTheFlag) {
  for (const char* text : {"", "MiB", "-5MiB", "5 mebi", "1e30GiB", "nan", "5MiBx"}) {
    const auto size = parse_bytes(text, "--budget");
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_EQ(size.error().code, ErrorCode::kUsage);
    EXPECT_NE(size.error().message.find("--budget"), std::string::npos);
  }
}

TEST(Bytes, CheckedArithmeticSeesOverflow) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(checked_mul(1 << 20, 1 << 20), int64_t{1} << 40);
  EXPECT_FALSE(checked_mul(kMax, 2).has_value());
  EXPECT_FALSE(checked_add(kMax, 1).has_value());
}

TEST(Interval, IsHalfOpen) {
  EXPECT_FALSE((Interval{0, 4}.overlaps(Interval{4, 8})));
  EXPECT_TRUE((Interval{0, 5}.overlaps(Interval{4, 8})));
  EXPECT_FALSE((Interval{0, 4}.contains(4)));
}

TEST(Id, NoneIsNotZero) {
  struct Tag;
  EXPECT_FALSE(Id<Tag>::none().valid());
  EXPECT_TRUE(Id<Tag>(0).valid());
}

TEST(File, WritesAtomicallyAndReadsBack) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "lowtide_base_test.bin").string();
  ASSERT_TRUE(write_file_atomically(path, std::string("a\0b", 3)).has_value());
  EXPECT_EQ(read_file(path).value(), std::string("a\0b", 3));
  EXPECT_EQ(MappedFile::open(path)->bytes(), std::string_view("a\0b", 3));
  std::filesystem::remove(path);
  EXPECT_FALSE(read_file(path).has_value());
  EXPECT_FALSE(write_file_atomically("/nonexistent-folder/x", "y").has_value());
}

TEST(WorkBudget, CountsUnitsNotTime) {
  WorkBudget budget(3);
  EXPECT_TRUE(budget.spend());
  EXPECT_TRUE(budget.spend(2));
  EXPECT_FALSE(budget.spend());
  EXPECT_TRUE(budget.exhausted());
  EXPECT_FALSE(budget.timed_out());
}

}  // namespace
}  // namespace lowtide
