// Ops that read or write at places given by data, one index per element or one tuple of indices per
// block, and OneHot. All operands are row-major. Elements that are only moved are moved by size,
// whatever their type; a reduction computes in the type.
//
// An index outside of its dimension reads zeros and writes nothing, so that bad data cannot reach
// beyond a buffer. Threads share out what lies beside the indices (columns, batches, parts of
// blocks), never the indices of one place: equal ones are written by one thread in their order, and
// the result has the same bits always.
#include "exec/cpu/indexing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/cpu/nest.h"
#include "exec/cpu/number_types.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

struct Indices {
  bool wide = true;  // i64

  int64_t at(const void* indices, int64_t i) const {
    return wide ? static_cast<const int64_t*>(indices)[i] : static_cast<const int32_t*>(indices)[i];
  }
};

Indices indices_of(const OpDesc& op, size_t input) {
  return {op.inputs[input]->dtype == DType::kI64};
}

// The place that an index names, or -1.
int64_t place_of(int64_t index, int64_t extent) {
  const int64_t place = index < 0 ? index + extent : index;
  return place >= 0 && place < extent ? place : -1;
}

// What one element becomes: `update` written over or reduced into `old`.
enum class Reduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };

Reduction reduction_of(const OpDesc& op) {
  const std::string word = word_attr(op, "reduction", "none");
  return word == "add"   ? Reduction::kAdd
         : word == "mul" ? Reduction::kMul
         : word == "max" ? Reduction::kMax
         : word == "min" ? Reduction::kMin
                         : Reduction::kNone;
}

template <class T>
T reduced(Reduction reduction, T old, T update) {
  switch (reduction) {
    case Reduction::kNone:
      return update;
    case Reduction::kAdd:
      return static_cast<T>(old + update);
    case Reduction::kMul:
      return static_cast<T>(old * update);
    case Reduction::kMax:
      if constexpr (std::is_floating_point_v<T>)
        if (std::isnan(old)) return old;
      return old > update ? old : update;
    case Reduction::kMin:
      if constexpr (std::is_floating_point_v<T>)
        if (std::isnan(old)) return old;
      return old < update ? old : update;
  }
  return update;
}

// Writes are moves unless they reduce.
template <class Build>
Result<Built> build_for_writes(const OpDesc& op, const Build& build) {
  const DType type = op.outputs[0].dtype;
  return reduction_of(op) == Reduction::kNone ? build_for_size(type, build)
                                              : build_for_number(op, type, build);
}

// ---- one index per element ----

// Indices are [outer, along, inner] around the axis; where they are fewer than the data in another
// dimension, rows and columns of the data are further apart than theirs.
struct Elements {
  std::vector<int64_t> dims;     // of indices
  std::vector<int64_t> strides;  // of data
  size_t axis = 0;
  int64_t extent = 1;  // of data along the axis
  int64_t outer = 1, along = 1, inner = 1;
  bool dense = true;  // the inner elements of the data follow one another
  Indices indices;

  // Where element `at` of dims [begin, end) lies in the data.
  int64_t offset(int64_t at, size_t begin, size_t end) const {
    int64_t result = 0;
    for (size_t d = end; d-- > begin; at /= dims[d]) result += at % dims[d] * strides[d];
    return result;
  }
  int64_t outer_offset(int64_t o) const { return offset(o, 0, axis); }
  int64_t inner_offset(int64_t i) const { return dense ? i : offset(i, axis + 1, dims.size()); }
};

Result<Elements> elements_of(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_row_major(op));
  const TensorDesc &data = *op.inputs[0], &indices = *op.inputs[1];
  const int64_t axis = int_attr(op, "axis", 0);
  if (indices.dims.size() != data.dims.size() || axis < 0 ||
      axis >= static_cast<int64_t>(data.dims.size()))
    return unsupported(op, "indices of another rank than the data, or the axis is out of range");
  Elements e{.dims = indices.dims,
             .strides = strides_of({.dtype = data.dtype, .dims = data.dims, .layout = {}}),
             .axis = static_cast<size_t>(axis),
             .extent = data.dims[static_cast<size_t>(axis)],
             .indices = {}};
  for (size_t d = 0; d < e.dims.size(); ++d) {
    (d < e.axis ? e.outer : d == e.axis ? e.along : e.inner) *= e.dims[d];
    if (d != e.axis && e.dims[d] > data.dims[d])
      return unsupported(op, "more indices than data beside the axis");
    if (d > e.axis) e.dense &= e.dims[d] == data.dims[d];
  }
  e.indices = indices_of(op, 1);
  return e;
}

