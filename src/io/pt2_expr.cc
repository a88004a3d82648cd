#include "io/pt2_expr.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <vector>

namespace lowtide::io {
namespace {

using sym::Expr;

constexpr int kMostNesting = 64;
constexpr int64_t kMostPower = 16;

class SympyParser {
 public:
  explicit SympyParser(std::string_view text) : whole_(text), text_(text) {}

  Result<Expr> run() {
    LT_ASSIGN(Expr made, expression(0));
    skip_blanks();
    if (!text_.empty()) return fail("the end");
    return made;
  }

 private:
  tl::unexpected<Error> fail(std::string_view expected) const {
    return error(ErrorCode::kInput,
                 fmt::format("size '{}': expected {} at column {}", whole_.substr(0, 100), expected,
                             whole_.size() - text_.size() + 1));
  }

  void skip_blanks() {
    while (text_.starts_with(' ')) text_.remove_prefix(1);
  }
  bool accept(char c) {
    skip_blanks();
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::string_view word() {
    skip_blanks();
    size_t end = 0;
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '_'))
      ++end;
    const std::string_view found = text_.substr(0, end);
    text_.remove_prefix(end);
    return found;
  }

  Result<int64_t> integer() {
    skip_blanks();
    int64_t number = 0;
    const auto parsed = std::from_chars(text_.data(), text_.data() + text_.size(), number);
    if (parsed.ec != std::errc()) return fail("an integer of 64 bits");
    text_.remove_prefix(static_cast<size_t>(parsed.ptr - text_.data()));
    return number;
  }

  // Symbol('s77', positive=True, integer=True), behind the first parenthesis: what is known of it
  // is of no use here.
  Result<Expr> symbol() {
    skip_blanks();
    const char quote = text_.empty() ? '\0' : text_[0];
    const size_t end = quote == '\'' || quote == '"' ? text_.find(quote, 1) : std::string::npos;
    if (end == std::string::npos || end == 1) return fail("a quoted name");
    Expr made = Expr::symbol(text_.substr(1, end - 1));
    const size_t close = text_.find(')', end);
    if (close == std::string::npos) return fail("')'");
    text_.remove_prefix(close + 1);
    return made;
  }

  // NOLINTNEXTLINE(misc-no-recursion): at most kMostNesting deep
  Result<Expr> expression(int depth) {
    if (depth > kMostNesting) return fail(fmt::format("at most {} calls inside", kMostNesting));
    skip_blanks();
    if (!text_.empty() && (text_[0] == '-' || (text_[0] >= '0' && text_[0] <= '9'))) {
      LT_ASSIGN(const int64_t number, integer());
      return Expr(number);
    }
    const std::string_view name = word();
    if (!accept('(')) return fail("a call such as Symbol('s0')");
    if (name == "Symbol") return symbol();
    if (name == "Integer") {
      LT_ASSIGN(const int64_t number, integer());
      if (!accept(')')) return fail("')'");
      return Expr(number);
    }
    std::vector<Expr> operands;
    while (!accept(')')) {
      if (!operands.empty() && !accept(',')) return fail("',' or ')'");
      LT_ASSIGN(Expr operand, expression(depth + 1));
      operands.push_back(std::move(operand));
    }
    auto made = call(name, operands);
    if (!made || made->poisoned())
      return fail(fmt::format("a function of sizes that is read, not {} of {},", name.substr(0, 40),
                              operands.size()));
    return *made;
  }

  static std::optional<Expr> call(std::string_view name, const std::vector<Expr>& x) {
    if (x.empty()) return std::nullopt;
    Expr folded = x[0];
    if (name == "Add" || name == "Mul" || name == "Max" || name == "Min") {
      for (size_t i = 1; i < x.size(); ++i)
        folded = name == "Add"   ? folded + x[i]
                 : name == "Mul" ? folded * x[i]
                 : name == "Max" ? sym::max(folded, x[i])
                                 : sym::min(folded, x[i]);
      return folded;
    }
    if (x.size() != 2) return std::nullopt;
    if (name == "FloorDiv" || name == "CleanDiv") return sym::floordiv(x[0], x[1]);
    if (name == "CeilDiv") return sym::ceildiv(x[0], x[1]);
    if (name == "Mod" || name == "PythonMod") return sym::mod(x[0], x[1]);
    const auto power = x[1].constant();
    if (name != "Pow" || !power || *power < 1 || *power > kMostPower) return std::nullopt;
    for (int64_t i = 1; i < *power; ++i) folded = folded * x[0];
    return folded;
  }

  std::string_view whole_, text_;
};

}  // namespace

Result<Expr> parse_sympy(std::string_view text) {
  auto made = SympyParser(text).run();
  if (made) return made;
  auto plain = sym::parse_expr(text);  // older programs, and numbers
  return plain ? plain : made;
}

}  // namespace lowtide::io
