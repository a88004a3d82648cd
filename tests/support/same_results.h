// Whether two graphs compute the same: all results, by name, on the reference executor in double.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "exec/ref/interpreter.h"
#include "ir/graph.h"

namespace lowtide {

inline int64_t ops_called(const ir::Graph& graph, std::string_view kind) {
  return std::count_if(graph.ops().begin(), graph.ops().end(),
                       [&](ir::OpId id) { return graph.op(id).kind == kind; });
}

// Up to rounding: 1e-12 of a number, or of 1 where it is smaller.
inline void expect_same_results(const ir::Graph& before, const ir::Graph& after) {
  ref::Context context;
  context.precision = ref::Precision::kF64;
  context.seed_missing_inputs = true;
  const auto was = ref::interpret(before, {}, context), is = ref::interpret(after, {}, context);
  ASSERT_TRUE(was.has_value()) << was.error().message;
  ASSERT_TRUE(is.has_value()) << is.error().message;
  ASSERT_EQ(before.outputs().size(), after.outputs().size());
  for (const ir::ValueId v : before.outputs()) {
    const auto now = after.find_value(before.value(v).name);
    ASSERT_TRUE(now.has_value()) << before.value(v).name;
    const auto &a = was->at(v).f, &b = is->at(*now).f;
    ASSERT_EQ(was->at(v).dims, is->at(*now).dims) << before.value(v).name;
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_LE(std::abs(a[i] - b[i]), 1e-12 * std::max(1.0, std::abs(a[i])))
          << before.value(v).name;
  }
}

}  // namespace lowtide
