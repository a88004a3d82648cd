// Conv, ConvDataGrad (also the transposed convolution) and ConvWgtGrad on oneDNN; those of f64 are
// own loops (own_convolution.cc). Data in channels-last order and weights in the blocked format
// that oneDNN picks for the shape are the fast form; wish() names them. Whatever layouts a plan
// then holds are passed on exactly, and a combination for which oneDNN has only its reference code
// is refused. So is code of oneDNN's that is known to be wrong: the next one that it has is taken.
#include <algorithm>
#include <memory>

#include "exec/cpu/convolution_geometry.h"
#include "exec/cpu/dnnl_seam.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {
namespace {

using Dims = std::vector<int64_t>;

Result<MemoryDesc> weights_desc(const OpDesc& op, const ConvGeometry& g) {
  if (!g.weights.layout.blocked.empty()) {
    LT_ASSIGN(MemoryDesc desc, parse_blocked(op, g.weights));
    if (desc.dims() != g.weight_dims)
      return unsupported(op, "the weights are blocked for other dims");
    return desc;
  }
  Dims strides = strides_of(g.weights);
  if (g.group > 1) strides.insert(strides.begin(), strides[0] * g.weight_dims[1]);
  return strided_desc(g.weights.dtype, g.weight_dims, strides);
}

struct Descs {
  MemoryDesc data, weights, result, bias;
};

// For a window of 1x1 with strides oneDNN first gathers the pixels that it needs. In channels-last
// data with fewer channels than its block, 16 at most, it lays them a block apart in a scratch
// space that has no room for that: wrong results, and writes behind the scratch space (seen in
// 2.6.3; known to oneDNN's developers).
bool gathers_past_scratch(const ConvGeometry& g, const std::string& implementation) {
  constexpr int64_t kWidestBlock = 16;
  const int64_t channels = g.weights.dims[1];
  const bool strided =
      std::any_of(g.strides.begin(), g.strides.end(), [](auto s) { return s > 1; });
  return implementation.find("1x1") != std::string::npos && strided && channels < kWidestBlock;
}

// `desc`, and the hint that it was made with, must still be there: oneDNN reads them again.
template <class Pd, class Desc, class... Hint>
Result<Pd> first_sound(const OpDesc& op, const ConvGeometry& g, const Desc& desc,
                       const Hint&... hint) {
  Pd pd(desc, scratchpad_attr(), dnnl_engine(), hint...);
  while (gathers_past_scratch(g, pd.impl_info_str()))
    if (!pd.next_impl()) return unsupported(op, "oneDNN's only code for this shape is wrong");
  return pd;
}

using ForwardPd = dnnl::convolution_forward::primitive_desc;
using DataPd = dnnl::convolution_backward_data::primitive_desc;
using WeightsPd = dnnl::convolution_backward_weights::primitive_desc;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

Result<ForwardPd> forward_pd(const OpDesc& op, const ConvGeometry& g, const Descs& d) {
  const auto kind = dnnl::prop_kind::forward_training;
  using Desc = dnnl::convolution_forward::desc;
  const Desc desc = d.bias.data.ndims > 0 ? Desc(kind, kDirect, d.data, d.weights, d.bias, d.result,
                                                 g.strides, g.dilations, g.pads_begin, g.pads_end)
                                          : Desc(kind, kDirect, d.data, d.weights, d.result,
                                                 g.strides, g.dilations, g.pads_begin, g.pads_end);
  return first_sound<ForwardPd>(op, g, desc);
}

// What the backward primitives ask for by way of introduction; its layouts are free.
Result<ForwardPd> hint_pd(const OpDesc& op, const ConvGeometry& g) {
  const DType type = g.data.dtype;
  const Descs free{any_desc(type, g.data.dims), any_desc(type, g.weight_dims),
                   any_desc(type, g.result.dims), MemoryDesc()};
  return forward_pd(op, g, free);
}

Result<DataPd> data_pd(const OpDesc& op, const ConvGeometry& g, const Descs& d) {
  const dnnl::convolution_backward_data::desc desc(kDirect, d.data, d.weights, d.result, g.strides,
                                                   g.dilations, g.pads_begin, g.pads_end);
  LT_ASSIGN(const ForwardPd hint, hint_pd(op, g));
  return first_sound<DataPd>(op, g, desc, hint);
}

Result<WeightsPd> weights_pd(const OpDesc& op, const ConvGeometry& g, const Descs& d) {
  const dnnl::convolution_backward_weights::desc desc(
      kDirect, d.data, d.weights, d.result, g.strides, g.dilations, g.pads_begin, g.pads_end);
  LT_ASSIGN(const ForwardPd hint, hint_pd(op, g));
  return first_sound<WeightsPd>(op, g, desc, hint);
}

Result<Descs> descs_of(const OpDesc& op, const ConvGeometry& g) {
  if (!g.data.layout.blocked.empty() || !g.result.layout.blocked.empty())
    return unsupported(op, "blocked layouts are for weights only");
  Descs d{.data = plain_desc(g.data), .weights = {}, .result = plain_desc(g.result), .bias = {}};
  LT_ASSIGN(d.weights, weights_desc(op, g));
  return d;
}

template <class Pd>
Result<Built> start(const OpDesc& op, const Pd& pd) {
  Built built;
  built.implementation = pd.impl_info_str();
  LT_RETURN_IF_ERROR(check_fast(op, built.implementation));
  built.workspace_bytes = static_cast<int64_t>(pd.scratchpad_desc().get_size());
  return built;
}

Result<Built> make_forward(const OpDesc& op) {
  LT_ASSIGN(const ConvGeometry g, conv_geometry(op));
  LT_ASSIGN(Descs d, descs_of(op, g));
  const bool biased = has_input(op, 2);
  if (biased) d.bias = strided_desc(g.data.dtype, op.inputs[2]->dims, {1});
  LT_ASSIGN(const auto pd, forward_pd(op, g, d));
  LT_ASSIGN(Built built, start(op, pd));
  auto primitive = std::make_shared<BoundPrimitive>(dnnl::convolution_forward(pd));
  primitive->bind(DNNL_ARG_SRC, d.data);
  primitive->bind(DNNL_ARG_WEIGHTS, d.weights);
  primitive->bind(DNNL_ARG_DST, d.result);
  if (biased) primitive->bind(DNNL_ARG_BIAS, d.bias);
  primitive->bind(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
  built.run = [primitive, biased](const KernelArgs& args) {
    primitive->point(DNNL_ARG_SRC, args.inputs[0]);
    primitive->point(DNNL_ARG_WEIGHTS, args.inputs[1]);
    if (biased) primitive->point(DNNL_ARG_BIAS, args.inputs[2]);
    primitive->point(DNNL_ARG_DST, args.outputs[0]);
    primitive->point(DNNL_ARG_SCRATCHPAD, args.workspace);
    primitive->execute();
  };
  return built;
}

// Adds bias[c] to every element of channel c; y is one or more images, plain layout.
class ChannelBias {
 public:
  explicit ChannelBias(const TensorDesc& y) : view_(axis_view(y, 1)) {}
  void run(float* y, const float* bias) const {
    const Loops& simd = loops();
    if (view_.inner == 1) {
      parallel_ranges(view_.outer, 1 + 16384 / view_.extent, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) simd.add(bias, view_.extent, y + r * view_.extent);
      });
      return;
    }
    parallel_ranges(view_.outer * view_.extent, 1 + 16384 / view_.inner,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t r = begin; r < end; ++r)
                        simd.affine_span(y + r * view_.inner, y + r * view_.inner, view_.inner,
                                         1.0f, bias[r % view_.extent]);
                    });
  }

 private:
  AxisView view_;
};

