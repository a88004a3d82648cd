#include "exec/cpu/map_nest.h"

#include <algorithm>

#include "base/check.h"
#include "exec/cpu/parallel.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kGrainElements = 16384;  // below twice this many, one thread is as fast
constexpr int64_t kWidened = 512;

using Half = MapOperand::Half;

// n elements of 16 bits, `step` bytes apart, as floats.
void widen(Half half, const char* x, int64_t step, int64_t n, float* y) {
  const auto convert = half == Half::kF16 ? loops().widen_f16 : loops().widen_bf16;
  if (step == 2) return convert(reinterpret_cast<const uint16_t*>(x), n, y);
  std::array<uint16_t, kWidened> gathered;
  for (int64_t i = 0; i < n; ++i)
    gathered[static_cast<size_t>(i)] = *reinterpret_cast<const uint16_t*>(x + i * step);
  convert(gathered.data(), n, y);
}

}  // namespace

MapNest::MapNest(const Nest& nest, MapLoop loop, const std::vector<MapOperand>& operands,
                 const MapParams& params)
    : loop_(loop), params_(params), operands_(operands.size()), dims_(nest.dims) {
  LT_CHECK(operands_ == nest.strides.size() && operands_ <= 4, "one element size per operand");
  const bool padded = dims_.size() == 1;
  if (padded) dims_.insert(dims_.begin(), 1);
  for (size_t k = 0; k < operands_; ++k) {
    if (padded) steps_[k].push_back(0);
    for (int64_t stride : nest.strides[k]) steps_[k].push_back(stride * operands[k].element_bytes);
    halves_[k] = operands[k].half;
    widens_ |= halves_[k] != Half::kNone;
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
    MapCall rows{};
    rows.out = out + offset[0];
    for (size_t k = 0; k < operands_; ++k) {
      if (k > 0) rows.in[k - 1] = in[k - 1] + offset[k];
      rows.step0[k] = steps_[k][last - 1];
      rows.step1[k] = steps_[k][last];
    }
    rows.n0 = count;
    rows.n1 = dims_[last];
    call(rows);
    row += count;
  }
}

// Columns [begin, end) of every row: for few long rows.
void MapNest::run_columns(int64_t begin, int64_t end, char* out,
                          const std::array<const char*, 3>& in) const {
  const size_t last = dims_.size() - 1;
  for (int64_t row = 0; row < rows_; ++row) {
    MapCall columns{};
    std::array<int64_t, 4> offset{};
    int64_t rest = row;
    for (size_t d = last; d-- > 0;) {
      const int64_t index = rest % dims_[d];
      rest /= dims_[d];
      for (size_t k = 0; k < operands_; ++k) offset[k] += index * steps_[k][d];
    }
    for (size_t k = 0; k < operands_; ++k) {
      offset[k] += begin * steps_[k][last];
      if (k > 0) columns.in[k - 1] = in[k - 1] + offset[k];
      columns.step0[k] = 0;
      columns.step1[k] = steps_[k][last];
    }
    columns.out = out + offset[0];
    columns.n0 = 1;
    columns.n1 = end - begin;
    call(columns);
  }
}

void MapNest::call(const MapCall& plain) const {
  if (widens_) return call_widened(plain);
  MapCall call = plain;
  call.params = params_;
  loop_(call);
}

void MapNest::call_widened(const MapCall& call) const {
  alignas(64) std::array<std::array<float, kWidened>, 4> buffers;
  MapCall block{};
  block.params = params_;
  block.n0 = 1;
  for (int64_t row = 0; row < call.n0; ++row) {
    for (int64_t begin = 0; begin < call.n1; begin += kWidened) {
      block.n1 = std::min(kWidened, call.n1 - begin);
      for (size_t k = 1; k < operands_; ++k) {
        const char* x = call.in[k - 1] + row * call.step0[k] + begin * call.step1[k];
        block.in[k - 1] = x;
        block.step1[k] = call.step1[k];
        if (halves_[k] == Half::kNone) continue;
        const bool repeated = call.step1[k] == 0;
        widen(halves_[k], x, call.step1[k], repeated ? 1 : block.n1, buffers[k].data());
        block.in[k - 1] = reinterpret_cast<const char*>(buffers[k].data());
        block.step1[k] = repeated ? 0 : static_cast<int64_t>(sizeof(float));
      }
      char* y = call.out + row * call.step0[0] + begin * call.step1[0];
      const bool narrows = halves_[0] != Half::kNone;
      block.out = narrows ? reinterpret_cast<char*>(buffers[0].data()) : y;
      loop_(block);
      if (!narrows) continue;
      const auto narrow = halves_[0] == Half::kF16 ? loops().narrow_f16 : loops().narrow_bf16;
      narrow(buffers[0].data(), block.n1, reinterpret_cast<uint16_t*>(y));
    }
  }
}

}  // namespace lowtide::exec_cpu
