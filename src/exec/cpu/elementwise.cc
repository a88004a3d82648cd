// Elementwise ops with broadcasting. The shape is reduced to a loop nest (nest.h), the function
// comes from the tables of loops (simd.h), found by the types of the operands, and the threads from
// map_nest.h. What this file adds is which attributes a function reads and which variants it has.
#include <cmath>
#include <limits>
#include <string>

#include "exec/cpu/build.h"
#include "exec/cpu/map_nest.h"
#include "exec/cpu/number_types.h"

namespace lowtide::exec_cpu {
namespace {

// The type in which a loop computes. Floats of 16 bits are computed as f32 (map_nest.h).
char type_code(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return 'f';
    case DType::kF64:
      return 'd';
    case DType::kI64:
      return 'l';
    case DType::kI32:
      return 'i';
    case DType::kI16:
      return 's';
    case DType::kI8:
      return 'a';
    case DType::kU64:
      return 'L';
    case DType::kU32:
      return 'I';
    case DType::kU16:
      return 'S';
    case DType::kU8:
      return 'A';
    case DType::kBool:
      return 'b';
  }
  return '?';
}

MapOperand computed(const TensorDesc& type) {
  const auto half = type.dtype == DType::kF16    ? MapOperand::Half::kF16
                    : type.dtype == DType::kBF16 ? MapOperand::Half::kBF16
                                                 : MapOperand::Half::kNone;
  return {size_bytes(type.dtype), half};
}

MapOperand moved(const TensorDesc& type) {
  return {size_bytes(type.dtype), MapOperand::Half::kNone};
}

// One output, inputs that broadcast to it, any plain layouts and strides; or a flat function on one
// value of a blocked format. `operands`: the output first.
Result<Built> run_map(const OpDesc& op, MapLoop loop, const std::vector<MapOperand>& operands,
                      const MapParams& params = {}) {
  const TensorDesc& y = op.outputs[0];
  std::vector<std::vector<int64_t>> strides;
  std::vector<int64_t> dims = y.dims;
  if (y.layout.blocked.empty()) {
    strides.push_back(strides_of(y));
    for (const auto& x : op.inputs) {
      if (!x->layout.blocked.empty()) return unsupported(op, "a blocked layout");
      if (x->dims.size() > dims.size())
        return unsupported(op, "an operand of higher rank than the output");
      strides.push_back(broadcast_strides(*x, dims));
    }
  } else {
    const bool alike = op.inputs.size() == 1 && op.inputs[0]->layout == y.layout &&
                       operands[0].element_bytes == operands[1].element_bytes;
    if (!alike) return unsupported(op, "a blocked layout");
    dims = {y.layout.blocked_bytes / operands[0].element_bytes};
    strides = {{1}, {1}};
  }
  const Nest made = make_nest(dims, std::move(strides));
  if (made.strides[0].back() != 1)
    return unsupported(op, "the elements of a result do not lie side by side in any dimension");
  MapNest nest(made, loop, operands, params);
  Built built;
  built.run = [nest = std::move(nest), count = op.inputs.size()](const KernelArgs& args) {
    std::array<const char*, 3> in{};
    for (size_t i = 0; i < count; ++i) in[i] = static_cast<const char*>(args.inputs[i]);
    nest.run(static_cast<char*>(args.outputs[0]), in);
  };
  return built;
}

// The loop is the one for the types that the operands have; no caller says a type.
Result<Built> build_map(const OpDesc& op, size_t inputs, const std::string& function,
                        const MapParams& params = {}) {
  LT_RETURN_IF_ERROR(check_counts(op, inputs, inputs, 1));
  std::vector<MapOperand> operands = {computed(op.outputs[0])};
  for (const auto& x : op.inputs) {
    if (x->dtype != op.inputs[0]->dtype) return unsupported(op, "operands of two types");
    operands.push_back(computed(*x));
  }
  const MapLoop loop = find_map(function.c_str(), type_code(op.inputs[0]->dtype),
                                type_code(op.outputs[0].dtype), static_cast<int>(inputs));
  if (loop == nullptr) return unsupported(op, "these element types");
  return run_map(op, loop, operands, params);
}

// For functions that hand elements on as they are: the inputs from `first_moved` on.
Result<Built> build_move(const OpDesc& op, size_t inputs, size_t first_moved,
                         const char* function) {
  LT_RETURN_IF_ERROR(check_counts(op, inputs, inputs, 1));
  const TensorDesc& y = op.outputs[0];
  std::vector<MapOperand> operands = {moved(y)};
  for (size_t i = 0; i < inputs; ++i) {
    if (i >= first_moved && op.inputs[i]->dtype != y.dtype)
      return unsupported(op, "operands of two types");
    operands.push_back(moved(*op.inputs[i]));
  }
  const char size = static_cast<char>('0' + size_bytes(y.dtype));
  const MapLoop loop = find_map(function, size, size, static_cast<int>(inputs));
  if (loop == nullptr) return unsupported(op, "elements of this size");
  return run_map(op, loop, operands);
}

Result<Built> build_unary(const OpDesc& op) {
  return build_map(op, 1, op.kind);
}

Result<Built> build_binary(const OpDesc& op) {
  return build_map(op, 2, op.kind);
}

// Constant i of a function, in every number that a loop may read it in.
void set_param(MapParams& params, size_t i, const OpDesc& op, std::string_view name,
               double absent) {
  const double real = real_attr(op, name, absent);
  params.f[i] = static_cast<float>(real);
  params.d[i] = real;
  const DType dtype = op.inputs.empty() || !op.inputs[0] ? DType::kF32 : op.inputs[0]->dtype;
  if (is_integer(dtype)) params.i[i] = integer_attr(op, dtype, name, absent);
}

struct ParamName {
  std::string_view name;
  double absent = 0;
};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The attributes that a function reads as its constants, in order. Gradients have those of their
// op.
struct FunctionParams {
  std::string_view kind;
  ParamName first, second;
};
constexpr FunctionParams kParams[] = {
    {"Clip", {"min", -kInfinity}, {"max", kInfinity}},
    {"LeakyRelu", {"alpha", 0.01}, {}},
    {"Elu", {"alpha", 1}, {}},
    {"HardSigmoid", {"alpha", 0.2}, {"beta", 0.5}},
    {"AffineScalar", {"scale", 1}, {"shift", 0}},
    {"PowScalar", {"exponent", 1}, {}},
    {"RunningUpdate", {"momentum", 0.1}, {"correction", 1}},
};

MapParams params_of(const OpDesc& op) {
  std::string_view kind = op.kind;
  if (kind.ends_with("Grad")) kind.remove_suffix(4);
  MapParams params{};
  for (const FunctionParams& row : kParams) {
    if (row.kind != kind) continue;
    set_param(params, 0, op, row.first.name, row.first.absent);
    if (!row.second.name.empty()) set_param(params, 1, op, row.second.name, row.second.absent);
  }
  return params;
}

Result<Built> build_with_params(const OpDesc& op) {
  return build_map(op, op.kind.ends_with("Grad") ? 2 : 1, op.kind, params_of(op));
}

Result<Built> build_clip_grad(const OpDesc& op) {
  const bool open = int_attr(op, "open", 0) != 0;
  return build_map(op, 2, open ? "ClipGrad/open" : "ClipGrad", params_of(op));
}

Result<Built> build_gelu(const OpDesc& op) {
  const bool tanh_form = word_attr(op, "approximate", "none") == "tanh";
  return build_map(op, op.kind.ends_with("Grad") ? 2 : 1, op.kind + (tanh_form ? "/tanh" : ""));
}

bool computes_floats(const OpDesc& op) {
  return has_input(op, 0) && is_float(op.inputs[0]->dtype);
}

// A shift of 0 is left out: it would make a zero of a negative one.
Result<Built> build_affine(const OpDesc& op) {
  const bool scales = computes_floats(op) && real_attr(op, "shift", 0) == 0;
  return build_map(op, 1, scales ? "AffineScalar/scale" : "AffineScalar", params_of(op));
}

Result<Built> build_power(const OpDesc& op) {
  const double exponent = real_attr(op, "exponent", 1);
  std::string function = op.kind;
  if (computes_floats(op)) {
    if (exponent == 2) function = "PowScalar/2";
    if (exponent == 3) function = "PowScalar/3";
    if (exponent == -1) function = "Reciprocal";
    if (exponent == 0.5) function = "Sqrt";
  } else if (exponent != std::trunc(exponent)) {
    return unsupported(op, "a power of integers whose exponent is none");
  }
  return build_map(op, 1, function, params_of(op));
}

Result<Built> build_mod(const OpDesc& op) {
  return build_map(op, 2, int_attr(op, "fmod", 0) != 0 ? "Mod/fmod" : "Mod");
}

Result<Built> build_copy(const OpDesc& op) {
  return build_move(op, 1, 0, "Copy");
}

Result<Built> build_bit_cast(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  if (size_bytes(op.inputs[0]->dtype) != size_bytes(op.outputs[0].dtype))
    return unsupported(op, "types of two widths");
  const char size = static_cast<char>('0' + size_bytes(op.outputs[0].dtype));
  return run_map(op, find_map("Copy", size, size, 1), {moved(op.outputs[0]), moved(*op.inputs[0])});
}

Result<Built> build_where(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 3, 1));
  return build_move(op, 3, 1, "Where");
}

