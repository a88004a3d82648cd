// Sizes, intervals, files, ids: the small promises that everything else leans on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/element.h"
#include "base/file.h"
#include "base/half.h"
#include "base/id.h"
#include "base/interval.h"
#include "base/printable.h"
#include "base/words.h"
#include "base/work.h"

namespace lowtide {
namespace {

TEST(CheckDeathTest, EndsTheProgramWithWhatWasBroken) {
  const int two = 2;
  LT_CHECK(two == 2, "not printed");
  EXPECT_DEATH(LT_CHECK(two == 3, "the sum"),
               "base_test.cc:[0-9]+: two == 3 does not hold: the sum");
}

TEST(Words, AreWhatStandsBetweenBlanks) {
  using Words = std::vector<std::string_view>;
  EXPECT_EQ(words_of("own update:0"), (Words{"own", "update:0"}));
  EXPECT_EQ(words_of("  a  b "), (Words{"a", "b"}));
  EXPECT_EQ(words_of(" "), Words());
  EXPECT_EQ(words_of(""), Words());
}

TEST(Bytes, ParsesHumanSizes) {
  EXPECT_EQ(parse_bytes("600MiB", "--budget").value(), int64_t{600} << 20);
  EXPECT_EQ(parse_bytes("1.5 GiB", "--budget").value(), int64_t{3} << 29);
  EXPECT_EQ(parse_bytes("2GB", "--budget").value(), 2000000000);
  EXPECT_EQ(parse_bytes("4096", "--budget").value(), 4096);
  EXPECT_EQ(parse_bytes_per_second("2GiB/s", "--link").value(), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes_per_second("1.5 GB/s", "--link").value(), 1500000000);
  for (const char* text : {"2GiB", "/s", "GB/s", "-1GB/s", "0B/s", "2GB/h", "2GBps"}) {
    const auto speed = parse_bytes_per_second(text, "--link");
    ASSERT_FALSE(speed.has_value()) << text;
    EXPECT_EQ(speed.error().code, ErrorCode::kUsage);
    EXPECT_NE(speed.error().message.find("--link"), std::string::npos);
  }
}

TEST(Bytes, SizesAreExactAndFractionsOfAByteAreRefused) {
  EXPECT_EQ(parse_bytes("4611686018427387903", "x").value(), kMaxBytes - 1);
  EXPECT_EQ(parse_bytes("9007199254740993", "x").value(), 9007199254740993);  // no double has it
  EXPECT_EQ(parse_bytes("0.1KiB", "x").value(), 102);
  EXPECT_EQ(parse_bytes("0.3MB", "x").value(), 300000);
  EXPECT_EQ(parse_bytes("1.0000000000000000000001KiB", "x").value(), 1024);
  EXPECT_EQ(parse_bytes("00012kB", "x").value(), 12000);
  for (const char* text : {"1.5B", "1.5", "0.5 B", "2.0"}) {
    const auto size = parse_bytes(text, "--capacity");
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_EQ(size.error().message,
              std::string("--capacity: '") + text + "' is not a whole number of bytes");
  }
  for (const char* text : {"4611686018427387905", "99999999999999999999", "4194304.1TiB"}) {
    const auto size = parse_bytes(text, "x");
    ASSERT_FALSE(size.has_value()) << text;
    EXPECT_NE(size.error().message.find("more than 4611686018427387904"), std::string::npos);
  }
}

TEST(Bytes, RefusesMisspeltUnitsAndNamesTheFlag) {
  for (const char* text : {"", "MiB", "-5MiB", "5 mebi", "1e30GiB", "nan", "5MiBx", "0x10", "1e3",
                           "1.", ".5MiB", "+5", "1..5GiB"}) {
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

class FileTarget : public testing::Test {
 protected:
  void SetUp() override {
    // Of this test alone: others run at the same time.
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("lowtide_file_target_test_") +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "real");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string at(const char* name) const { return (folder_ / name).string(); }
  // Files, links and folders below the test's folder.
  int64_t entries() const {
    return std::distance(std::filesystem::recursive_directory_iterator(folder_), {});
  }

  std::filesystem::path folder_;
};

TEST_F(FileTarget, LinksAreWrittenThrough) {
  std::filesystem::create_symlink("real/file", folder_ / "link");  // to nothing yet
  std::filesystem::create_symlink(at("link"), folder_ / "link of link");
  ASSERT_TRUE(write_file_atomically(at("link of link"), "one").has_value());
  EXPECT_EQ(read_file(at("real/file")).value(), "one");
  ASSERT_TRUE(write_file_atomically(at("link"), "two").has_value());
  EXPECT_EQ(read_file(at("real/file")).value(), "two");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link of link"));
  EXPECT_EQ(entries(), 4);
}

TEST_F(FileTarget, WhatIsNoFileIsLeftAlone) {
  std::filesystem::create_symlink("loop", folder_ / "loop");
  std::filesystem::create_symlink("/dev/null", folder_ / "device");
  for (const char* name : {"real", "loop", "device"}) {
    const Status status = write_file_atomically(at(name), "x");
    ASSERT_FALSE(status.has_value()) << name;
    EXPECT_EQ(status.error().code, ErrorCode::kInput);
    EXPECT_NE(status.error().message.find(name), std::string::npos) << status.error().message;
  }
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(write_file_atomically("", "x").error().code, ErrorCode::kUsage);
  EXPECT_EQ(entries(), 3);
}

TEST_F(FileTarget, SeveralFilesAreWrittenAllOrNone) {
  ASSERT_TRUE(write_files_atomically({{at("a"), "one"}, {at("b"), "two"}}).has_value());
  EXPECT_EQ(read_file(at("a")).value() + read_file(at("b")).value(), "onetwo");
  const Status status =
      write_files_atomically({{at("c"), "new"}, {at("a"), "changed"}, {at("real"), "x"}});
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().message.find("real"), std::string::npos) << status.error().message;
  EXPECT_EQ(read_file(at("a")).value(), "one");
  EXPECT_EQ(entries(), 3);  // a, b, real
  ASSERT_TRUE(write_files_atomically({}).has_value());
}

TEST_F(FileTarget, TemporaryNamesAndRightsOfOthersAreKept) {
  const std::string taken = at("file") + ".tmp." + std::to_string(::getpid()) + ".0";
  std::filesystem::create_symlink(at("victim"), taken);
  ASSERT_TRUE(write_file_atomically(at("file"), "one").has_value());
  EXPECT_FALSE(std::filesystem::exists(at("victim")));
  EXPECT_TRUE(std::filesystem::is_symlink(taken));
  const auto only_owner = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(at("file"), only_owner);
  ASSERT_TRUE(write_file_atomically(at("file"), "two").has_value());
  EXPECT_EQ(std::filesystem::status(at("file")).permissions(), only_owner);
}

TEST(Printable, ShowsControlCharactersAndCutsTheMiddle) {
  EXPECT_EQ(printable("plain \xC3\xA9 \"q\""), "plain \xC3\xA9 \"q\"");
  EXPECT_EQ(printable("a\nb\tc\x1b[31m\x7f"), "a\\nb\\tc\\x1B[31m\\x7F");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\xC2\\x9B"
            "31m");  // CSI as one character
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "abc"),
            "\\xE2\\x80\\xAE"
            "abc");                                // right to left
  EXPECT_EQ(printable("\xff\xC3"), "\\xFF\\xC3");  // not UTF-8
  const std::string shown = printable(std::string(5000, 'x') + "end", 100);
  EXPECT_LE(shown.size(), 130u);
  EXPECT_TRUE(shown.starts_with("xxx") && shown.ends_with("end")) << shown;
  EXPECT_NE(shown.find("4903 bytes left out"), std::string::npos) << shown;
}

