// LSTM, GRU and the plain recurrent network, by the formulas of the ONNX specification. Each
// sequence and direction is walked by itself, one step after another; a step behind the end of its
// sequence leaves zeros and the state as it was.
#include "exec/ref/recurrent.h"

namespace lowtide::ref {
namespace {

// Sum over k of R[g, j, k] * state[k].
template <class T>
T fed_back(const Recurrence& r, const Tensor& weights, const std::vector<T>& state, int64_t d,
           int64_t g, int64_t j) {
  T sum = 0;
  for (int64_t k = 0; k < r.units; ++k)
    sum += get<T>(weights, r.weight(d, g, j, k)) * state[static_cast<size_t>(k)];
  return sum;
}

template <class T>
std::vector<T> initial_state(const Recurrence& r, const Tensor* given, int64_t d, int64_t b) {
  std::vector<T> state(static_cast<size_t>(r.units), T(0));
  for (int64_t j = 0; given != nullptr && j < r.units; ++j)
    state[static_cast<size_t>(j)] = get<T>(*given, r.state(d, b, j));
  return state;
}

// Calls step(t, b, d, state of the sequence) for each live step in order; `start(d, b)` makes a
// state and `end(d, b, state)` takes it.
template <class Start, class Step, class End>
void walk(const Recurrence& r, const Start& start, const Step& step, const End& end) {
  for (int64_t d = 0; d < r.directions; ++d)
    for (int64_t b = 0; b < r.batch; ++b) {
      auto state = start(d, b);
      for (int64_t n = 0; n < r.steps; ++n) step(r.step(d, n), b, d, state);
      end(d, b, state);
    }
}

struct LstmKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &weights = *call.in[1], *peepholes = call.input(4);
    const Recurrence r(call, x.dims, weights.dims, call.input(5));
    const bool coupled = call.attrs.integer("input_forget") != 0, keeps = call.out.size() > 3;
    struct State {
      std::vector<T> h, c;
    };
    const auto peep = [&](int64_t d, int64_t p, int64_t j, T c) {
      return peepholes == nullptr ? T(0) : get<T>(*peepholes, r.peephole(d, p, j)) * c;
    };
    walk(
        r,
        [&](int64_t d, int64_t b) {
          return State{initial_state<T>(r, call.input(2), d, b),
                       initial_state<T>(r, call.input(3), d, b)};
        },
        [&](int64_t t, int64_t b, int64_t d, State& s) {
          std::vector<T> next = s.h;
          for (int64_t j = 0; j < r.units; ++j) {
            T& c = s.c[static_cast<size_t>(j)];
            if (r.live(t, b)) {
              const auto sum = [&](int64_t g) {
                return get<T>(x, r.x(t, b, d, g, j)) + fed_back(r, weights, s.h, d, g, j);
              };
              const T i = r.gate(0, sum(0) + peep(d, 0, j, c));
              const T f = coupled ? T(1) - i : r.gate(0, sum(2) + peep(d, 2, j, c));
              const T g = r.gate(1, sum(3));
              c = f * c + i * g;
              const T o = r.gate(0, sum(1) + peep(d, 1, j, c));
              next[static_cast<size_t>(j)] = o * r.activate(2, c);
              set<T>(call.out[0], r.y(t, b, d, j), next[static_cast<size_t>(j)]);
              const T gates[] = {i, o, f, g};
              for (int64_t q = 0; keeps && q < 4; ++q)
                set<T>(call.out[3], r.x(t, b, d, q, j), gates[q]);
            }
            if (keeps) set<T>(call.out[4], r.y(t, b, d, j), c);
          }
          s.h = next;
        },
        [&](int64_t d, int64_t b, const State& s) {
          for (int64_t j = 0; j < r.units; ++j) {
            set<T>(call.out[1], r.state(d, b, j), s.h[static_cast<size_t>(j)]);
            set<T>(call.out[2], r.state(d, b, j), s.c[static_cast<size_t>(j)]);
          }
        });
  }
};

