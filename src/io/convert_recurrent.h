// Conversions of the recurrent networks.
#pragma once

#include <span>

#include "io/onnx_ops.h"

namespace lowtide::io {

std::span<const ConvertRow> recurrent_conversions();

}  // namespace lowtide::io
