// Col2Im and its gradient: blocks of a window laid side by side (columns), and the image that they
// are cut from. What a tap of the blocks covers is rows of the image; which elements those are is
// worked out once, a line for each, and both directions walk the lines: one adds what it finds in
// the columns to the image, the other copies the image into the columns. A plane of one channel
// belongs to one thread, so the order of the sums is that of the lines.
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>

#include "exec/cpu/build.h"
#include "exec/cpu/indexing.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

// `count` columns from `column` on, and the pixels `step` apart that they belong to.
struct BlockLine {
  int64_t column = 0, pixel = 0, count = 0;
};

struct BlockPlan {
  int64_t planes = 0, plane_columns = 0, plane_pixels = 0, step = 1;
  std::vector<BlockLine> lines;
};

struct BlockWindow {
  std::vector<int64_t> image, kernel, blocks, strides, dilations, begins;
};

int64_t volume(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

// The lines of one plane: for each tap, and each place of a block but along the last dim.
void add_lines(const BlockWindow& w, BlockPlan& plan) {
  const size_t rank = w.kernel.size(), last = rank - 1;
  const int64_t taps = volume(w.kernel), places = volume(w.blocks);
  const int64_t outer = w.blocks[last] == 0 ? 0 : places / w.blocks[last];
  std::vector<int64_t> tap(rank), place(rank);
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t rest = t, d = static_cast<int64_t>(rank) - 1; d >= 0; --d) {
      tap[static_cast<size_t>(d)] = rest % w.kernel[static_cast<size_t>(d)];
      rest /= w.kernel[static_cast<size_t>(d)];
    }
    for (int64_t o = 0; o < outer; ++o) {
      int64_t pixel = 0, rest = o;
      bool inside = true;
      for (size_t d = last; d-- > 0; rest /= w.blocks[d]) place[d] = rest % w.blocks[d];
      for (size_t d = 0; d < last; ++d) {
        const int64_t at = place[d] * w.strides[d] + tap[d] * w.dilations[d] - w.begins[d];
        inside = inside && at >= 0 && at < w.image[d];
        pixel = pixel * w.image[d] + at;
      }
      if (!inside) continue;
      // 0 <= i * stride + shift < extent
      const int64_t shift = tap[last] * w.dilations[last] - w.begins[last];
      const int64_t stride = w.strides[last], extent = w.image[last];
      const int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
      const int64_t behind =
          extent <= shift ? 0 : std::min(w.blocks[last], (extent - shift + stride - 1) / stride);
      if (first >= behind) continue;
      plan.lines.push_back({.column = (t * outer + o) * w.blocks[last] + first,
                            .pixel = pixel * extent + first * stride + shift,
                            .count = behind - first});
    }
  }
}

// `columns` [n, c, taps.., blocks..] and `image` [n, c, pixels..].
Result<std::shared_ptr<const BlockPlan>> block_plan(const OpDesc& op, const TensorDesc& columns,
                                                    const TensorDesc& image) {
  const size_t rank = image.dims.size() - 2;
  if (image.dims.size() < 3 || columns.dims.size() != 2 + 2 * rank)
    return unsupported(op, "ranks that do not fit");
  const auto part = [](const std::vector<int64_t>& dims, size_t from, size_t count) {
    const auto begin = dims.begin() + static_cast<std::ptrdiff_t>(from);
    return std::vector<int64_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  BlockWindow w{.image = part(image.dims, 2, rank),
                .kernel = part(columns.dims, 2, rank),
                .blocks = part(columns.dims, 2 + rank, rank),
                .strides = list_attr(op, "strides", std::vector<int64_t>(rank, 1)),
                .dilations = list_attr(op, "dilations", std::vector<int64_t>(rank, 1)),
                .begins = list_attr(op, "pads", std::vector<int64_t>(2 * rank, 0))};
  if (w.strides.size() != rank || w.dilations.size() != rank || w.begins.size() != 2 * rank)
    return unsupported(op, "a window of another rank");
  auto plan = std::make_shared<BlockPlan>();
  plan->planes = image.dims[0] * image.dims[1];
  plan->plane_pixels = volume(w.image);
  plan->plane_columns = volume(w.kernel) * volume(w.blocks);
  plan->step = w.strides[rank - 1];
  add_lines(w, *plan);
  return plan;
}

template <class T>
void add_blocks(const BlockPlan& plan, const T* columns, T* image) {
  parallel_ranges(plan.planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const T* from = columns + p * plan.plane_columns;
      T* to = image + p * plan.plane_pixels;
      std::fill(to, to + plan.plane_pixels, T(0));
      for (const BlockLine& line : plan.lines)
        for (int64_t i = 0; i < line.count; ++i)
          to[line.pixel + i * plan.step] += from[line.column + i];
    }
  });
}

template <class T>
void cut_blocks(const BlockPlan& plan, const T* image, T* columns) {
  parallel_ranges(plan.planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const T* from = image + p * plan.plane_pixels;
      T* to = columns + p * plan.plane_columns;
      std::fill(to, to + plan.plane_columns, T(0));  // what lies in the padding
      for (const BlockLine& line : plan.lines)
        for (int64_t i = 0; i < line.count; ++i)
          to[line.column + i] = from[line.pixel + i * plan.step];
    }
  });
}

template <class T>
Result<Built> build_columns(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_RETURN_IF_ERROR(check_row_major(op));
  const bool cuts = op.kind == "Col2ImGrad";
  const TensorDesc &x = *op.inputs[0], &y = op.outputs[0];
  LT_ASSIGN(const auto plan, cuts ? block_plan(op, y, x) : block_plan(op, x, y));
  Built built;
  built.run = [plan, cuts](const KernelArgs& args) {
    (cuts ? cut_blocks<T> : add_blocks<T>)(*plan, static_cast<const T*>(args.inputs[0]),
                                           static_cast<T*>(args.outputs[0]));
  };
  return built;
}

constexpr Entry kColumnEntries[] = {
    {"Col2Im", "T -> T", "f32 f64", by_width<build_columns<float>, build_columns<double>>,
     wish_row_major, false, "0"},
    {"Col2ImGrad", "T -> T", "f32 f64", by_width<build_columns<float>, build_columns<double>>,
     wish_row_major},
};

}  // namespace

std::span<const Entry> column_kernels() {
  return kColumnEntries;
}

}  // namespace lowtide::exec_cpu
