// LSTM and its gradient; ONNX's formulas (recurrent.h says how steps and sequences are walked):
//
//   i = f(x_i + R_i h + P_i c)   f = f(x_f + R_f h + P_f c)   g = g(x_g + R_g h)
//   c' = f c + i g               o = f(x_o + R_o h + P_o c')  h' = o h(c')
//
// The form for training writes the activated gates and the cells; its gates may lie over the gates'
// inputs, and the gradient's over the gates, because an element is read before it is written. With
// input_forget f is 1 - i. A clip cuts the gates' inputs, not the cell's.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "exec/cpu/recurrent.h"

namespace lowtide::exec_cpu {
namespace lstm {
namespace {

enum Gate : int64_t { kInput, kOutput, kForget, kCell };

struct Lstm {
  Recurrence r;
  Activation gate, cell, hidden;
  bool coupled = false;
};

// Rows of the peepholes of one direction, or null.
template <class T>
struct Peepholes {
  const T *input = nullptr, *output = nullptr, *forget = nullptr;
};

template <class T>
Peepholes<T> peepholes_of(const Lstm& lstm, const void* all, int64_t d, int64_t first) {
  if (all == nullptr) return {};
  const T* row = static_cast<const T*>(all) + d * 3 * lstm.r.units + first;
  return {row, row + lstm.r.units, row + 2 * lstm.r.units};
}

Result<Lstm> lstm_of(const OpDesc& op, size_t x, size_t weights, size_t lengths) {
  Lstm made;
  LT_ASSIGN(made.r, recurrence_of(op, x, weights, lengths));
  LT_ASSIGN(const std::vector<Activation> activations, activations_of(op));
  if (made.r.gates != 4 || activations.size() != 3)
    return unsupported(op, "an LSTM has four gates and three activations");
  made.gate = activations[0];
  made.cell = activations[1];
  made.hidden = activations[2];
  made.coupled = int_attr(op, "input_forget", 0) != 0;
  return made;
}

template <class T>
void add_product(T* to, const T* a, const T* b, int64_t n) {
  if (a == nullptr) return;
  for (int64_t j = 0; j < n; ++j) to[j] += a[j] * b[j];
}

// ---- forward ----

// One step of some units of one sequence.
template <class T>
struct Cell {
  T *i, *o, *f, *g;  // gates: holding their inputs
  T *h, *c, *y;      // states, and where the state also goes
  int64_t n;
};

template <class T>
void step_cell(const Lstm& lstm, const Cell<T>& at, const Peepholes<T>& p) {
  const double clip = lstm.r.clip;
  add_product(at.i, p.input, at.c, at.n);
  clip_row(at.i, at.n, clip);
  lstm.gate.run(at.i, at.n);
  if (lstm.coupled) {
    for (int64_t j = 0; j < at.n; ++j) at.f[j] = T{1} - at.i[j];
  } else {
    add_product(at.f, p.forget, at.c, at.n);
    clip_row(at.f, at.n, clip);
    lstm.gate.run(at.f, at.n);
  }
  clip_row(at.g, at.n, clip);
  lstm.cell.run(at.g, at.n);
  for (int64_t j = 0; j < at.n; ++j) at.y[j] = at.c[j] = at.f[j] * at.c[j] + at.i[j] * at.g[j];
  add_product(at.o, p.output, at.c, at.n);
  clip_row(at.o, at.n, clip);
  lstm.gate.run(at.o, at.n);
  lstm.hidden.run(at.y, at.n);
  for (int64_t j = 0; j < at.n; ++j) at.h[j] = at.y[j] = at.o[j] * at.y[j];
}

template <class T>
class Forward {
 public:
  Forward(Lstm lstm, InnerProduct feed, bool keeps)
      : lstm_(lstm), feed_(std::move(feed)), keeps_(keeps) {}

  int64_t workspace_bytes() const {
    return bytes_of<T>(lstm_.r.batch * 4 * lstm_.r.units) + feed_.workspace_bytes();
  }