Result<Built> build_gather_elements(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_ASSIGN(const Elements e, elements_of(op));
  return build_for_size(op.outputs[0].dtype, [&]<class T>(T) {
    Built built;
    built.run = [e](const KernelArgs& args) {
      const T* data = static_cast<const T*>(args.inputs[0]);
      T* y = static_cast<T*>(args.outputs[0]);
      const int64_t step = e.strides[e.axis];
      parallel_ranges(e.outer * e.along, 1 + 8192 / std::max<int64_t>(e.inner, 1),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t row = begin; row < end; ++row) {
                          const T* from = data + e.outer_offset(row / e.along);
                          for (int64_t i = 0; i < e.inner; ++i) {
                            const int64_t at = row * e.inner + i;
                            const int64_t place =
                                place_of(e.indices.at(args.inputs[1], at), e.extent);
                            y[at] = place < 0 ? T(0) : from[place * step + e.inner_offset(i)];
                          }
                        }
                      });
    };
    return built;
  });
}

// Columns [first, last) of one outer slice, index after index.
template <class T>
void scatter_columns(const Elements& e, Reduction reduction, const void* indices, const T* updates,
                     T* y, int64_t outer, int64_t first, int64_t last) {
  T* to = y + e.outer_offset(outer);
  for (int64_t a = 0; a < e.along; ++a)
    for (int64_t i = first; i < last; ++i) {
      const int64_t at = (outer * e.along + a) * e.inner + i;
      const int64_t place = place_of(e.indices.at(indices, at), e.extent);
      if (place < 0) continue;
      T& element = to[place * e.strides[e.axis] + e.inner_offset(i)];
      element = reduced(reduction, element, updates[at]);
    }
}

constexpr int64_t kColumnsOfScatter = 64;

Result<Built> build_scatter_elements(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 3, 1));
  LT_ASSIGN(const Elements e, elements_of(op));
  if (op.inputs[2]->dims != op.inputs[1]->dims)
    return unsupported(op, "updates of another shape than the indices");
  const Reduction reduction = reduction_of(op);
  const int64_t bytes = plan::size_bytes(op.outputs[0]);
  return build_for_writes(op, [&]<class T>(T) {
    Built built;
    built.run = [e, reduction, bytes](const KernelArgs& args) {
      parallel_copy(args.outputs[0], args.inputs[0], bytes);
      const T* updates = static_cast<const T*>(args.inputs[2]);
      const int64_t groups = (e.inner + kColumnsOfScatter - 1) / kColumnsOfScatter;
      const int64_t work = e.along * std::min(e.inner, kColumnsOfScatter);
      parallel_ranges(e.outer * groups, 1 + 8192 / std::max<int64_t>(work, 1),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t unit = begin; unit < end; ++unit) {
                          const int64_t first = unit % groups * kColumnsOfScatter;
                          scatter_columns(e, reduction, args.inputs[1], updates,
                                          static_cast<T*>(args.outputs[0]), unit / groups, first,
                                          std::min(e.inner, first + kColumnsOfScatter));
                        }
                      });
    };
    return built;
  });
}

// ---- one tuple of indices per block ----

// Data is [batches, places, block], indices [batches, tuples, width], blocks [batches, tuples,
// block].
struct Tuples {
  int64_t batches = 1, places = 1, block = 1, tuples = 1, width = 1;
  std::vector<int64_t> extents, steps;  // of the chosen dims: extents, and in blocks
  Indices indices;

  // The block of the data that a tuple names, within its batch, or -1.
  int64_t place(const void* all, int64_t tuple) const {
    int64_t result = 0;
    for (int64_t d = 0; d < width; ++d) {
      const auto dim = static_cast<size_t>(d);
      const int64_t found = place_of(indices.at(all, tuple * width + d), extents[dim]);
      if (found < 0) return -1;
      result += found * steps[dim];
    }
    return result;
  }
};

