// Ops with a sliding window: convolutions and pooling. auto_pad is resolved to numbers here, so the
// graph knows explicit pads only.
#include "io/convert_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/convert.h"
#include "io/convert_indexing.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"
#include "io/shape_rules.h"
#include "ops/signature.h"

namespace lowtide::io {
namespace {

using ir::ValueId;
using sym::Expr;
using Numbers = std::vector<int64_t>;

// A sliding window's attributes, complete.
struct Window {
  Numbers kernel, strides, dilations;
  Numbers pads;  // begins, then ends
};

Result<Numbers> list_attr(NodeCall& call, std::string_view name, size_t count, int64_t otherwise) {
  const auto given = ints_attr(call.node(), name);
  if (!given || given->empty()) return Numbers(count, otherwise);
  if (given->size() != count)
    return error(ErrorCode::kInput,
                 fmt::format("{} has {} entries for {} spatial dims", name, given->size(), count));
  return *given;
}

// Pads of auto_pad: SAME_* make the output ceil(input / stride) long, VALID pads nothing.
Result<Numbers> automatic_pads(NodeCall& call, const Window& window, const std::string& mode) {
  const size_t spatial = window.kernel.size();
  Numbers pads(2 * spatial, 0);
  if (mode == "VALID") return pads;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return error(ErrorCode::kInput, fmt::format("auto_pad {} is not known", mode));
  for (size_t d = 0; d < spatial; ++d) {
    const Expr extent = call.dims(0)[d + 2];
    const int64_t reach = window.dilations[d] * (window.kernel[d] - 1) + 1;
    int64_t total = std::max<int64_t>(reach - 1, 0);  // with stride 1, whatever the extent
    if (window.strides[d] != 1) {
      if (!extent.constant()) return error(ErrorCode::kInput, needs_number(extent));
      const int64_t outputs = (*extent.constant() + window.strides[d] - 1) / window.strides[d];
      total = std::max<int64_t>((outputs - 1) * window.strides[d] + reach - *extent.constant(), 0);
    }
    const int64_t small = total / 2;
    pads[d] = mode == "SAME_UPPER" ? small : total - small;
    pads[d + spatial] = total - pads[d];
  }
  return pads;
}

Result<Window> window_of(NodeCall& call, Numbers kernel) {
  const size_t spatial = kernel.size();
  if (call.dims(0).size() != spatial + 2 || spatial == 0)
    return error(ErrorCode::kInput, fmt::format("a window of {} dims over a tensor of rank {}",
                                                spatial, call.dims(0).size()));
  Window window;
  window.kernel = std::move(kernel);
  LT_ASSIGN(window.strides, list_attr(call, "strides", spatial, 1));
  LT_ASSIGN(window.dilations, list_attr(call, "dilations", spatial, 1));
  for (size_t d = 0; d < spatial; ++d)
    if (window.kernel[d] < 1 || window.strides[d] < 1 || window.dilations[d] < 1)
      return error(ErrorCode::kInput,
                   fmt::format("kernel {}, stride {}, dilation {} of spatial dim {}",
                               window.kernel[d], window.strides[d], window.dilations[d], d));
  const std::string mode = word_attr(call.node(), "auto_pad", "NOTSET");
  if (mode == "NOTSET") {
    LT_ASSIGN(window.pads, list_attr(call, "pads", 2 * spatial, 0));
  } else {
    LT_ASSIGN(window.pads, automatic_pads(call, window, mode));
  }
  return window;
}

Result<Numbers> weight_kernel(NodeCall& call, size_t weights) {
  LT_ASSIGN(Numbers dims, constant_dims(call.dims(weights)));
  if (dims.size() < 3)
    return error(ErrorCode::kInput, fmt::format("weights of rank {}", dims.size()));
  dims.erase(dims.begin(), dims.begin() + 2);
  return dims;
}

ir::Attrs convolution_attrs(NodeCall& call, const Window& window) {
  return {{"strides", list(window.strides)},
          {"pads", list(window.pads)},
          {"dilations", list(window.dilations)},
          {"group", int_attr(call.node(), "group", 1)}};
}

Result<std::vector<ValueId>> convolution_inputs(NodeCall& call) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 3 && call.has(i); ++i) {
    LT_ASSIGN(const ValueId x, call.value(i));
    inputs.push_back(x);
  }
  return inputs;
}