  void run(const KernelArgs& args) const {
    const Recurrence& r = lstm_.r;
    const auto input = [&](size_t i) { return i < args.inputs.size() ? args.inputs[i] : nullptr; };
    T *h = static_cast<T*>(args.outputs[1]), *c = static_cast<T*>(args.outputs[2]);
    T* fed = static_cast<T*>(args.workspace);
    void* scratch = static_cast<char*>(args.workspace) + bytes_of<T>(r.batch * 4 * r.units);
    for (int64_t d = 0; d < r.directions; ++d) {
      start_state(r, d, input(2), h);
      start_state(r, d, input(3), c);
      const T* weights = static_cast<const T*>(args.inputs[1]) + r.weights_at(d);
      for (int64_t n = 0; n < r.steps; ++n) {
        feed_.run(h + r.state_at(d, 0), weights, fed, scratch);
        for_units(r, [&](int64_t b, int64_t first, int64_t count) {
          step(args, d, r.step(d, n), b, first, count);
        });
      }
    }
  }

 private:
  void step(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first,
            int64_t count) const {
    const Recurrence& r = lstm_.r;
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    const T* x = static_cast<const T*>(args.inputs[0]) + r.gates_at(t, b, d) + first;
    T* fed = static_cast<T*>(args.workspace) + b * 4 * r.units + first;
    T* gates = keeps_ ? static_cast<T*>(args.outputs[3]) + r.gates_at(t, b, d) + first : fed;
    T* c = static_cast<T*>(args.outputs[2]) + r.state_at(d, b) + first;
    T* y = static_cast<T*>(args.outputs[0]) + r.y_at(t, b, d) + first;
    T* cells = keeps_ ? static_cast<T*>(args.outputs[4]) + r.y_at(t, b, d) + first : nullptr;
    const bool live = r.live(args.inputs.size() > 5 ? args.inputs[5] : nullptr, t, b);
    for (int64_t g = 0; g < 4; ++g) {
      const int64_t at = g * r.units;
      for (int64_t j = 0; j < count; ++j) gates[at + j] = live ? x[at + j] + fed[at + j] : T{0};
    }
    if (live) {
      step_cell<T>(
          lstm_,
          {.i = gates + kInput * r.units,
           .o = gates + kOutput * r.units,
           .f = gates + kForget * r.units,
           .g = gates + kCell * r.units,
           .h = static_cast<T*>(args.outputs[1]) + r.state_at(d, b) + first,
           .c = c,
           .y = y,
           .n = count},
          peepholes_of<T>(lstm_, args.inputs.size() > 4 ? args.inputs[4] : nullptr, d, first));
    } else {
      std::memset(y, 0, bytes);
    }
    if (cells != nullptr) std::memcpy(cells, c, bytes);
  }

  Lstm lstm_;
  InnerProduct feed_;
  bool keeps_;
};

template <class T>
Result<Built> lstm_of_type(const OpDesc& op) {
  const bool keeps = op.kind == "LstmTrain";
  LT_RETURN_IF_ERROR(check_counts(op, 2, 6, keeps ? 5 : 3));
  LT_ASSIGN(Lstm lstm, lstm_of(op, 0, 1, 5));
  const Recurrence& r = lstm.r;
  const int64_t width = 4 * r.units;
  LT_ASSIGN(InnerProduct feed, InnerProduct::make(op, {{r.batch, r.units}, {r.units, 1}},
                                                  {{r.units, width}, {1, r.units}},
                                                  {{r.batch, width}, {width, 1}}, false));
  Built built;
  built.implementation = by_steps(feed);
  const auto forward = std::make_shared<Forward<T>>(lstm, std::move(feed), keeps);
  built.workspace_bytes = forward->workspace_bytes();
  built.run = [forward](const KernelArgs& args) { forward->run(args); };
  return built;
}

// ---- gradient ----

// Operands of the gradient op by number.
enum In : size_t { kDy, kDyh, kDyc, kY, kGates, kCells, kWeights, kH0, kC0, kPeepholes, kLengths };

template <class T>
class Gradient {
 public:
  Gradient(Lstm lstm, InnerProduct back, WeightGradient<T> weights)
      : lstm_(lstm), back_(std::move(back)), weights_(std::move(weights)) {}

  int64_t workspace_bytes() const {
    return deltas_bytes() + std::max(back_.workspace_bytes(), weights_.workspace_bytes());
  }

