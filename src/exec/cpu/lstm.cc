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
namespace {

enum Gate : int64_t { kInput, kOutput, kForget, kCell };

struct Lstm {
  Recurrence r;
  Activation gate, cell, hidden;
  bool coupled = false;

  // Rows of the peepholes of one direction, or null.
  struct Peepholes {
    const float *input = nullptr, *output = nullptr, *forget = nullptr;
  };
  Peepholes peepholes(const void* all, int64_t d, int64_t first) const {
    if (all == nullptr) return {};
    const float* row = static_cast<const float*>(all) + d * 3 * r.units + first;
    return {row, row + r.units, row + 2 * r.units};
  }
};

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

void add_product(float* to, const float* a, const float* b, int64_t n) {
  if (a == nullptr) return;
  for (int64_t j = 0; j < n; ++j) to[j] += a[j] * b[j];
}

// ---- forward
// ----------------------------------------------------------------------------------------------------

// One step of some units of one sequence.
struct Cell {
  float *i, *o, *f, *g;  // gates: holding their inputs
  float *h, *c, *y;      // states, and where the state also goes
  int64_t n;
};

void step_cell(const Lstm& lstm, const Cell& at, const Lstm::Peepholes& p) {
  const float clip = lstm.r.clip;
  add_product(at.i, p.input, at.c, at.n);
  clip_row(at.i, at.n, clip);
  lstm.gate.run(at.i, at.n);
  if (lstm.coupled) {
    for (int64_t j = 0; j < at.n; ++j) at.f[j] = 1.0f - at.i[j];
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

class Forward {
 public:
  Forward(Lstm lstm, InnerProduct feed, bool keeps)
      : lstm_(lstm), feed_(std::move(feed)), keeps_(keeps) {}

  int64_t workspace_bytes() const {
    return float_bytes(lstm_.r.batch * 4 * lstm_.r.units) + feed_.workspace_bytes();
  }

  void run(const KernelArgs& args) const {
    const Recurrence& r = lstm_.r;
    const auto input = [&](size_t i) { return i < args.inputs.size() ? args.inputs[i] : nullptr; };
    float *h = static_cast<float*>(args.outputs[1]), *c = static_cast<float*>(args.outputs[2]);
    float* fed = static_cast<float*>(args.workspace);
    void* scratch = static_cast<char*>(args.workspace) + float_bytes(r.batch * 4 * r.units);
    for (int64_t d = 0; d < r.directions; ++d) {
      start_state(r, d, input(2), h);
      start_state(r, d, input(3), c);
      const float* weights = static_cast<const float*>(args.inputs[1]) + r.weights_at(d);
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
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    const float* x = static_cast<const float*>(args.inputs[0]) + r.gates_at(t, b, d) + first;
    float* fed = static_cast<float*>(args.workspace) + b * 4 * r.units + first;
    float* gates =
        keeps_ ? static_cast<float*>(args.outputs[3]) + r.gates_at(t, b, d) + first : fed;
    float* c = static_cast<float*>(args.outputs[2]) + r.state_at(d, b) + first;
    float* y = static_cast<float*>(args.outputs[0]) + r.y_at(t, b, d) + first;
    float* cells =
        keeps_ ? static_cast<float*>(args.outputs[4]) + r.y_at(t, b, d) + first : nullptr;
    const bool live = r.live(args.inputs.size() > 5 ? args.inputs[5] : nullptr, t, b);
    for (int64_t g = 0; g < 4; ++g) {
      const int64_t at = g * r.units;
      for (int64_t j = 0; j < count; ++j) gates[at + j] = live ? x[at + j] + fed[at + j] : 0.0f;
    }
    if (live) {
      step_cell(lstm_,
                {.i = gates + kInput * r.units,
                 .o = gates + kOutput * r.units,
                 .f = gates + kForget * r.units,
                 .g = gates + kCell * r.units,
                 .h = static_cast<float*>(args.outputs[1]) + r.state_at(d, b) + first,
                 .c = c,
                 .y = y,
                 .n = count},
                lstm_.peepholes(args.inputs.size() > 4 ? args.inputs[4] : nullptr, d, first));
    } else {
      std::memset(y, 0, bytes);
    }
    if (cells != nullptr) std::memcpy(cells, c, bytes);
  }

  Lstm lstm_;
  InnerProduct feed_;
  bool keeps_;
};

Result<Built> build_lstm(const OpDesc& op) {
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
  const auto forward = std::make_shared<Forward>(lstm, std::move(feed), keeps);
  built.workspace_bytes = forward->workspace_bytes();
  built.run = [forward](const KernelArgs& args) { forward->run(args); };
  return built;
}

// ---- gradient
// ---------------------------------------------------------------------------------------------------

// Operands of the gradient op by number.
enum In : size_t { kDy, kDyh, kDyc, kY, kGates, kCells, kWeights, kH0, kC0, kPeepholes, kLengths };

class Gradient {
 public:
  Gradient(Lstm lstm, InnerProduct back, WeightGradient weights)
      : lstm_(lstm), back_(std::move(back)), weights_(std::move(weights)) {}

  int64_t workspace_bytes() const {
    return deltas_bytes() + std::max(back_.workspace_bytes(), weights_.workspace_bytes());
  }

  void run(const KernelArgs& args) const {
    const Recurrence& r = lstm_.r;
    float *dh = output(args, 2), *deltas = static_cast<float*>(args.workspace);
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
      const float* h0 = input(args, kH0);
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
  int64_t deltas_bytes() const { return float_bytes(lstm_.r.batch * 4 * lstm_.r.units); }
  static const float* input(const KernelArgs& args, size_t i) {
    return i < args.inputs.size() ? static_cast<const float*>(args.inputs[i]) : nullptr;
  }
  static float* output(const KernelArgs& args, size_t i) {
    return static_cast<float*>(args.outputs[i]);
  }

  // The cells before a step, or null where they are zeros.
  const float* cells_before(const KernelArgs& args, int64_t d, int64_t t, int64_t b) const {
    const Recurrence& r = lstm_.r;
    const int64_t before = r.before(d, t);
    if (r.is_step(before) && r.live(input(args, kLengths), before, b))
      return input(args, kCells) + r.y_at(before, b, d);
    const float* c0 = input(args, kC0);
    return c0 == nullptr ? nullptr : c0 + r.state_at(d, b);
  }

  // The gradients of the gates' inputs of some units of one sequence, into the workspace (for the
  // product that follows) and the output; the state's gradient becomes what that product adds to.
  void step(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first,
            int64_t count) const {
    const Recurrence& r = lstm_.r;
    float* deltas = static_cast<float*>(args.workspace) + b * 4 * r.units + first;
    float* dx = output(args, 0) + r.gates_at(t, b, d) + first;
    if (r.live(input(args, kLengths), t, b)) {
      live_step(args, d, t, b, first, count, deltas);
    } else {
      for (int64_t g = 0; g < 4; ++g) std::fill_n(deltas + g * r.units, count, 0.0f);
    }
    for (int64_t g = 0; g < 4; ++g)
      std::memcpy(dx + g * r.units, deltas + g * r.units,
                  static_cast<size_t>(count) * sizeof(float));
  }

  void live_step(const KernelArgs& args, int64_t d, int64_t t, int64_t b, int64_t first, int64_t n,
                 float* deltas) const {
    const Recurrence& r = lstm_.r;
    const float* gates = input(args, kGates) + r.gates_at(t, b, d) + first;
    const float *i = gates + kInput * r.units, *o = gates + kOutput * r.units;
    const float *f = gates + kForget * r.units, *g = gates + kCell * r.units;
    float *di = deltas + kInput * r.units, *d_o = deltas + kOutput * r.units;
    float *df = deltas + kForget * r.units, *dg = deltas + kCell * r.units;
    const auto p = lstm_.peepholes(input(args, kPeepholes), d, first);
    const float* earlier = cells_before(args, d, t, b);
    if (earlier != nullptr) earlier += first;
    float* dh = output(args, 2) + r.state_at(d, b) + first;
    float* dc = output(args, 3) + r.state_at(d, b) + first;
    const float* dy = input(args, kDy);
    if (dy != nullptr) dy += r.y_at(t, b, d) + first;
    std::array<float, kUnits> out, through;  // h(c'), and the gradient of c' through it
    std::memcpy(out.data(), input(args, kCells) + r.y_at(t, b, d) + first,
                static_cast<size_t>(n) * sizeof(float));
    lstm_.hidden.run(out.data(), n);
    for (int64_t j = 0; j < n; ++j) {
      const float dout = dh[j] + (dy != nullptr ? dy[j] : 0.0f);
      d_o[j] = dout * out[static_cast<size_t>(j)];
      through[static_cast<size_t>(j)] = dout * o[j];
      dh[j] = 0.0f;
    }
    lstm_.gate.scale(d_o, o, n);
    lstm_.hidden.scale(through.data(), out.data(), n);
    add_product(through.data(), p.output, d_o, n);
    for (int64_t j = 0; j < n; ++j) {
      const float cell = dc[j] + through[static_cast<size_t>(j)];
      const float forgotten = earlier != nullptr ? cell * earlier[j] : 0.0f;
      di[j] = cell * g[j] - (lstm_.coupled ? forgotten : 0.0f);
      df[j] = lstm_.coupled ? 0.0f : forgotten;
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
    float* sums = output(args, 4) + d * 3 * r.units;
    std::fill_n(sums, 3 * r.units, 0.0f);
    for (int64_t t = 0; t < r.steps; ++t)
      for (int64_t b = 0; b < r.batch; ++b) {
        const float* deltas = output(args, 0) + r.gates_at(t, b, d);
        const float *before = cells_before(args, d, t, b),
                    *now = input(args, kCells) + r.y_at(t, b, d);
        for (int64_t p = 0; p < 3; ++p) {
          const float* cells = kGateOf[p] == kOutput ? now : before;
          if (cells != nullptr)
            add_product(sums + p * r.units, deltas + kGateOf[p] * r.units, cells, r.units);
        }
      }
  }

  Lstm lstm_;
  InnerProduct back_;
  WeightGradient weights_;
};

Result<Built> build_lstm_grad(const OpDesc& op) {
  LT_RETURN_IF_ERROR(check_counts(op, 0, 11, has_input(op, kPeepholes) ? 5 : 4));
  for (size_t i : {kY, kGates, kCells, kWeights})
    if (!has_input(op, i)) return unsupported(op, "results, gates, cells and weights are needed");
  LT_ASSIGN(Lstm lstm, lstm_of(op, kGates, kWeights, kLengths));
  const Recurrence& r = lstm.r;
  const int64_t width = 4 * r.units;
  LT_ASSIGN(InnerProduct back,
            InnerProduct::make(op, {{r.batch, width}, {width, 1}}, {{width, r.units}, {r.units, 1}},
                               {{r.batch, r.units}, {r.units, 1}}, true));
  LT_ASSIGN(WeightGradient weights, WeightGradient::make(op, r, 4, r.gate_row()));
  Built built;
  built.implementation = by_steps(back);
  const auto gradient = std::make_shared<Gradient>(lstm, std::move(back), std::move(weights));
  built.workspace_bytes = gradient->workspace_bytes();
  built.run = [gradient](const KernelArgs& args) { gradient->run(args); };
  return built;
}

constexpr Entry kEntries[] = {
    {"Lstm", "T T T T T i -> T", "f32", build_lstm, wish_row_major},
    {"LstmTrain", "T T T T T i -> T", "f32", build_lstm, wish_row_major},
    {"LstmGrad", "T T T T T T T T T T i -> T", "f32", build_lstm_grad, wish_row_major}};

}  // namespace

std::span<const Entry> lstm_kernels() {
  return kEntries;
}

}  // namespace lowtide::exec_cpu