// With linear_before_reset the reset gate scales R h + b, without it h; either product is kept.
struct GruKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &weights = *call.in[1], *bias = call.input(2);
    const Recurrence r(call, x.dims, weights.dims, call.input(4));
    const bool after = call.attrs.integer("linear_before_reset") != 0, keeps = call.out.size() > 2;
    walk(
        r, [&](int64_t d, int64_t b) { return initial_state<T>(r, call.input(3), d, b); },
        [&](int64_t t, int64_t b, int64_t d, std::vector<T>& h) {
          if (!r.live(t, b)) return;
          const auto n = static_cast<size_t>(r.units);
          std::vector<T> z(n), reset(n), inner(n), next(n);
          for (size_t j = 0; j < n; ++j) {
            const auto unit = static_cast<int64_t>(j);
            const auto sum = [&](int64_t g) {
              return get<T>(x, r.x(t, b, d, g, unit)) + fed_back(r, weights, h, d, g, unit);
            };
            z[j] = r.gate(0, sum(0));
            reset[j] = r.gate(0, sum(1));
            inner[j] = reset[j] * h[j];
            if (after)
              inner[j] = fed_back(r, weights, h, d, 2, unit) +
                         (bias == nullptr ? T(0) : get<T>(*bias, d * r.units + unit));
          }
          for (size_t j = 0; j < n; ++j) {
            const auto unit = static_cast<int64_t>(j);
            const T own = after ? reset[j] * inner[j] : fed_back(r, weights, inner, d, 2, unit);
            const T hidden = r.gate(1, get<T>(x, r.x(t, b, d, 2, unit)) + own);
            next[j] = (T(1) - z[j]) * hidden + z[j] * h[j];
            set<T>(call.out[0], r.y(t, b, d, unit), next[j]);
            if (!keeps) continue;
            set<T>(call.out[2], r.x(t, b, d, 0, unit), z[j]);
            set<T>(call.out[2], r.x(t, b, d, 1, unit), reset[j]);
            set<T>(call.out[2], r.x(t, b, d, 2, unit), hidden);
            set<T>(call.out[3], r.y(t, b, d, unit), inner[j]);
          }
          h = next;
        },
        [&](int64_t d, int64_t b, const std::vector<T>& h) {
          for (int64_t j = 0; j < r.units; ++j)
            set<T>(call.out[1], r.state(d, b, j), h[static_cast<size_t>(j)]);
        });
  }
};

struct RnnKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &weights = *call.in[1];
    const Recurrence r(call, x.dims, weights.dims, call.input(3));
    walk(
        r, [&](int64_t d, int64_t b) { return initial_state<T>(r, call.input(2), d, b); },
        [&](int64_t t, int64_t b, int64_t d, std::vector<T>& h) {
          if (!r.live(t, b)) return;
          std::vector<T> next = h;
          for (int64_t j = 0; j < r.units; ++j) {
            const T sum = get<T>(x, r.x(t, b, d, 0, j)) + fed_back(r, weights, h, d, 0, j);
            next[static_cast<size_t>(j)] = r.gate(0, sum);
            set<T>(call.out[0], r.y(t, b, d, j), next[static_cast<size_t>(j)]);
          }
          h = next;
        },
        [&](int64_t d, int64_t b, const std::vector<T>& h) {
          for (int64_t j = 0; j < r.units; ++j)
            set<T>(call.out[1], r.state(d, b, j), h[static_cast<size_t>(j)]);
        });
  }
};

}  // namespace

void add_recurrent(KernelTable& table) {
  table["Lstm"] = kernel<LstmKernel>();
  table["LstmTrain"] = kernel<LstmKernel>();
  table["Gru"] = kernel<GruKernel>();
  table["GruTrain"] = kernel<GruKernel>();
  table["Rnn"] = kernel<RnnKernel>();
}

}  // namespace lowtide::ref
