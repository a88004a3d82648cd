// Gives every axis of a signature its extent from the dimensions of the inputs: the only place
// where sizes are compared.
//
// Tests: infer_test.cc, random_instance_test.cc.
#pragma once

#include <utility>
#include <vector>

#include "ops/signature.h"

namespace lowtide::ops {

// Two extents that had to be assumed equal because both are symbolic (or one is).
using Facts = std::vector<std::pair<sym::Expr, sym::Expr>>;

// Fills in axis extents; dimensions of extent 1 that stand for a larger axis become kBroadcast;
// extent-1 axes leave groups. Error: kInput, naming kind, operand, dimension and both extents.
Status bind(Signature& signature, const Instance& instance, Facts* facts);

// The extent of a dimension of a bound signature.
sym::Expr extent_of(const Signature& signature, const DimIndex& dim);
ir::Dims dims_of(const Signature& signature, const OperandIndex& operand);

}  // namespace lowtide::ops
