// Batch, layer and root-mean-square normalisation. Each is one reduction over the data and one
// elementwise pass, both at the speed of memory; the statistics of a batch may be ops of their
// own. Where a reduction crosses rows (batch statistics, gradients of scale and bias) rows are
// cut into chunks by the shape alone; the chunks' partial sums lie in the workspace and are added
// in their order.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/wide.h"

namespace lowtide::exec_cpu {
namespace {

// ---- batch normalisation ----
//
// x is [outer, channels, inner] in the order of memory: inner 1 is channels last. Variances come
// from sums of squares around the channel's first element, which keeps them accurate when the mean
// is far from zero.

constexpr int64_t kMaxChunks = 64;

struct Batch {
  AxisView v;
  int64_t chunks = 1;  // of outer, channels last only
  int64_t per_chunk = 1;

  double count() const { return static_cast<double>(v.outer) * static_cast<double>(v.inner); }
  // s1 and s2 of each chunk, then four rows of channels for factors.
  template <class T>
  int64_t workspace_bytes() const {
    return (16 * chunks + 4 * static_cast<int64_t>(sizeof(T))) * v.extent;
  }
};

Result<Batch> batch_of(const OpDesc& op, const TensorDesc& x) {
  if (x.dims.size() < 2) return unsupported(op, "x needs a batch and a channel dim");
  for (const auto& input : op.inputs)
    if (input->dims.size() > 1 && !same_order(*input, x))
      return unsupported(op, "operands in different layouts");
  if (op.outputs[0].dims.size() > 1 && !same_order(op.outputs[0], x))
    return unsupported(op, "the output's layout differs from the operand's");
  Batch batch{.v = axis_view(x, 1)};
  if (batch.v.inner == 1) {
    batch.chunks = std::clamp<int64_t>(batch.v.outer / 64, 1, kMaxChunks);
    batch.per_chunk = (batch.v.outer + batch.chunks - 1) / batch.chunks;
  }
  return batch;
}

// Runs part(begin row, rows, s1, s2) on the chunks and adds them up into the first chunk's sums.
template <class Part>
void sum_chunks(const Batch& b, double* sums, const Part& part) {
  const int64_t channels = b.v.extent;
  parallel_ranges(b.chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double* s = sums + 2 * channels * c;
      std::memset(s, 0, static_cast<size_t>(2 * channels) * sizeof(double));
      const int64_t first = c * b.per_chunk;
      const int64_t rows = std::min(b.per_chunk, b.v.outer - first);
      if (rows > 0) part(first, rows, s, s + channels);
    }
  });
  for (int64_t c = 1; c < b.chunks; ++c)
    for (int64_t i = 0; i < 2 * channels; ++i) sums[i] += sums[2 * channels * c + i];
}

// Runs part(offset of a span of `inner` elements, channel, s1, s2) for all spans, each channel by
// one thread.
template <class Part>
void sum_spans(const Batch& b, double* sums, const Part& part) {
  parallel_ranges(b.v.extent, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double s1 = 0, s2 = 0;
      for (int64_t o = 0; o < b.v.outer; ++o) part((o * b.v.extent + c) * b.v.inner, c, &s1, &s2);
      sums[c] = s1;
      sums[b.v.extent + c] = s2;
    }
  });
}

// Runs rows(first row, rows) or span(offset, channel) over the whole tensor.
template <class Rows, class Span>
void elementwise(const Batch& b, const Rows& rows, const Span& span) {
  if (b.v.inner == 1) {
    parallel_ranges(b.v.outer, 1 + 16384 / b.v.extent,
                    [&](int64_t begin, int64_t end) { rows(begin, end - begin); });
  } else {
    parallel_ranges(b.v.outer * b.v.extent, 1 + 16384 / b.v.inner, [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) span(s * b.v.inner, s % b.v.extent);
    });
  }
}

template <class T>
void apply_affine(const Batch& b, const T* x, T* y, const T* factor, const T* shift) {
  const auto& simd = loops_of(T());
  const int64_t channels = b.v.extent;
  elementwise(
      b,
      [&](int64_t first, int64_t rows) {
        simd.affine_rows(x + first * channels, y + first * channels, rows, channels, factor, shift);
      },
      [&](int64_t at, int64_t c) {
        simd.affine_span(x + at, y + at, b.v.inner, factor[c], shift[c]);
      });
}

