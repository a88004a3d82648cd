// Layers of networks: normalizations, softmax, dropout, losses.
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

// ---- normalization ----

Result<std::vector<ValueId>> values(NodeCall& call, size_t count) {
  std::vector<ValueId> result;
  for (size_t i = 0; i < count; ++i) {
    LT_ASSIGN(const ValueId x, call.value(i));
    result.push_back(x);
  }
  return result;
}

// PyTorch keeps the unbiased variance, ONNX the biased one.
Result<double> variance_correction(NodeCall& call, bool unbiased) {
  if (!unbiased) return 1.0;
  ir::Dims counted = call.dims(0);
  counted.erase(counted.begin() + 1);
  const Expr count = product(counted);
  if (!count.constant())
    return error(ErrorCode::kInput, fmt::format("the running variance {}", needs_number(count)));
  const double n = static_cast<double>(*count.constant());
  return n > 1 ? n / (n - 1) : 1.0;
}

// The statistic that follows the batch's, where it is neither the model's own nor anything that a
// step may overwrite: a value beside it, if anybody reads it.
Status following_statistic(NodeCall& call, size_t output, ValueId running, ValueId batch,
                           double momentum, double correction) {
  if (!call.wants(output)) return {};
  const auto scaled = [&](ValueId statistic, double weight) {
    return call.emit("AffineScalar", {statistic}, {{"scale", weight}, {"shift", 0.0}});
  };
  LT_ASSIGN(const ValueId old, scaled(running, 1.0 - momentum));
  LT_ASSIGN(const ValueId now, scaled(batch, momentum * correction));
  return call.result_at(output, "Add", {old, now}).map([](ValueId) {});
}

// The type that an op of several float types computes in: the widest of its inputs.
DType widest(NodeCall& call, size_t inputs) {
  DType type = call.dtype(0);
  for (size_t i = 1; i < inputs; ++i)
    if (size_bytes(call.dtype(i)) > size_bytes(type)) type = call.dtype(i);
  return type;
}

// Statistics of the batch, and running ones that follow them: in place where they are buffers of
// the model. Fed and constant ones are never overwritten. The one-output form is PyTorch's when the
// caller says that the graph is for training: there who reads a statistic after this node reads
// what it has become; in ONNX's own form an initializer is the same wherever it is read. ONNX's
// momentum is the weight of the old value.
Status batch_norm_train(NodeCall& call, const ir::Attrs& attrs, bool unbiased) {
  LT_ASSIGN(std::vector<ValueId> inputs, values(call, 5));
  const DType type = call.dtype(0), computed = widest(call, 5);
  for (size_t i = 0; i < 3; ++i) {
    LT_ASSIGN(inputs[i], call.as_type(inputs[i], computed));
  }
  const std::vector<ValueId> operands_of_batch = {inputs[0], inputs[1], inputs[2]};
  LT_ASSIGN(const std::vector<ValueId> made,
            (computed == type ? call.result_all("BatchNormTrain", operands_of_batch, attrs)
                              : call.emit_all("BatchNormTrain", operands_of_batch, attrs)));
  if (computed != type)
    LT_RETURN_IF_ERROR(call.result("Cast", {made[0]}, {{"to", word(lowtide::name(type))}}));
  for (size_t i = 3; i < 5; ++i) call.set(i, made[i - 2]);  // the batch's own, before opset 14
  const double momentum = 1.0 - real_attr(call.node(), "momentum", 0.9);
  for (size_t i = 1; i < 3; ++i) {
    const std::optional<ValueId> buffer = call.buffer(inputs[i + 2]);
    if (!buffer && !call.wants(i)) continue;
    double correction = 1.0;
    if (i == 2) {
      LT_ASSIGN(correction, variance_correction(call, unbiased));
    }
    if (!buffer) {
      LT_RETURN_IF_ERROR(
          following_statistic(call, i, inputs[i + 2], made[i], momentum, correction));
      continue;
    }
    const std::vector<ValueId> operands = {*buffer, made[i]};
    const ir::Attrs update = {{"momentum", momentum}, {"correction", correction}};
    LT_ASSIGN(const ValueId followed,
              (call.wants(i) ? call.result_at(i, "RunningUpdate", operands, update)
                             : call.emit("RunningUpdate", operands, update)));
    if (unbiased) call.renew(i + 2, followed);
  }
  return {};
}

