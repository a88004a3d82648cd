// Elementwise kernels in every type that their rows allow, against the reference executor: ordinary
// values for all of them, and the ends of each type, infinities, NaNs and zeros of both signs for
// those whose results are exact. Buffers end where their type says, with a guard behind them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "analysis/describe.h"
#include "base/element.h"
#include "exec/cpu/build.h"
#include "exec/cpu/cpu.h"
#include "exec/ref/interpreter.h"
#include "ops/testing/random_instance.h"

namespace lowtide::exec_cpu {
namespace {

constexpr runtime::StepContext kTypedStep{.seed = 1, .step = 1};
constexpr int64_t kGuard = 64;

// Kinds whose results are exact, or one rounded operation, in every type.
const std::set<std::string, std::less<>> kExact = {"Relu",
                                                   "Neg",
                                                   "Abs",
                                                   "Floor",
                                                   "Ceil",
                                                   "Round",
                                                   "Sign",
                                                   "IsNaN",
                                                   "Not",
                                                   "Cast",
                                                   "Copy",
                                                   "Where",
                                                   "Add",
                                                   "Sub",
                                                   "Mul",
                                                   "Div",
                                                   "Max",
                                                   "Min",
                                                   "Mod",
                                                   "Equal",
                                                   "Less",
                                                   "LessOrEqual",
                                                   "Greater",
                                                   "Clip",
                                                   "LeakyRelu",
                                                   "And",
                                                   "AffineScalar",
                                                   "Or",
                                                   "GreaterOrEqual",
                                                   "Xor",
                                                   "BitwiseAnd",
                                                   "BitwiseOr",
                                                   "BitwiseXor",
                                                   "ShiftLeft",
                                                   "ShiftRight"};

struct Case {
  OpDesc desc;
  ops::RandomInstance made;
  std::vector<std::optional<ref::Tensor>> inputs;
};

plan::TensorDesc concrete_type(const ops::Type& type) {
  plan::TensorDesc desc{.dtype = type.dtype, .dims = {}, .layout = {}};
  for (const sym::Expr& dim : type.dims) desc.dims.push_back(*dim.constant());
  return desc;
}

int64_t any_integer(DType dtype, Rng& rng) {
  switch (rng.below(8)) {
    case 0:
      return saturated(dtype, -std::numeric_limits<double>::infinity());
    case 1:
      return saturated(dtype, std::numeric_limits<double>::infinity());
    case 2:
      return wrapped(dtype, static_cast<int64_t>(rng.below(UINT64_MAX)));
    default:
      return wrapped(dtype, rng.between(-9, 9));
  }
}

double special_number(DType dtype, Rng& rng) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double specials[] = {kInfinity, -kInfinity, NAN,  0.0,  -0.0, 0.5,   -0.5,   2.5,
                             -2.5,      1e-310,     1e30, -7.0, 7.0,  300.7, -3.0e9, 1e19};
  return rounded(dtype, specials[rng.below(std::size(specials))]);
}

// Where slopes of activations jump.
double corner(DType dtype, Rng& rng) {
  const double corners[] = {0.0, -0.0, 0.5, -0.5, 1, -1, 2, -2, 3, -3};
  return rounded(dtype, corners[rng.below(std::size(corners))]);
}

ref::Tensor draw_tensor(const plan::TensorDesc& type, const ops::InputValues& kind, bool specials,
                        bool corners, Rng& rng) {
  ref::Tensor tensor = ref::Tensor::zeros(type.dtype, type.dims);
  const std::vector<double> plain = ops::random_values(kind, tensor.count(), rng);
  for (size_t e = 0; e < plain.size(); ++e) {
    if (tensor.real() && (specials || corners) && rng.below(2) == 0)
      tensor.f[e] = corners ? corner(type.dtype, rng) : special_number(type.dtype, rng);
    else if (tensor.real())
      tensor.f[e] = rounded(type.dtype, plain[e]);
    else
      tensor.i[e] = type.dtype == DType::kBool ? static_cast<int64_t>(rng.below(2))
                                               : any_integer(type.dtype, rng);
  }
  return tensor;
}

// An instance of the kind whose operands of a free type are `dtype`; none where the row says no.
std::optional<Case> make_case(std::string_view kind, DType dtype, Rng& rng) {
  const std::vector<DType> types = ops::shared_types(kind);
  if (!types.empty() && std::count(types.begin(), types.end(), dtype) == 0) return std::nullopt;
  auto made =
      ops::random_instance(kind, rng, types.empty() ? std::nullopt : std::optional<DType>(dtype));
  EXPECT_TRUE(made) << made.error().message;
  Case c{.desc = {}, .made = std::move(*made), .inputs = {}};
  if (kind == "Cast") c.made.attrs["to"] = std::string(name(DType(rng.below(kDTypes))));
  if (kind == "PowScalar" && is_integer(dtype)) c.made.attrs["exponent"] = int64_t{3};
  if (kind == "Mod") c.made.attrs["fmod"] = static_cast<int64_t>(rng.below(2));
  const auto outputs = ops::infer(c.made.instance());
  if (!outputs) return std::nullopt;
  c.desc.kind = std::string(kind);
  c.desc.attrs = *analysis::describe(c.made.attrs, kind);
  const bool specials = kExact.contains(kind) && rng.below(2) == 0;
  const bool corners = kind.ends_with("Grad") && kind != "MseLossGrad";
  for (size_t i = 0; i < c.made.inputs.size(); ++i) {
    c.desc.inputs.emplace_back(concrete_type(*c.made.inputs[i]));
    c.inputs.emplace_back(draw_tensor(*c.desc.inputs[i], c.made.values[i], specials, corners, rng));
    if (kind == "Pow" && i == 1 && is_integer(dtype))  // the reference multiplies step by step
      for (int64_t& e : c.inputs[1]->i) e = wrapped(dtype, is_unsigned(dtype) ? e & 15 : e % 16);
  }
  for (const ops::OutputType& output : *outputs)
    c.desc.outputs.push_back(concrete_type(output.type));
  return c;
}

using Bytes = std::vector<std::byte>;

Bytes guarded(const plan::TensorDesc& type) {
  return Bytes(static_cast<size_t>(plan::size_bytes(type) + kGuard), std::byte{0x5A});
}

Bytes bytes_of(const ref::Tensor& tensor, const plan::TensorDesc& type) {
  Bytes bytes = guarded(type);
  for (int64_t e = 0; e < tensor.count(); ++e) {
    std::byte* at = bytes.data() + e * size_bytes(type.dtype);
    if (tensor.real())
      write_real(type.dtype, tensor.f[static_cast<size_t>(e)], at);
    else
      write_integer(type.dtype, tensor.i[static_cast<size_t>(e)], at);
  }
  return bytes;
}

double tolerance(DType dtype, double value) {
  const double size = 1 + std::abs(value);
  switch (dtype) {
    case DType::kF64:
      return 1e-13 * size;
    case DType::kF16:
      return 1.1e-3 * size;
    case DType::kBF16:
      return 8e-3 * size;
    default:
      return 2e-5 * size;
  }
}

void expect_equal(const Bytes& got, const ref::Tensor& want, bool exact) {
  const int64_t width = size_bytes(want.dtype);
  for (int64_t e = 0; e < want.count(); ++e) {
    const std::byte* at = got.data() + e * width;
    if (!want.real()) {
      ASSERT_EQ(read_integer(want.dtype, at), want.i[static_cast<size_t>(e)]) << "element " << e;
      continue;
    }
    const double g = read_real(want.dtype, at), w = want.f[static_cast<size_t>(e)];
    if (std::isnan(w) || std::isinf(w) || exact) {
      ASSERT_TRUE(g == w || (std::isnan(g) && std::isnan(w)))
          << "element " << e << ": " << g << ", not " << w;
    } else {
      ASSERT_NEAR(g, w, tolerance(want.dtype, w)) << "element " << e;
    }
  }
  for (size_t i = got.size() - kGuard; i < got.size(); ++i)
    ASSERT_EQ(got[i], std::byte{0x5A}) << "wrote behind its output";
}

class TypedElementwise : public testing::TestWithParam<std::string> {};

TEST_P(TypedElementwise, EqualsTheReferenceInEveryTypeOfItsRow) {
  const std::string& kind = GetParam();
  const auto factory = make_cpu_kernels({.threads = 1});
  Rng rng(std::hash<std::string>()(kind));
  int ran = 0;
  for (int t = 0; t < kDTypes; ++t) {
    const auto dtype = static_cast<DType>(t);
    for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
      auto c = make_case(kind, dtype, rng);
      if (!c) break;
      SCOPED_TRACE(print(c->desc));
      const auto expected = ref::evaluate(c->made.instance(), c->inputs, {});
      ASSERT_TRUE(expected) << expected.error().message;
      auto kernel = factory->make(c->desc);
      ASSERT_TRUE(kernel) << kernel.error().message;
      std::vector<Bytes> inputs;
      std::vector<void*> in;
      for (size_t k = 0; k < c->inputs.size(); ++k)
        inputs.push_back(bytes_of(*c->inputs[k], *c->desc.inputs[k]));
      for (Bytes& bytes : inputs) in.push_back(bytes.data());
      Bytes output = guarded(c->desc.outputs[0]);
      std::vector<void*> out = {output.data()};
      (*kernel)->run({.inputs = in, .outputs = out, .workspace = nullptr, .context = kTypedStep});
      const bool fused = kind == "AffineScalar";  // one rounding or two
      expect_equal(output, (*expected)[0], kExact.contains(kind) && !fused);
      ++ran;
    }
  }
  EXPECT_GE(ran, 40);
}

