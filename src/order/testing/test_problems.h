// Problems for the tests of this folder: random small ones with every feature, and large ones of
// known shapes.
#pragma once

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "plan/schedule_problem.h"

namespace lowtide::order {

// What a random problem may hold.
struct RandomShape {
  int64_t min_ops = 6, max_ops = 13;
  int64_t max_bytes = 9;      // sizes are 0 to this
  int64_t window = 100;       // readers lie at most this far after the producer
  double reader_rate = 0.25;  // chance that an op in the window reads a value
  double extra_value_rate = 0.2;
  double output_rate = 0.1;
  double workspace_rate = 0.2;
  double in_place_rate = 0.4;
  double control_rate = 0.03;
  double source_rate = 0;  // chance that an op waits for nothing
};

class ProblemMaker {
 public:
  plan::SchedOpId op(int64_t workspace = 0) {
    plan::SchedOp made;
    made.workspace_bytes = workspace;
    return problem.ops.push_back(std::move(made));
  }
  plan::SchedValueId value(plan::SchedOpId producer, int64_t bytes, bool is_output = false) {
    plan::SchedValue made;
    made.producer = producer;
    made.bytes = bytes;
    made.is_output = is_output;
    return problem.values.push_back(std::move(made));
  }
  // Calls must come with ascending readers.
  void read(plan::SchedOpId reader, plan::SchedValueId value) {
    auto& readers = problem.values[value].readers;
    if (readers.empty() || readers.back() < reader) readers.push_back(reader);
  }
  plan::ScheduleProblem problem;
};

inline plan::ScheduleProblem random_problem(const RandomShape& shape, Rng& rng) {
  ProblemMaker make;
  const int64_t n = rng.between(shape.min_ops, shape.max_ops);
  for (int64_t i = 0; i < n; ++i)
    make.op(rng.uniform() < shape.workspace_rate ? rng.between(0, shape.max_bytes) : 0);
  std::vector<char> source(static_cast<size_t>(n), 0);
  if (shape.source_rate > 0)
    for (char& flag : source) flag = rng.uniform() < shape.source_rate;
  for (plan::SchedOpId producer : make.problem.ops.ids()) {
    const int64_t count = rng.uniform() < shape.extra_value_rate ? rng.between(0, 2) : 1;
    for (int64_t k = 0; k < count; ++k) {
      const auto value =
          make.value(producer, rng.between(0, shape.max_bytes), rng.uniform() < shape.output_rate);
      const int64_t last = std::min<int64_t>(n - 1, producer.index() + shape.window);
      for (int64_t reader = producer.index() + 1; reader <= last; ++reader)
        if (!source[static_cast<size_t>(reader)] && rng.uniform() < shape.reader_rate)
          make.read(plan::SchedOpId(static_cast<size_t>(reader)), value);
    }
  }
  for (plan::SchedOpId op : make.problem.ops.ids())
    for (plan::SchedValueId in : make.problem.values.ids())
      for (plan::SchedValueId out : make.problem.values.ids()) {
        const auto& readers = make.problem.values[in].readers;
        if (make.problem.values[out].producer == op && rng.uniform() < shape.in_place_rate &&
            std::binary_search(readers.begin(), readers.end(), op))
          make.problem.in_place.push_back({op, in, out});
      }
  for (int64_t a = 0; a < n; ++a)
    for (int64_t b = a + 1; b < std::min(n, a + shape.window + 1); ++b)
      if (!source[static_cast<size_t>(b)] && rng.uniform() < shape.control_rate)
        make.problem.control.emplace_back(static_cast<size_t>(a), static_cast<size_t>(b));
  make.problem.resident_bytes = rng.between(0, 5);
  return std::move(make.problem);
}

// Makes sums in any order of some values: all readers but the last add to one, in any order, and
// the last reads what they have made.
inline void add_sums(plan::ScheduleProblem& problem, double rate, Rng& rng) {
  for (plan::SchedValue& value : problem.values) {
    if (value.readers.size() < 3 || rng.uniform() >= rate) continue;
    value.writers.assign(value.readers.begin(), value.readers.end() - 1);
    for (const plan::SchedOpId writer : value.writers)
      problem.control.emplace_back(writer, value.readers.back());
  }
}

// A training step of a chain of layers: forward ops keep activations; the backward of layer i makes
// the input gradient and, as an op of its own, the weight gradient, which one update op consumes.
// Updates come last, as frameworks run them.
inline plan::ScheduleProblem mlp_training(size_t layers, int64_t activation, int64_t weight) {
  ProblemMaker make;
  std::vector<plan::SchedValueId> acts;
  for (size_t i = 0; i <= layers; ++i) {
    const auto op = make.op();
    if (i > 0) make.read(op, acts.back());
    acts.push_back(make.value(op, activation + static_cast<int64_t>(i % 7)));
  }
  auto grad = make.value(make.op(), activation);
  make.read(make.problem.values[grad].producer, acts.back());
  std::vector<plan::SchedValueId> weight_grads;
  for (size_t i = layers; i-- > 0;) {
    const auto weight_op = make.op();
    make.read(weight_op, acts[i]);
    make.read(weight_op, grad);
    weight_grads.push_back(make.value(weight_op, weight + static_cast<int64_t>(i % 5) * 3));
    const auto input_op = make.op();
    make.read(input_op, acts[i]);
    make.read(input_op, grad);
    grad = make.value(input_op, activation + static_cast<int64_t>(i % 7));
  }
  for (const auto& w : weight_grads) {
    const auto update = make.op(weight / 4);
    make.read(update, w);
    make.value(update, 0);
  }
  return std::move(make.problem);
}

// Transformer-like training: per block q, k, v, attention, projection and a two-layer MLP with
// residual adds; the backward mirrors it with separate input and weight gradients; element-wise ops
// may run in place.
inline plan::ScheduleProblem transformer_training(size_t blocks, int64_t hidden, int64_t weight) {
  ProblemMaker make;
  struct Layer {
    plan::SchedValueId in, out;
    bool has_weight;
  };
  std::vector<Layer> tape;
  const auto apply = [&](std::vector<plan::SchedValueId> inputs, int64_t bytes, bool has_weight) {
    const auto op = make.op(bytes / 8);
    for (const auto& in : inputs) make.read(op, in);
    const auto out = make.value(op, bytes);
    for (const auto& in : inputs) tape.push_back({in, out, has_weight && in == inputs[0]});
    if (!has_weight && make.problem.values[inputs[0]].bytes == bytes)
      make.problem.in_place.push_back({op, inputs[0], out});
    return out;
  };
  auto x = make.value(make.op(), hidden);
  for (size_t b = 0; b < blocks; ++b) {
    const auto norm = apply({x}, hidden, false);
    const auto q = apply({norm}, hidden, true);
    const auto k = apply({norm}, hidden, true);
    const auto v = apply({norm}, hidden, true);
    const auto scores = apply({q, k}, 2 * hidden, false);
    const auto soft = apply({scores}, 2 * hidden, false);
    const auto mixed = apply({soft, v}, hidden, false);
    x = apply({x, apply({mixed}, hidden, true)}, hidden, false);
    const auto up = apply({apply({x}, hidden, false)}, 4 * hidden, true);
    x = apply({x, apply({apply({up}, 4 * hidden, false)}, hidden, true)}, hidden, false);
  }
  std::vector<std::vector<plan::SchedValueId>> grads(make.problem.values.size());
  const auto loss = make.op();
  make.read(loss, x);
  grads[x.index()].push_back(make.value(loss, hidden));
  std::vector<plan::SchedValueId> weight_grads;
  for (size_t i = tape.size(); i-- > 0;) {
    const Layer layer = tape[i];
    auto& out_grads = grads[layer.out.index()];
    while (out_grads.size() > 1) {  // sum the gradients of all uses
      const auto add = make.op();
      const auto a = out_grads[out_grads.size() - 2], b = out_grads.back();
      make.read(add, a);
      make.read(add, b);
      out_grads.resize(out_grads.size() - 2);
      const auto sum = make.value(add, make.problem.values[layer.out].bytes);
      make.problem.in_place.push_back({add, a, sum});
      out_grads.push_back(sum);
    }
    const auto input_op = make.op();
    make.read(input_op, layer.in);
    make.read(input_op, out_grads[0]);
    grads[layer.in.index()].push_back(make.value(input_op, make.problem.values[layer.in].bytes));
    if (!layer.has_weight) continue;
    const auto weight_op = make.op();
    make.read(weight_op, layer.in);
    make.read(weight_op, out_grads[0]);
    weight_grads.push_back(make.value(weight_op, weight));
  }
  for (const auto& w : weight_grads) {
    const auto update = make.op();
    make.read(update, w);
  }
  std::stable_sort(make.problem.in_place.begin(), make.problem.in_place.end(),
                   [](const auto& a, const auto& b) { return a.op < b.op; });
  return std::move(make.problem);
}

// A training step of convolutions over weights that are kept in another layout than the one they
// are used in: before each use, forward and for the input gradient, a conversion makes a copy that
// one op reads; the weight gradient is converted back before its update; and the update, which is
// in place, waits for all that read the weight. Conversions wait for nothing. Sizes are random.
inline plan::ScheduleProblem converted_weights_training(size_t layers, int64_t activation,
                                                        int64_t weight, Rng& rng) {
  ProblemMaker make;
  struct Layer {
    plan::SchedValueId in, out;
    plan::SchedOpId conversion;
    int64_t weight;
  };
  std::vector<Layer> tape;
  auto x = make.value(make.op(), rng.between(1, activation));
  for (size_t i = 0; i < layers; ++i) {
    Layer layer{x, {}, make.op(), rng.between(1, weight)};
    const auto converted = make.value(layer.conversion, layer.weight);
    const auto op = make.op(rng.between(0, weight / 4));
    make.read(op, x);
    make.read(op, converted);
    layer.out = x = make.value(op, rng.between(1, activation));
    tape.push_back(layer);
  }
  const auto loss = make.op();
  make.read(loss, x);
  auto grad = make.value(loss, make.problem.values[x].bytes);
  make.problem.in_place.push_back({loss, x, grad});
  std::vector<std::pair<plan::SchedValueId, std::vector<plan::SchedOpId>>> updates;
  for (size_t i = layers; i-- > 0;) {
    const Layer& layer = tape[i];
    std::vector<plan::SchedOpId> users{layer.conversion};
    const auto out_grad = grad;
    if (i > 0) {
      users.push_back(make.op());
      const auto converted = make.value(users.back(), layer.weight);
      const auto op = make.op();
      make.read(op, out_grad);
      make.read(op, converted);
      grad = make.value(op, make.problem.values[layer.in].bytes);
    }
    const auto op = make.op(rng.between(0, weight / 4));
    make.read(op, layer.in);
    make.read(op, out_grad);
    updates.emplace_back(make.value(op, layer.weight), users);
  }
  for (const auto& [gradient, users] : updates) {
    const auto back = make.op();
    make.read(back, gradient);
    const auto row_major = make.value(back, make.problem.values[gradient].bytes);
    const auto update = make.op();
    make.read(update, row_major);
    for (plan::SchedOpId user : users) make.problem.control.emplace_back(user, update);
  }
  return std::move(make.problem);
}

// A random graph in which every op reads `fan_in` of the `window` values made before it.
inline plan::ScheduleProblem random_dag(size_t ops, size_t window, size_t fan_in, Rng& rng) {
  ProblemMaker make;
  for (size_t i = 0; i < ops; ++i) {
    const auto op = make.op();
    for (size_t k = 0; k < fan_in && i > 0; ++k)
      make.read(op, plan::SchedValueId(i - 1 - rng.below(std::min(i, window))));
    make.value(op, rng.between(1, 20));
  }
  return std::move(make.problem);
}

}  // namespace lowtide::order
