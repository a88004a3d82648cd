#include "fission/expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ir/id_order.h"
#include "ops/op_table.h"
#include "plan/part_name.h"

namespace lowtide::fission {
namespace {

using ir::OpId;
using ir::ValueId;
using ops::Merge;
using ops::SliceOf;

int64_t number(const sym::Expr& expr) {
  return *expr.constant();
}

// A part of a value along one of its dimensions.
struct Piece {
  int64_t begin = 0, end = 0;
  ValueId value;
};

// What there is of a value of the old graph.
struct Made {
  ValueId whole;  // none: not (yet)
  int dim = -1;   // of the pieces
  std::vector<Piece> pieces;
  std::vector<Piece> shares;      // slices that overlap and add up, until all of them are there
  bool is_laid_together = false;  // the pieces came of such
};

class Expander {
 public:
  Expander(const ir::Graph& graph, const Cuts& cuts, Windows windows, const ir::Graph& first)
      : old_(graph), cuts_(cuts), windows_(windows), first_(first), made_(graph.value_count()) {
    out_.parts = IdVector<OpId, std::vector<OpId>>(graph.op_count());
    out_.stretches = IdVector<OpId, std::vector<Stretch>>(graph.op_count());
    out_.graph = ir::empty_like(graph);
  }

  Result<Expanded> run() {
    for (ValueId id : old_.values())
      if (!old_.value(id).producer.valid()) made_[id].whole = out_.graph.add_value(old_.value(id));
    for (OpId id : old_.ops()) LT_RETURN_IF_ERROR(cuts_[id] ? cut(id) : copy(id));
    for (ValueId id : old_.outputs()) LT_RETURN_IF_ERROR(finish_output(id));
    mark_gradients();
    LT_RETURN_IF_ERROR(ir::check(out_.graph));
    return std::move(out_);
  }

 private:
  // ---- ops

  Status copy(OpId id) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> inputs;
    for (ValueId input : op.inputs) {
      inputs.push_back(ValueId::none());
      if (input.valid()) {
        LT_ASSIGN(inputs.back(), whole(input, op));
      }
    }
    LT_ASSIGN(const OpId made,
              ops::append_again(out_.graph, old_, id, std::move(inputs), op.attrs, control_of(op)));
    out_.parts[id] = {made};
    out_.stretches[id] = {Stretch{}};
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      const ValueId result = out_.graph.op(made).outputs[o];
      made_[op.outputs[o]].whole = result;
      if (out_.graph.value(result).alias == ir::Alias::kOwn)
        out_.graph.set_category(result, category_of(op.outputs[o]));
    }
    return {};
  }

  Status cut(OpId id) {
    const ir::Op& op = old_.op(id);
    for (ValueId output : op.outputs)
      if (old_.value(output).alias == ir::Alias::kUpdate)
        return error(ErrorCode::kInput,
                     fmt::format("op '{}' overwrites '{}': it is not cut", op.name,
                                 old_.value(old_.value(output).base).name));
    const ops::Instance instance = ops::instance_of(old_, id);
    const Cut& cut = *cuts_[id];
    for (size_t k = 0; k + 1 < cut.bounds.size(); ++k) {
      auto part = ops::part(instance, cut.axis, cut.bounds[k], cut.bounds[k + 1]);
      if (!part)
        return error(part.error().code, fmt::format("op '{}': {}", op.name, part.error().message));
      LT_RETURN_IF_ERROR(add_part(id, k, *part));
      out_.stretches[id].push_back({Stretch::kLoop * cut.bounds[k] / cut.bounds.back(),
                                    Stretch::kLoop * cut.bounds[k + 1] / cut.bounds.back()});
    }
    for (ValueId output : op.outputs)
      if (!made_[output].shares.empty()) LT_RETURN_IF_ERROR(lay_together(op, output));
    return {};
  }

