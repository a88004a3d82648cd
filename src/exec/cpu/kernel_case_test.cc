#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "analysis/describe.h"
#include "base/element.h"
#include "ops/op_table.h"
#include "support/kernel_cases.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" void __asan_poison_memory_region(void const volatile* address, size_t size);
extern "C" void __asan_unpoison_memory_region(void const volatile* address, size_t size);
#endif

namespace lowtide::exec_cpu {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int64_t kZone = 192;
constexpr std::byte kPattern{0x5A};

TensorDesc concrete(const ops::Type& type) {
  TensorDesc desc{.dtype = type.dtype, .dims = {}, .layout = {}};
  for (const sym::Expr& dim : type.dims) desc.dims.push_back(*dim.constant());
  return desc;
}

// ---- values

// Instructions for products of bf16 take denormals for zeros, whatever the mode of rounding is (and
// an infinity times zero is no infinity).
bool takes_denormals(std::string_view kind, DType type) {
  return kind != "MatMul" || type != DType::kBF16;
}

double special_real(DType type, bool denormals, Rng& rng) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double denormal = !denormals            ? 0.0
                          : type == DType::kF64 ? 0x1p-1060
                          : type == DType::kF16 ? 0x1p-20
                                                : 0x1p-130;
  const double values[] = {std::nan(""), kInfinity, -kInfinity, 0.0,  -0.0,
                           denormal,     -denormal, 0.5,        -1.0, 1.0};
  return values[rng.below(std::size(values))];
}

int64_t special_integer(DType type, Rng& rng) {
  const int bits = static_cast<int>(8 * size_bytes(type));
  const int64_t lowest = is_unsigned(type) ? 0 : std::numeric_limits<int64_t>::min() >> (64 - bits);
  const int64_t values[] = {lowest, ~lowest, 0, 1, -1, 2};
  return wrapped(type, values[rng.below(std::size(values))]);
}

ref::Tensor draw(const TensorDesc& desc, const ops::InputValues& values, bool special,
                 bool denormals, Rng& rng) {
  using Kind = ops::InputValues::Kind;
  ref::Tensor tensor = ref::Tensor::zeros(desc.dtype, desc.dims);
  const std::vector<double> drawn = ops::random_values(values, tensor.count(), rng);
  for (size_t e = 0; e < drawn.size(); ++e) {
    const bool spoilt = special && rng.below(4) == 0;
    if (tensor.real()) {
      tensor.f[e] = spoilt && values.kind == Kind::kReal ? special_real(desc.dtype, denormals, rng)
                                                         : rounded(desc.dtype, drawn[e]);
    } else {
      tensor.i[e] = spoilt && values.kind == Kind::kWhole
                        ? special_integer(desc.dtype, rng)
                        : wrapped(desc.dtype, static_cast<int64_t>(drawn[e]));
    }
  }
  return tensor;
}

// ---- memory

// Position of each logical element (row-major order) in memory.
std::vector<int64_t> positions(const TensorDesc& type) {
  const std::vector<int64_t> strides = strides_of(type.layout, type.dims);
  std::vector<int64_t> places;
  for (ref::Odometer at(type.dims); at.live(); at.next()) places.push_back(at.dot(strides));
  return places;
}

TensorDesc unblocked(TensorDesc type) {
  if (!type.layout.blocked.empty()) type.layout = {};
  return type;
}

Guarded reordered(const runtime::KernelFactory& factory, Guarded& from, const TensorDesc& type,
                  const TensorDesc& to) {
  Guarded result(plan::size_bytes(to));
  run_kernel(factory, {.kind = "Reorder", .attrs = {}, .inputs = {type}, .outputs = {to}}, {&from},
             {&result});
  return result;
}

Guarded to_memory(const runtime::KernelFactory& factory, const ref::Tensor& tensor,
                  const TensorDesc& type) {
  const TensorDesc plain = unblocked(type);
  Guarded memory(plan::span_bytes(plain));
  const std::vector<int64_t> places = positions(plain);
  for (size_t e = 0; e < places.size(); ++e) {
    std::byte* at = memory.data() + places[e] * size_bytes(type.dtype);
    if (tensor.real())
      write_real(type.dtype, tensor.f[e], at);
    else
      write_integer(type.dtype, tensor.i[e], at);
  }
  if (!type.layout.blocked.empty()) return reordered(factory, memory, plain, type);
  return memory;
}

// ---- comparing

// What rounding explains, relative to 1 + |value|: results of sums in another order, for 16 bits
// also of values that were rounded before they were used.
double tolerance(DType type) {
  switch (type) {
    case DType::kF64:
      return 1e-12;
    case DType::kF16:
      return 2e-3;
    case DType::kBF16:
      return 1.6e-2;
    default:
      return 2e-5;
  }
}

