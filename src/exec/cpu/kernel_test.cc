// Every kernel against the reference executor in double precision, on instances that the op table
// generates: row-major, channels last, random permutations of each operand, the layouts that the
// kernel wishes for, in place, and with one and two threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <set>

#include "analysis/describe.h"
#include "exec/cpu/cpu.h"
#include "exec/ref/interpreter.h"
#include "ops/op_table.h"
#include "ops/random_instance.h"

namespace lowtide::exec_cpu {
namespace {

using plan::OpDesc;
using plan::TensorDesc;
using Bytes = std::vector<std::byte>;

constexpr runtime::StepContext kStep{.seed = 0x1234567890ABCDEFu, .step = 3};

enum class Form { kRowMajor, kChannelsLast, kPermuted, kWished };

struct Case {
  ops::RandomInstance made;
  OpDesc desc;  // all row-major
  std::vector<std::optional<ref::Tensor>> inputs;
  std::vector<ref::Tensor> expected;
};

TensorDesc concrete(const ops::Type& type) {
  TensorDesc desc{.dtype = type.dtype, .dims = {}, .layout = {}};
  for (const sym::Expr& dim : type.dims) desc.dims.push_back(*dim.constant());
  return desc;
}

std::optional<Case> make_case(std::string_view kind, Rng& rng) {
  auto made = ops::random_instance(kind, rng);
  EXPECT_TRUE(made) << made.error().message;
  Case c{.made = std::move(*made), .desc = {}, .inputs = {}, .expected = {}};
  const auto outputs = ops::infer(c.made.instance());
  EXPECT_TRUE(outputs) << outputs.error().message;
  c.desc.kind = kind;
  c.desc.attrs = *analysis::describe(c.made.attrs, kind);
  for (size_t i = 0; i < c.made.inputs.size(); ++i) {
    c.inputs.emplace_back();
    c.desc.inputs.emplace_back();
    if (!c.made.inputs[i]) continue;
    const TensorDesc desc = concrete(*c.made.inputs[i]);
    if (desc.dtype == DType::kF64) return std::nullopt;
    c.desc.inputs.back() = desc;
    std::vector<double> values =
        ops::random_values(c.made.values[i], plan::element_count(desc), rng);
    if (is_float(desc.dtype)) {
      for (double& v : values) v = static_cast<double>(static_cast<float>(v));
      c.inputs.back() = ref::Tensor::of(desc.dtype, desc.dims, values);
    } else {
      c.inputs.back() = ref::Tensor::of(desc.dtype, desc.dims,
                                        std::vector<int64_t>(values.begin(), values.end()));
    }
  }
  for (const ops::OutputType& output : *outputs) {
    if (output.alias == ir::Alias::kView) return std::nullopt;
    if (output.type.dtype == DType::kF64 || output.type.dtype == DType::kF16 ||
        output.type.dtype == DType::kBF16)
      return std::nullopt;
    c.desc.outputs.push_back(concrete(output.type));
  }
  ref::Context context{.seed = kStep.seed, .step = kStep.step, .precision = ref::Precision::kF64};
  auto expected = ref::evaluate(c.made.instance(), c.inputs, context);
  EXPECT_TRUE(expected) << expected.error().message;
  c.expected = std::move(*expected);
  return c;
}

// Position of each logical element (row-major order) in memory.
std::vector<int64_t> positions(const TensorDesc& type) {
  std::vector<int64_t> strides(type.dims.size());
  int64_t stride = 1;
  for (size_t k = type.dims.size(); k-- > 0;) {
    const size_t d = type.layout.order.empty() ? k : type.layout.order[k];
    strides[d] = stride;
    stride *= type.dims[d];
  }
  std::vector<int64_t> places;
  for (ref::Odometer at(type.dims); at.live(); at.next()) places.push_back(at.dot(strides));
  return places;
}

template <class T>
void put(Bytes& bytes, int64_t at, T value) {
  std::memcpy(bytes.data() + at * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}
template <class T>
T take(const Bytes& bytes, int64_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

Bytes run_kernel(const runtime::KernelFactory& factory, const OpDesc& op,
                 std::vector<Bytes*> inputs, std::vector<Bytes*> outputs);

Bytes to_memory(const runtime::KernelFactory& factory, const ref::Tensor& tensor,
                const TensorDesc& type) {
  TensorDesc plain = type;
  if (!type.layout.blocked.empty()) plain.layout = {};
  Bytes bytes(static_cast<size_t>(plan::size_bytes(plain)));
  const std::vector<int64_t> places = positions(plain);
  for (size_t e = 0; e < places.size(); ++e) {
    switch (type.dtype) {
      case DType::kF32:
        put(bytes, places[e], static_cast<float>(tensor.f[e]));
        break;
      case DType::kI64:
        put(bytes, places[e], tensor.i[e]);
        break;
      case DType::kI32:
        put(bytes, places[e], static_cast<int32_t>(tensor.i[e]));
        break;
      default:
        put(bytes, places[e], static_cast<uint8_t>(tensor.i[e]));
        break;
    }
  }
  if (type.layout.blocked.empty()) return bytes;
  Bytes blocked(static_cast<size_t>(plan::size_bytes(type)));
  run_kernel(factory, {.kind = "Reorder", .attrs = {}, .inputs = {plain}, .outputs = {type}},
             {&bytes}, {&blocked});
  return blocked;
}

std::vector<double> from_memory(const runtime::KernelFactory& factory, Bytes bytes,
                                const TensorDesc& type) {
  TensorDesc plain = type;
  if (!type.layout.blocked.empty()) {
    plain.layout = {};
    Bytes row_major(static_cast<size_t>(plan::size_bytes(plain)));
    run_kernel(factory, {.kind = "Reorder", .attrs = {}, .inputs = {type}, .outputs = {plain}},
               {&bytes}, {&row_major});
    bytes = std::move(row_major);
  }
  std::vector<double> values;
  for (int64_t place : positions(plain)) {
    switch (type.dtype) {
      case DType::kF32:
        values.push_back(static_cast<double>(take<float>(bytes, place)));
        break;
      case DType::kI64:
        values.push_back(static_cast<double>(take<int64_t>(bytes, place)));
        break;
      case DType::kI32:
        values.push_back(take<int32_t>(bytes, place));
        break;
      default:
        values.push_back(take<uint8_t>(bytes, place));
        break;
    }
  }
  return values;
}

Bytes run_kernel(const runtime::KernelFactory& factory, const OpDesc& op,
                 std::vector<Bytes*> inputs, std::vector<Bytes*> outputs) {
  const auto workspace_bytes = factory.workspace_bytes(op);
  auto kernel = factory.make(op);
  EXPECT_TRUE(kernel && workspace_bytes) << kernel.error().message;
  if (!kernel || !workspace_bytes) return {};
  Bytes workspace(static_cast<size_t>(*workspace_bytes) + 64);
  for (size_t i = workspace.size() - 64; i < workspace.size(); ++i) workspace[i] = std::byte{0x5A};
  std::vector<void*> in, out;
  for (Bytes* bytes : inputs) in.push_back(bytes == nullptr ? nullptr : bytes->data());
  for (Bytes* bytes : outputs) out.push_back(bytes->data());
  (*kernel)->run({.inputs = in, .outputs = out, .workspace = workspace.data(), .context = kStep});
  for (size_t i = workspace.size() - 64; i < workspace.size(); ++i)
    EXPECT_EQ(workspace[i], std::byte{0x5A}) << op.kind << " wrote behind its workspace";
  return workspace;
}

std::string describe(const OpDesc& op) {
  std::string text = op.kind;
  auto add = [&](const TensorDesc& type) {
    text += " [";
    for (int64_t dim : type.dims) text += std::to_string(dim) + ",";
    text += "] " + print(type.layout);
  };
  for (const auto& input : op.inputs)
    if (input) add(*input);
  text += " ->";
  for (const TensorDesc& output : op.outputs) add(output);
  for (const auto& [name, value] : op.attrs) {
    text += " " + name;
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t item : *list) text += "," + std::to_string(item);
    if (const auto* integer = std::get_if<int64_t>(&value)) text += "=" + std::to_string(*integer);
  }
  return text;
}

Layout random_layout(size_t rank, Rng& rng) {
  Layout layout;
  for (size_t d = 0; d < rank; ++d) layout.order.push_back(static_cast<uint8_t>(d));
  for (size_t d = rank; d > 1; --d) std::swap(layout.order[d - 1], layout.order[rng.below(d)]);
  return layout;
}

OpDesc in_form(const runtime::KernelFactory& factory, OpDesc op, Form form, Rng& rng) {
  if (form == Form::kWished) {
    const plan::LayoutWish wish = factory.wish(op);
    for (size_t i = 0; i < wish.inputs.size(); ++i)
      if (op.inputs[i]) op.inputs[i]->layout = wish.inputs[i];
    for (size_t i = 0; i < wish.outputs.size(); ++i) op.outputs[i].layout = wish.outputs[i];
    return op;
  }
  auto layout_of = [&](const TensorDesc& type) {
    if (form == Form::kChannelsLast)
      return type.dims.size() > 2 ? Layout::channels_last(type.dims.size()) : Layout{};
    return form == Form::kPermuted ? random_layout(type.dims.size(), rng) : Layout{};
  };
  for (auto& input : op.inputs)
    if (input) input->layout = layout_of(*input);
  for (TensorDesc& output : op.outputs) output.layout = layout_of(output);
  return op;
}

void expect_close(const std::vector<double>& got, const ref::Tensor& want, std::string_view what) {
  const size_t count = static_cast<size_t>(want.count());
  ASSERT_EQ(got.size(), count);
  for (size_t e = 0; e < count; ++e) {
    const double w = want.real() ? want.f[e] : static_cast<double>(want.i[e]);
    if (std::isnan(w) || std::isinf(w)) {
      EXPECT_TRUE(std::isnan(got[e]) == std::isnan(w) && (std::isnan(w) || got[e] == w))
          << what << " element " << e;
      continue;
    }
    ASSERT_NEAR(got[e], w, want.real() ? 2e-5 * (1 + std::abs(w)) : 0.0)
        << what << " element " << e;
  }
}

// Runs the case in the layouts of `op`; the outputs' bytes.
std::vector<Bytes> run_case(const runtime::KernelFactory& factory, const Case& c, const OpDesc& op,
                            std::vector<std::pair<int, int>> in_place) {
  std::vector<Bytes> inputs(op.inputs.size()), outputs(op.outputs.size());
  std::vector<Bytes*> in(op.inputs.size(), nullptr), out(op.outputs.size());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i]) continue;
    inputs[i] = to_memory(factory, *c.inputs[i], *op.inputs[i]);
    in[i] = &inputs[i];
  }
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    outputs[i].assign(static_cast<size_t>(plan::size_bytes(op.outputs[i])), std::byte{0xFF});
    out[i] = &outputs[i];
  }
  for (const auto& [input, output] : in_place)
    out[static_cast<size_t>(output)] = in[static_cast<size_t>(input)];
  run_kernel(factory, op, in, out);
  std::vector<Bytes> results;
  for (Bytes* bytes : out) results.push_back(*bytes);
  return results;
}

