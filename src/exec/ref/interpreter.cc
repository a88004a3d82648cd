#include "exec/ref/interpreter.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/element.h"
#include "base/file.h"
#include "exec/ref/indexing.h"
#include "exec/ref/kernels.h"
#include "exec/ref/recurrent.h"
#include "ops/destinations.h"

namespace lowtide::ref {
namespace {

tl::unexpected<Error> bad(std::string message) {
  return error(ErrorCode::kInput, std::move(message));
}

const KernelTable& kernels() {
  static const KernelTable table = [] {
    KernelTable all;
    add_elementwise(all);
    add_elementwise_gradients(all);
    add_products(all);
    add_norm(all);
    add_loss(all);
    add_pooling(all);
    add_reduce(all);
    add_move(all);
    add_resampling(all);
    add_local_norm(all);
    add_grid_sample(all);
    add_roi_align(all);
    add_indexing(all);
    add_recurrent(all);
    add_recurrent_gradients(all);
    add_random(all);
    add_update(all);
    return all;
  }();
  return table;
}

Result<Sizes> constant_dims(const ir::Dims& dims, std::string_view what) {
  Sizes sizes;
  for (const sym::Expr& dim : dims) {
    const auto size = dim.constant();
    if (!size)
      return bad(fmt::format("'{}' has the symbolic size {}; bind it before running", what,
                             sym::print(dim)));
    sizes.push_back(*size);
  }
  return sizes;
}

Status check_attributes(const ir::Attrs& attrs, std::string_view kind) {
  for (const auto& [name, value] : attrs)
    if (const auto* list = std::get_if<ir::Dims>(&value))
      LT_RETURN_IF_ERROR(constant_dims(*list, fmt::format("{}.{}", kind, name)));
  return {};
}

Status check_input(const ops::Type& type, const Tensor& tensor, std::string_view kind, size_t i) {
  LT_ASSIGN(const Sizes dims, constant_dims(type.dims, kind));
  if (type.dtype != tensor.dtype || dims != tensor.dims)
    return bad(fmt::format("{}: input {} is declared {} [{}] and was given {} [{}]", kind, i,
                           name(type.dtype), fmt::join(dims, ", "), name(tensor.dtype),
                           fmt::join(tensor.dims, ", ")));
  return {};
}

bool wants_double(const Call& call) {
  if (call.context.precision == Precision::kF64) return true;
  for (const Tensor* tensor : call.in)
    if (tensor && tensor->dtype == DType::kF64) return true;
  for (const Tensor& tensor : call.out)
    if (tensor.dtype == DType::kF64) return true;
  return false;
}

// Results as their types hold them. In double precision floats keep all digits: finite differences
// need them.
void store(Tensor& tensor, Precision precision) {
  for (int64_t& number : tensor.i) number = wrapped(tensor.dtype, number);
  if (precision == Precision::kF64) return;
  for (double& number : tensor.f) number = rounded(tensor.dtype, number);
}

void add_into(Tensor& result, const Tensor& accumulator) {
  for (size_t e = 0; e < result.f.size(); ++e) result.f[e] += accumulator.f[e];
  for (size_t e = 0; e < result.i.size(); ++e)
    result.i[e] = static_cast<int64_t>(static_cast<uint64_t>(result.i[e]) +
                                       static_cast<uint64_t>(accumulator.i[e]));
}

// A slice put where it belongs; what lies beside it is the rest's, or zero.
Tensor put_into(const ops::Destination& to, const Tensor& slice, const Tensor* rest) {
  Sizes dims = slice.dims;
  dims[to.axis] = to.extent;
  Tensor whole = rest != nullptr ? *rest : Tensor::zeros(slice.dtype, dims);
  const Sizes strides = row_major_strides(dims);
  for (Odometer at(slice.dims); at.live(); at.next())
    copy_element(whole, at.dot(strides) + to.begin * strides[to.axis], slice, at.flat());
  return whole;
}

Result<std::vector<Tensor>> evaluate_row(const ops::Instance& instance,
                                         const std::vector<std::optional<Tensor>>& inputs,
                                         const Context& context);

}  // namespace

Result<std::vector<Tensor>> evaluate(const ops::Instance& instance,
                                     const std::vector<std::optional<Tensor>>& inputs,
                                     const Context& context) {
  const auto to = ops::destination_of(instance);
  if (!to) return evaluate_row(instance, inputs, context);
  const ops::SliceOp own = ops::slice_op(*ops::find(instance.kind), instance);
  if (inputs.size() != instance.inputs.size())
    return bad(fmt::format("{}: {} inputs are declared and {} were given", instance.kind,
                           instance.inputs.size(), inputs.size()));
  std::vector<std::optional<Tensor>> read = inputs;
  read.resize(own.inputs.size());
  LT_ASSIGN(std::vector<Tensor> made, evaluate_row(own.instance(instance.kind), read, context));
  const Tensor* rest = to->has_rest && inputs[to->rest] ? &*inputs[to->rest] : nullptr;
  made[0] = put_into(*to, made[0], rest);
  return made;
}

namespace {

Result<std::vector<Tensor>> evaluate_row(const ops::Instance& instance,
                                         const std::vector<std::optional<Tensor>>& inputs,
                                         const Context& context) {
  const auto found = kernels().find(instance.kind);
  if (found == kernels().end())
    return bad(fmt::format("the reference executor has no kernel for '{}'", instance.kind));
  LT_ASSIGN(const std::vector<ops::OutputType> types, ops::infer(instance));
  LT_RETURN_IF_ERROR(check_attributes(*instance.attrs, instance.kind));
  if (inputs.size() != instance.inputs.size())
    return bad(fmt::format("{}: {} inputs are declared and {} were given", instance.kind,
                           instance.inputs.size(), inputs.size()));
  Call call{instance.kind, Attributes(*instance.attrs), {}, {}, context};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].has_value() != instance.inputs[i].has_value())
      return bad(fmt::format("{}: input {} is given but not declared, or declared but not given",
                             instance.kind, i));
    if (inputs[i])
      LT_RETURN_IF_ERROR(check_input(*instance.inputs[i], *inputs[i], instance.kind, i));
    call.in.push_back(inputs[i] ? &*inputs[i] : nullptr);
  }
  for (const auto& [input, output] : ops::accumulators(instance))
    call.in[static_cast<size_t>(input)] = nullptr;  // added behind the kernel
  for (const ops::OutputType& output : types) {
    LT_ASSIGN(Sizes dims, constant_dims(output.type.dims, instance.kind));
    call.out.push_back(Tensor::zeros(output.type.dtype, std::move(dims)));
  }
  (wants_double(call) ? found->second.f64 : found->second.f32)(call);
  if (!call.refused.empty()) return bad(fmt::format("{}: {}", instance.kind, call.refused));
  for (const auto& [input, output] : ops::accumulators(instance))
    add_into(call.out[static_cast<size_t>(output)], *inputs[static_cast<size_t>(input)]);
  for (Tensor& output : call.out) store(output, context.precision);
  return std::move(call.out);
}

}  // namespace

