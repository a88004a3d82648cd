// The sum is taken in the type of its elements, so that adding part after part rounds as the op
// table's reference does: once for each. Integers wrap.
#include "exec/cpu/accumulate.h"

#include <algorithm>
#include <utility>

#include "base/half.h"
#include "base/words.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kAddGrain = 32768;
constexpr int64_t kScratchAlignment = 64;

int64_t aligned(int64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

// Unsigned, so that integers wrap.
template <class T>
void add_as(const void* from, void* to, int64_t begin, int64_t end) {
  const T* added = static_cast<const T*>(from);
  T* sums = static_cast<T*>(to);
  for (int64_t i = begin; i < end; ++i) sums[i] = static_cast<T>(sums[i] + added[i]);
}

template <float (*value)(uint16_t), uint16_t (*bits)(float)>
void add_halves(const void* from, void* to, int64_t begin, int64_t end) {
  const auto* added = static_cast<const uint16_t*>(from);
  auto* sums = static_cast<uint16_t*>(to);
  for (int64_t i = begin; i < end; ++i) sums[i] = bits(value(sums[i]) + value(added[i]));
}

void add_floats(const void* from, void* to, int64_t begin, int64_t end) {
  loops().add(static_cast<const float*>(from) + begin, end - begin,
              static_cast<float*>(to) + begin);
}

using AddRange = void (*)(const void* from, void* to, int64_t begin, int64_t end);

// Null where nothing adds.
AddRange adder_of(DType type) {
  if (type == DType::kF32) return add_floats;
  if (type == DType::kF64) return add_as<double>;
  if (type == DType::kF16) return add_halves<f16_value, f16_bits>;
  if (type == DType::kBF16) return add_halves<bf16_value, bf16_bits>;
  if (type == DType::kBool) return nullptr;
  switch (size_bytes(type)) {
    case 8:
      return add_as<uint64_t>;
    case 4:
      return add_as<uint32_t>;
    case 2:
      return add_as<uint16_t>;
    default:
      return add_as<uint8_t>;
  }
}

// One output that is added into, and where its results are put before.
struct Added {
  size_t input, output;
  int64_t scratch, bytes, elements;
  AddRange add;
};

}  // namespace

std::vector<AddedInto> added_into(const Entry& entry, const OpDesc& op) {
  std::vector<AddedInto> into;
  const size_t own = words_of(entry.operands.substr(0, entry.operands.find("->"))).size();
  size_t input = own;
  for (const std::string_view output : words_of(entry.adds_into)) {
    if (has_input(op, input)) into.push_back({input, static_cast<size_t>(output[0] - '0')});
    ++input;
  }
  return into;
}

OpDesc without(const OpDesc& op, const std::vector<AddedInto>& into) {
  OpDesc inner = op;
  for (const AddedInto& each : into) inner.inputs[each.input].reset();
  while (!into.empty() && !inner.inputs.empty() && !inner.inputs.back()) inner.inputs.pop_back();
  return inner;
}

Result<Built> add_results(const OpDesc& op, const std::vector<AddedInto>& into, Built inner) {
  std::vector<Added> all;
  Built built;
  built.implementation = inner.implementation;
  built.accepts = std::move(inner.accepts);  // its own operands stand first
  built.workspace_bytes = aligned(inner.workspace_bytes);
  for (const AddedInto& each : into) {
    if (each.output >= op.outputs.size()) return unsupported(op, "an accumulator without output");
    const TensorDesc &from = *op.inputs[each.input], &to = op.outputs[each.output];
    if (from.dtype != to.dtype || from.dims != to.dims ||
        plan::size_bytes(from) != plan::size_bytes(to))
      return unsupported(op, "an accumulator is not of its output's type");
    if (from.layout != to.layout)
      return unsupported(op, "the accumulator's layout differs from the output's");
    const AddRange add = adder_of(to.dtype);
    if (add == nullptr) return unsupported(op, "nothing is added in this element type");
    const int64_t bytes = plan::size_bytes(to);
    all.push_back(
        {each.input, each.output, built.workspace_bytes, bytes, bytes / size_bytes(to.dtype), add});
    built.workspace_bytes += aligned(bytes);
  }
  built.run = [all = std::move(all), inner = std::move(inner.run)](const KernelArgs& args) {
    char* scratch = static_cast<char*>(args.workspace);
    std::vector<void*> outputs(args.outputs.begin(), args.outputs.end());
    for (const Added& added : all) outputs[added.output] = scratch + added.scratch;
    KernelArgs own = args;
    own.outputs = outputs;
    inner(own);
    for (const Added& added : all) {
      void* sum = args.outputs[added.output];
      parallel_copy(sum, args.inputs[added.input], added.bytes);
      parallel_ranges(added.elements, kAddGrain, [&](int64_t begin, int64_t end) {
        added.add(scratch + added.scratch, sum, begin, end);
      });
    }
  };
  return built;
}

}  // namespace lowtide::exec_cpu
