// What a device needs: a program that links the plan reader, the runtime and the CPU kernels, and
// no planner, loads a plan file and runs it. runtime_links_test.cmake is half of the test: it
// refuses a planner among what these libraries link.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "exec/cpu/cpu.h"
#include "plan/plan_text.h"
#include "plan/testing/sealed_plan.h"
#include "runtime/session.h"

namespace lowtide {
namespace {

TEST(RuntimeWithoutPlanner, LoadsAndRunsAPlanWrittenByHand) {
  const auto text = read_file(LOWTIDE_SOURCE_DIR "/fuzz/corpus/plan_file/bias");
  ASSERT_TRUE(text) << text.error().message;
  const auto plan = plan::read_plan(plan::seal_plan_text(*text), "bias");
  ASSERT_TRUE(plan) << plan.error().message;

  const auto kernels = exec_cpu::make_cpu_kernels({.threads = 1});
  auto session = runtime::Session::open(*plan, *kernels);
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_EQ(session->arena_bytes(), 192);

  const std::vector<float> x = {-1, 0, 1, 2, 3, -4}, bias = {0.5f, -1, 2};
  ASSERT_TRUE(session->set("x", std::as_bytes(std::span(x))));
  ASSERT_TRUE(session->run());
  const auto bytes = session->get("y");
  ASSERT_TRUE(bytes) << bytes.error().message;
  std::vector<float> y(x.size());
  ASSERT_EQ(bytes->size(), y.size() * sizeof(float));
  std::memcpy(y.data(), bytes->data(), bytes->size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], std::max(0.0f, x[i] + bias[i % 3]));
}

}  // namespace
}  // namespace lowtide
