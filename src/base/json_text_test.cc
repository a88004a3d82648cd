#include "base/json_text.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/rng.h"

namespace lowtide {
namespace {

std::string string_of(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string real_of(double value) {
  std::string out;
  append_json_real(out, value);
  return out;
}

TEST(JsonText, StringsEscapeWhatJsonDoesNotTake) {
  EXPECT_EQ(string_of("a\"b\\c\n\x7F"), R"("a\"b\\c\u000a\u007f")");
  EXPECT_EQ(string_of("\xC3\xA9\xF0\x9F\x8C\x8A"), "\"\xC3\xA9\xF0\x9F\x8C\x8A\"");
  EXPECT_EQ(string_of("x\xFFy"), "\"x\xEF\xBF\xBDy\"");
}

TEST(JsonText, OverlongFormsAndSurrogatesAreNoUtf8) {
  EXPECT_TRUE(is_utf8("plain \xC3\xA9"));
  for (const char* text : {"\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xC3"})
    EXPECT_FALSE(is_utf8(text)) << string_of(text);
}

TEST(JsonText, RealsHaveAPointOrAnExponent) {
  EXPECT_EQ(real_of(1), "1.0");
  EXPECT_EQ(real_of(0.1), "0.1");
  EXPECT_EQ(real_of(1e300), "1e+300");
  EXPECT_EQ(real_of(-std::numeric_limits<double>::infinity()), R"({"real": "-inf"})");
}

TEST(JsonText, Base64IsThatOfTheStandard) {
  // RFC 4648, section 10.
  const std::pair<const char*, const char*> cases[] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  for (const char* text : {"Zg", "Zh==", "Z===", "Zm9*", "Zm9v\n"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

TEST(JsonText, AnyBytesComeBack) {
  Rng rng(7);
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (uint64_t n = rng.below(40); n > 0; --n) bytes += static_cast<char>(rng.below(256));
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
}

}  // namespace
}  // namespace lowtide
