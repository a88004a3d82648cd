// The product of sizes: how many elements dims span.
//
// Tests: expr_test.cc.
#pragma once

#include <span>

#include "sym/expr.h"

namespace lowtide::sym {

// Of all factors; 0 where one of them is, however large the others are together.
inline Expr product(std::span<const Expr> factors) {
  Expr result = 1;
  for (const Expr& factor : factors) {
    if (factor == Expr(0)) return 0;
    result = result * factor;
  }
  return result;
}

}  // namespace lowtide::sym
