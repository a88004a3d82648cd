// MatMul on oneDNN, and by own loops where it has none (own_product.h). Transposed operands,
// permuted layouts and strided views are strides of the same product. Batch dims broadcast; where
// the right operand has none and the rows of the left one and of the result lie at even distances,
// the batch is folded into the rows, which makes one large product out of many small ones. An
// accumulator is a sum post-op on the result's buffer.
#include "exec/cpu/product.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <memory>

#include "exec/cpu/dnnl_seam.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/own_product.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

using Operand = StridedMatrix;

// One matrix that stands for many is a broadcast dim of extent 1, and the strides of dims of extent
// 1 are as if they were whole: both are what oneDNN wants of them.
void tidy_batch(Operand& x) {
  for (size_t d = x.dims.size() - 2; d-- > 0;) {
    if (x.strides[d] == 0) x.dims[d] = 1;
    if (x.dims[d] == 1) x.strides[d] = std::max<int64_t>(1, x.dims[d + 1] * x.strides[d + 1]);
  }
}

// Right-aligned to `rank` dims; the last two swapped when `transposed`.
Operand operand(const TensorDesc& type, size_t rank, bool transposed) {
  Operand x{type.dims, strides_of(type)};
  const size_t r = x.dims.size();
  if (type.layout.strided()) tidy_batch(x);
  if (transposed) {
    std::swap(x.dims[r - 1], x.dims[r - 2]);
    std::swap(x.strides[r - 1], x.strides[r - 2]);
  }
  while (x.dims.size() < rank) {
    const int64_t span = x.dims.front() * x.strides.front();
    x.dims.insert(x.dims.begin(), 1);
    x.strides.insert(x.strides.begin(), span);
  }
  return x;
}

// Joins batch dim d with d + 1 when both a and c walk it evenly; used for dims of extent 1 in b,
// and for neighbouring batch dims.
bool joins(const Operand& x, size_t d) {
  return x.dims[d] == 1 || x.strides[d] == x.strides[d + 1] * x.dims[d + 1];
}

void join(Operand& x, size_t d) {
  x.dims[d + 1] *= x.dims[d];
  x.dims.erase(x.dims.begin() + static_cast<int64_t>(d));
  x.strides.erase(x.strides.begin() + static_cast<int64_t>(d));
}

// Both sides broadcast the two neighbouring batch dims in the same way.
bool alike(const Operand& x, const Operand& c, size_t d) {
  const bool whole = x.dims[d] == c.dims[d] && x.dims[d + 1] == c.dims[d + 1];
  const bool none = x.dims[d] == 1 && x.dims[d + 1] == 1;
  return none || (whole && joins(x, d));
}

void simplify(Operand& a, Operand& b, Operand& c) {
  for (size_t d = c.dims.size() - 2; d-- > 0;) {
    const bool rows = d + 3 == c.dims.size();  // dim d is the innermost batch dim
    if (rows && b.dims[d] == 1 && a.dims[d] == c.dims[d] && joins(a, d) && joins(c, d)) {
      join(a, d);
      join(c, d);
      b.dims.erase(b.dims.begin() + static_cast<int64_t>(d));
      b.strides.erase(b.strides.begin() + static_cast<int64_t>(d));
    } else if (!rows && joins(c, d) && alike(a, c, d) && alike(b, c, d)) {
      join(a, d);
      join(b, d);
      join(c, d);
    }
  }
}

// The stride of a dim of extent 1 is free; oneDNN's products read it as a leading dimension and
// want it to be a valid one.
void tidy(Operand& x) {
  const size_t m = x.dims.size() - 2, n = m + 1;
  if (x.dims[m] == 1) x.strides[m] = x.strides[n] == 1 ? x.dims[n] : 1;
  if (x.dims[n] == 1) x.strides[n] = x.strides[m] == 1 ? x.dims[m] : 1;
}

Status check(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 4, 1));
  const size_t rank = op.outputs[0].dims.size();
  for (size_t i = 0; i < 2; ++i)
    if (op.inputs[i]->dims.size() < 2 || op.inputs[i]->dims.size() > rank)
      return unsupported(op, "operands need at least two dims and no more than the output");
  if (has_input(op, 3) && !same_order(*op.inputs[3], op.outputs[0]))
    return unsupported(op, "the accumulator's layout differs from the output's");
  if (has_input(op, 2) && op.inputs[2]->layout.strided())
    return unsupported(op, "the bias is a strided view");
  return {};
}

