// What a row of the op table holds. Everything that the table answers is derived from these fields
// by code that does not know the op. The strings are little languages, one word per operand, read
// by the code named behind them; the test that walks over all rows checks that each of them parses
// and has the right length.
//
// Tests: op_table_test.cc, random_instance_test.cc.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "ops/bind.h"
#include "ops/destinations.h"
#include "ops/signature.h"

namespace lowtide::ops {

enum class ViewRule : uint8_t { kNone, kAlways, kWhenContiguous, kPieces };

// What a part of the op needs beyond slices, pads and sizes.
enum class PartRule : uint8_t {
  kNone,
  kRandom,        // draws by the index in the whole tensor: whole_dims and part_begin
  kTriangle,      // the diagonal moves with the part
  kMeanGradient,  // divides by the number of elements of the whole: scale shrinks with the part
  kClasses,       // along the axis of its positions it counts on: first_class, and classes in all
  kLossGradient,  // kClasses along the axis of its positions, kMeanGradient along others
  kGivenCost,     // attributes say what a run takes; a part takes its share
};

struct Row {
  std::string_view kind = {};
  // The signature: a text (signature.h), or a function where it depends on more than ranks. Exactly
  // one is given.
  std::string_view axes = {};
  Result<Signature> (*compute)(const Instance&) = nullptr;
  // Operand types, "T T i -> T"; a repeated last input stands for all further inputs.
  //
  //   T U N I   one type, the same wherever one of them stands: a float, any, any but bool, an
  //             integer
  //   S         of what an optimizer remembers of T: f32 where T has 16 bits, otherwise T
  //   b l i u   bool, i64, i64 or i32, u8
  //   *         any
  //   @a        what attribute a says
  std::string_view types = {};
  // Layouts, "x r w -> x". x: one common permutation; r: row-major; w: any, blocked too; @a: what
  // attribute a says, row-major without it.
  std::string_view layouts = {};
  // Attributes and their types (int, real, word, list), "axis:int alpha:real? ..."; ?: may be
  // absent.
  std::string_view attrs = {};
  // "0<-0 0<-1": output may take over the storage of an input, in order of preference.
  std::string_view in_place = {};
  std::string_view updates = {};  // "0<-0 1<-2": output is the input's storage, overwritten
  std::string_view added = {};    // "2": optional inputs that are added to output 0 once: a bias
  // "1 2": outputs that are sums, so that the op may add them into what is there (accumulators in
  // op_table.h).
  std::string_view adds_into = {};
  int shape_only = -1;  // the input of which only the shape counts
  // "1:v": the integers of input 1 are positions along axis v of the signature; where there is an
  // attribute `classes`, in a range of so many.
  std::string_view positions = {};
  int picked = -1;  // the input of which only as many elements are read as the result has
  bool broadcast = false;
  bool mean = false;  // what is summed over a reduction axis is a mean
  Merge merge = Merge::kSum;
  ViewRule view = ViewRule::kNone;
  // With the attribute `view` (int, 0 or 1) the result is a view of input 0 with strides, where its
  // sizes are constant (strided_views.cc).
  bool strided_view = false;
  PartRule part = PartRule::kNone;
  // Of a result in which windows lie: whether more of it may be cut off as padding is, and all else
  // stays as it was (own_rows.h). None: never.
  bool (*cuts_off)(const Instance&) = nullptr;
  int64_t flops = 0;                           // per loop point
  Status (*check)(const Instance&) = nullptr;  // limits of attribute values
  // Where attributes say the outputs; then `types` and `layouts` are read for inputs alone.
  Result<std::vector<OutputType>> (*outputs)(const Instance&) = nullptr;
  Traits traits = {};
};

// The families of rows.
std::span<const Row> elementwise_rows();
std::span<const Row> product_rows();
std::span<const Row> normalisation_rows();
std::span<const Row> pooling_rows();
std::span<const Row> movement_rows();
std::span<const Row> resampling_rows();
std::span<const Row> update_rows();

// The signature of an instance without accumulators, its axes not yet bound. Error: as infer.
Result<Signature> signature_of(const Row& row, const Instance& instance);
// The same, bound, with what follows from it. Checks kind, attributes and types as well, so that
// all that follows may rely on them.
struct Bound {
  const Row* row = nullptr;
  Signature signature;
  Facts facts;
  Result<std::vector<OutputType>> outputs;
  // Then `outputs` is the whole, and `signature` that of the op that computes the slice.
  std::optional<Destination> destination = {};
};
Result<Bound> bind_anew(const Instance& instance);
// Adds the accumulators of an instance to its signature, bound without them. Error: kInput.
Status bind_accumulators(Bound& bound, const Instance& instance);
// Makes the output of an instance, bound without `into` and rest, the destination. Error: kInput.
Status take_destination(Bound& bound, const Instance& instance);
// From the memory of this thread where the instance was asked for before (instance_cache.cc).
Result<std::shared_ptr<const Bound>> bind_instance(const Instance& instance);

// Whether the operand is there that says what a mean divides by (Traits::divisor).
bool has_divisor(const Row& row, const Instance& instance);

// The operands that the row itself speaks of: accumulators stand behind them.
size_t own_operands(const Row& row, const Instance& instance);

// The outputs of a bound instance without accumulators.
Result<std::vector<OutputType>> outputs_of(const Bound& bound, const Instance& instance);

// Calls use(name, type, optional) for each attribute of the row.
void for_each_attr(const Row& row,
                   const std::function<void(std::string_view, std::string_view, bool)>& use);
// "1:v 2:w" as (input, axis) pairs.
std::vector<std::pair<int, std::string_view>> parse_positions(std::string_view text);
// "0<-0 0<-1" as (input, output) pairs; "2 3" as numbers.
std::vector<std::pair<int, int>> parse_pairs(std::string_view text);
std::vector<int> parse_numbers(std::string_view text);
// "T T -> T" as two lists of words.
struct OperandWords {
  std::vector<std::string_view> inputs, outputs;
};
OperandWords parse_words(std::string_view text);
// The word of input i; the last one stands for all further inputs.
std::string_view input_word(const OperandWords& words, size_t i);

// The little languages of a row, read once for all.
struct AttrWord {
  std::string_view name, type;
  bool optional = false;
};
struct RowWords {
  OperandWords types, layouts;
  std::vector<AttrWord> attrs;
  std::vector<std::pair<int, int>> in_place, updates;
  std::vector<int> added, adds_into;
};
const RowWords& words_of_row(const Row& row);

// Whether an operand of this type word may be of this type.
bool accepts(std::string_view word, DType type);

// "KIND: WHY", kInput.
tl::unexpected<Error> refuse(const Instance& instance, const std::string& why);

// Checks the attributes against the row, and the input types; the types of the outputs. Error:
// kInput.
Status check_attrs(const Row& row, const Instance& instance);
Result<std::vector<DType>> output_dtypes(const Row& row, const Instance& instance, size_t outputs);
// Error: kInput, naming the operands and their layouts.
Status check_input_layouts(const Row& row, const Instance& instance, const Signature& signature);
// Whether the row makes strided views and the instance asks for one.
bool asks_view(const Row& row, const Instance& instance);
// Layout, alias and offset of the view that it asks for; the type must be there. Error: kInput,
// naming what is symbolic, steps below 1, or dimensions that cannot be joined.
Status make_strided_view(const Bound& bound, const Instance& instance, OutputType& view);

// Checks the input layouts; the layouts of the outputs. Error: as check_input_layouts.
Result<std::vector<Layout>> output_layouts(const Row& row, const Instance& instance,
                                           const Signature& signature);

// Whether elements of a value of `dims` lie in the same order in both layouts (dimensions of extent
// 1 do not matter), both of them dense.
bool same_order(const Layout& a, const Layout& b, const ir::Dims& dims);
// Dimensions from outermost to innermost, also for row-major. Of dense layouts.
std::vector<size_t> order_of(const Layout& layout, size_t rank);

}  // namespace lowtide::ops
