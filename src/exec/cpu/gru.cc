// GRU and its gradient; ONNX's formulas (recurrent.h says how steps and sequences are walked):
//
//   z = f(x_z + R_z h)   r = f(x_r + R_r h)   n = g(x_n + own)   h' = (1 - z) n + z h
//
// where own is r (R_n h + b) with linear_before_reset and R_n (r h) without it: then the candidate
// needs a product of its own, after the reset gate. What the product is taken of or gives (r h, or
// R_n h + b) is kept for training. Gates may lie over their inputs, and the gradient's over the
// gates, because an element is read before it is written.
#include <algorithm>
#include <cstring>
#include <memory>

#include "exec/cpu/recurrent.h"

namespace lowtide::exec_cpu {
namespace gru {
namespace {

struct Gru {
  Recurrence r;
  Activation gate, hidden;
  bool after = false;  // linear_before_reset: the gate resets what the product gave
};

Result<Gru> gru_of(const OpDesc& op, size_t x, size_t weights, size_t lengths) {
  Gru made;
  LT_ASSIGN(made.r, recurrence_of(op, x, weights, lengths));
  LT_ASSIGN(const std::vector<Activation> activations, activations_of(op));
  if (made.r.gates != 3 || activations.size() != 2)
    return unsupported(op, "a GRU has three gates and two activations");
  made.gate = activations[0];
  made.hidden = activations[1];
  made.after = int_attr(op, "linear_before_reset", 0) != 0;
  return made;
}

// [B, columns] out of rows of `row` elements.
StridedMatrix rows_of(const Recurrence& r, int64_t columns, int64_t row) {
  return {{r.batch, columns}, {row, 1}};
}

// ---- forward ----

template <class T>
class Forward {
 public:
  static Result<Forward> make(const OpDesc& op, const Gru& gru, bool keeps) {
    Forward made;
    made.gru_ = gru;
    made.keeps_ = keeps;
    const Recurrence& r = gru.r;
    const int64_t n = r.units, width = (gru.after ? 3 : 2) * n;
    LT_ASSIGN(made.feed_, InnerProduct::make(op, rows_of(r, n, n), {{n, width}, {1, n}},
                                             rows_of(r, width, 3 * n), false));
    LT_ASSIGN(made.feed_reset_, InnerProduct::make(op, rows_of(r, n, n), {{n, n}, {1, n}},
                                                   rows_of(r, n, 3 * n), false));
    return made;
  }

  int64_t workspace_bytes() const {
    return fed_bytes() + reset_bytes() +
           std::max(feed_->workspace_bytes(), feed_reset_->workspace_bytes());
  }

  const InnerProduct& product() const { return *feed_; }

  void run(const KernelArgs& args) const {
    const Recurrence& r = gru_.r;
    T *h = output(args, 1), *fed = fed_of(args), *reset = reset_of(args);
    void* scratch = reinterpret_cast<char*>(reset) + reset_bytes();
    for (int64_t d = 0; d < r.directions; ++d) {
      start_state(r, d, input(args, 3), h);
      const T* weights = input(args, 1) + r.weights_at(d);
      for (int64_t number = 0; number < r.steps; ++number) {
        const int64_t t = r.step(d, number);
        feed_->run(h + r.state_at(d, 0), weights, fed, scratch);
        for_units(r, [&](int64_t b, int64_t first, int64_t count) {
          set_gates(args, d, t, b, first, count);
        });
        if (!gru_.after)
          feed_reset_->run(reset, weights + 2 * r.units * r.units, fed + 2 * r.units, scratch);
        for_units(r, [&](int64_t b, int64_t first, int64_t count) {
          set_state(args, d, t, b, first, count);
        });
      }
    }
  }

 private:
  static const T* input(const KernelArgs& args, size_t i) { return input_of<T>(args, i); }
  static T* output(const KernelArgs& args, size_t i) { return output_of<T>(args, i); }
  int64_t fed_bytes() const { return bytes_of<T>(gru_.r.batch * 3 * gru_.r.units); }
  int64_t reset_bytes() const { return bytes_of<T>(gru_.r.states()); }
  T* fed_of(const KernelArgs& args) const { return static_cast<T*>(args.workspace); }
  T* reset_of(const KernelArgs& args) const {
    return reinterpret_cast<T*>(static_cast<char*>(args.workspace) + fed_bytes());
  }

  // Where a sequence's gates are made: in the output that keeps them, or where the product was.
  T* gates_of(const KernelArgs& args, int64_t d, int64_t t, int64_t b) const {
    const Recurrence& r = gru_.r;
    return keeps_ ? output(args, 2) + r.gates_at(t, b, d) : fed_of(args) + b * 3 * r.units;
  }