  void run(const KernelArgs& args) const {
    const Recurrence& r = lstm_.r;
    T *dh = output(args, 2), *deltas = static_cast<T*>(args.workspace);
    void* scratch = static_cast<char*>(args.workspace) + deltas_bytes();
    for (int64_t d = 0; d < r.directions; ++d) {
      start_state(r, d, input(args, kDyh), dh);
      start_state(r, d, input(args, kDyc), output(args, 3));
      for (int64_t n = r.steps; n-- > 0;) {
        for_units(r, [&](int64_t b, int64_t first, int64_t count) {
          step(args, d, r.step(d, n), b, first, count);
        });
        back_.run(deltas, input(args, kWeights) + r.weights_at(d), dh + r.state_at(d, 0), scratch);
      }
      const T* h0 = input(args, kH0);
      weights_.run(d, {.deltas = output(args, 0) + r.gates_at(0, 0, d),
                       .y = input(args, kY) + r.y_at(0, 0, d),
                       .start = h0 == nullptr ? nullptr : h0 + r.state_at(d, 0),
                       .lengths = input(args, kLengths),
                       .dr = output(args, 1) + r.weights_at(d),
                       .workspace = scratch});
      if (input(args, kPeepholes) != nullptr) sum_peepholes(args, d);
    }
  }

 private:
  int64_t deltas_bytes() const { return bytes_of<T>(lstm_.r.batch * 4 * lstm_.r.units); }
  static const T* input(const KernelArgs& args, size_t i) { return input_of<T>(args, i); }
  static T* output(const KernelArgs& args, size_t i) { return output_of<T>(args, i); }

  // The cells before a step, or null where they are zeros.
  const T* cells_before(const KernelArgs& args, int64_t d, int64_t t, int64_t b) const {
    const Recurrence& r = lstm_.r;
    const int64_t before = r.before(d, t);
    if (r.is_step(before) && r.live(input(args, kLengths), before, b))
      return input(args, kCells) + r.y_at(before, b, d);
    const T* c0 = input(args, kC0);
    return c0 == nullptr ? nullptr : c0 + r.state_at(d, b);
  }

  // The gradients of the gates' inputs of some units of one sequence, into the workspace (for the
  // product that follows) and the output; the state's gradient becomes what that product adds to.
  void step(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first,
            int64_t count) const {
    const Recurrence& r = lstm_.r;
    T* deltas = static_cast<T*>(args.workspace) + b * 4 * r.units + first;
    T* dx = output(args, 0) + r.gates_at(t, b, d) + first;
    if (r.live(input(args, kLengths), t, b)) {
      live_step(args, d, t, b, first, count, deltas);
    } else {
      for (int64_t g = 0; g < 4; ++g) std::fill_n(deltas + g * r.units, count, T{0});
    }
    for (int64_t g = 0; g < 4; ++g)
      std::memcpy(dx + g * r.units, deltas + g * r.units, static_cast<size_t>(count) * sizeof(T));
  }

  void live_step(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first, int64_t n,
                 T* deltas) const {
    const Recurrence& r = lstm_.r;
    const T* gates = input(args, kGates) + r.gates_at(t, b, d) + first;
    const T *i = gates + kInput * r.units, *o = gates + kOutput * r.units;
    const T *f = gates + kForget * r.units, *g = gates + kCell * r.units;
    T *di = deltas + kInput * r.units, *d_o = deltas + kOutput * r.units;
    T *df = deltas + kForget * r.units, *dg = deltas + kCell * r.units;
    const auto p = peepholes_of<T>(lstm_, input(args, kPeepholes), d, first);
    const T* earlier = cells_before(args, d, t, b);
    if (earlier != nullptr) earlier += first;
    T* dh = output(args, 2) + r.state_at(d, b) + first;
    T* dc = output(args, 3) + r.state_at(d, b) + first;
    const T* dy = input(args, kDy);
    if (dy != nullptr) dy += r.y_at(t, b, d) + first;
    std::array<T, kUnits> out, through;  // h(c'), and the gradient of c' through it
    std::memcpy(out.data(), input(args, kCells) + r.y_at(t, b, d) + first,
                static_cast<size_t>(n) * sizeof(T));
    lstm_.hidden.run(out.data(), n);
    for (int64_t j = 0; j < n; ++j) {
      const T dout = dh[j] + (dy != nullptr ? dy[j] : T{0});
      d_o[j] = dout * out[static_cast<size_t>(j)];
      through[static_cast<size_t>(j)] = dout * o[j];
      dh[j] = T{0};
    }
    lstm_.gate.scale(d_o, o, n);
    lstm_.hidden.scale(through.data(), out.data(), n);
    add_product(through.data(), p.output, d_o, n);
    for (int64_t j = 0; j < n; ++j) {
      const T cell = dc[j] + through[static_cast<size_t>(j)];
      const T forgotten = earlier != nullptr ? cell * earlier[j] : T{0};
      di[j] = cell * g[j] - (lstm_.coupled ? forgotten : T{0});
      df[j] = lstm_.coupled ? T{0} : forgotten;
      dg[j] = cell * i[j];
      dc[j] = cell * f[j];
    }
    lstm_.gate.scale(di, i, n);
    if (!lstm_.coupled) lstm_.gate.scale(df, f, n);
    lstm_.cell.scale(dg, g, n);
    add_product(dc, p.input, di, n);
    add_product(dc, p.forget, df, n);
  }