Result<Tuples> tuples_of(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_row_major(op));
  const std::vector<int64_t>&data = op.inputs[0]->dims, &indices = op.inputs[1]->dims;
  const int64_t batch_dims = int_attr(op, "batch_dims", 0);
  const auto rank = static_cast<int64_t>(data.size());
  if (indices.empty() || batch_dims < 0 || batch_dims >= static_cast<int64_t>(indices.size()) ||
      indices.back() < 1 || batch_dims + indices.back() > rank)
    return unsupported(op, "tuples of indices that do not fit the data");
  Tuples t;
  t.width = indices.back();
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t extent = data[static_cast<size_t>(d)];
    (d < batch_dims ? t.batches : d < batch_dims + t.width ? t.places : t.block) *= extent;
    if (d >= batch_dims && d < batch_dims + t.width) t.extents.push_back(extent);
  }
  for (size_t d = static_cast<size_t>(batch_dims); d + 1 < indices.size(); ++d)
    t.tuples *= indices[d];
  t.steps.assign(t.extents.size(), 1);
  for (size_t d = t.extents.size(); d-- > 1;) t.steps[d - 1] = t.steps[d] * t.extents[d];
  t.indices = indices_of(op, 1);
  return t;
}

Result<Built> build_gather_nd(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_ASSIGN(const Tuples t, tuples_of(op));
  const int64_t bytes = t.block * size_bytes(op.outputs[0].dtype);
  Built built;
  built.run = [t, bytes](const KernelArgs& args) {
    const char* data = static_cast<const char*>(args.inputs[0]);
    char* y = static_cast<char*>(args.outputs[0]);
    parallel_ranges(t.batches * t.tuples, 1 + 65536 / std::max<int64_t>(bytes, 8),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const int64_t place = t.place(args.inputs[1], i);
                        char* to = y + i * bytes;
                        if (place < 0)
                          std::memset(to, 0, static_cast<size_t>(bytes));
                        else
                          std::memcpy(to, data + (i / t.tuples * t.places + place) * bytes,
                                      static_cast<size_t>(bytes));
                      }
                    });
  };
  return built;
}

// Columns [first, last) of all blocks of one batch, tuple after tuple.
template <class T>
void scatter_blocks(const Tuples& t, Reduction reduction, const void* indices, const T* updates,
                    T* y, int64_t batch, int64_t first, int64_t last) {
  for (int64_t tuple = batch * t.tuples; tuple < (batch + 1) * t.tuples; ++tuple) {
    const int64_t place = t.place(indices, tuple);
    if (place < 0) continue;
    const T* from = updates + tuple * t.block;
    T* to = y + (batch * t.places + place) * t.block;
    if (reduction == Reduction::kNone)
      std::memcpy(to + first, from + first, static_cast<size_t>(last - first) * sizeof(T));
    else
      for (int64_t i = first; i < last; ++i) to[i] = reduced(reduction, to[i], from[i]);
  }
}

Result<Built> build_scatter_nd(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 3, 1));
  LT_ASSIGN(const Tuples t, tuples_of(op));
  if (plan::element_count(*op.inputs[2]) != t.batches * t.tuples * t.block)
    return unsupported(op, "updates of another size than the tuples have blocks");
  const Reduction reduction = reduction_of(op);
  const int64_t bytes = plan::size_bytes(op.outputs[0]);
  return build_for_writes(op, [&]<class T>(T) {
    Built built;
    built.run = [t, reduction, bytes](const KernelArgs& args) {
      parallel_copy(args.outputs[0], args.inputs[0], bytes);
      constexpr int64_t kWidth = 256;
      const int64_t groups = (t.block + kWidth - 1) / kWidth;
      const int64_t work = t.tuples * std::min(t.block, kWidth);
      parallel_ranges(t.batches * groups, 1 + 16384 / std::max<int64_t>(work, 1),
                      [&](int64_t begin, int64_t end) {
                        for (int64_t unit = begin; unit < end; ++unit) {
                          const int64_t first = unit % groups * kWidth;
                          scatter_blocks(t, reduction, args.inputs[1],
                                         static_cast<const T*>(args.inputs[2]),
                                         static_cast<T*>(args.outputs[0]), unit / groups, first,
                                         std::min(t.block, first + kWidth));
                        }
                      });
    };
    return built;
  });
}

// ---- OneHot ----

