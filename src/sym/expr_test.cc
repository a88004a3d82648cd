// Algebra by evaluation: whatever rewriting an operation does, its value under random bindings must
// be what Python computes.
#include "sym/expr.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/rng.h"
#include "sym/product.h"

namespace lowtide::sym {
namespace {

const Expr a = Expr::symbol("a");
const Expr b = Expr::symbol("b");
const Expr c = Expr::symbol("c");

Expr parsed(std::string_view text) {
  auto result = parse_expr(text);
  EXPECT_TRUE(result.has_value()) << text << ": " << (result ? "" : result.error().message);
  return result ? *result : Expr(-999);
}

std::string refusal(std::string_view text) {
  auto result = parse_expr(text);
  EXPECT_FALSE(result.has_value()) << text << " was read as " << (result ? print(*result) : "");
  return result ? "" : result.error().message;
}

int64_t python_floordiv(int64_t x, int64_t y) {
  int64_t q = x / y;
  if (q * y != x && ((x < 0) != (y < 0))) --q;
  return q;
}

// An expression and, built beside it without any rewriting, the function it stands for.
struct Twin {
  Expr expr;
  std::function<std::optional<int64_t>(const Bindings&)> value;  // nothing: division by zero
};

Twin random_twin(Rng& rng, int depth) {
  if (depth == 0 || rng.below(6) == 0) {
    if (rng.below(2) == 0) {
      const int64_t number = rng.between(-6, 12);
      return {Expr(number), [number](const Bindings&) { return number; }};
    }
    const std::string name(1, static_cast<char>('a' + rng.below(3)));
    return {Expr::symbol(name), [name](const Bindings& bindings) { return bindings.at(name); }};
  }
  const Twin x = random_twin(rng, depth - 1), y = random_twin(rng, depth - 1);
  const auto with = [&](Expr expr, auto op) {
    return Twin{std::move(expr),
                [f = x.value, g = y.value, op](const Bindings& bindings) -> std::optional<int64_t> {
                  const auto p = f(bindings), q = g(bindings);
                  if (!p || !q) return std::nullopt;
                  return op(*p, *q);
                }};
  };
  using Value = std::optional<int64_t>;
  switch (rng.below(8)) {
    case 0:
      return with(x.expr + y.expr, [](int64_t p, int64_t q) -> Value { return p + q; });
    case 1:
      return with(x.expr - y.expr, [](int64_t p, int64_t q) -> Value { return p - q; });
    case 2:
      return with(x.expr * y.expr, [](int64_t p, int64_t q) -> Value { return p * q; });
    case 3:
      return with(min(x.expr, y.expr),
                  [](int64_t p, int64_t q) -> Value { return std::min(p, q); });
    case 4:
      return with(max(x.expr, y.expr),
                  [](int64_t p, int64_t q) -> Value { return std::max(p, q); });
    case 5:
      return with(ceildiv(x.expr, y.expr), [](int64_t p, int64_t q) -> Value {
        if (q == 0) return std::nullopt;
        return -python_floordiv(-p, q);
      });
    case 6:
      return with(mod(x.expr, y.expr), [](int64_t p, int64_t q) -> Value {
        if (q == 0) return std::nullopt;
        return p - q * python_floordiv(p, q);
      });
    default:
      return with(floordiv(x.expr, y.expr), [](int64_t p, int64_t q) -> Value {
        if (q == 0) return std::nullopt;
        return python_floordiv(p, q);
      });
  }
}

TEST(ExprTest, RewritingKeepsTheValue) {
  int64_t compared = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    const Twin twin = random_twin(rng, 4);
    if (twin.expr.poisoned()) continue;
    for (int i = 0; i < 8; ++i) {
      const Bindings bindings = {
          {"a", rng.between(1, 40)}, {"b", rng.between(1, 7)}, {"c", rng.between(1, 100)}};
      const auto expected = twin.value(bindings);
      if (!expected) continue;
      const auto got = twin.expr.evaluate(bindings);
      ASSERT_TRUE(got.has_value())
          << "seed " << seed << " " << print(twin.expr) << ": " << got.error().message;
      ASSERT_EQ(*got, *expected) << "seed " << seed << " " << print(twin.expr);
      const Expr partly = twin.expr.substitute({{"a", bindings.at("a")}});
      ASSERT_EQ(partly.evaluate(bindings).value_or(-1), *expected)
          << "seed " << seed << " " << print(partly);
      ASSERT_EQ(twin.expr.substitute(bindings).constant(), *expected) << "seed " << seed;
      ++compared;
    }
  }
  EXPECT_GT(compared, 20000);
}

TEST(ExprTest, PrintedFormReadsBackAsTheSameExpr) {
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Rng rng(seed);
    const Expr expr = random_twin(rng, 4).expr;
    if (expr.poisoned() || print(expr).size() > 4096) continue;
    const auto again = parse_expr(print(expr));
    ASSERT_TRUE(again.has_value()) << again.error().message;
    ASSERT_EQ(*again, expr) << "seed " << seed << " " << print(expr);
    ASSERT_EQ(print(*again), print(expr));
  }
}