// bias and accumulator as the op has them; the accumulator is taken to lie where the result goes,
// or is copied there.
Result<Built> make_product(const OpDesc& op, const Operand& a, const Operand& b, const Operand& c) {
  const bool biased = has_input(op, 2), accumulates = has_input(op, 3);
  dnnl::primitive_attr attr = scratchpad_attr();
  if (accumulates) {
    dnnl::post_ops post;
    post.append_sum(1.0f);
    attr.set_post_ops(post);
  }
  const DType type = op.outputs[0].dtype;
  const MemoryDesc da = strided_desc(type, a.dims, a.strides),
                   db = strided_desc(type, b.dims, b.strides),
                   dc = strided_desc(type, c.dims, c.strides);
  MemoryDesc dbias;
  if (biased) {
    std::vector<int64_t> dims(c.dims.size(), 1), strides(c.dims.size(), c.dims.back());
    dims.back() = c.dims.back();
    strides.back() = 1;
    dbias = strided_desc(type, dims, strides);
  }
  const dnnl::matmul::desc desc =
      biased ? dnnl::matmul::desc(da, db, dbias, dc) : dnnl::matmul::desc(da, db, dc);
  const dnnl::matmul::primitive_desc pd(desc, attr, dnnl_engine());
  Built built;
  built.implementation = pd.impl_info_str();
  LT_RETURN_IF_ERROR(check_fast(op, built.implementation));
  built.workspace_bytes = static_cast<int64_t>(pd.scratchpad_desc().get_size());
  // Shared: std::function wants copies.
  auto primitive = std::make_shared<BoundPrimitive>(dnnl::matmul(pd));
  primitive->bind(DNNL_ARG_SRC, da);
  primitive->bind(DNNL_ARG_WEIGHTS, db);
  primitive->bind(DNNL_ARG_DST, dc);
  if (biased) primitive->bind(DNNL_ARG_BIAS, dbias);
  primitive->bind(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
  const int64_t bytes = plan::size_bytes(op.outputs[0]);
  built.run = [primitive, biased, accumulates, bytes](const KernelArgs& args) {
    if (accumulates) parallel_copy(args.outputs[0], args.inputs[3], bytes);
    primitive->point(DNNL_ARG_SRC, args.inputs[0]);
    primitive->point(DNNL_ARG_WEIGHTS, args.inputs[1]);
    if (biased) primitive->point(DNNL_ARG_BIAS, args.inputs[2]);
    primitive->point(DNNL_ARG_DST, args.outputs[0]);
    primitive->point(DNNL_ARG_SCRATCHPAD, args.workspace);
    primitive->execute();
  };
  return built;
}

// A right operand whose rows lie a multiple of 4 KiB apart: its columns fall into few sets of the
// first cache, and oneDNN, which does not copy them, runs at less than half its speed. Strips of
// columns are copied into the workspace, close together, and multiplied one after another.
constexpr int64_t kStrip = 256;
constexpr int64_t kFewRows = 16;  // that the sets hold in any case

bool wants_strips(const OpDesc& op) {
  const TensorDesc& b = *op.inputs[1];
  if (b.dtype != DType::kF32 || int_attr(op, "trans_b", 0) != 0 || b.dims.size() != 2 ||
      op.outputs[0].dims.size() != 2)
    return false;
  for (const TensorDesc& type : {*op.inputs[0], b, op.outputs[0]})
    if (!same_order(type, {.dtype = DType::kF32, .dims = type.dims, .layout = {}})) return false;
  return b.dims[1] * 4 % 4096 == 0 && b.dims[0] >= kStrip && op.outputs[0].dims[0] >= kStrip;
}

void copy_strip(const float* b, int64_t rows, int64_t stride, float* strip) {
  parallel_ranges(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(strip + r * kStrip, b + r * stride, kStrip * sizeof(float));
  });
}

Result<Built> make_strips(const OpDesc& op) {
  const int64_t m = op.outputs[0].dims[0], n = op.outputs[0].dims[1], k = op.inputs[1]->dims[0];
  Operand a = operand(*op.inputs[0], 2, int_attr(op, "trans_a", 0) != 0);
  tidy(a);
  LT_ASSIGN(const Built strip,
            make_product(op, a, {{k, kStrip}, {kStrip, 1}}, {{m, kStrip}, {n, 1}}));
  const int64_t strip_bytes = k * kStrip * 4;
  Built built;
  built.implementation = strip.implementation;
  built.workspace_bytes = strip_bytes + strip.workspace_bytes;
  const bool biased = has_input(op, 2), accumulates = has_input(op, 3);
  built.run = [=](const KernelArgs& args) {
    if (accumulates) parallel_copy(args.outputs[0], args.inputs[3], m * n * 4);
    float* copy = static_cast<float*>(args.workspace);
    for (int64_t column = 0; column < n; column += kStrip) {  // n is a multiple of 1,024
      copy_strip(static_cast<const float*>(args.inputs[1]) + column, k, n, copy);
      void* out = static_cast<float*>(args.outputs[0]) + column;
      std::array<void*, 4> in{args.inputs[0], copy, nullptr, out};
      if (biased) in[2] = static_cast<float*>(args.inputs[2]) + column;
      strip.run({.inputs = in,
                 .outputs = std::span(&out, 1),
                 .workspace = static_cast<char*>(args.workspace) + strip_bytes,
                 .context = args.context});
    }
  };
  return built;
}