bool close(double got, double want, DType type) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::abs(got - want) <= tolerance(type) * (1 + std::abs(want));
}

}  // namespace

// ---- buffers

Guarded::Guarded(int64_t bytes, std::byte fill)
    : all_(static_cast<size_t>(bytes + 2 * kZone), kPattern), bytes_(bytes) {
  const auto address = reinterpret_cast<uintptr_t>(all_.data());
  start_ = static_cast<int64_t>((address + 64 + 63) / 64 * 64 - address);
  std::fill(data(), data() + bytes, fill);
}

bool Guarded::intact() const {
  const auto untouched = [](std::byte b) { return b == kPattern; };
  return std::all_of(all_.data(), data(), untouched) &&
         std::all_of(data() + bytes_, all_.data() + all_.size(), untouched);
}

void Guarded::forbid([[maybe_unused]] bool on) {
#if defined(__SANITIZE_ADDRESS__)
  const auto set = on ? __asan_poison_memory_region : __asan_unpoison_memory_region;
  set(all_.data(), static_cast<size_t>(start_));
  set(data() + bytes_, all_.size() - static_cast<size_t>(start_ + bytes_));
#endif
}

void run_kernel(const runtime::KernelFactory& factory, const OpDesc& op,
                const std::vector<Guarded*>& inputs, const std::vector<Guarded*>& outputs) {
  const auto workspace_bytes = factory.workspace_bytes(op);
  auto kernel = factory.make(op);
  ASSERT_TRUE(kernel && workspace_bytes) << kernel.error().message;
  Guarded workspace(*workspace_bytes);
  std::vector<Guarded*> all = {&workspace};
  std::vector<void*> in, out;
  for (Guarded* buffer : inputs) in.push_back(buffer == nullptr ? nullptr : buffer->data());
  for (Guarded* buffer : outputs) out.push_back(buffer->data());
  for (const std::vector<Guarded*>& side : {inputs, outputs})
    for (Guarded* buffer : side)
      if (buffer != nullptr) all.push_back(buffer);
  for (Guarded* buffer : all) buffer->forbid(true);
  (*kernel)->run({.inputs = in, .outputs = out, .workspace = workspace.data(), .context = kStep});
  for (Guarded* buffer : all) buffer->forbid(false);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(all[i]->intact()) << op.kind << " wrote outside of "
                                  << (i == 0 ? "its workspace" : "an operand");
}

// ---- cases

std::optional<Case> make_case(std::string_view kind, const CaseOptions& options, Rng& rng) {
  auto made = ops::random_instance(kind, rng, options.type);
  EXPECT_TRUE(made || options.type) << made.error().message;
  if (!made) return std::nullopt;  // its attributes are not for this type
  return case_of(std::move(*made), options, rng);
}

std::optional<Case> case_of(ops::RandomInstance made, const CaseOptions& options, Rng& rng) {
  Case c{.made = std::move(made), .desc = {}, .inputs = {}, .expected = {}};
  const auto outputs = ops::infer(c.made.instance());
  EXPECT_TRUE(outputs) << outputs.error().message;
  c.desc.kind = c.made.kind;
  c.desc.attrs = *analysis::describe(c.made.attrs, c.made.kind);
  for (size_t i = 0; i < c.made.inputs.size(); ++i) {
    c.inputs.emplace_back();
    c.desc.inputs.emplace_back();
    if (!c.made.inputs[i]) continue;
    const TensorDesc desc = concrete(*c.made.inputs[i]);
    c.desc.inputs.back() = desc;
    c.inputs.back() = draw(desc, c.made.values[i], options.special,
                           takes_denormals(c.made.instance().kind, desc.dtype), rng);
  }
  for (const ops::OutputType& output : *outputs) {
    if (output.alias == ir::Alias::kView) return std::nullopt;
    c.desc.outputs.push_back(concrete(output.type));
  }
  // Special values are computed in the kernel's precision: what is too large for it is infinite.
  ref::Context context{.seed = kStep.seed, .step = kStep.step};
  context.precision = options.special ? ref::Precision::kF32 : ref::Precision::kF64;
  auto expected = ref::evaluate(c.made.instance(), c.inputs, context);
  EXPECT_TRUE(expected) << expected.error().message;
  if (!expected) return std::nullopt;
  c.expected = std::move(*expected);
  return c;
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

std::vector<Bytes> run_case(const runtime::KernelFactory& factory, const Case& c, const OpDesc& op,
                            const std::vector<std::pair<int, int>>& in_place) {
  std::vector<Guarded> inputs, outputs;
  std::vector<Guarded*> in(op.inputs.size(), nullptr), out;
  inputs.reserve(op.inputs.size());
  outputs.reserve(op.outputs.size());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i]) continue;
    inputs.push_back(to_memory(factory, *c.inputs[i], *op.inputs[i]));
    in[i] = &inputs.back();
  }
  for (const TensorDesc& output : op.outputs) {
    outputs.emplace_back(plan::size_bytes(output));
    out.push_back(&outputs.back());
  }
  std::vector<bool> overwritten(op.inputs.size(), false);
  for (const auto& [input, output] : in_place) {
    out[static_cast<size_t>(output)] = in[static_cast<size_t>(input)];
    overwritten[static_cast<size_t>(input)] = true;
  }
  std::vector<Bytes> before;
  for (Guarded* buffer : in) before.push_back(buffer == nullptr ? Bytes{} : buffer->contents());
  run_kernel(factory, op, in, out);
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_TRUE(in[i] == nullptr || overwritten[i] || in[i]->contents() == before[i])
        << op.kind << " changed operand " << i;
  std::vector<Bytes> results;
  for (const Guarded* buffer : out) results.push_back(buffer->contents());
  return results;
}

