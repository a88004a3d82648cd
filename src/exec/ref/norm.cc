// Normalisations and softmax, with their gradients. All are "for each group of coupled elements": a
// Group says which elements of the tensor belong together and which element of the scale each of
// them is multiplied with.
#include <cmath>
#include <limits>

#include "exec/ref/kernels.h"

namespace lowtide::ref {
namespace {

// ---- batch normalisation: one group per channel of [n c s..]

template <class Use>
void for_channel(const Around& split, int64_t channel, const Use& use) {
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) use(split.at(o, channel, i));
}

struct BatchNormTrainKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &scale = *call.in[1], &bias = *call.in[2];
    const Around split = around(x.dims, 1);
    const T count = static_cast<T>(split.outer * split.inner);
    const T epsilon = static_cast<T>(call.attrs.real("epsilon"));
    for (int64_t c = 0; c < split.axis; ++c) {
      T mean = 0, var = 0;
      for_channel(split, c, [&](int64_t e) { mean += get<T>(x, e); });
      mean /= count;
      for_channel(split, c, [&](int64_t e) {
        const T d = get<T>(x, e) - mean;
        var += d * d;
      });
      var /= count;
      const T rstd = 1 / std::sqrt(var + epsilon);
      for_channel(split, c, [&](int64_t e) {
        set<T>(call.out[0], e, (get<T>(x, e) - mean) * rstd * get<T>(scale, c) + get<T>(bias, c));
      });
      set<T>(call.out[1], c, mean);
      set<T>(call.out[2], c, var);
    }
  }
};

// The mean, or with a mean the variance: of a part, its share.
struct BatchStatisticKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const Tensor* mean = call.kind == "BatchVariance" ? call.in[1] : nullptr;
    const Around split = around(x.dims, 1);
    const T count = static_cast<T>(call.attrs.integer("count"));
    for (int64_t c = 0; c < split.axis; ++c) {
      T sum = 0;
      for_channel(split, c, [&](int64_t e) {
        const T d = mean ? get<T>(x, e) - get<T>(*mean, c) : get<T>(x, e);
        sum += mean ? d * d : d;
      });
      add<T>(call.out[0], c, sum / count);
    }
  }
};

struct BatchNormInferenceKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    const Around split = around(x.dims, 1);
    const T epsilon = static_cast<T>(call.attrs.real("epsilon"));
    for (int64_t c = 0; c < split.axis; ++c) {
      const T rstd = 1 / std::sqrt(get<T>(*call.in[4], c) + epsilon);
      for_channel(split, c, [&](int64_t e) {
        set<T>(call.out[0], e,
               (get<T>(x, e) - get<T>(*call.in[3], c)) * rstd * get<T>(*call.in[1], c) +
                   get<T>(*call.in[2], c));
      });
    }
  }
};

struct BatchNormGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1], &scale = *call.in[2];
    const Around split = around(x.dims, 1);
    const T count = static_cast<T>(split.outer * split.inner);
    const T epsilon = static_cast<T>(call.attrs.real("epsilon"));
    for (int64_t c = 0; c < split.axis; ++c) {
      const T mean = get<T>(*call.in[3], c);
      const T rstd = 1 / std::sqrt(get<T>(*call.in[4], c) + epsilon);
      const auto hat = [&](int64_t e) { return (get<T>(x, e) - mean) * rstd; };
      T dscale = 0, dbias = 0;
      for_channel(split, c, [&](int64_t e) {
        dscale += get<T>(dy, e) * hat(e);
        dbias += get<T>(dy, e);
      });
      for_channel(split, c, [&](int64_t e) {
        const T centred = get<T>(dy, e) - dbias / count - hat(e) * dscale / count;
        set<T>(call.out[0], e, get<T>(scale, c) * rstd * centred);
      });
      set<T>(call.out[1], c, dscale);
      set<T>(call.out[2], c, dbias);
    }
  }
};

struct BatchNormGradSumsKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1];
    const Around split = around(x.dims, 1);
    const T epsilon = static_cast<T>(call.attrs.real("epsilon"));
    for (int64_t c = 0; c < split.axis; ++c) {
      const T mean = get<T>(*call.in[2], c);
      const T rstd = 1 / std::sqrt(get<T>(*call.in[3], c) + epsilon);
      T dscale = 0, dbias = 0;
      for_channel(split, c, [&](int64_t e) {
        dscale += get<T>(dy, e) * ((get<T>(x, e) - mean) * rstd);
        dbias += get<T>(dy, e);
      });
      add<T>(call.out[0], c, dscale);
      add<T>(call.out[1], c, dbias);
    }
  }
};

