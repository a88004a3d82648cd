// Every kind x every element type that its row accepts x layouts: either the results are the
// reference executor's, or the factory refuses, with a message that names the op, before anything
// is run. Nothing is written outside of the operands (testing.h). Moderate values, and infinities,
// NaN, denormals, ties and the ends of integer types.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "ops/op_table.h"
#include "support/kernel_cases.h"

namespace lowtide::exec_cpu {
namespace {

constexpr Form kForms[] = {Form::kRowMajor, Form::kChannelsLast, Form::kPermuted, Form::kWished};

// Combinations of kind, type and layout of which at least one case was taken, and of which none
// was.
struct Counts {
  int taken = 0, refused = 0;
};

// Ops of several terms, or with padding that is multiplied, where the order of the terms decides
// between an infinity and a NaN: of special values only what they write is looked at.
bool order_decides(std::string_view kind) {
  for (const std::string_view start :
       {"Conv", "BatchNorm", "GridSample", "Lstm", "Gru", "Rnn", "LpNormalize", "RunningUpdate"})
    if (kind.starts_with(start)) return true;
  return kind.ends_with("Grad");
}

class EveryType : public testing::TestWithParam<std::string> {
 protected:
  static void TearDownTestSuite() {
    std::printf("kinds x types x layouts: %d taken, %d refused, %d in all\n", counts().taken,
                counts().refused, counts().taken + counts().refused);
  }

  static Counts& counts() {
    static Counts all;
    return all;
  }

  // Cases that the factory took.
  int run(std::optional<DType> type, Form form, int cases, bool special) {
    const auto one = make_cpu_kernels({.threads = 1}), two = make_cpu_kernels({.threads = 2});
    Rng rng(std::hash<std::string>()(GetParam()) + static_cast<uint64_t>(form) * 101 +
            static_cast<uint64_t>(type.value_or(DType::kF32)) * 7 + (special ? 1 : 0));
    int taken = 0;
    for (int i = 0; i < cases && !HasFailure(); ++i) {
      const std::optional<Case> c = make_case(GetParam(), {.type = type, .special = special}, rng);
      if (!c) continue;
      const OpDesc op = in_form(*one, c->desc, form, rng);
      SCOPED_TRACE(describe(op));
      const auto workspace = one->workspace_bytes(op);
      if (!workspace) {
        EXPECT_FALSE(one->make(op));
        EXPECT_TRUE(workspace.error().message.starts_with("no CPU kernel for " + GetParam() + "("))
            << workspace.error().message;
        continue;
      }
      ++taken;
      special&& order_decides(GetParam()) ? check_guards(*c, op, *one)
                                          : check_case(*c, op, *one, *two);
    }
    return taken;
  }

  void run_all(int cases, bool special) {
    std::vector<std::optional<DType>> types;
    for (const DType type : ops::shared_types(GetParam())) types.emplace_back(type);
    if (types.empty()) types.emplace_back();
    for (const auto& type : types)
      for (const Form form : kForms)
        ++(run(type, form, cases, special) > 0 ? counts().taken : counts().refused);
  }
};

TEST_P(EveryType, IsComputedOrRefused) {
  run_all(6, false);
}

TEST_P(EveryType, IsComputedOrRefusedWithSpecialValues) {
  if (GetParam() == "Pow") return;  // an integer to the power of 2^31 takes as many steps
  run_all(5, true);
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryType, testing::ValuesIn(computed_kinds()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace lowtide::exec_cpu
