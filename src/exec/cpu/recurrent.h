// What the kernels of LSTM, GRU and the plain recurrent network share. A direction is walked step
// by step: one matrix product of all sequences' states with the recurrent weights, then the gates,
// unit by unit in parallel. States live where the op gives them in the end (yh, dh0, ...), so that
// a sequence which is over simply keeps its own.
//
//   x and gates  t b (d g h)     y, cells  t b (d h)     states  d b h     R  d (g h) h
#pragma once

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

// Extents of a recurrent op, and where things lie.
struct Recurrence {
  int64_t steps = 0, batch = 0, directions = 1, gates = 1, units = 0;
  bool reverse = false;
  bool wide_lengths = true;  // i64
  float clip = 0;

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

  void run(float* x, int64_t n) const;
  void scale(float* dy, const float* y, int64_t n) const;  // dy *= derivative
};
Result<std::vector<Activation>> activations_of(const OpDesc& op);

void clip_row(float* x, int64_t n, float limit);  // a limit of 0 is none

// The bytes of n floats, rounded so that what follows them is aligned.
inline int64_t float_bytes(int64_t n) {
  return (n * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
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
void start_state(const Recurrence& r, int64_t d, const void* given, float* states);

// dR += or = sum over steps and sequences of deltas^T times the states before the steps, for some
// of the gates: one product over all steps but the first, one for the states at the start.
class WeightGradient {
 public:
  // Of `gates` gates; deltas lie `delta_row` apart, the states before later steps are y.
  static Result<WeightGradient> make(const OpDesc& op, const Recurrence& r, int64_t gates,
                                     int64_t delta_row);
  int64_t workspace_bytes() const;

  struct Operands {
    const float* deltas;  // of step 0 and sequence 0
    const float* y;
    const float* start;  // of the direction, or null
    const void* lengths;
    float* dr;
    void* workspace;
  };
  void run(int64_t d, const Operands& at) const;

 private:
  Recurrence r_;
  int64_t width_ = 0, delta_row_ = 0;
  std::optional<InnerProduct> later_, first_, first_gathered_;
};

}  // namespace lowtide::exec_cpu