// Sums over each channel of x - shift and of its square.
template <class T>
void moments(const Batch& b, const T* x, const T* shift, double* sums) {
  const auto& simd = loops_of(T());
  const int64_t channels = b.v.extent;
  if (b.v.inner == 1) {
    sum_chunks(b, sums, [&](int64_t first, int64_t rows, double* s1, double* s2) {
      simd.moments_rows(x + first * channels, rows, channels, shift, s1, s2);
    });
  } else {
    sum_spans(b, sums, [&](int64_t at, int64_t c, double* s1, double* s2) {
      simd.moments_span(x + at, b.v.inner, shift[c], s1, s2);
    });
  }
}

// The same of dy and of dy (x - mean).
template <class T>
void grad_moments(const Batch& b, const T* dy, const T* x, const T* mean, double* sums) {
  const auto& simd = loops_of(T());
  const int64_t channels = b.v.extent;
  if (b.v.inner == 1) {
    sum_chunks(b, sums, [&](int64_t first, int64_t rows, double* s1, double* s2) {
      simd.grad_moments_rows(dy + first * channels, x + first * channels, rows, channels, mean, s1,
                             s2);
    });
  } else {
    sum_spans(b, sums, [&](int64_t at, int64_t c, double* s1, double* s2) {
      simd.grad_moments_span(dy + at, x + at, b.v.inner, mean[c], s1, s2);
    });
  }
}

template <class T>
void train(const Batch& b, T epsilon, const KernelArgs& args) {
  const int64_t channels = b.v.extent;
  const T* x = static_cast<const T*>(args.inputs[0]);
  const T* scale = static_cast<const T*>(args.inputs[1]);
  const T* bias = static_cast<const T*>(args.inputs[2]);
  T* mean = static_cast<T*>(args.outputs[1]);
  T* var = static_cast<T*>(args.outputs[2]);
  double* sums = static_cast<double*>(args.workspace);
  T* factor = reinterpret_cast<T*>(sums + 2 * channels * b.chunks);
  T* shift = factor + channels;
  for (int64_t c = 0; c < channels; ++c) shift[c] = x[c * b.v.inner];
  moments(b, x, shift, sums);
  for (int64_t c = 0; c < channels; ++c) {
    const double m = sums[c] / b.count();
    const double difference = sums[channels + c] / b.count() - m * m;
    const double v = difference < 0 ? 0.0 : difference;  // a NaN stays
    mean[c] = static_cast<T>(m + static_cast<double>(shift[c]));
    var[c] = static_cast<T>(v);
    factor[c] =
        static_cast<T>(static_cast<double>(scale[c]) / std::sqrt(v + static_cast<double>(epsilon)));
    shift[c] = bias[c] - mean[c] * factor[c];
  }
  apply_affine(b, x, static_cast<T*>(args.outputs[0]), factor, shift);
}

template <class T>
Result<Built> build_batch_norm_train(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 3, 3));
  LT_ASSIGN(const Batch b, batch_of(op, *op.inputs[0]));
  const T epsilon = static_cast<T>(real_attr(op, "epsilon", 1e-5));
  Built built;
  built.workspace_bytes = b.workspace_bytes<T>();
  built.run = [=](const KernelArgs& args) { train(b, epsilon, args); };
  return built;
}

template <class T>
Result<Built> build_batch_norm_inference(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 5, 5, 1));
  LT_ASSIGN(const Batch b, batch_of(op, *op.inputs[0]));
  const T epsilon = static_cast<T>(real_attr(op, "epsilon", 1e-5));
  Built built;
  built.workspace_bytes = b.workspace_bytes<T>();
  built.run = [=](const KernelArgs& args) {
    const auto in = [&](size_t i) { return static_cast<const T*>(args.inputs[i]); };
    T* factor = static_cast<T*>(args.workspace);
    T* shift = factor + b.v.extent;
    for (int64_t c = 0; c < b.v.extent; ++c) {
      factor[c] = in(1)[c] / std::sqrt(in(4)[c] + epsilon);
      shift[c] = in(2)[c] - in(3)[c] * factor[c];
    }
    apply_affine(b, in(0), static_cast<T*>(args.outputs[0]), factor, shift);
  };
  return built;
}

// dx = scale rstd (dy - dbias / n - (x - mean) rstd dscale / n): one factor for dy, one for
// x - mean, one constant per channel.
template <class T>
struct GradFactors {
  T *of_dy, *of_x, *constant;

