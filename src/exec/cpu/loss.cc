// Losses. CrossEntropy reads the logits once (a running maximum with a rescaled sum, see
// simd_rows.h) and its gradient is one pass that may overwrite them. Labels that are ignored count
// for nothing; others have to be classes, and are refused where they are not. A kernel that runs
// all the same (alone, to be timed) leaves those out, so that bad data cannot reach past the
// logits. Lines (one per label) are summed in double in their order, so the loss does not depend on
// the number of threads. Of a part of the classes only the labels are another matter: they count
// from the first class of all. Of a part of the rows an operand says how many count in all.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/wide.h"

namespace lowtide::exec_cpu {
namespace {

// Which labels count.
struct Counted {
  std::optional<int64_t> ignore = {};
  int64_t classes = 0;  // in all

  // `here`: the classes of an op that does not say how many there are in all.
  Counted(const OpDesc& op, int64_t here) : classes(int_attr(op, "classes", here)) {
    if (op.attrs.contains("ignore_index")) ignore = int_attr(op, "ignore_index", 0);
  }
  bool operator()(int64_t label) const { return label != ignore && label >= 0 && label < classes; }
  int64_t among(const void* labels, int64_t lines) const {
    const int64_t* all = static_cast<const int64_t*>(labels);
    return std::count_if(all, all + lines, *this);
  }
};

// An op does not know whose loss it is.
constexpr std::string_view kNoneIgnored =
    ", and no label is ignored; one to leave out is said by plan --ignore-index of an attached "
    "loss, by ignore_index in a model's own";

// Refuses a label that is neither a class nor ignored.
Status check_labels(const Counted& counts, const void* labels, int64_t lines) {
  const int64_t* all = static_cast<const int64_t*>(labels);
  const int64_t* bad = std::find_if(all, all + lines, [&](int64_t label) {
    return label != counts.ignore && (label < 0 || label >= counts.classes);
  });
  if (bad == all + lines) return {};
  return error(
      ErrorCode::kInput,
      fmt::format("label {} of row {} of this op's {}, counted from 0, is none of the {} classes{}",
                  *bad, bad - all, lines, counts.classes,
                  counts.ignore ? fmt::format(", nor {}, which is ignored", *counts.ignore)
                                : std::string(kNoneIgnored)));
}

// Refuses by the labels of operand `which`, of so many lines.
std::function<Status(const KernelArgs&)> accepts_labels(const Counted& counts, size_t which,
                                                        int64_t lines) {
  return [=](const KernelArgs& args) { return check_labels(counts, args.inputs[which], lines); };
}

// What the operand says, where there is one.
std::optional<int64_t> given_count(const KernelArgs& args, size_t operand) {
  if (args.inputs.size() <= operand || args.inputs[operand] == nullptr) return std::nullopt;
  return *static_cast<const int64_t*>(args.inputs[operand]);
}

// Logits as [outer, classes, inner] in the order of memory; line = outer index * inner + inner
// index.
struct Lines {
  AxisView view;
  Counted counts;           // among all classes,
  int64_t first_class = 0;  // of which view.extent are here, from this one on

  int64_t count() const { return view.outer * view.inner; }
  // The class of a line, or -1 when it counts for nothing.
  int64_t label(const void* labels, int64_t line) const {
    const int64_t c = static_cast<const int64_t*>(labels)[line];
    return counts(c) ? c : -1;
  }
  // Where that is here; -1: elsewhere.
  int64_t place(int64_t label) const {
    return label < first_class || label - first_class >= view.extent ? -1 : label - first_class;
  }
  int64_t first(int64_t line) const {
    return line / view.inner * view.extent * view.inner + line % view.inner;
  }
};

Result<Lines> lines_of(const OpDesc& op, const TensorDesc& lse) {
  const TensorDesc& logits = *op.inputs[0];
  const TensorDesc& labels = *op.inputs[1];
  int64_t axis = int_attr(op, "axis", 1);
  if (axis < 0) axis += static_cast<int64_t>(logits.dims.size());
  if (axis < 0 || axis >= static_cast<int64_t>(logits.dims.size()))
    return unsupported(op, "the axis is out of range");
  const TensorDesc rest = without_axis(logits, static_cast<size_t>(axis));
  if (!same_order(rest, labels) || !same_order(rest, lse))
    return unsupported(op, "labels must lie in the order of the logits without their classes");
  const AxisView view = axis_view(logits, static_cast<size_t>(axis));
  return Lines{view, Counted(op, view.extent), int_attr(op, "first_class", 0)};
}

template <class T>
void log_sum_exp(const Lines& lines, const T* x, T* lse) {
  const auto& simd = loops_of(T());
  const AxisView& v = lines.view;
  if (v.inner == 1) {
    parallel_ranges(v.outer, 1 + 4096 / v.extent, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        T max = 0, sum = 0;
        simd.max_and_sum(x + r * v.extent, v.extent, &max, &sum);
        lse[r] = max + std::log(sum);
      }
    });
    return;
  }
  const int64_t groups = (v.inner + kColumns - 1) / kColumns;
  parallel_ranges(v.outer * groups, 1 + 16 / v.extent, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t o = unit / groups, i = unit % groups * kColumns;
      simd.log_sum_exp_columns(x + o * v.extent * v.inner + i, v.extent, v.inner,
                               std::min(kColumns, v.inner - i), lse + o * v.inner + i);
    }
  });
}

