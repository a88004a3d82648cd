#include "plan/op_desc.h"

namespace lowtide::plan {

int64_t element_count(const TensorDesc& desc) {
  int64_t count = 1;
  for (int64_t dim : desc.dims) {
    if (dim == 0) return 0;  // however large the others are together
    count *= dim;
  }
  return count;
}

int64_t size_bytes(const TensorDesc& desc) {
  if (!desc.layout.blocked.empty()) return desc.layout.blocked_bytes;
  return element_count(desc) * lowtide::size_bytes(desc.dtype);
}

int64_t span_bytes(const TensorDesc& desc) {
  if (!desc.layout.strided()) return size_bytes(desc);
  return strided_span(desc.dims, desc.layout.strides).value_or(0) * lowtide::size_bytes(desc.dtype);
}

const std::string* foreign_name(const Attrs& attrs) {
  const auto found = attrs.find("op");
  return found == attrs.end() ? nullptr : std::get_if<std::string>(&found->second);
}

}  // namespace lowtide::plan
