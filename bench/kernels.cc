// Speed of the CPU kernels at the shapes of the three models: GFLOP/s of products and convolutions,
// GB/s (operands read and written once) of the rest. Each line's label is the implementation that
// ran.
//
//   bench_kernels --benchmark_filter=Conv
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exec/cpu/cpu.h"

namespace {

using namespace lowtide;
using plan::OpDesc;
using plan::TensorDesc;
using Dims = std::vector<int64_t>;

TensorDesc type(Dims dims, DType dtype = DType::kF32, Layout layout = {}) {
  return {.dtype = dtype, .dims = std::move(dims), .layout = std::move(layout)};
}
TensorDesc nhwc(Dims dims, DType dtype = DType::kF32) {
  const size_t rank = dims.size();
  return type(std::move(dims), dtype, Layout::channels_last(rank));
}

struct Aligned {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using Buffer = std::unique_ptr<std::byte[], Aligned>;

Buffer make_buffer(const TensorDesc& desc, Rng& rng) {
  const int64_t bytes = plan::size_bytes(desc);
  Buffer buffer(new (std::align_val_t(64)) std::byte[static_cast<size_t>(bytes) + 64]);
  std::memset(buffer.get(), 0, static_cast<size_t>(bytes));
  for (int64_t i = 0; i < plan::element_count(desc); ++i) {
    if (desc.dtype == DType::kF32) {
      const float value = static_cast<float>(rng.uniform()) + 0.1f;
      std::memcpy(buffer.get() + 4 * i, &value, 4);
    } else if (desc.dtype == DType::kI64) {
      const int64_t value = static_cast<int64_t>(rng.below(1000));
      std::memcpy(buffer.get() + 8 * i, &value, 8);
    }
  }
  return buffer;
}

// Convolutions take the layouts that they wish for. `flops` 0: bytes are reported.
void run(benchmark::State& state, OpDesc op, double flops) {
  const auto factory = exec_cpu::make_cpu_kernels();
  const plan::LayoutWish wish = factory->wish(op);
  for (size_t i = 0; i < wish.inputs.size(); ++i)
    if (op.inputs[i]) op.inputs[i]->layout = wish.inputs[i];
  for (size_t i = 0; i < wish.outputs.size(); ++i) op.outputs[i].layout = wish.outputs[i];
  const auto workspace_bytes = factory->workspace_bytes(op);
  if (!workspace_bytes) return state.SkipWithError(workspace_bytes.error().message.c_str());
  auto kernel = factory->make(op);
  Rng rng(1);
  std::vector<Buffer> buffers;
  std::vector<void*> inputs, outputs;
  double bytes = 0;
  auto add = [&](const TensorDesc& desc, std::vector<void*>& list) {
    buffers.push_back(make_buffer(desc, rng));
    list.push_back(buffers.back().get());
    bytes += static_cast<double>(plan::size_bytes(desc));
  };
  for (const auto& input : op.inputs) {
    if (input)
      add(*input, inputs);
    else
      inputs.push_back(nullptr);
  }
  for (const TensorDesc& output : op.outputs) add(output, outputs);
  const Buffer workspace = make_buffer(type({*workspace_bytes / 4 + 16}), rng);
  const runtime::KernelArgs args{
      .inputs = inputs, .outputs = outputs, .workspace = workspace.get(), .context = {}};
  (*kernel)->run(args);
  for (auto _ : state) (*kernel)->run(args);
  const double runs = static_cast<double>(state.iterations());
  if (flops > 0)
    state.counters["GFLOP/s"] =
        benchmark::Counter(flops * runs * 1e-9, benchmark::Counter::kIsRate);
  else
    state.counters["GB/s"] = benchmark::Counter(bytes * runs * 1e-9, benchmark::Counter::kIsRate);
  state.counters["workspace_MiB"] = static_cast<double>(*workspace_bytes) / (1 << 20);
  state.SetLabel(exec_cpu::implementation_name(*factory, op).value_or("none"));
}

void add(const std::string& name, OpDesc op, double flops = 0) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [op, flops](benchmark::State& state) { run(state, op, flops); })
      ->UseRealTime()
      ->MinTime(0.2);
}

void add_matmul(const std::string& name, Dims a, Dims b, Dims c, bool trans_a, bool trans_b) {
  double flops = 2.0 * static_cast<double>(plan::element_count(type(c)));
  flops *= static_cast<double>(trans_a ? a[a.size() - 2] : a.back());
  add("MatMul/" + name,
      {.kind = "MatMul",
       .attrs = {{"trans_a", int64_t{trans_a}}, {"trans_b", int64_t{trans_b}}},
       .inputs = {type(std::move(a)), type(std::move(b))},
       .outputs = {type(std::move(c))}},
      flops);
}

