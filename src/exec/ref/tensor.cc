#include "exec/ref/tensor.h"

#include <fmt/core.h>

#include "base/check.h"
#include "base/element.h"

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

Result<Tensor> from_bytes(DType dtype, const Sizes& dims, std::string_view bytes,
                          std::string_view what) {
  Tensor tensor = Tensor::zeros(dtype, dims);
  const int64_t wanted = tensor.count() * size_bytes(dtype);
  if (static_cast<int64_t>(bytes.size()) != wanted)
    return error(ErrorCode::kInput, fmt::format("'{}' has {} bytes of contents; its type wants {}",
                                                what, bytes.size(), wanted));
  const auto width = static_cast<size_t>(size_bytes(dtype));
  for (size_t e = 0; e < bytes.size() / width; ++e) {
    if (tensor.real()) {
      tensor.f[e] = read_real(dtype, bytes.data() + e * width);
    } else {
      tensor.i[e] = read_integer(dtype, bytes.data() + e * width);
    }
  }
  return tensor;
}

}  // namespace lowtide::ref
