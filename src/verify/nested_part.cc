#include "verify/nested_part.h"

#include <algorithm>
#include <utility>

namespace lowtide::verify {
namespace {

Composition cut(Composition of, const ops::SliceOf& slice) {
  if (slice.whole) return of;
  return sliced(of, static_cast<size_t>(slice.dim), *slice.begin.constant(), *slice.end.constant());
}

}  // namespace

Result<NestedPart> NestedPart::make(const ops::Instance& whole,
                                    const std::vector<AxisRange>& cuts) {
  NestedPart made;
  made.whole_ = &whole;
  made.cuts_ = cuts;
  made.inputs_ = whole.inputs;
  made.levels_.reserve(cuts.size());
  for (const AxisRange& range : cuts) {
    const ops::Instance around = made.instance();
    const std::optional<int> axis = made.axis_within(range.axis);
    if (!axis) return error(ErrorCode::kInput, "a part has not all of that axis");
    LT_ASSIGN(const ops::AxisMap map, ops::axis_map(around));
    LT_ASSIGN(ops::Part part, ops::part(around, *axis, range.begin, range.end));
    made.extents_.push_back(map.axes[static_cast<size_t>(*axis)].extent.constant().value_or(0));
    made.inputs_ = ops::instance_of(around, part).inputs;
    made.levels_.push_back(std::move(part));
  }
  return made;
}

std::optional<int> NestedPart::axis_within(int axis) const {
  if (levels_.empty()) return axis;
  const auto map = ops::axis_map(*whole_), within = ops::axis_map(instance());
  if (!map || !within || axis < 0 || axis >= static_cast<int>(map->axes.size()))
    return std::nullopt;
  return ops::axis_of_part(*map, axis, *within);
}

Composition NestedPart::read(size_t input, Composition of, std::vector<int64_t>& dims) const {
  for (const ops::Part& level : levels_) of = cut(std::move(of), level.inputs[input]);
  for (size_t d = 0; d < dims.size(); ++d)
    dims[d] = inputs_[input]->dims[d].constant().value_or(-1);
  return of;
}

bool NestedPart::reads_all(size_t input) const {
  return std::all_of(levels_.begin(), levels_.end(),
                     [&](const ops::Part& level) { return level.inputs[input].whole; });
}

Share NestedPart::share(size_t output, ir::ValueId term, ContentsTable& table) const {
  Share share;
  for (size_t k = 0; k < levels_.size(); ++k) {
    if (levels_[k].merges[output] == ops::Merge::kConcat) continue;
    const auto [axis, begin, end] = cuts_[k];
    table.set_extent(term, axis, extents_[k]);
    const std::pair range(begin, end);
    if (share.all())
      share = {.axis = axis, .ranges = {range}};
    else if (share.axis < axis)  // whichever is the outer one
      share = {.axis = share.axis, .other = axis, .slabs = {{share.ranges.front(), {range}}}};
    else
      share = {.axis = axis, .other = share.axis, .slabs = {{range, share.ranges}}};
  }
  return share;
}

// Of what is no share that of sums.
ops::Merge NestedPart::merge(size_t output) const {
  for (const ops::Part& level : levels_)
    if (level.merges[output] != ops::Merge::kConcat) return level.merges[output];
  return ops::Merge::kSum;
}

bool NestedPart::is_unweighted(size_t output) const {
  return std::any_of(levels_.begin(), levels_.end(), [&](const ops::Part& level) {
    return level.merges[output] != ops::Merge::kConcat && level.outputs[output].whole &&
           level.scale != 1.0;
  });
}

Composition NestedPart::make_of(size_t output, Composition all) const {
  for (const ops::Part& level : levels_) all = cut(std::move(all), level.outputs[output]);
  return all;
}

std::optional<Scatter> NestedPart::scatter(size_t output) const {
  if (levels_.empty()) return std::nullopt;
  const ops::Part& outer = levels_.front();
  if (outer.merges[output] != ops::Merge::kSum || outer.outputs[output].whole) return std::nullopt;
  const int axis = cuts_.front().axis;
  const auto map = ops::axis_map(*whole_);
  for (const ops::AxisUse& use : map->uses) {
    if (!use.is_output || use.operand != static_cast<int>(output) || use.axis != axis ||
        use.kind != ops::LinkKind::kWindow)
      continue;
    const int64_t stride = *use.stride.constant(), pad = *use.halo_low.constant();
    return Scatter{.axis = axis,
                   .dim = static_cast<size_t>(use.dim),
                   .stride = stride,
                   .pad = pad,
                   .reach = *use.halo_high.constant() + stride + pad,
                   .extent = extents_.front()};
  }
  return std::nullopt;
}

std::pair<int64_t, int64_t> Scatter::positions_of(int64_t begin, int64_t end) const {
  const auto floor_div = [](int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); };
  const int64_t first = floor_div(begin + pad - reach, stride) + 1;
  const int64_t last = floor_div(end - 1 + pad, stride);
  return {std::max(first, int64_t{0}), std::min(last + 1, extent)};
}

}  // namespace lowtide::verify