TEST(ExprTest, EqualSizesWrittenDifferentlyAreEqual) {
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ(a * b * Expr(64), Expr(64) * (b * a));
  EXPECT_EQ(a - a, Expr(0));
  EXPECT_TRUE((a - a).is_constant());
  EXPECT_EQ((a + b) * c, c * b + c * a);
  EXPECT_EQ(floordiv(Expr(64) * a * b, a), Expr(64) * b);
  EXPECT_EQ(floordiv(a * 4 + 6, 4), a + 1);
  EXPECT_EQ(floordiv(floordiv(a, 2), 3), floordiv(a, 6));
  EXPECT_EQ(floordiv(a * 2, 4), floordiv(a, 2));
  EXPECT_EQ(mod(a * 6, 4), mod(a, 2) * 2);
  EXPECT_EQ(mod(a * b, b), Expr(0));
  EXPECT_EQ(floordiv(a - 3, 2) + 1, floordiv(a + 1, 2) - 1);
  EXPECT_EQ(min(a, a), a);
  EXPECT_EQ(max(a * b, 1), a * b);
  EXPECT_EQ(min(a, b), min(b, a));
  EXPECT_EQ(min(a + 3, a), a);
  EXPECT_NE(a, b);
  EXPECT_NE(a, Expr(1));
}

TEST(ExprTest, DivisionRoundsDownAsPythonDoes) {
  for (int64_t x = -9; x <= 9; ++x) {
    for (int64_t y = -4; y <= 4; ++y) {
      if (y == 0) continue;
      EXPECT_EQ(floordiv(x, y).constant(), python_floordiv(x, y)) << x << " // " << y;
      EXPECT_EQ(mod(x, y).constant(), x - y * python_floordiv(x, y)) << x << " % " << y;
      EXPECT_EQ(ceildiv(x, y).constant(), -python_floordiv(-x, y)) << x << " / " << y;
      const Bindings bindings = {{"a", x}, {"b", y}};
      EXPECT_EQ(floordiv(a + 0, b).evaluate(bindings).value(), python_floordiv(x, y));
    }
  }
}

TEST(ExprTest, OrderIsTotal) {
  std::vector<Expr> exprs;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Rng rng(seed);
    exprs.push_back(random_twin(rng, 3).expr);
  }
  for (const Expr& x : exprs) {
    for (const Expr& y : exprs) {
      EXPECT_EQ((x <=> y) < 0, (y <=> x) > 0);
      EXPECT_EQ((x <=> y) == 0, x == y || (x.poisoned() && y.poisoned()));
      for (const Expr& z : exprs)
        if ((x <=> y) < 0 && (y <=> z) < 0) {
          EXPECT_TRUE((x <=> z) < 0);
        }
    }
  }
}

