// Elementwise ops with broadcasting. The shape is reduced to a loop nest (nest.h), the function
// comes from the table of vector loops (simd_map.h), the threads from map_nest.h. What this file
// adds is which attributes a function reads and which operand types it takes.
#include <fmt/format.h>

#include <limits>
#include <string>

#include "exec/cpu/build.h"
#include "exec/cpu/map_nest.h"

namespace lowtide::exec_cpu {
namespace {

char type_code(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 'f';
    case DType::kF64:
      return 'd';
    case DType::kI64:
      return 'l';
    case DType::kI32:
      return 'i';
    case DType::kU8:
    case DType::kBool:
      return 'b';
    case DType::kF16:
    case DType::kBF16:
    case DType::kI8:
    case DType::kI16:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return '?';
  }
  return '?';
}

// For ops that only move elements: their size.
char size_code(DType dtype) {
  return static_cast<char>('0' + size_bytes(dtype));
}

// One output, `operands` inputs that broadcast to it, any plain layouts.
Result<Built> build_map(const OpDesc& op, size_t operands, const std::string& loop_name, char in,
                        char out, std::array<float, 4> params = {}) {
  LT_RETURN_IF_ERROR(check_counts(op, operands, operands, 1));
  const TensorDesc& y = op.outputs[0];
  if (!y.layout.blocked.empty()) {
    // A flat function on values in the same blocked format.
    if (operands != 1 || op.inputs[0]->layout != y.layout ||
        size_bytes(op.inputs[0]->dtype) != size_bytes(y.dtype))
      return unsupported(op, "a blocked layout");
  }
  std::vector<std::vector<int64_t>> strides;
  std::vector<int64_t> bytes = {size_bytes(y.dtype)};
  std::vector<int64_t> dims = y.dims;
  if (y.layout.blocked.empty()) {
    strides.push_back(strides_of(y));
    for (const auto& x : op.inputs) {
      if (!x->layout.blocked.empty()) return unsupported(op, "a blocked layout");
      if (x->dims.size() > dims.size())
        return unsupported(op, "an operand of higher rank than the output");
      strides.push_back(broadcast_strides(*x, dims));
      bytes.push_back(size_bytes(x->dtype));
    }
  } else {
    dims = {y.layout.blocked_bytes / size_bytes(y.dtype)};
    strides = {{1}, {1}};
    bytes.push_back(bytes[0]);
  }
  MapLoop loop = find_map(loop_name.c_str(), in, out, static_cast<int>(operands));
  if (loop == nullptr) return unsupported(op, "these element types");
  MapNest nest(make_nest(dims, std::move(strides)), loop, std::move(bytes), params);
  Built built;
  built.run = [nest = std::move(nest), operands](const KernelArgs& args) {
    std::array<const char*, 3> in_pointers{};
    for (size_t i = 0; i < operands; ++i) in_pointers[i] = static_cast<const char*>(args.inputs[i]);
    nest.run(static_cast<char*>(args.outputs[0]), in_pointers);
  };
  return built;
}

Result<Built> build_unary(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  return build_map(op, 1, op.kind, type_code(op.inputs[0]->dtype), type_code(op.outputs[0].dtype));
}

Result<Built> build_binary(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  return build_map(op, 2, op.kind, type_code(op.inputs[0]->dtype), type_code(op.outputs[0].dtype));
}

std::array<float, 4> alpha_beta(const OpDesc& op, double alpha, double beta) {
  return {static_cast<float>(real_attr(op, "alpha", alpha)),
          static_cast<float>(real_attr(op, "beta", beta)), 0, 0};
}

std::array<float, 4> clip_range(const OpDesc& op) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {static_cast<float>(real_attr(op, "min", -kInfinity)),
          static_cast<float>(real_attr(op, "max", kInfinity)), 0, 0};
}

