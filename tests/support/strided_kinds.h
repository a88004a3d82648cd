// Which kinds have a CPU kernel that reads strided operands where they lie:
// src/exec/cpu/strided_test.cc holds the lists against the kernels, other tests read them.
#pragma once

#include <string_view>

namespace lowtide {

// Every other kind refuses each strided operand. (RunningUpdate reads its batch so, and overwrites
// the rest, which the op table does not let be strided.)
inline constexpr std::string_view kTaking =
    "Relu Sigmoid Tanh Erf Exp Log Sqrt Reciprocal Neg Abs Sin Cos Tan Sinh Cosh Asin Acos Atan "
    "Asinh Acosh Atanh Floor Ceil Round Sign Softplus HardSwish Mish Silu Not IsNaN LeakyRelu Elu "
    "HardSigmoid Gelu Clip PowScalar AffineScalar Cast BitCast Copy Where Add Sub Mul Div Max Min "
    "LogAddExp Pow Mod Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor BitwiseAnd "
    "BitwiseOr "
    "BitwiseXor ShiftLeft ShiftRight ReluGrad SigmoidGrad TanhGrad SiluGrad HardSwishGrad "
    "SoftplusGrad MishGrad ErfGrad GeluGrad LeakyReluGrad EluGrad HardSigmoidGrad ClipGrad "
    "MseLossGrad RunningUpdate Transpose Slice Expand Concat Pad Reorder ReduceSum "
    "ReduceMean ReduceProd ReduceMax ReduceMin";

// These take some strides, and refuse others with one of the reasons, joined by '|'.
struct TakingSome {
  std::string_view kind, reasons;
};
inline constexpr TakingSome kTakingSome[] = {
    {"MatMul", "the bias is a strided view|rows or columns are one and the same|: oneDNN"},
    {"Softmax", "the axis is not the innermost one|the rows of an operand are not contiguous"},
    {"LogSoftmax", "the axis is not the innermost one|the rows of an operand are not contiguous"},
    {"SoftmaxGrad", "the axis is not the innermost one|the rows of an operand are not contiguous"},
    {"LogSoftmaxGrad",
     "the axis is not the innermost one|the rows of an operand are not contiguous"},
    {"LayerNorm",
     "other than the data must be row-major|the rows of an operand are not contiguous"},
    {"LayerNormGrad",
     "other than the data must be row-major|the rows of an operand are not contiguous"},
    {"RmsNorm", "other than the data must be row-major|the rows of an operand are not contiguous"},
    {"RmsNormGrad",
     "other than the data must be row-major|the rows of an operand are not contiguous"},
    {"Gather", "but for the rows of the first|the rows of an operand are not contiguous"},
    {"GatherGrad", "but for the rows of the first|the rows of an operand are not contiguous"},
};

}  // namespace lowtide