  GradFactors(void* room, int64_t channels)
      : of_dy(static_cast<T*>(room)), of_x(of_dy + channels), constant(of_x + channels) {}
  // `along`: the sum of dy (x - mean), times rstd^2; both sums divided by n.
  void set(int64_t c, double factor, double mean_dy, double along) {
    of_dy[c] = static_cast<T>(factor);
    of_x[c] = static_cast<T>(-factor * along);
    constant[c] = static_cast<T>(-factor * mean_dy);
  }
  void apply(const Batch& b, const T* dy, const T* x, const T* mean, T* dx) const {
    const auto& simd = loops_of(T());
    elementwise(
        b,
        [&](int64_t first, int64_t rows) {
          const int64_t at = first * b.v.extent;
          simd.affine2_rows(dy + at, x + at, dx + at, rows, b.v.extent, mean, of_dy, of_x,
                            constant);
        },
        [&](int64_t at, int64_t c) {
          simd.affine2_span(dy + at, x + at, dx + at, b.v.inner, mean[c], of_dy[c], of_x[c],
                            constant[c]);
        });
  }
};

template <class T>
double rstd_of(T variance, T epsilon) {
  return 1 / std::sqrt(static_cast<double>(variance) + static_cast<double>(epsilon));
}

template <class T>
void batch_grad(const Batch& b, T epsilon, const KernelArgs& args) {
  const int64_t channels = b.v.extent;
  const auto in = [&](size_t i) { return static_cast<const T*>(args.inputs[i]); };
  T* dscale = static_cast<T*>(args.outputs[1]);
  T* dbias = static_cast<T*>(args.outputs[2]);
  double* sums = static_cast<double*>(args.workspace);
  GradFactors<T> factors(sums + 2 * channels * b.chunks, channels);
  grad_moments(b, in(0), in(1), in(3), sums);
  for (int64_t c = 0; c < channels; ++c) {
    const double rstd = rstd_of(in(4)[c], epsilon);
    const double along = sums[channels + c] * rstd * rstd / b.count();
    dbias[c] = static_cast<T>(sums[c]);
    dscale[c] = static_cast<T>(sums[channels + c] * rstd);
    factors.set(c, static_cast<double>(in(2)[c]) * rstd, sums[c] / b.count(), along);
  }
  factors.apply(b, in(0), in(1), in(3), static_cast<T*>(args.outputs[0]));
}

template <class T>
Result<Built> build_batch_norm_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 5, 5, 3));
  LT_ASSIGN(const Batch b, batch_of(op, *op.inputs[1]));
  const T epsilon = static_cast<T>(real_attr(op, "epsilon", 1e-5));
  Built built;
  built.workspace_bytes = b.workspace_bytes<T>();
  built.run = [=](const KernelArgs& args) { batch_grad(b, epsilon, args); };
  return built;
}

// ---- the same in passes, whose sums may be of a part ----

template <class T>
Result<Built> build_batch_statistic(const OpDesc& op) {
  const bool squares = op.kind == "BatchVariance";
  LT_RETURN_IF_ERROR(check_counts(op, squares ? 2 : 1, squares ? 2 : 1, 1));
  LT_ASSIGN(const Batch b, batch_of(op, *op.inputs[0]));
  const auto count = static_cast<double>(int_attr(op, "count", 1));
  Built built;
  built.workspace_bytes = b.workspace_bytes<T>();
  built.run = [=](const KernelArgs& args) {
    const int64_t channels = b.v.extent;
    const T* x = static_cast<const T*>(args.inputs[0]);
    T* statistic = static_cast<T*>(args.outputs[0]);
    double* sums = static_cast<double*>(args.workspace);
    T* firsts = reinterpret_cast<T*>(sums + 2 * channels * b.chunks);
    for (int64_t c = 0; c < channels; ++c) firsts[c] = x[c * b.v.inner];
    moments(b, x, squares ? static_cast<const T*>(args.inputs[1]) : firsts, sums);
    for (int64_t c = 0; c < channels; ++c) {
      const double sum =
          squares ? sums[channels + c] : sums[c] + b.count() * static_cast<double>(firsts[c]);
      statistic[c] = static_cast<T>(sum / count);
    }
  };
  return built;
}

template <class T>
Result<Built> build_batch_norm_grad_sums(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 4, 4, 2));
  LT_ASSIGN(const Batch b, batch_of(op, *op.inputs[1]));
  const T epsilon = static_cast<T>(real_attr(op, "epsilon", 1e-5));
  Built built;
  built.workspace_bytes = b.workspace_bytes<T>();
  built.run = [=](const KernelArgs& args) {
    const auto in = [&](size_t i) { return static_cast<const T*>(args.inputs[i]); };
    T* dscale = static_cast<T*>(args.outputs[0]);
    T* dbias = static_cast<T*>(args.outputs[1]);
    double* sums = static_cast<double*>(args.workspace);
    grad_moments(b, in(0), in(1), in(2), sums);
    for (int64_t c = 0; c < b.v.extent; ++c) {
      dscale[c] = static_cast<T>(sums[b.v.extent + c] * rstd_of(in(3)[c], epsilon));
      dbias[c] = static_cast<T>(sums[c]);
    }
  };
  return built;
}

