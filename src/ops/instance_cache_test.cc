// What is remembered of an instance is what would be found anew, for every op.
#include <gtest/gtest.h>

#include "ops/row.h"
#include "ops/testing/instance_text.h"
#include "ops/testing/random_instance.h"

namespace lowtide::ops {
namespace {

TEST(InstanceCache, AnswersAsIfAskedAnew) {
  std::vector<RandomInstance> drawn;
  for (const std::string_view kind : kinds())
    for (uint64_t seed = 0; seed < 8; ++seed) {
      Rng rng(seed);
      drawn.push_back(random_instance(kind, rng).value());
    }
  for (int round = 0; round < 2; ++round)
    for (const RandomInstance& each : drawn) {
      SCOPED_TRACE(each.kind);
      const Result<Bound> wanted = bind_anew(each.instance());
      const auto given = bind_instance(each.instance());
      ASSERT_TRUE(wanted.has_value() && given.has_value());
      EXPECT_EQ((*given)->row, wanted->row);
      EXPECT_EQ((*given)->facts, wanted->facts);
      ASSERT_TRUE((*given)->outputs.has_value() && wanted->outputs.has_value());
      ASSERT_EQ((*given)->outputs->size(), wanted->outputs->size());
      for (size_t i = 0; i < wanted->outputs->size(); ++i) {
        const OutputType &a = (*(*given)->outputs)[i], &b = (*wanted->outputs)[i];
        EXPECT_EQ(a.type, b.type);
        EXPECT_EQ(a.alias, b.alias);
        EXPECT_EQ(a.base_input, b.base_input);
        EXPECT_EQ(a.offset_bytes, b.offset_bytes);
      }
      for (size_t i = 0; i < wanted->signature.outputs.size(); ++i)
        EXPECT_EQ(dims_of((*given)->signature, (*given)->signature.outputs[i]),
                  dims_of(wanted->signature, wanted->signature.outputs[i]));
    }
}

TEST(InstanceCache, IsAskedForTheSameInstanceOnce) {
  const ir::Attrs attrs{{"axis", int64_t{0}}};
  const Instance instance{.kind = "Softmax", .attrs = &attrs, .inputs = operands("f32[2,3]")};
  const auto first = bind_instance(instance).value(), again = bind_instance(instance).value();
  EXPECT_EQ(first, again) << "one and the same";
}

// Instances that differ in one thing, symbols and absent operands among them.
TEST(InstanceCache, TellsInstancesApart) {
  const ir::Attrs zero{{"axis", int64_t{0}}}, one{{"axis", int64_t{1}}};
  std::vector<std::shared_ptr<const Bound>> found;
  const auto ask = [&](std::string_view kind, const ir::Attrs& attrs, const std::string& inputs) {
    const auto bound = bind_instance({.kind = kind, .attrs = &attrs, .inputs = operands(inputs)});
    ASSERT_TRUE(bound.has_value()) << bound.error().message;
    for (const auto& other : found) EXPECT_NE(*bound, other) << kind << " " << inputs;
    found.push_back(*bound);
  };
  ask("Softmax", zero, "f32[2,3]");
  ask("Softmax", one, "f32[2,3]");
  ask("Softmax", zero, "f32[2,4]");
  ask("Softmax", zero, "bf16[2,3]");
  ask("LogSoftmax", zero, "f32[2,3]");
  ask("Softmax", zero, "f32[n,3]");
  ask("Softmax", zero, "f32[m,3]");
  ask("MatMul", {}, "f32[2,3] f32[3,4]");
  ask("MatMul", {}, "f32[2,3] f32[3,4] f32[4]");
  ask("MatMul", {}, "f32[2,3] f32[3,4] - f32[2,4]");
  const Instance refused{.kind = "Softmax", .attrs = &zero, .inputs = operands("i64[2,3]")};
  const auto bound = bind_instance(refused);
  EXPECT_FALSE(bound.has_value() && (*bound)->outputs.has_value());
  EXPECT_FALSE(infer(refused).has_value());
}

TEST(InstanceCache, RepeatsTheFacts) {
  const Instance instance{.kind = "Add", .attrs = nullptr, .inputs = operands("f32[n,3] f32[m,3]")};
  std::vector<std::pair<sym::Expr, sym::Expr>> first, again;
  ASSERT_TRUE(infer(instance, &first).has_value() && infer(instance, &again).has_value());
  EXPECT_EQ(first.size(), 1u);
  EXPECT_EQ(first, again);
}

}  // namespace
}  // namespace lowtide::ops