void add_convolutions(const std::string& name, int64_t n, int64_t c, int64_t k, int64_t size,
                      int64_t kernel, int64_t stride) {
  const int64_t pad = kernel / 2, out = (size + 2 * pad - kernel) / stride + 1;
  const TensorDesc x = type({n, c, size, size}), w = type({k, c, kernel, kernel}),
                   y = type({n, k, out, out});
  const plan::Attrs attrs{{"strides", Dims{stride, stride}},
                          {"pads", Dims{pad, pad, pad, pad}},
                          {"dilations", Dims{1, 1}},
                          {"group", int64_t{1}}};
  const double flops = 2.0 * static_cast<double>(plan::element_count(y) * c * kernel * kernel);
  add("Conv/" + name, {.kind = "Conv", .attrs = attrs, .inputs = {x, w}, .outputs = {y}}, flops);
  add("ConvDataGrad/" + name,
      {.kind = "ConvDataGrad", .attrs = attrs, .inputs = {y, w}, .outputs = {x}}, flops);
  add("ConvWgtGrad/" + name,
      {.kind = "ConvWgtGrad", .attrs = attrs, .inputs = {x, y}, .outputs = {w}}, flops);
}

void gpt2() {  // 4 x 256 tokens
  add_matmul("gpt2_qkv", {1024, 768}, {768, 2304}, {1024, 2304}, false, false);
  add_matmul("gpt2_mlp_wgrad", {1024, 768}, {1024, 3072}, {768, 3072}, true, false);
  add_matmul("gpt2_mlp_dgrad", {1024, 3072}, {768, 3072}, {1024, 768}, false, true);
  add_matmul("gpt2_logits", {1024, 768}, {50257, 768}, {1024, 50257}, false, true);
  add_matmul("gpt2_scores", {4, 12, 256, 64}, {4, 12, 256, 64}, {4, 12, 256, 256}, false, true);
  add_matmul("gpt2_context", {4, 12, 256, 256}, {4, 12, 256, 64}, {4, 12, 256, 64}, false, false);
  const TensorDesc x = type({4, 256, 768}), row = type({768}), stat = type({4, 256}),
                   s = type({4, 12, 256, 256});
  const plan::Attrs axis{{"axis", int64_t{2}}, {"epsilon", 1e-5}};
  add("LayerNorm/gpt2",
      {.kind = "LayerNorm", .attrs = axis, .inputs = {x, row, row}, .outputs = {x, stat, stat}});
  add("LayerNormGrad/gpt2", {.kind = "LayerNormGrad",
                             .attrs = axis,
                             .inputs = {x, x, row, stat, stat},
                             .outputs = {x, row, row}});
  const plan::Attrs last{{"axis", int64_t{3}}};
  add("Softmax/gpt2", {.kind = "Softmax", .attrs = last, .inputs = {s}, .outputs = {s}});
  add("SoftmaxGrad/gpt2", {.kind = "SoftmaxGrad", .attrs = last, .inputs = {s, s}, .outputs = {s}});
  add("Dropout/gpt2", {.kind = "Dropout",
                       .attrs = {{"ratio", 0.1}, {"stream", int64_t{1}}},
                       .inputs = {s},
                       .outputs = {s}});
  add("Add/gpt2_mask",
      {.kind = "Add", .attrs = {}, .inputs = {s, type({1, 1, 256, 256})}, .outputs = {s}});
  add("Tanh/gpt2", {.kind = "Tanh",
                    .attrs = {},
                    .inputs = {type({1024, 3072})},
                    .outputs = {type({1024, 3072})}});
  add("Gelu/gpt2", {.kind = "Gelu",
                    .attrs = {},
                    .inputs = {type({1024, 3072})},
                    .outputs = {type({1024, 3072})}});
  const TensorDesc hidden = type({1024, 3072});
  add("GeluGrad/gpt2", {.kind = "GeluGrad",
                        .attrs = {{"approximate", "tanh"}},
                        .inputs = {hidden, hidden},
                        .outputs = {hidden}});
  add("Transpose/gpt2_heads", {.kind = "Transpose",
                               .attrs = {{"perm", Dims{0, 2, 1, 3}}},
                               .inputs = {type({4, 256, 12, 64})},
                               .outputs = {type({4, 12, 256, 64})}});
  add("Transpose/2d", {.kind = "Transpose",
                       .attrs = {{"perm", Dims{1, 0}}},
                       .inputs = {type({3072, 768})},
                       .outputs = {type({768, 3072})}});
  add("ReduceSum/gpt2_bias", {.kind = "ReduceSum",
                              .attrs = {{"axes", Dims{0}}, {"keepdims", int64_t{0}}},
                              .inputs = {type({1024, 3072})},
                              .outputs = {type({3072})}});
  const TensorDesc logits = type({1024, 50257}), labels = type({1024}, DType::kI64),
                   lse = type({1024});
  const plan::Attrs classes{{"axis", int64_t{1}}};
  add("CrossEntropy/gpt2", {.kind = "CrossEntropy",
                            .attrs = classes,
                            .inputs = {logits, labels},
                            .outputs = {type({}), lse}});
  add("CrossEntropyGrad/gpt2", {.kind = "CrossEntropyGrad",
                                .attrs = classes,
                                .inputs = {logits, labels, lse},
                                .outputs = {logits}});
  const TensorDesc table = type({50257, 768}), tokens = type({4, 256}, DType::kI64);
  add("Gather/gpt2", {.kind = "Gather",
                      .attrs = {{"axis", int64_t{0}}},
                      .inputs = {table, tokens},
                      .outputs = {x}});
  add("GatherGrad/gpt2", {.kind = "GatherGrad",
                          .attrs = {{"axis", int64_t{0}}, {"dim", int64_t{50257}}},
                          .inputs = {x, tokens},
                          .outputs = {table}});
  add("AdamWUpdate/gpt2", {.kind = "AdamWUpdate",
                           .attrs = {{"learning_rate", 1e-3}, {"weight_decay", 0.1}},
                           .inputs = {table, table, table, table},
                           .outputs = {table, table, table}});
}