  Status add_part(OpId id, size_t k, const ops::Part& part) {
    const ir::Op& op = old_.op(id);
    std::vector<ValueId> inputs;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      inputs.push_back(ValueId::none());
      if (op.inputs[i].valid() && !part.inputs[i].absent) {
        LT_ASSIGN(inputs.back(), slice(op.inputs[i], part.inputs[i], op));
      }
    }
    std::vector<char> added(op.outputs.size(), 0);
    for (size_t o = 0; k > 0 && o < op.outputs.size(); ++o)
      added[o] = add_accumulator(op, part, o, inputs);
    ops::AppendOptions options = options_of(op, part_name(op.name, k));
    options.control = control_of(op);
    for (ValueId output : op.outputs)
      options.output_names.push_back(part_name(old_.value(output).name, k));
    if (!op.outputs.empty()) options.category = category_of(op.outputs[0]);
    LT_ASSIGN(const OpId made,
              ops::append(out_.graph, op.kind, std::move(inputs), part.attrs, options));
    out_.parts[id].push_back(made);
    const std::vector<ValueId> results = out_.graph.op(made).outputs;
    for (size_t o = 0; o < results.size(); ++o) {
      if (out_.graph.value(results[o]).alias == ir::Alias::kOwn)
        out_.graph.set_category(results[o], category_of(op.outputs[o]));
      if (added[o])
        made_[op.outputs[o]].whole = results[o];
      else
        LT_RETURN_IF_ERROR(merge(op, part, o, results[o]));
    }
    return {};
  }

  // Of a sum, the part adds into what the parts before it made.
  bool add_accumulator(const ir::Op& op, const ops::Part& part, size_t o,
                       std::vector<ValueId>& inputs) const {
    if (part.merges[o] != Merge::kSum || !part.outputs[o].whole || part.scale != 1.0) return false;
    const auto place = ops::accumulator_operand(*ops::find(op.kind), static_cast<int>(o));
    if (!place) return false;
    const auto i = static_cast<size_t>(*place);
    if (inputs.size() <= i) inputs.resize(i + 1, ValueId::none());
    inputs[i] = made_[op.outputs[o]].whole;
    return true;
  }

  // ---- results

  Status merge(const ir::Op& op, const ops::Part& part, size_t o, ValueId result) {
    Made& made = made_[op.outputs[o]];
    const SliceOf& slice = part.outputs[o];
    if (part.merges[o] == Merge::kConcat) {
      if (slice.whole) {
        made.whole = result;
        return {};
      }
      made.dim = slice.dim;
      made.pieces.push_back({number(slice.begin), number(slice.end), result});
      return {};
    }
    if (!slice.whole) {
      made.dim = slice.dim;
      made.shares.push_back({number(slice.begin), number(slice.end), result});
      return {};
    }
    if (part.merges[o] == Merge::kSum && part.scale != 1.0) {
      LT_ASSIGN(result,
                helper(op, "AffineScalar", {result}, {{"scale", part.scale}, {"shift", 0.0}}));
    }
    if (made.whole.valid()) {
      LT_ASSIGN(result, helper(op, ops::merging_kind(part.merges[o]), {made.whole, result}));
    }
    made.whole = result;
    return {};
  }

  // Of slices that overlap, as gradients of windows do, pieces that follow one another: where
  // several slices reach, their sum. The whole is not made for it.
  //
  //     slices     [0 . . . . . . 9)
  //                           [7 . . . . . . 16)
  //     pieces     [0 . . . . 7)[7 9)[9 . . . 16)
  Status lay_together(const ir::Op& op, ValueId of) {
    Made& made = made_[of];
    LT_ASSIGN(const std::vector<Piece> shares, without_gaps(op, of));
    std::vector<int64_t> bounds;
    for (const Piece& share : shares) bounds.insert(bounds.end(), {share.begin, share.end});
    std::sort(bounds.begin(), bounds.end());
    bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
    for (size_t k = 0; k + 1 < bounds.size(); ++k) {
      Piece piece{bounds[k], bounds[k + 1], ValueId::none()};
      for (Piece share : pieces_in(shares, piece.begin, piece.end)) {
        LT_RETURN_IF_ERROR(trim(share, made.dim, piece.begin, piece.end, op));
        if (piece.value.valid()) {
          LT_ASSIGN(share.value, helper(op, "Add", {piece.value, share.value}));
        }
        piece.value = share.value;
      }
      made.pieces.push_back(piece);
    }
    made.is_laid_together = true;
    return {};
  }

  // The slices that overlap, longer by zeros where none of them reaches (strides beyond a kernel's
  // size).
  Result<std::vector<Piece>> without_gaps(const ir::Op& op, ValueId of) {
    const ir::Dims& dims = old_.value(of).dims;
    const auto d = static_cast<size_t>(made_[of].dim);
    std::vector<Piece> shares = std::exchange(made_[of].shares, {});
    int64_t reached = 0;
    for (Piece& share : shares) {
      const bool is_last = &share == &shares.back();
      ir::Dims begins(dims.size(), sym::Expr(0)), ends = begins;
      const int64_t low = std::max(share.begin - reached, int64_t{0});
      const int64_t end = std::max(reached, share.end);
      const int64_t high = is_last && end < number(dims[d]) ? number(dims[d]) - share.end : 0;
      begins[d] = low;
      ends[d] = high;
      if (low + high > 0) {
        LT_ASSIGN(share.value, helper(op, "Pad", {share.value},
                                      {{"begins", begins}, {"ends", ends}, {"value", 0.0}}));
      }
      share.begin -= low;
      share.end += high;
      reached = std::max(reached, share.end);
    }
    return shares;
  }

  // ---- operands

  // The value as it was before anything was cut; it then has its name.
  Result<ValueId> whole(ValueId id, const ir::Op& reader) {
    Made& made = made_[id];
    if (!made.whole.valid()) {
      LT_ASSIGN(made.whole, joined(reader, made.dim, made.pieces));
    }
    return made.whole;
  }

  Result<ValueId> joined(const ir::Op& reader, int dim, const std::vector<Piece>& pieces) {
    if (pieces.size() == 1) return pieces[0].value;
    std::vector<ValueId> values;
    for (const Piece& piece : pieces) values.push_back(piece.value);
    return helper(reader, "Concat", std::move(values), {{"axis", int64_t{dim}}});
  }

  Result<ValueId> slice(ValueId id, const SliceOf& slice, const ir::Op& reader) {
    const int64_t extent =
        slice.whole ? 0 : number(old_.value(id).dims[static_cast<size_t>(slice.dim)]);
    if (slice.whole || (number(slice.begin) == 0 && number(slice.end) == extent))
      return whole(id, reader);
    const int64_t begin = number(slice.begin), end = number(slice.end);
    if (made_[id].dim == slice.dim) {
      const std::vector<Piece> inside = pieces_in(made_[id].pieces, begin, end);
      const bool is_all_of_them =
          !inside.empty() && inside.front().begin == begin && inside.back().end == end;
      const bool is_window = !is_all_of_them && inside.size() > 1 && !made_[id].is_laid_together;
      out_.windows += is_window;
      if (!is_window || windows_ == Windows::kOfPieces)
        return join_within(inside, slice.dim, begin, end, reader);
    }
    LT_ASSIGN(const ValueId all, whole(id, reader));
    return cut_out(reader, all, slice.dim, begin, end - begin);
  }

  // Those that have some of the range, ascending.
  static std::vector<Piece> pieces_in(const std::vector<Piece>& pieces, int64_t begin,
                                      int64_t end) {
    std::vector<Piece> inside;
    for (const Piece& piece : pieces)
      if (piece.begin < end && begin < piece.end) inside.push_back(piece);
    return inside;
  }

  // The range out of pieces, of the outer ones as much as lies in it.
  Result<ValueId> join_within(std::vector<Piece> pieces, int dim, int64_t begin, int64_t end,
                              const ir::Op& reader) {
    for (Piece& piece : pieces) LT_RETURN_IF_ERROR(trim(piece, dim, begin, end, reader));
    return joined(reader, dim, pieces);
  }

  // What of the piece lies in the range.
  Status trim(Piece& piece, int dim, int64_t begin, int64_t end, const ir::Op& reader) {
    const int64_t from = std::max(begin, piece.begin), to = std::min(end, piece.end);
    if (from == piece.begin && to == piece.end) return {};
    LT_ASSIGN(piece.value, cut_out(reader, piece.value, dim, from - piece.begin, to - from));
    piece.begin = from;
    piece.end = to;
    return {};
  }

  Result<ValueId> cut_out(const ir::Op& reader, ValueId value, int dim, int64_t begin,
                          int64_t size) {
    ir::Dims sizes = out_.graph.value(value).dims;
    ir::Dims starts(sizes.size(), sym::Expr(0)), steps(sizes.size(), sym::Expr(1));
    starts[static_cast<size_t>(dim)] = begin;
    sizes[static_cast<size_t>(dim)] = size;
    return helper(reader, "Slice", {value},
                  {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
  }

  // ---- names and roles

  // An op that only hands parts on, for `op`.
  Result<ValueId> helper(const ir::Op& op, std::string_view kind, std::vector<ValueId> inputs,
                         ir::Attrs attrs = {}) {
    ops::AppendOptions options = options_of(op, new_name(fmt::format("{}/{}", op.name, kind)));
    options.category = op.phase == Phase::kForward ? Category::kActivation : Category::kTemporary;
    LT_ASSIGN(const OpId made,
              ops::append(out_.graph, kind, std::move(inputs), std::move(attrs), options));
    return out_.graph.op(made).outputs[0];
  }

  // A name that no op has, in parts or before: those that are not cut keep theirs, by which the
  // verifier knows them. Gradients' ops are named like helpers ("m/AffineScalar").
  std::string new_name(const std::string& wanted) const {
    std::string name = wanted;
    for (bool is_new = false; !is_new;) {
      const std::string last = name;
      for (const ir::Graph* graph : {static_cast<const ir::Graph*>(&out_.graph), &old_, &first_})
        name = graph->fresh_name(name);
      is_new = name == last;
    }
    return name;
  }

  static ops::AppendOptions options_of(const ir::Op& op, std::string name) {
    ops::AppendOptions options;
    options.name = std::move(name);
    options.module = op.module;
    options.source = op.source;
    options.phase = op.phase == Phase::kUpdate ? Phase::kBackward : op.phase;
    return options;
  }

  // What was one gradient may be many values now: the gradients are what updates read.
  void mark_gradients() {
    for (OpId id : out_.graph.ops()) {
      const ir::Op& op = out_.graph.op(id);
      const bool updates = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId output) {
        return out_.graph.value(output).alias == ir::Alias::kUpdate;
      });
      if (updates && op.phase == Phase::kUpdate && op.inputs.size() > 1 && op.inputs[1].valid())
        ops::mark_gradient(out_.graph, op.inputs[1]);
    }
  }

  // Until then a gradient is as temporary as its parts.
  Category category_of(ValueId old) const {
    const Category category = old_.value(old).category;
    return category == Category::kGradient ? Category::kTemporary : category;
  }

  std::vector<OpId> control_of(const ir::Op& op) const {
    std::vector<OpId> control;
    for (OpId before : op.control)
      control.insert(control.end(), out_.parts[before].begin(), out_.parts[before].end());
    return control;
  }

  Status finish_output(ValueId id) {
    const ir::Value& was = old_.value(id);
    LT_ASSIGN(const ValueId made,
              whole(id, old_.op(was.producer.valid() ? was.producer : OpId(0))));
    out_.graph.keep_output(made, was);
    if (out_.graph.value(made).name != was.name) {
      if (const auto other = out_.graph.find_value(was.name))
        out_.graph.rename(*other, out_.graph.fresh_name(was.name));
      out_.graph.rename(made, was.name);
    }
    return {};
  }

  const ir::Graph& old_;
  const Cuts& cuts_;
  const Windows windows_;
  const ir::Graph& first_;  // of all layers
  IdVector<ValueId, Made> made_;
  Expanded out_;
};