// Before opset 14 the outputs beside the first tell that statistics are those of the batch.
bool trains(const NodeCall& call) {
  if (call.opset() >= 14) return int_attr(call.node(), "training_mode", 0) != 0;
  bool wanted = false;
  for (size_t i = 1; i < 5; ++i) wanted |= call.wants(i);
  return wanted;
}

Status batch_norm(NodeCall& call) {
  if (int_attr(call.node(), "spatial", 1) == 0)
    return error(ErrorCode::kInput, "statistics of every place (spatial 0) are not taken");
  const ir::Attrs attrs = {{"epsilon", real_attr(call.node(), "epsilon", 1e-5)}};
  const bool given = int_attr(call.node(), "training_mode", 0) == kGivenStatistics;
  const bool explicit_training = !given && trains(call);
  if (explicit_training || (call.training() && !given))
    return batch_norm_train(call, attrs, !explicit_training);
  LT_ASSIGN(std::vector<ValueId> inputs, values(call, 5));
  const DType type = call.dtype(0), computed = widest(call, 5);
  for (ValueId& input : inputs) {
    LT_ASSIGN(input, call.as_type(input, computed));
  }
  return call.result_as(type, "BatchNormInference", std::move(inputs), attrs);
}

// The mean and the reciprocal deviation of a LayerNormalization (outputs 1 and 2) have the type
// that stash_type says, whatever x has. So that they have its digits too, they are computed in it
// where x is narrower.
Status layer_norm_with_statistics(NodeCall& call, std::vector<ValueId> inputs, size_t axis,
                                  const ir::Attrs& attrs) {
  const auto code = static_cast<int32_t>(int_attr(call.node(), "stash_type", 1));
  const auto stash = onnx_dtype(code);
  if (!stash || !is_float(*stash))
    return error(ErrorCode::kInput,
                 fmt::format("statistics (stash_type) in {}", onnx_type_name(code)));
  const DType type = call.dtype(0);
  const DType computed = size_bytes(type) < size_bytes(*stash) ? *stash : type;
  for (ValueId& input : inputs) {
    LT_ASSIGN(input, call.as_type(input, computed));
  }
  const bool narrows = computed != type;
  LT_ASSIGN(const std::vector<ValueId> made,
            (narrows ? call.emit_all("LayerNorm", std::move(inputs), attrs)
                     : call.result_all("LayerNorm", std::move(inputs), attrs)));
  if (narrows)
    LT_RETURN_IF_ERROR(call.result("Cast", {made[0]}, {{"to", word(lowtide::name(type))}}));
  ir::Dims dims = call.dims(0);  // ONNX keeps extents of 1
  std::fill(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end(), Expr(1));
  for (size_t i = 1; i < 3; ++i) {
    if (!call.wants(i)) continue;
    LT_ASSIGN(const ValueId statistic, call.as_type(made[i], *stash));
    LT_RETURN_IF_ERROR(
        call.result_at(i, "Reshape", {statistic}, {{"shape", list(dims)}}).map([](ValueId) {}));
  }
  return {};
}

// A scale or bias with an element for each that is normalized over; numpy's broadcast may have left
// dimensions out, or given them extent 1.
Result<ValueId> over_normalized(NodeCall& call, ValueId weight, size_t axis) {
  const ir::Dims x = call.dims(0), given = call.of(weight).dims;
  const ir::Dims wanted(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end());
  if (given == wanted || given.size() > wanted.size()) return weight;
  return call.emit("Expand", {weight}, {{"shape", list(wanted)}});
}

