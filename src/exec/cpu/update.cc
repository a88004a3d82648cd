// Optimizer updates, each one fused loop over its parameters at the speed of memory. PyTorch's
// formulas:
//   SGD    g += weight_decay p;  b = momentum b + g;  p -= learning_rate b
//   AdamW  p *= 1 - learning_rate weight_decay;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 -
//   beta2) g^2
//          p -= learning_rate / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon)
// Outputs usually are the inputs' buffers; where they are not, the state is copied first.
#include <cmath>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kGrain = 16384;

// All operands in one order of memory.
Status check_flat(const OpDesc& op) {
  for (const auto& input : op.inputs)
    if (input && !same_order(*input, op.outputs[0]))
      return unsupported(op, "operands in different layouts");
  for (const TensorDesc& output : op.outputs)
    if (!same_order(output, op.outputs[0])) return unsupported(op, "outputs in different layouts");
  return {};
}

Result<Built> build_sgd(const OpDesc& op) {
  const bool momentum = has_input(op, 2);
  LT_RETURN_IF_ERROR(check_counts(op, 2, 3, momentum ? 2 : 1));
  LT_RETURN_IF_ERROR(check_flat(op));
  const SgdStep step{static_cast<float>(real_attr(op, "learning_rate", 0)),
                     static_cast<float>(real_attr(op, "momentum", 0)),
                     static_cast<float>(real_attr(op, "weight_decay", 0))};
  const int64_t count = plan::element_count(op.outputs[0]);
  Built built;
  built.run = [=](const KernelArgs& args) {
    parallel_copy(args.outputs[0], args.inputs[0], 4 * count);
    if (momentum) parallel_copy(args.outputs[1], args.inputs[2], 4 * count);
    float* param = static_cast<float*>(args.outputs[0]);
    const float* grad = static_cast<const float*>(args.inputs[1]);
    float* velocity = momentum ? static_cast<float*>(args.outputs[1]) : nullptr;
    parallel_ranges(count, kGrain, [&](int64_t begin, int64_t end) {
      loops().sgd(param + begin, grad + begin, momentum ? velocity + begin : nullptr, end - begin,
                  step);
    });
  };
  return built;
}

Result<Built> build_adamw(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 4, 4, 3));
  LT_RETURN_IF_ERROR(check_flat(op));
  const double rate = real_attr(op, "learning_rate", 0), decay = real_attr(op, "weight_decay", 0);
  const double beta1 = real_attr(op, "beta1", 0.9), beta2 = real_attr(op, "beta2", 0.999);
  const float epsilon = static_cast<float>(real_attr(op, "epsilon", 1e-8));
  const int64_t count = plan::element_count(op.outputs[0]);
  Built built;
  built.run = [=](const KernelArgs& args) {
    const double steps = static_cast<double>(args.context.step);
    const AdamStep step{
        .beta1 = static_cast<float>(beta1),
        .beta2 = static_cast<float>(beta2),
        .one_minus_beta1 = static_cast<float>(1 - beta1),
        .one_minus_beta2 = static_cast<float>(1 - beta2),
        .decay = static_cast<float>(1 - rate * decay),
        .step_size = static_cast<float>(rate / (1 - std::pow(beta1, steps))),
        .inverse_root_correction = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, steps))),
        .epsilon = epsilon};
    parallel_copy(args.outputs[0], args.inputs[0], 4 * count);
    parallel_copy(args.outputs[1], args.inputs[2], 4 * count);
    parallel_copy(args.outputs[2], args.inputs[3], 4 * count);
    float* param = static_cast<float*>(args.outputs[0]);
    float* m = static_cast<float*>(args.outputs[1]);
    float* v = static_cast<float*>(args.outputs[2]);
    const float* grad = static_cast<const float*>(args.inputs[1]);
    parallel_ranges(count, kGrain, [&](int64_t begin, int64_t end) {
      loops().adamw(param + begin, grad + begin, m + begin, v + begin, end - begin, step);
    });
  };
  return built;
}

constexpr Entry kEntries[] = {{"SgdUpdate", "T T T -> T T", "f32", build_sgd},
                              {"AdamWUpdate", "T T T T -> T T T", "f32", build_adamw}};

}  // namespace

std::span<const Entry> update_kernels() {
  return kEntries;
}

}  // namespace lowtide::exec_cpu
