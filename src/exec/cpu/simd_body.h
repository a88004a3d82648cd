// All vector loops for one instruction set, LT_SIMD, in a namespace of that name; see simd.h.
// Everything but the table is local to the including file.
//
// Tests: simd_test.cc.
#ifndef LT_SIMD
#error "include only from simd_<set>.cc, which defines LT_SIMD"
#endif

#include "exec/cpu/simd.h"

#define LT_STRING_INNER(x) #x
#define LT_STRING(x) LT_STRING_INNER(x)

// A loop with a call in it stays scalar, so functions of one element are inlined whatever their
// size.
#define LT_INLINE [[gnu::always_inline]] inline

namespace lowtide::exec_cpu::LT_SIMD {
namespace {

LT_INLINE float clamp(float x, float low, float high);
LT_INLINE bool inside(float x);
LT_INLINE float silu_slope(float x);
LT_INLINE float gelu_tanh_slope(float x);
LT_INLINE float mish_slope(float x);

#include "exec/cpu/simd_math.h"
//
#include "exec/cpu/simd_map.h"
//
#include "exec/cpu/simd_map_table.h"
//
#include "exec/cpu/simd_rows.h"
//
#include "exec/cpu/simd_norm.h"
//
#include "exec/cpu/simd_flat.h"
//
#include "exec/cpu/simd_half.h"
//
#include "exec/cpu/simd_transpose.h"

}  // namespace

extern const Loops kLoops;
const Loops kLoops = {
    .name = LT_STRING(LT_SIMD),
    .maps = kMaps,
    .map_count = static_cast<int>(sizeof(kMaps) / sizeof(kMaps[0])),
    .max_and_sum = max_and_sum,
    .softmax_row = softmax_row,
    .log_softmax_row = log_softmax_row,
    .softmax_columns = softmax_columns,
    .softmax_grad_row = softmax_grad_row,
    .log_softmax_grad_row = log_softmax_grad_row,
    .softmax_grad_columns = softmax_grad_columns,
    .log_sum_exp_columns = log_sum_exp_columns,
    .scaled_exp_row = scaled_exp_row,
    .sum = row_sum,
    .max = row_max,
    .sum_of_squared_differences = sum_of_squared_differences,
    .sum_rows = sum_rows,
    .max_rows = max_rows,
    .layer_norm_row = layer_norm_row,
    .layer_norm_grad_row = layer_norm_grad_row,
    .rms_norm_row = rms_norm_row,
    .rms_norm_grad_row = rms_norm_grad_row,
    .moments_rows = moments_rows,
    .moments_span = moments_span,
    .affine_rows = affine_rows,
    .affine_span = affine_span,
    .grad_moments_rows = grad_moments_rows,
    .grad_moments_span = grad_moments_span,
    .affine2_rows = affine2_rows,
    .affine2_span = affine2_span,
    .pool_max_tap = pool_max_tap,
    .pool_max_grad_tap = pool_max_grad_tap,
    .add_scaled = add_scaled,
    .add = add,
    .weighted_sum = weighted_sum,
    .adamw = adamw,
    .sgd = sgd,
    .philox = philox,
    .dropout = dropout,
    .uniform = uniform,
    .widen_f16 = widen_f16,
    .widen_bf16 = widen_bf16,
    .narrow_f16 = narrow_f16,
    .narrow_bf16 = narrow_bf16,
    .transpose_tile = transpose_tile,
};

}  // namespace lowtide::exec_cpu::LT_SIMD
