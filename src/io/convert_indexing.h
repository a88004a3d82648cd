// Conversions of ops along one axis, and of ops that read or write at places given by data.
#pragma once

#include <span>

#include "io/convert.h"
#include "io/onnx_ops.h"

namespace lowtide::io {

std::span<const ConvertRow> indexing_conversions();
std::span<const ConvertRow> einsum_conversions();

// Known indices in input i against the extent that they lie in. Error: kInput, naming the first
// that lies outside.
Status check_places(NodeCall& call, size_t i, const sym::Expr& extent);

}  // namespace lowtide::io
