// Layers of networks: convolutions, pooling, normalizations, softmax, dropout, losses. auto_pad is
// resolved to numbers here, so the graph knows explicit pads only.
#include <fmt/format.h>

#include <algorithm>

#include "io/convert.h"
#include "io/onnx_attrs.h"
#include "io/onnx_ops.h"
#include "io/shape_rules.h"

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
    const Expr& extent = call.dims(0)[d + 2];
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

Result<Numbers> weight_kernel(NodeCall& call) {
  LT_ASSIGN(Numbers dims, constant_dims(call.dims(1)));
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
  LT_ASSIGN(Numbers kernel, weight_kernel(call));
  LT_ASSIGN(const Window window, window_of(call, std::move(kernel)));
  LT_ASSIGN(std::vector<ValueId> inputs, convolution_inputs(call));
  return call.result("Conv", std::move(inputs), convolution_attrs(call, window));
}

// The transposed convolution is the data gradient of a convolution whose input has the size of this
// op's output.
Status conv_transpose(NodeCall& call) {
  LT_ASSIGN(Numbers kernel, weight_kernel(call));
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
    const Expr& extent = call.dims(0)[d + 2];
    const Expr full = (extent - 1) * Expr(window.strides[d]) +
                      Expr(window.dilations[d] * (window.kernel[d] - 1) + 1 + extra[d]);
    const bool given = shape && shape->size() >= spatial;
    if (!given && (mode == "NOTSET" || mode == "VALID")) {
      sizes.push_back(full - Expr(window.pads[d] + window.pads[d + spatial]));
      continue;
    }
    const Expr size =
        given ? Expr((*shape)[shape->size() - spatial + d]) : extent * Expr(window.strides[d]);
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

// ---- pooling
// -------------------------------------------------------------------------------------------------------

Result<Window> pooling_window(NodeCall& call) {
  const auto kernel = ints_attr(call.node(), "kernel_shape");
  if (!kernel) return error(ErrorCode::kInput, "has no kernel_shape");
  return window_of(call, *kernel);
}

ir::Attrs pooling_attrs(NodeCall& call, const Window& window) {
  return {{"kernel", list(window.kernel)},
          {"strides", list(window.strides)},
          {"pads", list(window.pads)},
          {"ceil_mode", int64_t{int_attr(call.node(), "ceil_mode", 0) != 0}}};
}

Status max_pool(NodeCall& call) {
  if (call.wants(1))
    return error(ErrorCode::kInput, "the indices of MaxPool (output 1) are not taken");
  LT_ASSIGN(const Window window, pooling_window(call));
  ir::Attrs attrs = pooling_attrs(call, window);
  attrs["dilations"] = list(window.dilations);
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("MaxPool", {x}, std::move(attrs));
}

Status average_pool(NodeCall& call) {
  LT_ASSIGN(const Window window, pooling_window(call));
  for (int64_t dilation : window.dilations)
    if (dilation != 1)
      return error(ErrorCode::kInput,
                   fmt::format("AveragePool with dilation {} is not taken", dilation));
  ir::Attrs attrs = pooling_attrs(call, window);
  attrs["count_include_pad"] = int64_t{int_attr(call.node(), "count_include_pad", 0) != 0};
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("AvgPool", {x}, std::move(attrs));
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

// ---- normalization
// -------------------------------------------------------------------------------------------------

Result<std::vector<ValueId>> values(NodeCall& call, size_t count) {
  std::vector<ValueId> result;
  for (size_t i = 0; i < count; ++i) {
    LT_ASSIGN(const ValueId x, call.value(i));
    result.push_back(x);
  }
  return result;
}

// Statistics of the batch, and running ones that follow them. ONNX keeps the biased variance,
// PyTorch (whose one-output form this is when the caller says that the graph is for training) the
// unbiased one. ONNX's momentum is the weight of the old value.
Status batch_norm_train(NodeCall& call, const ir::Attrs& attrs, bool unbiased) {
  LT_ASSIGN(const std::vector<ValueId> inputs, values(call, 5));
  LT_ASSIGN(const std::vector<ValueId> made,
            call.result_all("BatchNormTrain", {inputs[0], inputs[1], inputs[2]}, attrs));
  double correction = 1.0;
  if (unbiased) {
    ir::Dims counted = call.dims(0);
    counted.erase(counted.begin() + 1);
    const Expr count = product(counted);
    if (!count.constant())
      return error(ErrorCode::kInput, fmt::format("the running variance {}", needs_number(count)));
    const double n = static_cast<double>(*count.constant());
    if (n > 1) correction = n / (n - 1);
  }
  const double momentum = 1.0 - real_attr(call.node(), "momentum", 0.9);
  for (size_t i = 1; i < 3; ++i) {
    const ir::Attrs update = {{"momentum", momentum}, {"correction", i == 1 ? 1.0 : correction}};
    if (call.wants(i)) {
      LT_RETURN_IF_ERROR(
          call.result_at(i, "RunningUpdate", {inputs[i + 2], made[i]}, update).map([](ValueId) {}));
    } else {
      LT_RETURN_IF_ERROR(
          call.emit("RunningUpdate", {inputs[i + 2], made[i]}, update).map([](ValueId) {}));
    }
  }
  return {};
}

Status batch_norm(NodeCall& call) {
  const ir::Attrs attrs = {{"epsilon", real_attr(call.node(), "epsilon", 1e-5)}};
  const bool explicit_training = int_attr(call.node(), "training_mode", 0) != 0;
  if (explicit_training || call.training())
    return batch_norm_train(call, attrs, !explicit_training);
  LT_ASSIGN(std::vector<ValueId> inputs, values(call, 5));
  return call.result("BatchNormInference", std::move(inputs), attrs);
}

Status layer_norm(NodeCall& call) {
  const size_t rank = call.dims(0).size();
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", -1), rank));
  LT_ASSIGN(std::vector<ValueId> inputs, values(call, call.has(2) ? 3 : 2));
  const ir::Attrs attrs = {{"axis", static_cast<int64_t>(axis)},
                           {"epsilon", real_attr(call.node(), "epsilon", 1e-5)}};
  LT_ASSIGN(const std::vector<ValueId> made,
            call.result_all("LayerNorm", std::move(inputs), attrs));
  for (size_t i = 1; i < 3; ++i) {
    if (!call.wants(i))
      continue;  // ONNX keeps extents of 1 in the mean and the reciprocal deviation
    ir::Dims dims = call.dims(0);
    std::fill(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end(), Expr(1));
    LT_RETURN_IF_ERROR(call.result_at(i, "Reshape", {made[i]}, {{"shape", list(std::move(dims))}})
                           .map([](ValueId) {}));
  }
  return {};
}

Status rms_norm(NodeCall& call) {
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", -1), call.dims(0).size()));
  LT_ASSIGN(std::vector<ValueId> inputs, values(call, 2));
  return call.result(
      "RmsNorm", std::move(inputs),
      {{"axis", static_cast<int64_t>(axis)}, {"epsilon", real_attr(call.node(), "epsilon", 1e-5)}});
}

// Per group of channels: a LayerNorm without weights over [n, groups, rest], then scale and bias
// per channel.
Status normalize_groups(NodeCall& call, const Expr& groups, bool per_group) {
  const ir::Dims from = call.dims(0);
  if (from.size() < 3)
    return error(ErrorCode::kInput, fmt::format("an input of rank {}", from.size()));
  const std::span<const Expr> all(from);
  const Expr rest = sym::floordiv(from[1], groups) * product(all.subspan(2));
  if (!rest.constant()) return error(ErrorCode::kInput, needs_number(rest));
  HostValue one;
  one.dtype = call.dtype(0);
  one.dims = {rest};
  one.form = HostValue::Form::kIndexed;
  one.cell = {flat(0, 1), 1.0, 1.0, {}};
  LT_ASSIGN(const ValueId ones, call.inline_constant(one, "ones"));
  LT_ASSIGN(const std::vector<ValueId> inputs, values(call, 3));
  LT_ASSIGN(const ValueId grouped,
            call.emit("Reshape", {inputs[0]},
                      {{"shape", list(std::vector<Expr>{from[0], groups, rest})}}));
  LT_ASSIGN(
      const ValueId normal,
      call.emit("LayerNorm", {grouped, ones},
                {{"axis", int64_t{2}}, {"epsilon", real_attr(call.node(), "epsilon", 1e-5)}}));
  LT_ASSIGN(ValueId y, call.emit("Reshape", {normal}, {{"shape", list(from)}}));
  ValueId weights[2];
  for (size_t i = 0; i < 2; ++i) {
    ir::Dims dims(from.size() - 1, Expr(1));
    dims[0] = from[1];
    weights[i] = inputs[i + 1];
    if (per_group) {  // before opset 21: one scale for each group
      LT_ASSIGN(weights[i], call.emit("Reshape", {weights[i]},
                                      {{"shape", list(std::vector<Expr>{groups, Expr(1)})}}));
      LT_ASSIGN(
          weights[i],
          call.emit("Expand", {weights[i]},
                    {{"shape", list(std::vector<Expr>{groups, sym::floordiv(from[1], groups)})}}));
    }
    LT_ASSIGN(weights[i], call.emit("Reshape", {weights[i]}, {{"shape", list(std::move(dims))}}));
  }
  LT_ASSIGN(y, call.emit("Mul", {y, weights[0]}));
  return call.result("Add", {y, weights[1]});
}

Status instance_norm(NodeCall& call) {
  if (call.dims(0).size() < 3) return error(ErrorCode::kInput, "an input without spatial dims");
  return normalize_groups(call, call.dims(0)[1], false);
}

Status group_norm(NodeCall& call) {
  const int64_t groups = int_attr(call.node(), "num_groups", 0);
  if (groups < 1) return error(ErrorCode::kInput, fmt::format("num_groups is {}", groups));
  const bool per_group = call.dims(1) == ir::Dims{Expr(groups)} && call.opset() < 21;
  return normalize_groups(call, groups, per_group);
}

// Before opset 13 all dims from the axis on were one; that is the same op only for the last dim.
Status softmax(NodeCall& call) {
  const size_t rank = call.dims(0).size();
  const bool old = call.opset() < 13;
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", old ? 1 : -1), rank));
  if (old && axis + 1 != rank)
    return error(ErrorCode::kInput,
                 fmt::format("at opset {} axis {} of rank {} means all dims behind it",
                             call.opset(), axis, rank));
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result(call.node().op_type, {x}, {{"axis", static_cast<int64_t>(axis)}});
}

// ---- dropout, random numbers, losses
// --------------------------------------------------------------------------------

// The mask is drawn only in a training graph, for nodes that were exported in training mode.
Status dropout(NodeCall& call) {
  const bool exported_for_training = call.opset() < 12 ? false : call.scalar(2).value_or(0) != 0;
  double ratio = real_attr(call.node(), "ratio", 0.5);
  if (call.has(1)) {
    const auto given = call.scalar(1);
    if (!given) return error(ErrorCode::kInput, "the ratio of a Dropout must be a known number");
    ratio = *given;
  }
  const bool draws = call.training() && call.dropout() && exported_for_training && ratio > 0;
  if (draws && call.wants(1))
    return error(ErrorCode::kInput,
                 "the mask of a Dropout (output 1) is not taken in a training graph");
  if (call.wants(1)) {
    HostValue mask;
    mask.dtype = DType::kBool;
    mask.dims = call.dims(0);
    mask.form = HostValue::Form::kIndexed;
    mask.cell.integer = flat(0, mask.dims.size());
    call.set_host(1, std::move(mask));
  }
  if (!draws) {
    call.pass(0);
    return {};
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Dropout", {x}, {{"ratio", ratio}, {"stream", call.next_stream()}});
}

Status random_uniform_like(NodeCall& call) {
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("RandomUniform", {x},
                     {{"low", real_attr(call.node(), "low", 0)},
                      {"high", real_attr(call.node(), "high", 1)},
                      {"stream", call.next_stream()}});
}

Status cross_entropy(NodeCall& call) {
  if (call.has(2)) return error(ErrorCode::kInput, "class weights are not taken");
  if (word_attr(call.node(), "reduction", "mean") != "mean")
    return error(ErrorCode::kInput, "only the mean reduction is taken");
  if (call.wants(1)) return error(ErrorCode::kInput, "log_prob (output 1) is not taken");
  LT_ASSIGN(std::vector<ValueId> inputs, values(call, 2));
  if (call.of(inputs[1]).dtype != DType::kI64) {
    LT_ASSIGN(inputs[1], call.emit("Cast", {inputs[1]}, {{"to", word("i64")}}));
  }
  ir::Attrs attrs = {{"axis", int64_t{1}}};
  if (has_attr(call.node(), "ignore_index"))
    attrs["ignore_index"] = int_attr(call.node(), "ignore_index", 0);
  return call.result("CrossEntropy", std::move(inputs), std::move(attrs));
}

constexpr ConvertRow kRows[] = {
    {"Conv", 2, conv},
    {"ConvTranspose", 2, conv_transpose},
    {"MaxPool", 1, max_pool},
    {"AveragePool", 1, average_pool},
    {"GlobalAveragePool", 1, global_average},
    {"GlobalMaxPool", 1, global_max},
    {"BatchNormalization", 5, batch_norm},
    {"LayerNormalization", 2, layer_norm},
    {"RMSNormalization", 2, rms_norm},
    {"InstanceNormalization", 3, instance_norm},
    {"GroupNormalization", 3, group_norm},
    {"Softmax", 1, softmax},
    {"LogSoftmax", 1, softmax},
    {"Dropout", 1, dropout},
    {"RandomUniformLike", 1, random_uniform_like},
    {"SoftmaxCrossEntropyLoss", 2, cross_entropy},
};

}  // namespace

std::span<const ConvertRow> network_conversions() {
  return kRows;
}

}  // namespace lowtide::io