std::vector<std::string> elementwise_kinds() {
  std::vector<std::string> kinds;
  for (const Entry& entry : elementwise_kernels())
    if (entry.kind != "RunningUpdate") kinds.emplace_back(entry.kind);
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Ops, TypedElementwise, testing::ValuesIn(elementwise_kinds()),
                         [](const auto& param) { return param.param; });

// The constants of ops on integers keep all their digits.
TEST(IntegerConstants, AreExactAndWrapAround) {
  const auto factory = make_cpu_kernels({.threads = 1});
  const auto run = [&](std::string kind, plan::Attrs attrs, DType dtype, int64_t x) {
    plan::TensorDesc type{.dtype = dtype, .dims = {1}, .layout = {}};
    OpDesc op{
        .kind = std::move(kind), .attrs = std::move(attrs), .inputs = {type}, .outputs = {type}};
    auto kernel = factory->make(op);
    EXPECT_TRUE(kernel) << kernel.error().message;
    int64_t in = x, out = 0;
    write_integer(dtype, x, &in);
    std::vector<void*> inputs = {&in}, outputs = {&out};
    (*kernel)->run(
        {.inputs = inputs, .outputs = outputs, .workspace = nullptr, .context = kTypedStep});
    return read_integer(dtype, &out);
  };
  constexpr int64_t kLarge = (int64_t{1} << 60) + 1;  // no double has it
  EXPECT_EQ(run("Clip", {{"max", kLarge}}, DType::kI64, kLarge + 5), kLarge);
  EXPECT_EQ(run("Clip", {{"min", -kLarge}}, DType::kI64, INT64_MIN), -kLarge);
  EXPECT_EQ(run("Clip", {{"min", int64_t{-1}}}, DType::kU64, 7), -1);  // 2^64 - 1
  EXPECT_EQ(run("Clip", {{"min", -1e300}, {"max", 1e300}}, DType::kI64, kLarge), kLarge);
  EXPECT_EQ(run("Clip", {{"max", 100.9}}, DType::kU8, 255), 100);
  EXPECT_EQ(run("Clip", {}, DType::kI8, -128), -128);
  EXPECT_EQ(run("AffineScalar", {{"scale", int64_t{3}}, {"shift", kLarge}}, DType::kI64, 2),
            kLarge + 6);
  EXPECT_EQ(run("AffineScalar", {{"scale", int64_t{2}}, {"shift", int64_t{0}}}, DType::kU8, 200),
            144);
  EXPECT_EQ(run("PowScalar", {{"exponent", int64_t{3}}}, DType::kI16, 100), 16960);
  OpDesc pad{.kind = "Pad",
             .attrs = {{"begins", std::vector<int64_t>{1}},
                       {"ends", std::vector<int64_t>{0}},
                       {"value", kLarge}},
             .inputs = {plan::TensorDesc{.dtype = DType::kI64, .dims = {1}, .layout = {}}},
             .outputs = {plan::TensorDesc{.dtype = DType::kI64, .dims = {2}, .layout = {}}}};
  auto kernel = factory->make(pad);
  ASSERT_TRUE(kernel) << kernel.error().message;
  int64_t in = 5, out[2] = {};
  std::vector<void*> inputs = {&in}, outputs = {out};
  (*kernel)->run(
      {.inputs = inputs, .outputs = outputs, .workspace = nullptr, .context = kTypedStep});
  EXPECT_EQ(out[0], kLarge);
  EXPECT_EQ(out[1], 5);
}