  // Update and reset gates, and what of the candidate does not need its product.
  void set_gates(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first,
                 int64_t n) const {
    const Recurrence& r = gru_.r;
    T* reset = reset_of(args) + b * r.units + first;
    if (!r.live(input(args, 4), t, b)) {
      std::fill_n(reset, n, T{0});
      return;
    }
    const T* x = input(args, 0) + r.gates_at(t, b, d) + first;
    const T* fed = fed_of(args) + b * 3 * r.units + first;
    T* gates = gates_of(args, d, t, b) + first;
    for (int64_t g = 0; g < 2; ++g) {
      T* gate = gates + g * r.units;
      for (int64_t j = 0; j < n; ++j) gate[j] = x[g * r.units + j] + fed[g * r.units + j];
      clip_row(gate, n, r.clip);
      gru_.gate.run(gate, n);
    }
    const T* opened = gates + r.units;
    const T* h = output(args, 1) + r.state_at(d, b) + first;
    const T* bias = input(args, 2) == nullptr ? nullptr : input(args, 2) + d * r.units + first;
    for (int64_t j = 0; j < n; ++j)
      reset[j] =
          gru_.after ? fed[2 * r.units + j] + (bias != nullptr ? bias[j] : T{0}) : opened[j] * h[j];
  }

  void set_state(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first,
                 int64_t n) const {
    const Recurrence& r = gru_.r;
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    const T* reset = reset_of(args) + b * r.units + first;
    T* y = output(args, 0) + r.y_at(t, b, d) + first;
    T* gates = gates_of(args, d, t, b) + first;
    if (keeps_) std::memcpy(output(args, 3) + r.y_at(t, b, d) + first, reset, bytes);
    if (!r.live(input(args, 4), t, b)) {
      std::memset(y, 0, bytes);
      for (int64_t g = 0; g < 3; ++g) std::memset(gates + g * r.units, 0, bytes);
      return;
    }
    const T* x = input(args, 0) + r.gates_at(t, b, d) + 2 * r.units + first;
    const T* fed = fed_of(args) + b * 3 * r.units + 2 * r.units + first;
    const T *update = gates, *opened = gates + r.units;
    T *candidate = gates + 2 * r.units, *h = output(args, 1) + r.state_at(d, b) + first;
    for (int64_t j = 0; j < n; ++j)
      candidate[j] = x[j] + (gru_.after ? opened[j] * reset[j] : fed[j]);
    clip_row(candidate, n, r.clip);
    gru_.hidden.run(candidate, n);
    for (int64_t j = 0; j < n; ++j)
      h[j] = y[j] = (T{1} - update[j]) * candidate[j] + update[j] * h[j];
  }

  Gru gru_;
  std::optional<InnerProduct> feed_, feed_reset_;
  bool keeps_ = false;
};

template <class T>
Result<Built> gru_of_type(const OpDesc& op) {
  const bool keeps = op.kind == "GruTrain";
  LT_RETURN_IF_ERROR(check_counts(op, 2, 5, keeps ? 4 : 2));
  LT_ASSIGN(const Gru gru, gru_of(op, 0, 1, 4));
  LT_ASSIGN(Forward<T> made, Forward<T>::make(op, gru, keeps));
  const auto forward = std::make_shared<Forward<T>>(std::move(made));
  Built built;
  built.implementation = by_steps(forward->product());
  built.workspace_bytes = forward->workspace_bytes();
  built.run = [forward](const KernelArgs& args) { forward->run(args); };
  return built;
}

// ---- gradient ----

// Operands of the gradient op by number.
enum In : size_t { kDy, kDyh, kY, kGates, kInner, kWeights, kH0, kLengths };

template <class T>
class Gradient {
 public:
  static Result<Gradient> make(const OpDesc& op, const Gru& gru) {
    Gradient made;
    made.gru_ = gru;
    const Recurrence& r = gru.r;
    const int64_t n = r.units, width = (gru.after ? 3 : 2) * n, all = r.steps * r.batch;
    LT_ASSIGN(made.back_, InnerProduct::make(op, rows_of(r, width, 3 * n), {{width, n}, {n, 1}},
                                             rows_of(r, n, n), true));
    LT_ASSIGN(made.gates_, WeightGradient<T>::make(op, r, 2, r.gate_row()));
    if (gru.after) {
      LT_ASSIGN(made.candidate_, WeightGradient<T>::make(op, r, 1, n));
      return made;
    }
    LT_ASSIGN(made.back_reset_, InnerProduct::make(op, rows_of(r, n, 3 * n), {{n, n}, {n, 1}},
                                                   rows_of(r, n, n), false));
    LT_ASSIGN(made.of_reset_,
              InnerProduct::make(op, {{n, all}, {1, r.gate_row()}}, {{all, n}, {r.y_row(), 1}},
                                 {{n, n}, {n, 1}}, false));
    return made;
  }

