#include "io/pt2_expr.h"

#include <gtest/gtest.h>

#include <string>

namespace lowtide::io {
namespace {

std::string parsed(std::string_view text) {
  const auto made = parse_sympy(text);
  return made ? sym::print(*made) : made.error().message;
}

TEST(SympySizes, AreRead) {
  EXPECT_EQ(parsed("Symbol('s77', positive=True, integer=True)"), "s77");
  EXPECT_EQ(parsed("Mul(Integer(2), Symbol('s77', integer=True))"), "2*s77");
  EXPECT_EQ(parsed("Add(Symbol('a'), Mul(Integer(-1), Symbol('b')), Integer(3))"), "a - b + 3");
  EXPECT_EQ(parsed("FloorDiv(Add(Symbol('a'), Integer(1)), Integer(2))"), "floor_div(a + 1, 2)");
  EXPECT_EQ(parsed("Pow(Symbol('a'), Integer(2))"), parsed("Mul(Symbol('a'), Symbol('a'))"));
  EXPECT_EQ(parsed("Max(Integer(1), Symbol('u0'))"), parsed("Max(1, u0)"));
  EXPECT_EQ(parsed("2*s0 + 1"), "2*s0 + 1");
  EXPECT_EQ(parsed("Integer(7)"), "7");
}

TEST(SympySizes, WhatIsNoneIsRefusedInOneLine) {
  EXPECT_NE(parsed("Pow(Symbol('a'), Rational(1, 2))").find("size 'Pow("), std::string::npos);
  EXPECT_NE(parsed("Symbol('a'").find("expected ')'"), std::string::npos);
  EXPECT_NE(parsed("Integer(99999999999999999999)").find("expected an integer of 64 bits"),
            std::string::npos);
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "Add(";
  EXPECT_NE(parsed(deep).find("at most 64 calls inside"), std::string::npos);
}

}  // namespace
}  // namespace lowtide::io
