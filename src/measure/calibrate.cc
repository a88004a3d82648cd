#include "measure/calibrate.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "measure/kernel_case.h"
#include "measure/memory.h"
#include "measure/slow_tier_rate.h"

namespace lowtide::measure {
namespace {

using cost::KernelClass;
using Cases = std::vector<CaseSpec>;

constexpr Operand kAbsent{.dims = {}, .dtype = DType::kBool};

Operand labels(std::vector<int64_t> dims) {
  return {.dims = std::move(dims), .dtype = DType::kI64};
}

// b x m x k times b x k x n; no batch dim where b is 1.
CaseSpec product(int64_t b, int64_t m, int64_t n, int64_t k, bool trans_b = false) {
  std::vector<int64_t> a = {m, k}, c = trans_b ? std::vector{n, k} : std::vector{k, n};
  if (b > 1) {
    a.insert(a.begin(), b);
    c.insert(c.begin(), b);
  }
  return {.kind = "MatMul",
          .inputs = {{a}, {c}, kAbsent, kAbsent},
          .attrs = {{"trans_a", int64_t{0}}, {"trans_b", int64_t{trans_b}}}};
}

// A convolution that keeps the size, and its two gradients.
void add_convolutions(Cases& cases, int64_t n, int64_t in, int64_t out, int64_t size,
                      int64_t window) {
  const int64_t pad = window / 2;
  const ir::Attrs attrs = {{"strides", ir::Dims{1, 1}},
                           {"pads", ir::Dims{pad, pad, pad, pad}},
                           {"dilations", ir::Dims{1, 1}},
                           {"group", int64_t{1}}};
  ir::Attrs data = attrs, weights = attrs;
  data["output_spatial"] = ir::Dims{size, size};
  weights["kernel"] = ir::Dims{window, window};
  const Operand x{{n, in, size, size}}, y{{n, out, size, size}}, w{{out, in, window, window}};
  cases.push_back({.kind = "Conv", .inputs = {x, w, kAbsent}, .attrs = attrs});
  cases.push_back({.kind = "ConvDataGrad", .inputs = {y, w, kAbsent}, .attrs = data});
  cases.push_back({.kind = "ConvWgtGrad", .inputs = {x, y, kAbsent}, .attrs = weights});
}

// What is bound by arithmetic.
Cases arithmetic_cases(bool quick) {
  Cases cases = {product(1, 512, 512, 512), product(1, 512, 768, 768, true),
                 product(24, 256, 256, 64, true), product(24, 256, 64, 256)};
  add_convolutions(cases, 2, 64, 64, 56, 3);
  if (quick) return cases;
  cases.push_back(product(1, 1024, 3072, 768));
  cases.push_back(product(1, 1024, 768, 3072, true));
  cases.push_back(product(1, 1024, 1024, 1024));
  add_convolutions(cases, 4, 256, 64, 56, 1);
  add_convolutions(cases, 4, 128, 128, 28, 3);
  add_convolutions(cases, 4, 512, 512, 14, 3);
  return cases;
}

// Rows of 768, images of 64 channels, both of about `elements` elements: what is bound by memory.
Cases streaming_cases(int64_t elements) {
  constexpr int64_t kWidth = 768, kChannels = 64, kSide = 16, kClasses = 1024;
  const int64_t rows = std::max<int64_t>(1, elements / kWidth);
  const int64_t images = std::max<int64_t>(1, elements / (kChannels * kSide * kSide));
  const int64_t scores = std::max<int64_t>(1, elements / kClasses);
  const Operand x{{rows, kWidth}}, vector{{kWidth}}, per_row{{rows}};
  const Operand image{{images, kChannels, kSide, kSide}}, channel{{kChannels}};
  const Operand logits{{scores, kClasses}};
  const ir::Attrs rows_norm = {{"axis", int64_t{1}}, {"epsilon", 1e-5}};
  const ir::Attrs norm = {{"epsilon", 1e-5}};
  const ir::Attrs last = {{"axis", int64_t{1}}};
  const int64_t square =
      std::max<int64_t>(64, static_cast<int64_t>(std::sqrt(static_cast<double>(elements))));
  return {
      product(1, 1, square, square),
      {.kind = "LayerNorm", .inputs = {x, vector, vector}, .attrs = rows_norm},
      {.kind = "LayerNormGrad", .inputs = {x, x, vector, per_row, per_row}, .attrs = rows_norm},
      {.kind = "BatchNormTrain",
       .inputs = {image, channel, channel},
       .attrs = norm,
       .channels_last = true},
      {.kind = "Softmax", .inputs = {logits}, .attrs = last},
      {.kind = "SoftmaxGrad", .inputs = {logits, logits}, .attrs = last},
      {.kind = "CrossEntropy", .inputs = {logits, labels({scores})}, .attrs = last},
      {.kind = "ReduceSum",
       .inputs = {x},
       .attrs = {{"axes", ir::Dims{0}}, {"keepdims", int64_t{0}}}},
      {.kind = "MaxPool",
       .inputs = {image},
       .attrs = {{"kernel", ir::Dims{2, 2}},
                 {"strides", ir::Dims{2, 2}},
                 {"pads", ir::Dims{0, 0, 0, 0}},
                 {"dilations", ir::Dims{1, 1}},
                 {"ceil_mode", int64_t{0}}},
       .channels_last = true},
      {.kind = "Add", .inputs = {x, x}},
      {.kind = "Mul", .inputs = {x, x}},
      {.kind = "Relu", .inputs = {x}},
      {.kind = "ReluGrad", .inputs = {x, x}},
      {.kind = "Tanh", .inputs = {x}},
      {.kind = "Transpose", .inputs = {x}, .attrs = {{"perm", ir::Dims{1, 0}}}},
      {.kind = "Concat", .inputs = {x, x}, .attrs = last},
      {.kind = "Gather", .inputs = {x, labels({rows})}, .attrs = {{"axis", int64_t{0}}}},
      {.kind = "Dropout", .inputs = {x}, .attrs = {{"ratio", 0.1}, {"stream", int64_t{1}}}},
      {.kind = "AdamWUpdate",
       .inputs = {x, x, x, x},
       .attrs = {{"learning_rate", 1e-3},
                 {"beta1", 0.9},
                 {"beta2", 0.999},
                 {"epsilon", 1e-8},
                 {"weight_decay", 0.01}}},
  };
}

// Geometric means by name.
template <class Key>
class Means {
 public:
  void add(const Key& key, double value) {
    auto& [sum, count] = sums_[key];
    sum += std::log(value);
    ++count;
  }
  std::map<Key, double> all() const {
    std::map<Key, double> means;
    for (const auto& [key, sum] : sums_) means[key] = std::exp(sum.first / sum.second);
    return means;
  }

