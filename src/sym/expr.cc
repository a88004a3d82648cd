// Canonical polynomials. The work is in two places: from_terms, which sorts and merges, and
// floordiv / mod, which pull out what divides so that equal sizes written differently meet in one
// form:
//
//   floor_div(4*a + 6, 4)  ->  a + 1 + floor_div(2, 4)  ->  a + 1
//   floor_div(6*a + 3, 4)  ->  a + floor_div(2*a + 3, 4)
//   mod(6*a, 4)            ->  mod(2*a, 4)  ->  2*mod(a, 2)
//
// Each of these holds for all integers, because floor((q*c + r) / c) = q + floor(r / c) for any
// integer q and c > 0. min and max fold where the sign of the difference follows from symbols being
// at least 1. Constants never allocate.
#include "sym/expr.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/bytes.h"
#include "sym/expr_terms.h"

namespace lowtide::sym {

// ---- order ----

std::strong_ordering compare(const Atom& a, const Atom& b) {
  if (&a == &b) return std::strong_ordering::equal;
  if (const auto order = a.kind <=> b.kind; order != 0) return order;
  if (a.kind == Atom::Kind::kSymbol) return a.name <=> b.name;
  if (const auto order = a.a <=> b.a; order != 0) return order;
  return a.b <=> b.b;
}

namespace {

int degree(const std::vector<Factor>& factors) {
  int sum = 0;
  for (const Factor& factor : factors) sum += factor.power;
  return sum;
}

// Higher degree first, so that the constant comes last as people write it.
std::strong_ordering compare_terms(const Term& a, const Term& b) {
  if (const auto order = compare_monomials(a.factors, b.factors); order != 0) return order;
  return a.coefficient <=> b.coefficient;
}

bool poisoned(const Expr& expr) {
  return expr.poisoned();
}

}  // namespace

std::strong_ordering compare_monomials(const std::vector<Factor>& a, const std::vector<Factor>& b) {
  if (const auto order = degree(b) <=> degree(a); order != 0) return order;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (const auto order = compare(*a[i].atom, *b[i].atom); order != 0) return order;
    if (const auto order = b[i].power <=> a[i].power; order != 0) return order;
  }
  return a.size() <=> b.size();
}

std::strong_ordering operator<=>(const Expr& a, const Expr& b) {
  const Expr::Terms* x = a.terms_.get();
  const Expr::Terms* y = b.terms_.get();
  if (x == nullptr && y == nullptr) return a.constant_ <=> b.constant_;
  if (x == nullptr || y == nullptr) return (x != nullptr) <=> (y != nullptr);
  if (x == y) return std::strong_ordering::equal;
  if (x->poisoned || y->poisoned) return x->poisoned <=> y->poisoned;
  for (size_t i = 0; i < std::min(x->terms.size(), y->terms.size()); ++i)
    if (const auto order = compare_terms(x->terms[i], y->terms[i]); order != 0) return order;
  return x->terms.size() <=> y->terms.size();
}

bool operator==(const Expr& a, const Expr& b) {
  if (!a.terms_ && !b.terms_) return a.constant_ == b.constant_;
  if (a.poisoned() || b.poisoned()) return false;
  return (a <=> b) == std::strong_ordering::equal;
}

// ---- construction ----

Expr ExprAccess::poison() {
  static const auto terms = std::make_shared<const Expr::Terms>(Expr::Terms{true, {}});
  Expr expr;
  expr.terms_ = terms;
  return expr;
}