// The pairs that may share a buffer, one set per run: each listed pair alone, and all updates
// together.
std::vector<std::vector<std::pair<int, int>>> in_place_runs(const Case& c) {
  std::vector<std::vector<std::pair<int, int>>> runs;
  for (const auto& pair : ops::in_place_pairs(c.made.instance())) runs.push_back({pair});
  const auto outputs = ops::infer(c.made.instance());
  std::vector<std::pair<int, int>> updates;
  for (size_t o = 0; o < outputs->size(); ++o)
    if ((*outputs)[o].alias == ir::Alias::kUpdate)
      updates.emplace_back((*outputs)[o].base_input, static_cast<int>(o));
  if (!updates.empty()) runs.push_back(updates);
  return runs;
}

class EveryKernel : public testing::TestWithParam<std::string> {
 protected:
  // Cases that ran; 0 when the kernel takes none in this form.
  int run(Form form, int count) {
    const auto one = make_cpu_kernels({.threads = 1}), two = make_cpu_kernels({.threads = 2});
    Rng rng(std::hash<std::string>()(GetParam()) + static_cast<uint64_t>(form));
    int ran = 0;
    for (int i = 0; i < count && !HasFailure(); ++i) {
      const std::optional<Case> c = make_case(GetParam(), rng);
      if (!c) continue;
      const OpDesc op = in_form(*one, c->desc, form, rng);
      const auto workspace = one->workspace_bytes(op);
      if (!workspace) {
        EXPECT_NE(workspace.error().message.find(GetParam()), std::string::npos);
        last_refusal_ = workspace.error().message;
        continue;
      }
      ++ran;
      SCOPED_TRACE(describe(op));
      check(*c, op, *one, *two);
    }
    return ran;
  }

