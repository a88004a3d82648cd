// Symbolic sizes: integer expressions over named symbols (batch, seq), as exporters write them and
// shape rules make them.
//
// An Expr is a polynomial with integer coefficients whose atoms are symbols and the calls floordiv,
// mod, min and max of two polynomials. It is kept in canonical form (terms sorted, like terms
// merged, calls folded where both arguments are constant or the answer does not depend on the
// symbols), so that equal polynomials compare equal. Symbols stand for sizes: integers >= 1.
// Planning binds them first; the symbolic planner extends this interface with facts and ranges.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lowtide::sym {

using Bindings = std::map<std::string, int64_t, std::less<>>;

class Expr {
 public:
  Expr() = default;                                // 0
  Expr(int64_t constant) : constant_(constant) {}  // NOLINT: sizes are written as numbers
  static Expr symbol(std::string_view name);

  bool is_constant() const { return terms_ == nullptr; }
  std::optional<int64_t> constant() const;
  // True after an overflow, and beyond the limits on terms and nesting that keep hostile text
  // harmless.
  bool poisoned() const;
  // The names that occur, sorted.
  std::vector<std::string> symbols() const;

  // Arithmetic. Overflow of a coefficient makes the result `poisoned`: it equals nothing and
  // evaluates to an error.
  friend Expr operator+(const Expr& a, const Expr& b);
  friend Expr operator-(const Expr& a, const Expr& b);
  friend Expr operator*(const Expr& a, const Expr& b);
  Expr operator-() const { return Expr(0) - *this; }
  friend bool operator==(const Expr& a, const Expr& b);
  // A total order for containers; says nothing about sizes.
  friend std::strong_ordering operator<=>(const Expr& a, const Expr& b);

  // The value under `bindings`. Error: kInput, naming the unbound symbol, the division by zero or
  // the overflow.
  Result<int64_t> evaluate(const Bindings& bindings) const;
  // Replaces the bound symbols and folds; the others stay.
  Expr substitute(const Bindings& bindings) const;

  struct Terms;

 private:
  friend struct ExprAccess;
  int64_t constant_ = 0;                // the value, when terms_ is null
  std::shared_ptr<const Terms> terms_;  // immutable, hence shared; null for constants
};

// Rounds towards minus infinity, as Python and sympy do. mod has the sign of b.
Expr floordiv(const Expr& a, const Expr& b);
Expr ceildiv(const Expr& a, const Expr& b);
Expr mod(const Expr& a, const Expr& b);
Expr min(const Expr& a, const Expr& b);
Expr max(const Expr& a, const Expr& b);

// "64*batch*seq + 1", "floor_div(seq + 1, 2)": parse(print(e)) == e.
std::string print(const Expr& expr);

// Reads print's form and what sympy prints into dim_param: + - * // ** % parentheses, Min, Max,
// Mod, Pow, FloorDiv, CeilDiv, floor(a/b), ceiling(a/b). Error: kInput, naming the text, the column
// and what was expected. Depth and length are limited.
Result<Expr> parse_expr(std::string_view text);

}  // namespace lowtide::sym

// Compiled once, in the .cc of this header.
extern template class std::vector<lowtide::sym::Expr>;