Expr ExprAccess::from_terms(std::vector<Term> terms) {
  const auto by_monomial = [](const Term& a, const Term& b) {
    return compare_monomials(a.factors, b.factors) < 0;
  };
  std::sort(terms.begin(), terms.end(), by_monomial);
  std::vector<Term> merged;
  for (Term& term : terms) {
    if (!merged.empty() && compare_monomials(merged.back().factors, term.factors) == 0) {
      const auto sum = checked_add(merged.back().coefficient, term.coefficient);
      if (!sum) return poison();
      merged.back().coefficient = *sum;
    } else {
      if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
      merged.push_back(std::move(term));
    }
  }
  if (!merged.empty() && merged.back().coefficient == 0) merged.pop_back();
  if (merged.empty()) return Expr(0);
  if (merged.size() == 1 && merged[0].factors.empty()) return Expr(merged[0].coefficient);
  int64_t size = 0;
  for (const Term& term : merged)
    for (const Factor& factor : term.factors) size += factor.atom->size;
  if (merged.size() > kMaxTerms || size > kMaxSize) return poison();
  Expr expr;
  expr.terms_ = std::make_shared<const Expr::Terms>(Expr::Terms{false, std::move(merged)});
  return expr;
}

Expr ExprAccess::from_atom(AtomPtr atom) {
  return from_terms({Term{1, {Factor{std::move(atom), 1}}}});
}

std::vector<Term> ExprAccess::term_list(const Expr& expr) {
  if (expr.terms_) return expr.terms_->terms;
  if (expr.constant_ == 0) return {};
  return {Term{expr.constant_, {}}};
}

Expr Expr::symbol(std::string_view name) {
  auto atom = std::make_shared<Atom>();
  atom->name = std::string(name);
  return ExprAccess::from_atom(std::move(atom));
}

bool Expr::poisoned() const {
  return terms_ != nullptr && terms_->poisoned;
}

std::optional<int64_t> Expr::constant() const {
  if (terms_) return std::nullopt;
  return constant_;
}

// ---- ring operations ----

namespace {

// The sum in a + sign * b; sign is 1 or -1.
Expr add(const Expr& a, const Expr& b, int64_t sign) {
  if (poisoned(a) || poisoned(b)) return ExprAccess::poison();
  std::vector<Term> terms = ExprAccess::term_list(a);
  for (Term& term : ExprAccess::term_list(b)) {
    const auto coefficient = checked_mul(term.coefficient, sign);
    if (!coefficient) return ExprAccess::poison();
    terms.push_back(Term{*coefficient, std::move(term.factors)});
  }
  return ExprAccess::from_terms(std::move(terms));
}

// Merges two sorted factor lists; empty optional when a power is too high.
std::optional<std::vector<Factor>> multiply(const std::vector<Factor>& a,
                                            const std::vector<Factor>& b) {
  std::vector<Factor> product;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    const auto order = i == a.size()   ? std::strong_ordering::greater
                       : j == b.size() ? std::strong_ordering::less
                                       : compare(*a[i].atom, *b[j].atom);
    if (order < 0) {
      product.push_back(a[i++]);
    } else if (order > 0) {
      product.push_back(b[j++]);
    } else {
      product.push_back(Factor{a[i].atom, a[i].power + b[j].power});
      if (product.back().power > kMaxPower) return std::nullopt;
      ++i, ++j;
    }
  }
  return product;
}

}  // namespace

Expr operator+(const Expr& a, const Expr& b) {
  if (!a.terms_ && !b.terms_) {
    const auto sum = checked_add(a.constant_, b.constant_);
    return sum ? Expr(*sum) : ExprAccess::poison();
  }
  return add(a, b, 1);
}

Expr operator-(const Expr& a, const Expr& b) {
  if (!a.terms_ && !b.terms_) {
    int64_t difference = 0;
    if (__builtin_sub_overflow(a.constant_, b.constant_, &difference)) return ExprAccess::poison();
    return Expr(difference);
  }
  return add(a, b, -1);
}

Expr operator*(const Expr& a, const Expr& b) {
  if (!a.terms_ && !b.terms_) {
    const auto product = checked_mul(a.constant_, b.constant_);
    return product ? Expr(*product) : ExprAccess::poison();
  }
  if (poisoned(a) || poisoned(b)) return ExprAccess::poison();
  const std::vector<Term> left = ExprAccess::term_list(a), right = ExprAccess::term_list(b);
  if (left.size() * right.size() > kMaxProducts) return ExprAccess::poison();
  std::vector<Term> terms;
  for (const Term& x : left) {
    for (const Term& y : right) {
      const auto coefficient = checked_mul(x.coefficient, y.coefficient);
      auto factors = multiply(x.factors, y.factors);
      if (!coefficient || !factors) return ExprAccess::poison();
      terms.push_back(Term{*coefficient, std::move(*factors)});
    }
  }
  return ExprAccess::from_terms(std::move(terms));
}

