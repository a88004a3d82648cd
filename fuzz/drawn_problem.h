// Small scheduling problems drawn from the bytes of an input, so that nearly every input reaches
// the solver behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "fuzz/choices.h"
#include "plan/schedule_problem.h"

namespace lowtide::fuzz {

// Ops in a valid order, values with readers behind their producers, in-place pairs of equal sizes.
inline plan::ScheduleProblem drawn_problem(Choices& choices, size_t most_ops) {
  plan::ScheduleProblem problem;
  const size_t ops = 2 + choices.below(most_ops - 1);
  for (size_t op = 0; op < ops; ++op) {
    plan::SchedOp made;
    made.workspace_bytes = 32 * static_cast<int64_t>(choices.below(3));
    problem.ops.push_back(made);
  }
  for (size_t producer = 0; producer < ops; ++producer) {
    const plan::SchedOpId maker(producer);
    plan::SchedValue value;
    value.producer = maker;
    value.bytes = 32 * static_cast<int64_t>(choices.below(8));
    for (size_t op = producer + 1; op < ops; ++op)
      if (choices.below(4) == 0) value.readers.emplace_back(op);
    value.is_output = choices.below(8) == 0;
    const plan::SchedValueId made = problem.values.push_back(value);
    for (plan::SchedValueId v : problem.values.ids()) {
      const plan::SchedValue& input = problem.values[v];
      const bool read =
          std::find(input.readers.begin(), input.readers.end(), maker) != input.readers.end();
      if (!read || input.is_output || input.bytes != value.bytes) continue;
      problem.in_place.push_back({maker, v, made});
    }
    if (producer > 0 && choices.below(8) == 0)
      problem.control.emplace_back(plan::SchedOpId(choices.below(producer)), maker);
  }
  return problem;
}

}  // namespace lowtide::fuzz
