// Every kind on strided views: operands whose elements lie in another order, with holes between
// them (which hold no numbers), or once where many are meant. The results are the reference
// executor's, or the factory refuses with a message that says so, before anything is run. Which
// kinds take an operand is pinned in support/strided_kinds.h, and of those that take some only, why
// they refuse the others: choose_layouts copies for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "base/words.h"
#include "ops/op_table.h"
#include "support/kernel_cases.h"
#include "support/strided_kinds.h"

namespace lowtide::exec_cpu {
namespace {

// Empty where a kind takes all or none.
std::string_view reasons_of(std::string_view kind) {
  for (const TakingSome& some : kTakingSome)
    if (some.kind == kind) return some.reasons;
  return {};
}

bool gives_one_of(std::string_view message, std::string_view reasons) {
  for (size_t at = 0; at <= reasons.size();) {
    const size_t end = std::min(reasons.find('|', at), reasons.size());
    if (message.find(reasons.substr(at, end - at)) != std::string_view::npos) return true;
    at = end + 1;
  }
  return false;
}

// Row-major but for holes around blocks of the last dims, as a slice leaves them.
Layout drawn_gap(const std::vector<int64_t>& dims, Rng& rng) {
  std::vector<int64_t> strides(dims.size());
  const size_t block = rng.below(dims.size() + 1);
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= dims[d];
    if (d == block) stride += static_cast<int64_t>(1 + rng.below(3));
  }
  return layout_of_strides(dims, std::move(strides));
}

// Strides of some order of the dims, some of them larger than what lies inside.
Layout drawn_strides(const std::vector<int64_t>& dims, Rng& rng) {
  if (rng.below(3) == 0) return drawn_gap(dims, rng);
  std::vector<size_t> order;
  for (size_t d = 0; d < dims.size(); ++d)
    order.insert(order.begin() + static_cast<int64_t>(rng.below(order.size() + 1)), d);
  std::vector<int64_t> strides(dims.size());
  int64_t stride = rng.below(3) == 0 ? 2 : 1;
  for (const size_t d : order) {
    strides[d] = stride;
    stride = stride * dims[d] + static_cast<int64_t>(rng.below(3));
  }
  return layout_of_strides(dims, std::move(strides));
}

// Makes all elements along a dim those of its first, which then stand in memory once.
bool expand_operand(Case& c, OpDesc& op, size_t i, Rng& rng) {
  ref::Tensor& tensor = *c.inputs[i];
  Layout& layout = op.inputs[i]->layout;
  const std::vector<int64_t>& dims = op.inputs[i]->dims;
  std::vector<size_t> wide;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] > 1) wide.push_back(d);
  if (wide.empty()) return false;
  const size_t along = wide[rng.below(wide.size())];
  std::vector<int64_t> strides = strides_of(layout, dims), step = strides_of({}, dims);
  strides[along] = 0;
  size_t e = 0;
  for (ref::Odometer at(dims); at.live(); at.next(), ++e) {
    const auto first =
        static_cast<size_t>(static_cast<int64_t>(e) -
                            static_cast<int64_t>(e) / step[along] % dims[along] * step[along]);
    if (tensor.real())
      tensor.f[e] = tensor.f[first];
    else
      tensor.i[e] = tensor.i[first];
  }
  layout = layout_of_strides(dims, strides);
  ref::Context context{.seed = kStep.seed, .step = kStep.step};
  context.precision = ref::Precision::kF64;
  auto expected = ref::evaluate(c.made.instance(), c.inputs, context);
  EXPECT_TRUE(expected.has_value());
  if (expected) c.expected = std::move(*expected);
  return expected.has_value();
}

// Which the op table does not let be strided.
bool is_accumulator(const Case& c, size_t i) {
  const auto all = ops::accumulators(c.made.instance());
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& pair) { return pair.first == static_cast<int>(i); });
}

struct StridedCounts {
  int taken = 0, refused = 0;
};

class StridedKinds : public testing::TestWithParam<std::string> {
 protected:
  // One operand, or all of them, of a random case.
  void run(Rng& rng, bool alone, StridedCounts& counts) {
    std::optional<Case> c = make_case(GetParam(), {}, rng);
    if (!c || c->desc.inputs.empty()) return;
    OpDesc op = c->desc;
    const size_t chosen = rng.below(op.inputs.size());
    bool strided = false;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!op.inputs[i] || (alone && i != chosen) || is_accumulator(*c, i)) continue;
      op.inputs[i]->layout = drawn_strides(op.inputs[i]->dims, rng);
      const bool free = c->made.values[i].kind == ops::InputValues::Kind::kReal &&
                        c->made.values[i].exact.empty();
      if (free && rng.below(3) == 0) expand_operand(*c, op, i, rng);
      strided |= op.inputs[i]->layout.strided();
    }
    if (!strided) return;
    SCOPED_TRACE(describe(op));
    const auto workspace = one_->workspace_bytes(op);
    if (workspace) {
      ++counts.taken;
      check_case(*c, op, *one_, *two_);
      return;
    }
    ++counts.refused;
    EXPECT_FALSE(one_->make(op));
    EXPECT_TRUE(workspace.error().message.starts_with("no CPU kernel for " + GetParam() + "("))
        << workspace.error().message;
    EXPECT_NE(workspace.error().message.find("strided:"), std::string::npos)
        << workspace.error().message;
    const std::string_view reasons = reasons_of(GetParam());
    EXPECT_TRUE(
        gives_one_of(workspace.error().message, reasons.empty() ? "is a strided view" : reasons))
        << workspace.error().message;
  }

  std::unique_ptr<runtime::KernelFactory> one_ = make_cpu_kernels({.threads = 1});
  std::unique_ptr<runtime::KernelFactory> two_ = make_cpu_kernels({.threads = 2});
};

