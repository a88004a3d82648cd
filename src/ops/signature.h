// Axis signatures: an op as a loop nest, said by which index expression over its axes walks each
// dimension of each operand.
//
// A row of the op table says it as text, for any rank; `expand` makes the Signature of one instance
// of it:
//
//   "n (g:group c) (o*strides+r*dilations-pads).., (g:group k) c r.. -> n (g:group k) o.." (Conv)
//
// Operands stand between commas, their dimensions between blanks. A dimension is one of
//
//   a              an axis that walks it one to one
//   (a b)          a group, outer axis first: a * extent(b) + b
//   (a*s+r*d-p)..  a window, one for each dimension of a pack: position a, tap r
//   {a}            an axis that is chosen by data
//   1              of extent 1
//   a..            a pack: as many dimensions as the ranks leave, one axis each
//   a..@axis       a pack of as many dimensions as attribute `axis` says
//
// and these may be added to it or to an operand:
//
//   [a]            coupled: the axis (of a group one of them) cannot be split
//   a:attr         an attribute gives the extent of the axis (of a pack: of each)
//   (...)..:attr   the same for the dimension
//   x?             the operand may be absent
//   ()             an operand without dimensions
//
// The s, d and p of a window are names of list attributes with one entry per dimension (p: begins,
// then ends). Rows whose signature depends on more than ranks (Reshape, Slice, Concat) build the
// structure directly. Attributes that gave a number are remembered (AttrRef), so that the
// attributes of a part of the op can be written without knowing the op.
//
// Tests: axes_test.cc, op_table_test.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/op_table.h"

namespace lowtide::ops {

// The attribute that says a number: entry `index` of a list, or the whole of an integer when index
// is -1.
struct AttrRef {
  std::string name;
  int index = -1;
};

struct SignatureAxis {
  std::string name;
  bool coupled = false;
  bool chosen = false;
  std::optional<sym::Expr> extent = {};  // once known
  std::optional<AttrRef> source = {};    // the attribute that gives the extent
};

// One dimension of one operand. What `axes` holds:
//
//   kDirect, kChosen  the axis
//   kGroup            outer to inner
//   kWindow           position and tap
//   kShift            position
//   kPiece            the pieces in order
//   kBroadcast        nothing (extent 1), or the axis that the dimension stands for
struct DimIndex {
  LinkKind form = LinkKind::kDirect;
  std::vector<int> axes = {};
  bool may_broadcast = false;
  // Windows and shifts: element stride * position + dilation * tap - pad_low; pad_high elements may
  // be read past the end.
  sym::Expr stride = 1, dilation = 1, pad_low = 0, pad_high = 0;
  bool ceil_mode = false;
  // Of kShift: reading outside of the dimension is padding (Pad), not an error (Slice).
  bool pads = true;
  std::optional<AttrRef> low_source = {}, high_source = {};
  std::optional<sym::Expr> extent = {};  // the dimension's, where an attribute says it
  std::optional<AttrRef> extent_source = {};
};

using OperandIndex = std::vector<DimIndex>;

struct Signature {
  std::vector<SignatureAxis> axes;
  std::vector<std::optional<OperandIndex>> inputs;  // nullopt: absent
  std::vector<OperandIndex> outputs;

  int add_axis(SignatureAxis axis);
  int find_axis(std::string_view name) const;  // -1 when there is none
};

// ---- the text ----

struct PatternAxis {
  std::string name;
  std::string extent_attr;
  bool coupled = false;  // of a tap; other axes are coupled with their item
};

struct PatternItem {
  LinkKind form = LinkKind::kDirect;
  bool pack = false;
  bool coupled = false;
  std::vector<PatternAxis> axes;          // as in DimIndex
  std::string stride, dilation, padding;  // attribute names of a window
  std::string extent_attr, pack_size_attr;
};

struct PatternOperand {
  bool optional = false;
  std::vector<PatternItem> items;
};

struct Pattern {
  std::vector<PatternOperand> inputs, outputs;
};

// Error: kInternal, naming the text and the place: rows are ours.
Result<Pattern> parse_pattern(std::string_view text);

// The same, remembered by this thread: what rows ask for whose text depends on the instance.
using KnownPattern = std::shared_ptr<const Pattern>;
Result<KnownPattern> known_pattern(std::string_view text);

// How many of the inputs of an op there must be and may be.
struct Arity {
  size_t required = 0;
  size_t allowed = 0;
};
Arity arity(const Pattern& pattern);

// The pattern for the ranks and attributes of one instance. `broadcast`: dimensions of a pack may
// have extent 1 and leading ones may be missing. Error: kInput, naming the kind, the operand and
// the ranks.
Result<Signature> expand(const Pattern& pattern, const Instance& instance, bool broadcast);

// ---- attributes ----

// The attribute, or `fallback`; without fallback its absence is an error. Error: kInput, naming
// kind and attribute.
Result<int64_t> int_attr(const Instance& instance, std::string_view name,
                         std::optional<int64_t> fallback = {});
Result<double> real_attr(const Instance& instance, std::string_view name,
                         std::optional<double> fallback = {});
Result<std::string> word_attr(const Instance& instance, std::string_view name,
                              std::optional<std::string> fallback = {});
// A list of exactly `count` entries; when absent, `count` times the fallback.
Result<ir::Dims> list_attr(const Instance& instance, std::string_view name, size_t count,
                           std::optional<int64_t> fallback = {});
bool has_attr(const Instance& instance, std::string_view name);

// "[2, 64, seq]" for messages.
std::string print(const ir::Dims& dims);

}  // namespace lowtide::ops