void expect_close(const runtime::KernelFactory& factory, const Bytes& got, const TensorDesc& type,
                  const ref::Tensor& want, std::string_view what) {
  Guarded memory(static_cast<int64_t>(got.size()));
  std::copy(got.begin(), got.end(), memory.data());
  const TensorDesc plain = unblocked(type);
  if (!type.layout.blocked.empty()) memory = reordered(factory, memory, type, plain);
  const std::vector<int64_t> places = positions(plain);
  ASSERT_EQ(static_cast<int64_t>(places.size()), want.count());
  for (size_t e = 0; e < places.size(); ++e) {
    const std::byte* at = memory.data() + places[e] * size_bytes(type.dtype);
    if (!want.real()) {
      ASSERT_EQ(read_integer(type.dtype, at), want.i[e]) << what << " element " << e;
      continue;
    }
    const double value = rounded(type.dtype, want.f[e]);
    ASSERT_TRUE(close(read_real(type.dtype, at), value, type.dtype))
        << what << " element " << e << " is " << read_real(type.dtype, at) << ", wanted " << value;
  }
}

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

void check_guards(const Case& c, const OpDesc& op, const runtime::KernelFactory& factory) {
  run_case(factory, c, op, {});
  for (const auto& pairs : in_place_runs(c)) {
    bool fits = true;
    for (const auto& [i, o] : pairs)
      fits = fits &&
             op.inputs[static_cast<size_t>(i)]->layout == op.outputs[static_cast<size_t>(o)].layout;
    if (fits) run_case(factory, c, op, pairs);
  }
}

void check_case(const Case& c, const OpDesc& op, const runtime::KernelFactory& one,
                const runtime::KernelFactory& two) {
  const std::string implementation = implementation_name(one, op).value_or("none");
  EXPECT_EQ(implementation.find("ref"), std::string::npos);
  const std::vector<Bytes> results = run_case(one, c, op, {});
  for (size_t o = 0; o < results.size(); ++o)
    expect_close(one, results[o], op.outputs[o], c.expected[o],
                 implementation + " output " + std::to_string(o));
  const std::vector<Bytes> again = run_case(two, c, op, {});
  EXPECT_TRUE(implementation != "own" || again == results) << "two threads differ from one";
  for (const auto& pairs : in_place_runs(c)) {
    bool fits = true;
    for (const auto& [i, o] : pairs)
      fits = fits &&
             op.inputs[static_cast<size_t>(i)]->layout == op.outputs[static_cast<size_t>(o)].layout;
    if (!fits) continue;
    // Within rounding: the compiler may contract a loop otherwise where it finds no aliases.
    const std::vector<Bytes> in_place = run_case(one, c, op, pairs);
    for (size_t o = 0; o < in_place.size(); ++o)
      expect_close(one, in_place[o], op.outputs[o], c.expected[o],
                   "in place: output " + std::to_string(pairs[0].second) + " over input " +
                       std::to_string(pairs[0].first));
  }
}

std::vector<std::string> computed_kinds() {
  std::vector<std::string> kinds;
  for (std::string_view kind : ops::kinds())
    if (kind != "Reshape" && kind != "Join") kinds.emplace_back(kind);  // views, whatever comes
  return kinds;
}

std::string describe(const OpDesc& op) {
  std::string text = print(op);
  for (const auto& [name, value] : op.attrs) {
    text += " " + name;
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value))
      for (int64_t item : *list) text += "," + std::to_string(item);
    if (const auto* integer = std::get_if<int64_t>(&value)) text += "=" + std::to_string(*integer);
    if (const auto* real = std::get_if<double>(&value)) text += "=" + std::to_string(*real);
    if (const auto* word = std::get_if<std::string>(&value)) text += "=" + *word;
  }
  return text;
}

}  // namespace lowtide::exec_cpu