struct BatchNormGradDataKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1];
    const Around split = around(x.dims, 1);
    const T count = static_cast<T>(call.attrs.integer("count"));
    const T epsilon = static_cast<T>(call.attrs.real("epsilon"));
    for (int64_t c = 0; c < split.axis; ++c) {
      const T scale = get<T>(*call.in[2], c), mean = get<T>(*call.in[3], c);
      const T rstd = 1 / std::sqrt(get<T>(*call.in[4], c) + epsilon);
      const T dscale = get<T>(*call.in[5], c), dbias = get<T>(*call.in[6], c);
      for_channel(split, c, [&](int64_t e) {
        const T hat = (get<T>(x, e) - mean) * rstd;
        const T centred = get<T>(dy, e) - dbias / count - hat * dscale / count;
        set<T>(call.out[0], e, scale * rstd * centred);
      });
    }
  }
};

// ---- layer and root-mean-square normalisation: one group per row of the dims before `axis`

struct LayerNormKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &scale = *call.in[1];
    const Tensor* bias = call.input(2);
    const Around split = from_axis(x.dims, call.attrs.integer("axis"));
    const T count = static_cast<T>(split.axis);
    const T epsilon = static_cast<T>(call.attrs.real("epsilon"));
    for (int64_t o = 0; o < split.outer; ++o) {
      T mean = 0, var = 0;
      for (int64_t a = 0; a < split.axis; ++a) mean += get<T>(x, split.at(o, a, 0));
      mean /= count;
      for (int64_t a = 0; a < split.axis; ++a) {
        const T d = get<T>(x, split.at(o, a, 0)) - mean;
        var += d * d;
      }
      const T rstd = 1 / std::sqrt(var / count + epsilon);
      for (int64_t a = 0; a < split.axis; ++a) {
        const T y = (get<T>(x, split.at(o, a, 0)) - mean) * rstd * get<T>(scale, a);
        set<T>(call.out[0], split.at(o, a, 0), bias ? y + get<T>(*bias, a) : y);
      }
      set<T>(call.out[1], o, mean);
      set<T>(call.out[2], o, rstd);
    }
  }
};

struct LayerNormGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1], &scale = *call.in[2];
    const Around split = from_axis(x.dims, call.attrs.integer("axis"));
    const T count = static_cast<T>(split.axis);
    for (int64_t o = 0; o < split.outer; ++o) {
      const T mean = get<T>(*call.in[3], o), rstd = get<T>(*call.in[4], o);
      const auto hat = [&](int64_t a) { return (get<T>(x, split.at(o, a, 0)) - mean) * rstd; };
      T sum = 0, along = 0;  // of dy * scale, and of its product with the normalised x
      for (int64_t a = 0; a < split.axis; ++a) {
        const T g = get<T>(dy, split.at(o, a, 0));
        sum += g * get<T>(scale, a);
        along += g * get<T>(scale, a) * hat(a);
        add<T>(call.out[1], a, g * hat(a));
        add<T>(call.out[2], a, g);
      }
      for (int64_t a = 0; a < split.axis; ++a) {
        const T g = get<T>(dy, split.at(o, a, 0)) * get<T>(scale, a);
        set<T>(call.out[0], split.at(o, a, 0), rstd * (g - sum / count - hat(a) * along / count));
      }
    }
  }
};

struct RmsNormKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &x = *call.in[0], &scale = *call.in[1];
    const Around split = from_axis(x.dims, call.attrs.integer("axis"));
    const T epsilon = static_cast<T>(call.attrs.real("epsilon"));
    for (int64_t o = 0; o < split.outer; ++o) {
      T squares = 0;
      for (int64_t a = 0; a < split.axis; ++a)
        squares += get<T>(x, split.at(o, a, 0)) * get<T>(x, split.at(o, a, 0));
      const T rstd = 1 / std::sqrt(squares / static_cast<T>(split.axis) + epsilon);
      for (int64_t a = 0; a < split.axis; ++a)
        set<T>(call.out[0], split.at(o, a, 0),
               get<T>(x, split.at(o, a, 0)) * rstd * get<T>(scale, a));
      set<T>(call.out[1], o, rstd);
    }
  }
};

