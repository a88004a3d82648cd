// Losses: attaches one to a forward graph, with the input that carries what is right.
//
//   cross-entropy   labels are i64, the logits' dims less the class axis: [b, s, v] -> [b, s];
//                   [n, c, h, w] -> [n, h, w]. A language model's labels are given already shifted
//                   by one
//   mean squared    the target has the dims of the output
//   none            the output, one number, is the loss already
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "ir/graph.h"

namespace lowtide::autodiff {

enum class LossKind : uint8_t { kCrossEntropy, kMeanSquaredError, kModelOutput };
// As users write it: cross-entropy, mse, model.
std::string_view name(LossKind kind);

struct LossOptions {
  LossKind kind = LossKind::kCrossEntropy;
  std::string output = {};  // of the forward graph; empty: the first one of floats
  // Default: the last for rank 3, 1 for rank 2 and for images (rank 4 and more).
  std::optional<int64_t> class_axis = {};
  // The label that does not count; absent: all count. Any other has to be a class.
  std::optional<int64_t> ignore_index = {};
  bool keep_outputs = false;  // the model's outputs stay results of the step
};

// Appends the loss and returns it: an output named "loss". The fed input is named "labels" or
// "target". Error: kInput, naming the output and what does not fit; kUsage: the model has a value
// of one of these names already.
Result<ir::ValueId> attach_loss(ir::Graph& graph, const LossOptions& options = {});

}  // namespace lowtide::autodiff