  void check(const Case& c, const OpDesc& op, const runtime::KernelFactory& one,
             const runtime::KernelFactory& two) {
    const std::string implementation = implementation_name(one, op).value_or("none");
    EXPECT_EQ(implementation.find("ref"), std::string::npos);
    const std::vector<Bytes> results = run_case(one, c, op, {});
    for (size_t o = 0; o < results.size(); ++o)
      expect_close(from_memory(one, results[o], op.outputs[o]), c.expected[o],
                   implementation + " output " + std::to_string(o));
    const std::vector<Bytes> again = run_case(two, c, op, {});
    EXPECT_TRUE(implementation != "own" || again == results) << "two threads differ from one";
    for (const auto& pairs : in_place_runs(c)) {
      bool fits = true;
      for (const auto& [i, o] : pairs)
        fits = fits && op.inputs[static_cast<size_t>(i)]->layout ==
                           op.outputs[static_cast<size_t>(o)].layout;
      if (!fits) continue;
      // Within rounding: the compiler may contract a loop otherwise where it finds no aliases.
      const std::vector<Bytes> in_place = run_case(one, c, op, pairs);
      for (size_t o = 0; o < in_place.size(); ++o)
        expect_close(from_memory(one, in_place[o], op.outputs[o]), c.expected[o],
                     "in place: output " + std::to_string(pairs[0].second) + " over input " +
                         std::to_string(pairs[0].first));
    }
  }

