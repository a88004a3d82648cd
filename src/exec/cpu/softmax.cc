// Softmax, LogSoftmax and their gradients, along any axis of any plain layout. The tensor is seen
// as [outer, extent, inner] in the order of memory: rows when the axis is innermost, otherwise
// groups of neighbouring columns. Rows may be those of a strided view, at any distances.
#include <algorithm>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/wide.h"

namespace lowtide::exec_cpu {
namespace {

// Calls row(number) for each row, or columns(offset, count) for groups of at most kColumns columns.
template <class Row, class Columns>
void for_lines(const AxisView& view, const Row& row, const Columns& columns) {
  if (view.inner == 1) {
    parallel_ranges(view.outer, 1 + 4096 / std::max<int64_t>(view.extent, 1),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t r = begin; r < end; ++r) row(r);
                    });
    return;
  }
  const int64_t groups = (view.inner + kColumns - 1) / kColumns;
  parallel_ranges(view.outer * groups, 1 + 16 / std::max<int64_t>(view.extent, 1),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t unit = begin; unit < end; ++unit) {
                      const int64_t first = unit % groups * kColumns;
                      columns(unit / groups * view.extent * view.inner + first,
                              std::min(kColumns, view.inner - first));
                    }
                  });
}

struct SoftmaxView {
  AxisView axis;                // of the result
  std::vector<RowPlaces> rows;  // of each operand, where the result has rows
};

Result<SoftmaxView> softmax_view(const OpDesc& op) {
  const TensorDesc& y = op.outputs[0];
  int64_t axis = int_attr(op, "axis", -1);
  if (axis < 0) axis += static_cast<int64_t>(y.dims.size());
  if (axis < 0 || axis >= static_cast<int64_t>(y.dims.size()))
    return unsupported(op, "the axis is out of range");
  SoftmaxView view{.axis = axis_view(y, static_cast<size_t>(axis)), .rows = {}};
  for (const auto& input : op.inputs) {
    if (!input->layout.strided() && !same_order(*input, y))
      return unsupported(op, "operands in different layouts");
    if (input->layout.strided() && view.axis.inner != 1)
      return unsupported(op, "an operand is a strided view and the axis is not the innermost one");
    if (view.axis.inner != 1) continue;
    auto rows = rows_along(*input, static_cast<size_t>(axis), y);
    if (!rows) return unsupported(op, "the rows of an operand are not contiguous");
    view.rows.push_back(std::move(*rows));
  }
  return view;
}

template <class T>
Result<Built> build_softmax(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_ASSIGN(const SoftmaxView seen, softmax_view(op));
  const AxisView view = seen.axis;
  const bool log = op.kind == "LogSoftmax";
  Built built;
  built.run = [view, log, rows = seen.rows](const KernelArgs& args) {
    const auto& simd = loops_of(T());
    const T* x = static_cast<const T*>(args.inputs[0]);
    T* y = static_cast<T*>(args.outputs[0]);
    for_lines(
        view,
        [&](int64_t r) {
          (log ? simd.log_softmax_row : simd.softmax_row)(x + rows[0].at(r), y + r * view.extent,
                                                          view.extent);
        },
        [&](int64_t at, int64_t n) {
          simd.softmax_columns(x + at, y + at, view.extent, view.inner, n, log);
        });
  };
  return built;
}

template <class T>
Result<Built> build_softmax_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_ASSIGN(const SoftmaxView seen, softmax_view(op));
  const AxisView view = seen.axis;
  const bool log = op.kind == "LogSoftmaxGrad";
  Built built;
  built.run = [view, log, rows = seen.rows](const KernelArgs& args) {
    const auto& simd = loops_of(T());
    const T* dy = static_cast<const T*>(args.inputs[0]);
    const T* y = static_cast<const T*>(args.inputs[1]);
    T* dx = static_cast<T*>(args.outputs[0]);
    for_lines(
        view,
        [&](int64_t r) {
          (log ? simd.log_softmax_grad_row : simd.softmax_grad_row)(
              dy + rows[0].at(r), y + rows[1].at(r), dx + r * view.extent, view.extent);
        },
        [&](int64_t at, int64_t n) {
          simd.softmax_grad_columns(dy + at, y + at, dx + at, view.extent, view.inner, n, log);
        });
  };
  return built;
}

constexpr Entry kSoftmaxEntries[] = {
    {"Softmax",
     "T -> T",
     "f32 f64",
     by_width<build_softmax<float>, build_softmax<double>>,
     nullptr,
     false,
     {},
     true},
    {"LogSoftmax",
     "T -> T",
     "f32 f64",
     by_width<build_softmax<float>, build_softmax<double>>,
     nullptr,
     false,
     {},
     true},
    {"SoftmaxGrad",
     "T T -> T",
     "f32 f64",
     by_width<build_softmax_grad<float>, build_softmax_grad<double>>,
     nullptr,
     false,
     {},
     true},
    {"LogSoftmaxGrad",
     "T T -> T",
     "f32 f64",
     by_width<build_softmax_grad<float>, build_softmax_grad<double>>,
     nullptr,
     false,
     {},
     true},
};

}  // namespace

std::span<const Entry> softmax_kernels() {
  return kSoftmaxEntries;
}

}  // namespace lowtide::exec_cpu