Result<Built> build_one_hot(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_RETURN_IF_ERROR(check_row_major(op));
  const Indices indices = indices_of(op, 0);
  const TensorDesc& y = op.outputs[0];
  const int64_t axis = int_attr(op, "axis", 0);
  if (plan::element_count(*op.inputs[1]) != 2)
    return unsupported(op, "the values are two of the output's type");
  if (axis < 0 || axis >= static_cast<int64_t>(y.dims.size()))
    return unsupported(op, "the axis is out of range");
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < y.dims.size(); ++d)
    if (d != static_cast<size_t>(axis))
      (d < static_cast<size_t>(axis) ? outer : inner) *= y.dims[d];
  const int64_t depth = y.dims[static_cast<size_t>(axis)];
  return build_for_size(y.dtype, [&]<class T>(T) {
    Built built;
    built.run = [=](const KernelArgs& args) {
      const T* values = static_cast<const T*>(args.inputs[1]);
      T* out = static_cast<T*>(args.outputs[0]);
      const T off = values[0], on = values[1];
      parallel_ranges(outer, 1 + 65536 / std::max<int64_t>(depth * inner, 1),
                      [&](int64_t begin, int64_t end) {
                        std::fill(out + begin * depth * inner, out + end * depth * inner, off);
                        for (int64_t i = begin * inner; i < end * inner; ++i) {
                          const int64_t place = place_of(indices.at(args.inputs[0], i), depth);
                          if (place >= 0) out[(i / inner * depth + place) * inner + i % inner] = on;
                        }
                      });
    };
    return built;
  });
}

// ---- ReverseSequence ----

Result<Built> build_reverse_sequence(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_RETURN_IF_ERROR(check_row_major(op));
  const Indices lengths = indices_of(op, 1);
  const TensorDesc& x = *op.inputs[0];
  const bool time_first = int_attr(op, "time_axis", 0) == 0;
  if (x.dims.size() < 2 || x.dims != op.outputs[0].dims ||
      plan::element_count(*op.inputs[1]) != x.dims[time_first ? 1 : 0])
    return unsupported(op, "x and y are alike, with a length for each sequence");
  const int64_t steps = x.dims[time_first ? 0 : 1], batches = x.dims[time_first ? 1 : 0];
  const int64_t step = time_first ? batches : 1, sequence = time_first ? 1 : steps;  // in blocks
  int64_t bytes = size_bytes(x.dtype);
  for (size_t d = 2; d < x.dims.size(); ++d) bytes *= x.dims[d];
  Built built;
  built.run = [=](const KernelArgs& args) {
    const char* from = static_cast<const char*>(args.inputs[0]);
    char* to = static_cast<char*>(args.outputs[0]);
    parallel_ranges(
        batches * steps, 1 + 65536 / std::max<int64_t>(bytes, 8), [&](int64_t begin, int64_t end) {
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t b = unit / steps, t = unit % steps;
            const int64_t last = std::min(lengths.at(args.inputs[1], b), steps) - 1;
            const int64_t source = t <= last ? last - t : t;
            std::memcpy(to + (b * sequence + t * step) * bytes,
                        from + (b * sequence + source * step) * bytes, static_cast<size_t>(bytes));
          }
        });
  };
  return built;
}

constexpr Entry kIndexingEntries[] = {
    {"ReverseSequence", "T i -> T", "*", build_reverse_sequence, wish_row_major},
    {"GatherElements", "T i -> T", "*", build_gather_elements, wish_row_major},
    {"ScatterElements", "T i T -> T", "*", build_scatter_elements, wish_row_major},
    {"GatherND", "T i -> T", "*", build_gather_nd, wish_row_major},
    {"ScatterND", "T i T -> T", "*", build_scatter_nd, wish_row_major},
    {"OneHot", "i T -> T", "*", build_one_hot, wish_row_major}};

}  // namespace

Status check_row_major(const OpDesc& op) {
  auto fine = [](const TensorDesc& type) {
    return same_order(type, {.dtype = type.dtype, .dims = type.dims, .layout = {}});
  };
  for (const auto& input : op.inputs)
    if (input && !fine(*input)) return unsupported(op, "operands must be row-major");
  for (const TensorDesc& output : op.outputs)
    if (!fine(output)) return unsupported(op, "outputs must be row-major");
  return {};
}

std::span<const Entry> indexing_kernels() {
  return kIndexingEntries;
}

}  // namespace lowtide::exec_cpu
