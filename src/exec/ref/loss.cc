// Losses: means over what counts, and their gradients. Labels equal to ignore_index count for
// nothing; any other has to be a class and is refused if it is not, so without ignore_index all
// rows count. Of a part of the classes (first_class, classes) all labels count that would for the
// whole; those of other parts are not among its own. Of a part of the rows an operand says how many
// count in all rows.
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <optional>

#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

using Ignored = std::optional<int64_t>;

Ignored ignored_by(const Call& call) {
  if (!call.attrs.has("ignore_index")) return std::nullopt;
  return call.attrs.integer("ignore_index");
}

// How many labels count. Nothing where one is neither a class nor ignored: the call is refused.
std::optional<int64_t> count_of(Call& call, const Tensor& labels, Ignored ignored,
                                int64_t classes) {
  int64_t n = 0;
  for (int64_t line = 0; line < labels.count(); ++line) {
    const int64_t label = int_at(labels, line);
    if (label == ignored) continue;
    ++n;
    if (label >= 0 && label < classes) continue;
    call.refused = fmt::format(
        "label {} of row {} of this op's {}, counted from 0, is none of the {} classes and is not "
        "ignored",
        label, line, labels.count(), classes);
    return std::nullopt;
  }
  return n;
}

// What the operand says, where there is one.
std::optional<int64_t> given_count(const Call& call, size_t operand) {
  if (call.input(operand) == nullptr) return std::nullopt;
  return int_at(*call.input(operand), 0);
}

struct Labels {
  const Tensor& labels;
  Around split;  // of the logits
  Ignored ignored;
  int64_t first, classes;

  explicit Labels(const Call& call)
      : labels(*call.in[1]),
        split(around(call.in[0]->dims, call.attrs.integer("axis"))),
        ignored(ignored_by(call)),
        first(call.attrs.integer("first_class", 0)),
        classes(call.attrs.integer("classes", split.axis)) {}
  int64_t label(int64_t line) const { return int_at(labels, line); }
  bool counts(int64_t line) const { return label(line) != ignored; }
  // The place of the label among the classes that are here; elsewhere: outside of them.
  int64_t place(int64_t line) const { return label(line) < first ? -1 : label(line) - first; }
  std::optional<int64_t> count(Call& call) const {
    return count_of(call, labels, ignored, classes);
  }
  // Element of class a on a line; lines are numbered as the labels are.
  int64_t at(int64_t line, int64_t a) const {
    return split.at(line / split.inner, a, line % split.inner);
  }
};

struct CrossEntropyKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const Labels labels(call);
    const std::optional<int64_t> counted = labels.count(call);
    if (!counted) return;
    T total = 0;
    for (int64_t line = 0; line < labels.labels.count(); ++line) {
      T highest = -std::numeric_limits<T>::infinity(), sum = 0;
      for (int64_t a = 0; a < labels.split.axis; ++a)
        highest = std::max(highest, get<T>(x, labels.at(line, a)));
      for (int64_t a = 0; a < labels.split.axis; ++a)
        sum += std::exp(get<T>(x, labels.at(line, a)) - highest);
      const T lse = highest + std::log(sum);
      set<T>(call.out[1], line, lse);
      if (labels.counts(line)) total += lse - get<T>(x, labels.at(line, labels.label(line)));
    }
    const int64_t count = given_count(call, 2).value_or(*counted);
    set<T>(call.out[0], 0, total / static_cast<T>(count));
  }
};

struct CrossEntropyGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &lse = *call.in[2];
    const Labels labels(call);
    const std::optional<int64_t> counted = labels.count(call);
    if (!counted) return;
    const int64_t count = given_count(call, 3).value_or(*counted);
    const T scale = static_cast<T>(call.attrs.real("scale", 1)) / static_cast<T>(count);
    for (int64_t line = 0; line < labels.labels.count(); ++line) {
      if (!labels.counts(line)) continue;
      for (int64_t a = 0; a < labels.split.axis; ++a) {
        const T p = std::exp(get<T>(x, labels.at(line, a)) - get<T>(lse, line));
        const T onehot = a == labels.place(line) ? T(1) : T(0);
        set<T>(call.out[0], labels.at(line, a), scale * (p - onehot));
      }
    }
  }
};

struct LabelLogitsKernel {
  template <class T>
  static void run(Call& call) {
    const Labels labels(call);
    for (int64_t line = 0; line < labels.labels.count(); ++line) {
      const int64_t place = labels.place(line);
      if (place >= 0 && place < labels.split.axis)
        set<T>(call.out[0], line, get<T>(*call.in[0], labels.at(line, place)));
    }
  }
};

struct CrossEntropyMeanKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &lse = *call.in[0], &logits = *call.in[1], &labels = *call.in[2];
    const Ignored ignored = ignored_by(call);
    const std::optional<int64_t> counted =
        count_of(call, labels, ignored, call.attrs.integer("classes"));
    if (!counted) return;
    T total = 0;
    for (int64_t line = 0; line < labels.count(); ++line)
      if (int_at(labels, line) != ignored) total += get<T>(lse, line) - get<T>(logits, line);
    const int64_t count = given_count(call, 3).value_or(*counted);
    set<T>(call.out[0], 0, total / static_cast<T>(count));
  }
};

struct LabelCountKernel {
  template <class T>
  static void run(Call& call) {
    const std::optional<int64_t> counted =
        count_of(call, *call.in[0], ignored_by(call), call.attrs.integer("classes"));
    if (counted) set_int(call.out[0], 0, *counted);
  }
};

struct MseKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &target = *call.in[1];
    T total = 0;
    for (int64_t e = 0; e < x.count(); ++e) {
      const T d = get<T>(x, e) - get<T>(target, e);
      total += d * d;
    }
    set<T>(call.out[0], 0, total / static_cast<T>(x.count()));
  }
};

struct MseGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &target = *call.in[1];
    const T scale = 2 * static_cast<T>(call.attrs.real("scale", 1)) / static_cast<T>(x.count());
    for (int64_t e = 0; e < x.count(); ++e)
      set<T>(call.out[0], e, scale * (get<T>(x, e) - get<T>(target, e)));
  }
};

}  // namespace

void add_loss(KernelTable& table) {
  table["CrossEntropy"] = kernel<CrossEntropyKernel>();
  table["CrossEntropyGrad"] = kernel<CrossEntropyGradKernel>();
  table["LabelLogits"] = kernel<LabelLogitsKernel>();
  table["CrossEntropyMean"] = kernel<CrossEntropyMeanKernel>();
  table["LabelCount"] = kernel<LabelCountKernel>();
  table["MseLoss"] = kernel<MseKernel>();
  table["MseLossGrad"] = kernel<MseGradKernel>();
}

}  // namespace lowtide::ref
