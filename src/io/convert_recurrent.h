// Conversions of the recurrent networks.
//
// Tests: node_cases_test.cc, convert_state_test.cc.
#pragma once

#include <span>

#include "io/onnx_ops.h"

namespace lowtide::io {

std::span<const ConvertRow> recurrent_conversions();

}  // namespace lowtide::io