// ---- calls ----

namespace {

using Kind = Atom::Kind;

struct Extent {
  int depth = 0;
  int64_t size = 0;
};

Extent extent_of(const Expr& expr) {
  Extent extent;
  if (const Expr::Terms* terms = ExprAccess::terms(expr)) {
    for (const Term& term : terms->terms) {
      for (const Factor& factor : term.factors) {
        extent.depth = std::max(extent.depth, factor.atom->depth);
        extent.size += factor.atom->size;
      }
    }
  }
  return extent;
}

Expr call(Kind kind, const Expr& a, const Expr& b) {
  const Extent x = extent_of(a), y = extent_of(b);
  auto atom = std::make_shared<Atom>();
  atom->kind = kind;
  atom->a = a;
  atom->b = b;
  atom->depth = 1 + std::max(x.depth, y.depth);
  atom->size = 1 + x.size + y.size;
  if (atom->depth > kMaxDepth || atom->size > kMaxSize) return ExprAccess::poison();
  return ExprAccess::from_atom(std::move(atom));
}

// b != 0, and not (INT64_MIN, -1).
int64_t floor_quotient(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q - ((a % b != 0 && ((a < 0) != (b < 0))) ? 1 : 0);
}
int64_t floor_remainder(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r + ((r != 0 && ((r < 0) != (b < 0))) ? b : 0);
}

// a = quotient * b + rest, with as much in the quotient as divides. Constant b > 0: coefficients of
// the rest lie in [0, b). b a product of symbols (so at least 1): terms that b divides go to the
// quotient.
struct Division {
  Expr quotient, rest;
};

// term / divisor, where it divides.
std::optional<Term> divide(const Term& term, const Term& divisor) {
  if (term.coefficient % divisor.coefficient != 0) return std::nullopt;
  Term result{term.coefficient / divisor.coefficient, {}};
  size_t j = 0;
  for (const Factor& factor : term.factors) {
    Factor left = factor;
    if (j < divisor.factors.size() && compare(*factor.atom, *divisor.factors[j].atom) == 0)
      left.power -= divisor.factors[j++].power;
    if (left.power < 0) return std::nullopt;
    if (left.power > 0) result.factors.push_back(left);
  }
  if (j != divisor.factors.size()) return std::nullopt;
  return result;
}

bool product_of_symbols(const Term& term) {
  return std::all_of(term.factors.begin(), term.factors.end(),
                     [](const Factor& factor) { return factor.atom->kind == Kind::kSymbol; });
}

Division pull_out(const Expr& a, const Expr& b) {
  std::vector<Term> quotient, rest;
  const std::vector<Term> divisor = ExprAccess::term_list(b);
  const bool symbolic =
      divisor.size() == 1 && product_of_symbols(divisor[0]) && divisor[0].coefficient > 0;
  for (Term& term : ExprAccess::term_list(a)) {
    if (b.is_constant()) {
      const int64_t c = *b.constant();
      quotient.push_back(Term{floor_quotient(term.coefficient, c), term.factors});
      rest.push_back(Term{floor_remainder(term.coefficient, c), term.factors});
    } else if (std::optional<Term> part = symbolic ? divide(term, divisor[0]) : std::nullopt) {
      quotient.push_back(std::move(*part));
    } else {
      rest.push_back(std::move(term));
    }
  }
  const auto nonzero = [](std::vector<Term> terms) {
    std::erase_if(terms, [](const Term& term) { return term.coefficient == 0; });
    return ExprAccess::from_terms(std::move(terms));
  };
  return {nonzero(std::move(quotient)), nonzero(std::move(rest))};
}

// The greatest common divisor of all coefficients of a, and c.
int64_t common_divisor(const Expr& a, int64_t c) {
  for (const Term& term : ExprAccess::term_list(a)) c = std::gcd(c, term.coefficient);
  return c;
}

Expr divide_coefficients(const Expr& a, int64_t divisor) {
  std::vector<Term> terms = ExprAccess::term_list(a);
  for (Term& term : terms) term.coefficient /= divisor;
  return ExprAccess::from_terms(std::move(terms));
}

// a, when a is 1 * floor_div(inner, c) with a positive constant c: floor_div(a, d) is
// floor_div(inner, c * d).
const Atom* lone_floordiv(const Expr& a) {
  const Expr::Terms* terms = ExprAccess::terms(a);
  if (terms == nullptr || terms->terms.size() != 1) return nullptr;
  const Term& term = terms->terms[0];
  if (term.coefficient != 1 || term.factors.size() != 1 || term.factors[0].power != 1)
    return nullptr;
  const Atom& atom = *term.factors[0].atom;
  return atom.kind == Kind::kFloorDiv && atom.b.constant().value_or(0) > 0 ? &atom : nullptr;
}

bool is_zero(const Expr& expr) {
  return expr.constant() == 0;
}
bool is_negative(const Expr& expr) {
  return expr.constant().value_or(0) < 0;
}

}  // namespace