 private:
  std::map<Key, std::pair<double, int>> sums_;
};

class Calibration {
 public:
  Calibration(const runtime::KernelFactory& kernels, const CalibrationOptions& options,
              cost::DeviceProfile& profile)
      : kernels_(kernels), options_(options), profile_(profile) {
    if (options.quick) repetition_ = {.least = 3, .seconds = 0.01};
    // Alone, others' turns on a busy machine do not count.
    repetition_.processor_time = profile.identity->threads == 1;
  }

  // A kernel with nothing to do.
  Status launch() {
    LT_ASSIGN(const CaseTime time,  // less than it takes to ask for a processor's time
              time_case(kernels_, {.kind = "Relu", .inputs = {{{16}}}}, on_the_wall()));
    profile_.launch_seconds = std::max(1e-9, time.seconds);
    return {};
  }

  Status arithmetic() {
    Means<KernelClass> rates;
    for (const CaseSpec& spec : arithmetic_cases(options_.quick)) {
      LT_ASSIGN(const CaseTime time, time_case(kernels_, spec, repetition_));
      rates.add(cost::kernel_class(time.op), time.work.flops / busy(time));
    }
    for (const auto& [kernel_class, rate] : rates.all())
      profile_.classes[kernel_class].flops_per_second = rate;
    profile_.matmul_flops_per_second = profile_.classes[KernelClass::kProduct].flops_per_second;
    return {};
  }

