// Labels of a loss: kernels refuse those that are neither classes nor ignored where the reference
// executor does, whatever the op is of the whole (some of the classes, a count that is given, a
// slice of the result, classes before rows). LabelLogits, a part of such a loss, takes any: its
// mean refuses. Run all the same, as to be timed alone, they stay within their operands.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <limits>

#include "base/rng.h"
#include "support/kernel_cases.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kRows = 5, kHere = 3, kFirst = 2, kClasses = 7;

struct LabelOp {
  OpDesc desc;
  size_t labels = 0;  // which operand
  int64_t classes = kHere;
};

TensorDesc of(DType dtype, std::vector<int64_t> dims) {
  return {.dtype = dtype, .dims = std::move(dims), .layout = {}};
}

LabelOp label_op(const char* kind, plan::Attrs attrs, std::vector<TensorDesc> inputs,
                 std::vector<TensorDesc> outputs) {
  LabelOp op;
  op.desc.kind = kind;
  if (const auto classes = attrs.find("classes"); classes != attrs.end())
    op.classes = std::get<int64_t>(classes->second);
  op.desc.attrs = std::move(attrs);
  while (inputs[op.labels].dtype != DType::kI64) ++op.labels;
  op.desc.inputs = {inputs.begin(), inputs.end()};
  op.desc.outputs = std::move(outputs);
  return op;
}

std::vector<LabelOp> label_ops(DType type) {
  const TensorDesc rows = of(type, {kRows}), logits = of(type, {kRows, kHere}), loss = of(type, {}),
                   labels = of(DType::kI64, {kRows}), count = of(DType::kI64, {}),
                   more = of(type, {kRows + 3, kHere});
  const plan::Attrs along = {{"axis", int64_t{1}}}, all = {{"classes", kClasses}};
  plan::Attrs some = {{"axis", int64_t{1}}, {"classes", kClasses}, {"first_class", kFirst}};
  std::vector<LabelOp> made = {
      label_op("CrossEntropy", along, {logits, labels}, {loss, rows}),
      label_op("CrossEntropy", along, {logits, labels, count}, {loss, rows}),
      label_op("CrossEntropyGrad", along, {logits, labels, rows}, {logits}),
      label_op("CrossEntropyGrad", some, {logits, labels, rows, count}, {logits}),
      label_op("CrossEntropyMean", all, {rows, rows, labels}, {loss}),
      label_op("CrossEntropyMean", all, {rows, rows, labels, count}, {loss}),
      label_op("LabelCount", all, {labels}, {count})};
  plan::Attrs slice = along;
  slice["into"] = std::vector<int64_t>{0, 1, 1 + kRows, 3 + kRows};
  made.push_back(label_op("CrossEntropyGrad", slice, {logits, labels, rows}, {more}));
  // Classes before rows.
  const TensorDesc columns = of(type, {2, kHere, kRows}), each = of(type, {2, kRows}),
                   its = of(DType::kI64, {2, kRows});
  made.push_back(label_op("CrossEntropy", along, {columns, its}, {loss, each}));
  made.push_back(label_op("CrossEntropyGrad", along, {columns, its, each}, {columns}));
  made.push_back(label_op("CrossEntropyGrad", some, {columns, its, each, count}, {columns}));
  made.push_back(label_op("LabelLogits", some, {columns, its}, {each}));
  made.push_back(label_op("LabelLogits", along, {logits, labels}, {rows}));
  made.push_back(label_op("LabelLogits", some, {logits, labels, rows}, {rows}));  // added into
  return made;
}

// Labels near both ends of the classes, and far away.
int64_t drawn_label(int64_t classes, Rng& rng) {
  if (rng.below(12) != 0) return rng.between(0, classes - 1);
  const int64_t none[] = {-1, -100, classes, std::numeric_limits<int64_t>::max(),
                          std::numeric_limits<int64_t>::min()};
  return none[rng.below(std::size(none))];
}

ref::Tensor drawn(const TensorDesc& type, Rng& rng) {
  ref::Tensor tensor = ref::Tensor::zeros(type.dtype, type.dims);
  for (double& number : tensor.f) number = static_cast<double>(rng.between(-8, 8)) / 4;
  for (int64_t& number : tensor.i) number = kRows;  // a count
  return tensor;
}