// The parts of parts, in the order of both loops.
Expanded within(const Expanded& outer, Expanded inner) {
  Expanded made{std::move(inner.graph), {}, {}, outer.windows + inner.windows};
  made.parts = IdVector<OpId, std::vector<OpId>>(outer.parts.size());
  made.stretches = IdVector<OpId, std::vector<Stretch>>(outer.parts.size());
  for (const OpId old : outer.parts.ids())
    for (size_t k = 0; k < outer.parts[old].size(); ++k) {
      const OpId part = outer.parts[old][k];
      const Stretch around = outer.stretches[old][k];
      const int64_t length = around.end - around.begin;
      for (const Stretch& stretch : inner.stretches[part])
        made.stretches[old].push_back({around.begin + length * stretch.begin / Stretch::kLoop,
                                       around.begin + length * stretch.end / Stretch::kLoop});
      const std::vector<OpId>& parts = inner.parts[part];
      made.parts[old].insert(made.parts[old].end(), parts.begin(), parts.end());
    }
  return made;
}

}  // namespace

Result<Cut> cut_within(const ops::AxisMap& whole, const Cut& cut, const ops::Instance& part) {
  LT_ASSIGN(const ops::AxisMap map, ops::axis_map(part));
  const std::optional<int> axis = ops::axis_of_part(whole, cut.axis, map);
  const auto refused = [&](std::string_view why) {
    return error(ErrorCode::kInput,
                 fmt::format("cannot be cut along {} as well: {}",
                             whole.axes[static_cast<size_t>(cut.axis)].name, why));
  };
  if (!axis || !ops::can_split(map, *axis)) return refused("a part has not all of it");
  for (size_t k = 0; k + 1 < cut.bounds.size(); ++k) {
    const auto inner = ops::part(part, *axis, cut.bounds[k], cut.bounds[k + 1]);
    if (!inner) return refused(inner.error().message);
    const bool cuts_operand = std::any_of(inner->inputs.begin(), inner->inputs.end(),
                                          [](const SliceOf& slice) { return !slice.whole; });
    if (!cuts_operand) return refused("nothing that it reads is");
    for (size_t o = 0; o < inner->outputs.size(); ++o) {
      if (inner->merges[o] == Merge::kConcat) continue;
      if (!inner->outputs[o].whole) return refused("what its parts make overlaps");
      if (inner->scale != 1.0) return refused("it is the mean along that axis");
    }
  }
  return Cut{*axis, cut.bounds};
}

