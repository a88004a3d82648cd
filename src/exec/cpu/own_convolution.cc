// Convolutions of f64, which oneDNN does not have: plain sums of products by the definition. A unit
// of work is one plane of what is computed: an image's output channel, an image's input channel, or
// the taps between two channels. One thread sums each element, in one order, so the bits do not
// depend on threads. Operands are strides over (image, channel, three spatial dims); missing
// spatial dims have extent 1.
#include <array>
#include <memory>

#include "exec/cpu/convolution_geometry.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

using Triple = std::array<int64_t, 3>;

// Where the elements of one operand lie. Weights: outer is the output channel, inner the channel
// within the group.
struct Places {
  int64_t outer = 0, inner = 0;
  Triple extent{1, 1, 1}, step{0, 0, 0};

  int64_t at(int64_t o, int64_t i) const { return o * outer + i * inner; }
  int64_t at(const Triple& p) const { return p[0] * step[0] + p[1] * step[1] + p[2] * step[2]; }
};

Places places_of(const TensorDesc& type) {
  const std::vector<int64_t> strides = strides_of(type);
  const size_t spatial = type.dims.size() - 2, lead = 3 - spatial;
  Places places{.outer = strides[0], .inner = strides[1]};
  for (size_t d = 0; d < spatial; ++d) {
    places.extent[lead + d] = type.dims[2 + d];
    places.step[lead + d] = strides[2 + d];
  }
  return places;
}

// Calls use(position) for all positions of a box.
template <class Use>
void for_each(const Triple& extent, const Use& use) {
  for (int64_t z = 0; z < extent[0]; ++z)
    for (int64_t y = 0; y < extent[1]; ++y)
      for (int64_t x = 0; x < extent[2]; ++x) use(Triple{z, y, x});
}

class OwnConvolution {
 public:
  explicit OwnConvolution(const ConvGeometry& g)
      : data_(places_of(g.data)),
        weights_(places_of(g.weights)),
        result_(places_of(g.result)),
        images_(g.data.dims[0]),
        group_(g.group),
        channels_(g.weights.dims[1]),
        filters_(g.weights.dims[0] / g.group) {
    const size_t lead = 3 - g.strides.size();
    for (size_t d = 0; d < g.strides.size(); ++d) {
      stride_[lead + d] = g.strides[d];
      dilation_[lead + d] = g.dilations[d] + 1;
      pad_[lead + d] = g.pads_begin[d];
    }
  }

  void forward(const double* x, const double* w, const double* bias, double* y) const {
    const int64_t all = group_ * filters_;
    parallel_ranges(images_ * all, 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t n = unit / all, k = unit % all, first = k / filters_ * channels_;
        for_each(result_.extent, [&](const Triple& o) {
          double sum = bias != nullptr ? bias[k] : 0.0;
          for (int64_t c = 0; c < channels_; ++c)
            for_each(weights_.extent, [&](const Triple& tap) {
              Triple in;
              if (!input_of(o, tap, in)) return;
              sum += x[data_.at(n, first + c) + data_.at(in)] *
                     w[weights_.at(k, c) + weights_.at(tap)];
            });
          y[result_.at(n, k) + result_.at(o)] = sum;
        });
      }
    });
  }

  void data_gradient(const double* dy, const double* w, const double* bias, double* dx) const {
    const int64_t all = group_ * channels_;
    parallel_ranges(images_ * all, 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t n = unit / all, channel = unit % all;
        const int64_t c = channel % channels_, first = channel / channels_ * filters_;
        for_each(data_.extent, [&](const Triple& in) {
          double sum = bias != nullptr ? bias[channel] : 0.0;
          for_each(weights_.extent, [&](const Triple& tap) {
            Triple o;
            if (!output_of(in, tap, o)) return;
            for (int64_t k = first; k < first + filters_; ++k)
              sum += dy[result_.at(n, k) + result_.at(o)] * w[weights_.at(k, c) + weights_.at(tap)];
          });
          dx[data_.at(n, channel) + data_.at(in)] = sum;
        });
      }
    });
  }

  // `more` may lie where dw does, or be null.
  void weights_gradient(const double* x, const double* dy, const double* more, double* dw) const {
    parallel_ranges(group_ * filters_ * channels_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t k = unit / channels_, c = unit % channels_;
        const int64_t channel = k / filters_ * channels_ + c;
        for_each(weights_.extent, [&](const Triple& tap) {
          const int64_t at = weights_.at(k, c) + weights_.at(tap);
          double sum = 0;
          for (int64_t n = 0; n < images_; ++n)
            for_each(result_.extent, [&](const Triple& o) {
              Triple in;
              if (!input_of(o, tap, in)) return;
              sum += x[data_.at(n, channel) + data_.at(in)] * dy[result_.at(n, k) + result_.at(o)];
            });
          dw[at] = more != nullptr ? more[at] + sum : sum;
        });
      }
    });
  }

 private:
  // The input position that meets a tap at an output position; false when it lies in the
  // padding.
  bool input_of(const Triple& o, const Triple& tap, Triple& in) const {
    for (size_t d = 0; d < 3; ++d) {
      in[d] = o[d] * stride_[d] + tap[d] * dilation_[d] - pad_[d];
      if (in[d] < 0 || in[d] >= data_.extent[d]) return false;
    }
    return true;
  }

  // The output position at which a tap meets an input position; false when there is none.
  bool output_of(const Triple& in, const Triple& tap, Triple& o) const {
    for (size_t d = 0; d < 3; ++d) {
      const int64_t steps = in[d] + pad_[d] - tap[d] * dilation_[d];
      if (steps < 0 || steps % stride_[d] != 0) return false;
      o[d] = steps / stride_[d];
      if (o[d] >= result_.extent[d]) return false;
    }
    return true;
  }

  Places data_, weights_, result_;
  int64_t images_, group_;
  int64_t channels_, filters_;  // of one group
  Triple stride_{1, 1, 1}, dilation_{1, 1, 1}, pad_{0, 0, 0};
};

const double* operand_of(const KernelArgs& args, size_t i) {
  return i < args.inputs.size() ? static_cast<const double*>(args.inputs[i]) : nullptr;
}

Status check_layouts(const OpDesc& op) {
  for (const auto& x : op.inputs)
    if (x && !x->layout.blocked.empty()) return unsupported(op, "f64 in a blocked layout");
  if (!op.outputs[0].layout.blocked.empty()) return unsupported(op, "f64 in a blocked layout");
  if (op.kind == "ConvWgtGrad" && has_input(op, 2) && !same_order(*op.inputs[2], op.outputs[0]))
    return unsupported(op, "the accumulator's layout differs from the output's");
  return {};
}

}  // namespace

Result<Built> make_own_convolution(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_layouts(op));
  LT_ASSIGN(const ConvGeometry g, conv_geometry(op));
  const auto convolution = std::make_shared<const OwnConvolution>(g);
  const bool third = has_input(op, 2);
  using Run = void (OwnConvolution::*)(const double*, const double*, const double*, double*) const;
  const Run run = op.kind == "Conv"           ? &OwnConvolution::forward
                  : op.kind == "ConvDataGrad" ? &OwnConvolution::data_gradient
                                              : &OwnConvolution::weights_gradient;
  Built built;
  built.run = [convolution, run, third](const KernelArgs& args) {
    ((*convolution).*run)(operand_of(args, 0), operand_of(args, 1),
                          third ? operand_of(args, 2) : nullptr,
                          static_cast<double*>(args.outputs[0]));
  };
  return built;
}

}  // namespace lowtide::exec_cpu