  int64_t workspace_bytes() const {
    int64_t scratch = std::max(back_->workspace_bytes(), gates_->workspace_bytes());
    if (gru_.after)
      scratch = std::max(scratch, candidate_->workspace_bytes());
    else
      scratch = std::max({scratch, back_reset_->workspace_bytes(), of_reset_->workspace_bytes()});
    return deltas_bytes() + inner_bytes() + scratch;
  }

  const InnerProduct& product() const { return *back_; }

  void run(const KernelArgs& args) const {
    const Recurrence& r = gru_.r;
    T* dh = output(args, 2);
    void* scratch = reinterpret_cast<char*>(inner_of(args)) + inner_bytes();
    for (int64_t d = 0; d < r.directions; ++d) {
      start_state(r, d, input(args, kDyh), dh);
      const T* weights = input(args, kWeights) + r.weights_at(d);
      for (int64_t number = r.steps; number-- > 0;) {
        const int64_t t = r.step(d, number);
        for_units(r, [&](int64_t b, int64_t first, int64_t n) {
          back_to_gates(args, d, t, b, first, n);
        });
        if (!gru_.after) {
          back_reset_->run(deltas_of(args) + 2 * r.units, weights + 2 * r.units * r.units,
                           inner_of(args), scratch);
          for_units(r, [&](int64_t b, int64_t first, int64_t n) {
            back_to_reset(args, d, t, b, first, n);
          });
        }
        back_->run(deltas_of(args), weights, dh + r.state_at(d, 0), scratch);
      }
      sum_weights(args, d, scratch);
    }
  }

 private:
  static const T* input(const KernelArgs& args, size_t i) { return input_of<T>(args, i); }
  static T* output(const KernelArgs& args, size_t i) { return output_of<T>(args, i); }
  int64_t deltas_bytes() const { return bytes_of<T>(gru_.r.batch * 3 * gru_.r.units); }
  // With the product before the reset: its gradient at every step of a direction. Without: that of
  // r h at one step.
  int64_t inner_bytes() const {
    return bytes_of<T>((gru_.after ? gru_.r.steps : 1) * gru_.r.states());
  }
  T* deltas_of(const KernelArgs& args) const { return static_cast<T*>(args.workspace); }
  T* inner_of(const KernelArgs& args) const {
    return reinterpret_cast<T*>(static_cast<char*>(args.workspace) + deltas_bytes());
  }

  // The state before a step, or null where it is zeros.
  const T* state_before(const KernelArgs& args, int64_t d, int64_t t, int64_t b) const {
    const Recurrence& r = gru_.r;
    const int64_t before = r.before(d, t);
    if (r.is_step(before) && r.live(input(args, kLengths), before, b))
      return input(args, kY) + r.y_at(before, b, d);
    const T* h0 = input(args, kH0);
    return h0 == nullptr ? nullptr : h0 + r.state_at(d, b);
  }

  // The gradients of the gates' inputs of some units of one sequence, but for the reset gate's
  // where it needs a product; into the workspace for the products, and into the output.
  void back_to_gates(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first,
                     int64_t n) const {
    const Recurrence& r = gru_.r;
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    T* deltas = deltas_of(args) + b * 3 * r.units + first;
    T* dx = output(args, 0) + r.gates_at(t, b, d) + first;
    T* d_inner = gru_.after ? inner_of(args) + (t * r.batch + b) * r.units + first : nullptr;
    if (!r.live(input(args, kLengths), t, b)) {
      for (int64_t g = 0; g < 3; ++g) {
        std::memset(deltas + g * r.units, 0, bytes);
        std::memset(dx + g * r.units, 0, bytes);
      }
      if (d_inner != nullptr) std::memset(d_inner, 0, bytes);
      return;
    }
    const T* gates = input(args, kGates) + r.gates_at(t, b, d) + first;
    const T *z = gates, *opened = gates + r.units, *candidate = gates + 2 * r.units;
    const T* inner = input(args, kInner) + r.y_at(t, b, d) + first;
    const T* earlier = state_before(args, d, t, b);
    const T* dy = input(args, kDy);
    T* dh = output(args, 2) + r.state_at(d, b) + first;
    T *dz = deltas, *dr = deltas + r.units, *dn = deltas + 2 * r.units;
    for (int64_t j = 0; j < n; ++j) {
      const T h = earlier == nullptr ? T{0} : earlier[first + j];
      const T dout = dh[j] + (dy != nullptr ? dy[r.y_at(t, b, d) + first + j] : T{0});
      dz[j] = dout * (h - candidate[j]);
      dn[j] = dout * (T{1} - z[j]);
      dh[j] = dout * z[j];
    }
    gru_.gate.scale(dz, z, n);
    gru_.hidden.scale(dn, candidate, n);
    std::memcpy(dx, dz, bytes);
    if (!gru_.after) {
      std::memcpy(dx + 2 * r.units, dn, bytes);
      return;
    }
    for (int64_t j = 0; j < n; ++j) {
      dr[j] = dn[j] * inner[j];
      d_inner[j] = dn[j] * opened[j];
    }
    gru_.gate.scale(dr, opened, n);
    std::memcpy(dx + r.units, dr, bytes);
    std::memcpy(dx + 2 * r.units, dn, bytes);
    std::memcpy(dn, d_inner, bytes);
  }