TEST(ExprTest, OverflowPoisonsAndNeverEquals) {
  const Expr huge = Expr(INT64_MAX);
  for (const Expr& poison : {huge + 1, huge * 2, -Expr(INT64_MIN), huge * a + a,
                             (huge * a) * (huge * b), huge * a * 2}) {
    EXPECT_TRUE(poison.poisoned());
    EXPECT_FALSE(poison.is_constant());
    EXPECT_FALSE(poison.constant().has_value());
    EXPECT_FALSE(poison == poison);
    EXPECT_FALSE(poison.evaluate({{"a", 1}, {"b", 1}}).has_value());
    EXPECT_TRUE((poison + 1).poisoned());
    EXPECT_TRUE((poison * 0).poisoned());
    EXPECT_TRUE(min(poison, a).poisoned());
    EXPECT_TRUE(floordiv(a, poison).poisoned());
    EXPECT_EQ(print(poison), "<overflow>");
  }
  EXPECT_FALSE((huge * a).poisoned());
}

TEST(ExprTest, AProductWithZeroIsZero) {
  const Expr huge = Expr(INT64_MAX);
  EXPECT_EQ(product({}), Expr(1));
  EXPECT_EQ(product(std::vector<Expr>{2, a, 3}), a * 6);
  EXPECT_TRUE(product(std::vector<Expr>{huge, a, huge}).poisoned());
  EXPECT_EQ(product(std::vector<Expr>{huge, a, huge, 0}), Expr(0));
}

TEST(ExprTest, EvaluationNamesWhatIsWrong) {
  EXPECT_EQ((a * 64 + 1).evaluate({{"a", 3}}).value(), 193);
  EXPECT_NE((a + b).evaluate({{"a", 1}}).error().message.find("'b'"), std::string::npos);
  EXPECT_NE(floordiv(7, a - 3).evaluate({{"a", 3}}).error().message.find("by zero"),
            std::string::npos);
  EXPECT_NE(floordiv(7, 0).evaluate({}).error().message.find("by zero"), std::string::npos);
  EXPECT_NE((a * a * a).evaluate({{"a", int64_t{1} << 40}}).error().message.find("overflows"),
            std::string::npos);
  EXPECT_FALSE(floordiv(a, b).evaluate({{"a", INT64_MIN}, {"b", -1}}).has_value());
  EXPECT_EQ(mod(a, b).evaluate({{"a", INT64_MIN}, {"b", -1}}).value(), 0);
}

