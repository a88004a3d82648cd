// Patterns of ops as texts. A text is a term: an op by its kind, what it is called behind a colon,
// and its operands in brackets, which are terms again; a name that begins with a small letter
// stands for a value.
//
//     Slice:outer(Slice:inner(x))          a slice of a slice
//     Concat:c(.., Concat:d(ys..), ..)     a Concat with a Concat among its operands
//     Concat:c(Slice:parts(x)..{follow})   one of slices of one value, each following the last
//     MatMul(a, b, -)                      a product without its third operand
//
//   x          a value; twice: the same value. The name of an op is its first result's
//   ys.. and ..   any number of operands, none as well; ys.. twice: the same ones. `..` has no
//              name, and in a result the n-th one is the n-th of the pattern
//   K:parts(x)..{r}   a run: as many neighbours as fit, one or more, each an op of this kind with
//              these operands and related to the one before it by r (any, without {r})
//   -          an operand that is absent; behind the last that is there all are
//
// A match of a pattern at an op says for every name which values it stands for. Kinds that commute
// (Add, Mul, ..) match their two operands in either order. All matches are enumerated, each once,
// in one order: from left to right, the order as written before the other one, lists short before
// long. By backtracking: of n operands, a pattern with k lists beside each other has up to
// n^(k-1) matches; a run is found in one way from where it begins. A rule that changes one place of
// n operands and fits at m of them in turn (a Concat of m Concats or pairs of slices) looks from
// the left again each time, and at up to n operands from every place: about m n^2 steps.
//
// A result is a text, too: what is built of a match. Its ops may have names of their own, and say
// by a word in square brackets where their attributes come from (words.h):
//
//     Slice[of_both(inner, outer)](x)
//     Concat[as(c)](.., ys.., ..)
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/edit.h"

namespace lowtide::rewrite {

// What a name stands for: a value; an op and its first result; any number of values; the ops of a
// run and their first results.
enum class Sort : uint8_t { kValue, kOp, kValues, kOps };

struct Name {
  std::string text;  // empty: the term has none; "..2": the third list without a name
  Sort sort = Sort::kValue;
};

// A word with names behind it, as numbers: `of_both(inner, outer)`, `!is_view(x)`.
struct Call {
  std::string word;
  bool negated = false;
  std::vector<size_t> names;
};

struct Term {
  enum class Form : uint8_t { kOp, kValue, kList, kRun, kAbsent };
  Form form = Form::kOp;
  size_t name = 0;                      // of all but kAbsent
  std::string kind = {};                // of an op or run
  std::optional<Call> attributes = {};  // of an op of a result
  std::string relation = {};            // of a run
  std::vector<size_t> operands = {};    // terms
};

// Of a pattern or of a result.
struct Pattern {
  std::string text;
  std::vector<Term> terms;  // operands before whose they are, so the root is the last one
  std::vector<Name> names;  // a result's begin with those of its pattern
  const Term& root() const { return terms.back(); }
};

// Error: kUsage, with the text and what is wrong where.
Result<Pattern> parse_pattern(std::string_view text);
// The root is an op or a value. Its names are those that are known, and of ops new ones.
Result<Pattern> parse_result(std::string_view text, std::span<const Name> known);
// Words with known names in brackets, between commas.
Result<std::vector<Call>> parse_calls(std::string_view text, std::span<const Name> known);

// Whether Op(a, b) is Op(b, a).
bool commutes(std::string_view kind);

struct Match {
  const ir::GraphEdit* edit = nullptr;
  const Pattern* pattern = nullptr;
  std::vector<std::vector<ir::ValueId>> bound;  // by name: values, or the first results of ops

  ir::OpId op(size_t name) const { return edit->value(bound[name][0]).producer; }
};

// Whether neighbours among the operands of an op belong to one run.
using Related = std::function<bool(std::string_view relation, const ir::GraphEdit& edit,
                                   ir::OpId reader, ir::ValueId left, ir::ValueId right)>;

// Visits every match at this op until the visitor says that it has what it wants; whether it did.
// The visitor may change the edit, if it takes that back or is done then.
bool for_each_match(const ir::GraphEdit& edit, const Pattern& pattern, ir::OpId root,
                    const std::function<bool(const Match&)>& visit, const Related& related = {});

}  // namespace lowtide::rewrite
