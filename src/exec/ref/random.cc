// Random ops: functions of (seed, step, stream, element of the whole tensor); see base/philox.h. A
// part of a split tensor says where it lies in the whole by the attributes whole_dims and
// part_begin, so that parts draw what the whole would have drawn.
#include "base/philox.h"
#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

// The index in the whole tensor of the element under an odometer over the part.
class WholeIndex {
 public:
  WholeIndex(const Attributes& attrs, const Sizes& dims)
      : strides_(row_major_strides(attrs.has("whole_dims") ? attrs.list("whole_dims") : dims)) {
    const Sizes begin = attrs.list("part_begin", dims.size(), 0);
    for (size_t d = 0; d < dims.size(); ++d) first_ += begin[d] * strides_[d];
  }
  uint64_t operator()(const Odometer& at) const {
    return static_cast<uint64_t>(first_ + at.dot(strides_));
  }

 private:
  Sizes strides_;
  int64_t first_ = 0;
};

RandomStream stream_of(const Call& call) {
  return RandomStream(call.context.seed, call.attrs.integer("stream"), call.context.step);
}

struct DropoutKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const WholeIndex whole(call.attrs, x.dims);
    const RandomStream stream = stream_of(call);
    const double ratio = call.attrs.real("ratio");
    const T scale = static_cast<T>(1 / (1 - ratio));
    for (Odometer at(x.dims); at.live(); at.next())
      if (static_cast<double>(stream.uniform(whole(at))) >= ratio)
        set<T>(call.out[0], at.flat(), get<T>(x, at.flat()) * scale);
  }
};

struct RandomUniformKernel {
  template <class T>
  static void run(Call& call) {
    Tensor& y = call.out[0];
    const WholeIndex whole(call.attrs, y.dims);
    const RandomStream stream = stream_of(call);
    const T low = static_cast<T>(call.attrs.real("low", 0));
    const T width = static_cast<T>(call.attrs.real("high", 1)) - low;
    for (Odometer at(y.dims); at.live(); at.next())
      set<T>(y, at.flat(), low + width * static_cast<T>(stream.uniform(whole(at))));
  }
};

}  // namespace

void add_random(KernelTable& table) {
  table["Dropout"] = kernel<DropoutKernel>();
  table["RandomUniform"] = kernel<RandomUniformKernel>();
}

}  // namespace lowtide::ref
