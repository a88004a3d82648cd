// Sequences of tensors, which PyTorch's exporter writes for every `chunk` and `split`, replaced by
// what they come to:
//
//   SplitToSequence(x, sizes), SequenceAt(s, k)      Slice of x
//   SequenceConstruct(a, b, c), SequenceAt(s, k)     Identity of the k-th
//   SequenceConstruct(a, b, c), ConcatFromSequence   Concat of them
//
// Sizes and places must stand in the file; what else becomes of a sequence stays as it is, and is
// refused by name. Slices need no shapes: a piece of `size` begins at k * size, and the last one is
// cut short by the end.
//
// Tests: onnx_reader_test.cc.
#pragma once

#include "io/onnx_model.h"

namespace lowtide::io {

// Functions must be expanded and the nodes in order. The nodes stay in order.
void replace_sequences(OnnxModel& model);

}  // namespace lowtide::io