ir::Attrs of_graph(const plan::Attrs& attrs) {
  ir::Attrs made;
  for (const auto& [name, value] : attrs) {
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
      made[name] = ir::Dims(list->begin(), list->end());
    else
      made[name] = std::get<int64_t>(value);
  }
  return made;
}

Guarded in_memory(const ref::Tensor& tensor) {
  Guarded memory(tensor.count() * size_bytes(tensor.dtype));
  for (size_t e = 0; e < tensor.i.size(); ++e)
    std::memcpy(memory.data() + e * sizeof(int64_t), &tensor.i[e], sizeof(int64_t));
  for (size_t e = 0; e < tensor.f.size(); ++e) {
    const auto number = static_cast<float>(tensor.f[e]);
    if (tensor.dtype == DType::kF64)
      std::memcpy(memory.data() + e * sizeof(double), &tensor.f[e], sizeof(double));
    else
      std::memcpy(memory.data() + e * sizeof(float), &number, sizeof(float));
  }
  return memory;
}

TEST(Labels, AreRefusedWhereTheReferenceRefusesThem) {
  const auto factory = make_cpu_kernels({.threads = 1});
  Rng rng(11);
  int accepted = 0, refused = 0;
  for (int draw = 0; draw < 600; ++draw) {
    for (LabelOp op : label_ops(draw % 2 == 0 ? DType::kF32 : DType::kF64)) {
      constexpr int64_t kIgnored[] = {-100, -1, 1};
      if (op.desc.kind != "LabelLogits" && rng.below(2) == 0)
        op.desc.attrs["ignore_index"] = kIgnored[rng.below(3)];
      SCOPED_TRACE(print(op.desc));
      std::vector<std::optional<ref::Tensor>> values;
      for (const auto& input : op.desc.inputs) values.emplace_back(drawn(*input, rng));
      for (int64_t& label : values[op.labels]->i) label = drawn_label(op.classes, rng);
      std::vector<Guarded> inputs, outputs;
      for (const auto& value : values) inputs.push_back(in_memory(*value));
      for (const TensorDesc& type : op.desc.outputs) outputs.emplace_back(plan::size_bytes(type));
      std::vector<void*> in;
      for (Guarded& memory : inputs) in.push_back(memory.data());
      std::vector<Guarded*> read, written;
      for (Guarded& memory : inputs) read.push_back(&memory);
      for (Guarded& memory : outputs) written.push_back(&memory);
      const auto expected = ref::evaluate(op.desc.kind, of_graph(op.desc.attrs), values);
      auto kernel = factory->make(op.desc);
      ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
      const Status status = (*kernel)->accepts({.inputs = in, .outputs = {}, .context = {}});
      EXPECT_EQ(status.has_value(), expected.has_value())
          << (status ? expected.error() : status.error()).message;
      run_kernel(*factory, op.desc, read, written);
      ++(status ? accepted : refused);
      if (HasFailure()) return;
    }
  }
  std::printf("%d accepted, %d refused\n", accepted, refused);
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Labels, TheMessageNamesRowAndLabel) {
  const auto factory = make_cpu_kernels({.threads = 1});
  std::vector<int64_t> labels = {0, 2, 1, 3, -100};
  std::vector<void*> inputs = {nullptr, labels.data()};
  const auto message = [&](const LabelOp& op) {
    const auto kernel = factory->make(op.desc);
    return (*kernel)->accepts({.inputs = inputs, .outputs = {}, .context = {}}).error().message;
  };
  LabelOp op = label_ops(DType::kF32)[0];
  EXPECT_EQ(
      message(op),
      "label 3 of row 3 of this op's 5, counted from 0, is none of the 3 classes, and no label "
      "is ignored; one to leave out is said by plan --ignore-index of an attached loss, by "
      "ignore_index in a model's own");
  op.desc.attrs["ignore_index"] = int64_t{-100};
  EXPECT_EQ(message(op),
            "label 3 of row 3 of this op's 5, counted from 0, is none of the 3 classes, nor -100, "
            "which is ignored");
}

}  // namespace
}  // namespace lowtide::exec_cpu
