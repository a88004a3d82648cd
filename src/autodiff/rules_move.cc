// Rules of ops that move data: the gradient moves back.
#include <fmt/core.h>

#include <optional>

#include "autodiff/rule.h"

namespace lowtide::autodiff {
namespace {

using ir::ValueId;

Status reshape_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.reshape(dy, ir::Dims(c.dims(c.input(0)))));
  return c.give(0, dx);
}

Status transpose_rule(RuleContext& c) {
  const ir::Dims perm = list_attr(c.attrs(), "perm");
  ir::Dims inverse(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) {
    const auto from = perm[d].constant();
    if (!from) return error(ErrorCode::kInput, fmt::format("{}: perm is not constant", c.what()));
    inverse[static_cast<size_t>(*from)] = static_cast<int64_t>(d);
  }
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("Transpose", {dy}, {{"perm", inverse}}));
  return c.give(0, dx);
}

Result<int64_t> constant_extent(const RuleContext& c, const sym::Expr& extent) {
  if (const auto number = extent.constant()) return *number;
  return error(ErrorCode::kInput, fmt::format("{}: rows of the symbolic number {}; bind it first",
                                              c.what(), sym::print(extent)));
}

// Scatters dy along one dim to the places a strided slice took it from.
Result<ValueId> scatter(RuleContext& c, ValueId dy, size_t dim, int64_t start, int64_t step,
                        const sym::Expr& extent) {
  const auto count = c.dims(dy)[dim].constant();
  if (!count)
    return error(ErrorCode::kInput, fmt::format("{}: a strided slice of symbolic size {}", c.what(),
                                                sym::print(c.dims(dy)[dim])));
  std::vector<int64_t> places;
  for (int64_t i = 0; i < *count; ++i) places.push_back(start + i * step);
  LT_ASSIGN(const int64_t rows, constant_extent(c, extent));
  return c.make("GatherGrad", {dy, c.indices(places)},
                {{"axis", static_cast<int64_t>(dim)}, {"dim", rows}});
}

// Slices that cut a value into consecutive pieces along one dim, in the order of the pieces.
struct Pieces {
  size_t dim = 0;
  std::vector<ValueId> values;
  ValueId first_made;  // of the earliest op, which is visited last
};

bool is_step_one(const ir::Op& op) {
  for (const sym::Expr& step : list_attr(op.attrs, "steps"))
    if (!(step == sym::Expr(1))) return false;
  return op.kind == "Slice";
}

// The piece that starts at `start` along `dim` and is whole along the others.
const ir::Op* piece_at(const RuleContext& c, const std::vector<ir::Op>& readers, size_t dim,
                       const sym::Expr& start) {
  for (const ir::Op& op : readers) {
    const ir::Dims starts = list_attr(op.attrs, "starts");
    const ir::Dims &from = c.dims(op.inputs[0]), &taken = c.dims(op.outputs[0]);
    bool fits = starts[dim] == start;
    for (size_t d = 0; d < from.size(); ++d) fits = fits && (d == dim || taken[d] == from[d]);
    if (fits) return &op;
  }
  return nullptr;
}

// Set when all that reads the operand are its pieces: then one Concat makes its gradient, where
// padding each piece would make as many buffers of the full size as there are pieces.
std::optional<Pieces> pieces_of(const RuleContext& c) {
  const std::vector<ir::Op> readers = c.forward_readers(c.input(0));
  const ir::Dims &dims = c.dims(c.input(0)), &taken = c.dims(c.output(0));
  Pieces pieces;
  while (pieces.dim < dims.size() && taken[pieces.dim] == dims[pieces.dim]) ++pieces.dim;
  if (readers.size() < 2 || pieces.dim == dims.size()) return std::nullopt;
  for (const ir::Op& op : readers)
    if (!is_step_one(op)) return std::nullopt;
  sym::Expr start = 0;
  for (size_t i = 0; i < readers.size(); ++i) {
    const ir::Op* op = piece_at(c, readers, pieces.dim, start);
    if (!op) return std::nullopt;
    pieces.values.push_back(op->outputs[0]);
    start = start + c.dims(op->outputs[0])[pieces.dim];
  }
  if (!(start == dims[pieces.dim])) return std::nullopt;
  pieces.first_made = readers.front().outputs[0];
  return pieces;
}

// Zeros stand for the pieces that the loss does not depend on.
Status give_joined(RuleContext& c, const Pieces& pieces) {
  std::vector<ValueId> parts;
  for (const ValueId piece : pieces.values) {
    LT_ASSIGN(ValueId part, c.gradient_of(piece));
    if (!part.valid()) {
      const ir::Attrs zeros = {
          {"shape", c.dims(piece)}, {"value", 0.0}, {"dtype", std::string(name(c.dtype(piece)))}};
      LT_ASSIGN(part, c.make("Fill", {}, zeros));
    }
    parts.push_back(part);
  }
  LT_ASSIGN(const ValueId dx,
            c.make("Concat", parts, {{"axis", static_cast<int64_t>(pieces.dim)}}));
  return c.give(0, dx);
}