template <class T>
Result<Built> build_batch_norm_grad_data(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 7, 7, 1));
  LT_ASSIGN(const Batch b, batch_of(op, *op.inputs[1]));
  const T epsilon = static_cast<T>(real_attr(op, "epsilon", 1e-5));
  const auto count = static_cast<double>(int_attr(op, "count", 1));
  Built built;
  built.workspace_bytes = 3 * static_cast<int64_t>(sizeof(T)) * b.v.extent;
  built.run = [=](const KernelArgs& args) {
    const auto in = [&](size_t i) { return static_cast<const T*>(args.inputs[i]); };
    GradFactors<T> factors(args.workspace, b.v.extent);
    for (int64_t c = 0; c < b.v.extent; ++c) {
      const double rstd = rstd_of(in(4)[c], epsilon);
      factors.set(c, static_cast<double>(in(2)[c]) * rstd, static_cast<double>(in(6)[c]) / count,
                  static_cast<double>(in(5)[c]) * rstd / count);
    }
    factors.apply(b, in(0), in(1), in(3), static_cast<T*>(args.outputs[0]));
  };
  return built;
}

// ---- layer and root-mean-square normalisation ----

// The data and its gradient may be strided views whose rows have no holes.
struct Rows {
  int64_t rows = 1, cols = 1;
  int64_t chunks = 1, per_chunk = 1;
  std::vector<RowPlaces> places;  // of the data operands, in order
};

// `data`: how many operands from the first on are as large as x.
Result<Rows> rows_of(const OpDesc& op, const TensorDesc& x, size_t data) {
  auto row_major = [](const TensorDesc& type) {
    return same_order(type, {.dtype = type.dtype, .dims = type.dims, .layout = {}});
  };
  for (size_t i = data; i < op.inputs.size(); ++i)
    if (op.inputs[i] && !row_major(*op.inputs[i]))
      return unsupported(op, "operands other than the data must be row-major");
  for (const TensorDesc& output : op.outputs)
    if (!row_major(output)) return unsupported(op, "outputs must be row-major");
  const int64_t rank = static_cast<int64_t>(x.dims.size());
  int64_t axis = int_attr(op, "axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return unsupported(op, "the axis is out of range");
  Rows r;
  for (int64_t d = 0; d < rank; ++d) (d < axis ? r.rows : r.cols) *= x.dims[static_cast<size_t>(d)];
  r.chunks = std::clamp<int64_t>(r.rows / 16, 1, 16);
  r.per_chunk = (r.rows + r.chunks - 1) / r.chunks;
  for (size_t i = 0; i < data; ++i) {
    auto places = rows_from(*op.inputs[i], static_cast<size_t>(axis));
    if (!places) return unsupported(op, "the rows of an operand are not contiguous");
    r.places.push_back(std::move(*places));
  }
  return r;
}

template <class Run>
void for_rows(const Rows& r, const Run& run) {
  parallel_ranges(r.rows, 1 + 4096 / std::max<int64_t>(r.cols, 1), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) run(row);
  });
}

template <class T>
Result<Built> build_layer_norm(const OpDesc& op) {
  const bool rms = op.kind == "RmsNorm";
  LT_RETURN_IF_ERROR(rms ? check_counts(op, 2, 2, 2) : check_counts(op, 2, 3, 3));
  LT_ASSIGN(const Rows r, rows_of(op, *op.inputs[0], 1));
  const T epsilon = static_cast<T>(real_attr(op, "epsilon", 1e-5));
  const bool biased = has_input(op, 2);
  Built built;
  built.run = [=](const KernelArgs& args) {
    const T* x = static_cast<const T*>(args.inputs[0]);
    const T* scale = static_cast<const T*>(args.inputs[1]);
    const T* bias = biased ? static_cast<const T*>(args.inputs[2]) : nullptr;
    T* y = static_cast<T*>(args.outputs[0]);
    T* first = static_cast<T*>(args.outputs[1]);
    T* rstd = rms ? first : static_cast<T*>(args.outputs[2]);
    for_rows(r, [&](int64_t row) {
      const T* in = x + r.places[0].at(row);
      if (rms)
        loops_of(T()).rms_norm_row(in, scale, y + row * r.cols, r.cols, epsilon, rstd + row);
      else
        loops_of(T()).layer_norm_row(in, scale, bias, y + row * r.cols, r.cols, epsilon,
                                     first + row, rstd + row);
    });
  };
  return built;
}

