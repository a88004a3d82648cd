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

// Runs the update that make(number, step) gives for f64 or for f32.
template <class Make>
Built build_update(const OpDesc& op, const Make& make) {
  const int64_t count = plan::element_count(op.outputs[0]);
  const DType type = op.outputs[0].dtype;
  Built built;
  built.run = [op, count, type, make](const KernelArgs& args) {
    copy_states(op, args);
    if (type == DType::kF64)
      run_flat<double>(args, count, make(double(), args.context.step));
    else if (type == DType::kF32)
      run_flat<float>(args, count, make(float(), args.context.step));
    else
      run_halves(args, count, type, make(float(), args.context.step));
  };
  return built;
}

Result<Built> build_sgd(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 3, has_input(op, 2) ? 2 : 1));
  LT_RETURN_IF_ERROR(check_flat(op));
  const SgdStepOf<double> exact{real_attr(op, "learning_rate", 0), real_attr(op, "momentum", 0),
                                real_attr(op, "weight_decay", 0)};
  return build_update(op, [exact](auto number, int64_t) {
    using T = decltype(number);
    const SgdStepOf<T> step{static_cast<T>(exact.learning_rate), static_cast<T>(exact.momentum),
                            static_cast<T>(exact.weight_decay)};
    return [step](T* param, const T* grad, T* momentum, T*, int64_t n) {
      loops_of(T()).sgd(param, grad, momentum, n, step);
    };
  });
}

Result<Built> build_adamw(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 4, 4, 3));
  LT_RETURN_IF_ERROR(check_flat(op));
  const double rate = real_attr(op, "learning_rate", 0), decay = real_attr(op, "weight_decay", 0);
  const double beta1 = real_attr(op, "beta1", 0.9), beta2 = real_attr(op, "beta2", 0.999);
  const double epsilon = real_attr(op, "epsilon", 1e-8);
  return build_update(op, [=](auto number, int64_t count) {
    using T = decltype(number);
    const double steps = static_cast<double>(count);
    const AdamStepOf<T> step{
        .beta1 = static_cast<T>(beta1),
        .beta2 = static_cast<T>(beta2),
        .one_minus_beta1 = static_cast<T>(1 - beta1),
        .one_minus_beta2 = static_cast<T>(1 - beta2),
        .decay = static_cast<T>(1 - rate * decay),
        .step_size = static_cast<T>(rate / (1 - std::pow(beta1, steps))),
        .inverse_root_correction = static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, steps))),
        .epsilon = static_cast<T>(epsilon)};
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
