// Every op that is evaluated while a model is read, on operands that a file may have: absent, of
// any type, without elements, of other ranks, as formulas, with attributes far from any axis. It
// answers with values that have an element for each place, or with an error; right results are for
// the official node cases to say (node_cases_test.cc).
#include "io/host_eval.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/rng.h"

namespace lowtide::io {
namespace {

HostValue dense(DType dtype, ir::Dims dims, double first) {
  HostValue value;
  value.dtype = dtype;
  value.dims = std::move(dims);
  const int64_t count = constant_count(value.dims).value();
  for (int64_t i = 0; i < count; ++i) {
    if (is_float(dtype))
      value.reals.push_back(first + static_cast<double>(i * i));
    else
      value.ints.emplace_back(static_cast<int64_t>(first) + i * i);
  }
  return value;
}

HostValue formula(DType dtype, ir::Dims dims) {
  HostValue value;
  value.dtype = dtype;
  value.dims = std::move(dims);
  value.form = HostValue::Form::kIndexed;
  value.cell.integer = flat(1, value.dims.size());
  if (!value.dims.empty()) value.cell.integer.slope.back() = 1;
  return value;
}

// What operands are drawn from.
std::vector<HostValue> pool() {
  std::vector<HostValue> values;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kF64, DType::kI64, DType::kI32,
                            DType::kU8, DType::kU64, DType::kBool})
    for (const ir::Dims& dims :
         {ir::Dims{}, ir::Dims{1}, ir::Dims{2}, ir::Dims{0}, ir::Dims{2, 0}, ir::Dims{2, 3}})
      values.push_back(dense(dtype, dims, dtype == DType::kBool ? 0 : 1));
  for (HostValue& value : values)
    if (value.dtype == DType::kBool)
      for (sym::Expr& bit : value.ints) bit = bit == sym::Expr(0) ? 0 : 1;
  for (const int64_t extreme : {std::numeric_limits<int64_t>::min(), int64_t{-1}, int64_t{1} << 40,
                                std::numeric_limits<int64_t>::max()}) {
    HostValue scalar = host_scalar(extreme);
    values.push_back(scalar);
    values.push_back(host_vector({extreme, extreme}));
  }
  for (const DType dtype : {DType::kI64, DType::kBool, DType::kF32}) {
    values.push_back(formula(dtype, {sym::Expr::symbol("n")}));
    values.push_back(formula(dtype, {2, 3}));
    values.push_back(host_unknown(dtype, {2, sym::Expr::symbol("n")}, "a test wants it so"));
  }
  values.push_back(host_vector({sym::Expr::symbol("n"), 2}));
  return values;
}

OnnxAttr number(int64_t value) {
  OnnxAttr attr;
  attr.integer = value;
  return attr;
}

OnnxAttr numbers(std::vector<int64_t> values) {
  OnnxAttr attr;
  attr.integers = std::move(values);
  return attr;
}

void set_attributes(OnnxNode& node, Rng& rng) {
  constexpr int64_t kNumbers[] = {0,
                                  1,
                                  2,
                                  3,
                                  7,
                                  -1,
                                  -2,
                                  -9,
                                  std::numeric_limits<int64_t>::min(),
                                  std::numeric_limits<int64_t>::max()};
  const auto any = [&] { return kNumbers[rng.below(std::size(kNumbers))]; };
  for (const char* name :
       {"axis", "to", "keepdims", "noop_with_empty_axes", "exclusive", "reverse", "upper", "fmod",
        "allowzero", "batch_dims", "output_datatype", "periodic"})
    if (rng.below(3) == 0) node.attrs[name] = number(any());
  for (const char* name : {"axes", "perm", "starts", "ends", "split"}) {
    if (rng.below(3) != 0) continue;
    std::vector<int64_t> list(rng.below(4));
    for (int64_t& entry : list) entry = any();
    node.attrs[name] = numbers(std::move(list));
  }
  OnnxAttr direction;
  direction.word = rng.below(2) == 0 ? "LEFT" : "RIGHT";
  node.attrs["direction"] = direction;
  node.outputs.resize(rng.below(4));
}

void expect_an_element_for_each_place(const HostValue& value) {
  if (value.form != HostValue::Form::kDense) return;
  const auto count = constant_count(value.dims);
  ASSERT_TRUE(count) << count.error().message;
  EXPECT_EQ((is_float(value.dtype) ? value.reals.size() : value.ints.size()),
            static_cast<size_t>(*count));
}

TEST(HostEval, EveryFoldedOpAnswersOnWhateverOperands) {
  const std::vector<HostValue> values = pool();
  Rng rng(7);
  int64_t folded = 0;
  for (const std::string_view op : folded_ops()) {
    int64_t here = 0;
    for (int round = 0; round < 3000; ++round) {
      OnnxNode node;
      node.op_type = op;
      set_attributes(node, rng);
      std::vector<const HostValue*> inputs(rng.below(6));
      const DType dtype = values[rng.below(values.size())].dtype;
      const bool is_one_type = rng.below(2) == 0;
      for (const HostValue*& input : inputs) {
        input = rng.below(8) == 0 ? nullptr : &values[rng.below(values.size())];
        while (is_one_type && input != nullptr && input->dtype != dtype)
          input = &values[rng.below(values.size())];
      }
      SCOPED_TRACE(fmt::format("{}, round {}", op, round));
      const HostResult made = evaluate({node, inputs, 17});
      if (!made) {
        EXPECT_EQ(made.error().code, ErrorCode::kInput) << made.error().message;
        EXPECT_FALSE(made.error().message.empty());
        continue;
      }
      ++here;
      for (const HostValue& value : *made) expect_an_element_for_each_place(value);
    }
    EXPECT_GT(here, 0) << op << " was never evaluated";
    folded += here;
  }
  EXPECT_GT(folded, 5000);
}

std::string said(std::string_view op, std::vector<const HostValue*> inputs) {
  OnnxNode node;
  node.op_type = op;
  const HostResult made = evaluate({node, inputs, 17});
  return made ? "" : made.error().message;
}

TEST(HostEval, NamesTheOperandThatIsAbsentOrOfAWrongType) {
  const HostValue whole = host_scalar(1), real = dense(DType::kF32, {}, 1),
                  truth = dense(DType::kBool, {}, 0);
  EXPECT_EQ(said("Max", {&whole, nullptr}), "input 1 is missing");
  EXPECT_EQ(said("Where", {&truth, &whole, &real}), "input 2 has type f32, another one has i64");
  EXPECT_EQ(said("Where", {&whole, &real, &real}), "input 0 has type i64, wanted bool");
  EXPECT_EQ(said("Sqrt", {&whole}), "input 0 has type i64, wanted a float type");
  EXPECT_EQ(said("Gather", {&real, &real}), "input 1 has type f32, wanted an integer type");
  EXPECT_EQ(said("Add", {&real, &real, &real}), "3 inputs given, at most 2 are taken");
  EXPECT_EQ(said("Not", {&real}), "input 0 has type f32, wanted bool");
}

}  // namespace
}  // namespace lowtide::io