  Status streaming(int64_t elements, bool cached) {
    Means<KernelClass> by_class;
    std::map<std::string, std::pair<KernelClass, double>> by_kind;
    for (const CaseSpec& spec : streaming_cases(elements)) {
      LT_ASSIGN(const CaseTime time, time_case(kernels_, spec, repetition_));
      const double rate = time.work.bytes / busy(time);
      const KernelClass kernel_class = cost::kernel_class(time.op);
      by_class.add(kernel_class, rate);
      by_kind[time.op.kind] = {kernel_class, rate};
      profile_.vector_flops_per_second =
          std::max(profile_.vector_flops_per_second, time.work.flops / busy(time));
    }
    const auto means = by_class.all();
    for (const auto& [kernel_class, rate] : means)
      (cached ? profile_.classes[kernel_class].cached_bytes_per_second
              : profile_.classes[kernel_class].bytes_per_second) = rate;
    if (cached) return {};
    for (const auto& [kind, rate] : by_kind)
      if (kind != "MatMul") profile_.efficiency[kind] = rate.second / means.at(rate.first);
    return {};
  }

  // A piece of a step: a product, a convolution, a sum, again and again.
  Result<double> step_seconds() {
    Cases cases = {product(1, 1024, 768, 768),
                   {.kind = "Add", .inputs = {{{4096, 768}}, {{4096, 768}}}}};
    add_convolutions(cases, 4, 64, 64, 56, 3);
    double sum = 0;
    for (const CaseSpec& spec : cases) {  // copies beside it may take turns with it
      LT_ASSIGN(const CaseTime time, time_case(kernels_, spec, on_the_wall()));
      sum += time.seconds;
    }
    return sum;
  }

 private:
  Repetition on_the_wall() const {
    Repetition repetition = repetition_;
    repetition.processor_time = false;
    return repetition;
  }

  double busy(const CaseTime& time) const {
    return std::max(time.seconds - profile_.launch_seconds, 0.01 * time.seconds);
  }

  const runtime::KernelFactory& kernels_;
  const CalibrationOptions& options_;
  cost::DeviceProfile& profile_;
  Repetition repetition_ = {.least = 5, .seconds = 0.15};
};

// The caches that each thread has for itself, together.
int64_t private_cache_bytes(int threads) {
  constexpr long kUsual = 1 << 20;
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return int64_t{bytes > 0 ? bytes : kUsual} * threads;
}

int64_t memory_bytes() {
  return int64_t{sysconf(_SC_PHYS_PAGES)} * int64_t{sysconf(_SC_PAGESIZE)};
}

}  // namespace

Result<cost::DeviceProfile> calibrate(const runtime::KernelFactory& kernels,
                                      const cost::DeviceIdentity& device,
                                      const CalibrationOptions& options) {
  cost::DeviceProfile profile;
  profile.name = fmt::format("{}, {} threads", device.processor, device.threads);
  profile.source = options.quick ? "lowtide calibrate --quick" : "lowtide calibrate";
  profile.kernels = "cpu";
  profile.identity = device;
  profile.memory_bytes = memory_bytes();
  profile.cache_bytes = private_cache_bytes(device.threads);
  const int64_t large = options.quick ? 1 << 21 : 1 << 24;  // elements of 4 bytes
  Calibration calibration(kernels, options, profile);
  LT_RETURN_IF_ERROR(calibration.launch());
  LT_RETURN_IF_ERROR(calibration.arithmetic());
  LT_RETURN_IF_ERROR(calibration.streaming(large, /*cached=*/false));
  LT_RETURN_IF_ERROR(calibration.streaming(profile.cache_bytes / 32, /*cached=*/true));
  const int64_t outside = options.quick ? 1 << 25 : 1 << 28;
  profile.memory = memory_rates({profile.cache_bytes / 8, outside / 4, outside}, device.threads,
                                options.quick ? 0.02 : 0.3);
  for (const cost::MemoryRate& rate : profile.memory)
    if (rate.operation == "copy") profile.bytes_per_second = rate.bytes_per_second;
  const int repetitions = options.quick ? 3 : 9;
  const KernelLoad load = [&calibration] { return calibration.step_seconds(); };
  LT_ASSIGN(cost::SlowTierRate host, slow_tier_rate("host", "", outside / 2, repetitions, load));
  profile.slow_tiers.push_back(std::move(host));
  if (options.slow_tier_folder.empty()) return profile;
  LT_ASSIGN(cost::SlowTierRate file,
            slow_tier_rate("file", options.slow_tier_folder, outside / 2, repetitions, load));
  profile.slow_tiers.push_back(std::move(file));
  return profile;
}

}  // namespace lowtide::measure
