// The conversion of the deformable convolution.
#pragma once

#include <span>

#include "io/onnx_ops.h"

namespace lowtide::io {

std::span<const ConvertRow> deformable_conversions();

}  // namespace lowtide::io