Status conv(NodeCall& call) {
  LT_ASSIGN(ir::Attrs attrs, conv_attrs(call, 1));
  LT_ASSIGN(std::vector<ValueId> inputs, convolution_inputs(call));
  return call.result("Conv", std::move(inputs), std::move(attrs));
}

// The transposed convolution is the data gradient of a convolution whose input has the size of this
// op's output.
Status conv_transpose(NodeCall& call) {
  LT_ASSIGN(Numbers kernel, weight_kernel(call, 1));
  const size_t spatial = kernel.size();
  Window window;
  window.kernel = std::move(kernel);
  LT_ASSIGN(window.strides, list_attr(call, "strides", spatial, 1));
  LT_ASSIGN(window.dilations, list_attr(call, "dilations", spatial, 1));
  LT_ASSIGN(window.pads, list_attr(call, "pads", 2 * spatial, 0));
  LT_ASSIGN(const Numbers extra, list_attr(call, "output_padding", spatial, 0));
  const auto shape = ints_attr(call.node(), "output_shape");
  const std::string mode = word_attr(call.node(), "auto_pad", "NOTSET");
  if (call.dims(0).size() != spatial + 2)
    return error(ErrorCode::kInput, fmt::format("input of rank {}", call.dims(0).size()));
  std::vector<Expr> sizes;
  for (size_t d = 0; d < spatial; ++d) {
    const Expr extent = call.dims(0)[d + 2];
    const Expr full = (extent - 1) * Expr(window.strides[d]) +
                      Expr(window.dilations[d] * (window.kernel[d] - 1) + 1 + extra[d]);
    const bool given = shape && shape->size() >= spatial;
    if (!given && (mode == "NOTSET" || mode == "VALID")) {
      sizes.push_back(full - Expr(window.pads[d] + window.pads[d + spatial]));
      continue;
    }
    // SAME: extent * stride. A kernel that reaches less far than a stride leaves no pads to remove,
    // and the result ends with its last window.
    const int64_t reach = window.dilations[d] * (window.kernel[d] - 1) + 1 + extra[d];
    const Expr size = given ? Expr((*shape)[shape->size() - spatial + d])
                            : full - Expr(std::max<int64_t>(reach - window.strides[d], 0));
    const auto total = (full - size).constant();
    if (!total) return error(ErrorCode::kInput, needs_number(full - size));
    const int64_t pad = std::max<int64_t>(*total, 0);
    window.pads[d] = mode == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
    window.pads[d + spatial] = pad - window.pads[d];
    sizes.push_back(size);
  }
  ir::Attrs attrs = convolution_attrs(call, window);
  attrs["output_spatial"] = list(std::move(sizes));
  LT_ASSIGN(std::vector<ValueId> inputs, convolution_inputs(call));
  return call.result("ConvDataGrad", std::move(inputs), std::move(attrs));
}

// ---- pooling ----

Result<Window> pooling_window(NodeCall& call) {
  const auto kernel = ints_attr(call.node(), "kernel_shape");
  if (!kernel) return error(ErrorCode::kInput, "has no kernel_shape");
  return window_of(call, *kernel);
}

ir::Attrs pooling_attrs(NodeCall& call, const Window& window) {
  return {{"kernel", list(window.kernel)},
          {"strides", list(window.strides)},
          {"pads", list(window.pads)},
          {"dilations", list(window.dilations)},
          {"ceil_mode", int64_t{int_attr(call.node(), "ceil_mode", 0) != 0}}};
}

// The indices are positions in the whole of x; the graph's own are taps of the window.
Status max_pool(NodeCall& call) {
  LT_ASSIGN(const Window window, pooling_window(call));
  ir::Attrs attrs = pooling_attrs(call, window);
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const std::vector<ValueId> made, call.result_all("MaxPool", {x}, attrs));
  if (!call.wants(1)) return {};
  const ir::Dims from = call.dims(0);
  attrs.erase("ceil_mode");
  attrs["input_spatial"] = ir::Dims(from.begin() + 2, from.end());
  attrs["columns_first"] = int64_t{int_attr(call.node(), "storage_order", 0) != 0};
  return call.result_at(1, "MaxPoolPositions", {made[1]}, std::move(attrs)).map([](ValueId) {});
}

// The extents of what a window makes when it is moved apart again.
ir::Dims unpooled(NodeCall& call, const Window& window) {
  ir::Dims dims = call.dims(0);
  const size_t spatial = window.kernel.size();
  for (size_t d = 0; d < spatial; ++d)
    dims[d + 2] = (dims[d + 2] - 1) * Expr(window.strides[d]) +
                  Expr(window.kernel[d] - window.pads[d] - window.pads[d + spatial]);
  return dims;
}