Result<Built> build_running_update(const OpDesc& op) {
  return build_map(op, 2, op.kind, params_of(op));
}

Result<Built> build_mse_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  const double count = static_cast<double>(plan::element_count(op.outputs[0]));
  const double factor = 2.0 * real_attr(op, "scale", 1) / count;
  MapParams params{};
  params.f[0] = static_cast<float>(factor);
  params.d[0] = factor;
  return build_map(op, 2, op.kind, params);
}

constexpr std::string_view kMappedNumbers = "f32 f64 f16 bf16 i64 i32 i16 i8 u64 u32 u16 u8";

constexpr std::string_view kIntegers = "i64 i32 i16 i8 u64 u32 u16 u8";

constexpr Entry kElementwiseEntries[] = {
    {"Relu", "T -> T", kMappedNumbers, build_unary, nullptr, true, {}, true, true},
    {"Sigmoid", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Tanh", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Erf", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Exp", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Log", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Sqrt", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Reciprocal", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Neg", "T -> T", kMappedNumbers, build_unary, nullptr, true, {}, true, true},
    {"Abs", "T -> T", kMappedNumbers, build_unary, nullptr, true, {}, true, true},
    {"Sin", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Cos", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Tan", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Sinh", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Cosh", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Asin", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Acos", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Atan", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Asinh", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Acosh", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Atanh", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Floor", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Ceil", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Round", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Sign", "T -> T", kMappedNumbers, build_unary, nullptr, true, {}, true, true},
    {"Softplus", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"HardSwish", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Mish", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Silu", "T -> T", kFloats, build_unary, nullptr, true, {}, true, true},
    {"Not", "bool -> bool", "", build_unary, nullptr, true, {}, true, true},
    {"IsNaN", "T -> bool", kFloats, build_unary, nullptr, true, {}, true, true},
    {"LeakyRelu", "T -> T", kFloats, build_with_params, nullptr, true, {}, true, true},
    {"Elu", "T -> T", kFloats, build_with_params, nullptr, true, {}, true, true},
    {"HardSigmoid", "T -> T", kFloats, build_with_params, nullptr, true, {}, true, true},
    {"Gelu", "T -> T", kFloats, build_gelu, nullptr, true, {}, true, true},
    {"Clip", "T -> T", kMappedNumbers, build_with_params, nullptr, true, {}, true, true},
    {"PowScalar", "T -> T", kMappedNumbers, build_power, nullptr, true, {}, true, true},
    {"AffineScalar", "T -> T", kMappedNumbers, build_affine, nullptr, true, {}, true, true},
    {"Cast", "* -> *", "", build_unary, nullptr, true, {}, true, true},
    {"BitCast", "* -> *", "", build_bit_cast, nullptr, true, {}, true, true},
    {"Copy", "T -> T", "*", build_copy, nullptr, true, {}, true, true},
    {"Where", "bool T T -> T", "*", build_where, nullptr, true, {}, true, true},
    {"Add", "T T -> T", kMappedNumbers, build_binary, nullptr, true, {}, true, true},
    {"Sub", "T T -> T", kMappedNumbers, build_binary, nullptr, true, {}, true, true},
    {"Mul", "T T -> T", kMappedNumbers, build_binary, nullptr, true, {}, true, true},
    {"Div", "T T -> T", kMappedNumbers, build_binary, nullptr, true, {}, true, true},
    {"Max", "T T -> T", kMappedNumbers, build_binary, nullptr, true, {}, true, true},
    {"Min", "T T -> T", kMappedNumbers, build_binary, nullptr, true, {}, true, true},
    {"LogAddExp", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"Pow", "T T -> T", kMappedNumbers, build_binary, nullptr, true, {}, true, true},
    {"Mod", "T T -> T", kMappedNumbers, build_mod, nullptr, true, {}, true, true},
    {"Equal", "T T -> bool", "*", build_binary, nullptr, true, {}, true, true},
    {"Less", "T T -> bool", "*", build_binary, nullptr, true, {}, true, true},
    {"LessOrEqual", "T T -> bool", "*", build_binary, nullptr, true, {}, true, true},
    {"Greater", "T T -> bool", "*", build_binary, nullptr, true, {}, true, true},
    {"GreaterOrEqual", "T T -> bool", "*", build_binary, nullptr, true, {}, true, true},
    {"And", "bool bool -> bool", "", build_binary, nullptr, true, {}, true, true},
    {"Or", "bool bool -> bool", "", build_binary, nullptr, true, {}, true, true},
    {"Xor", "bool bool -> bool", "", build_binary, nullptr, true, {}, true, true},
    {"BitwiseAnd", "T T -> T", kIntegers, build_binary, nullptr, true, {}, true, true},
    {"BitwiseOr", "T T -> T", kIntegers, build_binary, nullptr, true, {}, true, true},
    {"BitwiseXor", "T T -> T", kIntegers, build_binary, nullptr, true, {}, true, true},
    {"ShiftLeft", "T T -> T", kIntegers, build_binary, nullptr, true, {}, true, true},
    {"ShiftRight", "T T -> T", kIntegers, build_binary, nullptr, true, {}, true, true},
    {"ReluGrad", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"SigmoidGrad", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"TanhGrad", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"SiluGrad", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"HardSwishGrad", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"SoftplusGrad", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"MishGrad", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"ErfGrad", "T T -> T", kFloats, build_binary, nullptr, true, {}, true, true},
    {"GeluGrad", "T T -> T", kFloats, build_gelu, nullptr, true, {}, true, true},
    {"LeakyReluGrad", "T T -> T", kFloats, build_with_params, nullptr, true, {}, true, true},
    {"EluGrad", "T T -> T", kFloats, build_with_params, nullptr, true, {}, true, true},
    {"HardSigmoidGrad", "T T -> T", kFloats, build_with_params, nullptr, true, {}, true, true},
    {"ClipGrad", "T T -> T", kFloats, build_clip_grad, nullptr, true, {}, true, true},
    {"MseLossGrad", "T T -> T", kFloats, build_mse_grad, nullptr, true, {}, true, true},
    {"RunningUpdate", "T T -> T", kFloats, build_running_update, nullptr, true, {}, true},
};

}  // namespace

std::span<const Entry> elementwise_kernels() {
  return kElementwiseEntries;
}

}  // namespace lowtide::exec_cpu