TEST(ExprTest, PrintsAsPeopleWriteIt) {
  EXPECT_EQ(print(Expr(0)), "0");
  EXPECT_EQ(print(Expr(INT64_MIN)), "-9223372036854775808");
  EXPECT_EQ(print(Expr::symbol("batch") * 64 * Expr::symbol("seq") + 1), "64*batch*seq + 1");
  EXPECT_EQ(print(floordiv(Expr::symbol("seq") + 1, 2)), "floor_div(seq + 1, 2)");
  EXPECT_EQ(print(-a * a * 2 - b - 3), "-2*a**2 - b - 3");
  EXPECT_EQ(print(Expr::symbol("batch size \"x\"\n")), "\"batch size \\\"x\\\"\\x0a\"");
  EXPECT_EQ(parsed(print(Expr::symbol("batch size \"x\"\n"))), Expr::symbol("batch size \"x\"\n"));
  EXPECT_EQ(parsed(print(Expr::symbol(""))), Expr::symbol(""));
  EXPECT_EQ((min(a, c) * b).symbols(), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(ExprTest, ReadsWhatExportersWrite) {
  EXPECT_EQ(parsed("64*a*b + 1"), a * 64 * b + 1);
  EXPECT_EQ(parsed(" 2 ** 3 ** 2 "), Expr(512));
  EXPECT_EQ(parsed("-2**2"), Expr(-4));
  EXPECT_EQ(parsed("a//2 % 3"), mod(floordiv(a, 2), 3));
  EXPECT_EQ(parsed("7 - 2 - 1"), Expr(4));
  EXPECT_EQ(parsed("--a"), a);
  EXPECT_EQ(parsed("(a+1)*(a-1)"), a * a - 1);
  EXPECT_EQ(parsed("Min(a, b, 5)"), min(min(a, b), 5));
  EXPECT_EQ(parsed("Max(a, b)"), max(a, b));
  EXPECT_EQ(parsed("Mod(a, 4)"), mod(a, 4));
  EXPECT_EQ(parsed("Pow(a, 3)"), a * a * a);
  EXPECT_EQ(parsed("FloorDiv(a, 4)"), floordiv(a, 4));
  EXPECT_EQ(parsed("CeilDiv(a, 4)"), ceildiv(a, 4));
  EXPECT_EQ(parsed("floor(a/2)"), floordiv(a, 2));
  EXPECT_EQ(parsed("floor(a/2 - 1/2) + 1"), floordiv(a - 1, 2) + 1);
  EXPECT_EQ(parsed("floor((a/2 + 1)/3)"), floordiv(a + 2, 6));
  EXPECT_EQ(parsed("ceiling(a/b)"), ceildiv(a, b));
  EXPECT_EQ(parsed("ceiling(-a/2)"), -floordiv(a, 2));
  EXPECT_EQ(parsed("floor(a*Pow(2, -1))"), floordiv(a, 2));
  EXPECT_EQ(parsed("64*a/64"), a);
  EXPECT_EQ(parsed("unk__12.x"), Expr::symbol("unk__12.x"));
  EXPECT_EQ(parsed("min"), Expr::symbol("min"));
  EXPECT_EQ(parsed("-9223372036854775808"), Expr(INT64_MIN));
}

TEST(ExprTest, RefusesWhatIsNoSize) {
  for (const char* text : {"",
                           " ",
                           "+",
                           "a +",
                           "a b",
                           "2a",
                           "(a",
                           "a)",
                           "min(a)",
                           "floor(a, b)",
                           "f(a)",
                           "a ** b",
                           "a ** 65",
                           "0 ** -1",
                           "a / 2",
                           "a / 0",
                           "1.5*a",
                           "\"a",
                           "\"\\",
                           "\"\\xg0\"",
                           "9223372036854775808",
                           "9223372036854775807 + 1",
                           "(a)(b)",
                           "a,b",
                           "a\n+b",
                           "//",
                           "a ** 2 ** 9",
                           "Min()",
                           "\xff"})
    EXPECT_FALSE(refusal(text).empty());
  EXPECT_NE(refusal("a + $").find("column 5"), std::string::npos);
}

TEST(ExprTest, HostileTextIsRefusedQuickly) {
  EXPECT_FALSE(refusal(std::string(4000, '(')).empty());
  EXPECT_FALSE(refusal(std::string(5000, 'a')).empty());
  std::string calls, powers = "a", sums = "a0";
  for (int i = 0; i < 300; ++i) calls += "floor(";
  for (int i = 0; i < 100; ++i) powers += "**2";
  for (int i = 1; i < 60; ++i) sums += " + a" + std::to_string(i);
  EXPECT_FALSE(refusal(calls).empty());
  EXPECT_FALSE(refusal(powers).empty());
  EXPECT_FALSE(refusal("(" + sums + ")**60").empty());
  EXPECT_FALSE(refusal("((a + 1)**64)**64").empty());
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Rng rng(seed);
    constexpr std::string_view kAlphabet = "ab0129+-*/%(),. \"\\Minfloormd";
    std::string text;
    for (uint64_t n = rng.below(24); n > 0; --n) text += kAlphabet[rng.below(kAlphabet.size())];
    const auto result = parse_expr(text);
    if (result) {
      EXPECT_EQ(parse_expr(print(*result)).value(), *result) << text;
    }
  }
}

}  // namespace
}  // namespace lowtide::sym