template <class T>
Result<Built> build_cross_entropy(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 3, 2));
  LT_ASSIGN(const Lines lines, lines_of(op, op.outputs[1]));
  Built built;
  built.run = [=](const KernelArgs& args) {
    const T* x = static_cast<const T*>(args.inputs[0]);
    T* lse = static_cast<T*>(args.outputs[1]);
    log_sum_exp(lines, x, lse);
    double total = 0;
    int64_t counted = 0;
    for (int64_t line = 0; line < lines.count(); ++line) {
      const int64_t c = lines.label(args.inputs[1], line);
      if (c < 0) continue;
      total += static_cast<double>(lse[line]) -
               static_cast<double>(x[lines.first(line) + c * lines.view.inner]);
      ++counted;
    }
    const int64_t divisor = given_count(args, 2).value_or(counted);
    *static_cast<T*>(args.outputs[0]) = static_cast<T>(total / static_cast<double>(divisor));
  };
  built.accepts = accepts_labels(lines.counts, 1, lines.count());
  return built;
}

// One line at a time where classes are neighbours.
template <class T>
void grad_rows(const Lines& lines, const T* x, const void* labels, const T* lse, T scale, T* dx) {
  const auto& simd = loops_of(T());
  const int64_t classes = lines.view.extent;
  parallel_ranges(lines.view.outer, 1 + 4096 / classes, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t c = lines.label(labels, r);
      T* out = dx + r * classes;
      if (c < 0) {
        std::memset(out, 0, static_cast<size_t>(classes) * sizeof(T));
        continue;
      }
      simd.scaled_exp_row(x + r * classes, out, classes, lse[r], scale);
      if (const int64_t at = lines.place(c); at >= 0) out[at] -= scale;
    }
  });
}

// Class by class where lines are neighbours.
template <class T>
void grad_columns(const Lines& lines, const T* x, const void* labels, const T* lse, T scale,
                  T* dx) {
  const AxisView& v = lines.view;
  parallel_ranges(v.outer * v.inner, 1 + 4096 / v.extent, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t c = lines.label(labels, line), first = lines.first(line);
      for (int64_t a = 0; a < v.extent; ++a) {
        const int64_t at = first + a * v.inner;
        const bool is_label = a == c - lines.first_class;
        dx[at] = c < 0 ? T(0) : scale * (std::exp(x[at] - lse[line]) - (is_label ? T(1) : T(0)));
      }
    }
  });
}

template <class T>
Result<Built> build_cross_entropy_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 4, 1));
  LT_ASSIGN(const Lines lines, lines_of(op, *op.inputs[2]));
  if (!same_order(*op.inputs[0], op.outputs[0]))
    return unsupported(op, "the gradient must lie as the logits do");
  const double scale = real_attr(op, "scale", 1);
  Built built;
  built.run = [=](const KernelArgs& args) {
    const T* x = static_cast<const T*>(args.inputs[0]);
    const T* lse = static_cast<const T*>(args.inputs[2]);
    T* dx = static_cast<T*>(args.outputs[0]);
    const std::optional<int64_t> given = given_count(args, 3);
    const int64_t counted = given ? *given : lines.counts.among(args.inputs[1], lines.count());
    const T weight = static_cast<T>(scale / static_cast<double>(std::max<int64_t>(counted, 1)));
    (lines.view.inner == 1 ? grad_rows<T> : grad_columns<T>)(lines, x, args.inputs[1], lse, weight,
                                                             dx);
  };
  built.accepts = accepts_labels(lines.counts, 1, lines.count());
  return built;
}

