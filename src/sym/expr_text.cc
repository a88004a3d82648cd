// The text form of an Expr. Printing writes the canonical terms; parsing is recursive descent over
// Python's grammar for arithmetic, with a limit on nesting and on length, since the text comes from
// model files:
//
//   sum     = product (("+" | "-") product)*
//   product = unary (("*" | "/" | "//" | "%") unary)*
//   unary   = ("+" | "-") unary | power
//   power   = primary ("**" unary)?
//   primary = number | name | "quoted name" | name "(" sum ("," sum)* ")" | "(" sum ")"
//
// sympy writes floor(seq/2 + 1/2), so while parsing a value is a fraction of two Exprs. floor and
// ceiling turn one into an Expr; elsewhere a fraction must divide exactly.
#include <fmt/core.h>

#include <array>
#include <cctype>
#include <string>

#include "base/check.h"
#include "sym/expr.h"
#include "sym/expr_terms.h"

namespace lowtide::sym {
namespace {

bool name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool name_part(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

bool plain_name(std::string_view name) {
  if (name.empty() || !name_start(name[0])) return false;
  for (char c : name)
    if (!name_part(c)) return false;
  return true;
}

void print_name(std::string& out, std::string_view name) {
  if (plain_name(name)) {
    out += name;
    return;
  }
  out += '"';
  for (char c : name) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string_view word(Atom::Kind kind) {
  switch (kind) {
    case Atom::Kind::kSymbol:
      return "";
    case Atom::Kind::kFloorDiv:
      return "floor_div";
    case Atom::Kind::kMod:
      return "mod";
    case Atom::Kind::kMin:
      return "min";
    case Atom::Kind::kMax:
      return "max";
  }
  return "";
}

void print_expr(std::string& out, const Expr& expr);

void print_factor(std::string& out, const Factor& factor) {
  const Atom& atom = *factor.atom;
  if (atom.kind == Atom::Kind::kSymbol) {
    print_name(out, atom.name);
  } else {
    out += word(atom.kind);
    out += '(';
    print_expr(out, atom.a);
    out += ", ";
    print_expr(out, atom.b);
    out += ')';
  }
  if (factor.power > 1) out += fmt::format("**{}", factor.power);
}

void print_term(std::string& out, const Term& term, bool first) {
  const bool negative = term.coefficient < 0;
  if (!first) out += negative ? " - " : " + ";
  if (first && negative) out += '-';
  const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(term.coefficient)
                                      : static_cast<uint64_t>(term.coefficient);
  bool star = magnitude != 1 || term.factors.empty();
  if (star) out += std::to_string(magnitude);
  for (const Factor& factor : term.factors) {
    if (star) out += '*';
    print_factor(out, factor);
    star = true;
  }
}

void print_expr(std::string& out, const Expr& expr) {
  if (expr.poisoned()) {
    out += "<overflow>";
    return;
  }
  if (expr.is_constant()) {
    out += std::to_string(*expr.constant());
    return;
  }
  bool first = true;
  for (const Term& term : ExprAccess::terms(expr)->terms) {
    print_term(out, term, first);
    first = false;
  }
}

constexpr size_t kMaxText = 4096;
constexpr int kMaxNesting = 64;
constexpr size_t kMaxArguments = 64;

// A value while parsing: numerator / denominator.
struct Fraction {
  Expr over;
  Expr under = 1;
};

enum class Function { kMin, kMax, kMod, kFloorDiv, kCeilDiv, kPow, kFloor, kCeiling };

struct FunctionName {
  std::string_view name;
  Function function;
};

constexpr std::array<FunctionName, 19> kFunctions = {{
    {"min", Function::kMin},           {"Min", Function::kMin},
    {"max", Function::kMax},           {"Max", Function::kMax},
    {"mod", Function::kMod},           {"Mod", Function::kMod},
    {"PythonMod", Function::kMod},     {"floor_div", Function::kFloorDiv},
    {"floordiv", Function::kFloorDiv}, {"FloorDiv", Function::kFloorDiv},
    {"CleanDiv", Function::kFloorDiv}, {"ceil_div", Function::kCeilDiv},
    {"ceildiv", Function::kCeilDiv},   {"CeilDiv", Function::kCeilDiv},
    {"pow", Function::kPow},           {"Pow", Function::kPow},
    {"floor", Function::kFloor},       {"ceiling", Function::kCeiling},
    {"ceil", Function::kCeiling},
}};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Expr> parse() {
    if (text_.size() > kMaxText)
      return error(ErrorCode::kInput,
                   fmt::format("a size expression of {} characters; at most {} are read",
                               text_.size(), kMaxText));
    LT_ASSIGN(Fraction value, sum());
    skip_space();
    if (at_ != text_.size()) return fail("an operator or the end");
    return whole(value);
  }

 private:
  tl::unexpected<Error> fail(std::string_view expected) const {
    return error(ErrorCode::kInput, fmt::format("size expression '{}', column {}: expected {}",
                                                text_, at_ + 1, expected));
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view token) {
    skip_space();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  // A fraction that divides, as an Expr.
  Result<Expr> whole(const Fraction& value) const {
    Expr result = value.over;
    if (value.under != Expr(1)) {
      if (mod(value.over, value.under) != Expr(0))
        return fail("floor() or ceiling() around a division with a remainder");
      result = floordiv(value.over, value.under);
    }
    if (result.poisoned()) return fail("a size that fits in 64 bits and in the limits on terms");
    return result;
  }

  Result<Fraction> sum() {
    if (++depth_ > kMaxNesting)
      return fail(fmt::format("at most {} nested parentheses", kMaxNesting));
    LT_ASSIGN(Fraction left, product());
    while (true) {
      const bool plus = peek() == '+', minus = peek() == '-';
      if (!plus && !minus) break;
      ++at_;
      LT_ASSIGN(Fraction right, product());
      if (left.under == right.under) {
        left.over = plus ? left.over + right.over : left.over - right.over;
      } else {
        const Expr a = left.over * right.under, b = right.over * left.under;
        left = {plus ? a + b : a - b, left.under * right.under};
      }
    }
    --depth_;
    return left;
  }

  Result<Fraction> product() {
    LT_ASSIGN(Fraction left, unary());
    while (true) {
      if (peek() == '*' && !text_.substr(at_).starts_with("**")) {
        ++at_;
        LT_ASSIGN(Fraction right, unary());
        left = {left.over * right.over, left.under * right.under};
      } else if (accept("//")) {
        LT_ASSIGN(Fraction right, unary());
        left = {floordiv(left.over * right.under, left.under * right.over), 1};
      } else if (accept("/")) {
        LT_ASSIGN(Fraction right, unary());
        if (right.over == Expr(0)) return fail("a divisor other than zero");
        left = {left.over * right.under, left.under * right.over};
      } else if (accept("%")) {
        LT_ASSIGN(Fraction right, unary());
        LT_ASSIGN(const Expr a, whole(left));
        LT_ASSIGN(const Expr b, whole(right));
        left = {mod(a, b), 1};
      } else {
        return left;
      }
    }
  }

  Result<Fraction> unary() {
    bool negative = false;
    while (peek() == '-' || peek() == '+') negative ^= text_[at_++] == '-';
    // The one number that has no positive twin.
    constexpr std::string_view kLeast = "9223372036854775808";
    if (negative && text_.substr(at_).starts_with(kLeast) &&
        !(at_ + kLeast.size() < text_.size() &&
          std::isdigit(static_cast<unsigned char>(text_[at_ + kLeast.size()])))) {
      at_ += kLeast.size();
      return Fraction{Expr(INT64_MIN)};
    }
    LT_ASSIGN(Fraction value, power());
    if (negative) value.over = -value.over;
    return value;
  }

  Result<Fraction> power() {
    LT_ASSIGN(Fraction base, primary());
    if (!accept("**")) return base;
    if (++depth_ > kMaxNesting) return fail(fmt::format("at most {} nested powers", kMaxNesting));
    LT_ASSIGN(Fraction exponent, unary());
    --depth_;
    return raise(base, exponent);
  }

  Result<Fraction> raise(Fraction base, const Fraction& exponent) {
    LT_ASSIGN(const Expr n, whole(exponent));
    if (!n.is_constant() || *n.constant() > kMaxPower || *n.constant() < -kMaxPower)
      return fail(fmt::format("a constant exponent from -{0} to {0}", kMaxPower));
    if (*n.constant() < 0) std::swap(base.over, base.under);
    if (base.under == Expr(0)) return fail("a base other than zero");
    Fraction result{Expr(1)};
    for (int64_t i = 0; i < std::abs(*n.constant()); ++i)
      result = {result.over * base.over, result.under * base.under};
    return result;
  }

  Result<Fraction> primary() {
    const char c = peek();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
    if (c == '"') return quoted();
    if (accept("(")) {
      LT_ASSIGN(Fraction inner, sum());
      if (!accept(")")) return fail("')'");
      return inner;
    }
    if (!name_start(c)) return fail("a number, a symbol or '('");
    const size_t begin = at_;
    while (at_ < text_.size() && name_part(text_[at_])) ++at_;
    const std::string_view name = text_.substr(begin, at_ - begin);
    if (peek() != '(') return Fraction{Expr::symbol(name)};
    for (const FunctionName& entry : kFunctions)
      if (entry.name == name) return call(entry.function);
    at_ = begin;
    return fail("a known function (Min, Max, Mod, Pow, FloorDiv, CeilDiv, floor, ceiling)");
  }

  Result<Fraction> number() {
    int64_t value = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, static_cast<int64_t>(text_[at_] - '0'), &value))
        return fail("a number that fits in 64 bits");
      ++at_;
    }
    if (at_ < text_.size() && name_part(text_[at_])) return fail("an operator after the number");
    return Fraction{Expr(value)};
  }