// Many elements of 16 bits, in blocks, over a broadcast operand and in place.
TEST(Half, IsComputedAsFloatsAndRoundedOnce) {
  const auto factory = make_cpu_kernels({.threads = 2});
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const int64_t rows = 37, cols = 1301;
    const plan::TensorDesc wide{.dtype = dtype, .dims = {rows, cols}, .layout = {}};
    const plan::TensorDesc column{.dtype = dtype, .dims = {rows, 1}, .layout = {}};
    const OpDesc op{.kind = "Mul", .attrs = {}, .inputs = {wide, column}, .outputs = {wide}};
    auto kernel = factory->make(op);
    ASSERT_TRUE(kernel) << kernel.error().message;
    std::vector<uint16_t> a(static_cast<size_t>(rows * cols)), b(static_cast<size_t>(rows));
    for (size_t i = 0; i < a.size(); ++i)
      write_real(dtype, std::sin(static_cast<double>(i)), &a[i]);
    for (size_t i = 0; i < b.size(); ++i) write_real(dtype, 0.37 * static_cast<double>(i), &b[i]);
    const std::vector<uint16_t> before = a;
    std::vector<void*> inputs = {a.data(), b.data()}, outputs = {a.data()};
    (*kernel)->run(
        {.inputs = inputs, .outputs = outputs, .workspace = nullptr, .context = kTypedStep});
    for (size_t i = 0; i < a.size(); ++i) {
      const double exact =
          read_real(dtype, &before[i]) * read_real(dtype, &b[i / static_cast<size_t>(cols)]);
      ASSERT_EQ(read_real(dtype, &a[i]), rounded(dtype, exact)) << i;
    }
  }
}

}  // namespace
}  // namespace lowtide::exec_cpu
