#include "rewrite/enlarged_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "rewrite/rules.h"

namespace lowtide::rewrite {
namespace {

using ir::GraphEdit;
using ir::OpId;
using ir::ValueId;
using Ints = std::vector<int64_t>;

constexpr size_t kInput = 0, kWeights = 1, kSpace = 2;  // operands; the first dimension of space

// Of one axis of a kernel, in places of the input from where the stride puts an output.
struct Taps {
  int64_t first = 0, last = 0;
  int64_t step = 0;     // 0: there is one
  int64_t pad_end = 0;  // with which the input is padded at its end
};
using Window = std::vector<Taps>;  // one for each axis

// Convolutions that differ in nothing but the values and the number of their kernels.
struct Alike {
  int64_t taps = 0;
  std::string key = {};
  std::vector<OpId> ops = {};
};

std::optional<Ints> constants(const ir::Dims& dims) {
  Ints numbers;
  for (const sym::Expr& dim : dims) {
    if (!dim.constant()) return std::nullopt;
    numbers.push_back(*dim.constant());
  }
  return numbers;
}

// An attribute that may be missing.
std::optional<Ints> ints_of(const ir::Op& op, std::string_view name, size_t size,
                            int64_t otherwise) {
  const auto found = op.attrs.find(name);
  if (found == op.attrs.end()) return Ints(size, otherwise);
  auto numbers = constants(std::get<ir::Dims>(found->second));
  return numbers && numbers->size() == size ? numbers : std::nullopt;
}

ir::Dims as_dims(const Ints& numbers) {
  return {numbers.begin(), numbers.end()};
}

// The axis of a kernel with the taps of all of these; nothing where they lie on no one grid.
std::optional<Taps> around(const std::vector<Taps>& all) {
  Taps whole = all[0];
  for (const Taps& one : all) {
    if (whole.step != 0 && one.step != 0 && whole.step != one.step) return std::nullopt;
    whole.step = std::max(whole.step, one.step);
    whole.first = std::min(whole.first, one.first);
    if (one.last > whole.last) whole.pad_end = one.pad_end;
    whole.last = std::max(whole.last, one.last);
  }
  whole.step = std::max<int64_t>(1, whole.step);
  for (const Taps& one : all)
    if ((one.first - whole.first) % whole.step != 0) return std::nullopt;
  return whole;
}

class EnlargedKernels : private ProductEdit {
 public:
  using ProductEdit::ProductEdit;

  Result<SharedOperandReport> run() {
    for (bool changed = true; changed;) {
      changed = false;
      const auto key = [&](OpId id, const Way& way) { return key_without_window(id, way); };
      for (const auto& [name, group] : groups_by(key)) {
        LT_ASSIGN(const bool joined, try_join(group.ops));
        changed = changed || joined;
      }
    }
    LT_ASSIGN(report_.graph, graph());
    return std::move(report_);
  }

 private:
  static constexpr Way kKernels = {kWeights, 0, 1, true};

  size_t axes_of(OpId id) const { return dims(edit().op(id).inputs[kInput]).size() - kSpace; }

  // All that is equal in convolutions whose kernels can be joined, but for the taps.
  std::optional<std::string> key_without_window(OpId id, const Way& way) const {
    const ir::Op& op = edit().op(id);
    if (op.kind != "Conv" || way.operand != kWeights) return std::nullopt;
    const auto strides = ints_of(op, "strides", axes_of(id), 1);
    const auto sizes = constants(dims(op.outputs[0]));
    if (!strides || !sizes || !window_of(id)) return std::nullopt;
    std::string key = fmt::format("v{}{}", op.inputs[kInput].index(), has(id, kBias) ? " +" : "");
    for (const int64_t stride : *strides) key += fmt::format(" {}", stride);
    for (size_t d = kSpace; d < sizes->size(); ++d) key += fmt::format(" {}", (*sizes)[d]);
    return key + fmt::format(" {} {}", static_cast<int>(edit().value(op.inputs[kWeights]).dtype),
                             static_cast<int>(op.phase));
  }

  std::optional<Window> window_of(OpId id) const {
    const ir::Op& op = edit().op(id);
    const size_t n = axes_of(id);
    const auto kernel = constants(dims(op.inputs[kWeights]));
    const auto pads = ints_of(op, "pads", 2 * n, 0), steps = ints_of(op, "dilations", n, 1);
    if (!kernel || !pads || !steps) return std::nullopt;
    Window window;
    for (size_t d = 0; d < n; ++d) {
      const int64_t more = (*kernel)[kSpace + d] - 1, first = -(*pads)[d];
      window.push_back({.first = first,
                        .last = first + more * (*steps)[d],
                        .step = more > 0 ? (*steps)[d] : 0,
                        .pad_end = (*pads)[n + d]});
    }
    return window;
  }

  std::optional<Window> window_around(const std::vector<OpId>& ops) const {
    std::vector<Window> windows;
    for (OpId id : ops) windows.push_back(*window_of(id));
    Window whole;
    for (size_t d = 0; d < windows[0].size(); ++d) {
      std::vector<Taps> taps;
      for (const Window& window : windows) taps.push_back(window[d]);
      const auto one = around(taps);
      if (!one) return std::nullopt;
      whole.push_back(*one);
    }
    return whole;
  }