  // Of the input and forget gates with the cells before the step, of the output gate after it.
  void sum_peepholes(const KernelArgs& args, int64_t d) const {
    const Recurrence& r = lstm_.r;
    constexpr int64_t kGateOf[] = {kInput, kOutput, kForget};
    T* sums = output(args, 4) + d * 3 * r.units;
    std::fill_n(sums, 3 * r.units, T{0});
    for (int64_t t = 0; t < r.steps; ++t)
      for (int64_t b = 0; b < r.batch; ++b) {
        const T* deltas = output(args, 0) + r.gates_at(t, b, d);
        const T *before = cells_before(args, d, t, b), *now = input(args, kCells) + r.y_at(t, b, d);
        for (int64_t p = 0; p < 3; ++p) {
          const T* cells = kGateOf[p] == kOutput ? now : before;
          if (cells != nullptr)
            add_product(sums + p * r.units, deltas + kGateOf[p] * r.units, cells, r.units);
        }
      }
  }

  Lstm lstm_;
  InnerProduct back_;
  WeightGradient<T> weights_;
};

template <class T>
Result<Built> lstm_grad_of_type(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 0, 11, has_input(op, kPeepholes) ? 5 : 4));
  for (size_t i : {kY, kGates, kCells, kWeights})
    if (!has_input(op, i)) return unsupported(op, "results, gates, cells and weights are needed");
  LT_ASSIGN(Lstm lstm, lstm_of(op, kGates, kWeights, kLengths));
  const Recurrence& r = lstm.r;
  const int64_t width = 4 * r.units;
  LT_ASSIGN(InnerProduct back,
            InnerProduct::make(op, {{r.batch, width}, {width, 1}}, {{width, r.units}, {r.units, 1}},
                               {{r.batch, r.units}, {r.units, 1}}, true));
  LT_ASSIGN(WeightGradient<T> weights, WeightGradient<T>::make(op, r, 4, r.gate_row()));
  Built built;
  built.implementation = by_steps(back);
  const auto gradient = std::make_shared<Gradient<T>>(lstm, std::move(back), std::move(weights));
  built.workspace_bytes = gradient->workspace_bytes();
  built.run = [gradient](const KernelArgs& args) { gradient->run(args); };
  return built;
}

Result<Built> build_lstm(const OpDesc& op) {
  return of_number_type(op, [&](auto zero) { return lstm_of_type<decltype(zero)>(op); });
}
Result<Built> build_lstm_grad(const OpDesc& op) {
  return of_number_type(op, [&](auto zero) { return lstm_grad_of_type<decltype(zero)>(op); });
}

constexpr Entry kEntries[] = {
    {"Lstm", "T T T T T i -> T", "f32 f64", build_lstm, wish_row_major},
    {"LstmTrain", "T T T T T i -> T", "f32 f64", build_lstm, wish_row_major},
    {"LstmGrad", "T T T T T T T T T T i -> T", "f32 f64", build_lstm_grad, wish_row_major, false,
     "1 4"}};

}  // namespace
}  // namespace lstm

std::span<const Entry> lstm_kernels() {
  return lstm::kEntries;
}

}  // namespace lowtide::exec_cpu