Result<Expanded> expand(const ir::Graph& graph, const NestedCuts& cuts, Windows windows) {
  LT_ASSIGN(Expanded made, expand(graph, cuts.front(), windows));
  for (size_t layer = 1; layer < cuts.size(); ++layer) {
    Cuts inner(made.graph.op_count());
    for (const OpId id : graph.ops()) {
      if (!cuts[layer][id]) continue;
      LT_ASSIGN(const ops::AxisMap map, ops::axis_map(ops::instance_of(graph, id)));
      for (const OpId part : made.parts[id]) {
        auto cut = cut_within(map, *cuts[layer][id], ops::instance_of(made.graph, part));
        if (!cut)
          return error(cut.error().code,
                       fmt::format("op '{}': {}", graph.op(id).name, cut.error().message));
        inner[part] = *std::move(cut);
      }
    }
    LT_ASSIGN(Expanded finer, Expander(made.graph, inner, windows, graph).run());
    made = within(made, std::move(finer));
  }
  return made;
}

std::string part_name(std::string_view op, size_t k) {
  return fmt::format("{}/part{}", op, k);
}

std::string with_layers_exchanged(std::string_view name) {
  const auto inner = plan::part_name(name);
  const auto outer = inner ? plan::part_name(inner->op) : std::nullopt;
  return outer ? part_name(part_name(outer->op, inner->part), outer->part) : std::string(name);
}

std::vector<int64_t> even_bounds(int64_t extent, int64_t parts, int64_t units) {
  if (extent % units != 0) units = extent;
  const int64_t unit = extent / units;  // elements
  std::vector<int64_t> bounds = {0};
  for (int64_t k = 0; k < parts; ++k)
    bounds.push_back(bounds.back() + (units / parts + (k < units % parts ? 1 : 0)) * unit);
  return bounds;
}

Result<Expanded> expand(const ir::Graph& graph, const Cuts& cuts, Windows windows) {
  return Expander(graph, cuts, windows, graph).run();
}

}  // namespace lowtide::fission