Result<Built> make_data_grad(const OpDesc& op) {
  LT_ASSIGN(const ConvGeometry g, conv_geometry(op));
  LT_ASSIGN(const Descs d, descs_of(op, g));
  LT_ASSIGN(const auto pd, data_pd(op, g, d));
  LT_ASSIGN(Built built, start(op, pd));
  auto primitive = std::make_shared<BoundPrimitive>(dnnl::convolution_backward_data(pd));
  primitive->bind(DNNL_ARG_DIFF_DST, d.result);
  primitive->bind(DNNL_ARG_WEIGHTS, d.weights);
  primitive->bind(DNNL_ARG_DIFF_SRC, d.data);
  primitive->bind(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
  const bool biased = has_input(op, 2);
  built.run = [primitive, biased, bias = ChannelBias(op.outputs[0])](const KernelArgs& args) {
    primitive->point(DNNL_ARG_DIFF_DST, args.inputs[0]);
    primitive->point(DNNL_ARG_WEIGHTS, args.inputs[1]);
    primitive->point(DNNL_ARG_DIFF_SRC, args.outputs[0]);
    primitive->point(DNNL_ARG_SCRATCHPAD, args.workspace);
    primitive->execute();
    if (biased)
      bias.run(static_cast<float*>(args.outputs[0]), static_cast<const float*>(args.inputs[2]));
  };
  return built;
}

// oneDNN cannot add into the weight gradient, so an accumulating one is computed in scratch behind
// oneDNN's own.
Result<Built> make_weights_grad(const OpDesc& op) {
  LT_ASSIGN(const ConvGeometry g, conv_geometry(op));
  LT_ASSIGN(const Descs d, descs_of(op, g));
  const bool accumulates = has_input(op, 2);
  if (accumulates && op.inputs[2]->layout != op.outputs[0].layout)
    return unsupported(op, "the accumulator's layout differs from the output's");
  LT_ASSIGN(const auto pd, weights_pd(op, g, d));
  LT_ASSIGN(Built built, start(op, pd));
  auto primitive = std::make_shared<BoundPrimitive>(dnnl::convolution_backward_weights(pd));
  primitive->bind(DNNL_ARG_SRC, d.data);
  primitive->bind(DNNL_ARG_DIFF_DST, d.result);
  primitive->bind(DNNL_ARG_DIFF_WEIGHTS, d.weights);
  primitive->bind(DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc());
  const int64_t scratch = (built.workspace_bytes + 63) / 64 * 64;
  const int64_t bytes = plan::size_bytes(op.outputs[0]);
  if (accumulates) built.workspace_bytes = scratch + bytes;
  built.run = [primitive, accumulates, scratch, bytes](const KernelArgs& args) {
    void* own = accumulates ? static_cast<char*>(args.workspace) + scratch : args.outputs[0];
    primitive->point(DNNL_ARG_SRC, args.inputs[0]);
    primitive->point(DNNL_ARG_DIFF_DST, args.inputs[1]);
    primitive->point(DNNL_ARG_DIFF_WEIGHTS, own);
    primitive->point(DNNL_ARG_SCRATCHPAD, args.workspace);
    primitive->execute();
    if (!accumulates) return;
    parallel_copy(args.outputs[0], args.inputs[2], bytes);
    parallel_ranges(bytes / 4, 32768, [&](int64_t begin, int64_t end) {
      loops().add(static_cast<const float*>(own) + begin, end - begin,
                  static_cast<float*>(args.outputs[0]) + begin);
    });
  };
  return built;
}

Result<Built> build_convolution(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 3, 1));
  if (op.outputs[0].dtype == DType::kF64) return make_own_convolution(op);
  LT_RETURN_IF_ERROR(check_native(op, op.outputs[0].dtype));
  if (op.outputs[0].dtype != DType::kF32 && op.kind != "Conv" && has_input(op, 2))
    return unsupported(op, "only gradients of f32 and f64 are added to an operand");
  return guard_dnnl(op, [&] {
    if (op.kind == "Conv") return make_forward(op);
    return op.kind == "ConvDataGrad" ? make_data_grad(op) : make_weights_grad(op);
  });
}

