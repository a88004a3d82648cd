// Every kind x every element type that its row accepts x layouts: either the results are the
// reference executor's, or the factory refuses, with a message that names the op, before anything
// is run. Nothing is written outside of the operands (testing.h). Moderate values, and infinities,
// NaN, denormals, ties and the ends of integer types. How many combinations there are, and how many
// of them are taken, is counted once for all kinds.
#include <gtest/gtest.h>

#include <cstdio>

#include "ops/op_table.h"
#include "support/kernel_cases.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int kKnownTaken = 3709;  // combinations

constexpr Form kForms[] = {Form::kRowMajor, Form::kChannelsLast, Form::kPermuted, Form::kWished};

// What became of a combination of kind, type and layout: at least one case was taken, none was, or
// none could be drawn (attributes that are not for the type).
enum class Verdict : uint8_t { kTaken, kRefused, kNothing };

std::vector<std::optional<DType>> types_of(const std::string& kind) {
  std::vector<std::optional<DType>> types;
  for (const DType type : ops::shared_types(kind)) types.emplace_back(type);
  if (types.empty()) types.emplace_back();
  return types;
}

// Ops of several terms, or with padding that is multiplied, where the order of the terms decides
// between an infinity and a NaN: of special values only what they write is looked at.
bool order_decides(std::string_view kind) {
  for (const std::string_view start :
       {"Conv", "Batch", "GridSample", "Lstm", "Gru", "Rnn", "LpNormalize", "RunningUpdate"})
    if (kind.starts_with(start)) return true;
  return kind.ends_with("Grad");
}

class EveryType : public testing::TestWithParam<std::string> {
 protected:
  Verdict run(std::optional<DType> type, Form form, int cases, bool special) {
    const auto one = make_cpu_kernels({.threads = 1}), two = make_cpu_kernels({.threads = 2});
    Rng rng(std::hash<std::string>()(GetParam()) + static_cast<uint64_t>(form) * 101 +
            static_cast<uint64_t>(type.value_or(DType::kF32)) * 7 + (special ? 1 : 0));
    Verdict verdict = Verdict::kNothing;
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
        if (verdict == Verdict::kNothing) verdict = Verdict::kRefused;
        continue;
      }
      verdict = Verdict::kTaken;
      special&& order_decides(GetParam()) ? check_guards(*c, op, *one)
                                          : check_case(*c, op, *one, *two);
    }
    return verdict;
  }

  // A kind of the table has a kernel: some combination must be taken.
  void run_all(int cases, bool special) {
    bool taken = false;
    for (const auto& type : types_of(GetParam()))
      for (const Form form : kForms) taken |= run(type, form, cases, special) == Verdict::kTaken;
    EXPECT_TRUE(taken);
  }
};

TEST_P(EveryType, IsComputedOrRefused) {
  run_all(6, false);
}

TEST_P(EveryType, IsComputedOrRefusedWithSpecialValues) {
  if (GetParam() == "Pow") return;  // an integer to the power of 2^31 takes as many steps
  run_all(5, true);
}

// Fewer that are taken than there were mean that a kernel has lost a type or a layout. Some of
// oneDNN's depend on the processor, so a few may be missing.
TEST(KindsTypesLayouts, AreTakenOrRefused) {
  const auto factory = make_cpu_kernels({.threads = 1});
  int taken = 0, refused = 0, nothing = 0;
  for (const std::string& kind : computed_kinds())
    for (const auto& type : types_of(kind))
      for (const Form form : kForms) {
        Rng rng(static_cast<uint64_t>(form) + 1);
        Verdict verdict = Verdict::kNothing;
        for (int i = 0; i < 3 && verdict != Verdict::kTaken; ++i) {
          const std::optional<Case> c = make_case(kind, {.type = type}, rng);
          if (!c) continue;
          const bool has =
              factory->workspace_bytes(in_form(*factory, c->desc, form, rng)).has_value();
          verdict = has ? Verdict::kTaken : Verdict::kRefused;
        }
        ++(verdict == Verdict::kTaken ? taken : verdict == Verdict::kRefused ? refused : nothing);
      }
  std::printf("kinds x types x layouts: %d taken, %d refused, %d without a case\n", taken, refused,
              nothing);
  EXPECT_GE(taken, kKnownTaken - kKnownTaken / 50);
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryType, testing::ValuesIn(computed_kinds()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace lowtide::exec_cpu
