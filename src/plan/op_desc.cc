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

}  // namespace lowtide::plan