// dscale and dbias of each chunk of rows lie in the workspace: chunks x (one or two rows of cols).
template <class T>
void add_up(const Rows& r, const T* partial, int64_t stride, T* out) {
  std::memcpy(out, partial, static_cast<size_t>(r.cols) * sizeof(T));
  for (int64_t c = 1; c < r.chunks; ++c) loops_of(T()).add(partial + c * stride, r.cols, out);
}

template <class T>
Result<Built> build_layer_norm_grad(const OpDesc& op) {
  const bool rms = op.kind == "RmsNormGrad";
  LT_RETURN_IF_ERROR(rms ? check_counts(op, 4, 4, 2) : check_counts(op, 5, 5, 3));
  LT_ASSIGN(const Rows r, rows_of(op, *op.inputs[1], 2));
  const int64_t stride = (rms ? 1 : 2) * r.cols;
  Built built;
  built.workspace_bytes = r.chunks * stride * static_cast<int64_t>(sizeof(T));
  built.run = [=](const KernelArgs& args) {
    const auto in = [&](size_t i) { return static_cast<const T*>(args.inputs[i]); };
    T* dx = static_cast<T*>(args.outputs[0]);
    T* partial = static_cast<T*>(args.workspace);
    parallel_ranges(r.chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        T* dscale = partial + c * stride;
        std::memset(dscale, 0, static_cast<size_t>(stride) * sizeof(T));
        for (int64_t row = c * r.per_chunk; row < std::min(r.rows, (c + 1) * r.per_chunk); ++row) {
          const T *dy = in(0) + r.places[0].at(row), *x = in(1) + r.places[1].at(row);
          T* to = dx + row * r.cols;
          if (rms)
            loops_of(T()).rms_norm_grad_row(dy, x, in(2), to, r.cols, in(3)[row], dscale);
          else
            loops_of(T()).layer_norm_grad_row(dy, x, in(2), to, r.cols, in(3)[row], in(4)[row],
                                              dscale, dscale + r.cols);
        }
      }
    });
    add_up(r, partial, stride, static_cast<T*>(args.outputs[1]));
    if (!rms) add_up(r, partial + r.cols, stride, static_cast<T*>(args.outputs[2]));
  };
  return built;
}

constexpr Builder kBatchStatistic =
    by_width<build_batch_statistic<float>, build_batch_statistic<double>>;
constexpr Builder kLayerNorm = by_width<build_layer_norm<float>, build_layer_norm<double>>;
constexpr Builder kLayerNormGrad =
    by_width<build_layer_norm_grad<float>, build_layer_norm_grad<double>>;

constexpr Entry kNormalizationEntries[] = {
    {"BatchNormTrain", "T T T -> T T T", "f32 f64",
     by_width<build_batch_norm_train<float>, build_batch_norm_train<double>>},
    {"BatchNormInference", "T T T T T -> T", "f32 f64",
     by_width<build_batch_norm_inference<float>, build_batch_norm_inference<double>>},
    {"BatchNormGrad", "T T T T T -> T T T", "f32 f64",
     by_width<build_batch_norm_grad<float>, build_batch_norm_grad<double>>},
    {"BatchMean", "T -> T", "f32 f64", kBatchStatistic, nullptr, false, "0"},
    {"BatchVariance", "T T -> T", "f32 f64", kBatchStatistic, nullptr, false, "0"},
    {"BatchNormGradSums", "T T T T -> T T", "f32 f64",
     by_width<build_batch_norm_grad_sums<float>, build_batch_norm_grad_sums<double>>, nullptr,
     false, "0 1"},
    {"BatchNormGradData", "T T T T T T T -> T", "f32 f64",
     by_width<build_batch_norm_grad_data<float>, build_batch_norm_grad_data<double>>},
    {"LayerNorm", "T T T -> T T T", "f32 f64", kLayerNorm, wish_rows<kLayerNorm>, false, {}, true},
    {"LayerNormGrad", "T T T T T -> T T T", "f32 f64", kLayerNormGrad, wish_rows<kLayerNormGrad>,
     false, "1 2", true},
    {"RmsNorm", "T T -> T T", "f32 f64", kLayerNorm, wish_rows<kLayerNorm>, false, {}, true},
    {"RmsNormGrad", "T T T T -> T T", "f32 f64", kLayerNormGrad, wish_rows<kLayerNormGrad>, false,
     "1", true},
};

}  // namespace

std::span<const Entry> normalization_kernels() {
  return kNormalizationEntries;
}

}  // namespace lowtide::exec_cpu