Result<Built> build_with_params(const OpDesc& op) {
  std::string loop = op.kind;
  std::array<float, 4> params{};
  if (op.kind.starts_with("Clip")) params = clip_range(op);
  if (op.kind.starts_with("LeakyRelu")) params = alpha_beta(op, 0.01, 0);
  if (op.kind.starts_with("Elu")) params = alpha_beta(op, 1.0, 0);
  if (op.kind.starts_with("HardSigmoid")) params = alpha_beta(op, 0.2, 0.5);
  if (op.kind.starts_with("Gelu") && word_attr(op, "approximate", "none") == "tanh")
    loop += "/tanh";
  if (op.kind == "AffineScalar")
    params = {static_cast<float>(real_attr(op, "scale", 1)),
              static_cast<float>(real_attr(op, "shift", 0)), 0, 0};
  if (op.kind == "PowScalar") {
    const double exponent = real_attr(op, "exponent", 1);
    params[0] = static_cast<float>(exponent);
    if (exponent == 2) loop += "/2";
    if (exponent == 3) loop += "/3";
    if (exponent == -1) loop = "Reciprocal";
    if (exponent == 0.5) loop = "Sqrt";
  }
  return build_map(op, op.kind.ends_with("Grad") ? 2 : 1, loop, 'f', 'f', params);
}

Result<Built> build_cast(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  const DType to = op.outputs[0].dtype;
  return build_map(op, 1, to == DType::kBool ? "Cast/bool" : "Cast", type_code(op.inputs[0]->dtype),
                   type_code(to));
}

Result<Built> build_copy(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  const char code = size_code(op.outputs[0].dtype);
  return build_map(op, 1, "Copy", code, code);
}

Result<Built> build_where(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 3, 1));
  const char code = size_code(op.outputs[0].dtype);
  return build_map(op, 3, "Where", code, code);
}

Result<Built> build_mse_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  const double count = static_cast<double>(plan::element_count(op.outputs[0]));
  const float factor = static_cast<float>(2.0 * real_attr(op, "scale", 1) / count);
  return build_map(op, 2, op.kind, 'f', 'f', {factor, 0, 0, 0});
}

Result<Built> build_running(const OpDesc& op) {
  return build_map(op, 2, op.kind, 'f', 'f',
                   {static_cast<float>(real_attr(op, "momentum", 0.1)),
                    static_cast<float>(real_attr(op, "correction", 1)), 0, 0});
}

