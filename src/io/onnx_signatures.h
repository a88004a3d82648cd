// What a node of each op may have: how many inputs and outputs, and which attributes of which type.
// The table is the union of the versions that the door reads (opsets 7 to 28), so a node that any
// of them allows passes; a node that none allows would otherwise be read as if the surplus input
// were not there, or the attribute had its default.
//
// Tests: node_cases_test.cc.
#pragma once

#include <string_view>

#include "base/result.h"
#include "io/onnx_model.h"

namespace lowtide::io {

struct OpSignature {
  std::string_view op_type;
  size_t max_inputs, max_outputs;
  std::string_view attributes;  // "axis:i perm:I", a letter for each type as in onnx_signatures.cc
};

// null for an op that the door does not take.
const OpSignature* find_signature(std::string_view op_type);

// Error: kInput, naming the node and what its op allows. Nodes of other domains, or of ops that are
// not taken, pass: refusing those is check_ops' part.
Status check_signature(const OnnxNode& node);

}  // namespace lowtide::io
