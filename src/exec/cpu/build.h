// What a kernel is made of inside this folder: a function on raw pointers, its scratch size, and
// the name of the implementation. Builders turn an OpDesc into one; they own all checks of types
// and layouts, so that running needs none. Of contents there is `accepts`.
//
// Tests: operand_types_test.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/kernel_catalog.h"
#include "plan/op_desc.h"
#include "runtime/kernel.h"

namespace lowtide::exec_cpu {

using plan::OpDesc;
using plan::TensorDesc;
using runtime::KernelArgs;

struct Built {
  std::function<void(const KernelArgs&)> run;
  int64_t workspace_bytes = 0;
  std::string implementation = "own";
  std::function<Status(const KernelArgs&)> accepts = {};  // none: any contents (Kernel::accepts)
};

using Builder = Result<Built> (*)(const OpDesc& op);
using Wish = plan::LayoutWish (*)(const OpDesc& op);

// `operands` says which element types a builder takes, one word for each operand and output, the
// last one for all that follow: "T i T -> T".
//
//   T  one type of the list `types` ("*": any), the same wherever it stands
//   S  the type of T's optimizer state: f32 for f16 and bf16, otherwise T
//   i  i64 or i32
//   *  any
//
// Otherwise it is the name of a type. The factory holds every op against it before it calls the
// builder, so a loop over one type never sees another. Blocked layouts and strided views it refuses
// as well, unless the entry says that its builder reads them. A result has strides where it is a
// slice of something larger (destination.h), and only what an entry says can be written so.
struct Entry {
  std::string_view kind;
  std::string_view operands;
  std::string_view types;
  Builder build;
  Wish wish = nullptr;  // none: any layout is fine
  bool blocked = false;
  // "1 2": outputs whose accumulators stand behind `operands` and are added without the builder's
  // help (accumulate.h). A builder that adds by itself names its accumulator among its operands.
  std::string_view adds_into = {};
  bool strided = false;  // its builder reads strided views
  bool holes = false;    // its builder writes a result with holes between its elements
};

// Error unless all operands and outputs are of types that the entry takes.
Status check_types(const Entry& entry, const OpDesc& op);
// Error when one is in a blocked layout and the entry takes none.
Status check_blocked(const Entry& entry, const OpDesc& op);
// The same of strided views.
Status check_strided(const Entry& entry, const OpDesc& op);

// The kernels of each file, by kind.
std::span<const Entry> elementwise_kernels();
std::span<const Entry> product_kernels();
std::span<const Entry> convolution_kernels();
std::span<const Entry> normalization_kernels();
std::span<const Entry> softmax_kernels();
std::span<const Entry> loss_kernels();
std::span<const Entry> pool_kernels();
std::span<const Entry> column_kernels();
std::span<const Entry> reduction_kernels();
std::span<const Entry> log_sum_exp_kernels();
std::span<const Entry> move_kernels();
std::span<const Entry> resampling_kernels();
std::span<const Entry> local_norm_kernels();
std::span<const Entry> grid_sample_kernels();
std::span<const Entry> roi_align_kernels();
std::span<const Entry> gather_kernels();
std::span<const Entry> random_kernels();
std::span<const Entry> update_kernels();

// The builder of a kernel that is written over its number type: `narrow` for f32, `wide` for f64.
template <Builder narrow, Builder wide>
Result<Built> by_width(const OpDesc& op) {
  const bool is_wide = !op.outputs.empty() && op.outputs[0].dtype == DType::kF64;
  return is_wide ? wide(op) : narrow(op);
}

// For kernels that take row-major operands only, or are fast on nothing else.
plan::LayoutWish wish_row_major(const OpDesc& op);
// The same, but a strided view stays where `build` takes it beside row-major operands.
plan::LayoutWish wish_row_major_or_strided(const OpDesc& op, Builder build);
template <Builder build>
plan::LayoutWish wish_rows(const OpDesc& op) {
  return wish_row_major_or_strided(op, build);
}

// Attributes with the value they have when absent. An integer is accepted where a real is asked
// for.
int64_t int_attr(const OpDesc& op, std::string_view name, int64_t absent);
double real_attr(const OpDesc& op, std::string_view name, double absent);
// A constant of an op on integers of a type: an integer attribute keeps all its digits (beyond 2^63
// modulo 2^64), a real one is truncated to what the type holds.
int64_t integer_attr(const OpDesc& op, DType dtype, std::string_view name, double absent);
std::string word_attr(const OpDesc& op, std::string_view name, std::string_view absent);
std::vector<int64_t> list_attr(const OpDesc& op, std::string_view name,
                               std::vector<int64_t> absent);

// "MatMul(f32[2,3] row_major, ...) -> f32[...] ...": for messages.
std::string print(const OpDesc& op);
// Error kInput: "no CPU kernel for <op>: <why>".
tl::unexpected<Error> unsupported(const OpDesc& op, std::string_view why);

// True when input i exists and is present.
bool has_input(const OpDesc& op, size_t i);
// Error unless the op has between `least` and `most` operands, the first `least` of them present,
// and `outputs` outputs.
Status check_counts(const OpDesc& op, size_t least, size_t most, size_t outputs);
}  // namespace lowtide::exec_cpu
