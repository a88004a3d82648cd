// Holds one step of a plan against the same step of another plan of the same model, value by value
// with the same names: a plan in parts against the whole, which adds the same numbers in another
// order and so cannot be equal to the bit.
//
// What is held: every gradient of a parameter that both steps make under the same name, every
// output, and every parameter and state as the step leaves it. A difference is relative: of the
// largest difference of two elements to the largest magnitude of that value; where this is small
// beside those of its kind (a gradient that is zero but for rounding, as of a key's bias in
// attention), to a share of theirs. A parameter that Adam updates is judged otherwise: its step is
// the learning rate times a ratio near one whose sign rounding decides where a gradient is zero, so
// two correct steps may be twice the learning rate apart.
//
// Some steps have no digits to spare: in a ResNet with batch statistics rounding decides some of
// the signs that Relu asks for, and gradients in f32 are 1 to 2 % from those in f64. So what
// differs by more than the tolerance is held against the step's own rounding: the whole step runs
// once more with the last bit of each weight and input changed. A difference of at most kRoundings
// times what that changes is rounding, and is counted apart.
//
// Tests: tests/python/test_compare_whole.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/result.h"
#include "plan/plan.h"
#include "report/run_report.h"
#include "runtime/session.h"

namespace lowtide {

// Of two elements at the same place; infinite where one is NaN or infinite and the other is not.
double largest_difference(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b);

using report::kWholeTolerance;
using report::WholeComparison;

// Runs one step of each, from the same seeds. `whole` is a session of `whole_plan`, `parts` one of
// `plan`; `again` opens one more of `whole_plan` with the same contents. Error: kUsage, naming a
// result of the whole step that the other has with another type; otherwise as Session::run.
Result<WholeComparison> compare_with_whole(const plan::Plan& plan, runtime::Session& parts,
                                           const plan::Plan& whole_plan, runtime::Session& whole,
                                           const std::function<Result<runtime::Session>()>& again);

}  // namespace lowtide