// A contiguous slice pads back; a strided one scatters dim by dim.
Status slice_rule(RuleContext& c) {
  if (const auto pieces = pieces_of(c)) {
    if (pieces->first_made == c.output(0)) return give_joined(c, *pieces);
    c.leave_to(pieces->first_made);
    return {};
  }
  const ir::Dims dims = c.dims(c.input(0)), starts = list_attr(c.attrs(), "starts");
  const ir::Dims taken = c.dims(c.output(0));
  ir::Dims steps = list_attr(c.attrs(), "steps");
  if (steps.empty()) steps.assign(dims.size(), 1);
  ir::Dims begins(dims.size(), 0), ends(dims.size(), 0);
  LT_ASSIGN(ValueId dx, c.dy());
  bool pads = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (steps[d] == sym::Expr(1)) {
      begins[d] = starts[d];
      ends[d] = dims[d] - starts[d] - taken[d];
      pads = pads || !(taken[d] == dims[d]);
      continue;
    }
    const auto start = starts[d].constant(), step = steps[d].constant();
    if (!start || !step)
      return error(ErrorCode::kInput,
                   fmt::format("{}: a strided slice of symbolic place", c.what()));
    LT_ASSIGN(dx, scatter(c, dx, d, *start, *step, dims[d]));
  }
  if (pads) {
    LT_ASSIGN(dx, c.make("Pad", {dx}, {{"begins", begins}, {"ends", ends}, {"value", 0.0}}));
  }
  return c.give(0, dx);
}

// Cutting off what was added, adding what was cut off.
Status pad_rule(RuleContext& c) {
  ir::Dims begins = list_attr(c.attrs(), "begins"), ends = list_attr(c.attrs(), "ends");
  const ir::Dims dims = c.dims(c.input(0));
  bool only_added = true;
  for (const ir::Dims* list : {&begins, &ends})
    for (const sym::Expr& amount : *list)
      only_added = only_added && amount.constant() && *amount.constant() >= 0;
  LT_ASSIGN(const ValueId dy, c.dy());
  if (only_added) {
    const ir::Attrs attrs = {
        {"starts", begins}, {"sizes", dims}, {"steps", ir::Dims(dims.size(), 1)}};
    LT_ASSIGN(const ValueId dx, c.make("Slice", {dy}, attrs));
    return c.give(0, dx);
  }
  for (ir::Dims* list : {&begins, &ends})
    for (sym::Expr& amount : *list) amount = -amount;
  LT_ASSIGN(const ValueId dx,
            c.make("Pad", {dy}, {{"begins", begins}, {"ends", ends}, {"value", 0.0}}));
  return c.give(0, dx);
}

Status concat_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ir::Dims whole = c.dims(dy);
  int64_t axis = integer_attr(c.attrs(), "axis");
  if (axis < 0) axis += static_cast<int64_t>(whole.size());
  const auto d = static_cast<size_t>(axis);
  ir::Dims starts(whole.size(), 0);
  for (size_t i = 0; i < c.input_count(); ++i) {
    const ir::Dims dims = c.dims(c.input(i));
    if (c.needs(i)) {
      const ir::Attrs attrs = {
          {"starts", starts}, {"sizes", dims}, {"steps", ir::Dims(dims.size(), 1)}};
      LT_ASSIGN(const ValueId piece, c.make("Slice", {dy}, attrs));
      LT_RETURN_IF_ERROR(c.give(i, piece));
    }
    starts[d] = starts[d] + dims[d];
  }
  return {};
}

Status expand_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  return c.give_reduced(0, dy);
}

// Rows that were gathered twice add up; a tied table adds into the gradient it has already.
Status gather_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  const ir::Dims data = c.dims(c.input(0));
  int64_t axis = integer_attr(c.attrs(), "axis");
  if (axis < 0) axis += static_cast<int64_t>(data.size());
  LT_ASSIGN(const int64_t rows, constant_extent(c, data[static_cast<size_t>(axis)]));
  return c.give_added(0, "GatherGrad", {dy, c.input(1)}, {{"axis", axis}, {"dim", rows}});
}

Status reorder_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("Reorder", {dy}, {{"layout", c.layout(c.input(0))}}));
  return c.give(0, dx);
}

Status trilu_rule(RuleContext& c) {
  LT_ASSIGN(const ValueId dy, c.dy());
  LT_ASSIGN(const ValueId dx, c.make("Trilu", {dy}, c.attrs()));
  return c.give(0, dx);
}

}  // namespace

void add_move_rules(RuleTable& table) {
  table["Reshape"] = reshape_rule;
  table["Transpose"] = transpose_rule;
  table["Slice"] = slice_rule;
  table["Pad"] = pad_rule;
  table["Concat"] = concat_rule;
  table["Expand"] = expand_rule;
  table["Gather"] = gather_rule;
  table["Reorder"] = reorder_rule;
  table["Trilu"] = trilu_rule;
}

}  // namespace lowtide::autodiff
