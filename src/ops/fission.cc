// One part of an op, read off its signature. The axis is cut to [begin, end); every dimension that
// it walks is cut to what that range touches, and every attribute that gave a number which has
// changed is written anew: the extent of the axis, the extents of output dimensions, and the pads
// of windows. A window's range may reach into the padding; what lies there becomes the padding of
// the part, so that a part computes exactly the positions it has in the whole:
//
//   input        0 . . . . . . . X
//   whole   p p [                 ] p p
//   part    p p [         ]                low pad p, high pad 0
//
// Positions [b, e) touch [b*s - p, (e-1)*s + d*(r-1) + 1 - p).
//
// Positions of a window that lies in a result have rows of their own there where they can
// (own_rows.h); else their slices overlap and add up.
//
// An axis that some output does not have is summed (or maximised) there; what is added once goes to
// the first part. Paper: MAGIS, section 4.2, with halos and means beyond it. Tests: fission on the
// reference executor, for every op and axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/interval.h"
#include "ops/axes.h"
#include "ops/bind.h"
#include "ops/own_rows.h"
#include "ops/row.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

class Splitter {
 public:
  Splitter(const Bound& bound, const Instance& instance, int axis, Interval range)
      : row_(*bound.row),
        signature_(bound.signature),
        instance_(instance),
        map_(map_of(bound, instance)),
        axis_(axis),
        range_(range) {
    const bool is_axis = axis >= 0 && index() < signature_.axes.size();
    if (is_axis) own_ = own_rows(row_, signature_, instance, axis);
    if (own_) read_ = own_->reaching(own_->of({range.begin, range.end}));
  }

  Result<Part> run() {
    LT_RETURN_IF_ERROR(check_range());
    if (instance_.attrs != nullptr) part_.attrs = *instance_.attrs;
    set_attr(signature_.axes[index()].source, Expr(range_.end - range_.begin));
    for (size_t i = 0; i < instance_.inputs.size(); ++i) {
      part_.inputs.emplace_back();
      if (!instance_.inputs[i] || i >= own_operands(row_, instance_)) continue;
      const OperandIndex& operand = *signature_.inputs[i];
      for (size_t d = 0; d < operand.size(); ++d)
        LT_RETURN_IF_ERROR(cut(operand[d], d, instance_.inputs[i]->dims[d], part_.inputs[i]));
    }
    for (const OperandIndex& operand : signature_.outputs) LT_RETURN_IF_ERROR(cut_output(operand));
    part_.merge = part_.merges[0];
    drop_added();
    cut_accumulators();
    LT_RETURN_IF_ERROR(weigh());
    LT_RETURN_IF_ERROR(apply_rule());
    return std::move(part_);
  }

 private:
  size_t index() const { return static_cast<size_t>(axis_); }

  Status check_range() const {
    if (axis_ < 0 || index() >= signature_.axes.size())
      return error(ErrorCode::kInput, fmt::format("{}: has {} axes, no axis {}", row_.kind,
                                                  signature_.axes.size(), axis_));
    const std::string& name = signature_.axes[index()].name;
    if (!can_split(map_, axis_))
      return error(ErrorCode::kInput,
                   fmt::format("{}: cannot be split along axis {}", row_.kind, name));
    const auto extent = map_.axes[index()].extent.constant();
    if (range_.begin < 0 || range_.begin >= range_.end || (extent && range_.end > *extent))
      return error(ErrorCode::kInput, fmt::format("{}: [{}, {}) is no part of axis {} of extent {}",
                                                  row_.kind, range_.begin, range_.end, name,
                                                  sym::print(map_.axes[index()].extent)));
    return {};
  }