TEST(Limits, PartsOfASearchHaveItsSafetyStops) {
  std::atomic<bool> cancel{false};
  const Limits limits{.max_units = 10, .max_seconds = 5, .cancel = &cancel};
  const Limits part = limits.after(2).with_units(3);
  EXPECT_EQ(part.max_units, 3);
  EXPECT_EQ(part.max_seconds, 3);
  EXPECT_EQ(part.cancel, &cancel);
  EXPECT_EQ(limits.after(7).max_seconds, 0);
  EXPECT_FALSE(limits.stop_after(5));
  EXPECT_TRUE(limits.stop_after(5.1));
  EXPECT_FALSE(Limits().stop_after(1e8));
  cancel = true;
  EXPECT_TRUE(limits.stop_after(0));
  EXPECT_FALSE(Limits().cancelled());
}

TEST(Limits, UnitsInATimeAreWholeAndAtLeastOne) {
  EXPECT_EQ(units_in(10), 2'000'000'000);
  EXPECT_EQ(units_in(0.5), 100'000'000);
  EXPECT_EQ(units_in(0), 1);
  EXPECT_EQ(units_in(1e300), 100'000'000'000'000'000);
}

TEST(WorkBudget, WithoutLimitsItIsAClock) {
  WorkBudget clock;
  EXPECT_TRUE(clock.spend(int64_t{1} << 60));
  EXPECT_TRUE(clock.look());
  EXPECT_GE(clock.seconds(), 0);
}

TEST(WorkBudget, CountsUnitsNotTime) {
  WorkBudget budget({.max_units = 3});
  EXPECT_TRUE(budget.spend());
  EXPECT_TRUE(budget.spend(2));
  EXPECT_FALSE(budget.spend());
  EXPECT_TRUE(budget.exhausted());
  EXPECT_FALSE(budget.timed_out());
}

TEST(WorkBudget, CountsStepsInUnits) {
  WorkBudget budget({.max_units = 100}, 30);
  EXPECT_EQ(budget.steps_remaining(), 3);
  EXPECT_TRUE(budget.spend(2));
  EXPECT_EQ(budget.used(), 60);
  EXPECT_EQ(budget.steps_used(), 2);
  EXPECT_EQ(budget.remaining(), 40);
  EXPECT_EQ(budget.steps_remaining(), 1);
  EXPECT_TRUE(budget.spend());
  EXPECT_EQ(budget.steps_remaining(), 0);
  EXPECT_FALSE(budget.spend());
  EXPECT_EQ(budget.remaining(), 0);
}

TEST(WorkBudget, WhatIsLeftIsOfAllLimits) {
  const std::atomic<bool> cancel{false};
  WorkBudget budget({.max_units = 100, .max_seconds = 50, .cancel = &cancel}, 30);
  budget.spend(2);
  const Limits left = budget.left();
  EXPECT_EQ(left.max_units, 40);
  EXPECT_LE(left.max_seconds, 50);
  EXPECT_GT(left.max_seconds, 0);
  EXPECT_EQ(left.cancel, &cancel);
  budget.spend(2);
  EXPECT_EQ(budget.left().max_units, 0);
}

TEST(WorkBudget, AFlagEndsItSoon) {
  std::atomic<bool> cancel{false};
  WorkBudget budget({.max_units = 1'000'000, .cancel = &cancel});
  EXPECT_TRUE(budget.spend(5000));
  cancel = true;
  EXPECT_TRUE(budget.cancelled());
  while (budget.spend()) ASSERT_LT(budget.used(), 5000 + 16'384);
  EXPECT_TRUE(budget.exhausted());
  EXPECT_TRUE(budget.timed_out());
}

TEST(DType, EveryTypeHasANameThatIsReadBack) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype);
    EXPECT_EQ(is_float(dtype) + is_integer(dtype) + (dtype == DType::kBool), 1) << name(dtype);
    EXPECT_EQ(is_unsigned(dtype), name(dtype)[0] == 'u');
  }
  EXPECT_EQ(size_bytes(DType::kU64), 8);
  EXPECT_EQ(size_bytes(DType::kI16), 2);
  EXPECT_EQ(parse_dtype("f8"), std::nullopt);
}