// The maxima back at their places in a tensor of zeros. What places count in where an output_shape
// is larger than what the window makes is not agreed on: places of the smaller tensor in the
// specification's example, of the larger one in ONNX Runtime. So that is refused.
Status max_unpool(NodeCall& call) {
  LT_ASSIGN(const Window window, pooling_window(call));
  const ir::Dims from = call.dims(0);
  const ir::Dims dims = unpooled(call, window);
  if (call.has(2)) {
    LT_ASSIGN(const ir::Dims asked, call.sizes(2));
    if (asked != dims)
      return error(
          ErrorCode::kInput,
          fmt::format("an output_shape of {} where the window makes {} is not taken: which "
                      "of them places count in is not agreed on",
                      ops::print(asked), ops::print(dims)));
  }
  if (call.dims(1) != from)
    return error(ErrorCode::kInput, fmt::format("places of {} for maxima of {}",
                                                ops::print(call.dims(1)), ops::print(from)));
  const Expr count = product(dims);
  LT_RETURN_IF_ERROR(check_places(call, 1, count));
  std::array<ValueId, 2> flat;
  for (size_t i = 0; i < 2; ++i) {
    LT_ASSIGN(const ValueId x, call.value(i));
    LT_ASSIGN(flat[i],
              call.emit("Reshape", {x}, {{"shape", list(std::vector<Expr>{product(from)})}}));
  }
  LT_ASSIGN(const ValueId zeros, call.emit("Fill", {},
                                           {{"shape", list(std::vector<Expr>{count})},
                                            {"value", 0.0},
                                            {"dtype", word(lowtide::name(call.dtype(0)))}}));
  LT_ASSIGN(const ValueId spread, call.emit("ScatterElements", {zeros, flat[1], flat[0]},
                                            {{"axis", int64_t{0}}, {"reduction", word("none")}}));
  return call.result("Reshape", {spread}, {{"shape", list(dims)}});
}

// Blocks of an image, side by side as columns, added up where they overlap. The rows of input 0 are
// the channels' taps, its columns the blocks' places.
Status column_to_image(NodeCall& call) {
  LT_ASSIGN(const Numbers image, call.integers(1));
  LT_ASSIGN(const Numbers kernel, call.integers(2));
  const size_t spatial = image.size();
  const ir::Dims from = call.dims(0);
  if (kernel.size() != spatial || spatial == 0 || from.size() != 3)
    return error(ErrorCode::kInput,
                 fmt::format("blocks of {} dims in an image of {}, from an input of rank {}",
                             kernel.size(), spatial, from.size()));
  LT_ASSIGN(const Numbers strides, list_attr(call, "strides", spatial, 1));
  LT_ASSIGN(const Numbers dilations, list_attr(call, "dilations", spatial, 1));
  LT_ASSIGN(const Numbers pads, list_attr(call, "pads", 2 * spatial, 0));
  int64_t taps = 1, places = 1;
  std::vector<Expr> dims = {from[0], Expr(1)};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  for (size_t d = 0; d < spatial; ++d) {
    const int64_t reach = dilations[d] * (kernel[d] - 1) + 1;
    const int64_t room = image[d] + pads[d] + pads[d + spatial] - reach;
    if (kernel[d] < 1 || strides[d] < 1 || dilations[d] < 1 || image[d] < 1 || room < 0)
      return error(
          ErrorCode::kInput,
          fmt::format("no block of {} in {}: stride {}, dilation {}, pads {} and {}", kernel[d],
                      image[d], strides[d], dilations[d], pads[d], pads[d + spatial]));
    taps *= kernel[d];
    places *= room / strides[d] + 1;
    dims.emplace_back(room / strides[d] + 1);
  }
  const auto rows = from[1].constant();
  const bool fits = rows && *rows % taps == 0 && (from[2] - places).constant().value_or(0) == 0;
  if (!fits)
    return error(ErrorCode::kInput,
                 fmt::format("an input of {} for blocks of {} elements at {} places",
                             ops::print(from), taps, places));
  dims[1] = *rows / taps;
  LT_ASSIGN(const ValueId x, call.value(0));
  LT_ASSIGN(const ValueId columns, call.emit("Reshape", {x}, {{"shape", list(std::move(dims))}}));
  return call.result("Col2Im", {columns},
                     {{"strides", list(strides)},
                      {"dilations", list(dilations)},
                      {"pads", list(pads)},
                      {"spatial", static_cast<int64_t>(spatial)},
                      {"output_spatial", list(image)}});
}

