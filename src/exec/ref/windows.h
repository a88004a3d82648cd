// Sliding windows in any number of spatial dimensions: which element of the input each tap of each
// output position touches. Convolutions, their gradients and pooling are all sums (or maxima) over
// these triples.
//
//   input position = output position * stride + tap * dilation - pad_begin
//
// Those that lie in the padding are skipped.
//
// Tests: interpreter_test.cc, fission_test.cc.
#pragma once

#include <cstdint>

#include "exec/ref/kernels.h"
#include "exec/ref/tensor.h"

namespace lowtide::ref {

struct Windows {
  Sizes input, output, kernel;  // spatial extents
  Sizes strides, dilations, pads_begin, pads_end;

  Windows(const Attributes& attrs, Sizes input_dims, Sizes output_dims, Sizes kernel_dims)
      : input(std::move(input_dims)),
        output(std::move(output_dims)),
        kernel(std::move(kernel_dims)) {
    const size_t n = kernel.size();
    strides = attrs.list("strides", n, 1);
    dilations = attrs.list("dilations", n, 1);
    const Sizes pads = attrs.list("pads", 2 * n, 0);
    pads_begin.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
    pads_end.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  }

  // use(output element, tap, input element) for every tap that lies inside the input; all flat,
  // row-major.
  template <class Use>
  void for_each(const Use& use) const {
    const Sizes steps = row_major_strides(input);
    for (Odometer out(output); out.live(); out.next())
      for (Odometer tap(kernel); tap.live(); tap.next()) {
        int64_t element = 0;
        bool inside = true;
        for (size_t d = 0; d < kernel.size(); ++d) {
          const int64_t at = position(out, tap, d);
          inside = inside && at >= 0 && at < input[d];
          element += at * steps[d];
        }
        if (inside) use(out.flat(), tap.flat(), element);
      }
  }

  // Taps that lie inside the input with its padding: what an average that includes the padding
  // divides by.
  int64_t padded_taps(const Odometer& out) const {
    int64_t count = 0;
    for (Odometer tap(kernel); tap.live(); tap.next()) {
      bool inside = true;
      for (size_t d = 0; d < kernel.size(); ++d) {
        const int64_t at = position(out, tap, d);
        inside = inside && at >= -pads_begin[d] && at < input[d] + pads_end[d];
      }
      count += inside;
    }
    return count;
  }

 private:
  int64_t position(const Odometer& out, const Odometer& tap, size_t d) const {
    return out[d] * strides[d] + tap[d] * dilations[d] - pads_begin[d];
  }
};

// The dimensions behind batch and channels.
inline Sizes spatial(const Sizes& dims) {
  return Sizes(dims.begin() + 2, dims.end());
}

}  // namespace lowtide::ref