Status layer_norm(NodeCall& call) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
  const size_t rank = call.dims(0).size();
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", -1), rank));
  LT_ASSIGN(std::vector<ValueId> inputs, values(call, call.has(2) ? 3 : 2));
  for (size_t i = 1; i < inputs.size(); ++i) {
    LT_ASSIGN(inputs[i], over_normalized(call, inputs[i], axis));
  }
  const ir::Attrs attrs = {{"axis", static_cast<int64_t>(axis)},
                           {"epsilon", real_attr(call.node(), "epsilon", 1e-5)}};
  if (call.wants(1) || call.wants(2))
    return layer_norm_with_statistics(call, std::move(inputs), axis, attrs);
  const DType computed = widest(call, inputs.size());
  for (ValueId& input : inputs) {
    LT_ASSIGN(input, call.as_type(input, computed));
  }
  return call.result_as(call.dtype(0), "LayerNorm", std::move(inputs), attrs);
}

Status rms_norm(NodeCall& call) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", -1), call.dims(0).size()));
  LT_ASSIGN(std::vector<ValueId> inputs, values(call, 2));
  return call.result(
      "RmsNorm", std::move(inputs),
      {{"axis", static_cast<int64_t>(axis)}, {"epsilon", real_attr(call.node(), "epsilon", 1e-5)}});
}

// Per group of channels: a LayerNorm without weights over [n, groups, rest], then scale and bias
// per channel.
Status normalize_groups(NodeCall& call, Expr groups, bool per_group) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
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

Status lrn(NodeCall& call) {
  const int64_t size = int_attr(call.node(), "size", 0);
  if (size < 1) return error(ErrorCode::kInput, fmt::format("size is {}", size));
  if (call.dims(0).size() < 2)
    return error(ErrorCode::kInput, fmt::format("an input of rank {}", call.dims(0).size()));
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Lrn", {x},
                     {{"size", size},
                      {"alpha", real_attr(call.node(), "alpha", 1e-4)},
                      {"beta", real_attr(call.node(), "beta", 0.75)},
                      {"bias", real_attr(call.node(), "bias", 1)}});
}

Status lp_normalize(NodeCall& call) {
  LT_ASSIGN(const size_t axis, normal_axis(int_attr(call.node(), "axis", -1), call.dims(0).size()));
  const int64_t p = int_attr(call.node(), "p", 2);
  if (p != 1 && p != 2)
    return error(ErrorCode::kInput, fmt::format("p is {}; it must be 1 or 2", p));
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("LpNormalize", {x}, {{"axis", static_cast<int64_t>(axis)}, {"p", p}});
}

// (x - mean) / (deviation + 1e-9) over some axes, as the specification composes it.
Status mean_variance(NodeCall& call) {
  LT_RETURN_IF_ERROR(call.check_floats(0));
  const DType type = call.dtype(0);
  const std::vector<int64_t> given =
      ints_attr(call.node(), "axes").value_or(std::vector<int64_t>{0, 2, 3});
  LT_ASSIGN(const std::vector<size_t> axes, normal_axes(given, call.dims(0).size()));
  ir::Dims over(axes.begin(), axes.end());
  const ir::Attrs mean = {{"axes", list(std::move(over))}, {"keepdims", int64_t{1}}};
  LT_ASSIGN(ValueId x, call.value(0));
  LT_ASSIGN(x, call.wide(x));
  LT_ASSIGN(const ValueId centre, call.emit("ReduceMean", {x}, mean));
  LT_ASSIGN(const ValueId centred, call.emit("Sub", {x, centre}));
  LT_ASSIGN(const ValueId squares, call.emit("Mul", {centred, centred}));
  LT_ASSIGN(const ValueId variance, call.emit("ReduceMean", {squares}, mean));
  LT_ASSIGN(const ValueId deviation, call.emit("Sqrt", {variance}));
  LT_ASSIGN(const ValueId divisor,
            call.emit("AffineScalar", {deviation}, {{"scale", 1.0}, {"shift", 1e-9}}));
  return call.result_as(type, "Div", {centred, divisor});
}

// Before opset 13 all dims from the axis on were one.
Status softmax(NodeCall& call) {
  const ir::Dims from = call.dims(0);
  const bool old = call.opset() < 13;
  LT_ASSIGN(const size_t axis,
            normal_axis(int_attr(call.node(), "axis", old ? 1 : -1), from.size()));
  LT_ASSIGN(const ValueId x, call.value(0));
  if (!old || axis + 1 == from.size())
    return call.result(call.node().op_type, {x}, {{"axis", static_cast<int64_t>(axis)}});
  const std::span<const Expr> all(from);
  LT_ASSIGN(const ValueId rows,
            call.emit("Reshape", {x},
                      {{"shape", list(std::vector<Expr>{product(all.first(axis)),
                                                        product(all.subspan(axis))})}}));
  LT_ASSIGN(const ValueId soft, call.emit(call.node().op_type, {rows}, {{"axis", int64_t{1}}}));
  return call.result("Reshape", {soft}, {{"shape", list(from)}});
}