TEST_P(StridedKinds, AreComputedOrRefused) {
  const std::vector<std::string_view> words = words_of(kTaking);
  const bool takes = std::find(words.begin(), words.end(), GetParam()) != words.end();
  Rng rng(std::hash<std::string>()(GetParam()));
  StridedCounts counts;
  const int draws = reasons_of(GetParam()).empty() ? 60 : 400;
  for (int i = 0; i < draws && !HasFailure(); ++i) run(rng, i % 2 == 0, counts);
  std::printf("%s: %d taken, %d refused\n", GetParam().c_str(), counts.taken, counts.refused);
  RecordProperty("taken", counts.taken);
  if (!reasons_of(GetParam()).empty())
    EXPECT_GT(counts.taken, 5) << GetParam();
  else if (takes)
    EXPECT_EQ(counts.refused, 0) << GetParam();
  else
    EXPECT_EQ(counts.taken, 0) << GetParam();
  if (takes) {
    EXPECT_GT(counts.taken, 5) << GetParam();
  } else if (reasons_of(GetParam()).empty() && GetParam() != "Fill") {  // which has no operand
    EXPECT_GT(counts.refused, 5) << GetParam();
  }
}

// Else a kind of the lists would be run by nobody.
TEST(StridedLists, NameKindsThatAreComputed) {
  std::vector<std::string> named;
  for (const std::string_view kind : words_of(kTaking)) named.emplace_back(kind);
  for (const TakingSome& some : kTakingSome) named.emplace_back(some.kind);
  const std::vector<std::string> computed = computed_kinds();
  for (const std::string& kind : named) {
    EXPECT_EQ(std::count(named.begin(), named.end(), kind), 1) << kind;
    EXPECT_EQ(std::count(computed.begin(), computed.end(), kind), 1) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, StridedKinds, testing::ValuesIn(computed_kinds()),
                         [](const auto& param) { return param.param; });

// What the copy is: every type and any strides to row-major.
TEST(StridedCopy, TakesEveryType) {
  const auto one = make_cpu_kernels({.threads = 1}), two = make_cpu_kernels({.threads = 2});
  Rng rng(11);
  for (const DType type : ops::shared_types("Reorder"))
    for (int i = 0; i < 20; ++i) {
      const std::optional<Case> c = make_case("Reorder", {.type = type}, rng);
      ASSERT_TRUE(c.has_value());
      OpDesc op = c->desc;
      op.inputs[0]->layout = drawn_strides(op.inputs[0]->dims, rng);
      SCOPED_TRACE(describe(op));
      check_case(*c, op, *one, *two);
      if (HasFailure()) return;
    }
}

// Nothing is written with holes, and no weight is blocked from them.
TEST(StridedCopy, HasNoStridedOrBlockedResult) {
  const auto kernels = make_cpu_kernels({.threads = 1});
  TensorDesc dense{.dtype = DType::kF32, .dims = {4, 6}, .layout = {}}, strided = dense;
  strided.layout.strides = {8, 1};
  const auto refused = kernels->workspace_bytes(
      {.kind = "Relu", .attrs = {}, .inputs = {dense}, .outputs = {strided}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("an output is a strided view"), std::string::npos);
  TensorDesc blocked = dense;
  blocked.layout.blocked = "d4.6_p8.8_s64.64_b8o0-8o1";
  blocked.layout.blocked_bytes = 256;
  EXPECT_FALSE(kernels
                   ->workspace_bytes(
                       {.kind = "Reorder", .attrs = {}, .inputs = {strided}, .outputs = {blocked}})
                   .has_value());
}

// Own products take whatever lies anywhere.
TEST(StridedProduct, OfWideTypesTakesAnyMatrix) {
  const auto one = make_cpu_kernels({.threads = 1}), two = make_cpu_kernels({.threads = 2});
  Rng rng(12);
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    std::optional<Case> c =
        make_case("MatMul", {.type = i % 2 == 0 ? DType::kF64 : DType::kI64}, rng);
    ASSERT_TRUE(c.has_value());
    OpDesc op = c->desc;
    for (size_t k : {0, 1}) {
      op.inputs[k]->layout = drawn_strides(op.inputs[k]->dims, rng);
      if (rng.below(2) == 0) expand_operand(*c, op, k, rng);
    }
    SCOPED_TRACE(describe(op));
    check_case(*c, op, *one, *two);
  }
}

// A product reads a transposed or sliced matrix as it is, and asks for a copy of one that oneDNN
// has no fast code for.
TEST(StridedProduct, WishesWhatItTakes) {
  const auto kernels = make_cpu_kernels({.threads = 1});
  const TensorDesc dense{.dtype = DType::kF32, .dims = {64, 64}, .layout = {}};
  OpDesc op{.kind = "MatMul", .attrs = {}, .inputs = {dense, dense}, .outputs = {dense}};
  op.inputs[0]->layout.strides = {1, 64};
  op.inputs[1]->layout.strides = {96, 1};
  EXPECT_EQ(kernels->wish(op).inputs[0], op.inputs[0]->layout);
  EXPECT_EQ(kernels->wish(op).inputs[1], op.inputs[1]->layout);
  for (const int64_t rows : {0, 1024}) {  // one row for all; 4 KiB apart, which is slow
    op.inputs[1]->layout.strides = {rows, 1};
    EXPECT_EQ(kernels->wish(op).inputs[0], op.inputs[0]->layout);
    EXPECT_EQ(kernels->wish(op).inputs[1], Layout{});
  }
  op.inputs[1]->layout.strides = {1, 1024};  // which columns may
  EXPECT_EQ(kernels->wish(op).inputs[1], op.inputs[1]->layout);
}

}  // namespace
}  // namespace lowtide::exec_cpu
