// Sizes as exported programs write them: sympy's own form, "Mul(Integer(2), Symbol('s77',
// positive=True, integer=True))".
//
// Tests: pt2_expr_test.cc.
#pragma once

#include <string_view>

#include "base/result.h"
#include "sym/expr.h"

namespace lowtide::io {

// Takes Symbol, Integer, Add, Mul, Pow with a constant exponent, Min, Max, Mod, PythonMod,
// FloorDiv, CleanDiv and CeilDiv; other text as sym::parse_expr does ("2*s0 + 1"). Error: kInput,
// naming the text and what is not taken. Depth is limited to 64.
Result<sym::Expr> parse_sympy(std::string_view text);

}  // namespace lowtide::io
