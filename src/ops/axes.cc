// The bound signature read axis by axis: for each axis all dimensions that it walks, and what kind
// of axis it is. An axis is parallel when an output dimension is walked by it directly, as a group,
// shifted, or in a piece. An axis that outputs see only inside a window (the data gradient of a
// convolution, the gradients of pooling) scatters: results of neighbouring positions fall on the
// same element and add up, which makes it a reduction, unless parts of it have rows of their own
// (own_rows.h).
#include "ops/axes.h"

#include <algorithm>

#include "ops/bind.h"
#include "ops/own_rows.h"

namespace lowtide::ops {
namespace {

using sym::Expr;

class AxisReader {
 public:
  AxisReader(const Bound& bound, const Instance& instance)
      : row_(*bound.row),
        signature_(bound.signature),
        instance_(instance),
        is_slice_(bound.destination.has_value()) {}

  AxisMap run() {
    for (const SignatureAxis& axis : signature_.axes)
      map_.axes.push_back({.name = axis.name,
                           .extent = *axis.extent,
                           .role = AxisRole::kReduction,
                           .merge = merge(),
                           .coupled = axis.coupled || axis.chosen || is_slice_});
    for (size_t i = 0; i < signature_.inputs.size(); ++i)
      if (signature_.inputs[i]) read(*signature_.inputs[i], static_cast<int>(i), false);
    for (size_t i = 0; i < signature_.outputs.size(); ++i)
      read(signature_.outputs[i], static_cast<int>(i), true);
    return std::move(map_);
  }

 private:
  // A mean of integers is cut off, so means of parts do not add up.
  Merge merge() const {
    const bool cut_off = row_.mean && instance_.inputs[0] && !is_float(instance_.inputs[0]->dtype);
    return cut_off ? Merge::kNone : row_.merge;
  }

  const Expr& extent(int axis) const { return map_.axes[static_cast<size_t>(axis)].extent; }

  void read(const OperandIndex& operand, int number, bool is_output) {
    for (size_t d = 0; d < operand.size(); ++d)
      for (size_t i = 0; i < operand[d].axes.size(); ++i) {
        AxisUse use = use_of(operand[d], i);
        use.operand = number;
        use.is_output = is_output;
        use.dim = static_cast<int>(d);
        if (is_output) note_output(use);
        map_.uses.push_back(std::move(use));
      }
  }

  AxisUse use_of(const DimIndex& dim, size_t i) const {
    AxisUse use;
    use.axis = dim.axes[i];
    use.kind = dim.form;
    const auto own = own_rows(row_, signature_, instance_, use.axis);
    if (own && dim.form == LinkKind::kDirect) {
      use.kind = LinkKind::kWindow;
      use.halo_low = own->halo_low();
      use.halo_high = own->halo_high();
    } else if (own && dim.form == LinkKind::kWindow && i == 0) {
      use.stride = own->stride;
    } else if (dim.form == LinkKind::kGroup) {
      use.outermost = i == 0;
      for (size_t inner = i + 1; inner < dim.axes.size(); ++inner)
        use.stride = use.stride * extent(dim.axes[inner]);
    } else if (dim.form == LinkKind::kPiece) {
      for (size_t before = 0; before < i; ++before)
        use.shift = use.shift + extent(dim.axes[before]);
    } else if (dim.form == LinkKind::kShift) {
      use.stride = dim.stride;
      use.shift = -dim.pad_low;
    } else if (dim.form == LinkKind::kWindow) {
      const Expr& other_step = i == 0 ? dim.dilation : dim.stride;
      use.outermost = i == 0;
      use.stride = i == 0 ? dim.stride : dim.dilation;
      use.halo_low = dim.pad_low;
      use.halo_high = other_step * (extent(dim.axes[1 - i]) - 1) + 1 - use.stride - dim.pad_low;
    }
    return use;
  }

  void note_output(const AxisUse& use) {
    Axis& axis = map_.axes[static_cast<size_t>(use.axis)];
    if (use.kind == LinkKind::kWindow && !own_rows(row_, signature_, instance_, use.axis)) {
      if (adds_once()) axis.merge = Merge::kNone;
      return;
    }
    axis.role = AxisRole::kParallel;
    axis.merge = Merge::kConcat;
    if (use.kind == LinkKind::kPiece) axis.coupled = true;
  }

  // A bias or an accumulator is in every element of the result once, so overlapping slices cannot
  // simply add up.
  bool adds_once() const {
    if (!accumulators(instance_).empty()) return true;
    const std::vector<int>& added = words_of_row(row_).added;
    return std::any_of(added.begin(), added.end(), [&](int i) {
      return static_cast<size_t>(i) < instance_.inputs.size() &&
             instance_.inputs[static_cast<size_t>(i)].has_value();
    });
  }

  const Row& row_;
  const Signature& signature_;
  const Instance& instance_;
  const bool is_slice_;  // of a destination: it is not cut further
  AxisMap map_;
};

}  // namespace

AxisMap map_of(const Bound& bound, const Instance& instance) {
  return AxisReader(bound, instance).run();
}

Result<AxisMap> axis_map(const Instance& instance) {
  LT_ASSIGN(const auto bound, bind_instance(instance));
  return map_of(*bound, instance);
}

std::string_view merging_kind(Merge merge) {
  switch (merge) {
    case Merge::kSum:
      return "Add";
    case Merge::kMax:
      return "Max";
    case Merge::kLogSumExp:
      return "LogAddExp";
    case Merge::kConcat:
    case Merge::kNone:
      break;
  }
  return {};
}

bool can_split(const AxisMap& map, int axis) {
  const Axis& wanted = map.axes[static_cast<size_t>(axis)];
  if (wanted.coupled || wanted.merge == Merge::kNone) return false;
  return std::none_of(map.uses.begin(), map.uses.end(), [&](const AxisUse& use) {
    return use.axis == axis && use.kind == LinkKind::kGroup && !use.outermost;
  });
}

}  // namespace lowtide::ops