Result<std::vector<Tensor>> evaluate(std::string_view kind, const ir::Attrs& attrs,
                                     const std::vector<std::optional<Tensor>>& inputs,
                                     const Context& context) {
  ops::Instance instance{kind, &attrs, {}};
  for (const auto& input : inputs) {
    if (!input) {
      instance.inputs.push_back(std::nullopt);
      continue;
    }
    ops::Type type;
    type.dtype = input->dtype;
    type.dims.assign(input->dims.begin(), input->dims.end());
    instance.inputs.push_back(std::move(type));
  }
  return evaluate(instance, inputs, context);
}

namespace {

Result<Tensor> external(const ir::Value& value, const Sizes& dims, const Context& context) {
  const std::string path = context.model_folder + "/" + value.initial.file;
  LT_ASSIGN(const std::string contents, read_file(path));
  const auto size = static_cast<int64_t>(contents.size());
  const ir::InitialValue& where = value.initial;
  if (where.offset < 0 || where.length < 0 || where.offset > size ||
      where.length > size - where.offset)
    return bad(fmt::format("'{}' wants bytes {} to {} of {}, which has {}", value.name,
                           where.offset, where.offset + where.length, path, size));
  return from_bytes(value.dtype, dims,
                    std::string_view(contents).substr(static_cast<size_t>(where.offset),
                                                      static_cast<size_t>(where.length)),
                    value.name);
}

Result<Tensor> initial(const ir::Value& value, const Named& given, const Context& context) {
  LT_ASSIGN(const Sizes dims, constant_dims(value.dims, value.name));
  if (const auto found = given.find(value.name); found != given.end()) {
    if (found->second.dims != dims || found->second.dtype != value.dtype)
      return bad(fmt::format("'{}' is {} [{}] and was given {} [{}]", value.name, name(value.dtype),
                             fmt::join(dims, ", "), name(found->second.dtype),
                             fmt::join(found->second.dims, ", ")));
    return found->second;
  }
  const auto drawn = [&] {
    const bool parameter = value.initial.kind == ir::InitialValue::Kind::kSeeded;
    return seeded(value.name, value.dtype, dims, {parameter, context.seed, context.integer_limit});
  };
  switch (value.initial.kind) {
    case ir::InitialValue::Kind::kFed:
      if (context.seed_missing_inputs) return drawn();
      return bad(fmt::format("the input '{}' was not given", value.name));
    case ir::InitialValue::Kind::kSeeded:
      return drawn();
    case ir::InitialValue::Kind::kZero:
      return Tensor::zeros(value.dtype, dims);
    case ir::InitialValue::Kind::kInline:
      return from_bytes(value.dtype, dims, value.initial.bytes, value.name);
    case ir::InitialValue::Kind::kExternal:
      return external(value, dims, context);
  }
  return bad(fmt::format("'{}' has no initial contents", value.name));
}

Status run_op(const ir::Graph& graph, ir::OpId id, const Context& context, Values& values) {
  const ir::Op& op = graph.op(id);
  std::vector<std::optional<Tensor>> inputs;
  for (const ir::ValueId input : op.inputs)
    inputs.push_back(input.valid() ? std::optional<Tensor>(values.at(input)) : std::nullopt);
  auto outputs = evaluate(ops::instance_of(graph, id), inputs, context);
  if (!outputs) return bad(fmt::format("op '{}': {}", op.name, outputs.error().message));
  if (outputs->size() != op.outputs.size())
    return bad(fmt::format("op '{}' makes {} values and has {} outputs", op.name, outputs->size(),
                           op.outputs.size()));
  for (size_t o = 0; o < outputs->size(); ++o) values[op.outputs[o]] = std::move((*outputs)[o]);
  return {};
}

}  // namespace

Result<Values> interpret(const ir::Graph& graph, const Named& given, const Context& context) {
  for (const auto& [name, tensor] : given) {
    const auto value = graph.find_value(name);
    if (!value || graph.value(*value).producer.valid())
      return bad(
          fmt::format("'{}' is not an input, parameter, state or constant of the graph", name));
  }
  Values values;
  for (const ir::ValueId id : graph.values()) {
    if (graph.value(id).producer.valid()) continue;
    LT_ASSIGN(values[id], initial(graph.value(id), given, context));
  }
  for (const ir::OpId id : graph.ops()) LT_RETURN_IF_ERROR(run_op(graph, id, context, values));
  return values;
}

}  // namespace lowtide::ref