// The value of a pattern of a float with `exponent` bits of exponent and `mantissa` of mantissa.
double by_definition(uint16_t bits, int exponent, int mantissa) {
  const int e = (bits >> mantissa) & ((1 << exponent) - 1), m = bits & ((1 << mantissa) - 1);
  const int bias = (1 << (exponent - 1)) - 1;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (e == (1 << exponent) - 1) return m == 0 ? sign * INFINITY : NAN;
  if (e == 0) return sign * std::ldexp(m, 1 - bias - mantissa);
  return sign * std::ldexp((1 << mantissa) + m, e - bias - mantissa);
}

TEST(Half, EveryPatternHasItsValueAndComesBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double f16 = by_definition(bits, 5, 10), bf16 = by_definition(bits, 8, 7);
    if (std::isnan(f16)) {
      ASSERT_TRUE(std::isnan(f16_value(bits)) && std::isnan(f16_value(f16_bits(f16_value(bits)))));
    } else {
      ASSERT_EQ(static_cast<double>(f16_value(bits)), f16) << i;
      ASSERT_EQ(f16_bits(f16_value(bits)), bits) << i;
    }
    if (std::isnan(bf16)) {
      ASSERT_TRUE(std::isnan(bf16_value(bits)) &&
                  std::isnan(bf16_value(bf16_bits(bf16_value(bits)))));
    } else {
      ASSERT_EQ(static_cast<double>(bf16_value(bits)), bf16) << i;
      ASSERT_EQ(bf16_bits(bf16_value(bits)), bits) << i;
    }
  }
}

