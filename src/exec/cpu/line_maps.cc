#include "exec/cpu/line_maps.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/element.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that are worth a thread

// One dimension in the order of memory, unchanged neighbours joined.
struct Level {
  int64_t from = 1, to = 1;  // extents
  int64_t apart = 1;         // elements between neighbours in the result
  std::optional<AxisTaps> taps = {};

  int64_t most_taps() const {
    int64_t most = 1;
    for (int64_t p = 0; taps && p < to; ++p)
      most = std::max(
          most, taps->begin[static_cast<size_t>(p) + 1] - taps->begin[static_cast<size_t>(p)]);
    return most;
  }
  bool copies() const {  // no position is a sum
    return most_taps() == 1 && (!taps || std::all_of(taps->weight.begin(), taps->weight.end(),
                                                     [](double w) { return w == 1; }));
  }
};

// The rows that one row of the result is made of: where they begin, and their weights.
template <class W>
struct RowTaps {
  int64_t* offset = nullptr;
  W* weight = nullptr;
  int64_t count = 0;
};

struct LineMaps {
  std::vector<Level> outer;
  Level inner;
  std::vector<int64_t> steps;      // of each outer level, in elements of the input
  std::optional<RowPlaces> lines;  // of the result
  int64_t rows = 1, most_taps = 1;
  bool copies = true;    // no element is a sum
  bool doubles = false;  // each element of a line is repeated once

  void prepare() {
    int64_t step = inner.from;
    steps.resize(outer.size());
    std::vector<int64_t> dims, apart;
    for (const Level& level : outer) {
      dims.push_back(level.to);
      apart.push_back(level.apart);
    }
    lines.emplace(dims, apart);
    copies = inner.copies();
    for (size_t i = outer.size(); i-- > 0;) {
      steps[i] = step;
      step *= outer[i].from;
      rows *= outer[i].to;
      most_taps *= outer[i].most_taps();
      copies = copies && outer[i].copies();
    }
    doubles = copies && inner.taps && inner.to == 2 * inner.from &&
              static_cast<int64_t>(inner.taps->index.size()) == inner.to;
    for (int64_t p = 0; doubles && p < inner.to; ++p)
      doubles = inner.taps->index[static_cast<size_t>(p)] == p / 2;
  }

  // What one thread needs for its RowTaps, and behind them for a line of sums.
  int64_t taps_bytes() const { return (most_taps * 16 + 63) / 64 * 64; }
  int64_t scratch_bytes(int64_t element) const {
    return taps_bytes() + (inner.taps && !copies ? (inner.from * element + 63) / 64 * 64 : 0);
  }

  // The product of the taps along each outer level.
  template <class W>
  void collect(int64_t row, RowTaps<W>& taps) const {
    taps.count = 1;
    taps.offset[0] = 0;
    taps.weight[0] = 1;
    for (size_t i = outer.size(); i-- > 0 && taps.count > 0;) {
      const Level& level = outer[i];
      const int64_t p = row % level.to;
      row /= level.to;
      if (!level.taps) {
        for (int64_t k = 0; k < taps.count; ++k) taps.offset[k] += p * steps[i];
        continue;
      }
      const auto first = static_cast<size_t>(level.taps->begin[static_cast<size_t>(p)]);
      const auto last = static_cast<size_t>(level.taps->begin[static_cast<size_t>(p) + 1]);
      const int64_t before = taps.count;
      for (size_t t = last; t-- > first;) {  // the first tap last: it overwrites what is there
        const auto block = static_cast<int64_t>(t - first) * before;
        for (int64_t k = 0; k < before; ++k) {
          taps.offset[block + k] = taps.offset[k] + level.taps->index[t] * steps[i];
          taps.weight[block + k] = taps.weight[k] * static_cast<W>(level.taps->weight[t]);
        }
      }
      taps.count = before * static_cast<int64_t>(last - first);
    }
  }

  // Calls use(row, its taps, scratch for a line) for all rows.
  template <class W, class Use>
  void for_rows(void* workspace, int64_t element, const Use& use) const {
    const int64_t bytes = scratch_bytes(element),
                  grain = 1 + kGrain / std::max<int64_t>(1, inner.to);
    parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
      char* own = static_cast<char*>(workspace) + omp_get_thread_num() * bytes;
      RowTaps<W> taps{.offset = reinterpret_cast<int64_t*>(own),
                      .weight = reinterpret_cast<W*>(own + most_taps * 8)};
      for (int64_t row = begin; row < end; ++row) {
        collect(row, taps);
        use(row, taps, own + taps_bytes());
      }
    });
  }
};

// ---- copies ----

template <class T>
void copy_line(const LineMaps& maps, const T* x, T outside, T* y) {
  if (!maps.inner.taps) {
    std::memcpy(y, x, static_cast<size_t>(maps.inner.to) * sizeof(T));
  } else if (maps.doubles) {
    for (int64_t i = 0; i < maps.inner.from; ++i) y[2 * i] = y[2 * i + 1] = x[i];
  } else {
    const int64_t *begin = maps.inner.taps->begin.data(), *index = maps.inner.taps->index.data();
    for (int64_t p = 0; p < maps.inner.to; ++p)
      y[p] = begin[p] == begin[p + 1] ? outside : x[index[begin[p]]];
  }
}

template <class T>
void copy_rows(const LineMaps& maps, const void* x, uint64_t fill, void* y, void* workspace) {
  const T outside = static_cast<T>(fill);
  maps.for_rows<float>(workspace, sizeof(T), [&](int64_t row, const RowTaps<float>& taps, char*) {
    T* line = static_cast<T*>(y) + maps.lines->at(row);
    if (taps.count == 0)
      std::fill(line, line + maps.inner.to, outside);
    else
      copy_line(maps, static_cast<const T*>(x) + taps.offset[0], outside, line);
  });
}