  // By their number of taps.
  std::vector<Alike> kinds_of(const std::vector<OpId>& ops) const {
    std::map<std::pair<int64_t, std::string>, Alike> kinds;
    for (OpId id : ops) {
      if (!edit().alive(id)) continue;
      const Ints kernel = *constants(dims(edit().op(id).inputs[kWeights]));
      const int64_t taps =
          std::accumulate(kernel.begin() + kSpace, kernel.end(), int64_t{1}, std::multiplies<>());
      const std::string key = key_of(id, kKernels);
      Alike& kind = kinds[{taps, key}];
      kind.taps = taps;
      kind.key = key;
      kind.ops.push_back(id);
    }
    std::vector<Alike> sorted;
    for (auto& [key, kind] : kinds) sorted.push_back(std::move(kind));
    return sorted;
  }

  // Before `first`, the weights of an op with zeros where the window has other taps.
  std::optional<ValueId> padded(std::vector<OpId>& made, OpId first, OpId id, const Window& whole) {
    const ValueId weights = edit().op(id).inputs[kWeights];
    const Window own = *window_of(id);
    ir::Dims begins(kSpace, 0), ends(kSpace, 0);
    bool all_zero = true;
    for (size_t d = 0; d < own.size(); ++d) {
      const int64_t before = (own[d].first - whole[d].first) / whole[d].step;
      const int64_t behind = (whole[d].last - own[d].last) / whole[d].step;
      begins.emplace_back(before);
      ends.emplace_back(behind);
      all_zero = all_zero && before == 0 && behind == 0;
    }
    if (all_zero) return weights;
    return add(made, first, "Pad", {weights}, {{"begins", begins}, {"ends", ends}, {"value", 0.0}});
  }

  // `ops` in the order of the graph.
  bool join_kernels(const std::vector<OpId>& ops, std::vector<OpId>& made) {
    const auto whole = window_around(ops);
    if (!whole) return false;
    const std::vector<OpId> ordered = as_they_are_read(ops);
    std::vector<ValueId> weights;
    for (OpId id : ordered) {
      const auto one = padded(made, ops[0], id, *whole);
      if (!one) return false;
      weights.push_back(*one);
    }
    Ints pads, pads_behind, steps;
    for (const Taps& taps : *whole) {
      pads.push_back(-taps.first);
      pads_behind.push_back(taps.pad_end);
      steps.push_back(taps.step);
    }
    pads.insert(pads.end(), pads_behind.begin(), pads_behind.end());
    ir::Attrs attrs = edit().op(ops[0]).attrs;
    attrs["pads"] = as_dims(pads);
    attrs["dilations"] = as_dims(steps);
    return join(ops[0], ordered, weights, attrs, kKernels, made);
  }

  // Of what would be in the place of these; nothing where they cannot be joined.
  Result<std::optional<double>> seconds_joined(const std::vector<OpId>& ops) {
    const GraphEdit::Mark before = edit().mark();
    std::vector<OpId> made;
    std::optional<double> seconds;
    if (join_kernels(ops, made)) {
      LT_ASSIGN(seconds, seconds_of(made));
    }
    edit().rollback(before);
    return seconds;
  }

  // Of convolutions as they are, those that are alike joined where that is faster.
  Result<double> seconds_apart(const std::vector<Alike>& kinds) {
    double sum = 0;
    for (const Alike& kind : kinds) {
      LT_ASSIGN(double least, seconds_of(kind.ops));
      if (kind.ops.size() > 1) {
        LT_ASSIGN(const std::optional<double> joined, seconds_joined(kind.ops));
        if (joined) least = std::min(least, *joined);
      }
      sum += least;
    }
    return sum;
  }

  // The seconds that joining these gains; nothing where they cannot be joined.
  Result<std::optional<double>> gain_of(const std::vector<OpId>& ops) {
    const GraphEdit::Mark before = edit().mark();
    const std::vector<OpId> joined = joinable(ops);
    const std::vector<Alike> kinds = kinds_of(joined);
    std::optional<double> gain;
    if (kinds.size() > 1) {
      LT_ASSIGN(const double was, seconds_apart(kinds));
      LT_ASSIGN(const std::optional<double> is, seconds_joined(joined));
      if (is) gain = was - *is;
    }
    edit().rollback(before);
    return gain;
  }

  std::vector<OpId> in_order(std::span<const Alike> kinds) const {
    std::vector<OpId> ops;
    for (const Alike& kind : kinds) ops.insert(ops.end(), kind.ops.begin(), kind.ops.end());
    std::sort(ops.begin(), ops.end(), [&](OpId a, OpId b) { return edit().before(a, b); });
    return ops;
  }

  Result<bool> try_join(const std::vector<OpId>& group) {
    const std::vector<Alike> kinds = kinds_of(group);
    double most = 0;
    std::vector<OpId> best;
    for (size_t begin = 0; begin < kinds.size(); ++begin)
      for (size_t end = begin + 2; end <= kinds.size(); ++end) {
        const std::vector<OpId> ops = in_order(std::span(kinds).subspan(begin, end - begin));
        LT_ASSIGN(const std::optional<double> gain, gain_of(ops));
        if (!gain || *gain <= most) continue;
        most = *gain;
        best = ops;
      }
    if (best.empty()) return false;
    const std::vector<OpId> joined = joinable(best);
    std::vector<OpId> made;
    LT_CHECK(join_kernels(joined, made), "what was priced can be made again");
    edit().commit();
    report_.products += static_cast<int64_t>(joined.size());
    return true;
  }

  SharedOperandReport report_;
};

}  // namespace

Result<SharedOperandReport> enlarge_kernels(const ir::Graph& graph, const OpSeconds& seconds) {
  if (has_wholes(graph)) return SharedOperandReport{graph};
  return EnlargedKernels(graph, seconds).run();
}

}  // namespace lowtide::rewrite