  std::string last_refusal_;
};

TEST_P(EveryKernel, EqualsTheReferenceInRowMajorOrder) {
  const int ran = run(Form::kRowMajor, 40);
  if (GetParam().starts_with("Conv")) return;  // row-major is their fallback
  EXPECT_GT(ran, 15) << last_refusal_;
}
TEST_P(EveryKernel, EqualsTheReferenceInTheLayoutsItWishesFor) {
  EXPECT_GT(run(Form::kWished, 40), 15) << last_refusal_;
}
TEST_P(EveryKernel, EqualsTheReferenceInChannelsLastOrder) {
  run(Form::kChannelsLast, 40);
}
TEST_P(EveryKernel, EqualsTheReferenceInAnyOrderItTakes) {
  run(Form::kPermuted, 40);
}

// Large enough, and with rows far enough apart, for the form that copies strips of the right
// operand.
TEST(MatMul, MultipliesByStripsOfTheRightOperand) {
  const int64_t k = 259, m = 300, n = 1024;
  const auto factory = make_cpu_kernels();
  Rng rng(5);
  auto draw = [&](int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = static_cast<float>(rng.uniform()) - 0.5f;
    return values;
  };
  const std::vector<float> a = draw(k * m), b = draw(k * n), acc = draw(m * n);
  auto bytes = [](const std::vector<float>& values) {
    Bytes copy(values.size() * sizeof(float));
    std::memcpy(copy.data(), values.data(), copy.size());
    return copy;
  };
  auto type = [](int64_t rows, int64_t cols) {
    return TensorDesc{.dtype = DType::kF32, .dims = {rows, cols}, .layout = {}};
  };
  for (bool accumulates : {false, true}) {
    OpDesc op{.kind = "MatMul",
              .attrs = {{"trans_a", int64_t{1}}},
              .inputs = {type(k, m), type(k, n), std::nullopt, std::nullopt},
              .outputs = {type(m, n)}};
    if (accumulates) op.inputs[3] = type(m, n);
    Bytes left = bytes(a), right = bytes(b), sum = bytes(acc), out(sum.size());
    Bytes* result = accumulates ? &sum : &out;
    run_kernel(*factory, op, {&left, &right, nullptr, accumulates ? &sum : nullptr}, {result});
    for (int64_t i = 0; i < m; i += 7)
      for (int64_t j = 0; j < n; j += 11) {
        double want = accumulates ? static_cast<double>(acc[static_cast<size_t>(i * n + j)]) : 0.0;
        for (int64_t l = 0; l < k; ++l)
          want += static_cast<double>(a[static_cast<size_t>(l * m + i)]) *
                  static_cast<double>(b[static_cast<size_t>(l * n + j)]);
        ASSERT_NEAR(static_cast<double>(take<float>(*result, i * n + j)), want, 1e-4);
      }
  }
}

std::vector<std::string> computed_kinds() {
  std::vector<std::string> kinds;
  for (std::string_view kind : ops::kinds())
    if (kind != "Reshape") kinds.emplace_back(kind);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Ops, EveryKernel, testing::ValuesIn(computed_kinds()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace lowtide::exec_cpu
