// Optimizer updates, each one fused loop over its parameters at the speed of memory. PyTorch's
// formulas:
//
//   SGD    g += weight_decay p
//          b = momentum b + g
//          p -= learning_rate b
//
//   AdamW  p *= 1 - learning_rate weight_decay
//          m = beta1 m + (1 - beta1) g
//          v = beta2 v + (1 - beta2) g^2
//          p -= learning_rate / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + epsilon)
//
// The session may say other numbers than the op's attributes: a learning rate of now, Nesterov's
// momentum (p -= learning_rate (momentum b + g)), Adam's decay (added to g, p not multiplied).
//
// Outputs usually are the inputs' buffers; where they are not, the state is copied first.
//
// Parameters of 16 bits have a state of f32. They are widened a block at a time, updated as f32 and
// rounded back, so that one rounding a step is all that they lose.
#include <cmath>

#include "exec/cpu/build.h"
#include "exec/cpu/nest.h"
#include "exec/cpu/number_types.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/wide.h"

namespace lowtide::exec_cpu {
namespace {

constexpr int64_t kUpdateGrain = 16384;
constexpr int64_t kWidenedParams = 1024;  // parameters of 16 bits that are widened at a time

// All operands in one order of memory.
Status check_flat(const OpDesc& op) {
  for (const auto& input : op.inputs)
    if (input && !same_order(*input, op.outputs[0]))
      return unsupported(op, "operands in different layouts");
  for (const TensorDesc& output : op.outputs)
    if (!same_order(output, op.outputs[0])) return unsupported(op, "outputs in different layouts");
  return {};
}

// Copies each state that does not lie where its new contents go.
void copy_states(const OpDesc& op, const KernelArgs& args) {
  parallel_copy(args.outputs[0], args.inputs[0], plan::size_bytes(op.outputs[0]));
  for (size_t o = 1; o < op.outputs.size(); ++o)
    parallel_copy(args.outputs[o], args.inputs[o + 1], plan::size_bytes(op.outputs[o]));
}

// Element `begin` of output o, or null where there is none.
template <class T>
T* output(const KernelArgs& args, size_t o, int64_t begin) {
  return o < args.outputs.size() ? static_cast<T*>(args.outputs[o]) + begin : nullptr;
}

// An update is a function (param, grad, first state, second state, count) on numbers of type T.
template <class T, class Update>
void run_flat(const KernelArgs& args, int64_t count, const Update& update) {
  parallel_ranges(count, kUpdateGrain, [&](int64_t begin, int64_t end) {
    update(output<T>(args, 0, begin), static_cast<const T*>(args.inputs[1]) + begin,
           output<T>(args, 1, begin), output<T>(args, 2, begin), end - begin);
  });
}

template <class Update>
void run_halves(const KernelArgs& args, int64_t count, DType type, const Update& update) {
  const Loops& simd = loops();
  const auto widen = type == DType::kF16 ? simd.widen_f16 : simd.widen_bf16;
  const auto narrow = type == DType::kF16 ? simd.narrow_f16 : simd.narrow_bf16;
  parallel_ranges(count, kUpdateGrain, [&](int64_t begin, int64_t end) {
    float param[kWidenedParams], grad[kWidenedParams];
    for (int64_t first = begin; first < end; first += kWidenedParams) {
      const int64_t n = std::min(kWidenedParams, end - first);
      uint16_t* stored = output<uint16_t>(args, 0, first);
      widen(stored, n, param);
      widen(static_cast<const uint16_t*>(args.inputs[1]) + first, n, grad);
      update(param, grad, output<float>(args, 1, first), output<float>(args, 2, first), n);
      narrow(param, n, stored);
    }
  });
}

// What the op's attributes say; the session may say otherwise (StepContext::update).
runtime::UpdateSettings settings_of(const OpDesc& op) {
  return {.learning_rate = real_attr(op, "learning_rate", 0),
          .weight_decay = real_attr(op, "weight_decay", 0),
          .momentum = real_attr(op, "momentum", 0),
          .beta1 = real_attr(op, "beta1", 0.9),
          .beta2 = real_attr(op, "beta2", 0.999),
          .epsilon = real_attr(op, "epsilon", 1e-8)};
}

// Runs the update that make(number, settings) gives for f64 or for f32.
template <class Make>
Built build_update(const OpDesc& op, const Make& make) {
  const int64_t count = plan::element_count(op.outputs[0]);
  const DType type = op.outputs[0].dtype;
  Built built;
  built.run = [op, count, type, make, planned = settings_of(op)](const KernelArgs& args) {
    copy_states(op, args);
    runtime::UpdateSettings now = planned;
    now.step = args.context.step;
    if (args.context.update != nullptr) now = *args.context.update;
    if (type == DType::kF64)
      run_flat<double>(args, count, make(double(), now));
    else if (type == DType::kF32)
      run_flat<float>(args, count, make(float(), now));
    else
      run_halves(args, count, type, make(float(), now));
  };
  return built;
}

Result<Built> build_sgd(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 3, has_input(op, 2) ? 2 : 1));
  LT_RETURN_IF_ERROR(check_flat(op));
  return build_update(op, [](auto number, const runtime::UpdateSettings& now) {
    using T = decltype(number);
    const SgdStepOf<T> step{static_cast<T>(now.learning_rate), static_cast<T>(now.momentum),
                            static_cast<T>(now.weight_decay), now.nesterov};
    return [step](T* param, const T* grad, T* momentum, T*, int64_t n) {
      loops_of(T()).sgd(param, grad, momentum, n, step);
    };
  });
}

Result<Built> build_adamw(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 4, 4, 3));
  LT_RETURN_IF_ERROR(check_flat(op));
  return build_update(op, [](auto number, const runtime::UpdateSettings& now) {
    using T = decltype(number);
    const double steps = static_cast<double>(now.step), rate = now.learning_rate;
    const AdamStepOf<T> step{
        .beta1 = static_cast<T>(now.beta1),
        .beta2 = static_cast<T>(now.beta2),
        .one_minus_beta1 = static_cast<T>(1 - now.beta1),
        .one_minus_beta2 = static_cast<T>(1 - now.beta2),
        .decay = static_cast<T>(now.coupled ? 1 : 1 - rate * now.weight_decay),
        .step_size = static_cast<T>(rate / (1 - std::pow(now.beta1, steps))),
        .inverse_root_correction = static_cast<T>(1 / std::sqrt(1 - std::pow(now.beta2, steps))),
        .epsilon = static_cast<T>(now.epsilon),
        .added_decay = static_cast<T>(now.coupled ? now.weight_decay : 0)};
    return [step](T* param, const T* grad, T* m, T* v, int64_t n) {
      loops_of(T()).adamw(param, grad, m, v, n, step);
    };
  });
}

constexpr Entry kUpdateEntries[] = {{"SgdUpdate", "T T S -> T S", kFloats, build_sgd},
                                    {"AdamWUpdate", "T T S S -> T S S", kFloats, build_adamw}};

}  // namespace

std::span<const Entry> update_kernels() {
  return kUpdateEntries;
}

}  // namespace lowtide::exec_cpu