struct RmsNormGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &x = *call.in[1], &scale = *call.in[2];
    const Around split = from_axis(x.dims, call.attrs.integer("axis"));
    const T count = static_cast<T>(split.axis);
    for (int64_t o = 0; o < split.outer; ++o) {
      const T rstd = get<T>(*call.in[3], o);
      T along = 0;
      for (int64_t a = 0; a < split.axis; ++a) {
        const T hat = get<T>(x, split.at(o, a, 0)) * rstd;
        const T g = get<T>(dy, split.at(o, a, 0));
        along += g * get<T>(scale, a) * hat;
        add<T>(call.out[1], a, g * hat);
      }
      for (int64_t a = 0; a < split.axis; ++a) {
        const T hat = get<T>(x, split.at(o, a, 0)) * rstd;
        const T g = get<T>(dy, split.at(o, a, 0)) * get<T>(scale, a);
        set<T>(call.out[0], split.at(o, a, 0), rstd * (g - hat * along / count));
      }
    }
  }
};

// ---- softmax: one group per line along `axis`

// Calls use(o, i) for every line.
template <class Use>
void for_each_line(const Around& split, const Use& use) {
  for (int64_t o = 0; o < split.outer; ++o)
    for (int64_t i = 0; i < split.inner; ++i) use(o, i);
}

struct SoftmaxKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor& x = *call.in[0];
    Tensor& y = call.out[0];
    const bool log_form = call.kind == "LogSoftmax";
    const Around split = around(x.dims, call.attrs.integer("axis"));
    for_each_line(split, [&](int64_t o, int64_t i) {
      T highest = -std::numeric_limits<T>::infinity(), sum = 0;
      for (int64_t a = 0; a < split.axis; ++a)
        highest = std::max(highest, get<T>(x, split.at(o, a, i)));
      for (int64_t a = 0; a < split.axis; ++a)
        sum += std::exp(get<T>(x, split.at(o, a, i)) - highest);
      for (int64_t a = 0; a < split.axis; ++a) {
        const T shifted = get<T>(x, split.at(o, a, i)) - highest;
        set<T>(y, split.at(o, a, i), log_form ? shifted - std::log(sum) : std::exp(shifted) / sum);
      }
    });
  }
};

struct SoftmaxGradKernel {
  template <class T>
  static void run(Call& call) {
    const Tensor &dy = *call.in[0], &y = *call.in[1];
    const bool log_form = call.kind == "LogSoftmaxGrad";
    const Around split = around(y.dims, call.attrs.integer("axis"));
    for_each_line(split, [&](int64_t o, int64_t i) {
      T sum = 0;
      for (int64_t a = 0; a < split.axis; ++a) {
        const int64_t e = split.at(o, a, i);
        sum += log_form ? get<T>(dy, e) : get<T>(dy, e) * get<T>(y, e);
      }
      for (int64_t a = 0; a < split.axis; ++a) {
        const int64_t e = split.at(o, a, i);
        const T g = get<T>(dy, e), p = get<T>(y, e);
        set<T>(call.out[0], e, log_form ? g - std::exp(p) * sum : p * (g - sum));
      }
    });
  }
};

}  // namespace

void add_norm(KernelTable& table) {
  table["BatchNormTrain"] = kernel<BatchNormTrainKernel>();
  table["BatchNormInference"] = kernel<BatchNormInferenceKernel>();
  table["BatchNormGrad"] = kernel<BatchNormGradKernel>();
  for (const char* kind : {"BatchMean", "BatchVariance"})
    table[kind] = kernel<BatchStatisticKernel>();
  table["BatchNormGradSums"] = kernel<BatchNormGradSumsKernel>();
  table["BatchNormGradData"] = kernel<BatchNormGradDataKernel>();
  table["LayerNorm"] = kernel<LayerNormKernel>();
  table["LayerNormGrad"] = kernel<LayerNormGradKernel>();
  table["RmsNorm"] = kernel<RmsNormKernel>();
  table["RmsNormGrad"] = kernel<RmsNormGradKernel>();
  for (const char* kind : {"Softmax", "LogSoftmax"}) table[kind] = kernel<SoftmaxKernel>();
  for (const char* kind : {"SoftmaxGrad", "LogSoftmaxGrad"})
    table[kind] = kernel<SoftmaxGradKernel>();
}

}  // namespace lowtide::ref
