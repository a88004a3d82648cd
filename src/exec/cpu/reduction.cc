// ReduceSum, ReduceMean and ReduceMax over any axes of any plain layout. Dims are put in the order
// of memory and neighbours of one kind (kept or reduced) joined. What is left is a nest whose
// innermost dim is either reduced (rows are summed) or kept (rows are added to each other). A unit
// of work is one kept index of the outer dims, or a group of kept columns; when there are few
// units, the outermost reduced dim is cut into chunks whose partial results lie in the workspace.
#include <algorithm>
#include <limits>
#include <memory>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {
namespace {

using Dims = std::vector<int64_t>;

struct Loop {
  int64_t extent, in_stride, out_stride;
};

struct Plan {
  bool max = false;
  bool inner_reduced = true;
  int64_t inner = 1;                  // extent of the innermost dim, contiguous in x
  int64_t inner_out = 1;              // its stride in y (kept case)
  std::vector<Loop> kept = {};        // outer dims
  std::vector<Loop> reduced = {};     // outer dims
  int64_t units = 1;                  // product of kept extents
  int64_t columns = 1;                // groups of kColumns of a kept innermost dim
  int64_t rows = 1;                   // product of reduced extents
  int64_t chunks = 1, per_chunk = 1;  // of rows
  float scale = 1;
};

float identity(const Plan& p) {
  return p.max ? -std::numeric_limits<float>::infinity() : 0.0f;
}

int64_t offset_of(const std::vector<Loop>& loops_of, int64_t index, int64_t Loop::*stride) {
  int64_t offset = 0;
  for (size_t d = loops_of.size(); d-- > 0;) {
    offset += index % loops_of[d].extent * (loops_of[d].*stride);
    index /= loops_of[d].extent;
  }
  return offset;
}

// Reduces rows [begin, end) of one unit: into one float, or into `width` columns.
float reduce_row_unit(const Plan& p, const float* x, int64_t begin, int64_t end) {
  double total = 0;
  float best = identity(p);
  for (int64_t row = begin; row < end; ++row) {
    const float* at = x + offset_of(p.reduced, row, &Loop::in_stride);
    if (p.max) {
      const float value = loops().max(at, p.inner);
      best = value > best || value != value ? value : best;
    } else {
      total += loops().sum(at, p.inner);
    }
  }
  return p.max ? best : static_cast<float>(total);
}

void reduce_column_unit(const Plan& p, const float* x, int64_t begin, int64_t end, int64_t width,
                        float* acc) {
  std::fill(acc, acc + width, identity(p));
  auto add = p.max ? loops().max_rows : loops().sum_rows;
  if (p.reduced.size() == 1) {
    add(x + begin * p.reduced[0].in_stride, end - begin, p.reduced[0].in_stride, width, acc);
    return;
  }
  // Whole lines of the innermost reduced dim where the range covers them.
  const int64_t line = p.reduced.empty() ? 1 : p.reduced.back().extent;
  const int64_t stride = p.reduced.empty() ? 0 : p.reduced.back().in_stride;
  for (int64_t row = begin; row < end;) {
    const int64_t count = std::min(end - row, line - row % line);
    add(x + offset_of(p.reduced, row, &Loop::in_stride), count, stride, width, acc);
    row += count;
  }
}

void store(const Plan& p, const float* acc, int64_t width, float* y) {
  for (int64_t c = 0; c < width; ++c) y[c * p.inner_out] = acc[c] * p.scale;
}

void merge(const Plan& p, const float* part, int64_t width, float* acc) {
  for (int64_t c = 0; c < width; ++c)
    acc[c] = p.max ? (part[c] > acc[c] || part[c] != part[c] ? part[c] : acc[c]) : acc[c] + part[c];
}

// Unit u is kept index u / columns, column group u % columns; piece (u, chunk) reduces some of its
// rows.
void run(const Plan& p, const KernelArgs& args) {
  const float* x = static_cast<const float*>(args.inputs[0]);
  float* y = static_cast<float*>(args.outputs[0]);
  float* partial = static_cast<float*>(args.workspace);
  const int64_t units = p.units * p.columns;
  const int64_t slot = p.inner_reduced ? 1 : std::min(kColumns, p.inner);
  auto width_of = [&](int64_t unit) {
    return p.inner_reduced ? 1 : std::min(kColumns, p.inner - unit % p.columns * kColumns);
  };
  auto out_of = [&](int64_t unit) {
    return y + offset_of(p.kept, unit / p.columns, &Loop::out_stride) +
           unit % p.columns * kColumns * p.inner_out;
  };
  const int64_t work = p.rows / p.chunks * (p.inner_reduced ? p.inner : slot);
  parallel_ranges(
      units * p.chunks, 1 + 16384 / std::max<int64_t>(work, 1), [&](int64_t begin, int64_t end) {
        float acc[kColumns];
        for (int64_t piece = begin; piece < end; ++piece) {
          const int64_t unit = piece / p.chunks, chunk = piece % p.chunks;
          const float* from = x + offset_of(p.kept, unit / p.columns, &Loop::in_stride) +
                              unit % p.columns * kColumns;
          const int64_t first = chunk * p.per_chunk, last = std::min(p.rows, first + p.per_chunk);
          if (p.inner_reduced)
            acc[0] = reduce_row_unit(p, from, first, last);
          else
            reduce_column_unit(p, from, first, last, width_of(unit), acc);
          if (p.chunks == 1)
            store(p, acc, width_of(unit), out_of(unit));
          else
            std::copy(acc, acc + width_of(unit), partial + piece * slot);
        }
      });
  if (p.chunks == 1) return;
  for (int64_t unit = 0; unit < units; ++unit) {
    float* total = partial + unit * p.chunks * slot;
    for (int64_t chunk = 1; chunk < p.chunks; ++chunk)
      merge(p, total + chunk * slot, width_of(unit), total);
    store(p, total, width_of(unit), out_of(unit));
  }
}

// Strides of y over x's dims; 0 for reduced ones.
Result<Dims> out_strides(const OpDesc& op, const std::vector<bool>& reduced) {
  const TensorDesc& x = *op.inputs[0];
  const TensorDesc& y = op.outputs[0];
  const Dims own = strides_of(y);
  Dims strides(x.dims.size(), 0);
  const bool keeps = y.dims.size() == x.dims.size();
  size_t k = 0;
  for (size_t d = 0; d < x.dims.size(); ++d) {
    if (keeps) k = d;
    if (!reduced[d]) {
      if (k >= own.size()) return unsupported(op, "the output's rank does not match the axes");
      strides[d] = own[k];
    }
    if (!keeps && !reduced[d]) ++k;
  }
  return strides;
}

void cut(Plan& p) {
  for (const Loop& loop : p.kept) p.units *= loop.extent;
  for (const Loop& loop : p.reduced) p.rows *= loop.extent;
  if (!p.inner_reduced) p.columns = (p.inner + kColumns - 1) / kColumns;
  if (p.units * p.columns < 16 && p.rows >= 64) p.chunks = std::min<int64_t>(32, p.rows / 32);
  p.per_chunk = (p.rows + p.chunks - 1) / p.chunks;
  p.chunks = (p.rows + p.per_chunk - 1) / p.per_chunk;
}

Result<Plan> make_plan(const OpDesc& op) {
  const TensorDesc& x = *op.inputs[0];
  std::vector<bool> reduced(x.dims.size(), false);
  Dims all(x.dims.size());
  for (size_t d = 0; d < all.size(); ++d) all[d] = static_cast<int64_t>(d);
  const Dims axes = list_attr(op, "axes", all);
  for (int64_t axis : axes) {
    const int64_t d = axis < 0 ? axis + static_cast<int64_t>(x.dims.size()) : axis;
    if (d < 0 || d >= static_cast<int64_t>(x.dims.size()))
      return unsupported(op, "an axis is out of range");
    reduced[static_cast<size_t>(d)] = true;
  }
  LT_ASSIGN(const Dims out, out_strides(op, reduced));
  Plan p{.max = op.kind == "ReduceMax"};
  int64_t count = 1;
  Dims mark(x.dims.size());  // a third operand keeps kept and reduced dims from being joined
  for (size_t d = 0; d < x.dims.size(); ++d) {
    if (x.dims[d] == 0) return unsupported(op, "an empty operand");
    if (reduced[d]) count *= x.dims[d];
  }
  const Dims in = strides_of(x);
  for (size_t d = 0; d < mark.size(); ++d) mark[d] = reduced[d] ? in[d] : 0;
  Nest nest = make_nest(x.dims, {in, out, mark});
  if (op.kind == "ReduceMean") p.scale = static_cast<float>(1.0 / static_cast<double>(count));
  const size_t last = nest.dims.size() - 1;
  for (size_t d = 0; d < last; ++d)
    (nest.strides[2][d] != 0 ? p.reduced : p.kept)
        .push_back({nest.dims[d], nest.strides[0][d], nest.strides[1][d]});
  p.inner = nest.dims[last];
  p.inner_reduced = nest.strides[2][last] != 0;
  p.inner_out = p.inner_reduced ? 1 : nest.strides[1][last];
  cut(p);
  return p;
}

Result<Built> build_reduction(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  LT_ASSIGN(const Plan made, make_plan(op));
  auto p = std::make_shared<const Plan>(made);
  Built built;
  const int64_t slot = p->inner_reduced ? 1 : std::min(kColumns, p->inner);
  if (p->chunks > 1) built.workspace_bytes = p->units * p->columns * p->chunks * slot * 4;
  built.run = [p](const KernelArgs& args) { run(*p, args); };
  return built;
}

constexpr Entry kEntries[] = {{"ReduceSum", "T -> T", "f32", build_reduction},
                              {"ReduceMean", "T -> T", "f32", build_reduction},
                              {"ReduceMax", "T -> T", "f32", build_reduction}};

}  // namespace

std::span<const Entry> reduction_kernels() {
  return kEntries;
}

}  // namespace lowtide::exec_cpu
