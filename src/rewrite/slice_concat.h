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
// A copy must not become a view, which would keep all of what it is cut from, nor a view a copy.
// Sizes must be constant. The bits stay the same. Bytes are meant before rounding: each storage is
// rounded up to the alignment, so that several take a little more than one.
#pragma once

#include <span>

#include "rewrite/rules.h"

namespace lowtide::rewrite {

std::span<const Rule> slice_concat_rules();

}  // namespace lowtide::rewrite