void images() {
  add_convolutions("resnet_stem", 8, 3, 64, 224, 7, 2);
  add_convolutions("resnet_3x3_56", 8, 64, 64, 56, 3, 1);
  add_convolutions("resnet_1x1_56", 8, 64, 256, 56, 1, 1);
  add_convolutions("resnet_3x3_14", 8, 256, 256, 14, 3, 1);
  add_convolutions("resnet_1x1_7", 8, 2048, 512, 7, 1, 1);
  add_convolutions("unet_first", 2, 3, 64, 256, 3, 1);
  add_convolutions("unet_3x3_256", 2, 64, 64, 256, 3, 1);
  add_convolutions("unet_3x3_32", 2, 512, 512, 32, 3, 1);
  add_convolutions("unet_head", 2, 64, 2, 256, 1, 1);
  const plan::Attrs up{
      {"strides", Dims{2, 2}}, {"pads", Dims{0, 0, 0, 0}}, {"output_spatial", Dims{256, 256}}};
  add("ConvDataGrad/unet_up",
      {.kind = "ConvDataGrad",
       .attrs = up,
       .inputs = {type({2, 128, 128, 128}), type({128, 64, 2, 2}), type({64})},
       .outputs = {type({2, 64, 256, 256})}},
      2.0 * 2 * 128 * 128 * 128 * 64 * 4);
  const TensorDesc x = nhwc({8, 64, 112, 112}), pooled = nhwc({8, 64, 56, 56}), c = type({64});
  const TensorDesc index = nhwc({8, 64, 56, 56}, DType::kU8);
  const plan::Attrs epsilon{{"epsilon", 1e-5}};
  add("BatchNormTrain/nhwc",
      {.kind = "BatchNormTrain", .attrs = epsilon, .inputs = {x, c, c}, .outputs = {x, c, c}});
  add("BatchNormGrad/nhwc",
      {.kind = "BatchNormGrad", .attrs = epsilon, .inputs = {x, x, c, c, c}, .outputs = {x, c, c}});
  add("Relu/nhwc", {.kind = "Relu", .attrs = {}, .inputs = {x}, .outputs = {x}});
  add("ReluGrad/nhwc", {.kind = "ReluGrad", .attrs = {}, .inputs = {x, x}, .outputs = {x}});
  const plan::Attrs pool{
      {"kernel", Dims{3, 3}}, {"strides", Dims{2, 2}}, {"pads", Dims{1, 1, 1, 1}}};
  add("MaxPool/nhwc",
      {.kind = "MaxPool", .attrs = pool, .inputs = {x}, .outputs = {pooled, index}});
  add("MaxPoolGrad/nhwc",
      {.kind = "MaxPoolGrad", .attrs = pool, .inputs = {pooled, index}, .outputs = {x}});
  add("ReduceMean/nhwc", {.kind = "ReduceMean",
                          .attrs = {{"axes", Dims{2, 3}}, {"keepdims", int64_t{1}}},
                          .inputs = {x},
                          .outputs = {nhwc({8, 64, 1, 1})}});
  add("Concat/unet_nhwc", {.kind = "Concat",
                           .attrs = {{"axis", int64_t{1}}},
                           .inputs = {nhwc({2, 64, 256, 256}), nhwc({2, 64, 256, 256})},
                           .outputs = {nhwc({2, 128, 256, 256})}});
  add("Reorder/to_nhwc",
      {.kind = "Reorder", .attrs = {}, .inputs = {type({8, 64, 112, 112})}, .outputs = {x}});
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  gpt2();
  images();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
