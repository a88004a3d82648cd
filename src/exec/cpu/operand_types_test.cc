// A kernel is chosen by the types of all its operands. Whatever the op table refuses the factory
// refuses too, whichever operand is of the wrong type: no loop over one type is ever run on
// another.
#include <gtest/gtest.h>

#include "ops/op_table.h"
#include "support/kernel_cases.h"

namespace lowtide::exec_cpu {
namespace {

class OperandTypes : public testing::TestWithParam<std::string> {
 protected:
  static Case draw(Rng& rng) {
    std::optional<Case> drawn;
    while (!drawn) drawn = make_case(GetParam(), {}, rng);
    return *drawn;
  }
};

TEST_P(OperandTypes, ThatTheRowRefusesAreRefused) {
  const auto factory = make_cpu_kernels({.threads = 1});
  Rng rng(std::hash<std::string>()(GetParam()));
  for (int draws = 0; draws < 5; ++draws) {
    const Case typed = draw(rng);
    for (size_t i = 0; i < typed.desc.inputs.size(); ++i)
      for (int t = 0; t < kDTypes; ++t) {
        const auto type = static_cast<DType>(t);
        if (!typed.desc.inputs[i] || GetParam() == "RandomUniform") continue;
        Case wrong = typed;
        wrong.made.inputs[i]->dtype = wrong.desc.inputs[i]->dtype = type;
        if (ops::infer(wrong.made.instance())) continue;
        EXPECT_FALSE(factory->workspace_bytes(wrong.desc)) << print(wrong.desc);
      }
    // Whose output is of any type, by an attribute.
    if (GetParam() == "Cast" || GetParam() == "BitCast" || GetParam() == "Fill") continue;
    for (size_t o = 0; o < typed.desc.outputs.size(); ++o)
      for (int t = 0; t < kDTypes; ++t) {
        const auto type = static_cast<DType>(t);
        if (type == typed.desc.outputs[o].dtype) continue;
        OpDesc wrong = typed.desc;
        wrong.outputs[o].dtype = type;
        const auto refused = factory->workspace_bytes(wrong);
        ASSERT_FALSE(refused) << print(wrong);
        EXPECT_NE(refused.error().message.find(GetParam()), std::string::npos);
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OperandTypes, testing::ValuesIn(computed_kinds()),
                         [](const auto& param) { return param.param; });

// ---- the words of an entry

TensorDesc of(DType type) {
  return {.dtype = type, .dims = {2}, .layout = {}};
}

constexpr Entry kUpdate = {"Update", "T i S -> T S", "f32 bf16 f64", nullptr};
constexpr Entry kAny = {"Any", "* T -> T", "*", nullptr};

TEST(EntryTypes, TIsOneOfTheListAndTheSameEverywhere) {
  OpDesc op{.kind = "Update",
            .attrs = {},
            .inputs = {of(DType::kF64), of(DType::kI32), of(DType::kF64)},
            .outputs = {of(DType::kF64), of(DType::kF64)}};
  EXPECT_TRUE(check_types(kUpdate, op));
  op.inputs[1] = of(DType::kF64);
  EXPECT_EQ(check_types(kUpdate, op).error().message,
            "no CPU kernel for Update(f64[2] row_major, f64[2] row_major, f64[2] row_major) -> "
            "f64[2] row_major f64[2] row_major: operand 1 is f64, wanted i64 or i32");
  op.inputs[1] = std::nullopt;
  EXPECT_TRUE(check_types(kUpdate, op));
  op.outputs[0] = of(DType::kF32);
  EXPECT_NE(check_types(kUpdate, op)
                .error()
                .message.find("output 0 is f32, wanted f64 as the others are"),
            std::string::npos);
  op.inputs[0] = of(DType::kF16);
  EXPECT_NE(
      check_types(kUpdate, op).error().message.find("operand 0 is f16, wanted one of f32 bf16 f64"),
      std::string::npos);
}

TEST(EntryTypes, SIsTheStateOfT) {
  OpDesc op{.kind = "Update",
            .attrs = {},
            .inputs = {of(DType::kBF16), of(DType::kI32), of(DType::kF32)},
            .outputs = {of(DType::kBF16), of(DType::kF32)}};
  EXPECT_TRUE(check_types(kUpdate, op));
  op.outputs[1] = of(DType::kBF16);
  EXPECT_FALSE(check_types(kUpdate, op));
}

TEST(EntryTypes, TheLastWordStandsForAllThatFollow) {
  OpDesc op{.kind = "Any",
            .attrs = {},
            .inputs = {of(DType::kBool), of(DType::kI64), of(DType::kI64)},
            .outputs = {of(DType::kI64)}};
  EXPECT_TRUE(check_types(kAny, op));
  op.inputs.emplace_back(of(DType::kI32));
  EXPECT_FALSE(check_types(kAny, op));
}

TEST(EntryTypes, BlockedLayoutsAreForEntriesThatSaySo) {
  OpDesc op{.kind = "Any", .attrs = {}, .inputs = {}, .outputs = {of(DType::kF32)}};
  EXPECT_TRUE(check_blocked(kAny, op));
  op.outputs[0].layout.blocked = "d2_p8_s8_b8o0";
  EXPECT_FALSE(check_blocked(kAny, op));
  Entry reads = kAny;
  reads.blocked = true;
  EXPECT_TRUE(check_blocked(reads, op));
}

}  // namespace
}  // namespace lowtide::exec_cpu
