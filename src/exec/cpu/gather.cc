// Gather and its gradient. The gradient adds rows of dy in the order of the indices; threads share
// out columns (or whole outer slices), never indices, so that two equal indices are added by one
// thread and the result has the same bits always.
#include <algorithm>
#include <cstring>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/wide.h"

namespace lowtide::exec_cpu {
namespace {

// data is [outer, dim, inner]; dy and y are [outer, indices, inner]. The first operand, data or dy,
// may be a strided view whose rows of `inner` elements have no holes.
struct GatherShape {
  int64_t outer = 1, dim = 1, inner = 1, indices = 1;
  bool wide = true;  // i64 indices
};

Result<GatherShape> shape_of(const OpDesc& op, const TensorDesc& data, const TensorDesc& indices) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const auto& input = op.inputs[i];
    if (!input || (i == 0 && input->layout.strided())) continue;
    if (!same_order(*input, {.dtype = input->dtype, .dims = input->dims, .layout = {}}))
      return unsupported(op, "operands must be row-major, but for the rows of the first");
  }
  if (!op.outputs[0].layout.row_major()) return unsupported(op, "the output must be row-major");
  const int64_t rank = static_cast<int64_t>(data.dims.size());
  int64_t axis = int_attr(op, "axis", 0);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return unsupported(op, "the axis is out of range");
  GatherShape shape;
  for (int64_t d = 0; d < rank; ++d)
    (d < axis    ? shape.outer
     : d == axis ? shape.dim
                 : shape.inner) *= data.dims[static_cast<size_t>(d)];
  shape.indices = plan::element_count(indices);
  shape.wide = indices.dtype == DType::kI64;
  return shape;
}

// Where the rows of the first operand lie, whose last dims, from `first` on, they are made of.
Result<RowPlaces> rows_of(const OpDesc& op, size_t first) {
  auto rows = rows_from(*op.inputs[0], first);
  if (!rows) return unsupported(op, "the rows of an operand are not contiguous");
  return std::move(*rows);
}

// The axis, counted from the front.
size_t axis_of(const OpDesc& op, const TensorDesc& data) {
  const int64_t axis = int_attr(op, "axis", 0);
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(data.dims.size()) : axis);
}

// The row that index i names, or -1 when there is none.
int64_t row_at(const void* indices, int64_t i, const GatherShape& shape) {
  int64_t row = shape.wide ? static_cast<const int64_t*>(indices)[i]
                           : static_cast<const int32_t*>(indices)[i];
  if (row < 0) row += shape.dim;
  return row >= 0 && row < shape.dim ? row : -1;
}

Result<Built> build_gather(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_ASSIGN(const GatherShape shape, shape_of(op, *op.inputs[0], *op.inputs[1]));
  LT_ASSIGN(const RowPlaces rows, rows_of(op, axis_of(op, *op.inputs[0]) + 1));
  const int64_t element = size_bytes(op.outputs[0].dtype), bytes = element * shape.inner;
  Built built;
  built.run = [=](const KernelArgs& args) {
    const char* data = static_cast<const char*>(args.inputs[0]);
    char* y = static_cast<char*>(args.outputs[0]);
    parallel_ranges(
        shape.outer * shape.indices, 1 + 65536 / std::max<int64_t>(bytes, 1),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t row = row_at(args.inputs[1], i % shape.indices, shape);
            char* to = y + i * bytes;
            if (row < 0)  // no such row: zeros, so that bad data cannot read past the table
              std::memset(to, 0, static_cast<size_t>(bytes));
            else
              std::memcpy(to, data + rows.at(i / shape.indices * shape.dim + row) * element,
                          static_cast<size_t>(bytes));
          }
        });
  };
  return built;
}

template <class T>
void add_rows(const GatherShape& shape, const RowPlaces& rows, const void* indices, const T* dy,
              T* out, int64_t outer, int64_t column, int64_t width) {
  const auto& simd = loops_of(T());
  for (int64_t i = 0; i < shape.indices; ++i) {
    const int64_t row = row_at(indices, i, shape);
    if (row < 0) continue;
    const T* from = dy + rows.at(outer * shape.indices + i) + column;
    T* to = out + (outer * shape.dim + row) * shape.inner + column;
    if (width == 1)
      *to += *from;
    else
      simd.add(from, width, to);
  }
}

template <class T>
Result<Built> build_gather_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 3, 1));
  LT_ASSIGN(const GatherShape shape, shape_of(op, op.outputs[0], *op.inputs[1]));
  const size_t outside = axis_of(op, op.outputs[0]) + op.inputs[1]->dims.size();
  LT_ASSIGN(const RowPlaces rows, rows_of(op, outside));
  const bool accumulates = has_input(op, 2);
  const int64_t bytes = plan::size_bytes(op.outputs[0]);
  Built built;
  built.run = [=](const KernelArgs& args) {
    const T* dy = static_cast<const T*>(args.inputs[0]);
    T* out = static_cast<T*>(args.outputs[0]);
    if (accumulates)
      parallel_copy(out, args.inputs[2], bytes);
    else
      parallel_zero(out, bytes);
    const int64_t columns = (shape.inner + 63) / 64;  // units of 64 columns
    parallel_ranges(shape.outer * columns, 1 + 16384 / (64 * std::max<int64_t>(shape.indices, 1)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t unit = begin; unit < end;) {
                        const int64_t outer = unit / columns, first = unit % columns * 64;
                        const int64_t last = std::min(end, (outer + 1) * columns);
                        const int64_t width =
                            std::min(shape.inner, (last - outer * columns) * 64) - first;
                        add_rows(shape, rows, args.inputs[1], dy, out, outer, first, width);
                        unit = last;
                      }
                    });
  };
  return built;
}

constexpr Builder kGatherGrad = by_width<build_gather_grad<float>, build_gather_grad<double>>;

constexpr Entry kGatherEntries[] = {
    {"Gather", "T i -> T", "*", build_gather, wish_rows<build_gather>, false, {}, true},
    {"GatherGrad", "T i T -> T", "f32 f64", kGatherGrad, wish_rows<kGatherGrad>, false, {}, true}};

}  // namespace

std::span<const Entry> gather_kernels() {
  return kGatherEntries;
}

}  // namespace lowtide::exec_cpu
