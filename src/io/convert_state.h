// Conversions of ops that carry a state from one step of decoding to the next.
#pragma once

#include <span>

#include "io/onnx_ops.h"

namespace lowtide::io {

std::span<const ConvertRow> state_conversions();

}  // namespace lowtide::io