  // Cuts one dimension if the axis walks it.
  Status cut(const DimIndex& dim, size_t d, const Expr& extent, SliceOf& slice) {
    const auto found = std::find(dim.axes.begin(), dim.axes.end(), axis_);
    if (found == dim.axes.end() || dim.form == LinkKind::kBroadcast) return {};
    slice.whole = false;
    slice.dim = static_cast<int>(d);
    if (own_ && dim.form == LinkKind::kDirect) {
      slice.begin = read_.begin;
      slice.end = read_.end;
      return {};
    }
    if (dim.form == LinkKind::kWindow || dim.form == LinkKind::kShift)
      return cut_window(dim, found == dim.axes.begin(), extent, slice);
    Expr block = 1;
    for (size_t inner = 1; inner < dim.axes.size(); ++inner)
      block = block * map_.axes[static_cast<size_t>(dim.axes[inner])].extent;
    slice.begin = block * range_.begin;
    slice.end = block * range_.end;
    return {};
  }

  Status cut_window(const DimIndex& dim, bool is_position, const Expr& extent, SliceOf& slice) {
    Expr low = (is_position ? dim.stride : dim.dilation) * range_.begin - dim.pad_low;
    Expr high = (is_position ? dim.stride : dim.dilation) * (range_.end - 1) + 1 - dim.pad_low;
    if (dim.form == LinkKind::kWindow) {
      const size_t other = is_position ? 1 : 0;
      high = high + (is_position ? dim.dilation : dim.stride) *
                        (map_.axes[static_cast<size_t>(dim.axes[other])].extent - 1);
    }
    slice.begin = max(low, 0);
    slice.end = min(high, extent);
    const auto begin = slice.begin.constant(), end = slice.end.constant();
    if (begin && end && *begin >= *end)
      return error(ErrorCode::kInput,
                   fmt::format("{}: part [{}, {}) of axis {} reads nothing but padding", row_.kind,
                               range_.begin, range_.end, signature_.axes[index()].name));
    if (dim.ceil_mode) high = min(high, extent + dim.pad_high);
    set_attr(dim.low_source, max(-low, 0));
    set_attr(dim.high_source, max(high - extent, 0));
    return {};
  }

  Status cut_output(const OperandIndex& operand) {
    SliceOf slice;
    Merge merge = Merge::kConcat;
    for (size_t d = 0; d < operand.size(); ++d) {
      const bool was_whole = slice.whole;
      if (own_ && operand[d].form == LinkKind::kWindow && operand[d].axes[0] == axis_) {
        cut_own_rows(operand[d], d, slice);
        continue;
      }
      LT_RETURN_IF_ERROR(cut(operand[d], d, extent_of(signature_, operand[d]), slice));
      if (!was_whole || slice.whole) continue;
      set_attr(operand[d].extent_source, slice.end - slice.begin);
      if (operand[d].form == LinkKind::kWindow) merge = Merge::kSum;
    }
    part_.outputs.push_back(slice);
    part_.merges.push_back(slice.whole ? row_.merge : merge);
    return {};
  }

  void cut_own_rows(const DimIndex& dim, size_t d, SliceOf& slice) {
    const Interval rows = own_->of({range_.begin, range_.end});
    const Interval pads = own_->pads(read_, rows);
    slice = {.whole = false, .dim = static_cast<int>(d), .begin = rows.begin, .end = rows.end};
    set_attr(dim.extent_source, rows.length());
    set_attr(dim.low_source, pads.begin);
    set_attr(dim.high_source, pads.end);
  }

  // Writes a number back to where it came from; lists that were left out at their defaults appear.
  void set_attr(const std::optional<AttrRef>& source, const Expr& value) {
    if (!source) return;
    if (source->index < 0) {
      part_.attrs[source->name] = value.constant().value_or(0);
      return;
    }
    auto& attr = part_.attrs[source->name];
    if (!std::holds_alternative<ir::Dims>(attr)) attr = ir::Dims(default_entries(), Expr(0));
    std::get<ir::Dims>(attr)[static_cast<size_t>(source->index)] = value;
  }