// A matrix in which rows, or columns, are one and the same: an expanded dim, which oneDNN does not
// have.
bool repeats_elements(const Operand& x) {
  const size_t m = x.dims.size() - 2, n = m + 1;
  return (x.dims[m] > 1 && x.strides[m] == 0) || (x.dims[n] > 1 && x.strides[n] == 0);
}

// By oneDNN, or by own loops where it has only its reference or nothing is to be done.
Result<Built> make_any(const OpDesc& op, Operand a, Operand b, Operand c) {
  const DType type = op.outputs[0].dtype;
  const bool by_dnnl = type == DType::kF32 || type == DType::kBF16;
  if (!by_dnnl || plan::element_count(op.outputs[0]) == 0 || a.dims.back() == 0)
    return make_own_product(op, a, b, c);
  LT_RETURN_IF_ERROR(check_native(op, type));
  const bool repeats = repeats_elements(a) || repeats_elements(b);
  if (repeats && is_thin(a, c)) return make_own_product(op, a, b, c);
  if (repeats) return unsupported(op, "an operand whose rows or columns are one and the same");
  for (Operand* x : {&a, &b, &c}) tidy(*x);
  auto product = make_product(op, a, b, c);
  if (!product && is_thin(a, c)) return make_own_product(op, a, b, c);
  return product;
}

Result<Built> make_whole(const OpDesc& op) {
  const size_t rank = op.outputs[0].dims.size();
  Operand a = operand(*op.inputs[0], rank, int_attr(op, "trans_a", 0) != 0);
  Operand b = operand(*op.inputs[1], rank, int_attr(op, "trans_b", 0) != 0);
  Operand c = operand(op.outputs[0], rank, false);
  simplify(a, b, c);
  return make_any(op, std::move(a), std::move(b), std::move(c));
}

Result<Built> build_matmul(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check(op));
  return guard_dnnl(op, [&] { return wants_strips(op) ? make_strips(op) : make_whole(op); });
}

// Whether a right operand is walked along rows that lie a multiple of 4 KiB apart.
bool rows_collide(const OpDesc& op) {
  const TensorDesc& b = *op.inputs[1];
  const Operand x = operand(b, b.dims.size(), int_attr(op, "trans_b", 0) != 0);
  const size_t rank = x.dims.size();
  return x.strides[rank - 1] == 1 && x.dims[rank - 2] > kFewRows &&
         x.strides[rank - 2] * size_bytes(b.dtype) % 4096 == 0;
}

// Row-major, but strided views as they come where there is fast code for them: a transposed or
// sliced matrix is one with other strides.
plan::LayoutWish wish_product(const OpDesc& op) {
  plan::LayoutWish wish = wish_row_major(op);
  OpDesc asked = op;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (op.inputs[i] && !op.inputs[i]->layout.strided()) asked.inputs[i]->layout = {};
  for (TensorDesc& output : asked.outputs) output.layout = {};
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i] || !op.inputs[i]->layout.strided()) continue;
    // Alone, so that one that is not taken does not keep the others from being taken.
    OpDesc alone = asked;
    for (size_t k = 0; k < op.inputs.size(); ++k)
      if (k != i && alone.inputs[k]) alone.inputs[k]->layout = wish.inputs[k];
    if (i == 1 && rows_collide(op)) continue;
    if (build_matmul(alone)) wish.inputs[i] = op.inputs[i]->layout;
  }
  return wish;
}

constexpr Entry kProductEntries[] = {{"MatMul",
                                      "T T T T -> T",
                                      "f32 f64 bf16 i64 i32 u64 u32",
                                      build_matmul,
                                      wish_product,
                                      false,
                                      {},
                                      true,
                                      true}};

}  // namespace

Result<InnerProduct> InnerProduct::make(const OpDesc& op, StridedMatrix a, StridedMatrix b,
                                        StridedMatrix c, bool accumulates) {
  const auto type = [&](const StridedMatrix& x) {
    return TensorDesc{.dtype = op.outputs[0].dtype, .dims = x.dims, .layout = {}};
  };
  OpDesc inner{.kind = op.kind,
               .attrs = {},
               .inputs = {type(a), type(b), std::nullopt, std::nullopt},
               .outputs = {type(c)}};
  if (accumulates) inner.inputs[3] = type(c);
  InnerProduct made;
  made.accumulates_ = accumulates;
  auto built =
      guard_dnnl(inner, [&] { return make_any(inner, std::move(a), std::move(b), std::move(c)); });
  if (!built) return tl::unexpected<Error>(built.error());
  made.built_ = std::move(*built);
  return made;
}

void InnerProduct::run(const void* a, const void* b, void* c, void* workspace) const {
  const std::array<void*, 4> in{const_cast<void*>(a), const_cast<void*>(b), nullptr,
                                accumulates_ ? c : nullptr};
  void* out = c;
  built_.run({.inputs = in, .outputs = std::span(&out, 1), .workspace = workspace, .context = {}});
}

std::span<const Entry> product_kernels() {
  return kProductEntries;
}

}  // namespace lowtide::exec_cpu
