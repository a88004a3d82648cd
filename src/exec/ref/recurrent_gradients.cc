// Gradients of the recurrent networks: the chain rule through one step after another, from the last
// to the first. What a step gives to the state before it is carried on; where a sequence has no
// such step, the state's gradient passes unchanged.
#include "exec/ref/recurrent.h"

namespace lowtide::ref {
namespace {

template <class T>
T or_zero(const Tensor* tensor, int64_t e) {
  return tensor == nullptr ? T(0) : get<T>(*tensor, e);
}

// The state's gradient and what of the forward pass every cell's step reads.
template <class T>
class Backward {
 public:
  Backward(const Recurrence& r, const Tensor& y, const Tensor* h0, const Tensor& weights,
           Tensor& dr)
      : r_(r), y_(y), h0_(h0), weights_(weights), dr_(dr) {}

  // The state before step t, of which the first taken has no step before it. Behind the end of a
  // reversed sequence it is where it started.
  T before(const Tensor& states, const Tensor* start, int64_t t, int64_t b, int64_t d,
           int64_t j) const {
    const int64_t earlier = r_.reversed(d) ? t + 1 : t - 1;
    const bool first = earlier < 0 || earlier >= r_.steps || !r_.live(earlier, b);
    return first ? or_zero<T>(start, r_.state(d, b, j)) : get<T>(states, r_.y(earlier, b, d, j));
  }
  T h_before(int64_t t, int64_t b, int64_t d, int64_t j) const {
    return before(y_, h0_, t, b, d, j);
  }

  // What the gradient `delta` of (R state)[g, j] gives to R and, at k, to the state.
  void back(int64_t d, int64_t g, int64_t j, T delta, const std::vector<T>& state,
            std::vector<T>& dstate) {
    for (int64_t k = 0; k < r_.units; ++k) {
      const auto at = static_cast<size_t>(k);
      add<T>(dr_, r_.weight(d, g, j, k), delta * state[at]);
      dstate[at] += delta * get<T>(weights_, r_.weight(d, g, j, k));
    }
  }

  // Calls step(t, b, d, h before, gradient of h: in, of the state before: out) for each live step,
  // the last one first; dstates holds the gradients of the states after the last steps and comes
  // to hold those of the initial ones.
  template <class Step>
  void walk(const Tensor* dy, Tensor& dstates, const Step& step) {
    for (int64_t d = 0; d < r_.directions; ++d)
      for (int64_t b = 0; b < r_.batch; ++b)
        for (int64_t n = r_.steps; n-- > 0;) {
          const int64_t t = r_.step(d, n);
          if (!r_.live(t, b)) continue;
          std::vector<T> h, dh, before(static_cast<size_t>(r_.units), T(0));
          for (int64_t j = 0; j < r_.units; ++j) {
            h.push_back(h_before(t, b, d, j));
            dh.push_back(get<T>(dstates, r_.state(d, b, j)) + or_zero<T>(dy, r_.y(t, b, d, j)));
          }
          step(t, b, d, h, dh, before);
          for (int64_t j = 0; j < r_.units; ++j)
            set<T>(dstates, r_.state(d, b, j), before[static_cast<size_t>(j)]);
        }
  }

 private:
  const Recurrence& r_;
  const Tensor& y_;
  const Tensor* h0_;
  const Tensor& weights_;
  Tensor& dr_;
};

void start_from(Tensor& tensor, const Tensor* given) {
  if (given != nullptr) tensor.f = given->f;
}

struct LstmGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &y = *call.in[3], &gates = *call.in[4], &cells = *call.in[5];
    const Tensor *c0 = call.input(8), *peepholes = call.input(9);
    const Recurrence r(call, gates.dims, call.in[6]->dims, call.input(10));
    const bool coupled = call.attrs.integer("input_forget") != 0;
    Tensor &dx = call.out[0], &dc = call.out[3];
    start_from(call.out[2], call.input(1));
    start_from(dc, call.input(2));
    Backward<T> back(r, y, call.input(7), *call.in[6], call.out[1]);
    const auto step = [&](int64_t t, int64_t b, int64_t d, const std::vector<T>& h,
                          const std::vector<T>& dh, std::vector<T>& before) {
      for (int64_t j = 0; j < r.units; ++j) {
        const auto gate = [&](int64_t g) { return get<T>(gates, r.x(t, b, d, g, j)); };
        const auto peep = [&](int64_t p, T delta) {
          return peepholes == nullptr ? T(0) : get<T>(*peepholes, r.peephole(d, p, j)) * delta;
        };
        const T i = gate(0), o = gate(1), f = gate(2), g = gate(3);
        const T c = get<T>(cells, r.y(t, b, d, j)), out = r.activate(2, c);
        const T earlier = back.before(cells, c0, t, b, d, j);
        const T dout = dh[static_cast<size_t>(j)];
        const T d_o = dout * out * r.slope(0, o);
        const T cell = get<T>(dc, r.state(d, b, j)) + dout * o * r.slope(2, out) + peep(1, d_o);
        const T d_f = coupled ? T(0) : cell * earlier * r.slope(0, f);
        const T d_i = (cell * g - (coupled ? cell * earlier : T(0))) * r.slope(0, i);
        const T deltas[] = {d_i, d_o, d_f, cell * i * r.slope(1, g)};
        set<T>(dc, r.state(d, b, j), cell * f + peep(0, d_i) + peep(2, d_f));
        for (int64_t q = 0; q < 4; ++q) {
          set<T>(dx, r.x(t, b, d, q, j), deltas[q]);
          back.back(d, q, j, deltas[q], h, before);
        }
        if (peepholes == nullptr) continue;
        add<T>(call.out[4], r.peephole(d, 0, j), d_i * earlier);
        add<T>(call.out[4], r.peephole(d, 1, j), d_o * c);
        add<T>(call.out[4], r.peephole(d, 2, j), d_f * earlier);
      }
    };
    back.walk(call.input(0), call.out[2], step);
  }
};