template <class T>
Result<Built> build_label_logits(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  LT_ASSIGN(const Lines lines, lines_of(op, op.outputs[0]));
  Built built;
  built.run = [=](const KernelArgs& args) {
    const T* x = static_cast<const T*>(args.inputs[0]);
    const int64_t* labels = static_cast<const int64_t*>(args.inputs[1]);
    T* y = static_cast<T*>(args.outputs[0]);
    for (int64_t line = 0; line < lines.count(); ++line) {
      const int64_t at = lines.place(labels[line]);
      y[line] = at < 0 ? T(0) : x[lines.first(line) + at * lines.view.inner];
    }
  };
  return built;
}

template <class T>
Result<Built> build_cross_entropy_mean(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 3, 4, 1));
  for (const size_t other : {size_t{1}, size_t{2}})
    if (!same_order(*op.inputs[0], *op.inputs[other]))
      return unsupported(op, "operands in different layouts");
  const int64_t count = plan::element_count(*op.inputs[0]);
  const Counted counts(op, 0);
  Built built;
  built.run = [=](const KernelArgs& args) {
    const T* lse = static_cast<const T*>(args.inputs[0]);
    const T* logits = static_cast<const T*>(args.inputs[1]);
    const int64_t* labels = static_cast<const int64_t*>(args.inputs[2]);
    double total = 0;
    int64_t counted = 0;
    for (int64_t line = 0; line < count; ++line) {
      if (!counts(labels[line])) continue;
      total += static_cast<double>(lse[line]) - static_cast<double>(logits[line]);
      ++counted;
    }
    const int64_t divisor = given_count(args, 3).value_or(counted);
    *static_cast<T*>(args.outputs[0]) = static_cast<T>(total / static_cast<double>(divisor));
  };
  built.accepts = accepts_labels(counts, 2, count);
  return built;
}

Result<Built> build_label_count(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 1, 1, 1));
  const int64_t lines = plan::element_count(*op.inputs[0]);
  const Counted counts(op, 0);
  Built built;
  built.run = [=](const KernelArgs& args) {
    *static_cast<int64_t*>(args.outputs[0]) = counts.among(args.inputs[0], lines);
  };
  built.accepts = accepts_labels(counts, 0, lines);
  return built;
}

// Fixed chunks of 2^16 elements, summed in their order.
template <class T>
Result<Built> build_mse(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 2, 1));
  if (!same_order(*op.inputs[0], *op.inputs[1]))
    return unsupported(op, "operands in different layouts");
  const int64_t count = plan::element_count(*op.inputs[0]);
  constexpr int64_t kChunk = 1 << 16;
  const int64_t chunks = (count + kChunk - 1) / kChunk;
  Built built;
  built.workspace_bytes = chunks * static_cast<int64_t>(sizeof(double));
  built.run = [=](const KernelArgs& args) {
    const T* x = static_cast<const T*>(args.inputs[0]);
    const T* target = static_cast<const T*>(args.inputs[1]);
    double* sums = static_cast<double*>(args.workspace);
    parallel_ranges(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        sums[c] = loops_of(T()).sum_of_squared_differences(x + c * kChunk, target + c * kChunk,
                                                           std::min(kChunk, count - c * kChunk));
    });
    double total = 0;
    for (int64_t c = 0; c < chunks; ++c) total += sums[c];
    *static_cast<T*>(args.outputs[0]) = static_cast<T>(total / static_cast<double>(count));
  };
  return built;
}

constexpr Entry kLossEntries[] = {
    {"CrossEntropy", "T i64 i64 -> T T", "f32 f64",
     by_width<build_cross_entropy<float>, build_cross_entropy<double>>},
    {"CrossEntropyGrad", "T i64 T i64 -> T", "f32 f64",
     by_width<build_cross_entropy_grad<float>, build_cross_entropy_grad<double>>},
    {"LabelLogits", "T i64 -> T", "f32 f64",
     by_width<build_label_logits<float>, build_label_logits<double>>, nullptr, false, "0"},
    {"CrossEntropyMean", "T T i64 i64 -> T", "f32 f64",
     by_width<build_cross_entropy_mean<float>, build_cross_entropy_mean<double>>},
    {"LabelCount", "i64 -> i64", "i64", build_label_count},
    {"MseLoss", "T T -> T", "f32 f64", by_width<build_mse<float>, build_mse<double>>},
};

}  // namespace

std::span<const Entry> loss_kernels() {
  return kLossEntries;
}

}  // namespace lowtide::exec_cpu
