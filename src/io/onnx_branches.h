// If nodes whose condition is known when the model is read, replaced by the branch that is taken.
//
// A condition is known when it follows from shapes and constants alone (exporters write "is this
// dim 1?" so, around a Squeeze). It is found by converting the model as far as it goes; conditions
// that need values from a branch are found in the next round. Functions are expanded and nodes
// ordered in each round, since branches call functions, too.
//
// Names that a branch makes stay unless the model has them already; its outputs take the names of
// the If's.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "io/onnx_model.h"
#include "io/onnx_reader.h"

namespace lowtide::io {

inline bool is_if(const OnnxNode& node) {
  return node.op_type == "If" && node.domain.empty();
}

// Leaves functions expanded and nodes in order; an If whose condition is not known stays. Error:
// kInput: as expand_functions and order_nodes; a branch whose outputs are not those of its If;
// conditions of Ifs behind Ifs that take more work than a model is worth.
Status take_branches(OnnxModel& model, const OnnxOptions& options);

// The names that the subgraphs of a node read from around it.
std::set<std::string> captured_names(const OnnxNode& node);

}  // namespace lowtide::io
