// The attributes of a convolution, for nodes that are one among other things.
//
// Tests: convert_test.cc, node_cases_test.cc.
#pragma once

#include "io/convert.h"

namespace lowtide::io {

// Strides, pads (auto_pad resolved), dilations and group of the node as the op Conv has them; its
// weights are input `weights`. Error: kInput.
Result<ir::Attrs> conv_attrs(NodeCall& call, size_t weights);

}  // namespace lowtide::io
