// What planning must know of the kernels that will run: scratch bytes and preferred layouts.
// Implemented by exec/cpu; a device whose kernels are not at hand (a profile file only) plans
// without one.
//
// Tests: src/rewrite/layouts_test.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "plan/op_desc.h"

namespace lowtide::plan {

// The layouts in which a kernel is fast. Empty vectors: whatever comes is fine.
struct LayoutWish {
  std::vector<Layout> inputs;
  std::vector<Layout> outputs;
};

class KernelCatalog {
 public:
  virtual ~KernelCatalog() = default;
  // Scratch bytes of the kernel that will run `op` with exactly these layouts. Error: kInput when
  // no kernel takes it (the message names kind, dtypes, layouts), also when only a slow reference
  // implementation would.
  virtual Result<int64_t> workspace_bytes(const OpDesc& op) const = 0;
  // Asked with the layouts that the graph has now (row-major at first). For a convolution on
  // channels-last data the answer names the blocked weight formats (Layout::blocked and
  // blocked_bytes filled in).
  virtual LayoutWish wish(const OpDesc& op) const = 0;
};

}  // namespace lowtide::plan
