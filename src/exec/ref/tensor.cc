#include "exec/ref/tensor.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace lowtide::ref {

int64_t product(const Sizes& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

int64_t Tensor::count() const {
  return product(dims);
}

Tensor Tensor::zeros(DType dtype, Sizes dims) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.dims = std::move(dims);
  const auto count = static_cast<size_t>(tensor.count());
  if (tensor.real()) {
    tensor.f.assign(count, 0.0);
  } else {
    tensor.i.assign(count, 0);
  }
  return tensor;
}

Tensor Tensor::of(DType dtype, Sizes dims, std::vector<double> values) {
  LT_CHECK(is_float(dtype) && product(dims) == static_cast<int64_t>(values.size()),
           "one value per element");
  return Tensor{dtype, std::move(dims), std::move(values), {}};
}

Tensor Tensor::of(DType dtype, Sizes dims, std::vector<int64_t> values) {
  LT_CHECK(!is_float(dtype) && product(dims) == static_cast<int64_t>(values.size()),
           "one value per element");
  return Tensor{dtype, std::move(dims), {}, std::move(values)};
}

Sizes row_major_strides(const Sizes& dims) {
  Sizes strides(dims.size(), 1);
  for (size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return strides;
}

void copy_element(Tensor& target, int64_t to, const Tensor& source, int64_t from) {
  if (source.real()) {
    target.f[static_cast<size_t>(to)] = source.f[static_cast<size_t>(from)];
  } else {
    target.i[static_cast<size_t>(to)] = source.i[static_cast<size_t>(from)];
  }
}

Odometer::Odometer(Sizes dims)
    : dims_(std::move(dims)), index_(dims_.size(), 0), count_(product(dims_)) {}

void Odometer::next() {
  ++flat_;
  for (size_t d = dims_.size(); d-- > 0;) {
    if (++index_[d] < dims_[d]) return;
    index_[d] = 0;
  }
}

int64_t Odometer::dot(const Sizes& strides) const {
  int64_t element = 0;
  for (size_t d = 0; d < index_.size(); ++d) element += index_[d] * strides[d];
  return element;
}

Sizes broadcast_strides(const Sizes& dims, const Sizes& target) {
  LT_CHECK(dims.size() <= target.size(), "an operand has at most the rank of the result");
  const Sizes own = row_major_strides(dims);
  Sizes strides(target.size(), 0);
  const size_t shift = target.size() - dims.size();
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1) strides[shift + d] = own[d];
  return strides;
}

namespace {

template <class Raw>
Raw load(const char* at) {
  Raw raw;
  std::memcpy(&raw, at, sizeof raw);
  return raw;
}

double half_to_double(uint16_t half) {
  const double sign = (half & 0x8000) ? -1.0 : 1.0;
  const int exponent = (half >> 10) & 31;
  const int mantissa = half & 1023;
  if (exponent == 31) return sign * (mantissa ? __builtin_nan("") : __builtin_inf());
  if (exponent == 0) return sign * mantissa * 0x1.0p-24;
  return sign * (1024 + mantissa) * 0x1.0p-25 * static_cast<double>(int64_t{1} << exponent);
}

void load_element(Tensor& tensor, size_t e, const char* at) {
  switch (tensor.dtype) {
    case DType::kF32:
      tensor.f[e] = static_cast<double>(load<float>(at));
      return;
    case DType::kF64:
      tensor.f[e] = load<double>(at);
      return;
    case DType::kF16:
      tensor.f[e] = half_to_double(load<uint16_t>(at));
      return;
    case DType::kBF16:
      tensor.f[e] = static_cast<double>(std::bit_cast<float>(uint32_t{load<uint16_t>(at)} << 16));
      return;
    case DType::kI64:
      tensor.i[e] = load<int64_t>(at);
      return;
    case DType::kI32:
      tensor.i[e] = load<int32_t>(at);
      return;
    case DType::kU8:
      tensor.i[e] = load<uint8_t>(at);
      return;
    case DType::kBool:
      tensor.i[e] = load<uint8_t>(at) != 0;
      return;
  }
}

}  // namespace

Result<Tensor> from_bytes(DType dtype, const Sizes& dims, std::string_view bytes,
                          std::string_view what) {
  Tensor tensor = Tensor::zeros(dtype, dims);
  const int64_t wanted = tensor.count() * size_bytes(dtype);
  if (static_cast<int64_t>(bytes.size()) != wanted)
    return error(ErrorCode::kInput, fmt::format("'{}' has {} bytes of contents; its type wants {}",
                                                what, bytes.size(), wanted));
  const auto width = static_cast<size_t>(size_bytes(dtype));
  for (size_t e = 0; e < bytes.size() / width; ++e)
    load_element(tensor, e, bytes.data() + e * width);
  return tensor;
}

}  // namespace lowtide::ref