// The weights' format for channels-last data, chosen by oneDNN. Error when it has no fast one.
Result<Layout> chosen_weights(const OpDesc& op, const ConvGeometry& g) {
  const Layout last = Layout::channels_last(g.data.dims.size());
  TensorDesc data = g.data, result = g.result;
  data.layout = result.layout = last;
  const Descs d{plain_desc(data), any_desc(g.weights.dtype, g.weight_dims), plain_desc(result), {}};
  MemoryDesc weights;
  std::string implementation;
  auto take = [&](const auto& pd, const MemoryDesc& desc) {
    weights = desc;
    implementation = pd.impl_info_str();
  };
  if (op.kind == "Conv") {
    Descs with_bias = d;
    if (has_input(op, 2)) with_bias.bias = strided_desc(g.data.dtype, op.inputs[2]->dims, {1});
    LT_ASSIGN(const auto pd, forward_pd(op, g, with_bias));
    take(pd, pd.weights_desc());
  } else if (op.kind == "ConvDataGrad") {
    LT_ASSIGN(const auto pd, data_pd(op, g, d));
    take(pd, pd.weights_desc());
  } else {
    LT_ASSIGN(const auto pd, weights_pd(op, g, d));
    take(pd, pd.diff_weights_desc());
  }
  LT_RETURN_IF_ERROR(check_fast(op, implementation));
  TensorDesc plain = g.weights;
  plain.layout = {};
  ConvGeometry row_major = g;
  row_major.weights = plain;
  LT_ASSIGN(const MemoryDesc row_major_desc, weights_desc(op, row_major));
  // With few channels in each of many groups, filling up blocks of channels would make hundreds of
  // times the bytes of it: 144 groups of one are 144 times 16 x 16.
  constexpr size_t kMostPadding = 4;
  if (g.group > 1 && weights.get_size() > kMostPadding * row_major_desc.get_size())
    return unsupported(op, "oneDNN's weights are mostly padding");
  return weights == row_major_desc ? Layout{} : blocked_layout(weights);
}

