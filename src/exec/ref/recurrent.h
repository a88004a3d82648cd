// What the recurrent kernels of the reference executor share: extents, the order of steps, which
// steps a sequence has, activations, and where an element lies. Internal to this folder.
//
// Tests: interpreter_test.cc, fission_test.cc.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "exec/ref/kernels.h"

namespace lowtide::ref {

void add_recurrent(KernelTable& table);
void add_recurrent_gradients(KernelTable& table);

// The cell as a network of one direction sees it. `x` are the inputs of the gates, [t b (d g h)].
struct Recurrence {
  int64_t steps, batch, directions, gates, units;
  const Tensor* lengths;
  std::string direction;
  std::vector<std::string> activations;
  double clip;

  Recurrence(const Call& call, const Sizes& x, const Sizes& weights, const Tensor* lengths_in)
      : steps(x[0]),
        batch(x[1]),
        directions(weights[0]),
        gates(weights[1] / weights[2]),
        units(weights[2]),
        lengths(lengths_in),
        direction(call.attrs.word("direction")),
        clip(call.attrs.real("clip")) {
    const std::string words = call.attrs.word("activations");
    for (size_t at = 0; at <= words.size();) {
      const size_t end = std::min(words.find('+', at), words.size());
      activations.push_back(words.substr(at, end - at));
      at = end + 1;
    }
  }

  bool reversed(int64_t d) const { return direction == "reverse" || d == 1; }
  // The step that is taken as number `n`.
  int64_t step(int64_t d, int64_t n) const { return reversed(d) ? steps - 1 - n : n; }
  bool live(int64_t t, int64_t b) const { return lengths == nullptr || t < int_at(*lengths, b); }

  // Elements of [t b (d h)], [t b (d g h)], [d b h], [d (g h) k] and [d (g h)].
  int64_t y(int64_t t, int64_t b, int64_t d, int64_t j) const {
    return ((t * batch + b) * directions + d) * units + j;
  }
  int64_t x(int64_t t, int64_t b, int64_t d, int64_t g, int64_t j) const {
    return (((t * batch + b) * directions + d) * gates + g) * units + j;
  }
  int64_t state(int64_t d, int64_t b, int64_t j) const { return (d * batch + b) * units + j; }
  int64_t weight(int64_t d, int64_t g, int64_t j, int64_t k) const {
    return ((d * gates + g) * units + j) * units + k;
  }
  int64_t peephole(int64_t d, int64_t p, int64_t j) const { return (d * 3 + p) * units + j; }

  template <class T>
  T clipped(T v) const {
    const T limit = static_cast<T>(clip);
    return clip > 0 ? std::min(std::max(v, -limit), limit) : v;
  }
  // A gate: the activation of its cut input.
  template <class T>
  T gate(size_t which, T v) const {
    return activate(which, clipped(v));
  }
  template <class T>
  T activate(size_t which, T v) const {
    const std::string& word = activations[which];
    if (word == "tanh") return std::tanh(v);
    return word == "relu" ? std::max(v, T(0)) : T(1) / (T(1) + std::exp(-v));
  }
  // The derivative, from the activation's result.
  template <class T>
  T slope(size_t which, T result) const {
    const std::string& word = activations[which];
    if (word == "tanh") return T(1) - result * result;
    return word == "relu" ? T(result > 0) : result * (T(1) - result);
  }
};

}  // namespace lowtide::ref
