// Convolutions of one input whose kernels differ in size: those of the others are padded with zeros
// until all read the same places, and then they are one convolution with the kernels joined, whose
// result is cut (a 1x1 and a 3x3 branch of an inception; a 1x3 and a 3x1, which are one 3x3). TASO
// (Jia et al. 2019) calls it enlarging a convolution; MAGIS pads where it joins two.
//
// On each axis an output at place o reads the input at o * stride + t, for the *taps* t of its
// kernel: -pad_begin, and from there on in steps of the dilation. A kernel whose taps are all among
// those of another one computes the same with the other's taps, zeros at those it does not have. So
// a set of convolutions can be joined where these are equal: input, strides, bias or none, element
// type, sizes of the result; and where their taps lie on one grid: equal dilations, but of a kernel
// of one tap it says nothing, and offsets that are multiples of it. The joined kernel has the taps
// from the first to the last of all, and the padding behind the input of one whose last tap it is:
// with it, the result has the size that all have. Groups are left alone.
//
// A padded kernel is multiplied whole: a 1x1 as a 3x3 has nine times the operations. So it is only
// done where the predicted seconds of all ops that come are less than of those that go, of which
// those with equal kernels and attributes count as joined by themselves (shared_operand.h), where
// that is faster. The sets are runs of the kernels that there are, ordered by their number of taps;
// of those that are worth it, the one that gains most is taken, then the next. What the backward
// pass gains or loses is not counted, and nothing is promised of memory.
//
// Sums have more terms, all of them zeros: a kernel may round another shape otherwise. And zero
// times an infinity is no number, so an input that is not finite may come through where it did not.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "rewrite/product_edit.h"

namespace lowtide::rewrite {

// All dims must be constant. A graph with wholes (Join) is given back as it was. Error: kInput, and
// those of `seconds`.
Result<SharedOperandReport> enlarge_kernels(const ir::Graph& graph, const OpSeconds& seconds);

}  // namespace lowtide::rewrite
