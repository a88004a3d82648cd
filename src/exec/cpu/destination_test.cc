// Every kind as a slice of something larger (the attribute `into`): the whole is the reference
// executor's in double precision, with what lies beside the slice as it was, written in place, from
// a rest elsewhere, and in other orders of the dimensions; or the factory refuses with a reason.
// Which kinds write everywhere, and which somewhere only and why, is pinned below: nothing is left
// out without a reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/words.h"
#include "ops/destinations.h"
#include "support/kernel_cases.h"

namespace lowtide::exec_cpu {
namespace {

// Kinds whose kernels write holes between the elements of a result. A slice without holes, in
// row-major order, is written by every kind that the op table lets have a destination.
constexpr std::string_view kWriting =
    "Relu Sigmoid Tanh Erf Exp Log Sqrt Reciprocal Neg Abs Sin Cos Tan Sinh Cosh Asin Acos Atan "
    "Asinh Acosh Atanh Floor Ceil Round Sign Softplus HardSwish Mish Silu Not IsNaN LeakyRelu Elu "
    "HardSigmoid Gelu Clip PowScalar AffineScalar Cast BitCast Copy Where Add Sub Mul Div Max Min "
    "LogAddExp Pow Mod Equal Less LessOrEqual Greater GreaterOrEqual And Or Xor BitwiseAnd "
    "BitwiseOr "
    "BitwiseXor ShiftLeft ShiftRight ReluGrad SigmoidGrad TanhGrad SiluGrad HardSwishGrad "
    "SoftplusGrad MishGrad ErfGrad GeluGrad LeakyReluGrad EluGrad HardSigmoidGrad ClipGrad "
    "MseLossGrad MatMul Transpose Slice Expand Concat Reorder "
    "Resize ResizeGrad PadRepeat PadRepeatGrad";

// The factory's reasons where the result has holes, by kind of kernel.
constexpr std::string_view kApart = "do not lie side by side in any dimension";
constexpr std::string_view kNotWritten = "an output is a strided view";

struct DestinationCounts {
  int written = 0, with_gaps = 0, apart = 0, refused = 0, no_destination = 0;
};

class Destinations : public testing::TestWithParam<std::string> {
 protected:
  // The instance with its result in a slice; nothing where the op table refuses it.
  static std::optional<ops::RandomInstance> drawn(const std::string& kind, Rng& rng,
                                                  DestinationCounts& counts) {
    auto made = ops::random_instance(kind, rng);
    EXPECT_TRUE(made.has_value());
    const auto plain = ops::infer(made->instance());
    EXPECT_TRUE(plain.has_value());
    const size_t rest = ops::rest_operand(*ops::find(kind));
    if (plain->empty() || plain->front().type.dims.empty() || made->inputs.size() > rest) {
      for (size_t i = rest; i < made->inputs.size(); ++i) ++counts.no_destination;
      return std::nullopt;
    }
    ops::Type whole = plain->front().type;
    const size_t axis = rng.below(whole.dims.size());
    const int64_t begin = rng.between(0, 2), size = *whole.dims[axis].constant();
    const int64_t extent = begin + size + rng.between(begin == 0 ? 1 : 0, 2);
    made->attrs["into"] = ir::Dims{static_cast<int64_t>(axis), begin, begin + size, extent};
    whole.dims[axis] = extent;
    made->inputs.resize(rest + 1);
    made->values.resize(rest + 1);
    made->inputs[rest] = whole;
    if (whole.dtype == DType::kBool)
      made->values[rest] = {.kind = ops::InputValues::Kind::kBool};
    else if (!is_float(whole.dtype))
      made->values[rest] = {.kind = ops::InputValues::Kind::kInteger, .low = 0, .high = 50};
    if (ops::infer(made->instance())) return std::move(*made);
    ++counts.no_destination;
    return std::nullopt;
  }

  // One order of the dimensions for all operands of the result's rank.
  static void permute(OpDesc& op, Rng& rng) {
    Layout layout;
    const size_t rank = op.outputs[0].dims.size();
    for (size_t d = 0; d < rank; ++d)
      layout.order.insert(layout.order.begin() + static_cast<int64_t>(rng.below(d + 1)),
                          static_cast<uint8_t>(d));
    for (auto& input : op.inputs)
      if (input && input->dims.size() == rank) input->layout = layout;
    op.outputs[0].layout = layout;
  }

  void run(Rng& rng, DestinationCounts& counts) {
    const auto made = drawn(GetParam(), rng, counts);
    if (!made) return;
    const std::optional<Case> c = case_of(*made, {}, rng);
    if (!c) return;
    OpDesc op = c->desc;
    if (rng.below(2) == 0) permute(op, rng);
    SCOPED_TRACE(describe(op));
    const auto workspace = one_->workspace_bytes(op);
    if (workspace) {
      ++counts.written;
      counts.with_gaps += has_gaps(op);
      return check_case(*c, op, *one_, *two_);
    }
    EXPECT_FALSE(one_->make(op));
    refuse(workspace.error().message, op, counts);
  }

  static bool has_gaps(const OpDesc& op) {
    const std::vector<int64_t> into = std::get<std::vector<int64_t>>(op.attrs.at("into"));
    const TensorDesc& whole = op.outputs[0];
    std::vector<int64_t> dims = whole.dims;
    dims[static_cast<size_t>(into[0])] = into[2] - into[1];
    return layout_of_strides(dims, strides_of(whole.layout, whole.dims)).strided();
  }

  void refuse(const std::string& message, const OpDesc& op, DestinationCounts& counts) {
    const bool apart = message.find(kApart) != std::string::npos;
    ++(apart ? counts.apart : counts.refused);
    const std::vector<std::string_view> words = words_of(kWriting);
    const bool writes = std::find(words.begin(), words.end(), GetParam()) != words.end();
    if (GetParam() == "MatMul") {  // oneDNN has no code for columns that lie apart
      EXPECT_NE(message.find(": oneDNN"), std::string::npos) << message;
    } else if (writes) {
      EXPECT_TRUE(apart) << message;
    } else {
      // As far as it depends on the destination: a kind may refuse an order of dimensions anyway.
      const bool holes = message.find(kNotWritten) != std::string::npos;
      EXPECT_TRUE(holes || !op.outputs[0].layout.row_major() || GetParam().starts_with("Conv"))
          << message;
    }
  }

  std::unique_ptr<runtime::KernelFactory> one_ = make_cpu_kernels({.threads = 1});
  std::unique_ptr<runtime::KernelFactory> two_ = make_cpu_kernels({.threads = 2});
};

TEST_P(Destinations, AreWrittenOrRefused) {
  Rng rng(std::hash<std::string>()(GetParam()) + 5);
  DestinationCounts counts;
  for (int i = 0; i < 60 && !HasFailure(); ++i) run(rng, counts);
  std::printf("%s: %d written, %d of them with holes, %d apart, %d refused, %d without\n",
              GetParam().c_str(), counts.written, counts.with_gaps, counts.apart, counts.refused,
              counts.no_destination);
  RecordProperty("written", counts.written);
  const std::vector<std::string_view> words = words_of(kWriting);
  if (std::find(words.begin(), words.end(), GetParam()) != words.end()) {
    EXPECT_GT(counts.with_gaps, 5) << GetParam();
  } else if (!GetParam().starts_with("Conv")) {
    EXPECT_EQ(counts.with_gaps, 0) << GetParam();
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Destinations, testing::ValuesIn(computed_kinds()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace lowtide::exec_cpu