Expr floordiv(const Expr& a, const Expr& b) {
  if (poisoned(a) || poisoned(b)) return ExprAccess::poison();
  if (is_zero(b)) return call(Kind::kFloorDiv, a, b);  // evaluates to an error that says so
  if (is_negative(b)) return floordiv(-a, -b);
  const auto [quotient, rest] = pull_out(a, b);
  if (is_zero(rest)) return quotient;
  if (!b.is_constant()) return quotient + call(Kind::kFloorDiv, rest, b);
  const int64_t c = *b.constant();
  if (rest.is_constant()) return quotient;  // in [0, c)
  const int64_t common = common_divisor(rest, c);
  if (common > 1) return quotient + floordiv(divide_coefficients(rest, common), Expr(c / common));
  if (const Atom* inner = lone_floordiv(rest))
    if (const Expr product = inner->b * b; !poisoned(product))
      return quotient + floordiv(inner->a, product);
  return quotient + call(Kind::kFloorDiv, rest, b);
}

Expr ceildiv(const Expr& a, const Expr& b) {
  return -floordiv(-a, b);
}

Expr mod(const Expr& a, const Expr& b) {
  if (poisoned(a) || poisoned(b)) return ExprAccess::poison();
  if (is_zero(b)) return call(Kind::kMod, a, b);
  if (is_negative(b)) return -mod(-a, -b);
  const Expr rest = pull_out(a, b).rest;
  if (rest.is_constant() && (b.is_constant() || is_zero(rest))) return rest;
  if (b.is_constant()) {
    const int64_t common = common_divisor(rest, *b.constant());
    if (common > 1)
      return mod(divide_coefficients(rest, common), Expr(*b.constant() / common)) * Expr(common);
  }
  return call(Kind::kMod, rest, b);
}

namespace {

// True when expr >= 0 for all symbols >= 1, as far as the signs of the coefficients tell.
bool surely_not_negative(const Expr& expr) {
  int64_t least = 0;
  for (const Term& term : ExprAccess::term_list(expr)) {
    if (!term.factors.empty() && (term.coefficient < 0 || !product_of_symbols(term))) return false;
    const auto sum = checked_add(least, term.coefficient);
    if (!sum) return false;
    least = *sum;
  }
  return least >= 0;
}

Expr choose(Kind kind, const Expr& a, const Expr& b) {
  if (poisoned(a) || poisoned(b)) return ExprAccess::poison();
  if (a.is_constant() && b.is_constant())
    return (kind == Kind::kMin) == (*a.constant() < *b.constant()) ? a : b;
  const Expr difference = a - b;
  if (!poisoned(difference)) {
    if (surely_not_negative(difference)) return kind == Kind::kMin ? b : a;
    if (surely_not_negative(-difference)) return kind == Kind::kMin ? a : b;
  }
  return (a <=> b) <= 0 ? call(kind, a, b) : call(kind, b, a);
}

}  // namespace