constexpr Entry kEntries[] = {
    {"Relu", "T -> T", "f32", build_unary, nullptr, true},
    {"Sigmoid", "T -> T", "f32", build_unary, nullptr, true},
    {"Tanh", "T -> T", "f32", build_unary, nullptr, true},
    {"Erf", "T -> T", "f32", build_unary, nullptr, true},
    {"Exp", "T -> T", "f32", build_unary, nullptr, true},
    {"Log", "T -> T", "f32", build_unary, nullptr, true},
    {"Sqrt", "T -> T", "f32", build_unary, nullptr, true},
    {"Reciprocal", "T -> T", "f32", build_unary, nullptr, true},
    {"Neg", "T -> T", "f32 i64 i32", build_unary, nullptr, true},
    {"Abs", "T -> T", "f32 i64 i32", build_unary, nullptr, true},
    {"Sin", "T -> T", "f32", build_unary, nullptr, true},
    {"Cos", "T -> T", "f32", build_unary, nullptr, true},
    {"Floor", "T -> T", "f32", build_unary, nullptr, true},
    {"Ceil", "T -> T", "f32", build_unary, nullptr, true},
    {"Round", "T -> T", "f32", build_unary, nullptr, true},
    {"Sign", "T -> T", "f32 i64 i32", build_unary, nullptr, true},
    {"Softplus", "T -> T", "f32", build_unary, nullptr, true},
    {"HardSwish", "T -> T", "f32", build_unary, nullptr, true},
    {"Mish", "T -> T", "f32", build_unary, nullptr, true},
    {"Silu", "T -> T", "f32", build_unary, nullptr, true},
    {"Not", "bool -> bool", "", build_unary, nullptr, true},
    {"IsNaN", "T -> bool", "f32", build_unary, nullptr, true},
    {"LeakyRelu", "T -> T", "f32", build_with_params, nullptr, true},
    {"Elu", "T -> T", "f32", build_with_params, nullptr, true},
    {"HardSigmoid", "T -> T", "f32", build_with_params, nullptr, true},
    {"Gelu", "T -> T", "f32", build_with_params, nullptr, true},
    {"Clip", "T -> T", "f32", build_with_params, nullptr, true},
    {"PowScalar", "T -> T", "f32", build_with_params, nullptr, true},
    {"AffineScalar", "T -> T", "f32", build_with_params, nullptr, true},
    {"Cast", "* -> *", "", build_cast, nullptr, true},
    {"Copy", "T -> T", "*", build_copy, nullptr, true},
    {"Where", "bool T T -> T", "*", build_where, nullptr, true},
    {"Add", "T T -> T", "f32 i64 i32", build_binary, nullptr, true},
    {"Sub", "T T -> T", "f32 i64 i32", build_binary, nullptr, true},
    {"Mul", "T T -> T", "f32 i64 i32", build_binary, nullptr, true},
    {"Div", "T T -> T", "f32 i64 i32", build_binary, nullptr, true},
    {"Max", "T T -> T", "f32 i64 i32", build_binary, nullptr, true},
    {"Min", "T T -> T", "f32 i64 i32", build_binary, nullptr, true},
    {"Pow", "T T -> T", "f32", build_binary, nullptr, true},
    {"Mod", "T T -> T", "f32 i64 i32", build_binary, nullptr, true},
    {"Equal", "T T -> bool", "f32 i64 i32 u8 bool", build_binary, nullptr, true},
    {"Less", "T T -> bool", "f32 i64 i32 u8 bool", build_binary, nullptr, true},
    {"LessOrEqual", "T T -> bool", "f32 i64 i32 u8 bool", build_binary, nullptr, true},
    {"Greater", "T T -> bool", "f32 i64 i32 u8 bool", build_binary, nullptr, true},
    {"GreaterOrEqual", "T T -> bool", "f32 i64 i32 u8 bool", build_binary, nullptr, true},
    {"And", "bool bool -> bool", "", build_binary, nullptr, true},
    {"Or", "bool bool -> bool", "", build_binary, nullptr, true},
    {"Xor", "bool bool -> bool", "", build_binary, nullptr, true},
    {"ReluGrad", "T T -> T", "f32", build_binary, nullptr, true},
    {"SigmoidGrad", "T T -> T", "f32", build_binary, nullptr, true},
    {"TanhGrad", "T T -> T", "f32", build_binary, nullptr, true},
    {"SiluGrad", "T T -> T", "f32", build_binary, nullptr, true},
    {"HardSwishGrad", "T T -> T", "f32", build_binary, nullptr, true},
    {"SoftplusGrad", "T T -> T", "f32", build_binary, nullptr, true},
    {"MishGrad", "T T -> T", "f32", build_binary, nullptr, true},
    {"ErfGrad", "T T -> T", "f32", build_binary, nullptr, true},
    {"GeluGrad", "T T -> T", "f32", build_with_params, nullptr, true},
    {"LeakyReluGrad", "T T -> T", "f32", build_with_params, nullptr, true},
    {"EluGrad", "T T -> T", "f32", build_with_params, nullptr, true},
    {"HardSigmoidGrad", "T T -> T", "f32", build_with_params, nullptr, true},
    {"ClipGrad", "T T -> T", "f32", build_with_params, nullptr, true},
    {"MseLossGrad", "T T -> T", "f32", build_mse_grad, nullptr, true},
    {"RunningUpdate", "T T -> T", "f32", build_running, nullptr, true},
};

}  // namespace

std::span<const Entry> elementwise_kernels() {
  return kEntries;
}

}  // namespace lowtide::exec_cpu
