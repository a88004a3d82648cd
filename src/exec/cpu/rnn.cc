// The plain recurrent network and its gradient: h' = f(x + R h). Its result is all that the
// gradient needs. The result may lie over the input and the gradient over dy: each element is read
// before it is written.
#include <algorithm>
#include <cstring>
#include <memory>

#include "exec/cpu/recurrent.h"

namespace lowtide::exec_cpu {
namespace rnn {
namespace {

struct Rnn {
  Recurrence r;
  Activation hidden;
};

Result<Rnn> rnn_of(const OpDesc& op, size_t x, size_t weights, size_t lengths) {
  Rnn made;
  LT_ASSIGN(made.r, recurrence_of(op, x, weights, lengths));
  LT_ASSIGN(const std::vector<Activation> activations, activations_of(op));
  if (made.r.gates != 1 || activations.size() != 1)
    return unsupported(op, "a plain recurrent network has one activation");
  made.hidden = activations[0];
  return made;
}

StridedMatrix states_of(const Recurrence& r) {
  return {{r.batch, r.units}, {r.units, 1}};
}

template <class T>
void step_forward(const Rnn& rnn, const KernelArgs& args, int64_t d, int64_t t, int64_t b,
                  int64_t first, int64_t n) {
  const Recurrence& r = rnn.r;
  T* y = output_of<T>(args, 0) + r.y_at(t, b, d) + first;
  if (!r.live(input_of<T>(args, 3), t, b)) {
    std::fill_n(y, n, T{0});
    return;
  }
  const T* x = input_of<T>(args, 0) + r.y_at(t, b, d) + first;
  const T* fed = static_cast<T*>(args.workspace) + b * r.units + first;
  for (int64_t j = 0; j < n; ++j) y[j] = x[j] + fed[j];
  clip_row(y, n, r.clip);
  rnn.hidden.run(y, n);
  std::memcpy(output_of<T>(args, 1) + r.state_at(d, b) + first, y,
              static_cast<size_t>(n) * sizeof(T));
}

template <class T>
Result<Built> rnn_of_type(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 2, 4, 2));
  LT_ASSIGN(const Rnn rnn, rnn_of(op, 0, 1, 3));
  const Recurrence& r = rnn.r;
  LT_ASSIGN(const InnerProduct feed,
            InnerProduct::make(op, states_of(r), {{r.units, r.units}, {1, r.units}}, states_of(r),
                               false));
  const int64_t fed_bytes = bytes_of<T>(r.states());
  Built built;
  built.implementation = by_steps(feed);
  built.workspace_bytes = fed_bytes + feed.workspace_bytes();
  built.run = [r, rnn, feed, fed_bytes](const KernelArgs& args) {
    T *h = output_of<T>(args, 1), *fed = static_cast<T*>(args.workspace);
    for (int64_t d = 0; d < r.directions; ++d) {
      start_state(r, d, input_of<T>(args, 2), h);
      for (int64_t number = 0; number < r.steps; ++number) {
        feed.run(h + r.state_at(d, 0), input_of<T>(args, 1) + r.weights_at(d), fed,
                 static_cast<char*>(args.workspace) + fed_bytes);
        for_units(r, [&](int64_t b, int64_t first, int64_t n) {
          step_forward<T>(rnn, args, d, r.step(d, number), b, first, n);
        });
      }
    }
  };
  return built;
}

// ---- gradient ----

// Operands of the gradient op by number.
enum In : size_t { kDy, kDyh, kY, kWeights, kH0, kLengths };

template <class T>
void step_back(const Rnn& rnn, const KernelArgs& args, int64_t d, int64_t t, int64_t b,
               int64_t first, int64_t n) {
  const Recurrence& r = rnn.r;
  const size_t bytes = static_cast<size_t>(n) * sizeof(T);
  T* delta = static_cast<T*>(args.workspace) + b * r.units + first;
  T* dx = output_of<T>(args, 0) + r.y_at(t, b, d) + first;
  if (!r.live(input_of<T>(args, kLengths), t, b)) {
    std::memset(delta, 0, bytes);
    std::memset(dx, 0, bytes);
    return;
  }
  const T* dy = input_of<T>(args, kDy);
  if (dy != nullptr) dy += r.y_at(t, b, d) + first;
  T* dh = output_of<T>(args, 2) + r.state_at(d, b) + first;
  for (int64_t j = 0; j < n; ++j) {
    delta[j] = dh[j] + (dy != nullptr ? dy[j] : T{0});
    dh[j] = T{0};
  }
  rnn.hidden.scale(delta, input_of<T>(args, kY) + r.y_at(t, b, d) + first, n);
  std::memcpy(dx, delta, bytes);
}

template <class T>
Result<Built> rnn_grad_of_type(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 0, 6, 3));
  for (size_t i : {kY, kWeights})
    if (!has_input(op, i)) return unsupported(op, "results and weights are needed");
  LT_ASSIGN(const Rnn rnn, rnn_of(op, kY, kWeights, kLengths));
  const Recurrence& r = rnn.r;
  LT_ASSIGN(
      const InnerProduct back,
      InnerProduct::make(op, states_of(r), {{r.units, r.units}, {r.units, 1}}, states_of(r), true));
  LT_ASSIGN(const WeightGradient<T> weights, WeightGradient<T>::make(op, r, 1, r.y_row()));
  const int64_t delta_bytes = bytes_of<T>(r.states());
  Built built;
  built.implementation = by_steps(back);
  built.workspace_bytes = delta_bytes + std::max(back.workspace_bytes(), weights.workspace_bytes());
  built.run = [r, rnn, back, weights, delta_bytes](const KernelArgs& args) {
    T *dh = output_of<T>(args, 2), *deltas = static_cast<T*>(args.workspace);
    void* scratch = static_cast<char*>(args.workspace) + delta_bytes;
    const T* h0 = input_of<T>(args, kH0);
    for (int64_t d = 0; d < r.directions; ++d) {
      start_state(r, d, input_of<T>(args, kDyh), dh);
      for (int64_t number = r.steps; number-- > 0;) {
        for_units(r, [&](int64_t b, int64_t first, int64_t n) {
          step_back<T>(rnn, args, d, r.step(d, number), b, first, n);
        });
        back.run(deltas, input_of<T>(args, kWeights) + r.weights_at(d), dh + r.state_at(d, 0),
                 scratch);
      }
      weights.run(d, {.deltas = output_of<T>(args, 0) + r.y_at(0, 0, d),
                      .y = input_of<T>(args, kY) + r.y_at(0, 0, d),
                      .start = h0 == nullptr ? nullptr : h0 + r.state_at(d, 0),
                      .lengths = input_of<T>(args, kLengths),
                      .dr = output_of<T>(args, 1) + r.weights_at(d),
                      .workspace = scratch});
    }
  };
  return built;
}

Result<Built> build_rnn(const OpDesc& op) {
  return of_number_type(op, [&](auto zero) { return rnn_of_type<decltype(zero)>(op); });
}
Result<Built> build_rnn_grad(const OpDesc& op) {
  return of_number_type(op, [&](auto zero) { return rnn_grad_of_type<decltype(zero)>(op); });
}

constexpr Entry kEntries[] = {
    {"Rnn", "T T T i -> T", "f32 f64", build_rnn, wish_row_major},
    {"RnnGrad", "T T T T T i -> T", "f32 f64", build_rnn_grad, wish_row_major, false, "1"}};

}  // namespace
}  // namespace rnn

std::span<const Entry> rnn_kernels() {
  return rnn::kEntries;
}

}  // namespace lowtide::exec_cpu