// Between two neighbours: below the middle the lower, above it the upper, in the middle the even.
TEST(Half, RoundsToTheNearestAndTiesToTheEven) {
  const auto check = [](auto to_bits, auto value_of, uint16_t last) {
    for (uint16_t low = 0; low < last; ++low) {
      const auto high = static_cast<uint16_t>(low + 1);
      const float a = value_of(low), b = value_of(high), middle = a + (b - a) / 2;
      ASSERT_EQ(to_bits(middle), low % 2 == 0 ? low : high) << low;
      ASSERT_EQ(to_bits(std::nextafter(middle, a)), low) << low;
      ASSERT_EQ(to_bits(std::nextafter(middle, b)), high) << low;
      ASSERT_EQ(to_bits(-std::nextafter(middle, b)), high | 0x8000) << low;
    }
  };
  check(f16_bits, f16_value, 0x7BFF);
  check(bf16_bits, bf16_value, 0x7F7F);
  EXPECT_EQ(f16_bits(65519.99f), 0x7BFF);
  EXPECT_EQ(f16_bits(65520.0f), 0x7C00);
  EXPECT_EQ(f16_bits(-INFINITY), 0xFC00);
  EXPECT_EQ(bf16_bits(3.4e38f), 0x7F80);
}

TEST(Element, WritesReadBackInEveryType) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    char raw[9] = "########";
    write_integer(dtype, 1, raw + 1);
    EXPECT_EQ(read_real(dtype, raw + 1), 1) << name(dtype);
    EXPECT_EQ(raw[0], '#');
    if (size_bytes(dtype) < 7) {
      EXPECT_EQ(raw[1 + size_bytes(dtype)], '#') << name(dtype);
    }
    write_real(dtype, 2.0, raw);
    EXPECT_EQ(read_real(dtype, raw), dtype == DType::kBool ? 1 : 2) << name(dtype);
  }
  EXPECT_EQ(rounded(DType::kF16, 2049), 2048);
  EXPECT_EQ(rounded(DType::kBF16, 257), 256);
  EXPECT_EQ(rounded(DType::kF32, 0.1), static_cast<double>(0.1f));
  EXPECT_EQ(rounded(DType::kF64, 0.1), 0.1);
  EXPECT_EQ(wrapped(DType::kI8, 200), -56);
  EXPECT_EQ(wrapped(DType::kU16, -1), 65535);
  EXPECT_EQ(wrapped(DType::kU32, -1), 4294967295);
  EXPECT_EQ(wrapped(DType::kBool, 256), 1);
  uint64_t most = UINT64_MAX;
  EXPECT_EQ(read_real(DType::kU64, &most), 0x1p64);
  EXPECT_EQ(read_integer(DType::kU64, &most), -1);
  EXPECT_EQ(static_cast<uint64_t>(truncated(DType::kU64, 0x1.8p63)), 0xC000000000000000u);
  EXPECT_EQ(truncated(DType::kI64, -2.9), -2);
  EXPECT_EQ(saturated(DType::kU64, INFINITY), -1);
  EXPECT_EQ(saturated(DType::kU64, -1), 0);
  EXPECT_EQ(saturated(DType::kI64, 1e300), INT64_MAX);
  EXPECT_EQ(saturated(DType::kI64, -INFINITY), INT64_MIN);
  EXPECT_EQ(saturated(DType::kI8, 127.9), 127);
  EXPECT_EQ(saturated(DType::kI8, 200), 127);
  EXPECT_EQ(saturated(DType::kU16, 65536), 65535);
  EXPECT_EQ(saturated(DType::kI32, -2.5), -2);
  EXPECT_EQ(truncated(DType::kI32, NAN), INT32_MIN);
  EXPECT_EQ(truncated(DType::kI32, -2147483648.9), INT32_MIN);
  EXPECT_EQ(truncated(DType::kI64, 1e19), INT64_MIN);
  EXPECT_EQ(truncated(DType::kU64, 2e19), 0);
  EXPECT_EQ(wrapped(DType::kU32, truncated(DType::kU32, -3e9)), 1294967296);
  EXPECT_EQ(wrapped(DType::kU8, truncated(DType::kU8, 300.7)), 44);
  EXPECT_EQ(wrapped(DType::kI16, truncated(DType::kI16, -INFINITY)), 0);
}

}  // namespace
}  // namespace lowtide