// Whether oneDNN has fast code for it with everything in row-major order.
bool takes_row_major(OpDesc op) {
  for (auto& input : op.inputs)
    if (input) input->layout = {};
  op.outputs[0].layout = {};
  return build_convolution(op).has_value();
}

plan::LayoutWish wish_convolution(const OpDesc& op) {
  if (!check_counts(op, 2, 3, 1) || !check_native(op, op.outputs[0].dtype)) return {};
  Result<ConvGeometry> g = conv_geometry(op);
  if (!g) return {};
  const Result<Layout> weights = guard_dnnl(op, [&] { return chosen_weights(op, *g); });
  plan::LayoutWish wish;
  wish.inputs.resize(op.inputs.size());
  wish.outputs.resize(1);
  if (!weights) return takes_row_major(op) ? wish : plan::LayoutWish{};
  const Layout last = Layout::channels_last(g->data.dims.size());
  if (op.kind == "ConvWgtGrad") {
    wish.inputs[0] = wish.inputs[1] = last;
    if (has_input(op, 2)) wish.inputs[2] = *weights;
    wish.outputs = {*weights};
  } else {
    wish.inputs[0] = last;
    wish.inputs[1] = *weights;
    wish.outputs = {last};
  }
  return wish;
}

constexpr Entry kConvolutionEntries[] = {
    {"Conv", "T T T -> T", "f32 f64 bf16", build_convolution, wish_convolution, true, "0", false,
     true},
    {"ConvDataGrad", "T T T -> T", "f32 f64 bf16", build_convolution, wish_convolution, true, "0"},
    {"ConvWgtGrad", "T T T -> T", "f32 f64 bf16", build_convolution, wish_convolution, true},
};

}  // namespace

std::span<const Entry> convolution_kernels() {
  return kConvolutionEntries;
}

}  // namespace lowtide::exec_cpu