// ---- sums ----

void add_rows(const float* x, const RowTaps<float>& taps, int64_t n, float* y) {
  loops().weighted_sum(x, taps.offset, taps.weight, taps.count, n, y);
}

void add_rows(const double* x, const RowTaps<double>& taps, int64_t n, double* y) {
  std::fill(y, y + n, 0.0);
  for (int64_t t = 0; t < taps.count; ++t)
    for (int64_t i = 0; i < n; ++i) y[i] += taps.weight[t] * x[taps.offset[t] + i];
}

template <class T>
void add_line(const AxisTaps& taps, const T* weight, const T* x, T outside, int64_t n, T* y) {
  const int64_t *begin = taps.begin.data(), *index = taps.index.data();
  for (int64_t p = 0; p < n; ++p) {
    T sum = begin[p] == begin[p + 1] ? outside : T{0};
    for (int64_t t = begin[p]; t < begin[p + 1]; ++t) sum += weight[t] * x[index[t]];
    y[p] = sum;
  }
}

template <class T>
void add_all(const LineMaps& maps, const std::vector<T>& weight, const T* x, T outside, T* y,
             void* workspace) {
  maps.for_rows<T>(workspace, sizeof(T), [&](int64_t row, const RowTaps<T>& taps, char* scratch) {
    T* line = y + maps.lines->at(row);
    if (taps.count == 0) {
      std::fill(line, line + maps.inner.to, outside);
    } else if (!maps.inner.taps) {
      add_rows(x, taps, maps.inner.to, line);
    } else {
      const T* from = x + taps.offset[0];
      if (taps.count > 1 || taps.weight[0] != 1) {
        T* sums = reinterpret_cast<T*>(scratch);
        add_rows(x, taps, maps.inner.from, sums);
        from = sums;
      }
      add_line(*maps.inner.taps, weight.data(), from, outside, maps.inner.to, line);
    }
  });
}

// ---- building ----

Result<LineMaps> levels_of(const OpDesc& op, std::vector<std::optional<AxisTaps>> maps) {
  const TensorDesc &x = *op.inputs[0], &y = op.outputs[0];
  if (x.dims.size() != y.dims.size() || x.dims.size() != maps.size())
    return unsupported(op, "operands of two ranks");
  const std::vector<int64_t> in = strides_of(x), out = strides_of(y);
  std::vector<size_t> order(x.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t d) { return x.dims[d] == 1 && y.dims[d] == 1; });
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return in[a] != in[b] ? in[a] > in[b] : out[a] > out[b];
  });
  std::vector<size_t> made = order;  // where the result has one place, its stride says nothing
  std::erase_if(made, [&](size_t d) { return y.dims[d] == 1; });
  if (!std::is_sorted(made.begin(), made.end(),
                      [&](size_t a, size_t b) { return out[a] > out[b]; }))
    return unsupported(op, "operands in two orders");
  LineMaps result;
  for (size_t d : order) {
    const bool joins = !maps[d] && !result.outer.empty() && !result.outer.back().taps &&
                       result.outer.back().apart == out[d] * y.dims[d];
    if (!joins) result.outer.push_back({.taps = std::move(maps[d])});
    result.outer.back().apart = out[d];
    result.outer.back().from *= x.dims[d];
    result.outer.back().to *= y.dims[d];
  }
  if (!result.outer.empty()) {
    result.inner = std::move(result.outer.back());
    result.outer.pop_back();
  }
  if (result.inner.apart != 1 && result.inner.to != 1)
    return unsupported(op, "the elements of a result do not lie side by side in any dimension");
  result.prepare();
  return result;
}

template <class T>
Built adding(std::shared_ptr<const LineMaps> maps, double outside) {
  std::vector<T> weight;
  if (maps->inner.taps)
    for (double w : maps->inner.taps->weight) weight.push_back(static_cast<T>(w));
  Built built;
  built.workspace_bytes = maps->scratch_bytes(sizeof(T)) * omp_get_max_threads();
  built.run = [maps = std::move(maps), weight = std::move(weight),
               outside](const KernelArgs& args) {
    add_all<T>(*maps, weight, static_cast<const T*>(args.inputs[0]), static_cast<T>(outside),
               static_cast<T*>(args.outputs[0]), args.workspace);
  };
  return built;
}

}  // namespace

Result<Built> build_line_maps(const OpDesc& op, std::vector<std::optional<AxisTaps>> maps,
                              double outside) {
  const DType dtype = op.inputs[0]->dtype;
  LT_ASSIGN(LineMaps made, levels_of(op, std::move(maps)));
  const auto shared = std::make_shared<const LineMaps>(std::move(made));
  if (!shared->copies) {
    if (dtype == DType::kF32) return adding<float>(shared, outside);
    if (dtype == DType::kF64) return adding<double>(shared, outside);
    return unsupported(op, "sums of this type");
  }
  uint64_t fill = 0;  // its first bytes are the element
  write_real(dtype, outside, &fill);
  using Copy = void (*)(const LineMaps&, const void*, uint64_t, void*, void*);
  const int64_t bytes = size_bytes(dtype);
  const Copy copy = bytes == 1   ? Copy{copy_rows<uint8_t>}
                    : bytes == 2 ? Copy{copy_rows<uint16_t>}
                    : bytes == 4 ? Copy{copy_rows<uint32_t>}
                                 : Copy{copy_rows<uint64_t>};
  Built built;
  built.workspace_bytes = shared->scratch_bytes(bytes) * omp_get_max_threads();
  built.run = [shared, copy, fill](const KernelArgs& args) {
    copy(*shared, args.inputs[0], fill, args.outputs[0], args.workspace);
  };
  return built;
}

}  // namespace lowtide::exec_cpu
