// Type legalisation: computes ops in wider element types where no kernel takes their own, before
// layouts are chosen: every conversion is an op with bytes and a cost like any other.
//
//   y f16 = Conv(x f16, w f16)   becomes   x/f32 = Cast(x); w/f32 = Cast(w)
//                                          y/f32 = Conv(x/f32, w/f32); y f16 = Cast(y/f32)
//
// An op is left alone where a kernel takes it as it is. Otherwise its operands are tried in wider
// types: f16 and bf16 as f32, so that results are rounded once; integers of fewer bits as i32 or
// i64, of whose results the lowest bits are the op's (sums and products are computed modulo 2^n,
// and what is chosen or compared has its value in both). A value is cast once for each phase that
// reads it: shared by the forward and the backward pass the copy would be held between them. Ops
// that update a storage are never cast around: their kernels take the stored type or the op is
// refused when it is planned.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "plan/kernel_catalog.h"

namespace lowtide::rewrite {

struct TypeReport {
  ir::Graph graph;
  int casts = 0;
  bool changed() const { return casts > 0; }
};

// All dims must be constant. Values keep their names, types and roles, ops their names, order,
// phases and control edges. What no kernel takes in any type stays as it is. Error: kInput, naming
// the op that cannot be typed.
Result<TypeReport> choose_types(const ir::Graph& graph, const plan::KernelCatalog& catalog);

}  // namespace lowtide::rewrite
