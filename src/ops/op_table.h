// The op table: what each op means, said once. One row per op: an axis signature (which dimension
// of which operand each loop walks) plus traits. Shapes, FLOPs, bytes, the edges of MAGIS's
// dimension graph (section 4.1 of its paper), how an op splits and how parts merge, halos, in-place
// legality and views are derived from the row by the functions below. No other table in this
// project repeats any of it. docs/ops.md lists the rows for people; the notation is explained
// there.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/id_order.h"
#include "sym/expr.h"

namespace lowtide::ops {

// One operand or result as shape rules see it.
struct Type {
  DType dtype = DType::kF32;
  ir::Dims dims;
  Layout layout;
  bool operator==(const Type&) const = default;
};

// An instance of an op before or after it is in a graph. Absent optional inputs are nullopt.
struct Instance {
  std::string_view kind;
  const ir::Attrs* attrs = nullptr;
  std::vector<std::optional<Type>> inputs;
};

// ---- rows ----

struct Row;  // opaque outside src/ops; ask it through the functions below

// The row of a kind, or null.
const Row* find(std::string_view kind);
// The sorted names of the rows that say what an op computes, without those that leave it to the
// op's attributes (rows_opaque.h).
std::vector<std::string_view> kinds();

struct Traits {
  bool recomputable = true;  // may run again (pure, or random keyed by counter)
  bool random = false;       // reads the step's random stream; same bits on every run within a step
  bool has_effect = false;   // updates an input (an output has Alias::kUpdate), or the world
  bool product = false;      // a dense product: runs at the device's multiply-add rate
  bool carries = false;      // an output's elements are those of the inputs: moved, repeated, cast
  bool opaque = false;       // what it computes is not known here; its attributes say its types
  // The optional input that says what a mean divides by, and the gradient of one: parts add up as
  // they are. -1: none; then, and without it, they divide by what they have themselves.
  int divisor = -1;
  std::string_view gradient = {};  // name of the gradient rule; empty: not differentiable
};
const Traits& traits(const Row& row);

// The attribute that sets the layout of an output where a kernel may choose it (absent: row-major);
// empty where the operands decide.
std::string_view free_layout_attr(const Row& row, size_t output);

// ---- shapes ----

// How one output comes to its storage, and its type.
struct OutputType {
  Type type;
  ir::Alias alias = ir::Alias::kOwn;
  int base_input = -1;     // for kView and kUpdate; kPieces joins all inputs
  sym::Expr offset_bytes;  // for kView: where it starts in base_input's bytes
};

// Output types. Equality facts between symbolic extents that had to be assumed are appended to
// `facts` (if given) as pairs. Error: kInput, naming the kind, the operands and the extents that
// disagree, a missing attribute, or a wrong operand count.
Result<std::vector<OutputType>> infer(
    const Instance& instance, std::vector<std::pair<sym::Expr, sym::Expr>>* facts = nullptr);

// The instance of an op of a graph.
Instance instance_of(const ir::Graph& graph, ir::OpId op);

// Infers and appends: the one way in which doors, autodiff, optimizers and passes add ops, so that
// types, storages and offsets are always what the op table says. Outputs are named `name`,
// `name.1`, ... unless output_names says otherwise (made fresh where taken).
struct AppendOptions {
  std::string name = {};  // of the op; made fresh where taken; empty: from kind
  std::string module = {};
  std::string source = {};
  Phase phase = Phase::kForward;
  std::vector<std::string> output_names = {};
  Category category = Category::kActivation;  // of the outputs that own a storage
  std::vector<ir::OpId> control = {};
};
Result<ir::OpId> append(ir::Graph& graph, std::string_view kind, std::vector<ir::ValueId> inputs,
                        ir::Attrs attrs, const AppendOptions& options = {});

// An op of another graph again, on operands and with attributes of this one: its names, module,
// phase, and what its outputs are for (is_output, category) stay; their types, storages and offsets
// are inferred anew, so what was a view may come to own a storage, and the reverse. Of its control
// edges it gets `control`. Where it fails the graph is as it was.
Result<ir::OpId> append_again(ir::Graph& graph, const ir::Graph& from, ir::OpId op,
                              std::vector<ir::ValueId> inputs, ir::Attrs attrs,
                              std::vector<ir::OpId> control);
// The same in a graph that is being written again: with its control edges, and noted there.
Status append_again(ir::Rewritten& graph, const ir::Graph& from, ir::OpId op,
                    std::vector<ir::ValueId> inputs, ir::Attrs attrs);

// Gives the category of a gradient to a value of the backward pass and to what it shows: the
// storage, or the pieces, that it lies in.
void mark_gradient(ir::Graph& graph, ir::ValueId id);

// Below what the integers of an input must stay because they are positions along an axis: rows of a
// Gather, classes of a loss (of a part of the classes: of all of them). Nothing where they are not.
std::optional<sym::Expr> position_limit(const Instance& instance, size_t input);

// ---- cost ----

struct Work {
  sym::Expr flops;       // multiply-add counts two; cost per loop point from the row
  sym::Expr bytes_read;  // inputs touched once (a Gather reads what it gathers)
  sym::Expr bytes_written;
};
Result<Work> work(const Instance& instance);

// What an opaque op's attributes say of one run: its time, if they do, and its scratch bytes.
// Nothing for other ops.
struct GivenCost {
  std::optional<double> seconds;
  int64_t workspace_bytes = 0;
};
std::optional<GivenCost> given_cost(const ir::Op& op);

// ---- memory ----

// (input, output) pairs whose storage may be shared when the input dies here, in order of
// preference; sizes already compared.
std::vector<std::pair<int, int>> in_place_pairs(const Instance& instance);
// An output that is a sum may be added into what is there: the op then has an *accumulator*, an
// operand behind its row's own. Its place among them; nothing for an output that is no sum.
std::optional<int> accumulator_operand(const Row& row, int output);
// The accumulators that an instance has, as (input, output); these pairs are also first in
// in_place_pairs.
std::vector<std::pair<int, int>> accumulators(const Instance& instance);

// ---- axes: the dimension graph and fission ----

enum class AxisRole : uint8_t { kParallel, kReduction };
// How the results of an axis's parts are put together; kNone: they cannot be.
enum class Merge : uint8_t { kConcat, kSum, kMax, kLogSumExp, kNone };
// The op that puts two partial results together, element by element; empty where none does.
std::string_view merging_kind(Merge merge);

struct Axis {
  std::string name;
  sym::Expr extent;
  AxisRole role = AxisRole::kParallel;
  Merge merge = Merge::kConcat;  // of a reduction: how partial results combine
  bool coupled = false;          // [a]: cannot be split
};

// One dimension of one operand as an expression over axes: sum of stride * axis + constant, with
// notes.
enum class LinkKind : uint8_t { kDirect, kWindow, kGroup, kShift, kPiece, kChosen, kBroadcast };
struct AxisUse {
  int axis = -1;
  int operand = 0;  // input index, or output index when is_output
  bool is_output = false;
  int dim = 0;
  LinkKind kind = LinkKind::kDirect;
  // Window: elements per step of the axis; group: elements per unit of the outer axis.
  sym::Expr stride = 1;
  sym::Expr shift;  // kShift, kPiece: where the axis starts in the dimension
  // Window: elements needed (of a result: added into) before and after stride * part.
  sym::Expr halo_low, halo_high;
  // Group: this axis is the outer one, so its slices are contiguous in the dimension. Window: this
  // axis is the position, not the tap.
  bool outermost = true;
};

struct AxisMap {
  std::vector<Axis> axes;
  std::vector<AxisUse> uses;
};
// The axis signature bound to an instance. Error: as infer. An axis that outputs reach only as the
// position or tap of a window is a reduction: its parts overlap there and add up. But positions
// whose parts make rows of their own (own_rows.h) are parallel; operands that they walk one by one
// are then read with a halo.
Result<AxisMap> axis_map(const Instance& instance);

// Whether part() can split an axis: it is not coupled, its parts merge, and no group holds it
// inside.
bool can_split(const AxisMap& map, int axis);

// How part [begin, end) of `axis` is computed: which slice of each input it reads, which slice of
// each output it writes or adds into, and the attributes of the part (halo paddings, random
// offsets). Error: kInput when the axis cannot be split.
struct SliceOf {
  bool whole = true;
  int dim = 0;
  sym::Expr begin, end;  // in elements of that dimension
  // Of inputs: this part does without it (a bias is added by the first part only).
  bool absent = false;
};
struct Part {
  ir::Attrs attrs;
  std::vector<SliceOf> inputs, outputs;
  Merge merge = Merge::kConcat;  // of output 0
  // Per output. kConcat: the part is written into its slice. All others: it is merged into the
  // whole output, or (of a scatter) into its slice, which may overlap the slices of other parts;
  // such a slice starts from zeros.
  std::vector<Merge> merges;
  double scale = 1.0;  // of a mean: weight of this part's summed outputs before they are merged
};
Result<Part> part(const Instance& instance, int axis, int64_t begin, int64_t end);
// The part as an op of its own, which can be cut again; `part`, whose attributes it has, must stay.
Instance instance_of(const Instance& whole, const Part& part);
// The axis of a part that is this axis of the op it is a part of: as long, and walking the same
// dimensions as far as the part has these operands. Names may differ: a Reshape counts the axes
// that are longer than 1.
std::optional<int> axis_of_part(const AxisMap& whole, int axis, const AxisMap& part);

}  // namespace lowtide::ops
