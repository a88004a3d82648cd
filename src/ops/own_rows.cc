#include "ops/own_rows.h"

#include <algorithm>

#include "ops/bind.h"

namespace lowtide::ops {
namespace {

int64_t floor_of(int64_t a, int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

}  // namespace

Interval OwnRows::of(Interval part) const {
  return {stride * part.begin, part.end == positions ? rows : stride * part.end};
}

Interval OwnRows::reaching(Interval own) const {
  return {std::max(floor_of(own.begin + pad - reach, stride) + 1, int64_t{0}),
          std::min(floor_of(own.end - 1 + pad, stride) + 1, positions)};
}

Interval OwnRows::pads(Interval read, Interval own) const {
  const int64_t low = own.begin + pad - stride * read.begin;
  const int64_t high = stride * (read.length() - 1) + reach - low - own.length();
  return {low, std::max(high, int64_t{0})};
}

std::optional<OwnRows> own_rows(const Row& row, const Signature& signature,
                                const Instance& instance, int axis) {
  if (row.cuts_off == nullptr || !row.cuts_off(instance)) return std::nullopt;
  for (const OperandIndex& output : signature.outputs)
    for (const DimIndex& dim : output) {
      if (dim.form != LinkKind::kWindow || dim.axes[0] != axis) continue;
      const auto stride = dim.stride.constant(), dilation = dim.dilation.constant();
      const auto pad = dim.pad_low.constant(), rows = extent_of(signature, dim).constant();
      const auto positions = signature.axes[static_cast<size_t>(axis)].extent->constant();
      const auto taps = signature.axes[static_cast<size_t>(dim.axes[1])].extent->constant();
      if (!stride || !dilation || !pad || !rows || !positions || !taps) return std::nullopt;
      const OwnRows own{.stride = *stride,
                        .pad = *pad,
                        .reach = *dilation * (*taps - 1) + 1,
                        .positions = *positions,
                        .rows = *rows};
      const bool has_gaps = own.reach < own.stride;
      const bool all_have_rows =
          own.pad >= 0 && own.pad < own.reach && own.rows > own.stride * (own.positions - 1);
      return has_gaps || !all_have_rows ? std::nullopt : std::optional(own);
    }
  return std::nullopt;
}

}  // namespace lowtide::ops
