// What the kernels of LSTM, GRU and the plain recurrent network share. A direction is walked step
// by step: one matrix product of all sequences' states with the recurrent weights, then the gates,
// unit by unit in parallel. States live where the op gives them in the end (yh, dh0, ...), so that
// a sequence which is over simply keeps its own.
//
//   x and gates  t b (d g h)
//   y, cells     t b (d h)
//   states       d b h
//   R            d (g h) h
//
// Tests: kernel_test.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/cpu/build.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/product.h"
#include "exec/cpu/simd.h"

namespace lowtide::exec_cpu {

std::span<const Entry> lstm_kernels();
std::span<const Entry> gru_kernels();
std::span<const Entry> rnn_kernels();

// An operand that is absent is null.
template <class T>
const T* input_of(const KernelArgs& args, size_t i) {
  return i < args.inputs.size() ? static_cast<const T*>(args.inputs[i]) : nullptr;
}
template <class T>
T* output_of(const KernelArgs& args, size_t i) {
  return static_cast<T*>(args.outputs[i]);
}

// Extents of a recurrent op, and where things lie.
struct Recurrence {
  int64_t steps = 0, batch = 0, directions = 1, gates = 1, units = 0;
  bool reverse = false;
  bool wide_lengths = true;  // i64
  double clip = 0;

  bool reversed(int64_t d) const { return reverse || d == 1; }
  // The step that is taken as number `n`; the one taken before step t (outside at the first).
  int64_t step(int64_t d, int64_t n) const { return reversed(d) ? steps - 1 - n : n; }
  int64_t before(int64_t d, int64_t t) const { return reversed(d) ? t + 1 : t - 1; }
  bool is_step(int64_t t) const { return t >= 0 && t < steps; }

  int64_t gates_at(int64_t t, int64_t b, int64_t d) const {
    return ((t * batch + b) * directions + d) * gates * units;
  }
  int64_t y_at(int64_t t, int64_t b, int64_t d) const {
    return ((t * batch + b) * directions + d) * units;
  }
  int64_t state_at(int64_t d, int64_t b) const { return (d * batch + b) * units; }
  int64_t weights_at(int64_t d) const { return d * gates * units * units; }
  int64_t gate_row() const { return directions * gates * units; }  // between sequences
  int64_t y_row() const { return directions * units; }
  int64_t states() const { return batch * units; }
  int64_t length(const void* lengths, int64_t b) const {
    return wide_lengths ? static_cast<const int64_t*>(lengths)[b]
                        : static_cast<const int32_t*>(lengths)[b];
  }
  bool live(const void* lengths, int64_t t, int64_t b) const {
    return lengths == nullptr || t < length(lengths, b);
  }
};

// `x`: the operand of gates' extent, `weights` and `lengths`: inputs by number.
Result<Recurrence> recurrence_of(const OpDesc& op, size_t x, size_t weights, size_t lengths);

// One activation on contiguous elements, and a gradient times its derivative there.
struct Activation {
  MapLoop value = nullptr;     // of x
  MapLoop gradient = nullptr;  // of (dy, y)

  // T is the type of the op that the activation was made for.
  template <class T>
  void run(T* x, int64_t n) const {
    MapCall call{};
    call.out = reinterpret_cast<char*>(x);
    call.in[0] = call.out;
    call.step1[0] = call.step1[1] = sizeof(T);
    call.n0 = 1;
    call.n1 = n;
    value(call);
  }
  // dy *= derivative.
  template <class T>
  void scale(T* dy, const T* y, int64_t n) const {
    MapCall call{};
    call.out = reinterpret_cast<char*>(dy);
    call.in[0] = call.out;
    call.in[1] = reinterpret_cast<const char*>(y);
    call.step1[0] = call.step1[1] = call.step1[2] = sizeof(T);
    call.n0 = 1;
    call.n1 = n;
    gradient(call);
  }
};
Result<std::vector<Activation>> activations_of(const OpDesc& op);

// A limit of 0 is none.
template <class T>
void clip_row(T* x, int64_t n, double limit) {
  const T most = static_cast<T>(limit);
  if (limit <= 0) return;
  for (int64_t i = 0; i < n; ++i) x[i] = std::min(std::max(x[i], -most), most);
}

// The bytes of n numbers, rounded so that what follows them is aligned.
template <class T>
int64_t bytes_of(int64_t n) {
  return (n * static_cast<int64_t>(sizeof(T)) + 63) / 64 * 64;
}

// What a builder for numbers of type T gives, for the op's type: f32 or f64.
template <class F>
Result<Built> of_number_type(const OpDesc& op, const F& build) {
  return op.outputs[0].dtype == DType::kF64 ? build(double{}) : build(float{});
}

// The name of an implementation whose steps are this product.
std::string by_steps(const InnerProduct& product);

inline constexpr int64_t kUnits = 256;  // of one sequence that a thread takes at a time

// Calls f(sequence, first unit, units) for pieces of all sequences' states.
template <class F>
void for_units(const Recurrence& r, const F& f) {
  const int64_t pieces = (r.units + kUnits - 1) / kUnits;
  parallel_ranges(r.batch * pieces, 1 + 2048 / std::max<int64_t>(1, std::min(r.units, kUnits)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t at = begin; at < end; ++at) {
                      const int64_t first = at % pieces * kUnits;
                      f(at / pieces, first, std::min(kUnits, r.units - first));
                    }
                  });
}

// A state at the start of a direction: what was given, or zeros.
template <class T>
void start_state(const Recurrence& r, int64_t d, const void* given, T* states) {
  T* to = states + r.state_at(d, 0);
  if (given == nullptr)
    std::fill_n(to, r.states(), T{0});
  else if (given != states)
    std::copy_n(static_cast<const T*>(given) + r.state_at(d, 0), r.states(), to);
}

// dR += or = sum over steps and sequences of deltas^T times the states before the steps, for some
// of the gates: one product over all steps but the first, one for the states at the start.
template <class T>
class WeightGradient {
 public:
  // Of `gates` gates; deltas lie `delta_row` apart, the states before later steps are y.
  static Result<WeightGradient> make(const OpDesc& op, const Recurrence& r, int64_t gates,
                                     int64_t delta_row);
  int64_t workspace_bytes() const;

  struct Operands {
    const T* deltas;  // of step 0 and sequence 0
    const T* y;
    const T* start;  // of the direction, or null
    const void* lengths;
    T* dr;
    void* workspace;
  };
  void run(int64_t d, const Operands& at) const;

 private:
  Recurrence r_;
  int64_t width_ = 0, delta_row_ = 0;
  std::optional<InnerProduct> later_, first_, first_gathered_;
};

}  // namespace lowtide::exec_cpu
