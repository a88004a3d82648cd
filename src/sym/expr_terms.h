// The inside of an Expr, shared by its arithmetic (expr.cc) and its text form (expr_text.cc) and by
// nobody else.
//
//   Expr  = sum of Terms            64*batch*seq + 1
//   Term  = coefficient * Factors   64 * batch^1 * seq^1
//   Atom  = a symbol, or a call     batch, floor_div(seq + 1, 2)
//
// Invariants of a Terms object that an Expr points to: terms sorted by `before`, monomials
// distinct, coefficients not zero, factors of a term sorted by atom with powers >= 1, at least one
// term with a factor (else it is a plain constant), and the limits below. `poisoned` objects have
// no terms.
//
// Tests: expr_test.cc.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sym/expr.h"

namespace lowtide::sym {

struct Atom {
  enum class Kind : uint8_t { kSymbol, kFloorDiv, kMod, kMin, kMax };
  Kind kind = Kind::kSymbol;
  std::string name;  // kSymbol
  Expr a, b;         // calls
  int depth = 1;     // of nested calls
  int64_t size = 1;  // atoms in the written-out tree
};
using AtomPtr = std::shared_ptr<const Atom>;

struct Factor {
  AtomPtr atom;
  int power = 1;
};

struct Term {
  int64_t coefficient = 0;
  std::vector<Factor> factors;  // empty: the constant term
};

struct Expr::Terms {
  bool poisoned = false;
  std::vector<Term> terms;
};

// What no size of a model comes near, and what keeps hostile text from taking time or stack: beyond
// it an Expr is poisoned.
inline constexpr size_t kMaxTerms = 512;
inline constexpr size_t kMaxProducts = 1 << 14;  // of one multiplication
inline constexpr int kMaxPower = 64;
inline constexpr int kMaxDepth = 100;
inline constexpr int64_t kMaxSize = 1 << 14;

struct ExprAccess {
  static const Expr::Terms* terms(const Expr& expr) { return expr.terms_.get(); }
  static int64_t value(const Expr& expr) { return expr.constant_; }
  static Expr poison();
  // Sorts, merges and folds; poisons on overflow.
  static Expr from_terms(std::vector<Term> terms);
  static Expr from_atom(AtomPtr atom);
  // The terms of any Expr that is not poisoned; a constant gives one term or none.
  static std::vector<Term> term_list(const Expr& expr);
};

std::strong_ordering compare(const Atom& a, const Atom& b);
std::strong_ordering compare_monomials(const std::vector<Factor>& a, const std::vector<Factor>& b);

}  // namespace lowtide::sym