  // `pads` is the only list that a part writes and a whole may lack: begins and ends.
  size_t default_entries() const {
    size_t windows = 0;
    const auto count = [&](const OperandIndex& operand) {
      windows = std::max(windows, static_cast<size_t>(std::count_if(
                                      operand.begin(), operand.end(), [](const DimIndex& dim) {
                                        return dim.form == LinkKind::kWindow;
                                      })));
    };
    for (const auto& operand : signature_.inputs)
      if (operand) count(*operand);
    for (const OperandIndex& operand : signature_.outputs) count(operand);
    return 2 * windows;
  }

  // An accumulator is cut as its output is; of the parts of a sum only the first adds it.
  void cut_accumulators() {
    for (const auto& [input, output] : accumulators(instance_)) {
      SliceOf& slice = part_.inputs[static_cast<size_t>(input)];
      slice = part_.outputs[static_cast<size_t>(output)];
      slice.absent = slice.whole && range_.begin > 0;
    }
  }

  // Of the parts of a reduction only the first adds the bias.
  void drop_added() {
    if (!part_.outputs[0].whole || range_.begin == 0) return;
    for (int added : words_of_row(row_).added) {
      const auto i = static_cast<size_t>(added);
      if (i < part_.inputs.size() && instance_.inputs[i]) part_.inputs[i].absent = true;
    }
  }

  Result<double> fraction() const {
    const auto extent = map_.axes[index()].extent.constant();
    if (!extent)
      return error(ErrorCode::kInput,
                   fmt::format("{}: axis {} of extent {} must be a number before a mean over it is "
                               "split",
                               row_.kind, signature_.axes[index()].name,
                               sym::print(map_.axes[index()].extent)));
    return static_cast<double>(range_.end - range_.begin) / static_cast<double>(*extent);
  }

  static ir::AttrValue shared(const ir::AttrValue& value, double share) {
    if (const auto* seconds = std::get_if<double>(&value)) return *seconds * share;
    const auto* count = std::get_if<int64_t>(&value);
    if (count == nullptr) return value;
    return static_cast<int64_t>(std::ceil(static_cast<double>(*count) * share));
  }

  Status weigh() {
    const bool summed = std::any_of(part_.outputs.begin(), part_.outputs.end(),
                                    [](const SliceOf& slice) { return slice.whole; });
    if (!row_.mean || !summed || has_divisor(row_, instance_)) return {};
    LT_ASSIGN(part_.scale, fraction());
    return {};
  }

  Status weigh_gradient() {
    if (has_divisor(row_, instance_)) return {};
    LT_ASSIGN(const double scale, real_attr(instance_, "scale", 1.0));
    LT_ASSIGN(const double weight, fraction());
    part_.attrs["scale"] = scale * weight;
    return {};
  }

  bool is_along_positions() const {
    const auto positions = parse_positions(row_.positions);
    return std::any_of(positions.begin(), positions.end(), [&](const auto& position) {
      return position.second == signature_.axes[index()].name;
    });
  }

  // Labels count from the first class of the whole.
  Status count_classes() {
    LT_ASSIGN(const int64_t first, int_attr(instance_, "first_class", 0));
    part_.attrs["first_class"] = first + range_.begin;
    if (has_attr(instance_, "classes")) return {};
    const auto extent = map_.axes[index()].extent.constant();
    if (!extent)
      return error(ErrorCode::kInput,
                   fmt::format("{}: its {} classes must be a number before they are split",
                               row_.kind, sym::print(map_.axes[index()].extent)));
    part_.attrs["classes"] = *extent;
    return {};
  }

