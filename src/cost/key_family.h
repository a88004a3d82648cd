// Which measured kernels are one op at other sizes: what a part of an op is to the op, and to its
// other parts.
//
// A key (kernel_class.h) falls into a family, all that is no size, and its sizes: dims, strides,
// bytes of blocked layouts, lists of attributes. Two kernels of a family lie on one line if all
// sizes in which they differ do so by one ratio, as those of parts of samples do: b of B samples,
// and rows of b samples of B samples' rows.
//
// Tests: store_test.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lowtide::cost {

struct KeyFamily {
  std::string family;
  std::vector<int64_t> sizes;
};

// `with_layouts`: layouts belong to the family; else the same shapes in all layouts are one kernel.
KeyFamily family_of(std::string_view key, bool with_layouts);

// Sizes of the same family: equal, or those that differ have one ratio.
bool on_one_line(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

// A measured size of an op: by its work in seconds of a model, and what it took.
struct SizedTime {
  double work = 0;
  double seconds = 0;
};

// The time at `work` between measured ones, by straight lines between the logarithms of both. Where
// more work took less time, neighbours are pooled into their mean until none does (isotonic
// regression, pool adjacent violators), so more work never takes less. Needs a measured one on
// either side (or at `work`): otherwise negative.
double time_between(std::vector<SizedTime> measured, double work);

}  // namespace lowtide::cost
