// Runs a plan in its arena, poisoned, and compares results and parameters with what the reference
// executor computes of a graph in double precision.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/element.h"
#include "exec/ref/interpreter.h"
#include "ir/graph.h"
#include "plan/plan.h"
#include "runtime/session.h"

namespace lowtide {

inline constexpr uint64_t kSeed = 5;

// The elements of a value of f32 or f64.
inline std::vector<double> reals_of(const runtime::Session& session, const ir::Value& value) {
  const auto bytes = session.get(value.name);
  EXPECT_TRUE(bytes.has_value()) << (bytes ? "" : bytes.error().message);
  const auto size = static_cast<size_t>(size_bytes(value.dtype));
  std::vector<double> reals(bytes ? bytes->size() / size : 0);
  for (size_t i = 0; i < reals.size(); ++i)
    reals[i] = read_real(value.dtype, bytes->data() + i * size);
  return reals;
}

inline void expect_near(const std::vector<double>& ours, const std::vector<double>& exact,
                        const std::string& name) {
  ASSERT_EQ(ours.size(), exact.size()) << name;
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_NEAR(ours[i], exact[i], 1e-4 * (1 + std::abs(exact[i]))) << name << "[" << i << "]";
}

// One step of the plan, of the same ops on buffers of their own, and of the reference.
inline void expect_right_results(const plan::Plan& plan, const ir::Graph& graph,
                                 const runtime::KernelFactory& kernels) {
  ref::Context context;
  context.seed = kSeed;
  context.precision = ref::Precision::kF64;
  context.seed_missing_inputs = true;
  const auto exact = ref::interpret(graph, {}, context);
  ASSERT_TRUE(exact.has_value()) << exact.error().message;
  for (const bool unplanned : {false, true}) {
    runtime::SessionOptions running;
    running.seed = kSeed;
    running.poison = true;
    running.mark = !unplanned;
    running.unplanned = unplanned;
    auto session = runtime::Session::open(plan, kernels, running);
    ASSERT_TRUE(session.has_value()) << session.error().message;
    session->seed_inputs(0);
    const Status ran = session->run();
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    if (!unplanned) {
      EXPECT_EQ(session->arena_bytes(), plan.arena_bytes);
      EXPECT_LE(session->touched_bytes(), plan.arena_bytes);
    }
    for (ir::ValueId v : graph.outputs())
      expect_near(reals_of(*session, graph.value(v)), exact->at(v).f, graph.value(v).name);
    for (ir::ValueId v : graph.values())
      if (graph.value(v).alias == ir::Alias::kUpdate) {
        const auto root = graph.storage(graph.value(v).storage).root;
        expect_near(reals_of(*session, graph.value(root)), exact->at(v).f, graph.value(v).name);
      }
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace lowtide
