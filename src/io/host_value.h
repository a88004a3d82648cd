// Values known while the model is read: shapes, axes, masks, positions. They have one of four
// forms.
//
//   dense    every element written out; integers may be symbolic (the dims of a shape)
//   indexed  one formula for all elements, affine in their index: Range(0, seq) is "i0", a causal
//            mask is "i3 <= i2". It needs no numbers for symbols and no memory for the elements, so
//            masks of symbolic or huge size stay small
//   columns  an indexed value whose last dim is written out: one formula for each place in it
//            (index tuples of a GatherND)
//   unknown  only type and dims are known; `reason` says why. Good enough for a Shape
//
// Tests: onnx_parameters_test.cc, tests/python/test_folded_formulas.py.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "io/onnx_model.h"
#include "ir/graph.h"
#include "sym/expr.h"

namespace lowtide::io {

// base + slope[0] * i0 + slope[1] * i1 + ...; base and slopes may hold symbols. One slope per dim
// of the value.
struct Affine {
  sym::Expr base;
  std::vector<sym::Expr> slope;

  bool is_flat() const;                     // the same for every index
  std::optional<int64_t> constant() const;  // flat and without symbols
  bool operator==(const Affine&) const = default;
};

Affine flat(sym::Expr value, size_t rank);
Affine along(size_t dim, size_t rank);  // the index of one dim
Affine operator+(const Affine& a, const Affine& b);
Affine operator-(const Affine& a, const Affine& b);
Affine scaled(const Affine& a, const sym::Expr& factor);
// The least and the greatest value over all indices of these dims; none where a symbol or an empty
// dim leaves it open.
struct Span {
  int64_t least = 0, greatest = 0;
};
std::optional<Span> span_of(const Affine& a, const ir::Dims& dims);
// The formula where index d of `a` is given by inner[d]; `rank` is the rank of the inner formulas.
Affine compose(const Affine& a, std::span<const Affine> inner, size_t rank);
sym::Expr at(const Affine& a, std::span<const int64_t> index);

// The formula of an indexed value: an integer, or a truth value (all conditions are >= 0; none:
// true), or a float that is `real` where the conditions hold and `otherwise` elsewhere.
struct Cell {
  Affine integer;
  double real = 0;
  double otherwise = 0;
  std::vector<Affine> conditions;
  bool operator==(const Cell&) const = default;
};
Cell compose(const Cell& cell, std::span<const Affine> inner, size_t rank);

struct HostValue {
  enum class Form : uint8_t { kDense, kIndexed, kColumns, kUnknown };
  DType dtype = DType::kI64;
  ir::Dims dims;
  Form form = Form::kDense;
  std::vector<sym::Expr> ints;  // dense integers and truth values (0 or 1), row-major
  std::vector<double> reals;    // dense floats
  Cell cell;                    // indexed
  std::vector<Cell> columns;    // columns; the slope of the last dim is 0
  std::string reason;           // unknown
};

// Most elements a dense value may have.
inline constexpr int64_t kMaxHostElements = int64_t{1} << 22;

// Conditions that are always, or never, true; and whether given ones are one of the two.
std::vector<Affine> truth(bool value, size_t rank);
std::optional<bool> known_truth(std::span<const Affine> conditions);

HostValue host_scalar(sym::Expr value);                // i64
HostValue host_vector(std::vector<sym::Expr> values);  // i64, one dim
HostValue host_unknown(DType dtype, ir::Dims dims, std::string reason);
// Error: kInput: not a type the host computes with, or more than kMaxHostElements.
Result<HostValue> host_from_tensor(const OnnxTensor& tensor);
// What a Constant node holds, in any of its attribute forms. Error: kInput: as above, or text.
Result<HostValue> host_from_constant(const OnnxNode& node);

// Product of constant dims, at most kMaxHostElements. Error: kInput, naming the symbolic dim and
// how to bind it.
Result<int64_t> constant_count(const ir::Dims& dims);
// Constant dims as numbers. Error as above.
Result<std::vector<int64_t>> constant_dims(const ir::Dims& dims);
// The same value written out. Error: kInput: unknown value, symbolic dims, too many elements, an
// undecided condition.
Result<HostValue> densify(const HostValue& value);
// A dense value of one element, of equal elements, or of integers in equal steps along its only dim
// other than 1, as formula; an indexed value as it is. none: neither.
std::optional<HostValue> as_indexed(const HostValue& value);
// The elements of an integer value of any form. Error as densify.
Result<std::vector<sym::Expr>> host_ints(const HostValue& value);
// The same, all constant. Error: kInput, naming a symbol that needs a number.
Result<std::vector<int64_t>> host_constants(const HostValue& value);
// The elements as floats, whatever the type. Error as host_constants.
Result<std::vector<double>> host_reals(const HostValue& value);
// Error: kInput: a written-out value has not exactly one element of its type for each place, or a
// dim is negative or overflows. Whoever computes with a value that passed need not look.
Status check_elements(const HostValue& value);
// Row-major little-endian bytes. Error as host_constants and check_elements.
Result<std::string> host_bytes(const HostValue& value);

// The message for a size that must be a number: names the symbols and the flag that binds them.
std::string needs_number(const sym::Expr& expr);

// An integer as its type keeps it: arithmetic wraps around. What holds a symbol is a size and fits.
sym::Expr wrap_to(DType dtype, const sym::Expr& value);
// Whether all values of an integer formula fit the type (symbols: taken to). True of a type that
// does not look at the integers.
bool fits(DType dtype, const Affine& a, const ir::Dims& dims);

// Steps a row-major index; back to zeros after the last.
void next_index(std::vector<int64_t>& index, std::span<const int64_t> extents);
// A float rounded to what its type can hold.
double round_to(DType dtype, double value);

}  // namespace lowtide::io
