// ATen ops that slide a window over places: convolutions, pooling, resampling.
#include <algorithm>

#include "io/aten_call.h"

namespace lowtide::io {
namespace {

// A list for every spatial dim; PyTorch writes one number for all.
std::vector<int64_t> each(AtenCall& call, std::string_view name, int64_t otherwise, size_t dims) {
  std::vector<int64_t> numbers = call.integers(name);
  if (numbers.empty()) numbers.push_back(otherwise);
  if (numbers.size() == 1) numbers.resize(dims, numbers[0]);
  if (numbers.size() != dims) call.fail("a setting for another number of dims");
  return numbers;
}

// The same padding before and behind.
std::vector<int64_t> both_ends(std::vector<int64_t> pads) {
  const std::vector<int64_t> copy = pads;
  pads.insert(pads.end(), copy.begin(), copy.end());
  return pads;
}

// How many dims of places there are; the batch may be left out, which is not taken.
size_t places(AtenCall& call, std::string_view input, size_t wanted) {
  const size_t rank = call.rank(input);
  if (rank < 3 || (wanted != 0 && rank != wanted + 2)) {
    call.fail("an input of rank " + std::to_string(rank));
    return 1;
  }
  return rank - 2;
}

std::vector<std::string> operands(AtenCall& call) {
  std::vector<std::string> inputs = {call.tensor("input"), call.tensor("weight")};
  if (call.has("bias")) inputs.push_back(call.tensor("bias"));
  return inputs;
}

void transposed(AtenCall& call, size_t dims) {
  call.result("ConvTranspose", operands(call),
              {{"strides", each(call, "stride", 1, dims)},
               {"pads", both_ends(each(call, "padding", 0, dims))},
               {"output_padding", each(call, "output_padding", 0, dims)},
               {"dilations", each(call, "dilation", 1, dims)},
               {"group", call.integer("groups", 1)}});
}

void convolution(AtenCall& call) {
  const size_t dims = places(call, "input", 0);
  if (call.flag("transposed", false)) return transposed(call, dims);
  AtenAttrs attrs = {{"strides", each(call, "stride", 1, dims)},
                     {"dilations", each(call, "dilation", 1, dims)},
                     {"group", call.integer("groups", 1)}};
  const std::string word = call.word("padding", "");
  if (word == "same")
    attrs.emplace_back("auto_pad", std::string("SAME_UPPER"));
  else if (word.empty())
    attrs.emplace_back("pads", both_ends(each(call, "padding", 0, dims)));
  call.result("Conv", operands(call), std::move(attrs));
}

void transposed_convolution(AtenCall& call) {
  transposed(call, places(call, "input", 0));
}

AtenAttrs window(AtenCall& call, size_t dims) {
  const std::vector<int64_t> kernel = each(call, "kernel_size", 1, dims);
  std::vector<int64_t> strides = call.integers("stride");
  if (strides.empty()) strides = kernel;
  if (strides.size() == 1) strides.resize(dims, strides[0]);
  return {{"kernel_shape", kernel},
          {"strides", strides},
          {"pads", both_ends(each(call, "padding", 0, dims))},
          {"ceil_mode", int64_t{call.flag("ceil_mode", false) ? 1 : 0}}};
}

void max_pool(AtenCall& call) {
  const size_t dims = places(call, "self", 0);
  AtenAttrs attrs = window(call, dims);
  attrs.emplace_back("dilations", each(call, "dilation", 1, dims));
  call.result("MaxPool", {call.tensor("self")}, std::move(attrs));
}

void average_pool(AtenCall& call) {
  if (call.has("divisor_override")) return call.fail("divisor_override is not taken");
  AtenAttrs attrs = window(call, places(call, "self", 0));
  attrs.emplace_back("count_include_pad", int64_t{call.flag("count_include_pad", true) ? 1 : 0});
  call.result("AveragePool", {call.tensor("self")}, std::move(attrs));
}

// To so many places: of all of them one, or windows of one size where they divide evenly.
void adaptive_pool(AtenCall& call) {
  const size_t dims = places(call, "self", 0);
  const std::vector<int64_t> wanted = each(call, "output_size", 1, dims);
  const std::string op(call.row().onnx);
  const bool one = std::all_of(wanted.begin(), wanted.end(), [](int64_t n) { return n == 1; });
  if (one) return call.result("Global" + op, {call.tensor("self")});
  const auto& from = call.meta("self").dims;
  std::vector<int64_t> kernel;
  for (size_t d = 0; d < dims && call.mistake().empty(); ++d) {
    const auto extent = from[d + 2].constant();
    if (!extent || wanted[d] < 1 || *extent % wanted[d] != 0)
      return call.fail("places that do not divide into windows of one size");
    kernel.push_back(*extent / wanted[d]);
  }
  call.result(op, {call.tensor("self")}, {{"kernel_shape", kernel}, {"strides", kernel}});
}

// The sizes of the result are told, the ratios are those of the extents or given.
void resize(AtenCall& call, const std::string& mode, bool align) {
  const size_t dims = places(call, "input", 0);
  const std::vector<double> factors = call.reals("scale_factors");
  std::vector<std::string> inputs = {call.tensor("input"), "", ""};
  AtenAttrs attrs = {{"mode", mode}};
  const std::string coordinates = mode == "nearest" ? "asymmetric"
                                  : align           ? "align_corners"
                                                    : "pytorch_half_pixel";
  attrs.emplace_back("coordinate_transformation_mode", coordinates);
  if (mode == "nearest") attrs.emplace_back("nearest_mode", std::string("floor"));
  if (mode == "cubic") attrs.emplace_back("cubic_coeff_a", -0.75);
  if (!factors.empty() && !align) {
    if (factors.size() != dims) return call.fail("scale factors for other dims");
    std::vector<std::string> scales = {call.number(1, DType::kF32), call.number(1, DType::kF32)};
    for (const double factor : factors) scales.push_back(call.number(factor, DType::kF32));
    const std::string axis = call.integer_list({0});
    for (std::string& scale : scales) scale = call.emit("Unsqueeze", {scale, axis});
    inputs[2] = call.emit("Concat", std::move(scales), {{"axis", int64_t{0}}});
  } else {
    inputs.push_back(call.size_list(call.out().dims));
  }
  call.result("Resize", std::move(inputs), std::move(attrs));
}

void resize_nearest(AtenCall& call) {
  resize(call, "nearest", false);
}
void resize_linear(AtenCall& call) {
  resize(call, "linear", call.flag("align_corners", false));
}
void resize_cubic(AtenCall& call) {
  resize(call, "cubic", call.flag("align_corners", false));
}

constexpr AtenRow kWindowAtenRows[] = {
    {"aten.conv1d.default", convolution},
    {"aten.conv2d.default", convolution},
    {"aten.conv3d.default", convolution},
    {"aten.conv1d.padding", convolution},
    {"aten.conv2d.padding", convolution},
    {"aten.conv3d.padding", convolution},
    {"aten.convolution.default", convolution},
    {"aten.conv_transpose1d.default", transposed_convolution},
    {"aten.conv_transpose2d.input", transposed_convolution},
    {"aten.conv_transpose3d.input", transposed_convolution},
    {"aten.max_pool1d.default", max_pool},
    {"aten.max_pool2d.default", max_pool},
    {"aten.max_pool3d.default", max_pool},
    {"aten.avg_pool1d.default", average_pool},
    {"aten.avg_pool2d.default", average_pool},
    {"aten.avg_pool3d.default", average_pool},
    {"aten.adaptive_avg_pool1d.default", adaptive_pool, "AveragePool"},
    {"aten.adaptive_avg_pool2d.default", adaptive_pool, "AveragePool"},
    {"aten.adaptive_avg_pool3d.default", adaptive_pool, "AveragePool"},
    {"aten._adaptive_avg_pool2d.default", adaptive_pool, "AveragePool"},
    {"aten.upsample_nearest1d.vec", resize_nearest},
    {"aten.upsample_nearest2d.vec", resize_nearest},
    {"aten.upsample_nearest3d.vec", resize_nearest},
    {"aten.upsample_linear1d.vec", resize_linear},
    {"aten.upsample_bilinear2d.vec", resize_linear},
    {"aten.upsample_trilinear3d.vec", resize_linear},
    {"aten.upsample_bicubic2d.vec", resize_cubic},
};

}  // namespace

std::span<const AtenRow> aten_window_rows() {
  return kWindowAtenRows;
}

}  // namespace lowtide::io