struct GruGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &gates = *call.in[3], &inner = *call.in[4], &weights = *call.in[5];
    const Recurrence r(call, gates.dims, weights.dims, call.input(7));
    const bool after = call.attrs.integer("linear_before_reset") != 0;
    Tensor& dx = call.out[0];
    start_from(call.out[2], call.input(1));
    Backward<T> back(r, *call.in[2], call.input(6), weights, call.out[1]);
    const auto step = [&](int64_t t, int64_t b, int64_t d, const std::vector<T>& h,
                          const std::vector<T>& dh, std::vector<T>& before) {
      const auto n = static_cast<size_t>(r.units);
      std::vector<T> d_hidden(n), d_reset(n, T(0)), product(n);
      const auto gate = [&](int64_t g, size_t j) {
        return get<T>(gates, r.x(t, b, d, g, static_cast<int64_t>(j)));
      };
      for (size_t j = 0; j < n; ++j) {
        const auto unit = static_cast<int64_t>(j);
        const T z = gate(0, j), hidden = gate(2, j);
        const T d_z = dh[j] * (h[j] - hidden) * r.slope(0, z);
        d_hidden[j] = dh[j] * (T(1) - z) * r.slope(1, hidden);
        product[j] = get<T>(inner, r.y(t, b, d, unit));
        before[j] += dh[j] * z;
        set<T>(dx, r.x(t, b, d, 0, unit), d_z);
        set<T>(dx, r.x(t, b, d, 2, unit), d_hidden[j]);
        back.back(d, 0, unit, d_z, h, before);
      }
      if (after) {
        for (size_t j = 0; j < n; ++j) {
          const T d_inner = d_hidden[j] * gate(1, j);
          d_reset[j] = d_hidden[j] * product[j];
          add<T>(call.out[3], d * r.units + static_cast<int64_t>(j), d_inner);
          back.back(d, 2, static_cast<int64_t>(j), d_inner, h, before);
        }
      } else {
        std::vector<T> d_product(n, T(0));
        for (size_t j = 0; j < n; ++j)
          back.back(d, 2, static_cast<int64_t>(j), d_hidden[j], product, d_product);
        for (size_t j = 0; j < n; ++j) {
          d_reset[j] = d_product[j] * h[j];
          before[j] += d_product[j] * gate(1, j);
        }
      }
      for (size_t j = 0; j < n; ++j) {
        const T d_r = d_reset[j] * r.slope(0, gate(1, j));
        set<T>(dx, r.x(t, b, d, 1, static_cast<int64_t>(j)), d_r);
        back.back(d, 1, static_cast<int64_t>(j), d_r, h, before);
      }
    };
    back.walk(call.input(0), call.out[2], step);
  }
};

struct RnnGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &y = *call.in[2], &weights = *call.in[3];
    const Recurrence r(call, y.dims, weights.dims, call.input(5));
    start_from(call.out[2], call.input(1));
    Backward<T> back(r, y, call.input(4), weights, call.out[1]);
    const auto step = [&](int64_t t, int64_t b, int64_t d, const std::vector<T>& h,
                          const std::vector<T>& dh, std::vector<T>& before) {
      for (int64_t j = 0; j < r.units; ++j) {
        const T delta = dh[static_cast<size_t>(j)] * r.slope(0, get<T>(y, r.y(t, b, d, j)));
        set<T>(call.out[0], r.x(t, b, d, 0, j), delta);
        back.back(d, 0, j, delta, h, before);
      }
    };
    back.walk(call.input(0), call.out[2], step);
  }
};

}  // namespace

void add_recurrent_gradients(KernelTable& table) {
  table["LstmGrad"] = kernel<LstmGradKernel>();
  table["GruGrad"] = kernel<GruGradKernel>();
  table["RnnGrad"] = kernel<RnnGradKernel>();
}

}  // namespace lowtide::ref
