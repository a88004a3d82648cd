#include "exec/cpu/nest.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace lowtide::exec_cpu {
namespace {

std::vector<size_t> memory_order(const plan::TensorDesc& type) {
  std::vector<size_t> order(type.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  LT_CHECK(type.layout.blocked.empty() && !type.layout.strided(), "a dense value");
  if (type.layout.order.size() == order.size())
    std::copy(type.layout.order.begin(), type.layout.order.end(), order.begin());
  return order;
}

// The dims of extent above 1 in the order of memory.
std::vector<size_t> proper_order(const plan::TensorDesc& type) {
  std::vector<size_t> order = memory_order(type);
  std::erase_if(order, [&](size_t d) { return type.dims[d] == 1; });
  return order;
}

}  // namespace

std::vector<int64_t> strides_of(const plan::TensorDesc& type) {
  return lowtide::strides_of(type.layout, type.dims);
}

std::vector<int64_t> broadcast_strides(const plan::TensorDesc& type,
                                       std::span<const int64_t> dims) {
  const std::vector<int64_t> own = strides_of(type);
  std::vector<int64_t> strides(dims.size(), 0);
  const size_t lead = dims.size() - own.size();
  for (size_t d = 0; d < own.size(); ++d)
    if (type.dims[d] != 1) strides[lead + d] = own[d];
  return strides;
}

bool same_order(const plan::TensorDesc& a, const plan::TensorDesc& b) {
  if (a.layout.strided() || b.layout.strided()) return false;
  return a.dims == b.dims && a.layout.blocked == b.layout.blocked &&
         (!a.layout.blocked.empty() || proper_order(a) == proper_order(b));
}

Nest make_nest(std::span<const int64_t> dims, std::vector<std::vector<int64_t>> strides) {
  std::vector<size_t> order;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] != 1) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[0][a] > strides[0][b]; });
  Nest nest;
  nest.strides.resize(strides.size());
  for (size_t d : order) {
    bool joins = !nest.dims.empty();
    for (size_t k = 0; joins && k < strides.size(); ++k)
      joins = nest.strides[k].back() == strides[k][d] * dims[d];
    if (!joins) nest.dims.push_back(1);
    nest.dims.back() *= dims[d];
    for (size_t k = 0; k < strides.size(); ++k) {
      if (joins)
        nest.strides[k].back() = strides[k][d];
      else
        nest.strides[k].push_back(strides[k][d]);
    }
  }
  if (nest.dims.empty()) {
    nest.dims.push_back(1);
    for (auto& operand : nest.strides) operand.push_back(0);
    nest.strides[0].back() = 1;
  }
  return nest;
}

AxisView axis_view(const plan::TensorDesc& type, size_t axis) {
  AxisView view;
  bool passed = false;
  for (size_t d : memory_order(type)) {
    if (d == axis) {
      view.extent = type.dims[d];
      passed = true;
    } else {
      (passed ? view.inner : view.outer) *= type.dims[d];
    }
  }
  return view;
}

RowPlaces::RowPlaces(std::span<const int64_t> dims, std::span<const int64_t> strides) {
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (!dims_.empty() && strides_.back() == strides[d] * dims[d]) {
      dims_.back() *= dims[d];
      strides_.back() = strides[d];
    } else {
      dims_.push_back(dims[d]);
      strides_.push_back(strides[d]);
    }
  }
  if (!dims_.empty()) return;
  dims_.push_back(1);
  strides_.push_back(0);
}

std::optional<RowPlaces> rows_from(const plan::TensorDesc& type, size_t axis) {
  const std::vector<int64_t> strides = strides_of(type);
  int64_t next = 1;
  for (size_t d = type.dims.size(); d-- > axis;) {
    if (type.dims[d] != 1 && strides[d] != next) return std::nullopt;
    next *= type.dims[d];
  }
  return RowPlaces(std::span(type.dims).first(axis), std::span(strides).first(axis));
}

std::optional<RowPlaces> rows_along(const plan::TensorDesc& type, size_t axis,
                                    const plan::TensorDesc& like) {
  const std::vector<int64_t> all = strides_of(type);
  if (type.dims[axis] != 1 && all[axis] != 1) return std::nullopt;
  std::vector<int64_t> dims, strides;
  for (const size_t d : memory_order(like)) {
    if (d == axis) continue;
    dims.push_back(type.dims[d]);
    strides.push_back(all[d]);
  }
  return RowPlaces(dims, strides);
}

plan::TensorDesc without_axis(const plan::TensorDesc& type, size_t axis) {
  plan::TensorDesc rest{.dtype = type.dtype, .dims = {}, .layout = {}};
  for (size_t d = 0; d < type.dims.size(); ++d)
    if (d != axis) rest.dims.push_back(type.dims[d]);
  for (size_t d : memory_order(type))
    if (d != axis) rest.layout.order.push_back(static_cast<uint8_t>(d > axis ? d - 1 : d));
  return rest;
}

}  // namespace lowtide::exec_cpu