// ---- dropout, random numbers ----

// The mask of what changes nothing: all true. Before opset 12 it says nothing, and is 0 as in ONNX
// Runtime; before opset 10 it has the data's type.
HostValue idle_mask(NodeCall& call) {
  HostValue mask;
  mask.dtype = call.opset() < 10 ? call.dtype(0) : DType::kBool;
  mask.dims = call.dims(0);
  mask.form = HostValue::Form::kIndexed;
  mask.cell = {flat(0, mask.dims.size()), 0.0, 0.0, truth(call.opset() >= 12, mask.dims.size())};
  return mask;
}

// The mask is drawn only in a training graph, for nodes that were exported in training mode.
Status dropout(NodeCall& call) {
  const bool tells_mode = call.opset() >= 12 && call.has(2);
  const auto mode = tells_mode ? call.scalar(2) : std::optional(0.0);
  if (!mode)
    return error(ErrorCode::kInput, "the mode of a Dropout (input 2) must be a known truth value");
  double ratio = real_attr(call.node(), "ratio", 0.5);
  if (call.has(1)) {
    const auto given = call.scalar(1);
    if (!given) return error(ErrorCode::kInput, "the ratio of a Dropout must be a known number");
    ratio = *given;
  }
  const bool in_training_mode = call.dropout() && *mode != 0 && ratio > 0;
  if (in_training_mode && has_attr(call.node(), "seed"))
    return error(ErrorCode::kInput,
                 fmt::format("a Dropout that draws from a seed of its own ({}) is not taken",
                             int_attr(call.node(), "seed", 0)));
  if (in_training_mode && call.wants(1))
    return error(ErrorCode::kInput,
                 "the mask of a Dropout in training mode (output 1) is not taken");
  if (call.wants(1)) call.set_host(1, idle_mask(call));
  if (!in_training_mode || !call.training()) {
    call.pass(0);
    return {};
  }
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("Dropout", {x}, {{"ratio", ratio}, {"stream", call.next_stream()}});
}

// As a Dropout's mask, numbers are drawn in a training graph alone: what an inference makes of the
// same inputs does not change.
Status random_uniform_like(NodeCall& call) {
  if (!call.training())
    return error(ErrorCode::kInput, "draws at random, which only a training graph does");
  const int64_t to = int_attr(call.node(), "dtype", 0);
  if (to != 0 && onnx_dtype(static_cast<int32_t>(to)) != call.dtype(0))
    return error(ErrorCode::kInput,
                 fmt::format("draws {} beside an input of {}: not taken",
                             onnx_type_name(static_cast<int32_t>(to)), name(call.dtype(0))));
  LT_ASSIGN(const ValueId x, call.value(0));
  return call.result("RandomUniform", {x},
                     {{"low", real_attr(call.node(), "low", 0)},
                      {"high", real_attr(call.node(), "high", 1)},
                      {"stream", call.next_stream()}});
}

constexpr ConvertRow kNetworkRows[] = {
    {"BatchNormalization", 5, batch_norm},
    {"LayerNormalization", 2, layer_norm},
    {"RMSNormalization", 2, rms_norm},
    {"InstanceNormalization", 3, instance_norm},
    {"GroupNormalization", 3, group_norm},
    {"LRN", 1, lrn},
    {"LpNormalization", 1, lp_normalize},
    {"MeanVarianceNormalization", 1, mean_variance},
    {"Softmax", 1, softmax},
    {"LogSoftmax", 1, softmax},
    {"Dropout", 1, dropout},
    {"RandomUniformLike", 1, random_uniform_like},
};

}  // namespace

std::span<const ConvertRow> network_conversions() {
  return kNetworkRows;
}

}  // namespace lowtide::io
