// Sums and products in canonical form. A tree of Add and Mul over values of one type (no
// broadcasting) is a polynomial in the values at its leaves: addition and multiplication are
// commutative and associative, and one distributes over the other. Two trees are equal exactly when
// their polynomials are, whatever order and brackets they were written in; so the 27 rules of
// TASO's release over sums and products, which are oriented instances of these laws, need no row
// each. They stand as rows in a test, rules_test.cc: both sides of each end in one canonical form.
//
// A tree gives way to one that is built from its polynomial alone, where that takes no more ops:
// what most products share is taken out first (Horner's scheme, greedily; ties by the order in
// which the values are made), then come powers by squaring, multiples by doubling, and the terms in
// the order in which they can be computed. Equal polynomials thus end in equal ops, which
// common-ops merges.
//
// In floating point this rounds elsewhere: results differ by a few units in the last place of the
// largest term, and much more where terms cancel; a product of a sum can overflow where the sum of
// products does not, and the reverse. So it is only done where somebody asks. With
// subtraction and division left out, no term changes its sign. A value may come to wait for later
// ones: nothing is promised of memory.
// Limits: 64 products of at most 16 values in a polynomial; above, a tree stays as it is.
// Tests: algebra_test.cc, rules_test.cc.
#pragma once

#include <span>

#include "ir/graph.h"
#include "rewrite/rules.h"

namespace lowtide::rewrite {

std::span<const Rule> algebra_rules();

}  // namespace lowtide::rewrite