  Status apply_rule() {
    switch (row_.part) {
      case PartRule::kNone:
        return {};
      case PartRule::kRandom: {
        const auto d = static_cast<size_t>(part_.outputs[0].dim);
        const ir::Dims whole = dims_of(signature_, signature_.outputs[0]);
        if (!part_.attrs.contains("whole_dims")) part_.attrs["whole_dims"] = whole;
        LT_ASSIGN(ir::Dims begin, list_attr(instance_, "part_begin", whole.size(), 0));
        begin[d] = begin[d] + range_.begin;
        part_.attrs["part_begin"] = std::move(begin);
        return {};
      }
      case PartRule::kTriangle: {
        const size_t rank = signature_.outputs[0].size();
        const auto d = static_cast<size_t>(part_.outputs[0].dim);
        LT_ASSIGN(const int64_t k, int_attr(instance_, "k", 0));
        if (d + 2 == rank) part_.attrs["k"] = k + range_.begin;
        if (d + 1 == rank) part_.attrs["k"] = k - range_.begin;
        return {};
      }
      case PartRule::kMeanGradient:
        return weigh_gradient();
      case PartRule::kClasses:
        return is_along_positions() ? count_classes() : Status();
      case PartRule::kLossGradient:
        return is_along_positions() ? count_classes() : weigh_gradient();
      case PartRule::kGivenCost: {
        LT_ASSIGN(const double share, fraction());
        for (auto& [name, value] : part_.attrs)
          if (name == "seconds" || name == "flops" || name == "workspace")
            value = shared(value, share);
        return {};
      }
    }
    return {};
  }

  const Row& row_;
  const Signature& signature_;
  const Instance& instance_;
  const AxisMap map_;
  const int axis_;
  const Interval range_;
  std::optional<OwnRows> own_;  // of what the axis scatters into
  Interval read_;               // then: the positions that reach the part's rows
  Part part_;
};

}  // namespace

bool has_divisor(const Row& row, const Instance& instance) {
  const auto given = static_cast<size_t>(row.traits.divisor);  // none: beyond all inputs
  return given < instance.inputs.size() && instance.inputs[given];
}

Result<Part> part(const Instance& instance, int axis, int64_t begin, int64_t end) {
  LT_ASSIGN(const auto bound, bind_instance(instance));
  return Splitter(*bound, instance, axis, {begin, end}).run();
}

namespace {

// The dimensions that an axis walks, of operands that both have; any axis: which operands.
using Walks = std::set<std::tuple<bool, int, int>>;
using Operands = std::set<std::pair<bool, int>>;

Operands operands_of(const AxisMap& map) {
  Operands all;
  for (const AxisUse& use : map.uses) all.insert({use.is_output, use.operand});
  return all;
}

Walks walks_of(const AxisMap& map, int axis, const Operands& other) {
  Walks all;
  for (const AxisUse& use : map.uses)
    if (use.axis == axis && other.contains({use.is_output, use.operand}))
      all.insert({use.is_output, use.operand, use.dim});
  return all;
}

}  // namespace

std::optional<int> axis_of_part(const AxisMap& whole, int axis, const AxisMap& part) {
  const Walks wanted = walks_of(whole, axis, operands_of(part));
  const Axis& is = whole.axes[static_cast<size_t>(axis)];
  std::optional<int> found;
  for (int a = 0; a < static_cast<int>(part.axes.size()); ++a) {
    const Axis& one = part.axes[static_cast<size_t>(a)];
    const bool fits = one.extent == is.extent && !wanted.empty() &&
                      walks_of(part, a, operands_of(whole)) == wanted;
    if (fits && (!found || one.name == is.name)) found = a;
  }
  return found;
}

Instance instance_of(const Instance& whole, const Part& part) {
  Instance made{.kind = whole.kind, .attrs = &part.attrs, .inputs = whole.inputs};
  for (size_t i = 0; i < made.inputs.size(); ++i) {
    const SliceOf& slice = part.inputs[i];
    if (slice.absent) made.inputs[i].reset();
    if (!made.inputs[i] || slice.whole) continue;
    made.inputs[i]->dims[static_cast<size_t>(slice.dim)] = slice.end - slice.begin;
  }
  return made;
}

}  // namespace lowtide::ops