  Result<Fraction> quoted() {
    std::string name;
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') {
        if (at_ >= text_.size()) return fail("a character after the backslash");
        c = text_[at_++];
        if (c == 'x') {
          unsigned code = 0;
          for (int i = 0; i < 2; ++i) {
            if (at_ >= text_.size() || std::isxdigit(static_cast<unsigned char>(text_[at_])) == 0)
              return fail("two hexadecimal digits");
            const char d =
                static_cast<char>(std::tolower(static_cast<unsigned char>(text_[at_++])));
            code = code * 16 + static_cast<unsigned>(d <= '9' ? d - '0' : d - 'a' + 10);
          }
          c = static_cast<char>(code);
        }
      }
      name += c;
    }
    if (!accept("\"")) return fail("a closing quote");
    return Fraction{Expr::symbol(name)};
  }

  Result<Fraction> call(Function function) {
    accept("(");
    std::vector<Fraction> arguments;
    do {
      if (arguments.size() == kMaxArguments) return fail("fewer arguments");
      LT_ASSIGN(Fraction argument, sum());
      arguments.push_back(std::move(argument));
    } while (accept(","));
    if (!accept(")")) return fail("',' or ')'");
    return apply(function, arguments);
  }

  Result<Fraction> apply(Function function, const std::vector<Fraction>& arguments) {
    if (function == Function::kFloor || function == Function::kCeiling) {
      if (arguments.size() != 1) return fail("one argument");
      const Fraction& x = arguments[0];
      return Fraction{function == Function::kFloor ? floordiv(x.over, x.under)
                                                   : ceildiv(x.over, x.under)};
    }
    const bool any_number = function == Function::kMin || function == Function::kMax;
    if (any_number ? arguments.size() < 2 : arguments.size() != 2)
      return fail(any_number ? "at least two arguments" : "two arguments");
    if (function == Function::kPow) return raise(arguments[0], arguments[1]);
    LT_ASSIGN(Expr result, whole(arguments[0]));
    for (size_t i = 1; i < arguments.size(); ++i) {
      LT_ASSIGN(const Expr next, whole(arguments[i]));
      result = combine(function, result, next);
    }
    return Fraction{result};
  }

  static Expr combine(Function function, const Expr& a, const Expr& b) {
    switch (function) {
      case Function::kMin:
        return min(a, b);
      case Function::kMax:
        return max(a, b);
      case Function::kMod:
        return mod(a, b);
      case Function::kFloorDiv:
        return floordiv(a, b);
      case Function::kCeilDiv:
        return ceildiv(a, b);
      case Function::kPow:
      case Function::kFloor:
      case Function::kCeiling:
        break;
    }
    LT_CHECK(false, "functions of one argument and powers are applied elsewhere");
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string print(const Expr& expr) {
  std::string out;
  print_expr(out, expr);
  return out;
}

Result<Expr> parse_expr(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace lowtide::sym
