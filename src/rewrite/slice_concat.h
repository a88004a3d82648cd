// Values that are cut and joined again, or joined and cut: the pairs cancel (TASO's rules of concat
// and split). The rules, and why none needs more memory or time in any schedule:
//
//   whole-slice        Slice(x) that is all of x        -> x            a view of x becomes x
//   slice-of-slice     Slice(Slice(x))                  -> Slice(x)     the inner one is a view, or
//                      has no other reader: then the new one runs where the inner one did
//   concat-of-one      Concat(x)                        -> x            one copy of x instead of
//                      two
//   concat-of-slices   Concat(.., x[a:b], x[b:c], ..)   -> Concat(.., x[a:c], ..), or x where that
//                      is all: nobody else reads the slices, which together are as large
//   concat-of-concat   Concat(.., Concat(x, y), ..)     -> Concat(.., x, y, ..)  likewise
//   slice-of-concat    Slice(Concat(.., x, ..)) in x    -> Slice(x), or x where it is all of it:
//                      where all who read the Concat are such slices, so that it goes
//
// Rules whose conditions are alternatives have a row for each. A copy must not become a view, which
// would keep all of what it is cut from, nor a view a copy.
// One rule more is for steps in which ops may run again (direct_slice_rules):
//
//   slice-of-read-slice   Slice(Slice(x))   -> Slice(x)   both are copies
//
// In a chain of slices, each of the one before, all of them have to be made again for the last one;
// cut from x itself, each can be made right before it is read, in the same time. But x lives until
// the last is cut: where each op runs once, that may be more memory.
//
// Sizes must be constant. The bits stay the same. Bytes are meant before rounding: each storage is
// rounded up to the alignment, so that several take a little more than one.
#pragma once

#include <span>

#include "rewrite/rules.h"

namespace lowtide::rewrite {

std::span<const Rule> slice_concat_rules();
std::span<const Rule> direct_slice_rules();

}  // namespace lowtide::rewrite
