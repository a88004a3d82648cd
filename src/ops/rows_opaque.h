// Ops that this table does not know: somebody else's kernels, such as a custom op of PyTorch. Their
// attributes say what a row otherwise derives: the types of the outputs, where their storage comes
// from, how long a run takes. They are planned, proven and verified as any other op; nothing
// differentiates them, and no kernel or interpreter of this project runs them. They are split where
// their owner says how their loops walk the operands (`axes`): then a part is the same op on
// slices, and what its axes walk in operands alone adds up.
//
//   Opaque         the same inputs give the same outputs, however often it runs within a step
//   OpaqueRandom   draws from a state of its own, so that it runs once
//   OpaqueEffect   does something beyond its outputs (prints, communicates), so that it runs once;
//                  all of these keep the order in which the graph has them (io/graph_file.h)
//
//   attribute         for example            meaning
//   op:word           "mylib::scan"          what its owner calls it
//   types:word        "f32 i64"              element type of each output; "" where there is none
//   ranks:list        [2, 1]                 number of dimensions of each output
//   dims:list         [batch, 8, batch]      the dimensions of all outputs, one after another
//   aliases:word?     "own update:0"         per output: own, view:INPUT or update:INPUT; all own
//                                            where it is absent
//   offsets:list?     [0, 64]                per output: where a view starts in its input, in bytes
//   layouts:word?     "strided:1,8"          per output: how a view lies; absent: row_major
//   strided:int?      1                      its kernel reads strided views; others are copied for
//   in_place:list?    [0, 0]                 pairs: the input whose place the output may
//                                            take where it dies, if it has as many bytes
//   seconds:real?     1.5e-4                 of one run; the roofline of flops and bytes without it
//   flops:int?        1000000                of one run
//   workspace:int?    4096                   scratch bytes of one run
//   axes:word?        "a [b], b -> a [b]"    of Opaque: a signature (signature.h) without windows
//                                            and attributes; all results are own. A part takes its
//                                            share of seconds, flops and scratch
//
// Either all outputs are views, of one input, or none is: an op of views computes nothing and
// follows its base.
// Internal to this folder.
#pragma once

#include <span>

#include "ops/row.h"

namespace lowtide::ops {

std::span<const Row> opaque_rows();

}  // namespace lowtide::ops
