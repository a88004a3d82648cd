// The conversion of the deformable convolution.
//
// Tests: node_cases_test.cc.
#pragma once

#include <span>

#include "io/onnx_ops.h"

namespace lowtide::io {

std::span<const ConvertRow> deformable_conversions();

}  // namespace lowtide::io
