#include "exec/cpu/map_nest.h"

#include <algorithm>

#include "base/check.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kGrainElements = 16384;  // below twice this many, one thread is as fast

}  // namespace

MapNest::MapNest(const Nest& nest, MapLoop loop, std::vector<int64_t> element_bytes,
                 std::array<float, 4> params)
    : loop_(loop), params_(params), operands_(element_bytes.size()), dims_(nest.dims) {
  LT_CHECK(operands_ == nest.strides.size() && operands_ <= 4, "one element size per operand");
  const bool padded = dims_.size() == 1;
  if (padded) dims_.insert(dims_.begin(), 1);
  for (size_t k = 0; k < operands_; ++k) {
    if (padded) steps_[k].push_back(0);
    for (int64_t stride : nest.strides[k]) steps_[k].push_back(stride * element_bytes[k]);
  }
  for (size_t d = 0; d + 1 < dims_.size(); ++d) rows_ *= dims_[d];
}

void MapNest::run(char* out, const std::array<const char*, 3>& in) const {
  const int64_t cols = dims_.back();
  if (rows_ < 64 && cols >= 2 * kGrainElements) {
    parallel_ranges(cols, kGrainElements,
                    [&](int64_t begin, int64_t end) { run_columns(begin, end, out, in); });
  } else {
    parallel_ranges(rows_, std::max<int64_t>(1, kGrainElements / std::max<int64_t>(cols, 1)),
                    [&](int64_t begin, int64_t end) { run_rows(begin, end, out, in); });
  }
}

// Rows [begin, end) in as few calls as the second-last dim allows.
void MapNest::run_rows(int64_t begin, int64_t end, char* out,
                       const std::array<const char*, 3>& in) const {
  const size_t last = dims_.size() - 1;
  const int64_t group = dims_[last - 1];
  for (int64_t row = begin; row < end;) {
    const int64_t first = row % group;
    const int64_t count = std::min(group - first, end - row);
    std::array<int64_t, 4> offset{};
    int64_t rest = row;
    for (size_t d = last; d-- > 0;) {
      const int64_t index = rest % dims_[d];
      rest /= dims_[d];
      for (size_t k = 0; k < operands_; ++k) offset[k] += index * steps_[k][d];
    }
    MapCall call{};
    call.out = out + offset[0];
    for (size_t k = 0; k < operands_; ++k) {
      if (k > 0) call.in[k - 1] = in[k - 1] + offset[k];
      call.step0[k] = steps_[k][last - 1];
      call.step1[k] = steps_[k][last];
    }
    call.n0 = count;
    call.n1 = dims_[last];
    std::copy(params_.begin(), params_.end(), call.params);
    loop_(call);
    row += count;
  }
}

// Columns [begin, end) of every row: for few long rows.
void MapNest::run_columns(int64_t begin, int64_t end, char* out,
                          const std::array<const char*, 3>& in) const {
  const size_t last = dims_.size() - 1;
  for (int64_t row = 0; row < rows_; ++row) {
    MapCall call{};
    std::array<int64_t, 4> offset{};
    int64_t rest = row;
    for (size_t d = last; d-- > 0;) {
      const int64_t index = rest % dims_[d];
      rest /= dims_[d];
      for (size_t k = 0; k < operands_; ++k) offset[k] += index * steps_[k][d];
    }
    for (size_t k = 0; k < operands_; ++k) {
      offset[k] += begin * steps_[k][last];
      if (k > 0) call.in[k - 1] = in[k - 1] + offset[k];
      call.step0[k] = 0;
      call.step1[k] = steps_[k][last];
    }
    call.out = out + offset[0];
    call.n0 = 1;
    call.n1 = end - begin;
    std::copy(params_.begin(), params_.end(), call.params);
    loop_(call);
  }
}

}  // namespace lowtide::exec_cpu