Status average_pool(NodeCall& call) {
  LT_ASSIGN(const Window window, pooling_window(call));
  ir::Attrs attrs = pooling_attrs(call, window);
  attrs["count_include_pad"] = int64_t{int_attr(call.node(), "count_include_pad", 0) != 0};
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("AvgPool", {x}, std::move(attrs));
}

// |x|^p, and the root of a sum of such in the type of x.
Result<ValueId> powers(NodeCall& call, int64_t p) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
  LT_ASSIGN(ValueId x, call.value(0));
  LT_ASSIGN(x, call.wide(x));
  if (p == 2) return call.emit("Mul", {x, x});
  LT_ASSIGN(const ValueId magnitude, call.emit("Abs", {x}));
  if (p == 1) return magnitude;
  return call.emit("PowScalar", {magnitude}, {{"exponent", static_cast<double>(p)}});
}
Status root(NodeCall& call, ValueId sum, int64_t p) {
  const DType type = call.dtype(0);
  if (p == 2) return call.result_as(type, "Sqrt", {sum}, {{"norm", int64_t{1}}});
  return call.result_as(type, "PowScalar", {sum}, {{"exponent", 1 / static_cast<double>(p)}});
}

Result<int64_t> norm_of(NodeCall& call) {
  const int64_t p = int_attr(call.node(), "p", 2);
  if (p < 1) return error(ErrorCode::kInput, fmt::format("p is {}", p));
  return p;
}

// A sum is an average that divides by one.
Status lp_pool(NodeCall& call) {
  LT_ASSIGN(const int64_t p, norm_of(call));
  LT_ASSIGN(const Window window, pooling_window(call));
  ir::Attrs attrs = pooling_attrs(call, window);
  attrs["divisor"] = int64_t{1};
  LT_ASSIGN(const ValueId raised, powers(call, p));
  if (p == 1) return call.result_as(call.dtype(0), "AvgPool", {raised}, std::move(attrs));
  LT_ASSIGN(const ValueId sum, call.emit("AvgPool", {raised}, std::move(attrs)));
  return root(call, sum, p);
}

Status global_pool(NodeCall& call, std::string_view kind) {
  Numbers axes;
  for (size_t d = 2; d < call.dims(0).size(); ++d) axes.push_back(static_cast<int64_t>(d));
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result(kind, {x}, {{"axes", list(axes)}, {"keepdims", int64_t{1}}});
}
Status global_average(NodeCall& call) {
  return global_pool(call, "ReduceMean");
}
Status global_max(NodeCall& call) {
  return global_pool(call, "ReduceMax");
}
Status global_lp(NodeCall& call) {
  LT_ASSIGN(const int64_t p, norm_of(call));
  Numbers axes;
  for (size_t d = 2; d < call.dims(0).size(); ++d) axes.push_back(static_cast<int64_t>(d));
  const ir::Attrs attrs = {{"axes", list(axes)}, {"keepdims", int64_t{1}}};
  LT_ASSIGN(const ValueId raised, powers(call, p));
  if (p == 1) return call.result_as(call.dtype(0), "ReduceSum", {raised}, attrs);
  LT_ASSIGN(const ValueId sum, call.emit("ReduceSum", {raised}, attrs));
  return root(call, sum, p);
}

constexpr ConvertRow kWindowRows[] = {
    {"Conv", 2, conv},
    {"ConvTranspose", 2, conv_transpose},
    {"MaxPool", 1, max_pool},
    {"MaxUnpool", 2, max_unpool},
    {"Col2Im", 3, column_to_image},
    {"AveragePool", 1, average_pool},
    {"LpPool", 1, lp_pool},
    {"GlobalAveragePool", 1, global_average},
    {"GlobalMaxPool", 1, global_max},
    {"GlobalLpPool", 1, global_lp},
};

}  // namespace

Result<ir::Attrs> conv_attrs(NodeCall& call, size_t weights) {
  LT_ASSIGN(Numbers kernel, weight_kernel(call, weights));
  LT_ASSIGN(const Window window, window_of(call, std::move(kernel)));
  return convolution_attrs(call, window);
}

std::span<const ConvertRow> window_conversions() {
  return kWindowRows;
}

}  // namespace lowtide::io
