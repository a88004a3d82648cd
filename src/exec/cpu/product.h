// Matrix products inside of other kernels: oneDNN's where it has a fast one, own loops where an
// extent is one or zero.
//
// Tests: kernel_test.cc, own_product_test.cc.
#pragma once

#include <string>

#include "exec/cpu/build.h"
#include "exec/cpu/own_product.h"

namespace lowtide::exec_cpu {

// c = a b, or c += a b, all of the type of the op's first output: f32 or f64. Made once; a run is
// given the three and the workspace.
class InnerProduct {
 public:
  // `op` is named when there is no product for these extents. Error: kInput.
  static Result<InnerProduct> make(const OpDesc& op, StridedMatrix a, StridedMatrix b,
                                   StridedMatrix c, bool accumulates);
  int64_t workspace_bytes() const { return built_.workspace_bytes; }
  const std::string& implementation() const { return built_.implementation; }
  void run(const void* a, const void* b, void* c, void* workspace) const;

 private:
  Built built_;
  bool accumulates_ = false;
};

}  // namespace lowtide::exec_cpu