Expr min(const Expr& a, const Expr& b) {
  return choose(Kind::kMin, a, b);
}
Expr max(const Expr& a, const Expr& b) {
  return choose(Kind::kMax, a, b);
}

// ---- evaluation ----

namespace {

tl::unexpected<Error> bad(std::string message) {
  return error(ErrorCode::kInput, std::move(message));
}

tl::unexpected<Error> overflow() {
  return bad("a symbolic size overflows 64 bits");
}

Result<int64_t> evaluate_atom(const Atom& atom, const Bindings& bindings) {
  if (atom.kind == Kind::kSymbol) {
    const auto found = bindings.find(atom.name);
    if (found == bindings.end())
      return bad(fmt::format("symbol '{}' has no value; bind it", atom.name));
    return found->second;
  }
  LT_ASSIGN(const int64_t a, atom.a.evaluate(bindings));
  LT_ASSIGN(const int64_t b, atom.b.evaluate(bindings));
  switch (atom.kind) {
    case Kind::kSymbol:
    case Kind::kMin:
      return std::min(a, b);
    case Kind::kMax:
      return std::max(a, b);
    case Kind::kFloorDiv:
    case Kind::kMod:
      break;
  }
  if (b == 0)
    return bad(fmt::format("division of {} by zero in '{}'", a,
                           print(ExprAccess::from_atom(std::make_shared<Atom>(atom)))));
  if (b == -1) {
    if (atom.kind == Kind::kMod) return 0;
    if (a == INT64_MIN) return overflow();
  }
  return atom.kind == Kind::kMod ? floor_remainder(a, b) : floor_quotient(a, b);
}

}  // namespace

Result<int64_t> Expr::evaluate(const Bindings& bindings) const {
  if (!terms_) return constant_;
  if (terms_->poisoned) return overflow();
  int64_t sum = 0;
  for (const Term& term : terms_->terms) {
    std::optional<int64_t> product = term.coefficient;
    for (const Factor& factor : term.factors) {
      LT_ASSIGN(const int64_t value, evaluate_atom(*factor.atom, bindings));
      for (int i = 0; product && i < factor.power; ++i) product = checked_mul(*product, value);
    }
    const std::optional<int64_t> total = product ? checked_add(sum, *product) : std::nullopt;
    if (!total) return overflow();
    sum = *total;
  }
  return sum;
}

Expr Expr::substitute(const Bindings& bindings) const {
  if (!terms_ || terms_->poisoned || bindings.empty()) return *this;
  Expr sum;
  for (const Term& term : terms_->terms) {
    Expr product(term.coefficient);
    for (const Factor& factor : term.factors) {
      const Atom& atom = *factor.atom;
      Expr value = ExprAccess::from_atom(factor.atom);
      if (atom.kind == Kind::kSymbol) {
        if (const auto found = bindings.find(atom.name); found != bindings.end())
          value = Expr(found->second);
      } else {
        const Expr a = atom.a.substitute(bindings), b = atom.b.substitute(bindings);
        value = atom.kind == Kind::kFloorDiv ? floordiv(a, b)
                : atom.kind == Kind::kMod    ? mod(a, b)
                : atom.kind == Kind::kMin    ? min(a, b)
                                             : max(a, b);
      }
      for (int i = 0; i < factor.power; ++i) product = product * value;
    }
    sum = sum + product;
  }
  return sum;
}

namespace {

void collect(const Expr& expr, std::set<std::string>& names) {
  const Expr::Terms* terms = ExprAccess::terms(expr);
  if (terms == nullptr) return;
  for (const Term& term : terms->terms) {
    for (const Factor& factor : term.factors) {
      if (factor.atom->kind == Kind::kSymbol) names.insert(factor.atom->name);
      collect(factor.atom->a, names);
      collect(factor.atom->b, names);
    }
  }
}

}  // namespace

std::vector<std::string> Expr::symbols() const {
  if (!terms_) return {};
  std::set<std::string> names;
  collect(*this, names);
  return {names.begin(), names.end()};
}

}  // namespace lowtide::sym

template class std::vector<lowtide::sym::Expr>;
