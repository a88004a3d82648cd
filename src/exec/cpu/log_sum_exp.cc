// ReduceLogSumExp: log of the sum of exponentials over any axes, m + log(sum(exp(x - m))) with the
// maximum m, so that nothing overflows. Dims are put in the order of memory and split into kept and
// reduced ones; a result is one kept index, and its elements are walked twice. Rows that lie
// contiguously take the vector loop that softmax has.
#include <cmath>
#include <limits>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {
namespace {

struct Loop {
  int64_t extent, in_stride, out_stride;
};

struct Extents {
  std::vector<Loop> kept, reduced;  // outermost first
  int64_t results = 1;
  int64_t rows = 1;  // product of the reduced extents but the last
};

int64_t offset_of(const std::vector<Loop>& loops_of, size_t count, int64_t index,
                  int64_t Loop::*stride) {
  int64_t offset = 0;
  for (size_t d = count; d-- > 0;) {
    offset += index % loops_of[d].extent * (loops_of[d].*stride);
    index /= loops_of[d].extent;
  }
  return offset;
}

// Which dims of x are reduced, and the strides of y over x's dims (0 for reduced ones).
struct Sides {
  std::vector<bool> reduced;
  std::vector<int64_t> out;
};

Result<Sides> sides_of(const OpDesc& op) {
  const size_t rank = op.inputs[0]->dims.size();
  const std::vector<int64_t> own = strides_of(op.outputs[0]);
  Sides sides{std::vector<bool>(rank, false), std::vector<int64_t>(rank, 0)};
  for (const int64_t axis : list_attr(op, "axes", {})) {
    if (axis < 0 || axis >= static_cast<int64_t>(rank))
      return unsupported(op, "an axis is out of range");
    sides.reduced[static_cast<size_t>(axis)] = true;
  }
  const bool keeps = own.size() == rank;
  size_t next = 0;
  for (size_t d = 0; d < rank; ++d) {
    if (keeps) next = d;
    if (sides.reduced[d]) continue;
    if (next >= own.size()) return unsupported(op, "the output's rank does not match the axes");
    sides.out[d] = own[next++];
  }
  return sides;
}

Result<Extents> shape_of(const OpDesc& op) {
  const TensorDesc& x = *op.inputs[0];
  LT_ASSIGN(Sides sides, sides_of(op));
  const std::vector<int64_t> in = strides_of(x);
  std::vector<int64_t> mark(in.size());  // keeps kept and reduced dims from being joined
  for (size_t d = 0; d < mark.size(); ++d) {
    if (x.dims[d] == 0) return unsupported(op, "an empty operand");
    mark[d] = sides.reduced[d] ? in[d] : 0;
  }
  const Nest nest = make_nest(x.dims, {in, std::move(sides.out), std::move(mark)});
  Extents shape;
  for (size_t d = 0; d < nest.dims.size(); ++d)
    (nest.strides[2][d] != 0 ? shape.reduced : shape.kept)
        .push_back({nest.dims[d], nest.strides[0][d], nest.strides[1][d]});
  if (shape.reduced.empty()) shape.reduced.push_back({1, 1, 0});
  for (const Loop& loop : shape.kept) shape.results *= loop.extent;
  for (size_t d = 0; d + 1 < shape.reduced.size(); ++d) shape.rows *= shape.reduced[d].extent;
  return shape;
}

template <class T>
double log_sum_exp(const Extents& shape, const T* x) {
  const Loop& last = shape.reduced.back();
  const size_t outer = shape.reduced.size() - 1;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (outer == 0 && last.in_stride == 1) {
      float most = 0, sum = 0;
      loops().max_and_sum(x, last.extent, &most, &sum);
      if (std::isfinite(most) && std::isfinite(sum))
        return static_cast<double>(most) + std::log(static_cast<double>(sum));
    }
  }
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const bool adds : {false, true}) {
    for (int64_t row = 0; row < shape.rows; ++row) {
      const T* at = x + offset_of(shape.reduced, outer, row, &Loop::in_stride);
      for (int64_t i = 0; i < last.extent; ++i) {
        const double value = static_cast<double>(at[i * last.in_stride]);
        if (adds)
          sum += std::exp(value - most);
        else
          most = value > most || value != value ? value : most;
      }
    }
    // All -inf, an inf or a NaN: the maximum is the result.
    if (!std::isfinite(most)) return most;
  }
  return most + std::log(sum);
}

template <class T>
void run(const Extents& shape, const KernelArgs& args) {
  const T* x = static_cast<const T*>(args.inputs[0]);
  T* y = static_cast<T*>(args.outputs[0]);
  const int64_t work = shape.rows * shape.reduced.back().extent;
  parallel_ranges(shape.results, 1 + 1024 / work, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t count = shape.kept.size();
      y[offset_of(shape.kept, count, i, &Loop::out_stride)] =
          static_cast<T>(log_sum_exp(shape, x + offset_of(shape.kept, count, i, &Loop::in_stride)));
    }
  });
}

Result<Built> build(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_ASSIGN(const Extents shape, shape_of(op));
  const bool wide = op.inputs[0]->dtype == DType::kF64;
  Built built;
  built.run = [shape, wide](const KernelArgs& args) {
    wide ? run<double>(shape, args) : run<float>(shape, args);
  };
  return built;
}

constexpr Entry kLogSumExpEntries[] = {{"ReduceLogSumExp", "T -> T", "f32 f64", build}};

}  // namespace

std::span<const Entry> log_sum_exp_kernels() {
  return kLogSumExpEntries;
}

}  // namespace lowtide::exec_cpu