  // From the gradient of r h: that of the reset gate's input, and what the state has of it.
  void back_to_reset(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first,
                     int64_t n) const {
    const Recurrence& r = gru_.r;
    if (!r.live(input(args, kLengths), t, b)) return;
    const T* opened = input(args, kGates) + r.gates_at(t, b, d) + r.units + first;
    const T* d_inner = inner_of(args) + b * r.units + first;
    const T* earlier = state_before(args, d, t, b);
    T* dh = output(args, 2) + r.state_at(d, b) + first;
    T* dr = deltas_of(args) + (b * 3 + 1) * r.units + first;
    for (int64_t j = 0; j < n; ++j) {
      dr[j] = earlier == nullptr ? T{0} : d_inner[j] * earlier[first + j];
      dh[j] += d_inner[j] * opened[j];
    }
    gru_.gate.scale(dr, opened, n);
    std::memcpy(output(args, 0) + r.gates_at(t, b, d) + r.units + first, dr,
                static_cast<size_t>(n) * sizeof(T));
  }

  void sum_weights(const KernelArgs& args, int64_t d, void* scratch) const {
    const Recurrence& r = gru_.r;
    const T* h0 = input(args, kH0);
    typename WeightGradient<T>::Operands at{
        .deltas = output(args, 0) + r.gates_at(0, 0, d),
        .y = input(args, kY) + r.y_at(0, 0, d),
        .start = h0 == nullptr ? nullptr : h0 + r.state_at(d, 0),
        .lengths = input(args, kLengths),
        .dr = output(args, 1) + r.weights_at(d),
        .workspace = scratch};
    gates_->run(d, at);
    T* of_candidate = at.dr + 2 * r.units * r.units;
    if (!gru_.after) {
      of_reset_->run(at.deltas + 2 * r.units, input(args, kInner) + r.y_at(0, 0, d), of_candidate,
                     scratch);
      return;
    }
    at.deltas = inner_of(args);
    at.dr = of_candidate;
    candidate_->run(d, at);
    T* of_bias = output(args, 3) + d * r.units;
    std::fill_n(of_bias, r.units, T{0});
    for (int64_t row = 0; row < r.steps * r.batch; ++row)
      for (int64_t j = 0; j < r.units; ++j) of_bias[j] += inner_of(args)[row * r.units + j];
  }

  Gru gru_;
  std::optional<InnerProduct> back_, back_reset_, of_reset_;
  std::optional<WeightGradient<T>> gates_, candidate_;
};

template <class T>
Result<Built> gru_grad_of_type(const OpDesc& op) {
  const bool after = int_attr(op, "linear_before_reset", 0) != 0;
  LT_RETURN_IF_ERROR(check_counts(op, 0, 8, after ? 4 : 3));
  for (size_t i : {kY, kGates, kInner, kWeights})
    if (!has_input(op, i))
      return unsupported(op, "results, gates, products and weights are needed");
  LT_ASSIGN(const Gru gru, gru_of(op, kGates, kWeights, kLengths));
  LT_ASSIGN(Gradient<T> made, Gradient<T>::make(op, gru));
  const auto gradient = std::make_shared<Gradient<T>>(std::move(made));
  Built built;
  built.implementation = by_steps(gradient->product());
  built.workspace_bytes = gradient->workspace_bytes();
  built.run = [gradient](const KernelArgs& args) { gradient->run(args); };
  return built;
}

Result<Built> build_gru(const OpDesc& op) {
  return of_number_type(op, [&](auto zero) { return gru_of_type<decltype(zero)>(op); });
}
Result<Built> build_gru_grad(const OpDesc& op) {
  return of_number_type(op, [&](auto zero) { return gru_grad_of_type<decltype(zero)>(op); });
}

constexpr Entry kEntries[] = {
    {"Gru", "T T T T i -> T", "f32 f64", build_gru, wish_row_major},
    {"GruTrain", "T T T T i -> T", "f32 f64", build_gru, wish_row_major},
    {"GruGrad", "T T T T T T T i -> T", "f32 f64", build_gru_grad, wish_row_major, false, "1 3"}};

}  // namespace
}  // namespace gru

std::span<const Entry> gru_kernels() {
  return gru::kEntries;
}

}  // namespace lowtide::exec_cpu
